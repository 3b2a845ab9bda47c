"""1.1: two nodes of which the first connects to the second."""

from __future__ import annotations

import pytest
import trio

from embedbroker.pytest_plugin import BrokerCluster
from tests.scenarios.nodes import Client, MakeCluster, clients_of, drained, forwarded, pass_time, received, turns

ONE_WAY = {0: [1]}
COUNT = 10
ALL = list(range(COUNT))
NAMES = ("queue0", "queue1", "queue2")


async def start(broker_cluster: MakeCluster, how: str = "ON_DEMAND") -> BrokerCluster:
    return await broker_cluster(2, topology=ONE_WAY, message_load_balancing=how).start()


async def know(cluster: BrokerCluster, *names: str, count: int = 2, consumers: int | None = None) -> None:
    """Wait until the source has bindings of queues."""
    for name in names:
        await cluster.wait_for_bindings(queue=name, count=count, consumers=consumers, nodes=[0])


async def test_never_start_target_start_source_then_stop_source(broker_cluster: MakeCluster) -> None:
    """1.1.1

    Given a source whose target never starts, when it is stopped while it still searches, then it stops at once.
    """
    cluster = broker_cluster(2, topology=ONE_WAY)
    await cluster.nodes[0].start()
    await pass_time(0.7)
    begun = trio.current_time()
    await cluster.nodes[0].stop()
    assert trio.current_time() - begun < 0.1


@pytest.mark.parametrize(
    ("first", "second"),
    [(1, 0), (0, 1)],
    ids=["start target server before source server", "start source server before target server"],
)
async def test_filtered_delivery(broker_cluster: MakeCluster, first: int, second: int) -> None:
    """1.1.2, 1.1.3

    Given a filtered queue at the target, whichever starts first, when the source sends both kinds, then only what
    matches arrives.
    """
    cluster = broker_cluster(2, topology=ONE_WAY)
    await cluster.nodes[first].start()
    await pass_time(1)
    await cluster.nodes[second].start()
    await cluster.wait_formed()
    async with clients_of(cluster) as (source, target):
        await target.queues("queue0", filter="kind = 'wanted'")
        consumer = await target.consumer("queue0")
        await know(cluster, "queue0", count=1, consumers=1)
        await source.send(0, COUNT, kind="wanted")
        await source.send(COUNT, 2 * COUNT, kind="other")
        assert await received(consumer) == ALL


async def test_stop_and_start_target(broker_cluster: MakeCluster) -> None:
    """1.1.4

    Given traffic to a durable queue of the target, when that stops and starts, then the source sees two members, one,
    and two again within five seconds, and what it sends arrives.
    """
    cluster = await start(broker_cluster)
    async with clients_of(cluster) as (source, target):
        await target.queues("queue0")
        consumer = await target.consumer("queue0")
        await know(cluster, "queue0", count=1, consumers=1)
        await source.send(0, COUNT)
        assert await received(consumer) == ALL
    await cluster.nodes[1].stop()
    await cluster.wait_formed(timeout=5)
    await cluster.nodes[1].start()
    await cluster.wait_formed(timeout=5)
    async with clients_of(cluster) as (source, target):
        consumer = await target.consumer("queue0")
        await know(cluster, "queue0", count=1, consumers=1)
        await source.send(0, COUNT)
        assert await received(consumer) == ALL


async def test_basic_local_receive(broker_cluster: MakeCluster) -> None:
    """1.1.5

    Given a queue and a consumer at the source only, when it sends, then all stays there and nothing is forwarded.
    """
    cluster = await start(broker_cluster)
    async with clients_of(cluster) as (source, _target):
        await source.queues("queue0")
        await source.send(0, COUNT)
        assert await drained(source, "queue0") == ALL
    assert await forwarded(cluster, 0) == 0


@pytest.mark.parametrize("names", [NAMES[:1], NAMES], ids=["basic", "multiple queues"])
async def test_round_robin(broker_cluster: MakeCluster, names: tuple[str, ...]) -> None:
    """1.1.6, 1.1.7

    Given queues of one address at both, with consumers, when ten are sent, then each queue's messages alternate, and
    half of them were forwarded.
    """
    cluster = await start(broker_cluster)
    async with clients_of(cluster) as clients:
        for client in clients:
            await client.queues(*names)
        consumers = {name: [await client.consumer(name) for client in clients] for name in names}
        await know(cluster, *names, consumers=2)
        await clients[0].send(0, COUNT)
        for name in names:
            assert [await received(each) for each in consumers[name]] == turns(COUNT, 2), name
    # A message for several queues of one node goes there once.
    assert await forwarded(cluster, 0) == COUNT // 2


async def test_multiple_non_load_balanced_queues(broker_cluster: MakeCluster) -> None:
    """1.1.8

    Given ten queues of different names at both nodes, when ten are sent, then each has all of them.
    """
    cluster = await start(broker_cluster)
    async with clients_of(cluster) as (source, target):
        for number in range(10):
            client = (source, target)[number % 2]
            await client.queues(f"queue{number}")
            await client.consumer(f"queue{number}")
        await know(cluster, "queue9", count=1, consumers=1)
        await source.send(0, COUNT)
        for number in range(10):
            await cluster.wait_for(queue=f"queue{number}", count=COUNT)
    assert await forwarded(cluster, 0) == COUNT


SHARED, UNIQUE = ("shared0", "shared1"), ("unique0", "unique1")


async def mixture(cluster: BrokerCluster, source: Client, target: Client) -> None:
    """Queues of one address: two that both nodes have, and one for each of them alone."""
    for client, unique in ((source, UNIQUE[0]), (target, UNIQUE[1])):
        await client.queues(*SHARED, unique)
        for name in (*SHARED, unique):
            await client.consumer(name)
    await know(cluster, *SHARED, consumers=2)
    await know(cluster, *UNIQUE, count=1, consumers=1)


async def counts(cluster: BrokerCluster, name: str) -> list[int]:
    """The number of messages in a queue of either node, when nothing moves any more."""
    await pass_time(1)
    return [
        next((queue.message_count for queue in node.queues() if queue.name == name), 0) if node.is_live else 0
        for node in cluster.nodes
    ]


async def test_mixture_load_balanced_and_non_load_balanced_queues(broker_cluster: MakeCluster) -> None:
    """1.1.9

    Given names that both nodes have, and names that one has, when ten are sent, then the first kind alternates, and
    each queue of the second kind gets all.
    """
    cluster = await start(broker_cluster)
    async with clients_of(cluster) as (source, target):
        await mixture(cluster, source, target)
        await source.send(0, COUNT)
        assert [await counts(cluster, name) for name in SHARED] == [[5, 5]] * 2
        assert [await counts(cluster, name) for name in UNIQUE] == [[10, 0], [0, 10]]


async def test_mixture_load_balanced_and_non_load_balanced_queues_remove_some_queues_and_consumers(
    broker_cluster: MakeCluster,
) -> None:
    """1.1.10

    Given that mixture, when one side of each shared queue is deleted, then the other side gets everything.
    """
    cluster = await start(broker_cluster)
    async with clients_of(cluster) as (source, target):
        await source.queues("shared0")
        await target.queues("shared0")
        await source.queues("shared1")
        await target.queues("shared1")
        kept = [await target.consumer("shared0"), await source.consumer("shared1")]
        await know(cluster, *SHARED, consumers=1)
        await source.session.delete_queue("shared0")
        await target.session.delete_queue("shared1")
        await know(cluster, *SHARED, count=1, consumers=1)
        await source.send(0, COUNT)
        assert [await received(consumer) for consumer in kept] == [ALL, ALL]


@pytest.mark.parametrize(
    "first",
    [1, 0],
    ids=["add queues on target before start source", "add queues on source before start target"],
)
async def test_mixture_load_balanced_and_non_load_balanced_queues_in_turn(
    broker_cluster: MakeCluster, first: int
) -> None:
    """1.1.11, 1.1.12

    Given queues that one node has before the other starts, when ten are sent, then the rotation begins with the queue
    that the source knew first.
    """
    cluster = broker_cluster(2, topology=ONE_WAY)
    await cluster.nodes[first].start()
    async with clients_of(cluster, [first]) as (client,):
        await client.queues("queue0")
    await cluster.start()
    async with clients_of(cluster) as clients:
        await know(cluster, "queue0", count=1)
        await clients[1 - first].queues("queue0")
        consumers = [await client.consumer("queue0") for client in clients]
        await know(cluster, "queue0", consumers=2)
        await clients[0].send(0, COUNT)
        assert await received(consumers[first]) == ALL[::2]
        assert await received(consumers[1 - first]) == ALL[1::2]


async def test_not_route_to_non_matching_address(broker_cluster: MakeCluster) -> None:
    """1.1.13

    Given queues of several addresses at both, when messages are sent to one, then only its queues have them.
    """
    cluster = await start(broker_cluster)
    async with clients_of(cluster) as (source, target):
        await target.queues("queue0", "queue1")
        await target.queues("other0", address="elsewhere")
        await source.queues("other1", address="elsewhere too")
        await know(cluster, "queue0", "queue1", "other0", count=1)
        await source.send(0, COUNT)
        assert [await counts(cluster, name) for name in ("queue0", "queue1")] == [[0, 10]] * 2
        assert [await counts(cluster, name) for name in ("other0", "other1")] == [[0, 0]] * 2


async def test_non_load_balanced_queues_with_filters(broker_cluster: MakeCluster) -> None:
    """1.1.14

    Given queues with different filters at both, when messages with each value and with none are sent, then each queue
    has exactly those that match.
    """
    cluster = await start(broker_cluster)
    async with clients_of(cluster) as (source, target):
        for client, name in ((source, "near"), (target, "far")):
            await client.queues(f"{name}-red", filter="colour = 'red'")
            await client.queues(f"{name}-blue", filter="colour = 'blue'")
            await client.queues(f"{name}-all")
        await know(cluster, "far-red", "far-blue", "far-all", count=1)
        await source.send(0, 3, colour="red")
        await source.send(3, 5, colour="blue")
        await source.send(5, 6)
        for name, found in (("red", 3), ("blue", 2), ("all", 6)):
            assert await counts(cluster, f"near-{name}") == [found, 0]
            assert await counts(cluster, f"far-{name}") == [0, found]


async def test_round_robin_multiple_queues_with_filters(broker_cluster: MakeCluster) -> None:
    """1.1.15

    Given shared names whose filters match on both nodes, or on one, when messages are sent, then only the sides that
    match take turns.
    """
    cluster = await start(broker_cluster)
    async with clients_of(cluster) as (source, target):
        await source.queues("both", filter="colour = 'red'")
        await target.queues("both", filter="colour = 'red'")
        await source.queues("far", filter="colour = 'blue'")
        await target.queues("far", filter="colour = 'red'")
        for client in (source, target):
            for name in ("both", "far"):
                await client.consumer(name)
        await know(cluster, "both", "far", consumers=2)
        await source.send(0, COUNT, colour="red")
        assert await counts(cluster, "both") == [5, 5]
        assert await counts(cluster, "far") == [0, 10]
        await source.send(0, COUNT, colour="blue")
        assert await counts(cluster, "far") == [10, 10]
        assert await counts(cluster, "both") == [5, 5]


@pytest.mark.parametrize(("how"), ["ON_DEMAND", "STRICT"])
async def test_route_when_no_consumers_false_non_balanced_queues(broker_cluster: MakeCluster, how: str) -> None:
    """1.1.16

    Given queues of different names without consumers, when messages are sent and consumers come later, then each
    queue has everything.
    """
    cluster = await start(broker_cluster, how)
    async with clients_of(cluster) as (source, target):
        await source.queues("near")
        await target.queues("far")
        await know(cluster, "far", count=1)
        await source.send(0, COUNT)
        assert [await drained(source, "near"), await drained(target, "far")] == [ALL, ALL]


async def test_route_when_no_consumers_true_load_balanced_queues(broker_cluster: MakeCluster) -> None:
    """1.1.17

    Given a shared queue without consumers, when STRICT, then messages are split anyway.
    """
    cluster = await start(broker_cluster, "STRICT")
    async with clients_of(cluster) as clients:
        for client in clients:
            await client.queues("queue0")
        await know(cluster, "queue0")
        await clients[0].send(0, COUNT)
        assert [await drained(client, "queue0") for client in clients] == turns(COUNT, 2)


@pytest.mark.parametrize(
    ("how", "expected"),
    [("ON_DEMAND", [ALL, []]), ("STRICT", turns(COUNT, 2))],
    ids=["false", "true"],
)
async def test_route_when_no_consumers_load_balanced_queues_local_consumer(
    broker_cluster: MakeCluster, how: str, expected: list[list[int]]
) -> None:
    """1.1.18, 1.1.19

    Given a consumer at the source only, when ON_DEMAND, then everything stays there; when STRICT, half is forwarded all
    the same. A consumer that comes later at the target finds that.
    """
    cluster = await start(broker_cluster, how)
    async with clients_of(cluster) as (source, target):
        await source.queues("queue0")
        await target.queues("queue0")
        consumer = await source.consumer("queue0")
        await know(cluster, "queue0", consumers=1)
        await source.send(0, COUNT)
        assert [await received(consumer), await drained(target, "queue0")] == expected


@pytest.mark.parametrize("how", ["STRICT", "ON_DEMAND"], ids=["true", "false"])
async def test_route_when_no_consumers_load_balanced_queues_no_local_queue(
    broker_cluster: MakeCluster, how: str
) -> None:
    """1.1.20

    Given a queue that only the target has, without consumers, when messages are sent, then they are there; when the
    source has the queue, too, and both have consumers, then the next round alternates.
    """
    cluster = await start(broker_cluster, how)
    async with clients_of(cluster) as clients:
        await clients[1].queues("queue0")
        await know(cluster, "queue0", count=1)
        await clients[0].send(0, COUNT)
        assert await drained(clients[1], "queue0") == ALL
        await clients[0].queues("queue0")
        consumers = [await client.consumer("queue0") for client in clients]
        await know(cluster, "queue0", consumers=2)
        await clients[0].send(0, COUNT)
        assert sorted([await received(each) for each in consumers]) == turns(COUNT, 2)


async def test_non_load_balanced_queues_with_consumers_with_filters(broker_cluster: MakeCluster) -> None:
    """1.1.21

    Given queues of different names, whose consumers have filters, when messages of two kinds are sent, then each
    consumer gets what matches.
    """
    cluster = await start(broker_cluster)
    async with clients_of(cluster) as (source, target):
        await source.queues("near")
        await target.queues("far")
        near, far = await source.consumer("near", "colour = 'red'"), await target.consumer("far", "colour = 'blue'")
        await know(cluster, "far", count=1, consumers=1)
        await source.send(0, 5, colour="red")
        await source.send(5, 10, colour="blue")
        assert [await received(near), await received(far)] == [ALL[:5], ALL[5:]]


async def test_round_robin_multiple_queues_with_consumers_with_filters(broker_cluster: MakeCluster) -> None:
    """1.1.22

    Given shared names whose consumers have filters, when messages are sent, then the filters of remote consumers steer
    the choice: a queue whose only fitting consumer is remote sends everything there.
    """
    cluster = await start(broker_cluster)
    async with clients_of(cluster) as (source, target):
        for client in (source, target):
            await client.queues("both", "far")
        consumers = [
            await source.consumer("both", "colour = 'red'"),
            await target.consumer("both", "colour = 'red'"),
            await source.consumer("far", "colour = 'blue'"),
            await target.consumer("far", "colour = 'red'"),
        ]
        await know(cluster, "both", "far", consumers=2)
        await source.send(0, COUNT, colour="red")
        assert [await received(each) for each in consumers] == [*turns(COUNT, 2), [], ALL]


async def test_multiple_cluster_connections(broker_cluster: MakeCluster) -> None:
    """1.1.23

    Given three cluster connections for three prefixes of addresses, when messages are sent to each, then they do not
    disturb one another: each forwards its own, in its own way, and stops alone.
    """
    prefixes = {"q0": "STRICT", "q1": "ON_DEMAND", "q2": "OFF"}
    connections = [
        {"name": f"of {prefix}", "addresses": [prefix], "message_load_balancing": how}
        for prefix, how in prefixes.items()
    ]
    cluster = await broker_cluster(2, topology=ONE_WAY, connections=connections).start()
    management = cluster.nodes[0].broker.management
    async with clients_of(cluster) as (source, target):
        for prefix in (*prefixes, "q3"):
            for client in (source, target):
                await client.queues(f"{prefix}.q", address=f"{prefix}.address")
        far = [await target.consumer(f"{prefix}.q") for prefix in prefixes]
        for prefix in prefixes:
            await cluster.wait_for_bindings(queue=f"{prefix}.q", count=2, consumers=1, nodes=[0])
        # Whose addresses none of them has.
        assert len(cluster.bindings("q3.q")[0]) == 1
        for prefix in prefixes:
            await source.send(0, COUNT, address=f"{prefix}.address")
        assert [await received(each) for each in far] == [turns(COUNT, 2)[1], ALL, []]
        counts = {
            prefix: await management.get(f"clusterconnection.of {prefix}", "MessagesAcknowledged")
            for prefix in prefixes
        }
        assert counts == {"q0": COUNT // 2, "q1": COUNT, "q2": 0}
        names = await management.get("broker", "ClusterConnectionNames")
        assert isinstance(names, list) and set(names) == {f"of {prefix}" for prefix in prefixes}
        await management.invoke("clusterconnection.of q0", "stop")
        await source.send(0, COUNT, address="q0.address")
        await source.send(0, COUNT, address="q1.address")
        assert [await received(each) for each in far] == [[], ALL, []]
        assert [len(cluster.bindings(f"{prefix}.q")[0]) for prefix in prefixes] == [1, 2, 2]
        await management.invoke("clusterconnection.of q0", "start")
        await cluster.nodes[1].crash()
        await cluster.nodes[1].start()
        for prefix in prefixes:
            await cluster.wait_for_bindings(queue=f"{prefix}.q", count=2, nodes=[0])
