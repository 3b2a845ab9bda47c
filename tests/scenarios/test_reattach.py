"""3: the connection fails, the broker lives.

What one session sees of that is in tests/embedclient/scenarios/test_reattach.py; here are listeners, handlers, and
programs that do several things at once.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TypeAlias

import pytest
import trio
from attrs import define, frozen

from embedbroker.pytest_plugin import BrokerClock, FaultPlan, ManagedBroker
from embedclient import AcknowledgeMode, Connection, ConnectionFactory, Message, MessageConsumer, Queue, Session, Topic
from embedclient.errors import JMSException
from tests.scenarios.clients import PATIENCE_S, let_time_pass, numbered, put, take

# A name in the VM has no time to live unless asked for, and then a broker keeps no session for a lost connection.
WINDOW = (
    "reconnectAttempts=-1&initialConnectAttempts=-1&retryInterval=10&confirmationWindowSize=1048576&connectionTTL=60000"
)
#: What one of several tasks does: with the factory of all, a connection that it shares with others, and a name.
Work: TypeAlias = Callable[[ConnectionFactory, Connection, str, BrokerClock], Awaitable[None]]
TASKS = 5
MANY = 100
COUNT = 20
ROUNDS = 10


async def test_reattach_transfer_connection_on_session_2(embedded_broker: ManagedBroker) -> None:
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


async def receive_and_cut(broker: ManagedBroker, consumer: MessageConsumer) -> None:
    """Receive a message whose acknowledgement is lost with the connection; none is made before the link is healed."""
    broker.link.partition("to_broker")
    assert await take(consumer, 1) == ["x"]
    broker.link.cut()


async def test_a_session_that_is_closed_while_its_link_is_cut_keeps_its_acknowledgements(
    embedded_broker: ManagedBroker,
) -> None:
    """Not on the checklist: given a received message, when its session is closed during a cut and the connection comes
    back, then the message is acknowledged."""
    async with ConnectionFactory(f"{embedded_broker.url}?{WINDOW}").connect() as connection:
        async with connection.session() as session, session.create_consumer(Queue("orders")) as consumer:
            await put(session, ["x"])
            await receive_and_cut(embedded_broker, consumer)
        embedded_broker.link.heal()
        async with connection.session() as session, session.create_consumer(Queue("orders")) as consumer:
            await put(session, ["y"])
            assert await take(consumer, 1) == ["y"]


async def test_a_connection_that_is_closed_while_its_link_is_cut_loses_acknowledgements_that_wait(
    embedded_broker: ManagedBroker,
) -> None:
    """Not on the checklist: given a received message, when the connection is closed during a cut, then the message
    comes again, once."""
    factory = ConnectionFactory(f"{embedded_broker.url}?{WINDOW.replace('60000', '1000')}")
    async with (
        factory.connect() as connection,
        connection.session() as session,
        session.create_consumer(Queue("orders")) as consumer,
    ):
        await put(session, ["x"])
        await receive_and_cut(embedded_broker, consumer)
        await connection.close()
    embedded_broker.link.heal()
    async with (
        factory.connect() as connection,
        connection.session() as session,
        session.create_consumer(Queue("orders")) as consumer,
    ):
        assert await take(consumer, 1) == ["x"]
    await embedded_broker.wait_for(queue="orders", count=0)


@define
class Cuts:
    """Cuts the link of a broker at times that the plan draws, as long as it goes on.

    In real time each cut gives the next one a little more time: a slow machine gets on between two cuts, too.
    """

    broker: ManagedBroker
    plan: FaultPlan
    seconds_between_max: float
    grows_by: float = 1.0
    goes_on: bool = True

    def next(self) -> None:
        self.plan.within(self.seconds_between_max, self.cut)
        self.seconds_between_max *= self.grows_by

    def cut(self) -> None:
        if self.goes_on:
            self.broker.link.cut()
            self.next()


# -- handlers --------------------------------------------------------------------------------------------------------


@frozen
class Subscriber:
    """A session and what the handler of its consumer was given."""

    session: Session
    heard: trio.MemoryReceiveChannel[object]

    async def hears(self, count: int) -> list[object]:
        return [await self.heard.receive() for _ in range(count)]


async def subscribe(connection: Connection, topic: Topic, clock: BrokerClock, *, transacted: bool) -> Subscriber:
    """A session with a handler, which acknowledges each message unless the session is transacted."""
    session = await connection.create_session(transacted=transacted, acknowledge_mode=AcknowledgeMode.CLIENT)
    says, heard = trio.open_memory_channel[object](math.inf)

    async def handle(message: Message) -> None:
        await let_time_pass(clock, 0.01)
        says.send_nowait(message.body)
        if not transacted:
            await message.acknowledge()

    (await session.create_consumer(topic)).set_message_listener(handle)
    return Subscriber(session, heard)


@asynccontextmanager
async def subscribers(
    factory: ConnectionFactory, topic: Topic, clock: BrokerClock, count: int, *, late: bool, transacted: bool
) -> AsyncIterator[tuple[Connection, list[Subscriber]]]:
    """So many, on a connection of their own that is started now or by the caller."""
    async with factory.connect() as connection:
        if late:
            await connection.stop()
        yield connection, [await subscribe(connection, topic, clock, transacted=transacted) for _ in range(count)]


async def handlers(
    factory: ConnectionFactory,
    connection: Connection,
    name: str,
    clock: BrokerClock,
    *,
    late: bool,
    transacted: bool = False,
    count: int = 10,
    messages: int = MANY,
) -> None:
    """Each handler acknowledges, and is given everything in order (A, B). In transactions: sent, rolled back, sent
    again; consumed, rolled back, consumed: two complete rounds (C, D)."""
    topic = Topic(name)
    async with subscribers(factory, topic, clock, count, late=late, transacted=transacted) as (theirs, everybody):
        async with connection.session(transacted=transacted) as session:
            for end in rounds(session, transacted):
                producer = session.create_producer(topic)
                for text in numbered(0, messages):
                    await producer.send(text)
                    await let_time_pass(clock, 0.01)
                await end()
        await theirs.start()
        for subscriber in everybody:
            for end in rounds(subscriber.session, transacted):
                assert await subscriber.hears(messages) == numbered(0, messages)
                await end()


def rounds(session: Session, transacted: bool) -> Sequence[Callable[[], Awaitable[object]]]:
    """How each round ends: the first of a transaction is undone, and without one there is one."""
    return (session.rollback, session.commit) if transacted else (trio.lowlevel.checkpoint,)


@asynccontextmanager
async def cut_again_and_again(
    broker: ManagedBroker, plan: FaultPlan, clock: BrokerClock
) -> AsyncIterator[ConnectionFactory]:
    """A factory whose connections fail at random times; when all is done the broker has no message left."""
    cuts = Cuts(broker, plan, 0.2) if clock.is_virtual else Cuts(broker, plan, 0.05, grows_by=1.03)
    cuts.next()
    if clock.is_virtual:
        # Without it nothing is under way when virtual time passes, and calls would never be cut in the middle.
        broker.link.delay(0.0005)
    yield ConnectionFactory(f"{broker.url}?{WINDOW}")
    cuts.goes_on = False
    assert all(queue.message_count == 0 for queue in broker.queues())


@pytest.mark.parametrize(
    ("late", "count"),
    [(False, 10), pytest.param(True, 50, marks=pytest.mark.search)],
    ids=["A: started first", "B: started after sending"],
)
async def test_random_reattach_of_handlers(
    embedded_broker: ManagedBroker, fault_plan: FaultPlan, broker_clock: BrokerClock, late: bool, count: int
) -> None:
    """3.15, 3.16

    Given ten subscribers that are started, or fifty that are started when everything is sent, with handlers that
    acknowledge, when connections fail at random times, then each is given 100 messages in order.
    """
    async with cut_again_and_again(embedded_broker, fault_plan, broker_clock) as factory, factory.connect() as one:
        await handlers(factory, one, "prices", broker_clock, late=late, count=count)


@pytest.mark.parametrize("late", [False, True], ids=["C: started first", "D: started late"])
async def test_random_reattach_of_handlers_in_transactions(
    embedded_broker: ManagedBroker, fault_plan: FaultPlan, broker_clock: BrokerClock, late: bool
) -> None:
    """3.17, 3.18

    Given what was sent, rolled back and sent again, and ten sessions whose handlers consume it, when they are rolled
    back and consume again, and connections fail at random times, then there are two complete rounds in order.
    """
    async with cut_again_and_again(embedded_broker, fault_plan, broker_clock) as factory, factory.connect() as one:
        await handlers(factory, one, "prices", broker_clock, late=late, transacted=True)


# -- several at once -------------------------------------------------------------------------------------------------


async def queue_of_its_own(_factory: ConnectionFactory, connection: Connection, name: str, clock: BrokerClock) -> None:
    """Consumers come and go; what is sent to the queue comes back, once, in order (E, F, K)."""
    queue = Queue(name)
    async with connection.session() as session:
        for turn in range(ROUNDS):
            async with session.create_consumer(queue) as consumer:
                await put(session, numbered(turn * COUNT, turn * COUNT + COUNT), queue)
                assert await take(consumer, COUNT) == numbered(turn * COUNT, turn * COUNT + COUNT)
                await let_time_pass(clock, 0.05)


async def in_transactions(_factory: ConnectionFactory, connection: Connection, name: str, clock: BrokerClock) -> None:
    """Sent, rolled back, sent again; received, rolled back, received (G, H)."""
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
            await let_time_pass(clock, 0.05)


async def one_of_each(_factory: ConnectionFactory, connection: Connection, _name: str, clock: BrokerClock) -> None:
    """One send, one receive, and the end of the queue (I, J)."""
    for _ in range(ROUNDS):
        async with connection.session() as session:
            queue = await session.create_temporary_queue()
            async with session.create_consumer(queue) as consumer:
                await put(session, ["x"], queue)
                assert await take(consumer, 1) == ["x"]
                await let_time_pass(clock, 0.05)
            await session.delete_temporary(queue)


async def sessions_come_and_go(
    _factory: ConnectionFactory, connection: Connection, name: str, clock: BrokerClock
) -> None:
    """Each is opened, finds nothing in an empty queue, and is closed (L, O)."""
    for _ in range(5 * ROUNDS):
        async with connection.session() as session, session.create_consumer(Queue(name)) as consumer:
            assert await consumer.receive_nowait() is None
            await let_time_pass(clock, 0.01)


async def stop_and_start(factory: ConnectionFactory, _connection: Connection, name: str, clock: BrokerClock) -> None:
    """A connection is stopped and started around each send: something arrives only while it is started (N).

    Each message is acknowledged by a call: a connection that is closed while its link is cut loses the acknowledgements
    that wait, and the last message would come again.
    """
    queue = Queue(name)
    async with (
        factory.connect() as connection,
        connection.session(acknowledge_mode=AcknowledgeMode.CLIENT) as session,
        session.create_consumer(queue) as consumer,
    ):
        for text in numbered(0, COUNT):
            await connection.stop()
            await put(session, [text], queue)
            await let_time_pass(clock, 0.05)
            assert await consumer.receive_nowait() is None
            await connection.start()
            message = await consumer.receive(timeout=PATIENCE_S)
            assert message is not None
            assert message.body == text
            await message.acknowledge()


#: By the letters of what they do.
WORKS: dict[str, Work] = {
    "A": partial(handlers, late=False, count=5, messages=COUNT),
    "B": partial(handlers, late=True, count=5, messages=COUNT),
    "C": partial(handlers, late=False, transacted=True, count=5, messages=COUNT),
    "D": partial(handlers, late=True, transacted=True, count=5, messages=COUNT),
    "E, F, K": queue_of_its_own,
    "G, H": in_transactions,
    "I, J": one_of_each,
    "L, O": sessions_come_and_go,
    "N": stop_and_start,
}


async def all_tasks(factory: ConnectionFactory, clock: BrokerClock, work: Work) -> None:
    async with factory.connect() as one, factory.connect() as other:
        async with trio.open_nursery() as nursery:
            for number in range(TASKS):
                nursery.start_soon(work, factory, (one, other)[number % 2], f"of-{number}", clock)
        for connection in (one, other):
            # Acknowledgements of a session that was closed while the link was cut go first when the connection is back.
            await (await connection.create_session()).close()


@pytest.mark.parametrize("work", WORKS.values(), ids=WORKS)
async def test_several_at_once(
    broker: ManagedBroker, fault_plan: FaultPlan, broker_clock: BrokerClock, work: Work
) -> None:
    """3.25

    Given several tasks that use one factory, some of them with a connection in common, when the link is cut again and
    again at random times, then each sees what it would see without.
    """
    async with cut_again_and_again(broker, fault_plan, broker_clock) as factory:
        await all_tasks(factory, broker_clock, work)
