"""Reading at least once: shared queues and brokers without cursors, by way of a log."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from embedbroker import ThreadedBroker
from embedbroker.pipeline._frames import Block
from embedbroker.pipeline._log_source import LogSource, read_log
from embedbroker.pipeline._offsets import Offset
from embedbroker.pipeline._option_reader import OptionError
from embedbroker.pipeline._options import SourceOptions
from embedbroker.pipeline._services import Services
from embedbroker.pipeline._source_stream import StreamReader
from embedbroker.pipeline._write_ahead_log import WriteAheadLog
from embedclient.blocking import ServerLocator
from tests.pipeline.queues import fill, left_in, numbered, text_message
from tests.pipeline.streams import Query


def options_of(broker: ThreadedBroker, tmp_path: Path, **options: str) -> SourceOptions:
    values = {"url": broker.url, "queue": "orders", "guarantee": "at-least-once", "logLocation": str(tmp_path / "log")}
    return SourceOptions.parse({**values, **options})


def expected(*numbers: int) -> list[bytes]:
    return [str(number).encode() for number in range(*numbers)]


def texts(block: Block) -> list[bytes]:
    return [bytes(block.message(place).body).strip() for place in block.places()]


def bodies(options: SourceOptions, source: LogSource, end: Offset) -> list[bytes]:
    return [text for part in source.partitions(end) for _, block in read_log(options, part) for text in texts(block)]


def test_messages_leave_the_broker_for_the_log_and_the_log_for_the_sink(broker: ThreadedBroker, tmp_path: Path) -> None:
    fill(broker.url, "orders", numbered("orders", range(100)))
    options = options_of(broker, tmp_path)
    source = LogSource(options, "q", None)
    end = source.latest(source.initial(), 60, 0)
    assert [bodies(options, source, end) for _ in range(2)] == [expected(60)] * 2
    assert left_in(broker.url, "orders") == expected(60, 100)
    after = source.latest(end, 60, 0)
    assert bodies(options, source, after) == expected(60, 100)
    assert source.latest(after, 60, 0) is after
    assert WriteAheadLog(str(tmp_path / "log"), "q").files(-1) == []


def test_what_was_logged_and_not_noted_is_in_the_next_batch(broker: ThreadedBroker, tmp_path: Path) -> None:
    fill(broker.url, "orders", numbered("orders", range(10)))
    options = options_of(broker, tmp_path)
    start = LogSource(options, "q", None).initial()
    LogSource(options, "q", None).latest(start, 4, 0)  # and the driver dies
    source = LogSource(options, "q", None)
    assert bodies(options, source, source.latest(start, 0, 0)) == expected(10)


def test_a_batch_of_which_a_block_is_missing_is_refused(broker: ThreadedBroker, tmp_path: Path) -> None:
    fill(broker.url, "orders", numbered("orders", range(10)))
    source = LogSource(options_of(broker, tmp_path), "q", None)
    end = source.latest(source.initial(), 0, 0)
    (file,) = WriteAheadLog(str(tmp_path / "log"), "q").files(-1)
    Path(file.path).unlink()
    with pytest.raises(FileNotFoundError, match="lacks blocks"):
        source.partitions(end)


def test_a_queue_is_shared_with_other_consumers(broker: ThreadedBroker, tmp_path: Path) -> None:
    fill(broker.url, "orders", numbered("orders", range(10)))
    options = options_of(broker, tmp_path)
    source = LogSource(options, "q", None)
    with ServerLocator(broker.url).create_session_factory() as factory, factory.create_session() as session:
        session.start()
        with session.create_consumer("orders", window=0) as consumer:
            start = source.initial()
            first = consumer.receive(5)
            assert first is not None
            end = source.latest(start, 5, 0)
            assert bodies(options, source, end) == expected(1, 6)
            first.acknowledge()
            second = consumer.receive(5)
            assert second is not None
            assert second.body == b"6"


def test_a_selector_takes_its_part_and_says_in_the_log_what_that_means(
    broker: ThreadedBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fill(broker.url, "orders", [text_message("orders", str(number), number=number) for number in range(6)])
    options = SourceOptions.parse(
        {"url": broker.url, "queue": "orders", "selector": "number > 3", "logLocation": str(tmp_path / "log")}
    )
    reader = StreamReader(options, pa.schema([("body", pa.binary())]))
    start = reader.initialOffset()
    first = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert "orders is read at least once" in caplog.text
    assert reader.partitions(start, first) == []
    end = reader.latestOffset(first, reader.getDefaultReadLimit())
    batches = [batch for part in reader.partitions(first, end) for batch in reader.read(part)]
    rows = [row["body"] for batch in batches for row in batch.to_pylist()]
    assert rows == [b"4", b"5"]
    assert len(left_in(broker.url, "orders")) == 4


def test_a_broker_without_services_is_asked_nothing_and_read_by_the_log(
    broker: ThreadedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As a real Artemis: the address of services is not there."""
    monkeypatch.setattr("embedbroker.pipeline._services.SERVICES_ADDRESS", "no.such.services")
    fill(broker.url, "orders", numbered("orders", range(3)))
    asked: list[str] = []
    monkeypatch.setattr(Services, "call", lambda self, operation, **_: asked.append(operation))
    values = {"url": broker.url, "queue": "orders", "logLocation": str(tmp_path / "log")}
    reader = StreamReader(SourceOptions.parse(values), pa.schema([("body", pa.binary())]))
    limit = reader.getDefaultReadLimit()
    end = reader.latestOffset(reader.initialOffset(), limit)
    assert "this broker has no cursors" in caplog.text
    assert end["mode"] == "log"
    assert asked == []
    strict = SourceOptions.parse({"url": broker.url, "queue": "orders", "guarantee": "exactly-once"})
    with pytest.raises(OptionError, match="this broker has no cursors"):
        StreamReader(strict, pa.schema([("body", pa.binary())])).latestOffset(reader.initialOffset(), limit)


def test_a_checkpoint_keeps_its_way_of_reading(broker: ThreadedBroker, tmp_path: Path) -> None:
    fill(broker.url, "orders", numbered("orders", range(3)))
    schema = pa.schema([("body", pa.binary())])
    first = StreamReader(SourceOptions.parse({"url": broker.url, "queue": "orders"}), schema)
    start = first.latestOffset(first.initialOffset(), first.getDefaultReadLimit())
    reader = StreamReader(options_of(broker, tmp_path), schema)
    with pytest.raises(ValueError, match="the checkpoint was written by a source that reads by cursor"):
        reader.latestOffset(start, reader.getDefaultReadLimit())


def test_a_log_needs_a_place(broker: ThreadedBroker) -> None:
    options = SourceOptions.parse({"url": broker.url, "queue": "orders", "selector": "number > 3"})
    for make in (lambda: LogSource(options, "q", None), lambda: StreamReader(options, pa.schema([]))):
        with pytest.raises(OptionError, match="'logLocation' is missing"):
            make()


def test_a_stream_at_least_once_through_spark(spark: SparkSession, broker: ThreadedBroker, tmp_path: Path) -> None:
    fill(broker.url, "orders", numbered("orders", range(500)))
    options = {"queue": "orders", "guarantee": "at-least-once", "logLocation": str(tmp_path / "log")}
    query = Query(spark, broker.url, tmp_path / "query", {**options, "maxRowsPerTrigger": "200"})
    query.run()
    fill(broker.url, "orders", numbered("orders", range(500, 520)))
    query.run()
    assert sorted(query.bodies(), key=int) == expected(520)
    assert left_in(broker.url, "orders") == []
