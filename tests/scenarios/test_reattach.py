"""3: the connection fails, the broker lives.

What one session sees of that is in tests/embedclient/scenarios/test_reattach.py; here are listeners, and programs that
do several things at once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeAlias

import pytest
import trio

from embedbroker.pytest_plugin import BrokerClock, FaultPlan, ManagedBroker
from embedclient import Connection, ConnectionFactory, Queue, Topic
from embedclient.errors import JMSException
from tests.scenarios.clients import numbered, put, take

# A name in the VM has no time to live unless asked for, and then a broker keeps no session for a lost connection.
WINDOW = "reconnectAttempts=-1&retryInterval=10&confirmationWindowSize=1048576&connectionTTL=60000"
Work: TypeAlias = Callable[[Connection, str, BrokerClock], Awaitable[None]]
TASKS = 5
COUNT = 20
ROUNDS = 10


async def test_listeners_move_to_the_new_connection(embedded_broker: ManagedBroker) -> None:
    """3.3

    Given two sessions of one connection, and listeners of its failures, when it fails and is reattached, then the
    listeners hear of the next failure, too, once each, and both sessions go on.
    """
    heard: list[tuple[str, bool]] = []

    def listener(name: str, _error: JMSException, failed_over: bool) -> None:
        heard.append((name, failed_over))

    async with ConnectionFactory(f"{embedded_broker.url}?{WINDOW}").connect() as connection:
        for name in ("one", "other"):
            connection.add_failure_listener(partial(listener, name))
        async with connection.session() as first, connection.session() as second:
            for turn in range(1, 4):
                embedded_broker.link.cut()
                await put(first, ["x"])
                await put(second, ["x"])
                assert heard == [("one", True), ("other", True)] * turn
    await embedded_broker.wait_for(queue="orders", count=6)


async def cut_now_and_then(plan: FaultPlan, clock: BrokerClock, broker: ManagedBroker) -> None:
    """Cut the link at times that the plan draws, until this is cancelled."""
    while True:
        await clock.advance(plan.random.uniform(0.01, 0.2))
        broker.link.cut()


async def queue_of_its_own(connection: Connection, name: str, clock: BrokerClock) -> None:
    """Consumers come and go; what is sent to the queue comes back, once, in order (A, E, K)."""
    queue = Queue(name)
    async with connection.session() as session:
        for turn in range(ROUNDS):
            async with session.create_consumer(queue) as consumer:
                await put(session, numbered(turn * COUNT, turn * COUNT + COUNT), queue)
                assert await take(consumer, COUNT) == numbered(turn * COUNT, turn * COUNT + COUNT)
                await clock.advance(0.05)


async def in_transactions(connection: Connection, name: str, clock: BrokerClock) -> None:
    """Sent, rolled back, sent again; consumed, rolled back, consumed (C, G)."""
    topic = Topic(name)
    async with connection.session(transacted=True) as session, session.create_consumer(topic) as consumer:
        for turn in range(ROUNDS):
            for ends in (session.rollback, session.commit):
                producer = session.create_producer(topic)
                for text in numbered(0, COUNT):
                    await producer.send(f"{turn} {text}")
                await ends()
            for ends in (session.rollback, session.commit):
                assert await take(consumer, COUNT) == [f"{turn} {text}" for text in numbered(0, COUNT)]
                await ends()
            await clock.advance(0.05)


async def sessions_come_and_go(connection: Connection, name: str, clock: BrokerClock) -> None:
    """Each is opened, finds nothing in an empty queue, and is closed (L, O)."""
    for _ in range(5 * ROUNDS):
        async with connection.session() as session, session.create_consumer(Queue(name)) as consumer:
            assert await consumer.receive_nowait() is None
            await clock.advance(0.01)


@pytest.mark.parametrize("work", [queue_of_its_own, in_transactions, sessions_come_and_go])
async def test_several_at_once(
    embedded_broker: ManagedBroker, fault_plan: FaultPlan, broker_clock: BrokerClock, work: Work
) -> None:
    """3.25

    Given several tasks that use one factory, some of them with a connection in common, when the link is cut again and
    again at random times, then each sees what it would see without.
    """
    factory = ConnectionFactory(f"{embedded_broker.url}?{WINDOW}")
    async with trio.open_nursery() as outer, factory.connect() as one, factory.connect() as other:
        outer.start_soon(cut_now_and_then, fault_plan, broker_clock, embedded_broker)
        async with trio.open_nursery() as inner:
            for number in range(TASKS):
                inner.start_soon(work, (one, other)[number % 2], f"of-{number}", broker_clock)
        outer.cancel_scope.cancel()
    assert all(queue.count == 0 for queue in embedded_broker.queues())
