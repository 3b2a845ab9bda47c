"""The demo's two queries: orders of a queue are added up into Parquet, and the sums become messages.

A user's program would contain the same code. Each of the two reads and writes exactly once, whatever fails between
them. Does not depend on what the sums should be.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ._producer import QUEUE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

__all__ = ["RESULTS", "TOTALS", "publish", "read_orders", "sum_up"]

RESULTS = "totals"
TOTALS = "window bigint, product int, orders bigint, quantity bigint, cents bigint, checksum bigint"
_ORDER = "struct<order: bigint, at: bigint, customer: int, product: int, quantity: int, cents: bigint>"


def read_orders(spark: SparkSession, url: str, rows_per_batch: int) -> DataFrame:
    """Return the queue as a stream, each message once."""
    orders = (
        spark.readStream.format("embedbroker")
        .options(url=url, queue=QUEUE, format="json", jsonSchema=_ORDER, columns="value")
        .options(maxRowsPerTrigger=rows_per_batch, minPartitions=2)
        .load()
    )
    return orders.selectExpr("value.*", "timestamp_millis(value.at) AS time")


def sum_up(orders: DataFrame, folder: Path, checkpoints: Path) -> StreamingQuery:
    """Write a row of Parquet for each product and ten minutes, when no order of that time can come any more."""
    from pyspark.sql import functions as F

    totals = (
        orders.withWatermark("time", "5 minutes")
        .groupBy(F.window("time", "10 minutes"), "product")
        .agg(
            F.count("*").alias("orders"),
            F.sum("quantity").alias("quantity"),
            F.sum("cents").alias("cents"),
            F.sum(F.expr("`order` * 31 + customer")).alias("checksum"),
        )
        .selectExpr("unix_millis(window.start) AS window", "product", "orders", "quantity", "cents", "checksum")
    )
    stream = totals.writeStream.format("parquet").queryName("orders to Parquet")
    return stream.option("path", str(folder)).option("checkpointLocation", str(checkpoints / "totals")).start()


def publish(spark: SparkSession, url: str, folder: Path, checkpoints: Path) -> StreamingQuery:
    """Send what arrives in the folder to a queue: a batch is visible whole and once, or not at all."""
    totals = spark.readStream.schema(TOTALS).parquet(str(folder))
    stream = totals.selectExpr("to_json(struct(*)) AS body").writeStream.format("embedbroker")
    return (
        stream.queryName("Parquet to queue")
        .options(url=url, queue=RESULTS)
        .option("checkpointLocation", str(checkpoints / "published"))
        .trigger(processingTime="2 seconds")
        .start()
    )
