"""Rows into queues: a frame once a day, and a stream for as long as it runs."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery


def write_day(orders: DataFrame, url: str, day: int) -> None:
    """Each day once, however often it is written."""
    rows = orders.selectExpr(
        "concat('queue://orders.', region) as destination",
        "to_json(struct(*)) as body",
        "map('amount', cast(amount as string)) as properties",
        "map('amount', 'double') as propertyTypes",
        "cast(if(amount > 1000, 9, 4) as int) as priority",
    )
    (
        rows.write.format("embedbroker")
        .options(
            url=url, writeId="orders", writeVersion=str(day), timeToLiveMs="86400000"
        )
        .mode("append")
        .save()
    )


def publish_totals(
    spark: SparkSession, url: str, folder: str, checkpoint: str
) -> StreamingQuery:
    """What arrives in a folder as JSON, to a topic."""
    orders = spark.readStream.schema("id bigint, region string, amount double").json(
        folder
    )
    return (
        orders.selectExpr("to_json(struct(id, amount)) as body", "region as groupId")
        .writeStream.format("embedbroker")
        .options(url=url, topic="orders", sinkName="totals")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
