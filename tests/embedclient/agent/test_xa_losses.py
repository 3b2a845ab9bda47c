"""What a lost connection means for XA branches: nothing when the session is there still, rollback-only otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest

from embedclient.agent import Call, LocatorSettings, Session, SessionMode
from embedclient.agent.session._xa import Branches
from embedclient.errors import ErrorCode, JMSException, XAException
from embedclient.model import XaCode, XaFlag, Xid
from embedclient.wire.core import (
    Packet,
    SessionCommit,
    SessionRollback,
    SessionStart,
    SessionXaCommit,
    SessionXaFailed,
    SessionXaPrepare,
    SessionXaRollback,
    SessionXaSetTimeout,
    SessionXaStart,
)
from tests.embedclient.agent.node_pair import NodePair, text_message, text_of
from tests.embedclient.agent.xa_double import XaDouble

T = TypeVar("T")
REATTACHING = LocatorSettings(
    reconnect_attempts=-1, retry_interval_ms=200, confirmation_window_size=1 << 20, call_failover_timeout_ms=5000
)
IF_DONE = ["done", "not done"]
X1, X2 = (Xid(1, b"branch", name) for name in (b"one", b"two"))


class XaPair(NodePair):
    """An agent with one started XA session, and the double."""

    def __init__(self) -> None:
        self.broker = XaDouble()
        super().__init__(REATTACHING, self.broker)
        self.session: Session = self.finish(self.agent.create_session_for(SessionMode.TRANSACTED, xa=True))
        self.finish(self.session.start())
        assert self.session.xa is not None
        self.xa: Branches = self.session.xa

    def work_in(self, xid: Xid, *, end: int | None = None) -> None:
        """A branch with a message in it, left with `end`."""
        self.finish(self.xa.start(xid))
        self.session.create_producer("q").send(text_message("work", "q"))
        if end is not None:
            self.finish(self.xa.end(xid, end))

    def crash(self) -> None:
        """The broker forgets everything but what was prepared; the client comes back."""
        self.filter = everything
        self.broker.forget_sessions()
        self.cut()
        self.advance(1)

    def lose(self, request: Callable[[], Call[T]], lost: Callable[[str, bytes], bytes]) -> Call[T]:
        """Makes a request, of which only what `lost` lets through goes over the wire."""
        self.filter = lost
        call = request()
        self.settle()
        assert not call.done
        return call

    def seen(self, kind: type[Packet]) -> int:
        return sum(isinstance(packet, kind) for packet in self.broker.seen)

    def code(self, call: Call[T]) -> int:
        self.settle()
        assert isinstance(call.error, XAException), call.error
        return call.error.error_code


def lose_everything(sender: str, data: bytes) -> bytes:
    return b""


def lose_server(sender: str, data: bytes) -> bytes:
    return b"" if sender == "server" else data


def everything(sender: str, data: bytes) -> bytes:
    return data


@pytest.fixture
def pair() -> XaPair:
    return XaPair()


@pytest.mark.parametrize("lost", [lose_everything, lose_server])
@pytest.mark.parametrize("one_phase", [False, True])
def test_a_reattached_session_notices_nothing(
    pair: XaPair, lost: Callable[[str, bytes], bytes], one_phase: bool
) -> None:
    requests: list[Callable[[], Call[XaCode]]] = [lambda: pair.xa.start(X1), lambda: pair.xa.end(X1)]
    if not one_phase:
        requests.append(lambda: pair.xa.prepare(X1))
    requests.append(lambda: pair.xa.commit(X1, one_phase))
    for request in requests:
        call = pair.lose(request, lost)
        pair.filter = everything
        pair.cut()
        pair.advance(1)
        assert pair.finish(call) is XaCode.XA_OK
    assert pair.broker.committed == [X1]
    assert not pair.seen(SessionXaFailed)


def test_the_branch_a_lost_session_worked_in_can_only_be_rolled_back(pair: XaPair) -> None:
    pair.work_in(X1)
    pair.broker.seen.clear()
    pair.crash()
    told = [packet for packet in pair.broker.seen if isinstance(packet, (SessionXaFailed, SessionStart))]
    assert told == [SessionXaFailed(X1), SessionStart()]
    assert pair.code(pair.xa.end(X1)) == XaCode.XAER_RMFAIL
    assert pair.seen(SessionRollback) == 1
    # The broker would say XA_OK to an empty branch.
    assert X1 in pair.broker.idle
    assert pair.code(pair.xa.prepare(X1)) == XaCode.XAER_RMFAIL
    assert not pair.seen(SessionXaPrepare)
    assert pair.finish(pair.xa.rollback(X1)) is XaCode.XA_OK
    assert pair.broker.rolled_back == [X1]
    pair.work_in(X2, end=XaFlag.TMSUCCESS)
    assert pair.finish(pair.xa.commit(X2, one_phase=True)) is XaCode.XA_OK


def test_a_branch_lost_twice_is_told_twice(pair: XaPair) -> None:
    pair.work_in(X1)
    pair.crash()
    pair.crash()
    assert pair.seen(SessionXaFailed) == 2
    pair.work_in(X2)
    pair.crash()
    assert [packet for packet in pair.broker.seen if isinstance(packet, SessionXaFailed)][2:] == [SessionXaFailed(X2)]
    assert pair.code(pair.xa.end(X1)) == XaCode.XAER_RMFAIL
    assert not pair.seen(SessionRollback)


def test_a_branch_that_was_ended_is_lost_with_its_session(pair: XaPair) -> None:
    pair.work_in(X1, end=XaFlag.TMSUCCESS)
    pair.crash()
    assert not pair.seen(SessionXaFailed)
    assert pair.code(pair.xa.prepare(X1)) == XaCode.XAER_RMFAIL
    assert pair.code(pair.xa.commit(X1, one_phase=False)) == XaCode.XAER_NOTA


def test_rolling_back_a_lost_branch_succeeds_though_the_broker_does_not_know_it(pair: XaPair) -> None:
    pair.work_in(X1, end=XaFlag.TMSUCCESS)
    pair.crash()
    assert pair.finish(pair.xa.rollback(X1)) is XaCode.XA_OK
    assert pair.code(pair.xa.rollback(X1)) == XaCode.XAER_NOTA


def test_a_one_phase_commit_of_a_lost_branch_says_rolled_back_and_sees_to_it(pair: XaPair) -> None:
    pair.work_in(X1, end=XaFlag.TMSUCCESS)
    pair.crash()
    assert pair.code(pair.xa.commit(X1, one_phase=True)) == XaCode.XA_RBCOMMFAIL
    assert (pair.seen(SessionXaCommit), pair.seen(SessionXaRollback)) == (0, 1)


def test_a_suspended_branch_is_lost_and_the_present_one_goes_on(pair: XaPair) -> None:
    pair.work_in(X1, end=XaFlag.TMSUSPEND)
    pair.crash()
    pair.work_in(X2)
    assert pair.code(pair.xa.end(X1)) == XaCode.XAER_RMFAIL
    assert pair.code(pair.xa.start(X1, XaFlag.TMRESUME)) == XaCode.XAER_RMFAIL
    assert not pair.seen(SessionRollback)
    pair.finish(pair.xa.end(X2))
    assert pair.finish(pair.xa.prepare(X2)) is XaCode.XA_OK


def test_a_prepared_branch_outlives_its_session(pair: XaPair) -> None:
    pair.work_in(X1, end=XaFlag.TMSUCCESS)
    pair.finish(pair.xa.prepare(X1))
    pair.crash()
    assert pair.finish(pair.xa.recover()) == [X1]
    assert pair.finish(pair.xa.commit(X1, one_phase=False)) is XaCode.XA_OK
    assert pair.broker.committed == [X1]


def test_start_is_tried_again_once(pair: XaPair) -> None:
    call = pair.lose(lambda: pair.xa.start(X1), lose_everything)
    pair.crash()
    assert pair.finish(call) is XaCode.XA_OK
    pair.finish(pair.xa.end(X1))
    call = pair.lose(lambda: pair.xa.start(X2), lose_server)
    pair.broker.forget_sessions()
    pair.cut()
    # The second attempt is cut off too.
    pair.filter = lambda sender, data: lose_start(pair, sender, data)
    pair.advance(1)
    pair.crash()
    assert pair.code(call) == XaCode.XAER_RMFAIL
    assert pair.seen(SessionXaStart) == 3


def lose_start(pair: XaPair, sender: str, data: bytes) -> bytes:
    """Loses the answer to the third start, and nothing else."""
    return b"" if sender == "server" and pair.seen(SessionXaStart) == 3 else data


def test_end_that_is_cut_off_finds_its_branch_lost(pair: XaPair) -> None:
    pair.work_in(X1)
    call = pair.lose(lambda: pair.xa.end(X1), lose_everything)
    pair.crash()
    assert pair.code(call) == XaCode.XAER_RMFAIL
    assert (pair.seen(SessionXaFailed), pair.seen(SessionRollback)) == (1, 1)


@pytest.mark.parametrize(
    ("lost", "outcome"),
    [(lose_server, XaCode.XA_OK), (lose_everything, XaCode.XA_RBCOMMFAIL)],
    ids=["done", "not done"],
)
def test_prepare_that_is_cut_off_is_asked_again(
    pair: XaPair, lost: Callable[[str, bytes], bytes], outcome: XaCode
) -> None:
    pair.work_in(X1, end=XaFlag.TMSUCCESS)
    call = pair.lose(lambda: pair.xa.prepare(X1), lost)
    pair.crash()
    if outcome is XaCode.XA_OK:
        assert pair.finish(call) is XaCode.XA_OK
        assert pair.finish(pair.xa.commit(X1, one_phase=False)) is XaCode.XA_OK
    else:
        assert pair.code(call) == outcome
        assert pair.broker.prepared == []


def test_prepare_that_is_cut_off_twice_is_rolled_back(pair: XaPair) -> None:
    pair.work_in(X1, end=XaFlag.TMSUCCESS)
    call = pair.lose(lambda: pair.xa.prepare(X1), lose_server)
    pair.broker.forget_sessions()
    pair.cut()
    pair.filter = lambda sender, data: b"" if sender == "server" and pair.seen(SessionXaPrepare) == 2 else data
    pair.advance(1)
    assert not call.done
    pair.crash()
    assert pair.code(call) == XaCode.XA_RBCOMMFAIL
    assert (pair.broker.prepared, pair.broker.rolled_back) == ([], [X1])


@pytest.mark.parametrize("lost", [lose_server, lose_everything], ids=IF_DONE)
def test_a_commit_of_the_second_phase_that_is_cut_off_has_to_be_retried(
    pair: XaPair, lost: Callable[[str, bytes], bytes]
) -> None:
    pair.work_in(X1, end=XaFlag.TMSUCCESS)
    pair.finish(pair.xa.prepare(X1))
    call = pair.lose(lambda: pair.xa.commit(X1, one_phase=False), lost)
    pair.crash()
    assert pair.code(call) == XaCode.XA_RETRY
    assert pair.broker.committed == ([X1] if lost is lose_server else [])
    retried = pair.xa.commit(X1, one_phase=False)
    if lost is lose_server:
        assert pair.code(retried) == XaCode.XAER_NOTA
    else:
        assert pair.finish(retried) is XaCode.XA_OK
    assert pair.broker.committed == [X1]


def test_a_commit_in_one_phase_that_is_cut_off_is_unknown(pair: XaPair) -> None:
    pair.work_in(X1, end=XaFlag.TMSUCCESS)
    call = pair.lose(lambda: pair.xa.commit(X1, one_phase=True), lose_server)
    pair.crash()
    assert pair.code(call) == XaCode.XAER_RMFAIL
    assert not pair.seen(SessionXaRollback)
    # Unknown on this side: from now on the broker gets the request, and answers with what it has.
    assert pair.code(pair.xa.commit(X1, one_phase=True)) == XaCode.XAER_NOTA
    assert pair.broker.committed == [X1]


def test_a_one_phase_commit_that_waits_for_the_reconnect_does_not_reach_a_broker_that_lost_the_branch(
    pair: XaPair,
) -> None:
    pair.work_in(X1, end=XaFlag.TMSUCCESS)
    pair.broker.forget_sessions()
    pair.cut()
    call = pair.xa.commit(X1, one_phase=True)
    pair.advance(1)
    assert pair.code(call) == XaCode.XA_RBCOMMFAIL
    assert not pair.seen(SessionXaCommit)


UNSENT = [
    (lambda xa: xa.start(X2), XaCode.XAER_RMFAIL),
    (lambda xa: xa.end(X1), XaCode.XAER_RMFAIL),
    (lambda xa: xa.prepare(X1), XaCode.XA_RBCOMMFAIL),
    (lambda xa: xa.commit(X1, one_phase=True), XaCode.XA_RBCOMMFAIL),
    (lambda xa: xa.commit(X1, one_phase=False), XaCode.XA_RETRY),
    (lambda xa: xa.rollback(X1), XaCode.XAER_RMFAIL),
    (lambda xa: xa.forget(X1), XaCode.XAER_RMFAIL),
    (lambda xa: xa.recover(), XaCode.XAER_RMFAIL),
    (lambda xa: xa.get_timeout(), XaCode.XAER_RMFAIL),
]
IDS = ["start", "end", "prepare", "one phase", "two phases", "rollback", "forget", "recover", "get timeout"]


@pytest.mark.parametrize(("request_", "outcome"), UNSENT, ids=IDS)
def test_what_was_never_sent_is_no_unknown_outcome(
    pair: XaPair, request_: Callable[[Branches], Call[object]], outcome: XaCode
) -> None:
    pair.work_in(X1, end=XaFlag.TMSUCCESS)
    pair.refuse_dials = True
    pair.cut()
    pair.broker.seen.clear()
    call = request_(pair.xa)
    # A rollback waits twice: to hold deliveries, and for its own turn.
    pair.advance(11)
    assert pair.code(call) == outcome
    pair.refuse_dials = False
    pair.advance(1)
    # The session was there all the time: what the caller takes for rolled back is rolled back.
    assert pair.broker.rolled_back == ([X1] if outcome is XaCode.XA_RBCOMMFAIL else [])
    assert not pair.broker.committed


@pytest.mark.parametrize(("request_", "outcome"), UNSENT, ids=IDS)
def test_requests_of_a_closed_session_say_so(
    pair: XaPair, request_: Callable[[Branches], Call[object]], outcome: XaCode
) -> None:
    pair.finish(pair.session.close())
    call = request_(pair.xa)
    assert pair.code(call) == outcome
    assert call.error is not None and isinstance(call.error.linked_exception, JMSException)


def test_an_ordinary_commit_that_was_never_sent_is_rolled_back(pair: XaPair) -> None:
    session = pair.finish(pair.agent.create_session_for(SessionMode.TRANSACTED))
    session.create_producer("q").send(text_message("work", "q"))
    pair.settle()
    pair.refuse_dials = True
    pair.cut()
    call = session.commit()
    pair.advance(6)
    pair.refuse_dials = False
    pair.advance(1)
    assert pair.error_code(call) == ErrorCode.TRANSACTION_ROLLED_BACK
    assert not pair.seen(SessionCommit)
    assert pair.seen(SessionRollback)
    pair.finish(session.commit())


def test_the_timeout_of_branches_is_told_to_a_new_session(pair: XaPair) -> None:
    assert pair.finish(pair.xa.set_timeout(7))
    pair.crash()
    assert [packet for packet in pair.broker.seen if isinstance(packet, SessionXaSetTimeout)] == [
        SessionXaSetTimeout(7)
    ] * 2
    pair.work_in(X1, end=XaFlag.TMFAIL)


def test_wrong_arguments_are_refused_on_this_side(pair: XaPair) -> None:
    before = len(pair.broker.seen)
    calls: list[Call[object]] = [
        pair.xa.start(X1, XaFlag.TMSUCCESS),  # type: ignore[list-item]
        pair.xa.start(X1, XaFlag.TMJOIN | XaFlag.TMRESUME),  # type: ignore[list-item]
        pair.xa.end(X1, XaFlag.TMNOFLAGS),  # type: ignore[list-item]
        pair.xa.end(X1, XaFlag.TMJOIN),  # type: ignore[list-item]
        pair.xa.recover(XaFlag.TMJOIN),  # type: ignore[list-item]
        pair.xa.set_timeout(-1),  # type: ignore[list-item]
    ]
    assert [pair.code(call) for call in calls] == [XaCode.XAER_INVAL] * 6
    assert pair.code(pair.xa.end(X1, XaFlag.TMSUSPEND)) == XaCode.XAER_PROTO
    assert len(pair.broker.seen) == before


def test_a_refused_rollback_keeps_what_the_consumer_has(pair: XaPair) -> None:
    pair.session.create_producer("q").send(text_message("first", "q"))
    consumer = pair.finish(pair.session.create_consumer("q"))
    pair.finish(pair.xa.start(X1))
    assert consumer.buffered == 1
    assert pair.code(pair.xa.rollback(X1)) == XaCode.XAER_PROTO
    delivery = consumer.next(pair.now)
    assert delivery is not None and text_of(delivery) == "first"
