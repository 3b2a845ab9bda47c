"""`spark.readStream`: Spark's calls to a streaming source, and the choice between the two ways of reading.

Responsible for choosing the way once, when a query is new: the offsets in its checkpoint contain it from then on. Does
not depend on how either way works.

One instance is created in the process that plans the query, and another one whose `read` travels to the workers. So
nothing is opened before it is needed, and `read` uses only options.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from uuid import uuid4

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from ._broker_connection import BrokerConnection
from ._cursor_source import CursorPartition, CursorSource, read_range
from ._dead_letters import DeadLetters
from ._frames import Block
from ._log_source import LogPartition, LogSource, read_log
from ._offsets import BY_CURSOR, BY_LOG, NOTHING_YET, Offset, OffsetError
from ._option_reader import OptionError
from ._options import SourceOptions
from ._rows import RowConverter
from ._services import Services
from ._subscription import ensure_subscription, subscription_name

__all__ = ["StreamReader"]

_log = logging.getLogger("embedbroker.pipeline")


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Read queues as a stream."""

    def __init__(self, options: SourceOptions, schema: pa.Schema) -> None:
        """Check the options.

        Raises:
            OptionError: an option is for batches only, or reading at least once lacks an option.
        """
        if options.push_filters:
            raise OptionError("option 'pushFilters' is for a batch: Spark hands filters to no stream")
        if options.selector is not None and options.queue is not None:
            options.check_at_least_once("selector")
        self._options = options
        self._schema = schema
        self._source: CursorSource | LogSource | None = None
        self._is_available_now = False

    # Called in the planning process

    def initialOffset(self) -> dict[str, object]:
        """Return the offset before any message. It is the same each time: Spark calls again until batch 0 is done."""
        return dict(NOTHING_YET)

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit in the options. If they limit both rows and bytes, `latestOffset` applies both."""
        if self._options.rows_per_trigger is not None:
            return ReadMaxRows(self._options.rows_per_trigger)
        if self._options.bytes_per_trigger is not None:
            return ReadMaxBytes(self._options.bytes_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """Limit the run to messages present now; later ones belong to the next run."""
        self._is_available_now = True
        if self._source is not None:
            self._source.fix_targets()

    def latestOffset(self, start: dict[str, object], limit: ReadLimit) -> dict[str, object]:
        """Return the end of the next batch; everything up to `start` is acknowledged."""
        if start == NOTHING_YET:
            before = self._begun()
            if self._source is None:
                return before.value
        else:
            before = Offset.parse(start)
        rows, size = 0, 0
        if not isinstance(limit, ReadAllAvailable):
            rows, size = self._options.rows_per_trigger or 0, self._options.bytes_per_trigger or 0
        return self._of(before).latest(before, rows, size).value

    def partitions(self, start: dict[str, object], end: dict[str, object]) -> Sequence[InputPartition]:
        """Return the parts of a batch; none if there is nothing between its ends.

        This is the first call after Spark has recorded a new query's id: its subscription is created here.
        """
        if start == end:
            return []
        last = Offset.parse(end)
        return self._of(last).partitions(last)

    def commit(self, end: dict[str, object]) -> None:
        """Acknowledge the messages that are in the sink."""
        if end != NOTHING_YET:
            last = Offset.parse(end)
            self._of(last).commit(last)

    def stop(self) -> None:
        """End the run. Spark kills the process more often than it calls this: nothing depends on it."""
        if self._source is not None:
            self._source.close()

    def _begun(self) -> Offset:
        """Return the beginning of a new query.

        A run that dies before Spark has recorded this is followed by one with another id, which finds nothing of it. So
        nothing is received before that, and no subscription named after the id is created. Batch 0 is empty there.
        """
        options, query, mode = self._options, str(uuid4()), self._chosen_mode()
        subscription = subscription_name(options, query)
        if mode == BY_LOG:
            return LogSource(options, query, subscription).initial()
        if options.topic is not None and options.subscription is None:
            return Offset(BY_CURSOR, query, subscription, {})
        ensure_subscription(options, subscription)
        return self._opened(mode, query, subscription).initial()

    def _of(self, offset: Offset) -> CursorSource | LogSource:
        if self._source is None:
            self._check_mode(offset)
            ensure_subscription(self._options, offset.subscription)
            self._opened(offset.mode, offset.query, offset.subscription)
        assert self._source is not None
        return self._source

    def _opened(self, mode: str, query: str, subscription: str | None) -> CursorSource | LogSource:
        kind = CursorSource if mode == BY_CURSOR else LogSource
        self._source = kind(self._options, query, subscription)
        if self._is_available_now:
            self._source.fix_targets()
        return self._source

    def _check_mode(self, offset: Offset) -> None:
        wanted = {"exactly-once": BY_CURSOR, "at-least-once": BY_LOG}.get(self._options.guarantee or "", offset.mode)
        if wanted != offset.mode:
            raise OffsetError(
                f"the checkpoint was written by a source that reads by {offset.mode}, and guarantee="
                f"{self._options.guarantee} reads by {wanted}: use another checkpoint"
            )

    def _chosen_mode(self) -> str:
        options = self._options
        if options.guarantee == "at-least-once":
            reason = "guarantee=at-least-once"
        elif options.selector is not None and options.queue is not None:
            reason = "a selector reads a part of a queue, which others may share"
        else:
            services = Services(BrokerConnection.shared(options.connection))
            has_cursors = services.can("cursor.open")
            services.close()
            if has_cursors:
                return BY_CURSOR
            if options.guarantee is not None:
                raise OptionError("guarantee=exactly-once: this broker has no cursors, as a real Artemis has none")
            reason = "this broker has no cursors, as a real Artemis has none"
        _log.warning(
            "%s is read at least once, by way of a log at %s: %s",
            options.queue or options.topic,
            options.log_location,
            reason,
        )
        return BY_LOG

    # Called in workers

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition, as batches. Raises ParseError as `onParseError` requires."""
        options = self._options
        form, way = options.format, options.on_parse_error
        # Messages in a log were received.
        ahead = 0 if isinstance(partition, LogPartition) else 1
        converter = RowConverter(self._schema, form=form, on_parse_error=way, deliveries_ahead=ahead)
        with DeadLetters(options) as dead_letters:
            blocks: Iterator[tuple[str, Block]]
            if isinstance(partition, CursorPartition):
                blocks = ((partition.queue, block) for block in read_range(options, partition))
            else:
                assert isinstance(partition, LogPartition)
                blocks = read_log(options, partition)
            for queue, block in blocks:
                rows = converter.convert(block, queue)
                dead_letters.send(queue, block, rows.poison)
                yield rows.batch
