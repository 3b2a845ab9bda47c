"""A stream from the queue `orders` to the queue `results`, with faults on both sides; and a driver that runs one.

As a program, in a separate process, it runs until everything is done, or until it is killed. Its arguments are a JSON
object: `url`, `folder` (with `checkpoint` and `faults`), `source` (options), and `settings` of the Spark. Each file of
`faults` with `kill` or `stop` gets which processes are this driver's.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tests.pipeline.conftest import make_spark
from tests.pipeline.faults import FaultyDataSource

# Batches of so many rows, in two partitions, of which half a partition is more than one branch.
ROWS_PER_TRIGGER, ROWS_PER_BRANCH = 40, 8
SOURCE = {"queue": "orders", "columns": "body", "maxRowsPerTrigger": str(ROWS_PER_TRIGGER), "minPartitions": "2"}
SINK = {"queue": "results", "bodyType": "bytes", "rowsPerBranch": str(ROWS_PER_BRANCH)}


def begin(spark: SparkSession, url: str, folder: Path, source: Mapping[str, str]) -> StreamingQuery:
    """Read what is there, and end."""
    spark.dataSource.register(FaultyDataSource)
    faults = str(folder / "faults")
    rows = spark.readStream.format("faulty").options(url=url, faults=faults, **{**SOURCE, **source}).load()
    writer = rows.writeStream.format("faulty").options(url=url, faults=faults, **SINK)
    return writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()


def main() -> None:
    given = json.loads(sys.argv[1])
    folder = Path(given["folder"])
    for fault in (folder / "faults").iterdir():
        if fault.suffix != ".met" and fault.read_text() in ("kill", "stop"):
            fault.write_text(f"{fault.read_text()} {os.getpgid(0)}")
    spark = make_spark(**given["settings"])
    begin(spark, given["url"], folder, given["source"]).awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
