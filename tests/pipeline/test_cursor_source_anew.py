"""A checkpoint, and a broker without its journal, or another one, where the one was that gave its positions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from embedbroker import EmbeddedBroker, ThreadedBroker
from embedbroker.pipeline._broker_connection import BrokerConnection
from embedbroker.pipeline._cursor_source import CursorSource, DataLost
from embedbroker.pipeline._offsets import Offset
from embedbroker.pipeline._services import Services
from tests.pipeline.queues import create, fill, left_in, numbered
from tests.pipeline.test_cursor_source import bodies, expected, options_of, source

# Fewer than the position of the checkpoint, and more.
COUNTS = [0, 3, 60]


@pytest.fixture
def wiped() -> Iterator[ThreadedBroker]:
    """What stands in the place of the broker afterwards."""
    with EmbeddedBroker.in_thread() as running:
        create(running.url, "orders")
        yield running


@pytest.fixture
def end(broker: ThreadedBroker) -> Offset:
    """What is in the checkpoint: a batch of 20 messages."""
    fill(broker.url, "orders", numbered("orders", range(20)))
    stream = source(broker)
    return stream.latest(stream.initial(), 0, 0)


def read_on(broker: ThreadedBroker, stream: CursorSource, offset: Offset) -> list[bytes]:
    """All batches behind an offset, each of ten messages at most."""
    found: list[bytes] = []
    while (after := stream.latest(offset, 10, 0)) is not offset:
        assert after.broker == broker.node_id
        assert after.ranges["orders"].rows <= 10
        found += bodies(broker, stream, after)
        offset = after
    return found


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("is_finished", [False, True])
def test_a_checkpoint_of_a_broker_that_lost_its_journal_goes_on_with_what_is_there(
    wiped: ThreadedBroker, end: Offset, count: int, is_finished: bool
) -> None:
    fill(wiped.url, "orders", numbered("orders", range(100, 100 + count)))
    error = "has lost its journal since then" if is_finished else "20 of 20 messages of a batch are gone"
    strict = source(wiped)
    with pytest.raises(DataLost, match=rf"queue 'orders': .*{error}"):
        strict.latest(end, 0, 0) if is_finished else strict.partitions(end)
    assert left_in(wiped.url, "orders") == expected(100, 100 + count)
    # One that dies in front of its first offset, and the next one.
    killed, tolerant = (source(wiped, failOnDataLoss="false") for _ in range(2))
    for stream in (killed, tolerant):
        assert is_finished or bodies(wiped, stream, end) == []
        stream.commit(end)
        stream.latest(end, 10, 0)
    assert read_on(wiped, tolerant, end) == expected(100, 100 + count)


def test_a_broker_that_lost_its_journal_while_the_query_runs_is_read_from_its_beginning(
    broker: ThreadedBroker, wiped: ThreadedBroker, end: Offset, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(wiped.url, "orders", numbered("orders", range(100, 160)))
    call, there = Services.call, Services(BrokerConnection.shared(options_of(wiped).connection))
    for way in ("true", "false"):
        monkeypatch.undo()
        stream = source(broker, failOnDataLoss=way)
        assert stream.latest(end, 10, 0) is end
        # The same address, in real life.
        monkeypatch.setattr(Services, "call", lambda _, *operation, **fields: call(there, *operation, **fields))
        if way == "true":
            with pytest.raises(DataLost, match="has no cursor 'spark'"):
                stream.latest(end, 10, 0)
        else:
            assert read_on(wiped, stream, end) == expected(100, 160)


def test_a_broker_whose_node_id_alone_is_new_has_everything_still(broker: ThreadedBroker, end: Offset) -> None:
    """As one whose lock file was removed, or whose directory was copied."""
    fill(broker.url, "orders", numbered("orders", range(20, 50)))
    other_name = Offset(end.mode, end.query, None, end.ranges, "another-node")
    stream = source(broker)
    assert bodies(broker, stream, other_name) == expected(20)
    assert read_on(broker, stream, other_name) == expected(20, 50)


def test_a_checkpoint_without_a_node_id_goes_on_too(wiped: ThreadedBroker, end: Offset) -> None:
    fill(wiped.url, "orders", numbered("orders", range(100, 105)))
    unnamed = Offset.parse({name: value for name, value in end.value.items() if name != "broker"})
    assert read_on(wiped, source(wiped, failOnDataLoss="false"), unnamed) == expected(100, 105)
