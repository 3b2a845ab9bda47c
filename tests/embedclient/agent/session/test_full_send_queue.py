"""Requests that find the backlog full: what has happened here already happens at the broker, too."""

from __future__ import annotations

import pytest
from attrs import evolve

from embedclient.agent import Call, Consumer, LocatorSettings, Producer, Session, SessionMode
from embedclient.errors import ErrorCode
from embedclient.model import XaCode
from tests.embedclient.agent.node_pair import NodePair, count_of, open_queue, open_session, take, text_message
from tests.embedclient.agent.test_xa_with_node import code_of, open_xa_session, xid_of

SMALL = LocatorSettings(
    reconnect_attempts=-1, retry_interval_ms=100, confirmation_window_size=1 << 20, pending_requests_max=1
)


def opened(mode: SessionMode, settings: LocatorSettings = SMALL) -> tuple[NodePair, Session, Consumer, Producer]:
    """A session whose consumer holds "one"; the producer belongs to another session."""
    pair = NodePair(settings)
    session = open_session(pair, mode)
    _, consumer = open_queue(pair, session)
    producer = open_session(pair).create_producer("q")
    pair.finish(producer.send(text_message("one", "q")))
    pair.settle()
    return pair, session, consumer, producer


def fill(pair: NodePair, session: Session) -> None:
    """Nothing is answered any more, and no more may wait."""
    pair.filter = lambda sender, data: b"" if sender == "server" else data
    for _ in range(2):
        session.addressing.query_queue("q")
    pair.settle()
    assert pair.error_code(session.addressing.query_queue("q")) == ErrorCode.GENERIC_EXCEPTION


def empty(pair: NodePair) -> None:
    """The answers come, behind a connection that was lost."""
    pair.filter = lambda sender, data: data
    pair.cut()
    pair.advance(1)


@pytest.mark.parametrize("mode", [SessionMode.AUTO, SessionMode.TRANSACTED])
@pytest.mark.parametrize("stopped", [False, True])
def test_a_rollback_is_made_whole_however_much_waits(mode: SessionMode, stopped: bool) -> None:
    pair, session, consumer, _ = opened(mode)
    if stopped:
        pair.finish(session.stop())
    fill(pair, session)
    rollback = session.rollback(last_message_as_delivered=True)
    pair.settle()
    empty(pair)
    pair.finish(rollback)
    assert session.rebuilds == 0
    pair.finish(session.start())
    assert take(pair, session, consumer) == ["one"]


def test_a_rollback_stops_what_a_program_could_not_stop_because_too_much_waited() -> None:
    """A rollback that finds its session stopped relies on that: the broker delivers nothing meanwhile."""
    pair, session, consumer, producer = opened(SessionMode.TRANSACTED)
    fill(pair, session)
    stop = session.stop()
    empty(pair)
    pair.finish(stop)
    pair.finish(producer.send(text_message("two", "q")))
    assert consumer.buffered == 1
    pair.finish(session.rollback())
    pair.finish(session.start())
    assert take(pair, session, consumer) == ["one", "two"]


def test_a_consumer_that_is_closed_while_too_much_waits_is_closed_at_the_broker() -> None:
    """Left open there, it would be sent messages that no program ever sees."""
    pair, session, consumer, _ = opened(SessionMode.AUTO)
    fill(pair, session)
    close = consumer.close()
    empty(pair)
    pair.finish(close)
    other = open_session(pair)
    assert take(pair, other, pair.finish(other.destinations.open_queue_consumer("q"))) == ["one"]


@pytest.mark.parametrize("individually", [False, True])
def test_no_commit_leaves_out_an_acknowledgement_that_was_made_while_too_much_waited(individually: bool) -> None:
    settings = evolve(SMALL, block_on_acknowledge=True, transaction_batch_size=1)
    pair, session, consumer, _ = opened(SessionMode.TRANSACTED, settings)
    fill(pair, session)
    delivery = consumer.next(pair.now)
    assert delivery is not None
    acknowledgements = consumer.acknowledgements
    acknowledge = acknowledgements.acknowledge_individually if individually else acknowledgements.acknowledge
    call = acknowledge(delivery)
    empty(pair)
    pair.finish(call)
    pair.finish(session.commit())
    assert count_of(pair, session) == 0


def test_the_rollback_of_a_branch_is_made_whole_however_much_waits() -> None:
    pair = NodePair(SMALL)
    session, xa = open_xa_session(pair)
    _, consumer = open_queue(pair, session)
    pair.finish(open_session(pair).create_producer("q").send(text_message("one", "q")))
    pair.finish(xa.start(xid_of(1)))
    assert take(pair, session, consumer) == ["one"]
    pair.finish(xa.end(xid_of(1)))
    fill(pair, session)
    rollback: Call[XaCode] = xa.rollback(xid_of(1))
    empty(pair)
    assert code_of(pair, rollback) == XaCode.XA_OK
    pair.finish(xa.start(xid_of(2)))
    assert take(pair, session, consumer) == ["one"]
