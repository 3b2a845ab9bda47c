"""A stream of queues that others may share, or of a broker without cursors: at least once.

The process that plans a batch receives messages, writes them to a log, and then acknowledges them; batches are read
from the log. Does not depend on Spark beyond `InputPartition`.

1. It dies before the log has a block: the broker still has the messages.
2. It dies after the log and before the acknowledgement: the broker delivers them again, and they are in two blocks.
   This is why it is at least once; message ids reveal the duplicates.
3. It dies after the acknowledgement, and Spark has recorded no batch. The next run finds the block in the log, and the
   block becomes part of the next batch. It finds the log by the id of the query, so nothing is received before that is
   in the checkpoint: batch 0 is empty.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from attrs import frozen
from pyspark.sql.datasource import InputPartition

from embedclient.blocking import ClientConsumer, ClientSession
from embedclient.errors import TransactionRolledBackException
from embedclient.wire.core import CoreMessage

from ._broker_connection import BrokerConnection
from ._frames import Block, pack_block
from ._offsets import BY_LOG, Offset, Range
from ._options import SourceOptions
from ._queues import matching_queues
from ._write_ahead_log import LogFile, WriteAheadLog, read_log_file

__all__ = ["LogPartition", "LogSource", "read_log"]

_KEY = "log"
ROWS_PER_BLOCK = 10_000
BYTES_PER_BLOCK = 4 << 20
# More than any queue has.
_UNLIMITED = 1 << 62
_log = logging.getLogger("embedbroker.pipeline")


@frozen
class LogPartition(InputPartition):
    """Hold some blocks of the log."""

    paths: tuple[str, ...]


class LogSource:
    """Plan the batches of one run of one query, in the planning process."""

    def __init__(self, options: SourceOptions, query: str, subscription: str | None) -> None:
        """Open the log. Raises OptionError: the option `logLocation` is missing, or another one sets the beginning."""
        options.check_log()
        assert options.log_location is not None
        self._options = options if subscription is None else options.with_queue(subscription)
        self._query = query
        self._subscription = subscription
        self._log = WriteAheadLog(options.log_location, query)
        # Queue: number of messages that may still be received, for the trigger availableNow.
        self._targets: dict[str, int] | None = None

    def initial(self) -> Offset:
        """Return the beginning of a new query: the log is empty."""
        if self._subscription is None:  # it is created when Spark has recorded this
            matching_queues(self._options)
        return Offset(BY_LOG, self._query, self._subscription, {_KEY: Range(0, 0, 0)})

    def fix_targets(self) -> None:
        """Limit reception to the messages present now: for the trigger availableNow."""
        self._targets = {}
        with BrokerConnection.shared(self._options.connection).session() as session:
            for queue in matching_queues(self._options):
                self._targets[queue] = session.query_queue(queue).message_count

    def latest(self, start: Offset, rows_max: int, bytes_max: int) -> Offset:
        """Return the end of the next batch, or `start` itself if there are no new messages. A limit of 0 means none."""
        after = start.ranges[_KEY].until
        self._log.remove_through(after)
        files = self._log.files(after)
        rows = sum(file.rows for file in files)
        if not rows_max or rows < rows_max:
            number = files[-1].number if files else after
            files += self._receive(number, rows_max and rows_max - rows, bytes_max)
        if not files:
            return start
        return start.with_ranges({_KEY: Range(after, files[-1].number, sum(file.rows for file in files))})

    def commit(self, end: Offset) -> None:
        """Remove the blocks that are in the sink. Idempotent."""
        self._log.remove_through(end.ranges[_KEY].until)

    def partitions(self, end: Offset) -> list[LogPartition]:
        """Return the blocks of the batch that ends there, in parallel parts.

        Raises:
            FileNotFoundError: some are missing.
        """
        each = end.ranges[_KEY]
        files = [file for file in self._log.files(each.after) if file.number <= each.until]
        if sum(file.rows for file in files) != each.rows:
            place = f"({each.after}, {each.until}]"
            raise FileNotFoundError(f"the log at {self._options.log_location} lacks blocks of {place}")
        parts = min(len(files), max(self._options.partitions, 1))
        return [LogPartition(tuple(file.path for file in files[part::parts])) for part in range(parts)]

    def close(self) -> None:
        """End the run. Nothing is open between two batches."""

    def _receive(self, number: int, rows_max: int, bytes_max: int) -> list[LogFile]:
        """Receive blocks for the log, up to the limits and to the messages present at the start.

        Without the second limit a fast producer would keep a batch from ending.
        """
        found: list[LogFile] = []
        rows_left, bytes_left = rows_max or _UNLIMITED, bytes_max or _UNLIMITED
        # Closed after each batch: its prefetched messages belong to other readers of the queue.
        with BrokerConnection.shared(self._options.connection).session(acknowledges_at_once=False) as session:
            for queue in matching_queues(self._options):
                there = session.query_queue(queue).message_count
                if self._targets is not None:
                    there = self._targets.get(queue, 0)
                with session.create_consumer(queue, filter=self._filter) as consumer:
                    while there > 0 and rows_left > 0 and bytes_left > 0:
                        received = consumer.receive_encoded(
                            min(there, rows_left, ROWS_PER_BLOCK), bytes_max=min(bytes_left, BYTES_PER_BLOCK)
                        )
                        if not received:
                            break
                        block = pack_block((0, count, CoreMessage.parse(raw)) for raw, count in received)
                        number += 1
                        found.append(self._log.append(number, queue, block))
                        self._let_go(queue, consumer, session)
                        there, rows_left = there - block.count, rows_left - block.count
                        bytes_left -= len(block.data)
                if self._targets is not None:
                    self._targets[queue] = there
        return found

    def _let_go(self, queue: str, consumer: ClientConsumer, session: ClientSession) -> None:
        try:
            consumer.acknowledge_received()
            session.commit()
        except TransactionRolledBackException as error:
            _log.warning("queue %r: messages that are in the log will come again: %s", queue, error)

    @property
    def _filter(self) -> str | None:
        """Return the selector; a subscription has its filter already."""
        return self._options.selector if self._subscription is None else None


def read_log(options: SourceOptions, partition: LogPartition) -> Iterator[tuple[str, Block]]:
    """Yield queues and blocks of a partition, in any process."""
    assert options.log_location is not None
    for path in partition.paths:
        yield read_log_file(options.log_location, path)
