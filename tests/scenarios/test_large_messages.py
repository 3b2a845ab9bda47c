"""2.5.8 to 2.5.10, 2.5.13, 2.1.6, 2.1.10, 2.3.20: large messages and the backup of their broker."""

from __future__ import annotations

import pytest
import trio

from embedbroker import (
    DivertConfiguration,
    ReplicationBackup,
    ReplicationPrimary,
    SharedStoreBackup,
    SharedStorePrimary,
)
from embedbroker.pytest_plugin import BrokerClock, BrokerPair, ManagedBroker
from embedbroker.pytest_plugin._broker import prepare
from embedbroker.storage import ListFiles, Sync, WriteAt, body_number
from embedclient import Queue
from embedclient.errors import ConnectionClosedException
from tests.scenarios.clients import ORDERS, put, queued, session_at, take
from tests.scenarios.conftest import MakePair

COUNT = 5


@pytest.fixture(params=[False, True], ids=["no votes", "lock manager"])
def pair(request: pytest.FixtureRequest, make_pair: MakePair) -> BrokerPair:
    """Replicating, and not started."""
    return make_pair(ReplicationPrimary(), ReplicationBackup(), lock_manager=request.param)


def large(first: int, end: int) -> list[str]:
    """Bodies of about 300 KiB, which clients send in chunks."""
    return [f"{number}," * 100_000 for number in range(first, end)]


def files(broker: ManagedBroker) -> list[str]:
    """The files of large bodies that a broker has."""
    (names,) = broker.disk.run((ListFiles(),))
    assert isinstance(names, tuple)
    return [name for name in names if body_number(name) is not None]


async def start_primary(pair: BrokerPair) -> None:
    await prepare(*pair.brokers)
    await pair.primary.start()


async def test_delete_large_messages(pair: BrokerPair, broker_clock: BrokerClock) -> None:
    """2.5.8

    Given large messages on a pair in sync, when they are consumed, then both brokers have removed their files.
    """
    await pair.start()
    async with session_at(pair.url) as session:
        await put(session, large(0, COUNT))
        assert len(files(pair.primary)) == len(files(pair.backup)) == COUNT
        async with session.create_consumer(ORDERS) as consumer:
            assert await take(consumer, COUNT) == large(0, COUNT)
        await broker_clock.advance(1)
    assert files(pair.primary) == files(pair.backup) == []


async def test_delete_large_messages_during_sync(pair: BrokerPair, broker_clock: BrokerClock) -> None:
    """2.5.9

    Given large messages, when they are consumed while the backup gets its copy, then neither broker has their files.
    """
    await start_primary(pair)
    async with session_at(pair.url) as session:
        await put(session, large(0, COUNT))
        pair.link.delay(0.1)
        await pair.backup.start()
        async with session.create_consumer(ORDERS) as consumer:
            assert await take(consumer, COUNT) == large(0, COUNT)
        assert not pair.primary.broker.is_in_sync
        pair.link.heal()
        await pair.wait_in_step()
        await broker_clock.advance(1)
        assert files(pair.primary) == files(pair.backup) == []
        await pair.failover()
        assert await queued(pair.backup) == []


async def test_backup_starts_when_primary_is_receiving_large_message(
    pair: BrokerPair, broker_clock: BrokerClock
) -> None:
    """2.5.10

    Given a large message of which a part was sent, when a backup joins and the rest is sent, then the backup has all
    of it after the primary's crash.
    """
    await start_primary(pair)
    async with session_at(pair.url) as session:
        sent = trio.Event()

        async def send() -> None:
            await put(session, large(0, COUNT))
            sent.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            await pair.wait_for(queue="orders", count=1)
            assert not sent.is_set()
            await pair.backup.start()
        await pair.wait_in_step()
        await pair.failover()
        assert await queued(pair.backup) == large(0, COUNT)


async def test_primary_crash_on_backup_sync_large_message(pair: BrokerPair, broker_clock: BrokerClock) -> None:
    """2.5.13

    Given large messages, when the primary crashes while the backup gets its copy, and comes back, then it has them.
    """
    await start_primary(pair)
    async with session_at(pair.url) as session:
        await put(session, large(0, COUNT))
    pair.link.delay(0.2)
    await pair.backup.start()
    await broker_clock.advance(0.5)
    assert not pair.primary.broker.is_in_sync
    await pair.primary.crash()
    pair.link.heal()
    await pair.primary.start()
    assert await queued(pair.primary) == large(0, COUNT)


async def test_transacted_large_messages_sent_then_failover(pair: BrokerPair) -> None:
    """2.1.6, 2.1.10

    Given large messages of a transaction, when the primary crashes after its commit, then the backup has them.
    """
    await pair.start()
    async with session_at(pair.url, transacted=True) as session:
        await put(session, large(0, COUNT))
        await session.commit()
        await pair.failover()
        assert await queued(pair.backup) == large(0, COUNT)
        async with session.create_consumer(ORDERS) as consumer:
            assert await take(consumer, COUNT) == large(0, COUNT)
            await session.commit()
        assert await queued(pair.backup) == []


@pytest.mark.parametrize("crashes", [False, True], ids=["consumed", "crash"])
@pytest.mark.parametrize("replicates", [False, True], ids=["shared store", "replication"])
async def test_unique_ids_with_divert(make_pair: MakePair, replicates: bool, crashes: bool) -> None:
    """2.3.20

    Given large messages that a divert copies, when the messages of the source are consumed, or when the primary
    crashes, then all copies are readable at the backup: each has its whole body, and an id that no other one has.
    """
    diverts = {"copies": DivertConfiguration("orders", "audit")}
    policies = (
        (ReplicationPrimary(), ReplicationBackup()) if replicates else (SharedStorePrimary(), SharedStoreBackup())
    )
    pair = make_pair(*policies, diverts=diverts)
    await pair.start()
    audit = Queue("audit")
    async with session_at(pair.url) as session:
        await put(session, ["first"], audit)
        await put(session, large(0, COUNT))
        assert len(await pair.primary.messages("audit")) == COUNT + 1
        if not crashes:
            async with session.create_consumer(ORDERS) as consumer:
                assert await take(consumer, COUNT) == large(0, COUNT)
        await pair.failover()
        assert await queued(pair.backup) == (large(0, COUNT) if crashes else [])
        ids = [message.message_id for message in await pair.backup.messages("audit")]
        assert len(set(ids)) == COUNT + 1
        async with session.create_consumer(audit) as consumer:
            assert await take(consumer, COUNT + 1) == ["first", *large(0, COUNT)]


async def test_backup_compares_the_checksums_of_its_bodies(pair: BrokerPair) -> None:
    """Not on the checklist: given a backup with copies of large messages, one of which changes on its disk, when the
    primary crashes, then the backup delivers the others, and that one is a dead letter."""
    await start_primary(pair)
    async with session_at(pair.url) as session:
        await put(session, large(0, 3))
        await pair.backup.start()
        await pair.wait_in_step()
        await put(session, large(3, COUNT))
        name = files(pair.backup)[1]
        pair.backup.disk.run((WriteAt(name, 100_000, (b"?",)), Sync(name)))
        await pair.failover()
        async with session.create_consumer(ORDERS) as consumer:
            with pytest.raises(ConnectionClosedException, match="the broker closed the consumer"):
                await take(consumer, 2)
        # What the closed consumer had in its buffer comes again.
        async with session.create_consumer(ORDERS) as consumer:
            found = await take(consumer, COUNT - 1)
    assert found == [text for text in large(0, COUNT) if text != large(1, 2)[0]]
