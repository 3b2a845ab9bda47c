"""The demo's queries while they run: started, watched, drained, stopped. Every call here blocks on Spark's Java.

Responsible for their progress. Does not depend on brokers, and on what the demo does to them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import define, frozen

from .._failure import Refused
from ._orders import Total
from ._plan import DemoPlan
from ._query import publish, read_orders, sum_up

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

__all__ = ["Batch", "Queries"]


@frozen
class Batch:
    """A batch that has ended: its query, how many rows it read, and when it was, in seconds since 1970."""

    publishes: bool
    rows: int
    began: float
    ended: float


@define(eq=False)
class Queries:
    """The two queries; ``folder`` holds the Parquet between them."""

    spark: SparkSession
    folder: Path
    _running: tuple[StreamingQuery, ...] = ()
    _seen: tuple[int, int] = (-1, -1)

    def start(self, plan: DemoPlan, url: str) -> None:
        """Start both queries, and return when both wait for rows."""
        checkpoints = plan.directory / "checkpoints"
        with _explained():
            orders = read_orders(self.spark, url, plan.batch_rows)
            # One after the other: the second must find that its folder is written by a query.
            self._running += (sum_up(orders, self.folder, checkpoints),)
            self._running += (publish(self.spark, url, self.folder, checkpoints),)

    def new_batches(self) -> list[Batch]:
        """Return the batches that have ended since the last call.

        Raises:
            Refused: a query has failed.
        """
        found: list[Batch] = []
        seen = list(self._seen)
        with _explained():
            for number, query in enumerate(self._running):
                problem = query.exception()
                if problem is not None:
                    raise Refused(f"Spark: {_reason(problem)}")
                for progress in query.recentProgress:
                    # A trigger without rows repeats the number of the batch that comes next.
                    if progress["batchId"] > seen[number] and progress["numInputRows"]:
                        seen[number] = progress["batchId"]
                        began = datetime.fromisoformat(progress["timestamp"]).timestamp()
                        ended = began + progress["durationMs"]["triggerExecution"] / 1000
                        found.append(Batch(bool(number), progress["numInputRows"], began, ended))
        self._seen = seen[0], seen[1]
        return found

    def drain(self) -> None:
        """Wait until both have processed all that was sent, and the first has released its queue's messages."""
        with _explained():
            for query in self._running:
                query.processAllAvailable()

    def stop(self) -> None:
        """Stop both queries. A pending `drain` returns, too."""
        with _explained():
            for query in self._running:
                query.stop()

    def totals(self) -> list[Total]:
        """Return the rows of the Parquet files."""
        with _explained():
            return [Total(*row) for row in self.spark.read.parquet(str(self.folder)).select(*Total._fields).collect()]


@contextmanager
def _explained() -> Iterator[None]:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        try:
            yield
        except PySparkException as error:
            # Its text comes from Java, too.
            raise Refused(f"Spark: {_reason(error)}") from None
    except (Py4JError, ConnectionError):
        raise Refused("Spark: its Java has ended") from None


def _reason(error: Exception) -> str:
    """Return one line of an error: that of a source or a sink stands at the end of a traceback."""
    lines = str(error).strip().splitlines()
    ours = [line.strip() for line in lines if line.startswith(("embedbroker.", "embedclient."))]
    return ours[-1] if ours else lines[0]
