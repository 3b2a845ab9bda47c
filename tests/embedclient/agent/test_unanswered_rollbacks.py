"""Rollbacks that left and are not answered in time: no program is shown what the broker has taken back."""

from __future__ import annotations

import pytest
from attrs import evolve

from embedclient.agent import LocatorSettings, Session, SessionMode
from embedclient.errors import ErrorCode
from embedclient.model import XaCode
from embedclient.wire.core import Packet, SessionRollback, SessionXaRollback, encode_packet
from tests.embedclient.agent.node_pair import NodePair, count_of, open_queue, open_session, take, text_message
from tests.embedclient.agent.test_xa_with_node import code_of, open_xa_session, xid_of

REATTACHING = LocatorSettings(
    reconnect_attempts=-1,
    retry_interval_ms=100,
    confirmation_window_size=1 << 20,
    call_timeout_ms=1000,
    call_failover_timeout_ms=1000,
)


class AnswersLost:
    """From the moment on in which a request leaves, nothing of the broker arrives; nor does it itself, if so asked."""

    def __init__(self, pair: NodePair, session: Session, request: Packet, *, arrives: bool = True) -> None:
        self.left = False
        self._frame = encode_packet(request, session.channel_id, session.channel.version)
        self._arrives = arrives
        pair.filter = self._filter

    def _filter(self, sender: str, data: bytes) -> bytes:
        if sender == "client":
            self.left = self.left or self._frame in data
            return data if self._arrives or not self.left else b""
        return b"" if self.left else data


def lose_connection(pair: NodePair) -> None:
    pair.refuse_dials = True
    pair.filter = lambda sender, data: data


def find_connection(pair: NodePair) -> None:
    pair.refuse_dials = False
    pair.advance(1)


@pytest.mark.parametrize("arrives", [True, False], ids=["done", "not done"])
def test_what_the_rollback_of_a_branch_may_have_taken_back_is_shown_once(arrives: bool) -> None:
    """1. A branch is rolled back; the answer is lost, and then the connection. 2. It is asked for once more, and there
    is no connection in time. 3. The session could be reattached: its broker delivers again, or still waits."""
    pair = NodePair(REATTACHING)
    session, xa = open_xa_session(pair)
    _, consumer = open_queue(pair, session)
    producer = open_session(pair).create_producer("q")
    pair.finish(xa.start(xid_of(1)))
    for text in ("one", "two", "three"):
        pair.finish(producer.send(text_message(text, "q")))
    pair.finish(xa.end(xid_of(1)))
    assert consumer.buffered == 3
    lost = AnswersLost(pair, session, SessionXaRollback(xid_of(1)), arrives=arrives)
    rollback = xa.rollback(xid_of(1))
    pair.advance(0.9)
    assert lost.left
    lose_connection(pair)
    pair.advance(1.5)
    assert code_of(pair, rollback) == XaCode.XAER_RMFAIL
    find_connection(pair)
    pair.finish(xa.start(xid_of(2)))
    assert take(pair, session, consumer) == ["one", "two", "three"]
    pair.finish(xa.end(xid_of(2)))
    assert code_of(pair, xa.commit(xid_of(2), True)) == XaCode.XA_OK
    assert count_of(pair, session) == 0


def test_what_came_late_in_front_of_a_rollback_is_shown_once_though_that_is_not_answered_either() -> None:
    """1. A delivery and the reply to SESS_STOP are lost, the stop gives up. 2. The session is reattached: both come.
    3. SESS_ROLLBACK leaves, the broker takes the delivery back; the answer is lost."""
    pair = NodePair(evolve(REATTACHING, call_failover_timeout_ms=5000))
    session = open_session(pair, SessionMode.TRANSACTED)
    _, consumer = open_queue(pair, session)
    producer = open_session(pair).create_producer("q")
    pair.settle()
    pair.filter = lambda sender, data: b"" if sender == "server" else data
    producer.send(text_message("one", "q", durable=False))
    pair.settle()
    rollback = session.rollback()
    pair.advance(0.9)
    lost = AnswersLost(pair, session, SessionRollback(False))
    pair.advance(1.9)
    assert pair.error_code(rollback) == ErrorCode.CONNECTION_TIMEDOUT
    assert lost.left
    pair.filter = lambda sender, data: data
    pair.advance(1)
    assert session.rebuilds == 0
    assert take(pair, session, consumer) == ["one"]
