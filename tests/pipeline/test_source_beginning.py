"""What a new stream leaves behind that dies before Spark has noted its first offset, or is refused: without a Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from embedbroker import ThreadedBroker
from embedbroker.pipeline._broker_connection import BrokerConnection
from embedbroker.pipeline._option_reader import OptionError
from embedbroker.pipeline._options import ConnectionOptions, SourceOptions
from embedbroker.pipeline._services import Services
from embedbroker.pipeline._source_stream import StreamReader
from tests.pipeline.queues import fill, left_in, numbered

Value = dict[str, object]


def reader_of(broker: ThreadedBroker, **options: str) -> StreamReader:
    return StreamReader(SourceOptions.parse({"url": broker.url, **options}), pa.schema([("body", pa.binary())]))


def latest(reader: StreamReader, start: Value | None = None) -> Value:
    return reader.latestOffset(start or reader.initialOffset(), reader.getDefaultReadLimit())


def bodies(reader: StreamReader, start: Value, end: Value) -> list[bytes]:
    batches = [batch for part in reader.partitions(start, end) for batch in reader.read(part)]
    return [bytes(row["body"]).strip() for batch in batches for row in batch.to_pylist()]


def expected(*numbers: int) -> list[bytes]:
    return [str(number).encode() for number in range(*numbers)]


def queues(broker: ThreadedBroker, pattern: str) -> list[str]:
    services = Services(BrokerConnection.shared(ConnectionOptions(broker.url)))
    found = services.call("queue.list", pattern=pattern)["queues"]
    services.close()
    assert isinstance(found, list)
    return [queue["name"] for queue in found]


def test_a_driver_that_dies_before_its_first_note_has_received_nothing(broker: ThreadedBroker, tmp_path: Path) -> None:
    fill(broker.url, "orders", numbered("orders", range(5)))
    options = {"queue": "orders", "guarantee": "at-least-once", "logLocation": str(tmp_path / "log")}
    latest(reader_of(broker, **options))  # and the driver dies
    assert left_in(broker.url, "orders") == expected(5)
    reader = reader_of(broker, **options)
    start = latest(reader)
    assert bodies(reader, reader.initialOffset(), start) == []
    end = latest(reader, start)
    assert bodies(reader, start, end) == expected(5)
    assert left_in(broker.url, "orders") == []
    assert len(list((tmp_path / "log").iterdir())) == 1


@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once"])
def test_a_driver_that_dies_before_its_first_note_leaves_no_subscription(
    broker: ThreadedBroker, tmp_path: Path, guarantee: str
) -> None:
    options = {"topic": "news", "guarantee": guarantee}
    if guarantee == "at-least-once":
        options["logLocation"] = str(tmp_path)
    latest(reader_of(broker, **options))
    assert queues(broker, "news*") == []
    reader = reader_of(broker, **options)
    start = latest(reader)
    # Spark requests the parts of batch 0 when it has noted `start`; after a restart in there it is the first call.
    for run in (reader, reader_of(broker, **options)):
        assert bodies(run, run.initialOffset(), start) == []
        assert queues(broker, "news*") == [start["subscription"]]
    fill(broker.url, "news", numbered("news", range(3)), multicast=True)
    end = latest(reader, start)
    assert bodies(reader, start, end) == expected(3)


def test_a_topic_from_the_latest_has_what_came_since_its_subscription_was_made(broker: ThreadedBroker) -> None:
    reader = reader_of(broker, topic="news", startingOffsets="latest")
    start = latest(reader)
    assert bodies(reader, reader.initialOffset(), start) == []
    assert latest(reader, start) == start
    fill(broker.url, "news", numbered("news", range(3)), multicast=True)
    assert bodies(reader, start, latest(reader, start)) == expected(3)


@pytest.mark.parametrize("option", [{"leaseMs": "5000"}, {"failOnDataLoss": "false"}])
def test_a_selector_on_a_queue_leaves_nothing_to_a_lease(broker: ThreadedBroker, option: dict[str, str]) -> None:
    [name] = option
    with pytest.raises(OptionError, match=f"'{name}' and 'selector' contradict each other: reading at least once"):
        reader_of(broker, queue="orders", selector="x = 1", logLocation="/nowhere", **option)


@pytest.mark.parametrize("subscription", [{}, {"subscription": "readers"}])
@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"guarantee": "exactly-once"}, "this broker has no cursors"),
        ({}, "'logLocation' is missing"),
        ({"startingOffsets": "latest", "logLocation": "/nowhere"}, "begins with the first message delivered"),
    ],
)
def test_a_stream_that_is_refused_leaves_no_subscription(
    broker: ThreadedBroker,
    monkeypatch: pytest.MonkeyPatch,
    subscription: dict[str, str],
    options: dict[str, str],
    error: str,
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("embedbroker.pipeline._services.SERVICES_ADDRESS", "no.such.services")
        with pytest.raises(OptionError, match=error):
            latest(reader_of(broker, topic="news", **subscription, **options))
    assert queues(broker, "news*") + queues(broker, "readers") == []
