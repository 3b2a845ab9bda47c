"""The format `embedbroker`: what Spark asks for readers and writers.

Responsible for nothing but leading there; options are checked by those who take them. Imports only what Spark needs to
know that the format exists, because every process that looks for data sources loads it.
"""

from __future__ import annotations

from pyspark.sql.datasource import DataSource

from ._options import SourceOptions

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
