"""What was asked for while there was no connection, and waited longer than it may, in a session that is reattached."""

from __future__ import annotations

import pytest
from attrs import evolve

from embedbroker.testing._scripts import Steps
from embedclient.agent import Consumer, LocatorSettings, Producer, Session, SessionMode
from embedclient.errors import ErrorCode
from embedclient.model import Instant, RoutingType
from embedclient.wire.core import SessionAcknowledge, SessionRollback, SessionStop, SessionXaRollback
from tests.embedclient.agent.node_pair import NodePair, count_of, open_queue, open_session, take, text_message, text_of
from tests.embedclient.agent.simulated_pair import FAILING_OVER, PairClient, SimulatedPair
from tests.embedclient.agent.test_waiting_for_failover import sent_kinds
from tests.embedclient.agent.test_xa_with_node import open_xa_session, xid_of

REATTACHING = LocatorSettings(
    reconnect_attempts=-1, retry_interval_ms=100, confirmation_window_size=1 << 20, call_failover_timeout_ms=1000
)


def lose_connection(pair: NodePair) -> None:
    pair.refuse_dials = True
    pair.cut()
    pair.settle()


def find_connection(pair: NodePair) -> None:
    pair.client_bytes.clear()
    pair.refuse_dials = False
    pair.advance(1)


def stops_and_rollbacks(pair: NodePair) -> list[int]:
    kinds = (SessionStop.TYPE, SessionRollback.TYPE, SessionXaRollback.TYPE)
    return [kind for kind in sent_kinds(pair) if kind in kinds]


@pytest.mark.parametrize("stopped", [False, True], ids=["delivering", "stopped by the program"])
def test_a_rollback_stops_deliveries_though_its_stop_has_waited_too_long(stopped: bool) -> None:
    pair = NodePair(REATTACHING)
    session = open_session(pair, SessionMode.CLIENT)
    _, consumer = open_queue(pair, session)
    feeder = open_session(pair).create_producer("q")
    pair.finish(feeder.send(text_message("one", "q")))
    lose_connection(pair)
    stop = session.stop() if stopped else None
    rollback = None if stopped else session.rollback()
    pair.advance(1.5)
    if stop is not None:
        assert pair.error_code(stop) == ErrorCode.CONNECTION_TIMEDOUT
    rollback = rollback or session.rollback()
    find_connection(pair)
    pair.finish(rollback)
    assert stops_and_rollbacks(pair) == [SessionStop.TYPE, SessionRollback.TYPE]
    assert session.rebuilds == 0
    pair.finish(session.start())
    assert take(pair, session, consumer) == ["one"]


def test_the_rollback_of_a_branch_stops_deliveries_though_its_stop_has_waited_too_long() -> None:
    pair = NodePair(REATTACHING)
    session, xa = open_xa_session(pair)
    producer, consumer = open_queue(pair, session)
    pair.finish(xa.start(xid_of(1)))
    producer.send(text_message("one", "q"))
    pair.finish(xa.end(xid_of(1)))
    lose_connection(pair)
    rollback = xa.rollback(xid_of(1))
    pair.advance(1.5)
    find_connection(pair)
    pair.finish(rollback)
    assert stops_and_rollbacks(pair) == [SessionStop.TYPE, SessionXaRollback.TYPE]
    assert consumer.buffered == 0


def fed(feeder: PairClient, *texts: str) -> Steps:
    creating = feeder.agent().create_session_for(SessionMode.AUTO)
    yield creating
    producer = creating.result.create_producer("q")
    for text in texts:
        yield producer.send(text_message(text, "q"))


def received(pair: SimulatedPair, session: Session, consumer: Consumer) -> list[str | None]:
    texts = []
    while (delivery := consumer.next(Instant(pair.world.now, 1_700_000_000_000))) is not None:
        texts.append(text_of(delivery))
        session.consumed(delivery)
    return texts


def test_nothing_is_lost_when_the_answer_to_a_rollback_comes_behind_what_is_delivered_again() -> None:
    """1. The connection is lost behind a durable send. 2. recover(); its stop waits too long. 3. The session is
    reattached; the repeated send holds all answers until the disk has it, but no deliveries."""
    pair = SimulatedPair(3)
    pair.live.speed.sync_s = 0.02
    settings = evolve(FAILING_OVER, call_failover_timeout_ms=1000, confirmation_window_size=1 << 20)
    client, feeder = PairClient(pair.network, "c", settings), PairClient(pair.network, "f")
    opened: list[tuple[Session, Producer, Consumer]] = []

    def open_consumer() -> Steps:
        creating = client.agent().create_session_for(SessionMode.CLIENT)
        yield creating
        session = creating.result
        yield session.start()
        yield session.destinations.prepare_destination("q", RoutingType.ANYCAST)
        opening = session.destinations.open_queue_consumer("q")
        yield opening
        opened.append((session, session.create_producer("q"), opening.result))

    client.run("open", open_consumer())
    pair.run_out(client)
    feeder.run("feed", fed(feeder, "one", "two"))
    pair.run_out(feeder)
    session, producer, consumer = opened[0]
    assert received(pair, session, consumer) == ["one", "two"]
    client.flush()
    pair.run(0.2)
    pair.network.refuses = lambda one, other: True
    pair.network.hold("c", "a")
    producer.send_confirmed(text_message("repeated", "q"))
    client.flush()
    for link in list(pair.network.between("c", "a")):
        link.cut("connection reset")
    pair.network.release("c", "a")
    pair.run(0.05)
    rollback = session.rollback(last_message_as_delivered=True)
    client.flush()
    pair.run(1.2)
    pair.network.refuses = None
    pair.run(3)
    assert rollback.done and rollback.error is None and session.rebuilds == 0
    again = received(pair, session, consumer)
    feeder.run("feed", fed(feeder, "new"))
    pair.run_out(feeder)
    pair.run(0.5)
    assert again + received(pair, session, consumer) == ["one", "two", "repeated", "new"]


def test_a_blocking_acknowledgement_that_waited_too_long_is_made_in_front_of_the_next_one() -> None:
    pair = NodePair(evolve(REATTACHING, block_on_acknowledge=True))
    session = open_session(pair)
    producer, consumer = open_queue(pair, session)
    for text in ("one", "two", "three"):
        pair.finish(producer.send(text_message(text, "q")))
    lose_connection(pair)
    first = consumer.next(pair.now)
    assert first is not None
    acknowledgement = session.consumed(first)
    pair.advance(1.5)
    assert pair.error_code(acknowledgement) == ErrorCode.CONNECTION_TIMEDOUT
    second = consumer.next(pair.now)
    assert second is not None
    behind = session.consumed(second)
    find_connection(pair)
    pair.finish(behind)
    kinds = [kind for kind in sent_kinds(pair) if kind == SessionAcknowledge.TYPE]
    assert len(kinds) == 2
    assert count_of(pair, session) == 1


def test_no_commit_leaves_out_a_full_batch_whose_acknowledgement_waited_too_long() -> None:
    pair = NodePair(evolve(REATTACHING, block_on_acknowledge=True, transaction_batch_size=1))
    session = open_session(pair, SessionMode.TRANSACTED)
    _, consumer = open_queue(pair, session)
    pair.finish(open_session(pair).create_producer("q").send(text_message("one", "q")))
    lose_connection(pair)
    delivery = consumer.next(pair.now)
    assert delivery is not None
    acknowledgement = session.consumed(delivery)
    pair.advance(1.5)
    assert pair.error_code(acknowledgement) == ErrorCode.CONNECTION_TIMEDOUT
    find_connection(pair)
    pair.finish(session.commit())
    assert count_of(pair, session) == 0


def test_a_flushed_batch_stays_behind_a_blocking_acknowledgement_that_waits() -> None:
    """A cumulative acknowledgement of what a later one has taken already would be refused, or take everything."""
    pair = NodePair(evolve(REATTACHING, block_on_acknowledge=True, transaction_batch_size=400))
    session = open_session(pair, SessionMode.TRANSACTED)
    _, consumer = open_queue(pair, session)
    feeder = open_session(pair).create_producer("q")
    for text in ("one" * 200, "two", "three"):
        pair.finish(feeder.send(text_message(text, "q")))
    lose_connection(pair)
    for _ in range(2):
        delivery = consumer.next(pair.now)
        assert delivery is not None
        session.consumed(delivery)
    commit = session.commit()
    find_connection(pair)
    pair.finish(commit)
    assert count_of(pair, session) == 1


@pytest.mark.parametrize("arrives", [True, False], ids=["opened", "not opened"])
def test_a_consumer_whose_opening_was_answered_too_late_is_closed_at_the_broker(arrives: bool) -> None:
    """1. SESS_CREATECONSUMER is sent, its answer takes longer than a call may; the caller gets an error. 2. The
    session is reattached, and the answer comes. 3. No program has that consumer, and it may get a request refused."""
    pair = NodePair(evolve(REATTACHING, call_timeout_ms=1000))
    session = open_session(pair)
    _, consumer = open_queue(pair, session)
    pair.finish(consumer.close())
    pair.filter = lambda sender, data: data if arrives and sender == "client" else b""
    opening = session.create_consumer("q")
    pair.advance(0.9)
    pair.refuse_dials = True
    pair.advance(0.2)
    assert pair.error_code(opening) == ErrorCode.CONNECTION_TIMEDOUT
    pair.filter = lambda sender, data: data
    find_connection(pair)
    assert session.rebuilds == 0
    assert pair.finish(session.addressing.query_queue("q")).consumer_count == 0
