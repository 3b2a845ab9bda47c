"""The source of the format `embedbroker`, in a driver that is killed at each of its calls once, as flag files say.

Also a program: `python -m tests.pipeline.faulty URL FOLDER` runs a query over it until it is killed, or to its end.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from embedbroker.pipeline import EmbedbrokerDataSource
from embedbroker.pipeline._arrow_schema import arrow_schema
from embedbroker.pipeline._options import SourceOptions
from embedbroker.pipeline._source_stream import StreamReader

POINTS = ("latestOffset", "partitions", "sink", "commit")
FLAGS = "EMBEDBROKER_TEST_FLAGS"
ROWS_PER_TRIGGER = 40


def reached(point: str, pid: int) -> None:
    """Kill a process at each point once: its flag is there before anything dies."""
    flag = Path(os.environ[FLAGS]) / point
    if not flag.exists():
        flag.touch()
        os.kill(pid, signal.SIGKILL)


class FaultyReader(StreamReader):
    """Each call is made, and then the driver may die before Spark hears of it."""

    def latestOffset(self, start: dict[str, object], limit: object) -> dict[str, object]:
        found = super().latestOffset(start, limit)
        reached("latestOffset", os.getppid())
        return found

    def partitions(self, start: dict[str, object], end: dict[str, object]) -> Sequence[InputPartition]:
        found = super().partitions(start, end)
        reached("partitions", os.getppid())
        return found

    def commit(self, end: dict[str, object]) -> None:
        super().commit(end)
        reached("commit", os.getppid())


class FaultySource(EmbedbrokerDataSource):
    """The same format under another name."""

    @classmethod
    def name(cls) -> str:
        return "faulty"

    def streamReader(self, schema: StructType) -> StreamReader:
        options = SourceOptions.parse(self.options)
        return FaultyReader(options, arrow_schema(schema, options))


def run(url: str, folder: Path) -> None:
    """A query from the queue `orders` to Parquet: a folder for each batch, which a batch run again overwrites."""
    from tests.pipeline.conftest import make_spark

    def write(batch: DataFrame, number: int) -> None:
        batch.write.mode("overwrite").parquet(str(folder / "rows" / f"batch={number}"))
        reached("sink", spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid())

    spark = make_spark()
    spark.dataSource.register(FaultySource)
    options = {
        "url": url,
        "queue": "orders",
        "columns": "position,body",
        "maxRowsPerTrigger": str(ROWS_PER_TRIGGER),
        "leaseMs": "2000",
    }
    stream = spark.readStream.format("faulty").options(**options).load()
    writer = stream.writeStream.foreachBatch(write).option("checkpointLocation", str(folder / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    run(sys.argv[1], Path(sys.argv[2]))
