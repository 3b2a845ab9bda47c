"""XA sessions send what the Java client sent to a real Artemis broker, given the same answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from embedclient.agent import Call, LocatorSettings, Session, SessionMode
from embedclient.agent._session_recovery import create_session_packet, with_client_id
from embedclient.agent._settings import SessionFlags
from embedclient.agent.session._xa import Branches
from embedclient.errors import ErrorCode, XAException
from embedclient.model import XaCode, XaFlag, Xid
from tests.embedclient.agent.vector_replay import VectorReplay

T = TypeVar("T")
REATTACHING = LocatorSettings(reconnect_attempts=-1, retry_interval_ms=200, confirmation_window_size=1 << 20)
JMS_CONNECTION = SessionFlags(auto_commit_sends=False, auto_commit_acks=False)


def xid(name: str) -> Xid:
    """The branches of the recordings: g1 has the qualifier b1."""
    return Xid(7, b"b" + name.encode(), b"g" + name.encode())


def open_xa(replay: VectorReplay, *, start: bool = True) -> tuple[Session, Session, Branches]:
    initial, session = replay.open(SessionMode.TRANSACTED, xa=True, start=start)
    assert session.xa is not None
    return initial, session, session.xa


def code_of(replay: VectorReplay, call: Call[T]) -> int:
    replay.play()
    assert isinstance(call.error, XAException), call.error
    return call.error.error_code


def test_two_phases_and_one() -> None:
    replay = VectorReplay("xa-two-phase", LocatorSettings())
    initial, session, xa = open_xa(replay)
    producer = replay.open_producer(session, "xaq")
    replay.finish(xa.start(xid("1")))
    replay.finish(producer.send(replay.message()))
    replay.finish(xa.end(xid("1")))
    assert replay.finish(xa.prepare(xid("1"))) is XaCode.XA_OK
    replay.finish(xa.commit(xid("1"), one_phase=False))
    consumer = replay.finish(session.destinations.open_queue_consumer("xaq"))
    for name in "23":
        replay.finish(xa.start(xid(name)))
        delivery = replay.receive(session, consumer)
        assert delivery is not None and delivery.delivery_count == int(name) - 1
        replay.finish(xa.end(xid(name)))
        if name == "2":
            replay.finish(xa.prepare(xid(name)))
            replay.finish(xa.rollback(xid(name)))
    replay.finish(xa.commit(xid("3"), one_phase=True))
    replay.finish(consumer.close())
    producer.close()
    replay.close(session, initial)


def test_a_failed_branch_the_timeout_and_a_branch_without_work() -> None:
    replay = VectorReplay("xa-rollback-fail-timeout", LocatorSettings())
    initial, session, xa = open_xa(replay)
    producer = replay.open_producer(session, "xaq")
    assert replay.finish(xa.get_timeout()) == 300
    assert replay.finish(xa.set_timeout(60))
    assert replay.finish(xa.get_timeout()) == 300
    replay.finish(xa.start(xid("4")))
    replay.finish(producer.send(replay.message()))
    replay.finish(xa.end(xid("4"), XaFlag.TMFAIL))
    replay.finish(xa.rollback(xid("4")))
    replay.finish(xa.start(xid("5")))
    replay.finish(xa.end(xid("5")))
    assert replay.finish(xa.prepare(xid("5"))) is XaCode.XA_OK
    replay.finish(xa.commit(xid("5"), one_phase=False))
    producer.close()
    replay.close(session, initial)


def test_suspending_resuming_and_joining() -> None:
    first = VectorReplay("xa-join-suspend-resume", LocatorSettings(), only=[1])
    initial, session, xa = open_xa(first)
    producer = first.open_producer(session, "xaq")
    first.finish(xa.start(xid("8")))
    first.finish(producer.send(first.message()))
    first.finish(xa.end(xid("8"), XaFlag.TMSUSPEND))
    first.finish(xa.start(xid("8"), XaFlag.TMRESUME))
    first.finish(producer.send(first.message()))
    first.finish(xa.end(xid("8")))
    second = VectorReplay("xa-join-suspend-resume", LocatorSettings(), only=[2])
    other_initial, other, other_xa = open_xa(second, start=False)
    other_producer = other.create_producer("xaq")
    second.play()
    second.finish(other_xa.start(xid("8"), XaFlag.TMJOIN))
    second.finish(other_producer.send(second.message()))
    second.finish(other_xa.end(xid("8")))
    first.finish(xa.commit(xid("8"), one_phase=True))
    other_producer.close()
    second.close(other, other_initial)
    producer.close()
    first.close(session, initial)


def test_recovering_and_forgetting() -> None:
    replay = VectorReplay("xa-recover-forget", LocatorSettings(), only=[2])
    # Before the second connection knew its broker's version, the recorded client used the older form of this packet.
    older = create_session_packet("", 10, 136, None, None, JMS_CONNECTION, LocatorSettings())
    replay.leave_out(older)
    initial, session, xa = open_xa(replay, start=False)
    replay.forgive(with_client_id(older, None))
    assert replay.finish(xa.recover(XaFlag.TMSTARTRSCAN)) == [xid("7"), xid("6")]
    assert replay.finish(xa.recover(XaFlag.TMENDRSCAN)) == []
    replay.finish(xa.commit(xid("6"), one_phase=False))
    replay.finish(xa.rollback(xid("7")))
    assert replay.finish(xa.recover(XaFlag.TMSTARTRSCAN | XaFlag.TMENDRSCAN)) == []
    assert code_of(replay, xa.forget(xid("6"))) == XaCode.XAER_NOTA
    replay.close(session, initial)


def test_errors() -> None:
    replay = VectorReplay("xa-errors", LocatorSettings())
    initial, session, xa = open_xa(replay)
    producer = replay.open_producer(session, "xaq")
    unknown = xid("u")
    calls: tuple[Callable[[], Call[XaCode]], ...] = (
        lambda: xa.commit(unknown, one_phase=False),
        lambda: xa.commit(unknown, one_phase=True),
        lambda: xa.prepare(unknown),
        lambda: xa.rollback(unknown),
        lambda: xa.end(unknown),
        lambda: xa.start(unknown, XaFlag.TMJOIN),
        lambda: xa.start(unknown, XaFlag.TMRESUME),
    )
    assert [code_of(replay, call()) for call in calls] == [XaCode.XAER_NOTA] * 7
    for _ in range(2):
        replay.finish(xa.start(xid("9")))
    for request in (xa.commit(xid("9"), one_phase=False), xa.prepare(xid("9")), xa.rollback(xid("9"))):
        assert code_of(replay, request) == XaCode.XAER_PROTO
    for _ in range(2):
        replay.finish(xa.end(xid("9")))
    for _ in range(2):
        assert replay.finish(xa.prepare(xid("9"))) is XaCode.XA_OK
    assert code_of(replay, xa.start(xid("9"))) == XaCode.XAER_DUPID
    assert code_of(replay, xa.commit(xid("9"), one_phase=True)) == XaCode.XAER_PROTO
    assert code_of(replay, xa.commit(xid("9"), one_phase=False)) == XaCode.XAER_PROTO
    replay.finish(xa.start(xid("10")))
    replay.finish(xa.end(xid("10"), XaFlag.TMSUSPEND))
    assert code_of(replay, xa.commit(xid("10"), one_phase=True)) == XaCode.XAER_PROTO
    replay.finish(xa.start(xid("11")))
    replay.finish(xa.start(xid("12")))
    assert code_of(replay, xa.start(xid("10"), XaFlag.TMRESUME)) == XaCode.XAER_PROTO
    replay.finish(xa.end(xid("12")))
    # The Java client returns XA_RETRY here, which a transaction manager would do for ever.
    assert code_of(replay, xa.commit(xid("12"), one_phase=False)) == XaCode.XAER_PROTO
    replay.finish(xa.start(xid("10"), XaFlag.TMRESUME))
    replay.finish(xa.end(xid("10")))
    replay.finish(xa.rollback(xid("10")))
    initial.close()
    producer.close()
    replay.close(session)


def test_a_branch_whose_session_was_lost() -> None:
    replay = VectorReplay("recreate-tx-xa", REATTACHING)
    initial, session, xa = open_xa(replay)
    transacted = replay.finish(replay.agent.create_session_for(SessionMode.TRANSACTED))
    replay.finish(transacted.start())
    producer = replay.open_producer(transacted, "rc.tx")
    replay.agent.sessions.append(replay.agent.sessions.pop(0))
    replay.finish(producer.send(replay.message()))
    replay.finish(xa.start(xid("x")))
    xa_producer = session.create_producer("rc.tx")
    replay.finish(xa_producer.send(replay.message()))
    commit = transacted.commit()
    replay.play()
    assert commit.error is not None and commit.error.error_code == ErrorCode.TRANSACTION_ROLLED_BACK
    replay.finish(producer.send(replay.message()))
    replay.finish(transacted.commit())
    assert code_of(replay, xa.end(xid("x"))) == XaCode.XAER_RMFAIL
    replay.finish(xa.rollback(xid("x")))
    xa_producer.close()
    replay.finish(session.close())
    producer.close()
    replay.close(transacted, initial)
