"""Streaming queries of tests: read what is there, write it to Parquet, and say what came out."""

from __future__ import annotations

from pathlib import Path

from attrs import frozen
from pyspark.sql import DataFrame, SparkSession

from embedbroker.pipeline._broker_connection import BrokerConnection
from embedbroker.pipeline._cursor_source import CURSOR
from embedbroker.pipeline._options import ConnectionOptions
from embedbroker.pipeline._services import ServiceRefused, Services

__all__ = ["Query", "end_lease"]


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


def end_lease(url: str, queue: str) -> None:
    """The lease on a queue is over at once, as if time had passed: it is given back in the name of its owner."""
    link = BrokerConnection(ConnectionOptions(url))
    services = Services(link)
    names = {"queue": queue, "cursor": CURSOR}
    try:
        services.call("cursor.open", **names, owner="nobody", lease_ms=1)
    except ServiceRefused as refused:
        services.call("cursor.release", **names, owner=refused.body["owner"])
    finally:
        services.close()
        link.close()
