"""2.5: a backup that replicates gets what was there before it, and what happens meanwhile."""

from __future__ import annotations

import pytest
import trio

from embedbroker import ReplicationBackup, ReplicationPrimary
from embedbroker.pytest_plugin import BrokerClock, BrokerPair, ManagedBroker
from embedbroker.pytest_plugin._broker import prepare
from embedbroker.storage import ListFiles, Read, Stat
from embedclient import ConnectionFactory, Queue
from embedclient.errors import JMSException
from tests.scenarios.clients import ORDERS, numbered, put, queued, session_at, take
from tests.scenarios.conftest import MakePair

COUNT = 30


@pytest.fixture(params=[False, True], ids=["no votes", "lock manager"])
def pair(request: pytest.FixtureRequest, make_pair: MakePair) -> BrokerPair:
    """Replicating, and not started. With a lock manager: line 2.5.12."""
    return make_pair(ReplicationPrimary(), ReplicationBackup(), lock_manager=request.param)


async def start_primary(pair: BrokerPair) -> None:
    await prepare(*pair.brokers)
    await pair.primary.start()


def sizes(broker: ManagedBroker) -> dict[str, object]:
    """The sizes of the files of its journal."""
    (names,) = broker.disk.run((ListFiles(),))
    assert isinstance(names, tuple)
    segments = [name for name in names if name.startswith("segment-")]
    return dict(zip(segments, broker.disk.run(tuple(Stat(name) for name in segments)), strict=True))


async def test_node_id(pair: BrokerPair) -> None:
    """2.5.1, 2.5.12

    Given a backup that is in sync, when it is asked, then it has the node id of its primary.
    """
    await pair.start()
    assert pair.backup.broker.node_id == pair.primary.broker.node_id != ""


async def test_reserve_file_id_values_on_backup(pair: BrokerPair, broker_clock: BrokerClock) -> None:
    """2.5.2, 2.5.12

    Given several files of a journal from before the copy, from while it is made and from after it, when the primary
    crashes, then the backup has all three rounds of messages, and had the same files with the same sizes.
    """
    await start_primary(pair)
    filler = "x" * 6_000
    async with session_at(pair.url, transacted=True) as session:
        await put(session, [f"before {filler}"] * 90)
        await session.commit()
        pair.link.delay(0.05)
        await pair.backup.start()
        await put(session, [f"during {filler}"] * 90)
        await session.commit()
        assert not pair.primary.broker.is_in_sync
        pair.link.heal()
        await pair.wait_in_step()
        await put(session, [f"after {filler}"] * 90)
        await session.commit()
        await broker_clock.advance(1)
        here, there = sizes(pair.primary), sizes(pair.backup)
        assert here == there and len(here) > 6
        await pair.failover()
        async with session.create_consumer(ORDERS) as consumer:
            found = [str(body).split()[0] for body in await take(consumer, 270)]
            await session.commit()
    assert found == ["before"] * 90 + ["during"] * 90 + ["after"] * 90


async def test_replication_during_sync(pair: BrokerPair, broker_clock: BrokerClock) -> None:
    """2.5.3, 2.5.12

    Given that some messages are sent, and some received, while the copy is made, when the primary crashes, then what
    is left is there, and nothing else.
    """
    await start_primary(pair)
    async with session_at(pair.url, transacted=True) as session:
        await put(session, numbered(0, 2 * COUNT))
        await session.commit()
        pair.link.delay(0.1)
        await pair.backup.start()
        async with session.create_consumer(ORDERS) as consumer:
            for first in range(0, COUNT, 10):
                assert await take(consumer, 10) == numbered(first, first + 10)
                await put(session, numbered(2 * COUNT + first, 2 * COUNT + first + 10))
                await session.commit()
                await broker_clock.advance(0.1)
                assert not pair.primary.broker.is_in_sync
        await pair.wait_in_step()
        await pair.failover()
        assert await queued(pair.backup) == numbered(COUNT, 3 * COUNT)


@pytest.mark.parametrize("consumed", [0, COUNT // 2], ids=["message sync simple", "message sync"])
async def test_message_sync(pair: BrokerPair, consumed: int) -> None:
    """2.5.4, 2.5.5, 2.5.12

    Given messages from before the backup started, all of them or half of them still there, when the primary crashes,
    then the backup has what was left.
    """
    await start_primary(pair)
    async with session_at(pair.url) as session:
        await put(session, numbered(0, COUNT))
        async with session.create_consumer(ORDERS) as consumer:
            assert await take(consumer, consumed) == numbered(0, consumed)
        await pair.wait_for(queue="orders", count=COUNT - consumed)
        await pair.backup.start()
        await pair.wait_in_step()
        await pair.failover()
        assert await queued(pair.backup) == numbered(consumed, COUNT)


@pytest.mark.parametrize("emptied_by", ["receive all", "remove all", "management"])
async def test_messages_with_purge_on_no_consumers(pair: BrokerPair, emptied_by: str) -> None:
    """2.5.6, 2.5.12

    Given a queue that is purged when its last consumer leaves, and that became empty by that, because everything was
    received, or by a management operation, when the primary crashes, then it is empty.
    """
    purged = Queue("purged?purge-on-no-consumers=true")
    await pair.start()
    async with session_at(f"{pair.url}{'&' if '?' in pair.url else '?'}consumerWindowSize=0") as session:
        async with session.create_consumer(purged) as consumer:
            await put(session, numbered(0, COUNT), purged)
            if emptied_by == "receive all":
                assert await take(consumer, COUNT) == numbered(0, COUNT)
            else:
                await pair.wait_for(queue="purged", count=COUNT)
            if emptied_by == "management":
                assert await pair.primary.broker.management.purge_queue("purged") == COUNT
                await pair.assert_empty("purged")
        await pair.assert_empty("purged")
        await put(session, ["behind it"])
        await pair.failover()
        assert await queued(pair.backup, "purged") == []
        assert await queued(pair.backup) == ["behind it"]


async def test_record_after_failover(pair: BrokerPair) -> None:
    """2.5.7, 2.5.12

    Given a failover, when the record beside the journal of the backup is read, then it has the primary's node id.
    """
    await pair.start()
    node_id = pair.primary.broker.node_id
    await pair.failover()
    (size,) = pair.backup.disk.run((Stat("node.state"),))
    assert isinstance(size, int)
    (text,) = pair.backup.disk.run((Read("node.state", 0, size),))
    assert isinstance(text, bytes) and f"node: {node_id}\n".encode() in text


async def test_replica_stop(pair: BrokerPair, broker_clock: BrokerClock) -> None:
    """2.5.15

    Given a backup that does not answer any more, when the primary is stopped, then no caller that waits for a send
    gets that it is safe.
    """
    await pair.start()
    outcomes: list[str] = []
    async with ConnectionFactory(pair.primary.url).connect() as connection, connection.session() as session:
        producer = session.create_producer(ORDERS)
        await producer.send("before")
        pair.link.partition()

        async def send() -> None:
            try:
                await producer.send("waits")
            except JMSException as error:
                outcomes.append(type(error).__name__)
            else:
                outcomes.append("safe")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            await broker_clock.advance(1)
            assert outcomes == []
            await pair.primary.stop()
    assert outcomes == ["UnblockedException"]
