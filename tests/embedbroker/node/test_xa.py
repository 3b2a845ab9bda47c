"""XA branches beyond the recorded conversations: what is allowed when, what a loss and a time-out leave."""

from __future__ import annotations

import pytest

from embedclient.errors import ErrorCode
from embedclient.model import XaCode, Xid
from embedclient.wire.core import (
    NullResponse,
    SessionAcknowledge,
    SessionClose,
    SessionCommit,
    SessionReceiveMessage,
    SessionRollback,
    SessionXaEnd,
    SessionXaFailed,
    SessionXaJoin,
    SessionXaPrepare,
    SessionXaResume,
    SessionXaRollback,
    SessionXaStart,
    SessionXaSuspend,
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


# -- work -----------------------------------------------------------------------------------------------------------


def test_nothing_is_seen_before_the_commit_and_everything_after_it(stage: Stage, peer: Peer) -> None:
    reader = stage.connect().open_session("reader")
    reader.consume()
    sent_in(peer, 1, "a", "b")
    prepared(peer, 1)
    assert reader.texts == []
    assert committed(peer, 1) == XaCode.XA_OK
    assert reader.texts == ["a", "b"]


def test_one_phase(peer: Peer) -> None:
    sent_in(peer, 1, "a")
    assert committed(peer, 1, one_phase=True) == XaCode.XA_OK
    assert query_count(peer) == 1


def test_a_branch_stays_what_it_was_after_a_commit_in_the_wrong_number_of_phases(peer: Peer) -> None:
    sent_in(peer, 1, "a")
    assert committed(peer, 1) == ErrorCode.ILLEGAL_STATE
    prepared(peer, 1)
    assert committed(peer, 1, one_phase=True) == ErrorCode.ILLEGAL_STATE
    assert in_doubt(peer) == {xid(1)}
    assert committed(peer, 1) == XaCode.XA_OK
    assert query_count(peer) == 1


def test_sessions_work_in_one_branch_one_after_the_other_and_at_once(stage: Stage, peer: Peer) -> None:
    """Artemis' BasicXaTest.testSendMultipleQueuesTwoPhaseJoin."""
    other = another(stage)
    sent_in(peer, 1, "a", end=False)
    assert answer(other, SessionXaJoin(xid(1))) == XaCode.XA_OK
    other.post("b", durable=True)
    assert answer(peer, SessionXaEnd(xid(1))) == XaCode.XA_OK
    # While a session works in it, no session can decide.
    assert answer(peer, SessionXaPrepare(xid(1))) == XaCode.XAER_PROTO
    assert answer(peer, SessionXaEnd(xid(1))) == XaCode.XAER_PROTO
    other.post("c", durable=True)
    assert answer(other, SessionXaEnd(xid(1))) == XaCode.XA_OK
    assert committed(peer, 1, one_phase=True) == XaCode.XA_OK
    assert query_count(peer) == 3


def test_another_session_may_take_up_suspended_work(stage: Stage, peer: Peer) -> None:
    other = another(stage)
    sent_in(peer, 1, "a", end=False)
    assert answer(peer, SessionXaSuspend()) == XaCode.XA_OK
    assert answer(peer, SessionXaSuspend()) == XaCode.XAER_PROTO
    assert answer(other, SessionXaJoin(xid(1))) == XaCode.XAER_PROTO
    assert [answer(other, kind(xid(1))) for kind in (SessionXaPrepare, SessionXaRollback)] == [XaCode.XAER_PROTO] * 2
    assert answer(other, SessionXaResume(xid(1))) == XaCode.XA_OK
    assert answer(peer, SessionXaResume(xid(1))) == XaCode.XAER_PROTO
    other.post("b", durable=True)
    assert answer(other, SessionXaEnd(xid(1))) == XaCode.XA_OK
    assert committed(peer, 1, one_phase=True) == XaCode.XA_OK
    assert query_count(peer) == 2


def test_suspended_work_may_be_ended_without_being_taken_up(peer: Peer) -> None:
    sent_in(peer, 1, "a", end=False)
    answer(peer, SessionXaSuspend())
    assert answer(peer, SessionXaEnd(xid(1))) == XaCode.XA_OK
    prepared(peer, 1)


def test_a_prepared_branch_takes_no_more_work(stage: Stage, peer: Peer) -> None:
    sent_in(peer, 1, "a")
    prepared(peer, 1)
    requests = [SessionXaJoin(xid(1)), SessionXaResume(xid(1)), SessionXaEnd(xid(1))]
    assert [answer(peer, request) for request in requests] == [XaCode.XAER_PROTO] * 3
    assert answer(peer, SessionXaStart(xid(1))) == XaCode.XAER_DUPID
    # What is sent behind a refused start belongs to no branch.
    peer.post("stray", durable=True)
    assert answer(peer, SessionXaEnd(xid(1))) == XaCode.XA_RBROLLBACK
    assert committed(peer, 1) == XaCode.XA_OK
    assert query_count(peer) == 1


@pytest.mark.parametrize("xa", [True, False])
def test_outside_a_branch_an_xa_session_commits_at_once_and_another_when_told(stage: Stage, xa: bool) -> None:
    peer = stage.connect().open_session("s", transacted=True, xa=xa)
    peer.create_queue()
    peer.consume()
    sent_in(peer, 1, "in the branch")
    peer.post("outside", durable=True)
    stage.settle_disk()
    assert peer.texts == (["outside"] if xa else [])
    prepared(peer, 1)
    assert committed(peer, 1) == XaCode.XA_OK
    if not xa:
        # Separate work, for which no commit was requested.
        sent_in(peer, 2, "in another")
        assert committed(peer, 2, one_phase=True) == XaCode.XA_OK
        assert peer.texts == ["in the branch", "in another"]
        return
    assert peer.texts == ["outside", "in the branch"]
    deliveries = peer.packets(SessionReceiveMessage)
    peer.send(SessionAcknowledge(0, deliveries[-1].message.message_id, False))
    stage.settle_disk()
    peer.lose()
    assert query_count(another(stage)) == 0


def test_a_session_in_a_branch_joins_no_other(stage: Stage, peer: Peer) -> None:
    other = another(stage)
    sent_in(other, 1, "a")
    sent_in(peer, 2, "b", end=False)
    assert answer(peer, SessionXaJoin(xid(1))) == XaCode.XAER_PROTO
    assert answer(peer, SessionXaEnd(xid(2))) == XaCode.XA_OK


def test_a_branch_is_not_the_sessions_to_commit(peer: Peer) -> None:
    sent_in(peer, 1, "a", end=False)
    assert answer(peer, SessionCommit(-9)) == ErrorCode.ILLEGAL_STATE
    assert answer(peer, SessionXaEnd(xid(1))) == XaCode.XA_OK
    prepared(peer, 1)


def test_a_rollback_of_the_session_leaves_only_rollback_to_its_branch(stage: Stage, peer: Peer) -> None:
    fill(stage, "a")
    peer.consume()
    assert taken_in(peer, 1, end=False) == ["a"]
    peer.send(SessionRollback(False))
    stage.settle_disk()
    assert peer.texts == ["a"]
    assert answer(peer, SessionXaPrepare(xid(1))) == XaCode.XA_RBROLLBACK
    assert rolled_back(peer, 1) == XaCode.XAER_NOTA


def test_a_rollback_returns_what_consumers_hold_without_counting_it(stage: Stage, peer: Peer) -> None:
    fill(stage, "a", "b")
    peer.consume(credit=100)
    stage.run()
    assert taken_in(peer, 1) == ["a"]
    peer.consume(consumer=1)
    assert peer.texts == ["b"]
    peer.clear()
    assert rolled_back(peer, 1) == XaCode.XA_OK
    deliveries = [(packet.consumer_id, packet.delivery_count) for packet in peer.packets(SessionReceiveMessage)]
    assert peer.texts == ["a", "b"] and [count for _consumer, count in deliveries] == [2, 1]


def test_a_send_that_was_refused_leaves_only_rollback(stage: Stage, peer: Peer) -> None:
    sent_in(peer, 1, "a", end=False)
    branch = stage.node.kernel.branches.find(xid(1))
    assert branch is not None
    branch.transaction.fail("the address is full")
    assert answer(peer, SessionXaEnd(xid(1))) == XaCode.XA_OK
    assert committed(peer, 1) == ErrorCode.ILLEGAL_STATE
    assert committed(peer, 1, one_phase=True) == XaCode.XA_RBROLLBACK
    assert rolled_back(peer, 1) == XaCode.XAER_NOTA
    assert query_count(peer) == 0 and stage.node.kernel.memory.used_bytes == 0


def test_a_transaction_manager_elsewhere_may_roll_back_what_is_worked_in(stage: Stage, peer: Peer) -> None:
    other = another(stage)
    sent_in(peer, 1, "a", end=False)
    assert rolled_back(other, 1) == XaCode.XA_OK
    peer.post("b", durable=True)
    assert answer(peer, SessionXaPrepare(xid(1))) == XaCode.XAER_PROTO
    assert answer(peer, SessionXaEnd(xid(1))) == XaCode.XA_RBROLLBACK
    assert answer(peer, SessionXaPrepare(xid(1))) == XaCode.XAER_NOTA
    assert query_count(peer) == 0 and stage.node.kernel.memory.used_bytes == 0


@pytest.mark.parametrize("name", [Xid(1, b"x" * 65, b"g"), Xid(1, b"", b"g" * 65)])
def test_ids_are_as_long_as_the_standard_allows(peer: Peer, name: Xid) -> None:
    assert answer(peer, SessionXaStart(name)) == XaCode.XAER_INVAL
    longest = Xid(-1, b"\xff" * 64, b"\xff" * 64)
    assert answer(peer, SessionXaStart(longest)) == XaCode.XA_OK
    assert answer(peer, SessionXaEnd(longest)) == XaCode.XA_OK
    assert answer(peer, SessionXaPrepare(longest)) == XaCode.XA_OK
    peer.stage.boot()
    assert in_doubt(another(peer.stage)) == {longest}


def test_branches_are_limited() -> None:
    stage = Stage(durable=True, xa_branches_max=2)
    peer = another(stage)
    peer.create_queue()
    sent_in(peer, 1, "a")
    prepared(peer, 1)
    sent_in(peer, 2, "b")
    assert answer(peer, SessionXaStart(xid(3))) == XaCode.XAER_RMERR
    assert committed(peer, 1) == XaCode.XA_OK
    sent_in(peer, 3, "c")


# -- losses ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("leave", [None, SessionXaEnd(xid(1)), SessionXaSuspend()])
def test_a_lost_connection_rolls_back_what_was_not_prepared(
    stage: Stage, peer: Peer, leave: SessionXaEnd | SessionXaSuspend | None
) -> None:
    fill(stage, "a")
    peer.consume()
    taken_in(peer, 1, end=False)
    if leave is not None:
        assert answer(peer, leave) == XaCode.XA_OK
    peer.lose()
    other = another(stage)
    assert committed(other, 1, one_phase=True) == XaCode.XAER_NOTA
    other.consume()
    assert [packet.delivery_count for packet in other.packets(SessionReceiveMessage)] == [2]


def test_a_lost_connection_leaves_what_was_prepared(stage: Stage, peer: Peer) -> None:
    sent_in(peer, 1, "a")
    prepared(peer, 1)
    peer.lose()
    other = another(stage)
    assert in_doubt(other) == {xid(1)}
    assert committed(other, 1) == XaCode.XA_OK
    assert query_count(other) == 1


def test_a_lost_connection_leaves_what_others_work_in_or_began_anew(stage: Stage, peer: Peer) -> None:
    other = another(stage)
    sent_in(peer, 1, "a")
    assert answer(other, SessionXaJoin(xid(1))) == XaCode.XA_OK
    peer.lose()
    other.post("b", durable=True)
    assert answer(other, SessionXaEnd(xid(1))) == XaCode.XA_OK
    assert committed(other, 1, one_phase=True) == XaCode.XA_OK
    assert query_count(other) == 2


def test_an_orderly_end_leaves_a_branch_to_others(stage: Stage, peer: Peer) -> None:
    sent_in(peer, 1, "a", end=False)
    peer.send(SessionClose())
    stage.settle_disk()
    assert peer.clear() == [NullResponse(-1)]
    other = another(stage)
    prepared(other, 1)
    assert committed(other, 1) == XaCode.XA_OK
    assert query_count(other) == 1


@pytest.mark.parametrize("ends", [True, False])
def test_a_branch_that_was_lost_cannot_be_prepared_although_its_client_does_not_know(
    stage: Stage, peer: Peer, ends: bool
) -> None:
    sent_in(peer, 1, "a", end=False)
    stage.boot()
    later = another(stage)
    later.send(SessionXaFailed(xid(1)))
    assert later.clear() == []
    later.post("b", durable=True)
    if ends:
        assert answer(later, SessionXaEnd(xid(1))) == XaCode.XA_OK
    assert answer(later, SessionXaPrepare(xid(1))) == XaCode.XAER_NOTA
    assert query_count(later) == 0 and stage.node.kernel.memory.used_bytes == 0


def test_a_branch_that_was_lost_can_be_rolled_back_without_an_end(stage: Stage, peer: Peer) -> None:
    peer.send(SessionXaFailed(xid(1)))
    peer.post("a", durable=True)
    assert rolled_back(peer, 1) == XaCode.XA_OK
    assert rolled_back(peer, 1) == XaCode.XAER_NOTA
    assert query_count(peer) == 0


def test_a_failure_is_no_word_about_a_prepared_branch(stage: Stage, peer: Peer) -> None:
    sent_in(peer, 1, "a")
    prepared(peer, 1)
    stage.boot()
    later = another(stage)
    later.send(SessionXaFailed(xid(1)))
    assert committed(later, 1) == XaCode.XA_OK
    assert query_count(later) == 1


def test_a_failure_dooms_what_is_still_there(stage: Stage, peer: Peer) -> None:
    sent_in(peer, 1, "a")
    other = another(stage)
    other.send(SessionXaFailed(xid(1)), SessionRollback(False))
    assert rolled_back(other, 1) == XaCode.XA_OK
    assert query_count(other) == 0
