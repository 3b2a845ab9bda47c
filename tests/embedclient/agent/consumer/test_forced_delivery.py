"""A request for everything in the queue is answered only when the program can take all of it."""

from __future__ import annotations

import pytest

from embedclient.agent import Call, Consumer, LocatorSettings, Session, SessionMode
from embedclient.model import XaCode
from tests.embedclient.agent.node_pair import NodePair, open_queue, open_session, take, text_message, text_of
from tests.embedclient.agent.test_xa_with_node import code_of, open_xa_session, xid_of

RECONNECTING = LocatorSettings(reconnect_attempts=-1, retry_interval_ms=100)


def silent(sender: str, data: bytes) -> bytes:
    return b""


def everything(sender: str, data: bytes) -> bytes:
    return data


def send_three(pair: NodePair) -> None:
    feeder = open_session(pair)
    producer, consumer = open_queue(pair, feeder)
    pair.finish(consumer.close())
    for number in range(3):
        pair.finish(producer.send(text_message(str(number), "q")))


class Asking:
    """Request, and take what is there at each event, as a waiting program does."""

    def __init__(self, pair: NodePair, consumer: Consumer) -> None:
        self._pair = pair
        self._consumer = consumer
        consumer.on_ready = self._on_ready
        self.forced: Call[None] = consumer.force_delivery()
        self.taken: list[str | None] = []
        self.at_the_end: list[str | None] | None = None

    def _on_ready(self, consumer: Consumer) -> None:
        done = self.forced.done
        while (delivery := consumer.next(self._pair.now)) is not None:
            self.taken.append(text_of(delivery))
        if done and self.at_the_end is None:
            self.at_the_end = list(self.taken)


def lost_while_asking(pair: NodePair, session: Session, *, browse_only: bool) -> Asking:
    """The first of several sessions sends a request. Its connection is lost before the answer; all are made again."""
    consumer = pair.finish(session.create_consumer("q", browse_only=browse_only))
    for _ in range(3):
        open_session(pair)
    pair.filter = silent
    asking = Asking(pair, consumer)
    pair.settle()
    asking.taken.clear()
    pair.filter = everything
    pair.cut()
    return asking


@pytest.mark.parametrize("browse_only", [True, False])
def test_an_answer_that_comes_before_the_whole_reconnect_is_complete_waits_for_it(browse_only: bool) -> None:
    pair = NodePair(RECONNECTING)
    session = open_session(pair)
    send_three(pair)
    asking = lost_while_asking(pair, session, browse_only=browse_only)
    pair.advance(1)
    assert session.rebuilds == 1
    assert asking.forced.done
    assert asking.at_the_end == ["0", "1", "2"]


@pytest.mark.parametrize("browse_only", [True, False])
def test_in_a_session_that_was_never_started_a_browser_goes_on_and_others_hear_of_the_end(browse_only: bool) -> None:
    pair = NodePair(RECONNECTING)
    session = pair.finish(pair.agent.create_session_for(SessionMode.AUTO))
    send_three(pair)
    asking = lost_while_asking(pair, session, browse_only=browse_only)
    pair.advance(1)
    assert session.rebuilds == 1
    assert asking.forced.done
    assert asking.at_the_end == (["0", "1", "2"] if browse_only else [])


def test_a_browser_of_a_session_that_was_never_started_hears_of_what_came_during_a_reconnect() -> None:
    pair = NodePair(RECONNECTING)
    session = pair.finish(pair.agent.create_session_for(SessionMode.AUTO))
    send_three(pair)
    consumer = pair.finish(session.create_consumer("q", browse_only=True))
    told: list[str | None] = []

    def on_ready(ready: Consumer) -> None:
        while (delivery := ready.next(pair.now)) is not None:
            told.append(text_of(delivery))

    consumer.on_ready = on_ready
    pair.settle()
    told.clear()
    pair.cut()
    pair.advance(1)
    assert told == ["0", "1", "2"]


@pytest.mark.parametrize("is_lost", [False, True])
def test_who_asks_during_a_rollback_hears_of_the_end_when_what_comes_again_is_there(is_lost: bool) -> None:
    pair = NodePair(RECONNECTING)
    session = open_session(pair, SessionMode.TRANSACTED)
    send_three(pair)
    consumer = pair.finish(session.destinations.open_queue_consumer("q"))
    pair.settle()
    first = consumer.next(pair.now)
    assert first is not None
    session.consumed(first)
    rollback = session.rollback()
    asking = Asking(pair, consumer)
    if is_lost:
        pair.cut()
        pair.advance(1)
    pair.finish(rollback)
    assert asking.forced.done
    assert asking.at_the_end == ["0", "1", "2"]


@pytest.mark.parametrize("asks_first", [True, False], ids=["asks first", "rolls back first"])
def test_who_asks_while_a_branch_is_rolled_back_hears_of_the_end_when_what_comes_again_is_there(
    asks_first: bool,
) -> None:
    """1. The broker stops delivering, and answers at once that there is nothing. 2. It gives back what was received."""
    pair = NodePair(RECONNECTING)
    session, xa = open_xa_session(pair)
    send_three(pair)
    consumer = pair.finish(session.destinations.open_queue_consumer("q"))
    pair.finish(xa.start(xid_of(1)))
    assert take(pair, session, consumer) == ["0", "1", "2"]
    pair.finish(xa.end(xid_of(1)))
    asking = Asking(pair, consumer) if asks_first else None
    rollback = xa.rollback(xid_of(1))
    asking = asking or Asking(pair, consumer)
    assert code_of(pair, rollback) == XaCode.XA_OK
    assert asking.forced.done
    assert asking.at_the_end == ["0", "1", "2"]


def test_who_asked_before_a_rollback_hears_of_the_end_when_what_comes_again_is_there() -> None:
    """1. Messages and mark are on their way. 2. A rollback begins. 3. They come; the messages are forgotten."""
    pair = NodePair(RECONNECTING)
    session = open_session(pair, SessionMode.TRANSACTED)
    send_three(pair)
    consumer = pair.finish(session.destinations.open_queue_consumer("q"))
    asking = Asking(pair, consumer)
    pair.finish(session.rollback())
    assert asking.forced.done
    assert asking.at_the_end == ["0", "1", "2"]


def test_a_consumer_opened_during_a_rollback_hears_of_the_end_behind_it() -> None:
    pair = NodePair(RECONNECTING)
    session = open_session(pair, SessionMode.TRANSACTED)
    send_three(pair)
    opening = session.create_consumer("q")
    rollback = session.rollback()
    asking: list[Asking] = []
    opening.on_done = lambda call: asking.append(Asking(pair, call.result))
    pair.finish(rollback)
    assert asking[0].forced.done
    assert asking[0].at_the_end == ["0", "1", "2"]


@pytest.mark.parametrize("is_closed", ["consumer", "session"])
def test_who_asks_during_a_reconnect_hears_of_a_close(is_closed: str) -> None:
    pair = NodePair(RECONNECTING)
    session = open_session(pair)
    send_three(pair)
    asking = lost_while_asking(pair, session, browse_only=False)
    closing = session.close() if is_closed == "session" else next(iter(session.flow.open_consumers())).close()
    pair.advance(1)
    pair.finish(closing)
    assert asking.forced.error is not None
