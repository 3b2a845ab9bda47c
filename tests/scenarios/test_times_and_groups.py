"""Messages with a time, delayed redeliveries and message groups while their broker is replaced."""

from __future__ import annotations

import pytest
import trio

from embedbroker import (
    AddressSettings,
    HAPolicy,
    ReplicationBackup,
    ReplicationPrimary,
    SharedStoreBackup,
    SharedStorePrimary,
)
from embedbroker.pytest_plugin import BrokerPair
from embedclient import Message, MessageConsumer, TextMessage
from tests.scenarios.clients import ORDERS, PATIENCE_S, commit, put, session_at, take
from tests.scenarios.conftest import MakePair

#: More than a failover takes.
DELAY_S = 60.0
#: In virtual time, what follows from a message comes much sooner.
SOON_S = 2.0

POLICIES = [(SharedStorePrimary(), SharedStoreBackup()), (ReplicationPrimary(), ReplicationBackup())]


@pytest.fixture(params=POLICIES, ids=["shared store", "replication"])
def pair(request: pytest.FixtureRequest, make_pair: MakePair) -> BrokerPair:
    """A pair that delays redeliveries, and is not started."""
    policies: tuple[HAPolicy, HAPolicy] = request.param
    settings = {"#": AddressSettings(redelivery_delay_ms=round(DELAY_S * 1000))}
    return make_pair(*policies, address_settings=settings)


async def comes_at(consumer: MessageConsumer, due: float) -> Message:
    """The next message, which must come when it is due, and not before."""
    assert await consumer.receive(timeout=due - trio.current_time() - 0.01) is None
    message = await consumer.receive(timeout=PATIENCE_S)
    assert message is not None
    assert due <= trio.current_time() + 0.001 < due + SOON_S
    return message


async def test_a_scheduled_message_comes_at_its_time(pair: BrokerPair) -> None:
    """Not on the checklist

    Given a scheduled message, when the primary crashes before it is due, then the backup delivers it at its time, and
    another message at once.
    """
    await pair.start()
    async with session_at(pair.url) as session:
        due = trio.current_time() + DELAY_S
        await session.create_producer(ORDERS).send("late", delivery_delay=DELAY_S)
        await pair.failover()
        await put(session, ["now"])
        async with session.create_consumer(ORDERS) as consumer:
            assert await take(consumer, 1) == ["now"]
            assert (await comes_at(consumer, due)).body == "late"


async def test_a_delayed_redelivery_comes_at_its_time(pair: BrokerPair) -> None:
    """Not on the checklist

    Given a message that a rollback has returned, when the primary crashes before its redelivery is due, then the backup
    delivers it when it is due, as redelivered.
    """
    await pair.start()
    async with session_at(pair.url, transacted=True) as session:
        await commit(session, ["one"])
        async with session.create_consumer(ORDERS) as consumer:
            assert await take(consumer, 1) == ["one"]
            due = trio.current_time() + DELAY_S
            await session.rollback()
            await pair.failover()
            message = await comes_at(consumer, due)
            assert message.body == "one" and message.redelivered
            await session.commit()
    await pair.assert_empty("orders")


async def test_a_message_group_stays_with_one_consumer(pair: BrokerPair) -> None:
    """Not on the checklist

    Given two consumers, one of which has a message group, when the primary crashes, then each group has one consumer at
    the backup, too, and its messages come in order.
    """
    await pair.start()
    async with session_at(pair.url) as sending, session_at(pair.url) as one, session_at(pair.url) as two:
        producer = sending.create_producer(ORDERS)

        async def send(first: int, end: int) -> None:
            for number in range(first, end):
                await producer.send(TextMessage(f"{number:02}", properties={"JMSXGroupID": "ab"[number % 2]}))

        async with one.create_consumer(ORDERS) as left, two.create_consumer(ORDERS) as right:
            await send(0, 4)
            found = await received(left), await received(right)
            assert sorted(found[0] + found[1]) == ["00", "01", "02", "03"]
            await pair.failover()
            await send(4, 24)
            found = await received(left), await received(right)
    for bodies in found:
        assert bodies == sorted(bodies)
    assert sorted(found[0] + found[1]) == [f"{number:02}" for number in range(4, 24)]
    for group in (0, 1):
        assert sum(any(int(body) % 2 == group for body in bodies) for bodies in found) == 1, found


async def received(consumer: MessageConsumer) -> list[str]:
    """All that comes soon."""
    found = []
    while (message := await consumer.receive(timeout=SOON_S)) is not None:
        found.append(str(message.body))
    return found
