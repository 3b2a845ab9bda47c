"""The lock manager over ZooKeeper, against a double; the suite of all lock managers runs over a real one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from embedbroker.locks import KeepLease, Lease, LeaseSession, LockFault, ReadSequence, SwapSequence, TakeLease
from embedbroker.runtime._zookeeper import ZooKeeperLockManager, ZooKeeperSettings

from .zookeeper_double import ZooKeeperDouble, zookeeper_double

NUMBER = "/node/activation-sequence"


def session_at(double: ZooKeeperDouble) -> LeaseSession:
    return ZooKeeperLockManager(ZooKeeperSettings(double.connect_string)).open("mine")


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
    monkeypatch.setattr("embedbroker.runtime._zookeeper._listen_for_grants", lambda client, tell: None)
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
