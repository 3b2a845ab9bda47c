"""Queues of an `EmbeddedBroker` and of its twin in a thread: figures, waits, and changes."""

from __future__ import annotations

import pytest
import trio

from embedbroker import EmbeddedBroker
from embedclient import ConnectionFactory, blocking
from embedclient.errors import IllegalStateException, InvalidDestinationException


async def test_queues_of_a_broker(autojump_clock: trio.testing.MockClock) -> None:
    async with EmbeddedBroker() as broker, ConnectionFactory(broker.vm_url).connect() as connection:
        await broker.create_queue("orders")
        assert (broker.queue("orders").message_count, broker.queue("orders").routing_type) == (0, "ANYCAST")
        with pytest.raises(InvalidDestinationException, match="no queue 'order'; did you mean 'orders'"):
            broker.queue("order")

        async def send() -> None:
            await trio.testing.wait_all_tasks_blocked()
            await connection.send("orders", "a")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            await broker.wait_for(queue="orders", count=1, consumers=0)
        assert "orders" in [queue.name for queue in broker.queues()]
        assert broker.queues() == await broker.management.queues()
        with pytest.raises(TimeoutError, match="queue orders has 1 messages and 0 consumers after 2 s, not 2 messages"):
            await broker.wait_for(queue="orders", count=2, timeout=2)
        with pytest.raises(TypeError, match="needs a count"):
            await broker.wait_for(queue="orders")
        assert await broker.purge("orders") == 1
        await broker.delete_queue("orders")
        await broker.wait_for(queue="orders", count=0)
    with pytest.raises(IllegalStateException):
        broker.queues()


def test_queues_of_a_broker_in_a_thread() -> None:
    with EmbeddedBroker.in_thread() as broker, blocking.ConnectionFactory(broker.url).connect() as connection:
        broker.create_queue("orders")
        connection.send("orders", "a")
        broker.wait_for(queue="orders", count=1)
        assert broker.queue("orders").message_count == 1
        assert "orders" in [queue.name for queue in broker.queues()]
        assert broker.purge("orders") == 1
        broker.delete_queue("orders")
        with pytest.raises(InvalidDestinationException):
            broker.queue("orders")
