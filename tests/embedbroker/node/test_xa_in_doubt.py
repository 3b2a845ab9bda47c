"""XA branches and time: what is not prepared in time, what stays undecided, and the queues that wait for them."""

from __future__ import annotations

import pytest

from embedbroker.node import Tick
from embedclient.model import XaCode
from embedclient.wire.core import (
    DeleteQueue,
    SessionXaEnd,
    SessionXaForget,
    SessionXaGetTimeout,
    SessionXaGetTimeoutResponse,
    SessionXaSetTimeout,
    SessionXaSetTimeoutResponse,
    SessionXaStart,
)

from .branches import (
    another,
    answer,
    committed,
    fill,
    in_doubt,
    prepared,
    query_count,
    rolled_back,
    sent_in,
    taken_in,
    xid,
)
from .scripted import Peer, Stage


@pytest.fixture
def stage() -> Stage:
    return Stage(durable=True)


@pytest.fixture
def peer(stage: Stage) -> Peer:
    peer = another(stage, "s")
    peer.create_queue()
    return peer


# -- time -----------------------------------------------------------------------------------------------------------


def timed(stage: Stage, seconds: float) -> None:
    """Let time pass without anything else."""
    for peer in stage.peers.values():
        connection = stage.node.connections.served.get(peer.number)
        if connection is not None:
            connection.state.time_to_live = None
    stage.advance(seconds)
    stage.settle_disk()


def test_a_branch_that_is_not_prepared_in_time_is_rolled_back(stage: Stage, peer: Peer) -> None:
    """Artemis' XaTimeoutTest.testSimpleTimeoutOnReceive and
    XaTimeoutTest.testPreparedTransactionNotTimedOut.
    """
    fill(stage, "a")
    peer.consume()
    taken_in(peer, 1)
    sent_in(peer, 2, "b")
    prepared(peer, 2)
    timed(stage, 299)
    assert peer.texts == []
    timed(stage, 2.5)
    assert peer.texts == ["a"]
    assert committed(peer, 1, one_phase=True) == XaCode.XAER_NOTA
    assert committed(peer, 2) == XaCode.XA_OK
    assert any("was not prepared in time" in line for line in stage.warnings())


def test_work_in_a_branch_that_timed_out_is_lost_and_its_end_says_so(stage: Stage, peer: Peer) -> None:
    sent_in(peer, 1, "a", end=False)
    timed(stage, 302)
    peer.post("b", durable=True)
    assert answer(peer, SessionXaEnd(xid(1))) == XaCode.XA_RBTIMEOUT
    assert answer(peer, SessionXaEnd(xid(1))) == XaCode.XAER_NOTA
    assert query_count(peer) == 0 and stage.node.kernel.memory.used_bytes == 0
    sent_in(peer, 1, "c")
    assert committed(peer, 1, one_phase=True) == XaCode.XA_OK
    assert query_count(peer) == 1


def test_a_session_sets_the_time_of_its_branches(stage: Stage, peer: Peer) -> None:
    """Artemis' XaTimeoutTest.testChangingTimeoutGetsPickedUp."""

    def set_timeout(seconds: int) -> None:
        peer.send(SessionXaSetTimeout(seconds))
        assert peer.clear() == [SessionXaSetTimeoutResponse(True)]

    set_timeout(10)
    peer.send(SessionXaGetTimeout())
    assert peer.clear() == [SessionXaGetTimeoutResponse(300)]
    sent_in(peer, 1, "a", end=False)
    timed(stage, 8)
    set_timeout(60)
    timed(stage, 8)
    assert answer(peer, SessionXaEnd(xid(1))) == XaCode.XA_OK
    # It counts from the beginning of a branch, also when it is made shorter.
    assert answer(peer, SessionXaStart(xid(2))) == XaCode.XA_OK
    timed(stage, 20)
    set_timeout(5)
    timed(stage, 1.5)
    assert answer(peer, SessionXaEnd(xid(2))) == XaCode.XA_RBTIMEOUT
    # Nothing is the broker's own time.
    set_timeout(0)
    assert answer(peer, SessionXaStart(xid(3))) == XaCode.XA_OK
    timed(stage, 200)
    assert answer(peer, SessionXaEnd(xid(3))) == XaCode.XA_OK
    assert committed(peer, 1, one_phase=True) == XaCode.XAER_NOTA
    assert committed(peer, 3, one_phase=True) == XaCode.XA_OK


def test_many_time_outs_are_spread_over_steps(stage: Stage, peer: Peer) -> None:
    for number in range(120):
        sent_in(peer, number, "a")
    timed(stage, 299)
    table = stage.node.kernel.branches
    stage.seconds += 3
    left = []
    while table.unprepared:
        stage.node.kernel.housekeeping.run(stage.seconds)
        left.append(len(table.unprepared))
    assert left == [70, 20, 0]


# -- without a transaction manager -------------------------------------------------------------------------------------


@pytest.mark.parametrize("commit", [True, False])
def test_a_decision_here_is_told_until_it_is_forgotten(stage: Stage, peer: Peer, commit: bool) -> None:
    """Artemis' HeuristicXATest.testHeuristicCommitWithRestart."""
    told = XaCode.XA_HEURCOM if commit else XaCode.XA_HEURRB
    sent_in(peer, 1, "a")
    table = stage.node.kernel.branches
    assert not table.decide(xid(1), commit=commit)
    prepared(peer, 1)
    assert table.decide(xid(1), commit=commit)
    assert not table.decide(xid(1), commit=commit)
    stage.step(Tick())
    stage.settle_disk()
    client = peer
    for life in range(2):
        if life:
            stage.boot()
            client = another(stage)
        assert in_doubt(client) == {xid(1)}
        assert committed(client, 1) == rolled_back(client, 1) == told
        assert answer(client, SessionXaStart(xid(1))) == XaCode.XAER_DUPID
        answer(client, SessionXaEnd(xid(1)))
        assert query_count(client) == commit
    assert answer(client, SessionXaForget(xid(1))) == XaCode.XA_OK
    assert answer(client, SessionXaForget(xid(1))) == XaCode.XAER_NOTA
    stage.boot()
    last = another(stage)
    assert in_doubt(last) == set() and committed(last, 1) == XaCode.XAER_NOTA
    assert query_count(last) == commit


def test_a_decision_of_which_only_the_first_record_survived_was_not_made(stage: Stage, peer: Peer) -> None:
    sent_in(peer, 1, "a")
    prepared(peer, 1)
    (branch,) = stage.node.kernel.branches.prepared()
    store = stage.node.kernel.store
    rest = store.commit
    store.commit = lambda transaction_id, positions: None  # type: ignore[method-assign]  # as lost in a crash
    assert stage.node.kernel.branches.decide(branch.xid, commit=True)
    store.commit = rest  # type: ignore[method-assign]
    stage.step(Tick())
    stage.settle_disk()
    stage.boot()
    later = another(stage)
    assert in_doubt(later) == {xid(1)}
    assert stage.node.kernel.branches.outcomes() == []
    assert committed(later, 1) == XaCode.XA_OK
    stage.boot()
    assert in_doubt(another(stage)) == set()


def test_messages_of_a_branch_go_to_no_queue_that_was_deleted(stage: Stage, peer: Peer) -> None:
    sent_in(peer, 1, "a")
    prepared(peer, 1)
    peer.send(DeleteQueue("q"))
    stage.settle_disk()
    stage.boot()
    later = another(stage)
    assert committed(later, 1) == XaCode.XA_OK
    assert stage.node.kernel.memory.used_bytes == 0


def test_a_queue_without_messages_stays_for_what_a_prepared_branch_will_send() -> None:
    stage = Stage(durable=True)
    peer = another(stage)
    assert answer(peer, SessionXaStart(xid(1))) == XaCode.XA_OK
    peer.post("a", durable=True)
    assert answer(peer, SessionXaEnd(xid(1))) == XaCode.XA_OK
    queue = stage.node.kernel.address_manager.queues["q"]
    assert queue.definition.auto_delete
    queue.used = True
    prepared(peer, 1)
    timed(stage, 100)
    assert "q" in stage.node.kernel.address_manager.queues
    stage.boot()
    later = another(stage)
    timed(stage, 100)
    assert committed(later, 1) == XaCode.XA_OK
    assert query_count(later) == 1
