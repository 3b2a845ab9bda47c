"""Branches of tasks, the commit of a batch, and what stays uncommitted, against a broker and without a Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from attrs import frozen

from embedbroker import (
    BrokerConfig,
    EmbeddedBroker,
    HAPolicy,
    Role,
    SharedStoreBackup,
    SharedStorePrimary,
    ThreadedBroker,
)
from embedbroker.pipeline import _services
from embedbroker.pipeline._services import ServiceRefused
from embedbroker.pipeline._sink_broker import connected
from embedbroker.pipeline._sink_commit import abort_batch, begin_write, commit_batch, discard_if_over, sweep
from embedbroker.pipeline._sink_identity import Writing
from embedbroker.pipeline._sink_options import SinkOptions
from embedbroker.pipeline._sink_rows import RowError
from embedbroker.pipeline._sink_services import markers_of
from embedclient.blocking import ServerLocator, XAResource
from embedclient.errors import IllegalStateException
from embedclient.model import Xid
from tests.pipeline.pairs import free_ports
from tests.pipeline.sink_content import batches, content, prepared, task, write

BODIES = [f"row {number}" for number in range(1_000)]
PATIENCE_S = 20.0


def writing(batch: int, run: str = "run-1", query: str = "query-1") -> Writing:
    return Writing(query, "sink", batch, run)


def options_of(url: str, **more: str) -> SinkOptions:
    return SinkOptions.parse({"url": url, "queue": "q", "rowsPerBranch": "300", **more})


@pytest.fixture
def options(broker: ThreadedBroker) -> SinkOptions:
    return options_of(broker.url)


def test_rows_are_seen_when_their_batch_is_committed_in_the_order_of_partitions_and_rows(
    options: SinkOptions, broker: ThreadedBroker
) -> None:
    first = write(options, task(writing(0)), batches(BODIES))
    second = write(options, task(writing(0), 1), batches(["a", "b"]))
    assert (len(first), len(second)) == (4, 1)
    assert content(broker.url, "q") == []
    assert commit_batch(options, writing(0), [*first, *second])
    assert content(broker.url, "q") == [*BODIES, "a", "b"]
    assert prepared(broker.url) == []


def test_a_batch_that_was_committed_before_changes_nothing(options: SinkOptions, broker: ThreadedBroker) -> None:
    assert commit_batch(options, writing(0), write(options, task(writing(0)), batches(["a"])))
    again = write(options, task(writing(0, "run-2")), batches(["a"]))
    assert not commit_batch(options, writing(0, "run-2"), again)
    assert (content(broker.url, "q"), prepared(broker.url)) == (["a"], [])
    next_one = write(options, task(writing(1, "run-2")), batches(["b"]))
    assert commit_batch(options, writing(1, "run-2"), next_one)
    assert content(broker.url, "q") == ["a", "b"]


def test_a_commit_that_is_told_twice_counts_once(options: SinkOptions, broker: ThreadedBroker) -> None:
    branches = write(options, task(writing(0)), batches(["a"]))
    assert commit_batch(options, writing(0), branches)
    assert not commit_batch(options, writing(0), branches)
    assert content(broker.url, "q") == ["a"]


def test_a_batch_without_rows_moves_the_marker(options: SinkOptions) -> None:
    assert write(options, task(writing(4)), batches([])) == []
    assert commit_batch(options, writing(4), [])
    with markers_of(options.connection) as markers:
        assert markers.get(writing(4).marker) == 4


def test_the_marker_of_a_write_without_a_name_is_there_as_long_as_it_lasts(
    options: SinkOptions, broker: ThreadedBroker
) -> None:
    unnamed = Writing("job", "sink", 0, "job", lasts=False)
    begin_write(options, unnamed)
    late = write(options, task(unnamed, 0, 1), batches(["late"]))
    with markers_of(options.connection) as markers, connected(options.connection, xa=True) as session:
        assert not discard_if_over(session.xa_resource, markers, unnamed, late)
        assert commit_batch(options, unnamed, write(options, task(unnamed), batches(["a"])))
        assert markers.get(unnamed.marker) is None
        later = write(options, task(unnamed, 0, 2), batches(["later"]))
        assert prepared(broker.url) == later
        assert discard_if_over(session.xa_resource, markers, unnamed, later)
    assert (content(broker.url, "q"), prepared(broker.url)) == (["a"], [])


def test_an_attempt_that_prepares_after_the_commit_rolls_back_itself(
    options: SinkOptions, broker: ThreadedBroker
) -> None:
    assert commit_batch(options, writing(0), write(options, task(writing(0)), batches(BODIES)))
    late = write(options, task(writing(0), 0, 1), batches(BODIES))
    with markers_of(options.connection) as markers, connected(options.connection, xa=True) as session:
        next_batch = write(options, task(writing(1)), batches(["next"]))
        assert not discard_if_over(session.xa_resource, markers, writing(1), next_batch)
        assert discard_if_over(session.xa_resource, markers, writing(0), late)
    assert (content(broker.url, "q"), prepared(broker.url)) == (BODIES, next_batch)


def test_nothing_is_committed_when_one_branch_is_gone(options: SinkOptions, broker: ThreadedBroker) -> None:
    branches = write(options, task(writing(0)), batches(BODIES))
    with connected(options.connection, xa=True) as session:
        session.xa_resource.rollback(branches[2])
    with pytest.raises(ServiceRefused, match="no-such-branch"):
        commit_batch(options, writing(0), branches)
    assert content(broker.url, "q") == []
    assert sorted(map(str, prepared(broker.url))) == sorted(map(str, (branches[0], branches[1], branches[3])))


def test_attempts_that_lost_are_rolled_back_with_the_commit(options: SinkOptions, broker: ThreadedBroker) -> None:
    write(options, task(writing(0), 0, 0, "aaaa"), batches(["slow"]))
    winner = write(options, task(writing(0), 0, 1, "bbbb"), batches(["fast"]))
    commit_batch(options, writing(0), winner)
    assert (content(broker.url, "q"), prepared(broker.url)) == (["fast"], [])


def test_an_aborted_batch_leaves_nothing_and_strangers_alone(options: SinkOptions, broker: ThreadedBroker) -> None:
    write(options, task(writing(3)), batches(BODIES))
    strangers = [
        *write(options, task(writing(3, query="query-2")), batches(["of another query"])),
        *write(options, task(Writing("query-1", "other sink", 3, "run-1")), batches(["of another sink"])),
        *write(options, task(writing(4)), batches(["of a later batch"])),
        _foreign_branch(broker.url),
    ]
    abort_batch(options, writing(3))
    assert set(prepared(broker.url)) == set(strangers)
    assert content(broker.url, "q") == []


def _foreign_branch(url: str) -> Xid:
    """Prepared by a program that has nothing to do with sinks."""
    xid = Xid(1, b"branch", b"spark:not one of ours")
    with ServerLocator(url).create_session_factory() as factory, factory.create_session(xa=True) as session:
        session.xa_resource.start(xid)
        session.create_producer("q").send(session.create_message(b"foreign"))
        session.xa_resource.end(xid)
        session.xa_resource.prepare(xid)
    return xid


def test_a_sweep_takes_what_its_rule_says_and_nothing_else(options: SinkOptions, broker: ThreadedBroker) -> None:
    (old,) = write(options, task(writing(1)), batches(["old"]))
    (other_run,) = write(options, task(writing(2, "run-0")), batches(["other run"]))
    (own,) = write(options, task(writing(2)), batches(["own"]))
    with connected(options.connection, xa=True) as session:
        seen: list[tuple[Xid, int]] = []

        def rule(xid: Xid, batch: int) -> bool:
            seen.append((xid, batch))
            return batch < 2 or not writing(2).is_of_this_run(xid)

        assert sweep(session.xa_resource, writing(2), rule) == 2
    assert dict(seen) == {old: 1, other_run: 2, own: 2}
    assert prepared(broker.url) == [own]


def test_a_broker_without_services_is_told_of_before_anything_is_sent(
    options: SinkOptions, monkeypatch: pytest.MonkeyPatch, broker: ThreadedBroker
) -> None:
    monkeypatch.setattr(_services, "SERVICES_ADDRESS", "no.services.here")
    with pytest.raises(IllegalStateException, match="use the option guarantee=deduplication"):
        write(options, task(writing(0)), batches(BODIES))
    assert prepared(broker.url) == []
    assert content(broker.url, "no.services.here") == []


@pytest.mark.parametrize("guarantee", ["exactly-once", "deduplication"])
def test_a_body_that_no_packet_holds_is_one_large_message(
    broker: ThreadedBroker, tmp_path: Path, guarantee: str
) -> None:
    options = options_of(broker.url, guarantee=guarantee)
    size = 100 * 1024 * 1024
    rows = pa.record_batch([pa.array([b"good", bytes(size)])], names=["body"])
    branches = write(options, task(writing(0)), [*batches(["x"] * 300), rows])
    if options.is_exactly_once:
        commit_batch(options, writing(0), branches)
    assert prepared(broker.url) == []
    (queue,) = [queue for queue in broker.management.queues() if queue.name == "q"]
    assert queue.message_count == 302
    assert [path.stat().st_size for path in tmp_path.rglob("*.body")] == [size]


@pytest.mark.parametrize("guarantee", ["exactly-once", "deduplication"])
def test_large_bodies_arrive_whole(broker: ThreadedBroker, guarantee: str) -> None:
    options = options_of(broker.url, guarantee=guarantee, bytesPerBranch="4m")
    large = [str(number) * 1_500_000 for number in range(8)]
    branches = write(options, task(writing(0)), batches(large, 3))
    if options.is_exactly_once:
        assert len(branches) == 3
        commit_batch(options, writing(0), branches)
    assert content(broker.url, "q") == large


def test_rows_that_wait_too_long_for_credit_are_named(tmp_path: Path) -> None:
    config = BrokerConfig(data_directory=str(tmp_path / "small"), global_max_size_bytes=1_000_000)
    with EmbeddedBroker.in_thread(config) as broker:
        options = options_of(broker.url, creditTimeoutMs="200")
        with pytest.raises(
            RowError, match=r"rows 300 to 599, to queue://q: the broker let a send wait for 0\.2 seconds"
        ):
            write(options, task(writing(0)), batches(["x" * 3_000] * 1_000))
        abort_batch(options, writing(0))
        assert prepared(broker.url) == []


def test_rows_sent_again_with_the_same_duplicate_ids_are_there_once(broker: ThreadedBroker) -> None:
    options = options_of(broker.url, guarantee="deduplication")
    write(options, task(writing(0)), batches(BODIES[:450]))
    write(options, task(writing(0, "run-2"), 0, 1), batches(BODIES))
    write(options, task(writing(1)), batches(["next"]))
    assert content(broker.url, "q") == [*BODIES, "next"]


# --- a pair ---


@frozen
class Pair:
    url: str
    live: ThreadedBroker
    backup: ThreadedBroker

    def fail_over(self) -> None:
        self.live.crash()
        assert self.backup.wait_for_role(Role.LIVE, timeout=PATIENCE_S)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    ports = free_ports(2)

    def on(port: int, name: str, policy: HAPolicy) -> ThreadedBroker:
        config = BrokerConfig(name=name, port=port, data_directory=str(tmp_path / "shared"), ha_policy=policy)
        return EmbeddedBroker.in_thread(config)

    servers = ",".join(f"tcp://127.0.0.1:{port}" for port in ports)
    with on(ports[0], "p", SharedStorePrimary()) as live, on(ports[1], "b", SharedStoreBackup()) as backup:
        yield Pair(f"({servers})?ha=true&reconnectAttempts=-1&retryInterval=100", live, backup)


def _once_before(patch: pytest.MonkeyPatch, request: str, number: int, act: Callable[[], None]) -> None:
    """Have `act` called before that request of a task is made for the given time."""
    original = getattr(XAResource, request)
    left = [number]

    def made(resource: XAResource, *arguments: object) -> object:
        left[0] -= 1
        if left[0] == 0:
            act()
        return original(resource, *arguments)

    patch.setattr(XAResource, request, made)


@pytest.mark.parametrize("request_", ["start", "end", "prepare"])
def test_a_failover_in_the_middle_of_a_batch_loses_and_doubles_nothing(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, request_: str
) -> None:
    options = options_of(pair.url)
    with monkeypatch.context() as patch:
        _once_before(patch, request_, 2, pair.fail_over)
        branches = write(options, task(writing(0)), batches(BODIES))
    assert len(branches) == 4
    assert commit_batch(options, writing(0), branches)
    assert (content(pair.url, "q"), prepared(pair.url)) == (BODIES, [])


def test_a_failover_between_prepare_and_commit_loses_and_doubles_nothing(pair: Pair) -> None:
    options = options_of(pair.url)
    branches = write(options, task(writing(0)), batches(BODIES))
    pair.fail_over()
    assert commit_batch(options, writing(0), branches)
    assert (content(pair.url, "q"), prepared(pair.url)) == (BODIES, [])


def test_a_failover_after_a_commit_keeps_the_marker(pair: Pair) -> None:
    options = options_of(pair.url)
    assert commit_batch(options, writing(0), write(options, task(writing(0)), batches(["a"])))
    pair.fail_over()
    again = write(options, task(writing(0, "run-2")), batches(["a"]))
    assert not commit_batch(options, writing(0, "run-2"), again)
    assert (content(pair.url, "q"), prepared(pair.url)) == (["a"], [])


def test_a_failover_in_the_middle_of_sends_with_duplicate_ids_loses_and_doubles_nothing(pair: Pair) -> None:
    options = options_of(pair.url, guarantee="deduplication")

    def interrupted() -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(batches(BODIES)):
            if number == 5:
                pair.fail_over()
            yield batch

    write(options, task(writing(0)), interrupted())
    assert content(pair.url, "q") == BODIES
