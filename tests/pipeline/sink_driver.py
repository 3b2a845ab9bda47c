"""A driver in a process of its own: one stream of files into a queue, until none is left. Run it as a program.

Its arguments are a JSON object: `url`, `folder` (with `in`, `checkpoint` and `faults`), and `settings` of the Spark.
Each file of `faults` that says `kill` is told which processes are this driver's.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from tests.pipeline.conftest import make_spark
from tests.pipeline.sink_faults import FaultyDataSource


def main() -> None:
    given = json.loads(sys.argv[1])
    folder = Path(given["folder"])
    for fault in (folder / "faults").iterdir():
        if fault.suffix != ".met" and fault.read_text() == "kill":
            fault.write_text(f"kill {os.getpgid(0)}")
    spark = make_spark(**given["settings"])
    spark.dataSource.register(FaultyDataSource)
    lines = spark.readStream.option("maxFilesPerTrigger", "2").text(str(folder / "in"))
    query = (
        lines.withColumnRenamed("value", "body")
        .writeStream.format("faulty")
        .options(url=given["url"], queue="q", bodyType="bytes", faults=str(folder / "faults"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
