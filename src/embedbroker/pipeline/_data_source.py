"""The format `embedbroker`: what Spark asks for readers and writers.

Responsible for nothing but leading there; options are checked by those who take them. Imports only what Spark needs to
know that the format exists, because every process that looks for data sources loads it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from ._options import SourceOptions

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter
    from pyspark.sql.types import StructType

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

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """For `df.write`.

        Raises:
            OptionError: an option or a column is unknown, wrong, missing or contradicts another.
        """
        from ._sink import BatchWriter
        from ._sink_options import SinkOptions

        return BatchWriter(SinkOptions.parse(self.options), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """For `df.writeStream`. Raises what `writer` does."""
        from ._sink import StreamWriter
        from ._sink_options import SinkOptions

        return StreamWriter(SinkOptions.parse(self.options), schema, overwrite)
