"""Clusters and bridges with bad input and bad luck, in virtual time.

Nothing is lost, and the log has a line by which an operator finds out what to do.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import ClassVar, TypeAlias

import pytest
import trio
import trio.testing

from embedbroker import AddressFullPolicy, AddressSettings, ClusterConnection, EmbeddedBroker, Role
from embedbroker.locks import MemoryLocks
from embedbroker.pytest_plugin import BrokerClock, BrokerCluster
from embedbroker.runtime._clock import EdgeClock
from embedbroker.testing import SimulatedDisk
from embedclient import Queue, Topic
from embedclient.model import Instant
from tests.embedbroker.outbound.test_bridges import MakeBroker, place, send, started
from tests.embedbroker.outbound.test_member_bridges import node_of
from tests.scenarios.clients import ORDERS, numbered, put, queued, session_at
from tests.scenarios.nodes import ADDRESS, clients_of, drained, pass_time, received, turns

MakeCluster: TypeAlias = Callable[..., BrokerCluster]
WAY = "$.artemis.internal.sf.cluster."


def lines(caplog: pytest.LogCaptureFixture, part: str) -> list[str]:
    return [
        record.getMessage()
        for record in caplog.records
        if record.levelno >= logging.WARNING and part in record.getMessage()
    ]


def settings_of_full(policy: AddressFullPolicy, address: str) -> dict[str, object]:
    limit = AddressSettings(max_size_bytes=10_000, address_full_policy=policy)
    return {"address_settings": {address: limit}}


async def test_a_wrong_cluster_password_on_one_of_three_nodes(
    broker_cluster: MakeCluster, broker_clock: BrokerClock, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = broker_cluster(3, brokers=[{}, {}, {"cluster_password": "wrong"}])
    for node in cluster.nodes:
        await node.start()
    await cluster.wait_formed([0, 1], [2])
    async with clients_of(cluster) as clients:
        for client in clients:
            await client.queues("queue0")
        consumers = [await client.consumer("queue0") for client in clients]
        await cluster.wait_for_bindings(queue="queue0", count=2, consumers=2, nodes=[0, 1])
        await clients[0].send(0, 10)
        await clients[2].send(10, 20)
        found = [await received(each) for each in consumers]
        assert sorted(found[:2]) == turns(10, 2) and found[2] == list(range(10, 20))
    await broker_clock.advance(60)
    # Two brokers dial the third one, which dials both. None of them tries more often than every half minute.
    advice = "cluster_user and cluster_password must be the same on all brokers of a cluster"
    assert len(lines(caplog, f"refuses the cluster user and password: {advice}")) == 4
    assert 4 <= len(lines(caplog, f"the password is wrong; {advice}")) <= 12


async def test_a_member_that_sends_no_snapshot_is_tried_again(
    broker_cluster: MakeCluster, broker_clock: BrokerClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Each of both sends its request to an address that is not that of management at the other one."""
    cluster = broker_cluster(2, call_timeout_ms=5000, brokers=[{}, {"management_address": "other.management"}])
    for node in cluster.nodes:
        await node.start()
    await broker_clock.advance(4.9)
    reason = "tries again: no snapshot of its queues came within 5000 ms"
    assert lines(caplog, reason) == []
    await broker_clock.advance(0.2)
    assert len(lines(caplog, reason)) == 2


async def test_two_nodes_with_one_node_id(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """A data directory was copied with its broker: clients of each are served, and neither is a member of the other."""

    def node(name: str, other: str, disk: SimulatedDisk, locks: MemoryLocks) -> EmbeddedBroker:
        return EmbeddedBroker(
            name=name,
            disk=disk,
            locks=locks,
            addresses=place("orders"),
            connectors={"a": "vm://a", "b": "vm://b"},
            cluster_connections=ClusterConnection(connector=name, static_connectors=[other]),
            cluster_password="secret",
        )

    async def put_in(name: str, text: str) -> int:
        async with session_at(f"vm://{name}") as session:
            await put(session, [text])
        found = await named[name].management.get("queue.orders", "MessageCount")
        assert isinstance(found, int)
        return found

    disk, locks, other_locks = SimulatedDisk(), MemoryLocks(), MemoryLocks()
    async with node("a", "b", disk, locks) as a:
        named = {"a": a}
        assert await put_in("a", "before") == 1
    other_locks.record = locks.record
    async with node("a", "b", disk.copy(), locks) as a, node("b", "a", disk.copy(), other_locks) as b:
        named = {"a": a, "b": b}
        assert [await put_in(name, "after") for name in named] == [2, 2]
        await pass_time(30)
        for name, broker in named.items():
            assert await broker.management.get("clusterconnection.cluster", "Nodes") == {}
            (line,) = lines(caplog, f"another broker, {name} (vm://{name}), announces that it is live with node id ")
            assert line.endswith("its data directory is a copy of this one, or both took over; stop one of the two")


async def test_more_hops_than_a_ring_has(broker_cluster: MakeCluster) -> None:
    """Each queue is bound once and nothing circulates, although notifications could go round three times."""
    cluster = await broker_cluster(3, topology="ring", max_hops=9).start()
    async with clients_of(cluster) as clients:
        for client in clients:
            await client.queues("queue0")
        consumers = [await client.consumer("queue0") for client in clients]
        await cluster.wait_for_bindings(queue="queue0", count=3, consumers=3)
        assert [[each.distance for each in known] for known in cluster.bindings("queue0")] == [[0, 1, 2]] * 3
        for client in clients:
            await client.send(0, 9)
        found = [await received(each) for each in consumers]
        assert sorted(number for each in found for number in each) == sorted([*range(9)] * 3)
        assert [len(each) for each in found] == [9, 9, 9]
    for node in cluster.nodes:
        assert all(queue.message_count == 0 for queue in node.queues() if queue.name.startswith(WAY))


@pytest.mark.parametrize("policy", [AddressFullPolicy.BLOCK, AddressFullPolicy.FAIL])
async def test_the_address_of_a_target_is_full(
    broker_cluster: MakeCluster,
    broker_clock: BrokerClock,
    caplog: pytest.LogCaptureFixture,
    policy: AddressFullPolicy,
) -> None:
    """As with Artemis, the bridge goes on with nothing until there is room. The log has no line for each attempt."""
    full = settings_of_full(policy, ADDRESS)
    cluster = await broker_cluster(
        2, brokers=[{}, full], producer_window_size=2_000, retry_interval_ms=2_000, confirmation_window_size=4_000
    ).start()
    async with clients_of(cluster) as (first, second):
        for name, address in (("queue0", ADDRESS), ("other", "other")):
            await second.queues(name, address=address)
        await cluster.wait_for_bindings(queue="other", count=1)
        await first.send(0, 50)
        await first.send(50, 60, address="other")
        await broker_clock.advance(10)
        counts = {queue.name: queue.message_count for queue in cluster.nodes[1].queues()}
        assert counts["queue0"] < 50 and counts["other"] == 0
        # Between two attempts: messages that are refused while others leave would be passed by those behind them.
        await broker_clock.advance(41)
        # Of an attempt nothing is left: neither its sessions, nor the queue with which it learns of queues.
        assert sum(name.startswith("notif.") for name in counts) <= 1
        found = await drained(second, "queue0")
        while len(found) < 50:
            await broker_clock.advance(2)
            found += await drained(second, "queue0")
        assert found == list(range(50))
        assert await drained(second, "other") == list(range(50, 60))
    (line,) = lines(caplog, f"producers to address '{ADDRESS}'")
    assert line.endswith("max_size_bytes is 10000; consume messages from its queues, or raise max_size_bytes")
    refused = lines(caplog, f"address '{ADDRESS}' is full at the other broker, and nothing passes the message: consume")
    assert bool(refused) is (policy is AddressFullPolicy.FAIL) and len(refused) <= 6
    waits = lines(caplog, f"waits, because address '{ADDRESS}' has no room at the other broker")
    assert len(waits) == (policy is AddressFullPolicy.BLOCK)
    cluster.assert_nothing_lost()


async def test_the_disk_of_a_target_is_full(
    broker_factory: MakeBroker, broker_clock: BrokerClock, caplog: pytest.LogCaptureFixture
) -> None:
    source, target = await started(broker_factory)
    await send(source, numbered(0, 10))
    await target.wait_for(queue="arrivals", count=10)
    target.disk.fill()
    await send(source, numbered(10, 20))
    await target.wait_for_role(Role.STOPPED)
    await source.wait_for(queue="orders", count=10)
    await broker_clock.advance(30)
    assert len(lines(caplog, "bridge 'to-b' is not connected, and tries again: ")) <= 2
    assert lines(caplog, "the broker stops: ")[0].endswith("no space left")
    target.disk.heal()
    await target.start()
    await source.assert_empty("orders")
    await target.wait_for(queue="arrivals", count=20)
    assert await queued(target, "arrivals") == numbered(0, 20)


async def test_the_disk_of_a_member_is_full(
    broker_cluster: MakeCluster, broker_clock: BrokerClock, caplog: pytest.LogCaptureFixture
) -> None:
    """The member stops. What was in doubt, and what was sent since, waits for it and reaches its consumers once."""
    cluster = await broker_cluster(2, retry_interval_ms=500).start()
    first, second = cluster.nodes
    async with clients_of(cluster, [0]) as (sender,):
        async with clients_of(cluster, [1]) as (reader,):
            await reader.queues("queue0")
            consumer = await reader.consumer("queue0")
            await cluster.wait_for_bindings(queue="queue0", count=1, consumers=1)
            await sender.send(0, 10)
            assert await received(consumer) == list(range(10))
            second.disk.fill()
            await sender.send(10, 20)
            await second.wait_for_role(Role.STOPPED)
        await broker_clock.advance(30)
        assert sum(queue.message_count for queue in first.queues() if queue.name.startswith(WAY)) == 10
        assert lines(caplog, "the broker stops: ")[0].endswith("no space left")
        second.disk.heal()
        await second.start()
        await cluster.wait_formed()
        async with clients_of(cluster, [1]) as (reader,):
            await second.wait_for(queue="queue0", count=10)
            assert await drained(reader, "queue0") == list(range(10, 20))
    cluster.assert_nothing_lost()


class _Jumping(EdgeClock):
    """A clock whose wall time is set by hand while it runs."""

    made: ClassVar[list[_Jumping]] = []

    def __init__(self) -> None:
        super().__init__()
        self.ahead_ms = 0
        self.made.append(self)

    def now(self) -> Instant:
        now = super().now()
        return Instant(now.monotonic, now.wall_ms + self.ahead_ms)


@pytest.mark.parametrize("hours", [10, -10])
async def test_the_clock_of_a_node_jumps(
    broker_cluster: MakeCluster,
    broker_clock: BrokerClock,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    hours: int,
) -> None:
    """The order of announcements follows wall time, and a member that returns must still be the newest."""
    cluster = broker_cluster(3)
    with monkeypatch.context() as patch:
        patch.setattr("embedbroker.runtime._host.EdgeClock", _Jumping)
        await cluster.nodes[1].start()
    clock = _Jumping.made[-1]
    await cluster.start()
    async with clients_of(cluster, [0]) as (first,):
        async with clients_of(cluster, [1]) as (second,):
            for client in (first, second):
                await client.queues("queue0")
            consumers = [await client.consumer("queue0") for client in (first, second)]
            await cluster.wait_for_bindings(queue="queue0", count=2, consumers=2)
            clock.ahead_ms = hours * 3_600_000
            await first.send(0, 10)
            assert sorted([await received(each) for each in consumers]) == turns(10, 2)
            await broker_clock.advance(60)
            await cluster.wait_formed()
        # It starts again with a clock that is right: hours late, or hours ahead of what it announced before.
        await cluster.nodes[1].crash()
        await cluster.wait_formed()
        await cluster.nodes[1].start()
        await cluster.wait_formed()
        async with clients_of(cluster, [1]) as (second,):
            consumer = await second.consumer("queue0")
            await cluster.wait_for_bindings(queue="queue0", count=2, consumers=2)
            await first.send(10, 20)
            assert sorted([await received(consumers[0]), await received(consumer)]) == [
                [10, 12, 14, 16, 18],
                [11, 13, 15, 17, 19],
            ]
    assert not lines(caplog, "copy")
    cluster.assert_nothing_lost()


@pytest.mark.parametrize("ahead_s", [100, -100])
async def test_the_clock_jumps_while_messages_wait_for_a_member(
    broker_cluster: MakeCluster, broker_clock: BrokerClock, monkeypatch: pytest.MonkeyPatch, ahead_s: int
) -> None:
    """A message expires by the clock of the node where it waits, and is delivered late by that of its target."""
    expiry = {"address_settings": {"#": AddressSettings(expiry_address="ExpiryQueue")}}
    cluster = broker_cluster(2, brokers=expiry, retry_interval_ms=500)
    first, second = cluster.nodes
    with monkeypatch.context() as patch:
        patch.setattr("embedbroker.runtime._host.EdgeClock", _Jumping)
        await first.start()
    clock = _Jumping.made[-1]
    await second.start()
    async with session_at(second.url) as session:
        await (await session.create_shared_durable_consumer(Topic("news"), "news")).close()
    await cluster.wait_for_bindings(queue="news", count=1)
    await second.crash()
    async with session_at(first.url) as session:
        producer = session.create_producer(Topic("news"))
        await producer.send("plain")
        await producer.send("expires", time_to_live=60)
        await producer.send("late", delivery_delay=60)
    clock.ahead_ms = ahead_s * 1_000
    await broker_clock.advance(35)
    assert await queued(first, "ExpiryQueue") == (["expires"] if ahead_s > 0 else [])
    await second.start()
    await broker_clock.advance(2)
    assert await queued(second, "news") == (["plain"] if ahead_s > 0 else ["plain", "expires"])
    # By now the clock of the target alone decides.
    await broker_clock.advance(90)
    assert await queued(second, "news") == ["plain", "late"]
    assert await queued(second, "ExpiryQueue") == ([] if ahead_s > 0 else ["expires"])
    await first.assert_empty(WAY + node_of(second).node_id)
    cluster.assert_nothing_lost()


async def test_a_bridge_to_an_older_broker_speaks_its_version(
    broker_factory: MakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("embedbroker.protocols.core._connection.SERVER_VERSION", 126)
    source, target = await started(broker_factory)
    await send(source, numbered(0, 10))
    await target.wait_for(queue="arrivals", count=10)
    assert await queued(target, "arrivals") == numbered(0, 10)


@pytest.mark.parametrize("owner", ["bridge", "cluster connection"])
async def test_a_broker_that_serves_no_version_of_the_bridge(
    broker_factory: MakeBroker,
    broker_cluster: MakeCluster,
    broker_clock: BrokerClock,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    owner: str,
) -> None:
    """Messages wait for a target that serves it, and arrive once."""
    address: Queue | Topic
    if owner == "bridge":
        source, target = await started(broker_factory)
        queue, name, address = "arrivals", "to-b", ORDERS
    else:
        cluster = await broker_cluster(2, retry_interval_ms=100).start()
        (source, target), queue, name, address = cluster.nodes, "news", WAY, Topic("news")
        async with session_at(target.url) as session:
            await (await session.create_shared_durable_consumer(Topic("news"), "news")).close()
        await cluster.wait_for_bindings(queue="news", count=1)
        name += node_of(target).node_id

    async def send_numbers(first: int, end: int) -> None:
        async with session_at(source.url) as session:
            await put(session, numbered(first, end), address)

    await send_numbers(0, 10)
    await target.wait_for(queue=queue, count=10)
    await target.crash()
    await send_numbers(10, 20)
    with monkeypatch.context() as patch:
        patch.setattr("embedbroker.protocols.core._connection.SERVER_VERSION", 100)
        await target.start()
        await broker_clock.advance(1)
        (line,) = [each for each in lines(caplog, "is not served") if f"bridge '{name}'" in each]
        assert "is not connected, and tries again: client version" in line and line.endswith("; upgrade the broker")
        assert next(each.message_count for each in target.queues() if each.name == queue) == 10
    await target.wait_for(queue=queue, count=20)
    assert await queued(target, queue) == numbered(0, 20)
    source.assert_nothing_lost()
