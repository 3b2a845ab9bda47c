"""Sessions, transactions and XA during failover: section 2.2 of the catalogue of scenarios, line by line."""

from __future__ import annotations

from itertools import repeat

import pytest
from attrs import evolve

from embedclient.agent import Call, Session, SessionMode
from embedclient.errors import ErrorCode, XAException
from embedclient.model import RoutingType, XaCode, Xid
from embedclient.wire.core import CreateSession
from tests.embedclient.agent.node_pair import text_message, text_of
from tests.embedclient.agent.server_pair import ServerPair
from tests.embedclient.agent.simulated_pair import FAILING_OVER
from tests.embedclient.scenarios.stage import QUEUE, Stage, message, numbered

COUNT = 100
XID = Xid(7, b"branch", b"global")


@pytest.fixture
def stage() -> Stage:
    return Stage()


def xa_code(stage: Stage, call: Call[XaCode]) -> XaCode:
    error = stage.failure(call)
    assert isinstance(error, XAException)
    return XaCode(error.error_code)


def test_timeout_on_failover() -> None:
    """Blocking sends, a crash in the middle, failed sends repeated: none is lost, and their order is usable."""
    stage = Stage(evolve(FAILING_OVER, call_timeout_ms=1000))
    producer = stage.session().create_producer(QUEUE)
    sent = []
    for number in range(COUNT):
        call = producer.send(message(str(number)))
        if number == COUNT // 2:
            stage.host.flush()
            stage.crash()
        stage.go(0.02)
        while call.error is not None:
            assert call.error.error_code == ErrorCode.UNBLOCKED
            call = producer.send(message(str(number)))
            stage.go(0.02)
        stage.finish(call)
        sent.append(str(number))
    assert list(dict.fromkeys(stage.left())) == sent


@pytest.mark.parametrize("window", [-1, 0], ids=["prefetching", "window 0"])
def test_timeout_on_failover_consume(window: int) -> None:
    """Consuming, also blocked with window 0, a crash in the middle: all numbers are received at least once."""
    stage = Stage(evolve(FAILING_OVER, consumer_window_size=window))
    session = stage.session()
    stage.send(session.create_producer(QUEUE), *numbered(0, COUNT))
    consumer = stage.consumer(session)
    received: list[str | None] = []
    while len(set(received)) < COUNT:
        consumer.want()
        stage.go(0.01)
        while (delivery := consumer.next(stage.world.instant)) is not None:
            received.append(text_of(delivery))
            stage.finish(session.consumed(delivery))
            consumer.want()
            if len(received) == COUNT // 2:
                stage.crash()
    assert set(received) == set(numbered(0, COUNT))


def test_timeout_on_failover_transaction_commit(stage: Stage) -> None:
    """A prepared branch, a crash, the commit repeated: all of it is there."""
    session = stage.session(xa=True, mode=SessionMode.TRANSACTED)
    assert session.xa is not None
    stage.finish(session.xa.start(XID))
    stage.send(session.create_producer(QUEUE), *numbered(0, COUNT))
    stage.finish(session.xa.end(XID))
    stage.finish(session.xa.prepare(XID))
    commit = session.xa.commit(XID, one_phase=False)
    stage.host.flush()
    stage.crash()
    while commit.error is not None:
        assert xa_code(stage, commit) is XaCode.XA_RETRY
        commit = session.xa.commit(XID, one_phase=False)
        stage.go(0.05)
        if isinstance(commit.error, XAException) and commit.error.error_code == XaCode.XAER_NOTA:
            break
    assert stage.left() == numbered(0, COUNT)


def test_timeout_on_failover_transaction_commit_timeout_communication(stage: Stage) -> None:
    """Consumed and not committed, a crash: commit raises, all come again and can be committed."""
    session = stage.session(SessionMode.TRANSACTED)
    stage.send(session.create_producer(QUEUE), *numbered(0, COUNT))
    stage.finish(session.commit())
    consumer = stage.consumer(session)
    assert stage.receive(session, consumer) == numbered(0, COUNT)
    stage.crash()
    assert stage.failure(session.commit()).error_code == ErrorCode.TRANSACTION_ROLLED_BACK
    assert stage.receive(session, consumer) == numbered(0, COUNT)
    stage.finish(session.commit())
    assert stage.receive(session, consumer) == []


def test_timeout_on_failover_transaction_rollback(stage: Stage) -> None:
    """A prepared branch, a crash, rolled back: nothing is there."""
    session = stage.session(xa=True, mode=SessionMode.TRANSACTED)
    assert session.xa is not None
    stage.finish(session.xa.start(XID))
    stage.send(session.create_producer(QUEUE), *numbered(0, COUNT))
    stage.finish(session.xa.end(XID))
    stage.finish(session.xa.prepare(XID))
    stage.crash()
    stage.finish(session.xa.rollback(XID))
    assert stage.left() == []


def test_consume_transacted(stage: Stage) -> None:
    """Half consumed in a transaction, a crash: commit raises rolled back, and all come again."""
    session = stage.session(SessionMode.TRANSACTED)
    stage.send(session.create_producer(QUEUE), *numbered(0, COUNT))
    stage.finish(session.commit())
    consumer = stage.consumer(session)
    stage.go(0.1)
    for _ in range(COUNT // 2):
        delivery = consumer.next(stage.world.instant)
        assert delivery is not None
        stage.finish(session.consumed(delivery))
    stage.crash()
    assert stage.failure(session.commit()).error_code == ErrorCode.TRANSACTION_ROLLED_BACK
    assert stage.receive(session, consumer) == numbered(0, COUNT)


def test_transacted_messages_sent_so_rollback_and_continue_work(stage: Stage) -> None:
    """Uncommitted sends, a crash: rollback-only, commit raises rolled back, the queue is empty; new work commits."""
    session = stage.session(SessionMode.TRANSACTED)
    producer = session.create_producer(QUEUE)
    stage.send(producer, *numbered(0, COUNT))
    stage.crash()
    assert session.rollback_only
    assert stage.failure(session.commit()).error_code == ErrorCode.TRANSACTION_ROLLED_BACK
    assert stage.left() == []
    stage.send(producer, "new work")
    stage.finish(session.commit())
    assert stage.left() == ["new work"]


def test_transacted_messages_not_sent_so_no_rollback(stage: Stage) -> None:
    """Everything was committed, a crash: not rollback-only, and the next commit succeeds."""
    session = stage.session(SessionMode.TRANSACTED)
    stage.send(session.create_producer(QUEUE), *numbered(0, COUNT))
    stage.finish(session.commit())
    stage.crash()
    assert not session.rollback_only
    stage.finish(session.commit())
    assert stage.left() == numbered(0, COUNT)


def test_transacted_messages_with_consumer_started_before_failover(stage: Stage) -> None:
    """A started consumer that acknowledged nothing, a crash: commit succeeds, and the messages are there."""
    session = stage.session(SessionMode.TRANSACTED)
    stage.send(session.create_producer(QUEUE), *numbered(0, COUNT))
    stage.finish(session.commit())
    consumer = stage.consumer(session)
    stage.go(0.1)
    assert consumer.buffered == COUNT
    stage.crash()
    stage.finish(session.commit())
    assert stage.receive(session, consumer) == numbered(0, COUNT)


def test_transacted_messages_not_consumed_so_no_rollback(stage: Stage) -> None:
    """The first half consumed and committed, a crash: not rollback-only, and only the second half comes."""
    session = stage.session(SessionMode.TRANSACTED)
    producer = session.create_producer(QUEUE)
    stage.send(producer, *numbered(0, COUNT // 2))
    stage.finish(session.commit())
    consumer = stage.consumer(session)
    assert stage.receive(session, consumer) == numbered(0, COUNT // 2)
    stage.finish(session.commit())
    stage.send(producer, *numbered(COUNT // 2, COUNT))
    stage.finish(session.commit())
    stage.crash()
    assert not session.rollback_only
    assert stage.receive(session, consumer) == numbered(COUNT // 2, COUNT)
    stage.finish(session.commit())


# --- branches ---


def in_a_branch(stage: Stage, *, consuming: bool, ended: bool) -> Session:
    """A session that has sent or consumed in a branch."""
    session = stage.session(xa=True, mode=SessionMode.TRANSACTED)
    assert session.xa is not None
    if consuming:
        stage.send(stage.session().create_producer(QUEUE), *numbered(0, COUNT))
    stage.finish(session.xa.start(XID))
    if consuming:
        assert stage.receive(session, stage.consumer(session)) == numbered(0, COUNT)
    else:
        stage.send(session.create_producer(QUEUE), *numbered(0, COUNT))
    if ended:
        stage.finish(session.xa.end(XID))
    return session


@pytest.mark.parametrize("consuming", [False, True], ids=["sent", "consumed"])
def test_xa_messages_so_rollback_on_end(stage: Stage, consuming: bool) -> None:
    """Work in a branch, a crash before end: end fails with XAER_RMFAIL, and nothing of it happened."""
    session = in_a_branch(stage, consuming=consuming, ended=False)
    assert session.xa is not None
    stage.crash()
    assert xa_code(stage, session.xa.end(XID)) is XaCode.XAER_RMFAIL
    stage.finish(session.close())
    assert stage.left() == (numbered(0, COUNT) if consuming else [])


@pytest.mark.parametrize("consuming", [False, True], ids=["sent", "consumed"])
def test_xa_messages_so_rollback_on_prepare(stage: Stage, consuming: bool) -> None:
    """End done, a crash: prepare fails with XAER_RMFAIL; it is not XA_OK for what is left of the branch."""
    session = in_a_branch(stage, consuming=consuming, ended=True)
    assert session.xa is not None
    stage.crash()
    assert xa_code(stage, session.xa.prepare(XID)) is XaCode.XAER_RMFAIL
    stage.finish(session.close())
    assert stage.left() == (numbered(0, COUNT) if consuming else [])


@pytest.mark.parametrize("consuming", [False, True], ids=["sent", "consumed"])
def test_xa_messages_so_rollback_on_commit(stage: Stage, consuming: bool) -> None:
    """End done and not prepared, a crash, commit: the branch is not known."""
    session = in_a_branch(stage, consuming=consuming, ended=True)
    assert session.xa is not None
    stage.crash()
    assert xa_code(stage, session.xa.commit(XID, one_phase=False)) is XaCode.XAER_NOTA
    stage.finish(session.close())
    assert stage.left() == (numbered(0, COUNT) if consuming else [])


def test_xa_messages_not_sent_so_no_rollback_on_commit(stage: Stage) -> None:
    """A committed branch, a crash: the messages are there, and a new branch works."""
    session = in_a_branch(stage, consuming=False, ended=True)
    assert session.xa is not None
    stage.finish(session.xa.prepare(XID))
    stage.finish(session.xa.commit(XID, one_phase=False))
    stage.crash()
    other = Xid(7, b"branch", b"other")
    stage.finish(session.xa.start(other))
    stage.send(session.create_producer(QUEUE), "new")
    stage.finish(session.xa.end(other))
    stage.finish(session.xa.prepare(other))
    stage.finish(session.xa.commit(other, one_phase=False))
    stage.finish(session.close())
    assert stage.left() == [*numbered(0, COUNT), "new"]


# --- calls under way ---


def commit_with_a_crash(stage: Stage, session: Session, *, reaches: bool) -> int:
    """Commits while answers, or requests too, do not come through; then the broker crashes."""
    stage.host.deaf = True
    if not reaches:
        stage.network.hold("client", "a")
    call = session.commit()
    stage.go(0.1)
    stage.fail_over()
    stage.host.deaf = False
    stage.network.heal()
    return stage.failure(call).error_code


def test_commit_occurred_unblocked_and_resend_no_duplicates(stage: Stage) -> None:
    """The commit arrived, its answer did not: rolled back or unknown; the repetition is refused by its ids."""
    session = stage.session(SessionMode.TRANSACTED)
    producer = session.create_producer(QUEUE)
    for text in numbered(0, COUNT):
        producer.send(message(text, identity=text))
    stage.go(0.1)
    assert commit_with_a_crash(stage, session, reaches=True) == ErrorCode.TRANSACTION_OUTCOME_UNKNOWN
    for text in numbered(0, COUNT):
        producer.send(message(text, identity=text))
    assert stage.failure(session.commit()).error_code == ErrorCode.DUPLICATE_ID_REJECTED
    assert stage.left() == numbered(0, COUNT)


def test_commit_did_not_occur_unblocked_and_resend(stage: Stage) -> None:
    """The commit never arrived: the repetition gives each message once."""
    session = stage.session(SessionMode.TRANSACTED)
    producer = session.create_producer(QUEUE)
    for text in numbered(0, COUNT):
        producer.send(message(text, identity=text))
    stage.go(0.1)
    assert commit_with_a_crash(stage, session, reaches=False) == ErrorCode.TRANSACTION_OUTCOME_UNKNOWN
    for text in numbered(0, COUNT):
        producer.send(message(text, identity=text))
    stage.finish(session.commit())
    assert stage.left() == numbered(0, COUNT)


def test_force_blocking_return(stage: Stage) -> None:
    """A blocking send whose answer is withheld, a crash: it ends as unblocked, with what happened as its cause."""
    producer = stage.session().create_producer(QUEUE)
    stage.go(0.1)
    stage.host.deaf = True
    call = producer.send(message("x"))
    stage.go(0.1)
    stage.fail_over()
    stage.host.deaf = False
    error = stage.failure(call)
    assert error.error_code == ErrorCode.UNBLOCKED
    assert getattr(error.linked_exception, "error_code", None) == ErrorCode.NOT_CONNECTED


def test_fail_with_browser(stage: Stage) -> None:
    """A browser in the middle, a crash: it starts from the beginning, with the durable messages."""
    session = stage.session()
    stage.send(session.create_producer(QUEUE), *numbered(0, COUNT))
    browser = stage.finish(session.destinations.open_queue_consumer(QUEUE, browse_only=True))
    stage.go(0.1)
    seen = [browser.next(stage.world.instant) for _ in range(COUNT // 2)]
    assert [delivery and text_of(delivery) for delivery in seen] == numbered(0, COUNT // 2)
    stage.crash()
    assert stage.receive(session, browser) == numbered(0, COUNT)


def test_fail_then_receive_more_messages_after_failover(stage: Stage) -> None:
    """Unacknowledged messages, a crash: the durable ones are delivered again."""
    session = stage.session(SessionMode.CLIENT)
    producer = session.create_producer(QUEUE)
    for number, text in enumerate(numbered(0, COUNT)):
        stage.finish(producer.send(message(text, durable=number % 2 == 0)))
    consumer = stage.consumer(session)
    assert stage.receive(session, consumer) == numbered(0, COUNT)
    stage.crash()
    assert stage.receive(session, consumer) == numbered(0, COUNT)[::2]


def test_fail_then_receive_more_messages_after_failover_2(stage: Stage) -> None:
    """Acknowledged messages, a crash, more are sent: only the new ones come."""
    session = stage.session(SessionMode.CLIENT)
    producer = session.create_producer(QUEUE)
    stage.send(producer, *numbered(0, COUNT))
    consumer = stage.consumer(session)
    assert stage.receive(session, consumer) == numbered(0, COUNT)
    stage.finish(session.commit())
    stage.crash()
    stage.send(producer, *numbered(COUNT, 2 * COUNT))
    assert stage.receive(session, consumer) == numbered(COUNT, 2 * COUNT)


def test_failover_multiple_sessions_with_consumers(stage: Stage) -> None:
    """Five sessions with five consumers on queues of their own, a crash: every consumer still gets all."""
    everybody = []
    for number in range(5):
        session = stage.session()
        for queue in [f"{number}.{place}" for place in range(5)]:
            stage.finish(session.destinations.prepare_destination(queue, RoutingType.ANYCAST))
            everybody.append((session, queue, stage.consumer(session, queue)))
    stage.crash()
    sender = stage.session()
    for _, queue, _ in everybody:
        stage.send(sender.create_producer(queue), *numbered(0, 10))
    for session, _, consumer in everybody:
        assert stage.receive(session, consumer) == numbered(0, 10)


def test_multiple_session_failover() -> None:
    """Two sessions, and a backup that refuses the second one twice: it is asked again, and both work."""
    pair = ServerPair()
    producers = [pair.session().create_producer("q") for _ in range(2)]
    pair.b.refusals = iter((False, True, True))
    pair.fail_over()
    for producer in producers:
        pair.finish(producer.send(text_message("x", "q")))
    assert len(pair.b.said(CreateSession)) == 4
    assert pair.dialed.count("b") == 2  # one of them before it was up


def test_channel_state_during_failover() -> None:
    """Three sessions are refused: what the session has to say waits until the fourth is made, and there is no fifth."""
    pair = ServerPair()
    session = pair.session()
    pair.b.refusals = repeat(True, 3)
    pair.crash(pair.a)
    pair.b.up = True
    send = session.create_producer("q").send(text_message("x", "q"))
    while len(pair.b.said(CreateSession)) < 4:
        assert not send.done and not pair.b.received
        pair.advance(0.01)
    pair.finish(send)
    assert len(pair.b.said(CreateSession)) == 4


@pytest.mark.parametrize("delivers", [True, False])
def test_non_transacted_with_zero_consumer_window_size(delivers: bool) -> None:
    """Window 0 and a caller that waits, a crash: every message is delivered."""
    stage = Stage(evolve(FAILING_OVER, consumer_window_size=0))
    session = stage.session()
    consumer = stage.consumer(session)
    received: list[str | None] = []

    def take(_: object) -> None:
        while (delivery := consumer.next(stage.world.instant)) is not None:
            received.append(text_of(delivery))
            session.consumed(delivery)
            consumer.want()

    consumer.on_ready = take
    consumer.want()
    if delivers:
        stage.send(session.create_producer(QUEUE), *numbered(0, COUNT // 2))
    stage.crash()
    stage.send(session.create_producer(QUEUE), *numbered(COUNT // 2, COUNT))
    stage.go(0.5)
    assert list(dict.fromkeys(received)) == numbered(0 if delivers else COUNT // 2, COUNT)
