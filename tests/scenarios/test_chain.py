"""1.2: five nodes in a chain, each connected to the next one alone."""

from __future__ import annotations

import pytest

from embedbroker.pytest_plugin import BrokerClock, BrokerCluster
from tests.scenarios.nodes import MakeCluster, clients_of, drained, forwarded, received, turns

COUNT = 10
ALL = list(range(COUNT))
LAST = 4


async def start(broker_cluster: MakeCluster, how: str = "ON_DEMAND") -> BrokerCluster:
    return await broker_cluster(LAST + 1, topology="chain", message_load_balancing=how).start()


async def test_basic_round_robin(broker_cluster: MakeCluster) -> None:
    """1.2.1

    Given a queue with a consumer on the first and the last, when ten are sent to the first, then five go the whole way:
    each node on it has forwarded five, and the last one none.
    """
    cluster = await start(broker_cluster)
    async with clients_of(cluster, [0, LAST]) as clients:
        for client in clients:
            await client.queues("queue0")
        consumers = [await client.consumer("queue0") for client in clients]
        await cluster.wait_for_bindings(queue="queue0", count=2, consumers=2, nodes=[0])
        assert [binding.distance for binding in cluster.bindings("queue0")[0]] == [0, LAST]
        await clients[0].send(0, COUNT)
        assert sorted([await received(each) for each in consumers]) == turns(COUNT, 2)
    assert [await forwarded(cluster, node) for node in range(LAST + 1)] == [5, 5, 5, 5, 0]


async def test_basic_non_load_balanced(broker_cluster: MakeCluster) -> None:
    """1.2.2

    Given queues of different names at both ends, when messages are sent, then each has all of them.
    """
    cluster = await start(broker_cluster)
    async with clients_of(cluster, [0, LAST]) as (first, last):
        await first.queues("near0", "near1")
        await last.queues("far0", "far1")
        await cluster.wait_for_bindings(queue="far1", count=1, nodes=[0])
        await first.send(0, COUNT)
        assert [await drained(first, name) for name in ("near0", "near1")] == [ALL, ALL]
        assert [await drained(last, name) for name in ("far0", "far1")] == [ALL, ALL]


@pytest.mark.parametrize("how", ["STRICT", "ON_DEMAND"], ids=["true", "false"])
async def test_round_robin_forward_when_no_consumers(broker_cluster: MakeCluster, how: str) -> None:
    """1.2.3, 1.2.4

    Given STRICT, or ON_DEMAND with consumers that come behind the bindings, when messages are sent, then both ends have
    half of them.
    """
    cluster = await start(broker_cluster, how)
    async with clients_of(cluster, [0, LAST]) as clients:
        for client in clients:
            await client.queues("queue0")
        await cluster.wait_for_bindings(queue="queue0", count=2, nodes=[0])
        if how == "STRICT":
            await clients[0].send(0, COUNT)
            assert sorted([await drained(client, "queue0") for client in clients]) == turns(COUNT, 2)
        consumers = [await client.consumer("queue0") for client in clients]
        await cluster.wait_for_bindings(queue="queue0", consumers=2, nodes=[0])
        await clients[0].send(0, COUNT)
        assert sorted([await received(each) for each in consumers]) == turns(COUNT, 2)


async def test_round_robin_forward_when_no_consumers_false_no_local_queue(broker_cluster: MakeCluster) -> None:
    """1.2.5

    Given ON_DEMAND, and a queue at the far end only, when messages are sent, then all arrive there.
    """
    cluster = await start(broker_cluster)
    async with clients_of(cluster, [0, LAST]) as (first, last):
        await last.queues("queue0")
        await cluster.wait_for_bindings(queue="queue0", count=1, nodes=[0])
        await first.send(0, COUNT)
        assert await drained(last, "queue0") == ALL


async def test_round_robin_forward_when_no_consumers_false_local_consumer(broker_cluster: MakeCluster) -> None:
    """1.2.6

    Given ON_DEMAND, and a consumer at the first only, when messages are sent and a far consumer comes, then all stay.
    """
    cluster = await start(broker_cluster)
    async with clients_of(cluster, [0, LAST]) as (first, last):
        for client in (first, last):
            await client.queues("queue0")
        near = await first.consumer("queue0")
        await cluster.wait_for_bindings(queue="queue0", count=2, consumers=1, nodes=[0])
        await first.send(0, COUNT)
        far = await last.consumer("queue0")
        assert [await received(near), await received(far)] == [ALL, []]


async def test_hops_too_low(broker_cluster: MakeCluster) -> None:
    """1.2.7

    Given three hops at most, when messages are sent, then the last node, four hops away, is unknown to the first, and
    everything stays there.
    """
    cluster = await broker_cluster(LAST + 1, topology="chain", max_hops=3).start()
    async with clients_of(cluster, [0, LAST]) as clients:
        for client in clients:
            await client.queues("queue0")
        consumers = [await client.consumer("queue0") for client in clients]
        await cluster.wait_for_bindings(queue="queue0", consumers=1, nodes=[1])
        await clients[0].send(0, COUNT)
        assert [await received(each) for each in consumers] == [ALL, []]
        assert [len(known) for known in cluster.bindings("queue0")] == [1, 1, 1, 1, 1]


async def test_start_stop_middle_of_chain(broker_cluster: MakeCluster) -> None:
    """1.2.8

    Given a chain that works, when the middle stops and starts, then its neighbour sees one member less, and all again,
    and the messages take turns as before.
    """
    cluster = await start(broker_cluster)
    async with clients_of(cluster, [0, LAST]) as clients:
        for client in clients:
            await client.queues("queue0")
        consumers = [await client.consumer("queue0") for client in clients]
        await cluster.wait_for_bindings(queue="queue0", consumers=2, nodes=[0])
        await clients[0].send(0, COUNT)
        assert sorted([await received(each) for each in consumers]) == turns(COUNT, 2)
        await cluster.nodes[2].stop()
        await cluster.wait_formed()
        await cluster.nodes[2].start()
        await cluster.wait_formed()
        await cluster.wait_for_bindings(queue="queue0", count=2, consumers=2, nodes=[0])
        await clients[0].send(0, COUNT)
        assert sorted([await received(each) for each in consumers]) == turns(COUNT, 2)


async def test_chain_cluster_connections(broker_cluster: MakeCluster) -> None:
    """1.2.9

    Given links with direct connections only, when all run, then each node has one bridge, to the next one.
    """
    cluster = await start(broker_cluster)
    names = {node.broker.node_id: index for index, node in enumerate(cluster.nodes)}
    found = []
    for node in cluster.nodes:
        bridges = await node.broker.management.get("clusterconnection.cluster", "Nodes")
        assert isinstance(bridges, dict)
        found.append([names[node_id] for node_id in bridges])
    assert found == [[1], [2], [3], [4], []]


async def test_a_ring_goes_no_further_than_its_hops(broker_cluster: MakeCluster) -> None:
    """Not on the checklist.

    Given five nodes in a ring and two hops, when messages are sent to one, then the three within reach take turns,
    nothing arrives twice, and nothing circulates.
    """
    cluster = await broker_cluster(LAST + 1, topology="ring", max_hops=2).start()
    async with clients_of(cluster) as clients:
        for client in clients:
            await client.queues("queue0")
        consumers = [await client.consumer("queue0") for client in clients]
        await cluster.wait_for_bindings(queue="queue0", count=3, consumers=3)
        await clients[1].send(0, 12)
        assert sorted([await received(consumers[node]) for node in (1, 2, 3)]) == turns(12, 3)
        assert [await received(consumers[node]) for node in (0, LAST)] == [[], []]
    assert [await forwarded(cluster, node) for node in range(LAST + 1)] == [0, 8, 4, 0, 0]


async def test_nothing_goes_back_and_forth_behind_a_restart(
    broker_cluster: MakeCluster, broker_clock: BrokerClock
) -> None:
    """Not on the checklist.

    Given messages for a queue at the end of a chain, when the middle starts anew while the end is away, then it waits
    for the end and returns no message to the first node, from which it has learnt of that queue.
    """
    both_ways = {0: [1], 1: [0, 2], 2: [1]}
    cluster = await broker_cluster(3, topology=both_ways, max_hops=7, message_load_balancing="STRICT").start()
    first, middle, end = cluster.nodes
    way = f"$.artemis.internal.sf.cluster.{middle.broker.node_id}"
    async with clients_of(cluster, [2]) as clients:
        await clients[0].queues("queue0")
        await cluster.wait_for_bindings(queue="queue0", count=1, nodes=[0])
    cluster.link(0, 1).partition()
    async with clients_of(cluster, [0]) as clients:
        await clients[0].send(0, COUNT)
    await end.crash()
    await middle.crash()
    cluster.link(0, 1).heal()
    cluster.link(0, 1).delay(0.005)
    await middle.start()
    await broker_clock.advance(4)
    assert first.broker.queue(way).message_count == first.broker.queue(way).messages_added == COUNT
    await end.start()
    await cluster.wait_for(queue="queue0", count=COUNT)
    assert first.broker.queue(way).messages_added == COUNT
