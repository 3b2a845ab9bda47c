"""A broker's journal is audited, and a queue is compared, exported and imported:
everything on this machine.
"""

import os
import sys
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

from embedbroker import EmbeddedBroker
from embedbroker.pipeline import (
    Site,
    audit,
    export_queues,
    import_queues,
    java_home,
    journal_frames,
    reconcile,
    write_audit,
)
from embedclient.blocking import ConnectionFactory


def main(spark: SparkSession, folder: Path) -> None:
    with (
        EmbeddedBroker.in_thread(data_directory=str(folder / "london")) as london,
        EmbeddedBroker.in_thread() as paris,
        ConnectionFactory(london.url).connect() as connection,
        connection.session() as session,
    ):
        producer = session.create_producer("orders")
        for number in range(100):
            producer.send(f"order {number}")

        # Of the broker that runs: nothing is locked.
        result = audit(spark, [folder / "london"])
        for line in result.lines():
            print(line)
        write_audit(result, folder / "report")
        result.close()

        frames = journal_frames(spark, [folder / "london"])
        print("records of messages:", frames.messages.where("queue = 'orders'").count())

        sites = (
            Site.of(london.url, queues=["orders"]),
            Site.of(paris.url, queues=["orders"]),
        )
        print("they differ by", reconcile(spark, *sites).count())
        export_queues(spark, ["orders"], folder / "export", url=london.url)
        import_queues(spark, folder / "export", url=paris.url)
        print("they differ by", reconcile(spark, *sites).count())


if __name__ == "__main__":
    os.environ.setdefault("JAVA_HOME", str(java_home()))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with (
        SparkSession.builder.master("local[2]").getOrCreate() as session,
        tempfile.TemporaryDirectory() as directory,
    ):
        main(session, Path(directory))
