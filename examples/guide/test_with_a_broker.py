"""A pytest module: a broker per test, a crash in the middle of one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from embedbroker import EmbeddedBroker, ThreadedBroker
from embedclient import Queue
from embedclient.blocking import ConnectionFactory

ORDERS = Queue("orders")


@pytest.fixture
def durable_broker(tmp_path: Path) -> Iterator[ThreadedBroker]:
    with EmbeddedBroker.in_thread(data_directory=str(tmp_path)) as broker:
        yield broker


def place_order(url: str, text: str) -> None:
    """The code under test."""
    with ConnectionFactory(url).create_context() as context:
        context.create_producer().send(ORDERS, text)


def waiting_orders(url: str) -> list[str]:
    with (
        ConnectionFactory(url).create_context() as context,
        context.create_browser(ORDERS) as browser,
    ):
        return [message.body for message in browser]


def test_an_order_waits_in_its_queue() -> None:
    with EmbeddedBroker.in_thread() as broker:
        place_order(broker.url, "two coffees")
        assert waiting_orders(broker.url) == ["two coffees"]


def test_an_order_survives_a_crash(durable_broker: ThreadedBroker) -> None:
    place_order(durable_broker.url, "two coffees")
    durable_broker.crash()
    durable_broker.start()
    assert waiting_orders(durable_broker.url) == ["two coffees"]
