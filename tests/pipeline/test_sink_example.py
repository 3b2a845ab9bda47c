"""The guide's examples of the sink do what the guide states."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

from pyspark.sql import SparkSession

from embedbroker import ThreadedBroker
from tests.pipeline.sink_content import content

EXAMPLE = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "spark" / "sink.py"))
ORDERS = [(1, "north", 20.5), (2, "south", 3000.0), (3, "north", 7.0)]
COLUMNS = "id bigint, region string, amount double"


def test_a_day_is_written_once(spark: SparkSession, broker: ThreadedBroker) -> None:
    orders = spark.createDataFrame(ORDERS, COLUMNS).coalesce(1)
    for _ in range(2):
        EXAMPLE["write_day"](orders, broker.url, 20240101)
    assert [json.loads(_text(body))["id"] for body in content(broker.url, "orders.north")] == [1, 3]
    assert [json.loads(_text(body))["id"] for body in content(broker.url, "orders.south")] == [2]


def _text(body: str) -> str:
    """The text of a text message: UTF-16 behind a flag and a length, which are looked at elsewhere."""
    return body.encode()[5:].decode("utf-16-le")


def test_a_stream_publishes_to_a_topic(spark: SparkSession, broker: ThreadedBroker, tmp_path: Path) -> None:
    from embedclient.blocking import ServerLocator
    from embedclient.model import RoutingType

    with ServerLocator(broker.url).create_session_factory() as factory, factory.create_session() as session:
        session.create_queue("orders", "subscription", RoutingType.MULTICAST)
    folder = tmp_path / "in"
    folder.mkdir()
    lines = [json.dumps({"id": id, "region": region, "amount": amount}) for id, region, amount in ORDERS]
    (folder / "orders.json").write_text("\n".join(lines))
    query = EXAMPLE["publish_totals"](spark, broker.url, str(folder), str(tmp_path / "checkpoint"))
    query.awaitTermination()
    assert [json.loads(_text(body))["id"] for body in content(broker.url, "subscription")] == [1, 2, 3]
