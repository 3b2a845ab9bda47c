"""A queue lands in Parquet, each message once. A broker, a producer and Spark in one:
needs `embedbroker[spark]`.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from embedbroker import EmbeddedBroker
from embedbroker.pipeline import java_home
from embedclient import Queue
from embedclient.blocking import ConnectionFactory

os.environ.update(JAVA_HOME=str(java_home()), PYSPARK_PYTHON=sys.executable)

from pyspark.sql import SparkSession  # it looks for Java when it starts

ORDERS = 1_000


def send_orders(url: str) -> None:
    with (
        ConnectionFactory(url).connect() as connection,
        connection.session() as session,
    ):
        producer = session.create_producer(Queue("orders"))
        for number in range(ORDERS):
            producer.send(f'{{"id": {number}, "amount": {number % 7}}}')


def land(spark: SparkSession, url: str, folder: Path) -> None:
    orders = (
        spark.readStream.format("embedbroker")
        .option("url", url)
        .option("queue", "orders")
        .option("format", "json")
        .option("jsonSchema", "struct<id: bigint, amount: bigint>")
        .option("columns", "timestamp,value")
        .option("maxRowsPerTrigger", 400)
        .load()
    )
    query = (
        orders.selectExpr("timestamp", "value.*")
        .writeStream.format("parquet")
        .option("path", str(folder / "orders"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def main() -> None:
    folder = Path(tempfile.mkdtemp())
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    with EmbeddedBroker.in_thread(data_directory=str(folder / "broker")) as broker:
        send_orders(broker.url)
        land(spark, broker.url, folder)
    rows = spark.read.parquet(str(folder / "orders"))
    print(
        f"{rows.count()} rows, {rows.distinct().count()} of them different, "
        f"in {folder / 'orders'}"
    )
    spark.stop()


if __name__ == "__main__":
    main()
