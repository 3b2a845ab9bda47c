"""The bridges of a cluster in virtual time: what each member has of the queues of others, and messages over them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from embedbroker.kernel import Kernel
from embedbroker.node import Node
from embedbroker.outbound import STORE_AND_FORWARD_PREFIX, MemberBridge
from embedbroker.pytest_plugin import BrokerClock, BrokerCluster, ManagedBroker
from embedbroker.runtime._embedded import life_of
from tests.scenarios.clients import ORDERS, numbered, put, queued, session_at

MakeCluster: TypeAlias = Callable[..., BrokerCluster]
#: Name of a queue, filters of its consumers, distance.
Table: TypeAlias = dict[str, tuple[list[str | None], int]]
FOREVER_S = 60.0


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
