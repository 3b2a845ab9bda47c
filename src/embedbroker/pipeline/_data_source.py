"""The format `embedbroker`: what Spark asks for readers and writers.

Responsible for nothing but leading there; options are checked by those who take them. Imports only what Spark needs to
know that the format exists, because every process that looks for data sources loads it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from ._options import SourceOptions

if TYPE_CHECKING:
    from ._source_batch import BatchReader
    from ._source_stream import StreamReader

__all__ = ["EmbedbrokerDataSource"]


class EmbedbrokerDataSource(DataSource):
    """`spark.read.format("embedbroker")` and its siblings. docs/guide/spark.md has the options."""

    @classmethod
    def name(cls) -> str:
        """The word for `format(...)`."""
        return "embedbroker"

    def schema(self) -> str:
        """The columns that the options ask for.

        Raises:
            OptionError: an option is unknown, wrong, missing or contradicts another.
        """
        return SourceOptions.parse(self.options).schema

    def reader(self, schema: StructType) -> BatchReader:
        """A batch: what is in the queues now. Raises OptionError."""
        from ._arrow_schema import arrow_schema
        from ._source_batch import BatchReader, PushingBatchReader

        options = SourceOptions.parse(self.options)
        kind = PushingBatchReader if options.push_filters else BatchReader
        return kind(options, arrow_schema(schema, options))

    def streamReader(self, schema: StructType) -> StreamReader:
        """A stream: exactly once where the broker can do that. Raises OptionError."""
        from ._arrow_schema import arrow_schema
        from ._source_stream import StreamReader

        options = SourceOptions.parse(self.options)
        return StreamReader(options, arrow_schema(schema, options))
