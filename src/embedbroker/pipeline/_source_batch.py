"""`spark.read`: the messages that are in queues now, browsed and left there.

Responsible for the list of these queues and for one browse of each. A queue is one partition: a broker shows it from
its beginning to its end.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from attrs import frozen
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from embedclient.errors import ConnectionLostException, JMSException
from embedclient.wire.core import CoreMessage

from ._broker_connection import BrokerConnection
from ._frames import pack_block
from ._option_reader import OptionError
from ._options import SourceOptions
from ._pushdown import selector_of
from ._queues import matching_queues
from ._rows import RowConverter

__all__ = ["BatchReader", "PushingBatchReader"]

ROWS_PER_BATCH = 10_000
BYTES_PER_BATCH = 4 << 20


@frozen
class QueuePartition(InputPartition):
    """Hold the name of one queue."""

    queue: str


class BatchReader(DataSourceReader):
    """Read queues by browsing them."""

    def __init__(self, options: SourceOptions, schema: pa.Schema) -> None:
        """Check the options. Raises OptionError for options of streams only."""
        of_streams = options.of_streams if options.starting == "earliest" else ("startingOffsets",)
        if of_streams:
            raise OptionError(f"option {of_streams[0]!r} is for streams: a batch reads what is there")
        if options.topic is not None and options.subscription is None:
            raise OptionError("a batch of a topic needs option 'subscription': a topic itself keeps no messages")
        if options.on_parse_error == "dead-letter":
            raise OptionError("onParseError=dead-letter is for streams: a batch leaves queues as they are")
        self._options = options
        self._schema = schema
        self._selectors: list[str] = [] if options.selector is None else [f"({options.selector})"]

    def partitions(self) -> list[InputPartition]:
        """Return one partition per queue."""
        queues = matching_queues(self._options)
        # An empty list would become a partition without a queue.
        return [QueuePartition(queue) for queue in queues] or [QueuePartition("")]

    def read(self, partition: QueuePartition) -> Iterator[pa.RecordBatch]:
        """Yield the messages of a queue, as batches.

        Raises:
            ParseError: a message cannot be parsed, and `onParseError` is fail.
            ConnectionLostException: the client reconnected in the middle, so the browse must begin again.
        """
        if not partition.queue:
            return
        options = self._options
        converter = RowConverter(
            self._schema, form=options.format, on_parse_error=options.on_parse_error, deliveries_ahead=1
        )
        selector = " AND ".join(self._selectors) or None
        session = BrokerConnection.shared(options.connection).session()
        try:
            name = session.name
            consumer = session.create_consumer(partition.queue, filter=selector, browse_only=True)
            while True:
                received = consumer.receive_encoded(ROWS_PER_BATCH, bytes_max=BYTES_PER_BATCH)
                if session.name != name:
                    raise ConnectionLostException("the connection was lost while the queue was shown: it begins again")
                if not received:
                    return
                block = pack_block((0, count, CoreMessage.parse(raw)) for raw, count in received)
                yield converter.convert(block, partition.queue).batch
        finally:
            try:
                session.close()
            except JMSException:  # it was lost with its connection
                pass


class PushingBatchReader(BatchReader):
    """Read queues like `BatchReader`, with filters as selectors.

    Spark rejects this class unless its option allows it.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:
        """Take the filters that selectors can express exactly, and return the others."""
        for found in filters:
            selector = selector_of(found)
            if selector is None:
                yield found
            else:
                self._selectors.append(selector)
