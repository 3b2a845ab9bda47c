"""The lock manager over ZooKeeper, against a double; the suite of all lock managers runs over a real one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss
from kazoo.retry import ForceRetryError, KazooRetry

from embedbroker.locks import (
    GiveLease,
    KeepLease,
    Lease,
    LeaseOperation,
    LeaseSession,
    LockFault,
    ReadSequence,
    SwapSequence,
    TakeLease,
)
from embedbroker.runtime._zookeeper import ZooKeeperLockManager, ZooKeeperSettings

from .zookeeper_double import ZooKeeperDouble, zookeeper_double

NUMBER = "/node/activation-sequence"


PATIENCE_S = 30.0


def session_at(double: ZooKeeperDouble, retries_ms: int = 0) -> LeaseSession:
    return ZooKeeperLockManager(ZooKeeperSettings(double.connect_string, retries_ms=retries_ms)).open("mine")


@pytest.fixture
def double() -> Iterator[ZooKeeperDouble]:
    with zookeeper_double(4_000) as server:
        yield server


def test_a_lease_lasts_a_share_of_the_session_that_the_ensemble_grants(double: ZooKeeperDouble) -> None:
    settings = ZooKeeperSettings(double.connect_string, session_ms=18_000, session_percent=50)
    with closing(ZooKeeperLockManager(settings).open("mine")) as session:
        assert session.run((TakeLease("node"), KeepLease("node"))) == (Lease(2.0), Lease(2.0))


def test_without_knowing_how_long_a_session_lasts_there_is_no_lease(
    double: ZooKeeperDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    class OtherClient:
        """One of a version whose connection is not found."""

        def __init__(self, **options: Any) -> None:
            self.inner = KazooClient(**options)

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(name)
            return getattr(self.inner, name)

    monkeypatch.setattr("kazoo.client.KazooClient", OtherClient)
    with closing(session_at(double)) as session, pytest.raises(LockFault, match="kazoo does not tell how long"):
        session.run((TakeLease("node"),))


@pytest.mark.parametrize("data", [b"\0", b"\0" * 7, b"\0" * 9])
def test_a_damaged_number_is_not_taken_for_none(double: ZooKeeperDouble, data: bytes) -> None:
    """That would let a copy that was left behind be live."""
    double.nodes[NUMBER] = data
    with closing(session_at(double)) as session:
        for operation in (ReadSequence("node"), SwapSequence("node", 0, 1)):
            with pytest.raises(LockFault, match=r"/node/activation-sequence in ZooKeeper .* is damaged.*live last"):
                session.run((operation,))
    assert double.nodes[NUMBER] == data


def test_a_node_without_data_is_a_number_that_nobody_wrote(double: ZooKeeperDouble) -> None:
    double.nodes[NUMBER] = b""
    with closing(session_at(double)) as session:
        answers = session.run((ReadSequence("node"), SwapSequence("node", 0, 5), ReadSequence("node")))
    assert answers == (0, True, 5)


def test_a_lease_is_looked_for_where_everybody_else_would_find_it(double: ZooKeeperDouble) -> None:
    """A server that the others have lost answers on, while they have ended the session and given the lease away."""
    with closing(session_at(double)) as session:
        session.run((TakeLease("node"),))
        double.left_behind = dict(double.nodes)
        double.nodes.clear()
        assert session.run((KeepLease("node"),)) == (None,)


def test_a_connection_that_goes_behind_an_answer_does_not_lose_the_lease(
    double: ZooKeeperDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    client_id = KazooClient.client_id
    there = [False, True]
    monkeypatch.setattr(KazooClient, "client_id", property(lambda it: client_id.fget(it) if there.pop(0) else None))
    with closing(session_at(double)) as session:
        assert session.run((TakeLease("node"), KeepLease("node"))) == (Lease(1.32), Lease(1.32))
        there[:] = [False, False]
        with pytest.raises(LockFault, match="was lost: ConnectionLoss"):
            session.run((KeepLease("node"),))


@pytest.mark.parametrize(
    ("call", "operation"),
    [("create_async", TakeLease("node")), ("delete_async", GiveLease("node"))],
    ids=["take", "give"],
)
def test_a_lease_that_may_be_here_unknown_to_anybody_ends_with_its_session(
    double: ZooKeeperDouble, monkeypatch: pytest.MonkeyPatch, call: str, operation: LeaseOperation
) -> None:
    """The session is not closed here, and the double ends with it."""
    session = session_at(double)
    session.run((TakeLease("node"),))

    def lost(*_arguments: object, **_options: object) -> object:
        raise ConnectionLoss

    monkeypatch.setattr(KazooClient, call, lost)
    with pytest.raises(LockFault, match="was lost: ConnectionLoss"):
        session.run((operation,))


def test_a_session_that_is_closed_at_the_very_end_of_a_batch_ends(
    double: ZooKeeperDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread closes when the work of the batch is done, just before the batch lets go of the session."""
    session = session_at(double)
    lease_of, close, closed = ZooKeeperSettings.lease_of, KazooClient.close, list[Any]()

    def closing_lease(settings: ZooKeeperSettings, session_ms: int) -> Lease:
        closer = threading.Thread(target=session.close)
        closer.start()
        closer.join()
        assert closed == []
        return lease_of(settings, session_ms)

    def noted(client: Any) -> None:
        closed.append(client)
        close(client)

    monkeypatch.setattr(ZooKeeperSettings, "lease_of", closing_lease)
    monkeypatch.setattr(KazooClient, "close", noted)
    session.run((TakeLease("node"),))
    assert len(closed) == 1


def test_closing_ends_the_wait_for_the_next_attempt(double: ZooKeeperDouble, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = threading.Event()

    def lost(*_arguments: object) -> object:
        tried.set()
        raise ConnectionLoss

    monkeypatch.setattr(KazooClient, "get_async", lost)
    session = session_at(double, retries_ms=3_600_000)

    def ask() -> None:
        with pytest.raises(LockFault):
            session.run((ReadSequence("node"),))

    batch = threading.Thread(target=ask, daemon=True)
    batch.start()
    assert tried.wait(PATIENCE_S)
    session.close()
    batch.join(PATIENCE_S)
    assert not batch.is_alive()


def test_an_ensemble_that_is_away_for_long_is_dialled_at_least_each_second(
    double: ZooKeeperDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    dials: list[dict[str, Any]] = []

    class NotedClient(KazooClient):  # type: ignore[misc,no-any-unimported]  # kazoo has no types
        def __init__(self, **options: Any) -> None:
            if "connection_retry" in options:
                dials.append(dict(options["connection_retry"]))
            super().__init__(**options)

    monkeypatch.setattr("kazoo.client.KazooClient", NotedClient)
    with closing(session_at(double)) as session:
        session.run((ReadSequence("node"),))
    retry = KazooRetry(**dials[0], sleep_func=waits.append)

    def nobody_answers() -> None:
        if len(waits) < 30:
            raise ForceRetryError

    retry(nobody_answers)
    assert len(waits) == 30 and max(waits) <= 1.0


@pytest.mark.parametrize("namespace", ["../orders", "a//b", "a/./b"])
def test_a_namespace_that_is_no_path_is_refused(namespace: str) -> None:
    with pytest.raises(ValueError, match="property namespace cannot be the path of a node"):
        ZooKeeperSettings.of({"connect-string": "host:2181", "namespace": namespace})


@pytest.mark.parametrize("text", ["host:port", "host:2181:3", "host:99999", ",", "host:2181/../b"])
def test_a_connect_string_that_cannot_be_read_is_refused_before_the_broker_starts(text: str) -> None:
    with pytest.raises(LockFault, match="property connect-string must be such as"):
        ZooKeeperLockManager(ZooKeeperSettings(text)).open("mine")
