"""Streaming queries of tests: read what is there, write it to Parquet, and say what came out."""

from __future__ import annotations

from pathlib import Path

from attrs import frozen
from pyspark.sql import DataFrame, SparkSession

from embedbroker.pipeline._cursor_source import CURSOR
from embedbroker.pipeline._link import Link
from embedbroker.pipeline._options import ConnectionOptions
from embedbroker.pipeline._services import Services

__all__ = ["Query", "acknowledged_up_to", "services_of"]


@frozen
class Query:
    """A query from queues to a folder, with its checkpoint: runs as often as wanted."""

    spark: SparkSession
    url: str
    folder: Path
    options: dict[str, str]

    def frame(self) -> DataFrame:
        """The stream."""
        reader = self.spark.readStream.format("embedbroker").options(url=self.url, columns="queue,position,body")
        return reader.options(**self.options).load()

    def run(self) -> None:
        """Read what is there now, and end."""
        query = (
            self.frame()
            .writeStream.format("parquet")
            .option("path", str(self.folder / "rows"))
            .option("checkpointLocation", str(self.folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination()
        finally:
            query.stop()

    def rows(self) -> list[tuple[str, int, bytes]]:
        """What the sink has: queue, position and body, in order."""
        path = self.folder / "rows"
        found = self.spark.read.parquet(str(path)).collect() if path.exists() else []
        return sorted((row["queue"], row["position"] or 0, bytes(row["body"]).strip()) for row in found)

    def bodies(self) -> list[bytes]:
        """The bodies alone, in the order of their positions."""
        return [body for _, _, body in self.rows()]


def services_of(url: str) -> Services:
    """The services of a broker, for a test that plays the part of another query."""
    return Services(Link(ConnectionOptions(url)))


def acknowledged_up_to(url: str, queue: str, owner: str) -> int:
    """The position of the cursor, by opening it in the name of another query once its lease is over."""
    found = services_of(url).ask("cursor.open", queue=queue, cursor=CURSOR, owner=owner, lease_ms=1, take_over=True)
    position = found["position"]
    assert isinstance(position, int)
    return position
