"""The format `embedbroker`: Spark's entry point for readers and writers.

Responsible only for leading there; the readers and writers check their options. Imports only what Spark needs to find
the format, because every process that looks for data sources loads it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from ._options import SourceOptions

if TYPE_CHECKING:
    from ._sink import BatchWriter, StreamWriter
    from ._source_batch import BatchReader
    from ._source_stream import StreamReader

__all__ = ["EmbedbrokerDataSource"]


class EmbedbrokerDataSource(DataSource):
    """`spark.read.format("embedbroker")` and its siblings. docs/guide/spark.md has the options."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format(...)`."""
        return "embedbroker"

    def schema(self) -> str:
        """Return the columns that the options select.

        Raises:
            OptionError: an option is unknown, wrong, missing or contradicts another.
        """
        return SourceOptions.parse(self.options).schema

    def reader(self, schema: StructType) -> BatchReader:
        """Return the reader of a batch: the messages that are in the queues now.

        Args:
            schema: columns of the frame.

        Raises:
            OptionError: an option or a column is unknown, wrong, missing or contradicts another.
        """
        from ._arrow_schema import arrow_schema
        from ._source_batch import BatchReader, PushingBatchReader

        options = SourceOptions.parse(self.options)
        kind = PushingBatchReader if options.push_filters else BatchReader
        return kind(options, arrow_schema(schema, options))

    def streamReader(self, schema: StructType) -> StreamReader:
        """Return the reader of a stream: exactly once where the broker supports it.

        Args:
            schema: columns of the frame.

        Raises: as `reader`.
        """
        from ._arrow_schema import arrow_schema
        from ._source_stream import StreamReader

        options = SourceOptions.parse(self.options)
        return StreamReader(options, arrow_schema(schema, options))

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """Return the writer for `df.write`.

        Args:
            schema: columns of the frame.
            overwrite: True for the mode `overwrite`, which is refused: a queue is only appended to.

        Raises:
            OptionError: an option or a column is unknown, wrong, missing or contradicts another.
        """
        from ._sink import BatchWriter
        from ._sink_options import SinkOptions

        return BatchWriter(SinkOptions.parse(self.options), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        """Return the writer for `df.writeStream`.

        Args:
            schema: columns of the frame.
            overwrite: True for the output mode `complete`, which is refused, too.

        Raises: as `writer`.
        """
        from ._sink import StreamWriter
        from ._sink_options import SinkOptions

        return StreamWriter(SinkOptions.parse(self.options), schema, overwrite)
