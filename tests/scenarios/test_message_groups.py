"""1.9: message groups over a cluster, in which one node decides and the others propose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import trio

from embedbroker import GroupingHandlerConfig, GroupingHandlerType
from embedbroker.pytest_plugin import BrokerCluster
from embedclient import ClientConsumer
from tests.scenarios.nodes import Client, MakeCluster, clients_of, pass_time, received

ALL = list(range(10))


def handlers(count: int, **of_arbiter: Any) -> list[dict[str, Any]]:
    """Settings of nodes of which the first one decides."""
    kinds = [GroupingHandlerType.LOCAL, *[GroupingHandlerType.REMOTE] * (count - 1)]
    return [
        {"grouping_handler": GroupingHandlerConfig("groups", kind, **(of_arbiter if index == 0 else {}))}
        for index, kind in enumerate(kinds)
    ]


async def start(make: MakeCluster, brokers: Sequence[dict[str, Any]] | None = None, **connection: Any) -> BrokerCluster:
    return await make(3, brokers=handlers(3) if brokers is None else brokers, **connection).start()


async def send(client: Client, first: int, end: int, group: str = "id1") -> None:
    await client.send(first, end, _AMQ_GROUP_ID=group)


async def consume(
    cluster: BrokerCluster,
    clients: Sequence[Client],
    nodes: Sequence[int] = (0, 1, 2),
    queue: str = "queue0",
    *,
    creates: bool = True,
) -> list[ClientConsumer]:
    """The queue at each client, and consumers at some."""
    for client in clients if creates else ():
        await client.queues(queue)
    consumers = [await clients[node].consumer(queue) for node in nodes]
    await cluster.wait_for_bindings(queue=queue, count=len(clients), consumers=len(nodes))
    return consumers


async def gotten(consumers: Sequence[ClientConsumer]) -> list[list[int]]:
    return [await received(each) for each in consumers]


async def chosen(consumers: Sequence[ClientConsumer], numbers: list[int]) -> int:
    """The index of the only consumer that gets messages, which are these."""
    found = await gotten(consumers)
    assert sorted(found) == [*[[]] * (len(consumers) - 1), numbers]
    return found.index(numbers)


# -- where a group goes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prefix", ["queues", ""], ids=["simple", "simple with no address"])
async def test_grouping(broker_cluster: MakeCluster, prefix: str) -> None:
    """1.9.1, 1.9.2

    Given consumers on all three, with handlers and connections for a prefix or for all addresses, when messages of one
    group are sent, then one consumer has all.
    """
    brokers = handlers(3, address=prefix)
    cluster = await start(broker_cluster, brokers, addresses=[prefix] if prefix else [])
    async with clients_of(cluster) as clients:
        consumers = await consume(cluster, clients)
        await send(clients[0], 0, 10)
        await chosen(consumers, ALL)


@pytest.mark.parametrize(
    ("consuming", "senders", "expected"),
    [((0, 1, 2), (0, 1), None), ((0, 1, 2), (0, 1, 2), None), ((1,), (1, 2, 0), 1), ((1, 2), (0, 1, 2), None)],
    ids=["2", "3", "3 remote arbitrator", "3 no consumer on local queue"],
)
async def test_grouping_send_to_queues(
    broker_cluster: MakeCluster, consuming: tuple[int, ...], senders: tuple[int, ...], expected: int | None
) -> None:
    """1.9.3, 1.9.4, 1.9.5, 1.9.6

    Given consumers on some nodes, when messages of one group are sent at several nodes, one after the other, then all
    go where the first ones went.
    """
    cluster = await start(broker_cluster)
    async with clients_of(cluster) as clients:
        consumers = await consume(cluster, clients, consuming)
        first, *others = senders
        await send(clients[first], 0, 10)
        where = await chosen(consumers, ALL)
        assert expected is None or consuming[where] == expected
        for sender in others:
            await send(clients[sender], 0, 10)
            assert await chosen(consumers, ALL) == where


async def test_grouping_round_robin(broker_cluster: MakeCluster) -> None:
    """1.9.7

    Given consumers on all three nodes, when three groups are sent, then each node has one.
    """
    cluster = await start(broker_cluster)
    async with clients_of(cluster) as clients:
        consumers = await consume(cluster, clients)
        for number in range(3):
            await send(clients[0], 10 * number, 10 * number + 10, f"id{number}")
        assert sorted(await gotten(consumers)) == [list(range(10 * turn, 10 * turn + 10)) for turn in range(3)]


async def test_grouping_send_to_3_queues_queue_removed(broker_cluster: MakeCluster) -> None:
    """1.9.8

    Given a group, when its queues are deleted and there are others, then it has one of these.
    """
    cluster = await start(broker_cluster)
    async with clients_of(cluster) as clients:
        consumers = await consume(cluster, clients)
        await send(clients[1], 0, 10)
        await chosen(consumers, ALL)
        for consumer in consumers:
            await consumer.close()
        for client in clients:
            await client.session.delete_queue("queue0")
        await cluster.wait_for_bindings(queue="queue0", count=0)
        consumers = await consume(cluster, clients, queue="queue1")
        for sender in range(3):
            await send(clients[sender], 10 * sender, 10 * sender + 10)
        await chosen(consumers, list(range(30)))


async def test_grouping_multiple_queues_on_address(broker_cluster: MakeCluster) -> None:
    """1.9.12

    Given two queues of one address on each node, when messages of one group are sent at all nodes, then each queue has
    one node that gets all.
    """
    cluster = await start(broker_cluster)
    async with clients_of(cluster) as clients:
        consumers = [await consume(cluster, clients, queue=queue) for queue in ("queue0", "queue1")]
        for sender in range(3):
            await send(clients[sender], 10 * sender, 10 * sender + 10)
        for each in consumers:
            await chosen(each, list(range(30)))


async def test_grouping_multiple_sending(broker_cluster: MakeCluster) -> None:
    """1.9.13

    Given nine groups, when they are sent at two nodes at the same time, then no group is split, and all nodes have
    some.
    """
    cluster = await start(broker_cluster)
    async with clients_of(cluster) as clients:
        consumers = await consume(cluster, clients)

        async def produce(sender: int) -> None:
            for turn in range(5):
                for group in range(9):
                    number = 100 * group + 10 * sender + turn
                    await send(clients[sender], number, number + 1, f"id{group}")

        async with trio.open_nursery() as nursery:
            for sender in (1, 2):
                nursery.start_soon(produce, sender)
        found = await gotten(consumers)
        groups = [{number // 100 for number in each} for each in found]
        assert sorted(group for each in groups for group in each) == list(range(9))
        assert sum(map(len, found)) == 90 and all(len(each) >= 2 for each in groups)


# -- nodes that go and come --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "when", ["", "before stop", "after restart"], ids=["", "send before stop", "send after restart"]
)
async def test_grouping_send_to_3_queues_pinned_node_goes_down(broker_cluster: MakeCluster, when: str) -> None:
    """1.9.9, 1.9.10, 1.9.11

    Given a group on node 1, when that node stops or crashes and starts, then what was sent before, while it was away,
    or afterwards is there.
    """
    cluster = await start(broker_cluster)
    async with clients_of(cluster, [0, 2]) as (first, third):
        async with clients_of(cluster, [1]) as (second,):
            (consumer,) = await consume(cluster, [first, second, third], [1])
            await send(first, 0, 10)
            assert await received(consumer) == ALL
            await consumer.close()
            if when == "before stop":
                await send(third, 10, 20)
                await cluster.nodes[1].wait_for(queue="queue0", count=10)
        if when:
            await cluster.nodes[1].stop()
        else:
            await cluster.nodes[1].crash()
            await send(third, 10, 20)
        await cluster.start()
        async with clients_of(cluster, [1]) as (second,):
            consumer = await second.consumer("queue0")
            await cluster.wait_for_bindings(queue="queue0", count=3, consumers=1)
            if when == "after restart":
                await send(third, 10, 20)
            await send(first, 20, 30)
            assert await received(consumer) == list(range(10, 30))
    cluster.assert_nothing_lost()


async def fixed(cluster: BrokerCluster, clients: Sequence[Client]) -> tuple[list[ClientConsumer], list[int]]:
    """Consumers at all nodes, and the nodes of three groups."""
    consumers = await consume(cluster, clients)
    found = []
    for number in range(3):
        await send(clients[0], 0, 10, f"id{number}")
        found.append(await chosen(consumers, ALL))
    assert sorted(found) == [0, 1, 2]
    return consumers, found


async def test_grouping_binding_not_present_at_start(broker_cluster: MakeCluster) -> None:
    """1.9.17

    Given groups that are stored, when all nodes restart, the one that decides last, then messages of the groups do not
    wait for its time-out, and go where they went before.
    """
    cluster = await start(broker_cluster, handlers(3, timeout_ms=20_000))
    async with clients_of(cluster) as clients:
        _consumers, where = await fixed(cluster, clients)
    for node in cluster.nodes:
        await node.stop()
    for index in (1, 2, 0):
        await cluster.nodes[index].start()
    await cluster.wait_formed()
    async with clients_of(cluster) as clients:
        consumers = await consume(cluster, clients, creates=False)
        begun = trio.current_time()
        for number in range(3):
            await send(clients[0], 0, 10, f"id{number}")
        assert trio.current_time() - begun < 1
        assert [len(each) for each in await gotten(consumers)] == [10, 10, 10]
        for number in range(3):
            await send(clients[1], 0, 10, f"id{number}")
            assert await chosen(consumers, ALL) == where[number]


async def test_grouping_simple_fail_2nd(broker_cluster: MakeCluster) -> None:
    """1.9.18

    Given groups that are stored, when all nodes stop and one of them stays away, then the one that decides waits for it
    as long as its time-out, and its group has another node then.
    """
    cluster = await start(broker_cluster, handlers(3, timeout_ms=5_000))
    async with clients_of(cluster) as clients:
        _consumers, where = await fixed(cluster, clients)
    group = f"id{where.index(2)}"
    for node in cluster.nodes:
        await node.stop()
    await cluster.nodes[1].start()
    await cluster.nodes[0].start()
    begun = trio.current_time()
    await cluster.wait_formed([0, 1])
    async with clients_of(cluster, [0, 1]) as clients:
        consumers = await consume(cluster, clients, [0, 1], creates=False)
        await send(clients[0], 0, 10, group)
        assert 4 <= trio.current_time() - begun <= 6
        at = await chosen(consumers, ALL)
        await send(clients[1], 0, 10, group)
        assert await chosen(consumers, ALL) == at


async def test_grouping_bindings_removed(broker_cluster: MakeCluster) -> None:
    """1.9.19

    Given a group on a node that is given up, when messages are sent again, then the group has another node.
    """
    cluster = await start(broker_cluster, reconnect_attempts=3)
    async with clients_of(cluster, [0, 1]) as clients:
        async with clients_of(cluster, [2]) as (third,):
            consumers, where = await fixed(cluster, [*clients, third])
        group = f"id{where.index(2)}"
        await cluster.nodes[2].crash()
        await cluster.wait_for_bindings(queue="queue0", count=2, nodes=[0, 1])
        await pass_time(10)
        await send(clients[0], 0, 10, group)
        at = await chosen(consumers[:2], ALL)
        await send(clients[1], 0, 10, group)
        assert await chosen(consumers[:2], ALL) == at


async def test_timeout_on_sending(broker_cluster: MakeCluster) -> None:
    """1.9.20

    Given a node that proposes, and none that decides, when a message of a group is sent there, then it goes on after
    ten proposals.
    """
    brokers = handlers(3)
    brokers[1] = {"grouping_handler": GroupingHandlerConfig("groups", GroupingHandlerType.REMOTE, timeout_ms=100)}
    cluster = broker_cluster(3, brokers=brokers)
    await cluster.nodes[1].start()
    await cluster.nodes[2].start()
    await cluster.wait_formed([1, 2])
    async with clients_of(cluster, [1, 2]) as clients:
        consumers = await consume(cluster, clients, [0, 1])
        begun = trio.current_time()
        await send(clients[0], 0, 1)
        assert 0.8 <= trio.current_time() - begun <= 1.2
        await chosen(consumers, [0])


# -- groups that end ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sender", [0, 1], ids=["", "send remote"])
async def test_grouping_group_timeout(broker_cluster: MakeCluster, sender: int) -> None:
    """1.9.15, 1.9.16

    Given a node that decides, and ends groups after half a second, when a group is idle, then it has another node when
    only that has a consumer.
    """
    cluster = await start(broker_cluster, handlers(3, group_timeout_ms=500, reaper_period_ms=100))
    async with clients_of(cluster) as clients:
        consumers = await consume(cluster, clients, [2])
        await send(clients[sender], 0, 10)
        assert await received(consumers[0]) == ALL
        await consumers[0].close()
        await cluster.wait_for_bindings(queue="queue0", consumers=0)
        await pass_time(2)
        consumer = await clients[0].consumer("queue0")
        await cluster.wait_for_bindings(queue="queue0", consumers=1)
        await send(clients[sender], 10, 20)
        assert await received(consumer) == list(range(10, 20))


async def test_grouping_group_timeout_with_unproposal(broker_cluster: MakeCluster) -> None:
    """1.9.14

    Given a group that is idle for a second, when it ends, then both other nodes have a notification of that, and a
    consumer elsewhere gets what follows.
    """
    cluster = await start(broker_cluster, handlers(3, group_timeout_ms=1_000, reaper_period_ms=100))
    async with clients_of(cluster) as clients:
        for client in clients[1:]:
            await client.queues("ends", address="activemq.notifications", filter="_AMQ_NotifType = 'UNPROPOSAL'")
        (consumer,) = await consume(cluster, clients, [1])
        await send(clients[0], 0, 10)
        assert await received(consumer) == ALL
        await consumer.close()
        await pass_time(2)
        for client in clients[1:]:
            ends = await client.consumer("ends")
            assert await ends.receive(timeout=1) is not None
        consumer = await clients[2].consumer("queue0")
        await cluster.wait_for_bindings(queue="queue0", consumers=1)
        await send(clients[0], 10, 20)
        assert await received(consumer) == list(range(10, 20))


# -- the node that decides fails over ----------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 6], ids=["", "multiple groups"])
@pytest.mark.parametrize("kind", ["shared-store", "replication"])
async def test_grouping_local_handler_fails(broker_cluster: MakeCluster, kind: str, count: int) -> None:
    """1.9.21, 1.9.22, 1.9.23

    Given two pairs, of which one decides, and a group, or six, when the primary that decides crashes, then its backup
    decides, and each group stays with its pair.
    """
    cluster = await broker_cluster(2, pairs=kind, brokers=handlers(2)).start()
    async with clients_of(cluster) as clients:
        for client in clients:
            await client.queues("queue0")
        consumers = [await client.consumer("queue0") for client in clients]
        await cluster.wait_for_bindings(queue="queue0", count=2, consumers=2)
        groups = [f"id{number}" for number in range(count)]
        before = []
        for group in groups:
            await send(clients[1], 0, 10, group)
            before.append(await chosen(consumers, ALL))
        assert count == 1 or before.count(0) == 3
        await cluster.pairs[0].failover()
        await cluster.wait_for_bindings(queue="queue0", count=2, consumers=2)
        after = []
        for group in groups:
            await send(clients[1], 0, 10, group)
            after.append(await chosen(consumers, ALL))
        assert after == before
