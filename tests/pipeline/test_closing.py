"""The end of a query or an export while the broker is away: it does not wait as long as a request may."""

from __future__ import annotations

import threading
import time

import pytest

from embedbroker import ThreadedBroker
from embedbroker.pipeline import _export_ranges
from embedbroker.pipeline._broker_connection import BrokerConnection
from embedbroker.pipeline._export_ranges import pinned_ranges
from embedbroker.pipeline._options import ConnectionOptions
from embedbroker.pipeline._services import REQUEST_TIMEOUT_S, Services
from embedclient.blocking import ClientProducer
from embedclient.errors import JMSException
from tests.pipeline.queues import fill, numbered


def test_closing_ends_a_request_of_another_thread(broker: ThreadedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a query does that is stopped while its thread renews a lease."""
    waits = threading.Event()
    send = ClientProducer.send_encoded

    def send_encoded(*arguments: object, **named: object) -> object:
        waits.set()
        return send(*arguments, **named)  # type: ignore[arg-type]

    link = BrokerConnection(ConnectionOptions(broker.url))
    services = Services(link)
    assert services.can("cursor.open")
    broker.crash()
    monkeypatch.setattr(ClientProducer, "send_encoded", send_encoded)
    errors: list[JMSException] = []

    def ask() -> None:
        try:
            services.call("capabilities")
        except JMSException as error:
            errors.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    assert waits.wait(10)
    since = time.monotonic()
    services.close()
    assert time.monotonic() - since < 4
    asking.join(4)
    assert len(errors) == 1
    link.close()
    assert time.monotonic() - since < REQUEST_TIMEOUT_S / 10


def test_an_export_that_is_interrupted_lets_its_queues_go_in_one_budget(
    broker: ThreadedBroker, tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_export_ranges, "CLOSE_TIMEOUT_S", 0.5)
    names = ["orders", "second", "third"]
    for name in names:
        fill(broker.url, name, numbered(name, range(3)))
    since = 0.0
    with (
        pytest.raises(KeyboardInterrupt),
        pinned_ranges(ConnectionOptions(broker.url), names, str(tmp_path), 10) as found,
    ):
        assert sorted(found) == names
        broker.crash()
        since = time.monotonic()
        raise KeyboardInterrupt
    assert time.monotonic() - since < 4
