"""A connection of a process is one, and one that was given up is not found again."""

from __future__ import annotations

import pytest

from embedbroker import ThreadedBroker
from embedbroker.pipeline._broker_connection import BrokerConnection
from embedbroker.pipeline._options import ConnectionOptions
from embedclient.errors import ConnectionLostException


def test_a_process_has_one_connection_to_a_place(broker: ThreadedBroker) -> None:
    options = ConnectionOptions(broker.url)
    assert BrokerConnection.shared(options) is BrokerConnection.shared(ConnectionOptions(broker.url))


def test_a_connection_that_was_given_up_is_made_anew(broker: ThreadedBroker) -> None:
    options = ConnectionOptions(f"tcp://127.0.0.1:{broker.port}?reconnectAttempts=1&retryInterval=1")
    link = BrokerConnection.shared(options)
    broker.crash()
    with pytest.raises(ConnectionLostException), link.session():
        pass
    broker.start()
    again = BrokerConnection.shared(ConnectionOptions(broker.url))
    with again.session() as session:
        assert not session.query_queue("orders").exists
    assert link not in BrokerConnection.all_shared()
