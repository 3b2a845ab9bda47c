"""The bridges of a cluster in virtual time: what each member has of the queues of others, and messages over them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import pytest
import trio
from attrs import evolve

from embedbroker import AddressSettings, SecuritySetting, User
from embedbroker.kernel import Kernel
from embedbroker.node import Input, Node, Output
from embedbroker.outbound import STORE_AND_FORWARD_PREFIX, MemberBridge
from embedbroker.pytest_plugin import BrokerClock, BrokerCluster, BrokerPair, ManagedBroker
from embedbroker.runtime._embedded import life_of
from embedclient import ConnectionFactory, MessageConsumer, TextMessage, Topic
from embedclient.engine import SendBytes
from embedclient.model import Instant
from tests.embedbroker.cluster.town import Town
from tests.scenarios.clients import ORDERS, bodies, numbered, put, queued, session_at

MakeCluster: TypeAlias = Callable[..., BrokerCluster]
#: Name of a queue, filters of its consumers, distance.
Table: TypeAlias = dict[str, tuple[list[str | None], int]]


def node_of(broker: ManagedBroker) -> Node:
    node = life_of(broker.broker).host.node
    assert node is not None
    return node


def kernel_of(broker: ManagedBroker) -> Kernel:
    return node_of(broker).kernel


def bridges_of(broker: ManagedBroker) -> dict[str, MemberBridge]:
    (bridges,) = node_of(broker).member_bridges
    return bridges.by_node_id


def remote(broker: ManagedBroker) -> list[Any]:
    return list(kernel_of(broker).address_manager.resolution.remote)


def table(broker: ManagedBroker, other: ManagedBroker) -> Table | None:
    """What a member has of the queues of another one; None while that is not complete."""
    bridge = bridges_of(broker).get(node_of(other).node_id)
    if bridge is None or not bridge.bindings.is_complete:
        return None
    found: Table = {}
    for name, binding in bridge.bindings.by_cluster_name.items():
        assert binding.is_connected
        filters: list[str | None] = [text for text, count in binding.consumer_filters.items() for _ in range(count)]
        filters += [None] * (binding.consumer_count - len(filters))
        found[name] = sorted(filters, key=str), binding.distance
    return found


def truth(broker: ManagedBroker, distance: int = 1) -> Table:
    """What others should have of a member's queues."""
    found: Table = {}
    for queue in kernel_of(broker).address_manager.queues.values():
        if not queue.definition.internal and queue.definition.address != "activemq.notifications":
            filters = [each.filter_text for each in queue.consumers]
            found[queue.name + node_of(broker).node_id] = sorted(filters, key=str), distance
    return found


def waiting(broker: ManagedBroker) -> int:
    """The messages in store-and-forward queues."""
    queues = kernel_of(broker).address_manager.queues.values()
    return sum(queue.message_count for queue in queues if queue.definition.internal)


async def until(clock: BrokerClock, done: Callable[[], bool]) -> None:
    for _ in range(400):
        if done():
            return
        await clock.advance(0.05)
    assert done()


async def equal(clock: BrokerClock, *brokers: ManagedBroker) -> None:
    """Wait until every member has exactly the truth of every other one, and routes to it."""
    pairs = [(one, other) for one in brokers for other in brokers if one is not other]
    await until(clock, lambda: all(table(one, other) == truth(other) for one, other in pairs))
    for broker in brokers:
        assert len(remote(broker)) == sum(len(truth(other)) for other in brokers if other is not broker)


async def test_tables_equal_the_truth(broker_cluster: MakeCluster, broker_clock: BrokerClock) -> None:
    cluster = broker_cluster(2)
    a, b = cluster.nodes
    await a.start()
    async with session_at(a.url) as early:
        await early.create_consumer(ORDERS, "size > 5")
        await b.start()
        await equal(broker_clock, a, b)
        async with session_at(b.url) as late:
            plain = await late.create_consumer(ORDERS)
            await late.create_consumer("made", "colour = 'red'")
            await late.create_consumer("topic://prices")
            await equal(broker_clock, a, b)
            assert len(truth(b)) > len(truth(a))
            await plain.close()
            await equal(broker_clock, a, b)
        await equal(broker_clock, a, b)
        await b.crash()
        await broker_clock.advance(1)
        assert remote(a) and not any(each.is_connected for each in remote(a))
        await b.restart()
        await equal(broker_clock, a, b)
        await b.stop()
        await broker_clock.advance(1)
        assert remote(a) == []
        await b.start()
        await equal(broker_clock, a, b)


async def test_a_chain_announces_over_two_hops(broker_cluster: MakeCluster, broker_clock: BrokerClock) -> None:
    cluster = broker_cluster(3, topology="chain")
    a, b, c = cluster.nodes
    for broker in cluster.nodes:
        await broker.start()
    async with session_at(c.url) as session:
        consumer = await session.create_consumer(ORDERS, "size > 5")
        await until(broker_clock, lambda: table(a, b) == truth(b) | truth(c, 2))
        assert [*bridges_of(a)] == [node_of(b).node_id]
        await consumer.close()
        await until(broker_clock, lambda: table(a, b) == truth(b) | truth(c, 2))
        node_ids = {node_of(b).node_id, node_of(c).node_id}
        await c.crash()
        await broker_clock.advance(1)
        # B keeps the bindings of C, and so does A.
        assert {name[-36:] for name in table(a, b) or ()} == node_ids
    await c.restart()
    await until(broker_clock, lambda: table(a, b) == truth(b) | truth(c, 2))


BOTH_WAYS = {0: [1], 1: [0, 2], 2: [1]}


async def test_a_queue_that_is_deleted_behind_a_broker_that_starts_anew_is_forgotten(
    broker_cluster: MakeCluster, broker_clock: BrokerClock
) -> None:
    cluster = broker_cluster(3, topology=BOTH_WAYS, max_hops=5)
    a, b, c = (await cluster.start()).nodes
    async with session_at(c.url) as session:
        await (await session.create_consumer("made")).close()
        name = "made" + node_of(c).node_id
        await until(broker_clock, lambda: name in (table(a, b) or {}))
        await b.crash()
        kernel_of(c).teardown.delete_queue(kernel_of(c).address_manager.queues["made"])
        # B learns of it again: A had it over B, and announces it.
        await b.restart()
        ways = (a, b), (b, a)
        await until(broker_clock, lambda: all(name in (table(*way) or {}) for way in ways))
        # Each of both would have it from the other one for ever.
        await until(broker_clock, lambda: not any(name in (table(*way) or {name}) for way in ways))


async def test_a_queue_behind_a_broker_that_starts_anew_is_kept_until_that_has_news(
    broker_cluster: MakeCluster, broker_clock: BrokerClock
) -> None:
    cluster = broker_cluster(3, topology=BOTH_WAYS, max_hops=5)
    a, b, c = (await cluster.start()).nodes
    async with session_at(a.url) as near, session_at(c.url) as far:
        consumer = await far.create_consumer("topic://prices")
        producer = near.create_producer("topic://prices")
        await until(broker_clock, lambda: any(each.address == "prices" for each in remote(a)))
        await b.crash()
        cluster.partition([1], [2])
        # The message goes to and fro meanwhile.
        cluster.link(0, 1).delay(0.02)
        await b.restart()
        await until(broker_clock, lambda: "prices" in {each.address for each in remote(b)})
        for number in range(2):
            await broker_clock.advance(number)
            await producer.send(f"{number}")
        await broker_clock.advance(1)
        cluster.heal()
        assert {*bodies([await consumer.receive(timeout=20) for _ in range(2)])} == {"0", "1"}


async def test_of_two_ways_to_a_queue_one_is_used(broker_cluster: MakeCluster, broker_clock: BrokerClock) -> None:
    """In a ring of four each member has the opposite one over both of its neighbours."""
    cluster = broker_cluster(4, topology={each: [(each + 1) % 4, (each - 1) % 4] for each in range(4)}, max_hops=2)
    a, b, c, d = cluster.nodes
    for broker in cluster.nodes:
        await broker.start()
    async with session_at(c.url) as session:
        await session.create_consumer(ORDERS)

        def ways() -> list[Any]:
            return [each for each in remote(a) if each.cluster_name == "orders" + node_of(c).node_id]

        def is_whole() -> bool:
            return all(truth(c, 2).items() <= (table(a, near) or {}).items() for near in (b, d))

        await until(broker_clock, is_whole)
        (before,) = ways()
        assert (before.distance, before.consumer_count) == (2, 1)
        # The broker of the way in use stops: the other way is used, with the consumer.
        used = next(near for near in (b, d) if before.store_and_forward.name.endswith(node_of(near).node_id))
        await used.stop()
        await broker_clock.advance(1)
        (after,) = ways()
        assert after is not before
        assert (after.distance, after.consumer_count, after.is_connected) == (2, 1, True)


async def test_no_hop_is_no_bridge(broker_cluster: MakeCluster, broker_clock: BrokerClock) -> None:
    cluster = broker_cluster(2, max_hops=0)
    await cluster.start()
    await broker_clock.advance(5)
    for broker in cluster.nodes:
        assert not [queue for queue in broker.queues() if queue.name.startswith(STORE_AND_FORWARD_PREFIX)]


# -- messages ----------------------------------------------------------------------------------------------------------


async def test_messages_reach_a_consumer_of_another_member(
    broker_cluster: MakeCluster, broker_clock: BrokerClock
) -> None:
    """Over the end of either broker: in order, none lost, none doubled."""
    cluster = broker_cluster(2)
    a, b = cluster.nodes
    await cluster.start()
    async with session_at(b.url) as there:
        await there.create_consumer(ORDERS)
        await equal(broker_clock, a, b)
        async with session_at(a.url) as here:
            await put(here, numbered(0, 100))
            await put(here, ["x" * 300_000])
            await b.wait_for(queue="orders", count=101)
    assert await queued(b, "orders") == [*numbered(0, 100), "x" * 300_000]
    figures = await a.broker.management.get("clusterconnection.cluster", "Metrics")
    assert figures == {"messagesPendingAcknowledgement": 0, "messagesAcknowledged": 101}


async def test_a_secured_cluster_bridges_as_the_cluster_user(
    broker_cluster: MakeCluster, broker_clock: BrokerClock
) -> None:
    """The cluster user needs no permission, and forwarded messages are still those of their sender."""
    users = {"users": [User("joe", "joe", roles=["staff"])], "security_settings": {"#": SecuritySetting.all("staff")}}
    cluster = broker_cluster(2, brokers=users)
    a, b = cluster.nodes
    await cluster.start()
    await equal(broker_clock, a, b)
    async with (
        ConnectionFactory(a.url, user="joe", password="joe").connect() as here,
        here.session() as source,
        ConnectionFactory(b.url, user="joe", password="joe").connect() as there,
        there.session() as target,
        target.create_consumer(ORDERS) as consumer,
    ):
        await equal(broker_clock, a, b)
        await put(source, numbered(0, 10))
        received = [await consumer.receive(timeout=5) for _ in range(10)]
        assert [each.text for each in received if isinstance(each, TextMessage)] == numbered(0, 10)


COUNT = 300
PRICES = Topic("prices")


@asynccontextmanager
async def subscriber_at(broker: ManagedBroker | BrokerPair) -> AsyncIterator[MessageConsumer]:
    """A durable subscription: its queue is at one member alone."""
    async with (
        ConnectionFactory(broker.url, client_id="reader").connect() as connection,
        connection.session() as session,
        session.create_durable_consumer(PRICES, "prices") as consumer,
    ):
        yield consumer


async def produce(clock: BrokerClock, url: str, pause_s: float = 0.004) -> None:
    async with session_at(url) as session:
        for number in range(COUNT):
            await put(session, [str(number)], PRICES)
            await clock.advance(pause_s)


async def read(broker: ManagedBroker | BrokerPair) -> list[str]:
    async with subscriber_at(broker) as consumer:
        texts = []
        while isinstance(message := await consumer.receive(timeout=2), TextMessage):
            texts.append(str(message.text))
        return texts


@pytest.mark.parametrize("settings", [{}, {"confirmation_window_size": 500, "producer_window_size": 300}])
async def test_a_target_that_crashes_again_and_again(
    broker_cluster: MakeCluster, broker_clock: BrokerClock, settings: dict[str, int]
) -> None:
    """Confirmations are late, so that each loss leaves sends in doubt: they are repeated, in order.

    Where the connection is cut, the target has them already.
    """
    cluster = broker_cluster(2, retry_interval_ms=100, **settings)
    (a, b), link = cluster.nodes, cluster.link(0, 1)
    await cluster.start()
    async with subscriber_at(b):
        pass
    await equal(broker_clock, a, b)
    b.disk.slow_down(0.02)
    link.delay(0.03)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(produce, broker_clock, a.url)
        for _ in range(3):
            await broker_clock.advance(0.31)
            link.cut()
            await broker_clock.advance(0.31)
            await b.crash()
            await broker_clock.advance(0.05)
            await b.restart()
    link.heal()
    b.disk.heal()
    await until(broker_clock, lambda: not waiting(a))
    assert await read(b) == numbered(0, COUNT)


async def test_a_source_that_crashes_has_its_messages_behind_it(
    broker_cluster: MakeCluster, broker_clock: BrokerClock
) -> None:
    """The store-and-forward queue is used again: what was sent and not confirmed has the same ids in the next start."""
    cluster = broker_cluster(2, retry_interval_ms=100)
    a, b = cluster.nodes
    await cluster.start()
    async with subscriber_at(b):
        pass
    await equal(broker_clock, a, b)
    await b.crash()
    await produce(broker_clock, a.url, 0)
    assert waiting(a) == COUNT
    await b.restart()
    b.disk.slow_down(0.01)
    for _ in range(3):
        await broker_clock.advance(0.15)
        await a.crash()
        await a.restart()
    await until(broker_clock, lambda: not waiting(a) and bool(remote(a)))
    assert await read(b) == numbered(0, COUNT)


@pytest.mark.parametrize("kind", ["shared-store", "replication"])
async def test_a_bridge_follows_its_member_to_the_backup(
    broker_cluster: MakeCluster, broker_clock: BrokerClock, kind: str
) -> None:
    cluster = broker_cluster(2, pairs=kind, retry_interval_ms=100)
    await cluster.start()
    (a, b), pair = cluster.nodes, cluster.pairs[1]
    async with subscriber_at(b):
        pass
    await equal(broker_clock, a, b)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(produce, broker_clock, a.url)
        await broker_clock.advance(0.5)
        await pair.failover()
        await broker_clock.advance(0.5)
    await until(broker_clock, lambda: not waiting(a))
    assert await read(pair) == numbered(0, COUNT)


@pytest.mark.parametrize("kind", ["shared-store", "replication"])
async def test_a_topic_keeps_its_subscriptions_while_a_pair_hands_over_in_order(
    broker_cluster: MakeCluster, broker_clock: BrokerClock, kind: str
) -> None:
    cluster = broker_cluster(2, pairs=kind)
    await cluster.start()
    (a, b), pair = cluster.nodes, cluster.pairs[1]
    async with subscriber_at(pair):
        pass
    await equal(broker_clock, a, b)
    await pair.failover()
    await until(broker_clock, lambda: table(a, pair.live) == truth(pair.live))
    sent: list[str] = []

    async def produce_until(over: trio.Event) -> None:
        async with session_at(a.url) as session:
            while not over.is_set():
                await put(session, [str(len(sent))], PRICES)
                sent.append(str(len(sent)))
                await broker_clock.advance(0.005)

    async with trio.open_nursery() as nursery:
        over = trio.Event()
        nursery.start_soon(produce_until, over)
        await pair.failback()
        await cluster.wait_formed()
        await b.stop(failover=True)
        await pair.wait_live()
        over.set()
    await until(broker_clock, lambda: table(a, pair.live) == truth(pair.live) and not waiting(a))
    assert await read(pair) == sent
    await pair.live.stop(failover=True)
    await broker_clock.advance(0.1)
    assert remote(a) == []  # no backup takes over


async def test_a_pause_of_a_bridge_ends_when_its_member_is_announced_at_another_place(
    broker_cluster: MakeCluster, broker_clock: BrokerClock
) -> None:
    cluster = broker_cluster(2, retry_interval_ms=60_000)
    a, b = (await cluster.start()).nodes
    await equal(broker_clock, a, b)
    (bridge,) = bridges_of(a).values()
    await b.crash()
    await until(broker_clock, lambda: not bridge.has_link)
    due = bridge.next_deadline()
    bridge.follow(evolve(bridge.member, event_id=bridge.member.event_id + 1))
    assert bridge.next_deadline() == due
    assert bridge.member.live is not None
    elsewhere = evolve(bridge.member.live, parameters={"serverId": "elsewhere"})
    bridge.follow(evolve(bridge.member, event_id=bridge.member.event_id + 2, live=elsewhere))
    assert bridge.next_deadline() == bridge.now().monotonic


async def test_a_member_that_is_given_up_returns_with_its_announcement(
    broker_cluster: MakeCluster, broker_clock: BrokerClock, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = broker_cluster(2, reconnect_attempts=3, retry_interval_ms=100)
    a, b = cluster.nodes
    await cluster.start()
    async with subscriber_at(b):
        pass
    await equal(broker_clock, a, b)
    node_id, management = node_of(b).node_id, a.broker.management
    assert list(await management.get("clusterconnection.cluster", "Nodes")) == [node_id]
    await b.crash()
    await produce(broker_clock, a.url, 0)
    await broker_clock.advance(5)
    assert await management.get("clusterconnection.cluster", "NodesDown") == [node_id]
    assert await management.get("clusterconnection.cluster", "Nodes") == {}
    (line,) = [line for line in caplog.messages if "permanently down" in line]
    assert f"node {node_id} is permanently down: 4 attempts failed" in line
    assert remote(a) == []
    await b.restart()
    await until(broker_clock, lambda: table(a, b) == truth(b) and not waiting(a))
    assert await management.get("clusterconnection.cluster", "NodesDown") == []
    assert await read(b) == numbered(0, COUNT)


async def test_a_member_of_hearsay_that_was_given_up_returns_when_it_is_there(
    broker_cluster: MakeCluster, broker_clock: BrokerClock, caplog: pytest.LogCaptureFixture
) -> None:
    """It announces itself on the connection to it, with news that are as old as those of the others."""
    cluster = broker_cluster(3, initial_connect_attempts=2, retry_interval_ms=100)
    a, b, c = cluster.nodes
    await a.start()
    await b.start()
    await cluster.wait_formed()
    cluster.link(0, 2).partition()
    await c.start()
    await broker_clock.advance(30)
    management = a.broker.management
    assert await management.get("clusterconnection.cluster", "NodesDown") == [node_of(c).node_id]
    assert "permanently down: 3 attempts failed" in caplog.text
    cluster.heal()
    await cluster.wait_formed()
    assert await management.get("clusterconnection.cluster", "NodesDown") == []
    async with subscriber_at(c):
        await equal(broker_clock, a, b, c)


async def test_without_duplicate_detection_one_message_is_under_way(
    broker_cluster: MakeCluster, broker_clock: BrokerClock
) -> None:
    """The target gets each when the one before is confirmed, and a lost connection doubles that one alone."""
    cluster = broker_cluster(2, use_duplicate_detection=False, retry_interval_ms=100)
    a, b = cluster.nodes
    await cluster.start()
    async with subscriber_at(b):
        pass
    await equal(broker_clock, a, b)
    b.disk.slow_down(1)
    async with session_at(a.url) as session:
        await put(session, numbered(0, 10), PRICES)
    for count in range(1, 4):
        await broker_clock.advance(0.5)
        assert await b.broker.management.get("address.prices", "RoutedMessageCount") == count
        await broker_clock.advance(0.5)
    await broker_clock.advance(0.5)
    cluster.link(0, 1).cut()
    b.disk.heal()
    await until(broker_clock, lambda: not waiting(a))
    assert await read(b) == [*numbered(0, 4), "3", *numbered(4, 10)]


async def test_a_stopped_cluster_connection_forwards_nothing(
    broker_cluster: MakeCluster, broker_clock: BrokerClock
) -> None:
    cluster = broker_cluster(2)
    a, b = cluster.nodes
    await cluster.start()
    async with subscriber_at(b):
        pass
    await equal(broker_clock, a, b)
    management, resource = a.broker.management, "clusterconnection.cluster"
    await management.invoke(resource, "stop")
    assert (remote(a), await management.get(resource, "Started")) == ([], False)
    await management.invoke(resource, "start")
    await equal(broker_clock, a, b)
    assert await management.get(resource, "Started") is True
    node_id = node_of(b).node_id
    assert await management.invoke(resource, "getBridgeMetrics", node_id) == {
        "messagesPendingAcknowledgement": 0,
        "messagesAcknowledged": 0,
    }
    assert node_id in await management.get(resource, "Topology")


async def test_a_message_of_a_client_in_a_store_and_forward_queue_is_a_dead_letter(
    broker_cluster: MakeCluster, broker_clock: BrokerClock, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = broker_cluster(2)
    a, b = cluster.nodes
    await cluster.start()
    await equal(broker_clock, a, b)
    (bridge,) = bridges_of(a).values()
    async with session_at(a.url) as session:
        await put(session, ["astray"], Topic(bridge.queue.name))
    await a.wait_for(queue="DLQ", count=1)
    assert any("do not send to this queue" in line for line in caplog.messages)


async def test_a_body_that_cannot_be_read_for_a_moment_is_no_dead_letter(
    broker_cluster: MakeCluster,
    broker_clock: BrokerClock,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The fault may pass: the message stays in its store-and-forward queue, and leaves with the next connection."""
    cluster = broker_cluster(2, retry_interval_ms=100)
    a, b = cluster.nodes
    await cluster.start()
    async with subscriber_at(b):
        pass
    await equal(broker_clock, a, b)
    with monkeypatch.context() as patched:
        patched.setattr(
            kernel_of(a).store.bodies,
            "read",
            lambda number, offset, length, done, checksum=0: done(None, checksum),
        )
        async with session_at(a.url) as session:
            await put(session, ["x" * 300_000], PRICES)
        await until(broker_clock, lambda: any("leaves message" in line for line in caplog.messages))
        assert waiting(a) == 1
    await b.restart()
    await until(broker_clock, lambda: not waiting(a))
    assert await read(b) == ["x" * 300_000]


# -- members that leave for good ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("heir", [0, 2], ids=["to-this-broker", "to-a-third-one"])
async def test_what_waits_for_a_member_follows_its_queues(
    broker_cluster: MakeCluster, broker_clock: BrokerClock, heir: int
) -> None:
    """The member has got the first half, but that is not confirmed: it is sent again, and is not doubled."""
    cluster = broker_cluster(3, retry_interval_ms=100)
    a, b, c = cluster.nodes
    await cluster.start()
    async with subscriber_at(b):
        pass
    await equal(broker_clock, a, b, c)
    bridge = bridges_of(a)[node_of(b).node_id]
    queue = bridge.queue
    cluster.link(0, 1).delay(0.05)
    async with session_at(a.url) as session:
        await put(session, numbered(0, COUNT // 2), PRICES)
        queue.set_paused(itself=True)
        await put(session, numbered(COUNT // 2, COUNT), PRICES)
    assert waiting(a) >= COUNT // 2
    await b.broker.scale_down(cluster.nodes[heir].url)
    await until(broker_clock, lambda: queue.deleted and not waiting(a))
    assert sorted(await read(cluster.nodes[heir]), key=int) == numbered(0, COUNT)
    assert [*bridges_of(a)] == [node_of(c).node_id]


async def test_a_queue_that_is_deleted_is_made_anew(broker_cluster: MakeCluster, broker_clock: BrokerClock) -> None:
    cluster = broker_cluster(2)
    a, b = cluster.nodes
    await cluster.start()
    async with subscriber_at(b):
        pass
    await equal(broker_clock, a, b)
    name = bridges_of(a)[node_of(b).node_id].queue.name
    await a.broker.management.delete_queue(name, closes_consumers=True)
    await equal(broker_clock, a, b)
    await produce(broker_clock, a.url, 0)
    await until(broker_clock, lambda: not waiting(a))
    assert await read(b) == numbered(0, COUNT)


async def test_messages_follow_a_consumer_to_another_member(
    broker_cluster: MakeCluster, broker_clock: BrokerClock
) -> None:
    """Redistribution, over the bridge: what waits where no consumer is goes where one comes."""
    cluster = broker_cluster(2, brokers={"address_settings": {"#": AddressSettings(redistribution_delay_ms=0)}})
    a, b = cluster.nodes
    await cluster.start()
    async with session_at(a.url) as session:
        await put(session, numbered(0, COUNT))
    await equal(broker_clock, a, b)
    async with session_at(b.url) as there, there.create_consumer(ORDERS) as consumer:
        received = [await consumer.receive(timeout=5) for _ in range(COUNT)]
        assert [each.text for each in received if isinstance(each, TextMessage)] == numbered(0, COUNT)
        await a.assert_empty("orders")


async def test_a_step_sends_a_part_of_a_lot(
    broker_cluster: MakeCluster, broker_clock: BrokerClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest follows in the next steps, in order; no event of the network is awaited for it."""
    monkeypatch.setattr("embedbroker.outbound._bridge_consumer.STEP_MAX", 1)
    cluster = broker_cluster(2, brokers={"address_settings": {"#": AddressSettings(redistribution_delay_ms=0)}})
    a, b = cluster.nodes
    await cluster.start()
    async with session_at(a.url, transacted=True) as session:
        await put(session, numbered(0, 300))
        await session.commit()
    await equal(broker_clock, a, b)
    node, counts = node_of(a), list[int]()

    def step(input: Input, now: Instant, original: Callable[..., list[Output]] = node.step) -> list[Output]:
        outputs = original(input, now)
        counts.append(
            sum(each.data.count(b"_\0A\0M\0Q\0_\0B\0R\0I\0D\0G\0E\0_\0D\0U\0P\0") for each in sent_in(outputs))
        )
        return outputs

    monkeypatch.setattr(node, "step", step)
    async with session_at(b.url) as there, there.create_consumer(ORDERS) as consumer:
        received = [await consumer.receive(timeout=5) for _ in range(300)]
        assert [each.text for each in received if isinstance(each, TextMessage)] == numbered(0, 300)
    assert (sum(counts), max(counts)) == (300, 64)


def sent_in(outputs: list[Output]) -> list[SendBytes]:
    return [each for each in outputs if isinstance(each, SendBytes)]


def test_a_member_whose_place_another_one_takes_is_forgotten() -> None:
    """A broker that keeps nothing has another node id after each start."""
    town = Town()
    town.start("A", "B", max_hops=1)
    for _ in range(2):
        town.start("B", "A", max_hops=1)
        town.run(10.0)
        node = town.hosts["A"].node
        assert node is not None
        assert [*node.member_bridges[0].by_node_id] == [town.node_id("B")]
        queues = [name for name in node.kernel.address_manager.queues if name.startswith(STORE_AND_FORWARD_PREFIX)]
        assert queues == [f"{STORE_AND_FORWARD_PREFIX}cluster.{town.node_id('B')}"]
        town.hosts.pop("B").crash()
        town.run(1.0)


@pytest.mark.parametrize("max_hops", [1, 2])
async def test_news_of_sessions_come_from_the_first_queue_on_that_takes_them(
    broker_cluster: MakeCluster, broker_clock: BrokerClock, max_hops: int
) -> None:
    """Each session would otherwise cost a message to each member. For members behind this one they always come."""
    first, second = (cluster := await broker_cluster(2, max_hops=max_hops).start()).nodes
    news = "_AMQ_NotifType = 'SESSION_CREATED' AND _AMQ_Distance = 1"

    def collected() -> int:
        queues = [each for each in kernel_of(first).address_manager.queues.values() if each.name.startswith("notif.")]
        return sum("SESSION_CREATED" in (queue.filter.text if queue.filter else "") for queue in queues)

    # A queue of an earlier connection lives for a minute.
    assert collected() == max_hops - 1
    for turn in range(2):
        async with (
            session_at(second.url) as session,
            session.create_consumer(Topic("activemq.notifications"), news) as listener,
        ):
            if turn:  # the connection of the bridge begins when the listener is there
                cluster.link(0, 1).cut()
            await broker_clock.advance(70)
            await cluster.wait_formed()
            assert collected() == 1
            async with session_at(first.url):
                assert await listener.receive(timeout=1) is not None
    cluster.link(0, 1).cut()
    await broker_clock.advance(70)
    assert collected() == max_hops - 1
