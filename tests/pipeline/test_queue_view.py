"""Looks at a queue whose connection breaks: nothing is shown twice without a report. No Spark."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from embedbroker import ThreadedBroker
from embedbroker.pipeline import _queue_view, _reconcile, _repair
from embedbroker.pipeline._broker_connection import BrokerConnection
from embedbroker.pipeline._options import ConnectionOptions
from embedbroker.pipeline._queue_view import queue_view
from embedclient.blocking import ConnectionFactory
from embedclient.errors import ConnectionLostException
from tests.interop.frame_relay import SESS_RECEIVE_MSG, FrameRelay
from tests.pipeline.journals import take
from tests.pipeline.queues import fill, numbered, text_message

MESSAGES = 300


@pytest.fixture
def relay(broker: ThreadedBroker) -> Iterator[FrameRelay]:
    with FrameRelay(int(broker.url.rpartition(":")[2])) as running:
        yield running


@pytest.fixture
def breaking(broker: ThreadedBroker, relay: FrameRelay, monkeypatch: pytest.MonkeyPatch) -> ConnectionOptions:
    """A queue whose connection is cut when half of it was shown, in reads of a tenth."""
    monkeypatch.setattr(_queue_view, "ROWS_PER_READ", MESSAGES // 10)
    fill(broker.url, "orders", numbered("orders", range(MESSAGES)))
    relay.when(SESS_RECEIVE_MSG, from_broker=True, number=MESSAGES // 2, act=relay.cut)
    return ConnectionOptions(f"tcp://127.0.0.1:{relay.port}?consumerWindowSize=3000")


def test_a_comparison_whose_connection_breaks_counts_no_message_twice(breaking: ConnectionOptions) -> None:
    with pytest.raises(ConnectionLostException, match="'orders' was shown: begin again"):
        list(_reconcile.browse_rows(breaking, "orders", False))
    assert sum(batch.num_rows for batch in _reconcile.browse_rows(breaking, "orders", False)) == MESSAGES


def test_a_repair_whose_connection_breaks_counts_no_message_twice(breaking: ConnectionOptions) -> None:
    link = BrokerConnection(breaking)
    try:
        with link.session() as session, pytest.raises(ConnectionLostException, match="begin again"):
            list(_repair.keys_and_digests(session, "orders", None))
    finally:
        link.close()


def test_a_connection_that_breaks_behind_the_last_message_is_noticed(broker: ThreadedBroker, relay: FrameRelay) -> None:
    """The queue was emptied meanwhile, so the new session shows nothing: was there more?"""
    fill(broker.url, "orders", [text_message("orders", str(number)) for number in range(3)])
    link = BrokerConnection(ConnectionOptions(f"tcp://127.0.0.1:{relay.port}"))
    try:
        with link.session() as session:
            view = queue_view(session, "orders")
            shown = 0
            while shown < 3:  # One read takes what has arrived, which may be fewer than all.
                shown += len(next(view))
            assert shown == 3
            with ConnectionFactory(broker.url).connect() as connection:
                take(connection, "orders", 3)
            relay.cut()
            with pytest.raises(ConnectionLostException, match="begin again"):
                next(view)
    finally:
        link.close()
