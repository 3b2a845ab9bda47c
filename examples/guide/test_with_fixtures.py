"""Faults under a test: a link, a disk, a plan."""

import pytest

from embedbroker.pytest_plugin import (
    BlockingPair,
    BrokerClock,
    BrokerPair,
    FaultPlan,
    ManagedBroker,
    WaitTimeout,
)
from embedclient import ConnectionFactory, JMSException, Queue
from embedclient.errors import TransactionRolledBackException

ORDERS = Queue("orders")


async def test_a_commit_during_a_failover_is_safe_to_repeat(
    broker_pair: BrokerPair,
) -> None:
    async with (
        ConnectionFactory(broker_pair.url).connect() as connection,
        connection.session(transacted=True) as session,
    ):
        await session.create_producer(ORDERS).send("half an order")
        await broker_pair.failover()
        with pytest.raises(TransactionRolledBackException):
            await session.commit()
        await session.create_producer(ORDERS).send("a whole order")
        await session.commit()
        await broker_pair.assert_message("orders", "a whole order")
        await broker_pair.wait_for(queue="orders", count=1)


async def test_a_send_waits_out_a_partition(
    embedded_broker: ManagedBroker, fault_plan: FaultPlan, broker_clock: BrokerClock
) -> None:
    url = f"{embedded_broker.url}?reconnectAttempts=-1"
    async with (
        ConnectionFactory(url).connect() as connection,
        connection.session() as session,
    ):
        embedded_broker.link.partition()
        fault_plan.at(3, embedded_broker.link.heal)
        await session.create_producer(ORDERS).send("late")
        assert broker_clock.seconds >= 3


async def test_nothing_confirmed_is_lost_whatever_breaks_when(
    broker_pair: BrokerPair, fault_plan: FaultPlan
) -> None:
    confirmed = 0
    async with (
        ConnectionFactory(broker_pair.url).connect() as connection,
        connection.session() as session,
    ):
        fault_plan.within(0.01, broker_pair.live.crash)
        fault_plan.within(0.01, broker_pair.live.link.drop_after, 700)
        for number in range(20):
            try:
                await session.create_producer(ORDERS).send(str(number))
            except JMSException:  # in doubt: the test does not send it again
                continue
            confirmed += 1
    await broker_pair.wait_live()
    assert len(await broker_pair.live.messages("orders")) >= confirmed
    broker_pair.assert_nothing_lost()


async def test_a_wait_says_what_it_found_instead(
    embedded_broker: ManagedBroker,
) -> None:
    with pytest.raises(
        WaitTimeout, match="queue orders with 3 messages: not within 1 s"
    ):
        await embedded_broker.wait_for(queue="orders", count=3, timeout=1)


def test_without_async(broker_pair_blocking: BlockingPair) -> None:
    from embedclient.blocking import ConnectionFactory

    pair = broker_pair_blocking
    with (
        ConnectionFactory(pair.url).connect() as connection,
        connection.session() as session,
    ):
        session.create_producer(ORDERS).send("before")
        pair.failover()
        session.create_producer(ORDERS).send("after")
        pair.wait_for(queue="orders", count=2)
