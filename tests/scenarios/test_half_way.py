"""Browsers, small windows and networks that fail, when a broker of either kind of pair is replaced half way."""

from __future__ import annotations

import pytest
import trio

from embedbroker import ReplicationBackup, ReplicationPrimary, SharedStoreBackup, SharedStorePrimary
from embedbroker.pytest_plugin import BrokerClock, BrokerPair
from tests.scenarios.clients import ORDERS, numbered, put, put_once, queued, session_at, take
from tests.scenarios.conftest import MakePair

COUNT = 40


async def test_fail_with_browser(broker_pair: BrokerPair) -> None:
    """2.2.25

    Given a browser that has shown half of a queue, when the primary crashes, then a new look shows the durable messages
    from the beginning.
    """
    async with session_at(broker_pair.url) as session:
        for number in range(COUNT):
            await put(session, [str(number)], durable=number % 2 == 0)
        async with session.create_browser(ORDERS) as browser:
            half = [await browser.next_message() for _ in range(COUNT // 2)]
            assert [message and message.body for message in half] == numbered(0, COUNT // 2)
            await broker_pair.failover()
            await browser.start_over()
            assert [message.body async for message in browser] == numbered(0, COUNT)[::2]


@pytest.mark.parametrize("window", [0, 300], ids=["no window", "a window of a few messages"])
async def test_flow_control_over_a_failover(broker_pair: BrokerPair, window: int) -> None:
    """Not on the checklist: flow control.

    Given credits for a few messages only, on both ways, when the primary crashes, then the sessions that are made again
    have their credits again: everything is sent once and received in order.
    """
    options = f"&producerWindowSize=300&consumerWindowSize={window}"
    async with session_at(broker_pair.url + options) as session, session_at(broker_pair.url + options) as reader:
        producer = session.create_producer(ORDERS)
        async with reader.create_consumer(ORDERS) as consumer:
            for number in range(COUNT):
                if number == COUNT // 2:
                    await broker_pair.wait_for(queue="orders", count=0)  # what was received is acknowledged
                    await broker_pair.failover()
                await put_once(producer, str(number), size_characters=100)
                (body,) = await take(consumer, 1)
                assert str(body).strip() == str(number)
        assert await queued(broker_pair) == []


async def test_the_network_fails_in_the_middle_of_a_failover(
    broker_pair: BrokerPair, broker_clock: BrokerClock
) -> None:
    """Not on the checklist: a network that fails, too.

    Given a consumer, when the primary crashes while nothing reaches the backup, and the network is there again later,
    then the consumer goes on at the backup with what is left, and with what comes.
    """
    async with session_at(broker_pair.url) as session:
        await put(session, numbered(0, COUNT))
        async with session.create_consumer(ORDERS) as consumer:
            assert await take(consumer, COUNT // 2) == numbered(0, COUNT // 2)
            await broker_pair.wait_for(queue="orders", count=COUNT // 2)
            broker_pair.backup.link.partition()
            async with trio.open_nursery() as nursery:
                await broker_pair.failover()
                nursery.start_soon(put, session, ["during"])
                await broker_clock.advance(3)
                assert await queued(broker_pair) == numbered(COUNT // 2, COUNT)  # it has not got there
                broker_pair.backup.link.heal()
            assert await take(consumer, COUNT // 2 + 1) == [*numbered(COUNT // 2, COUNT), "during"]


POLICIES = {
    "shared-store": (SharedStorePrimary(), SharedStoreBackup(allow_failback=True)),
    "replication": (ReplicationPrimary(), ReplicationBackup(allow_failback=True)),
}


@pytest.mark.parametrize("kind", POLICIES)
async def test_a_small_cache_of_duplicate_ids_over_a_failover(make_pair: MakePair, kind: str) -> None:
    """Not on the checklist: `id-cache-size`.

    Given a broker that remembers five ids, when the primary crashes, then its backup remembers the same five: what is
    repeated of them is there once, and of what is older twice.
    """
    size = 5
    pair = make_pair(*POLICIES[kind], id_cache_size=size)
    await pair.start()
    async with session_at(pair.url) as session:
        producer = session.create_producer(ORDERS)
        for text in numbered(0, 2 * size):
            await put_once(producer, text)
        await pair.failover()
        for text in numbered(size, 2 * size):
            await put_once(producer, text)
        assert await queued(pair) == numbered(0, 2 * size)
        await put_once(producer, "0")
        assert await queued(pair) == [*numbered(0, 2 * size), "0"]
