"""1.3 and 1.4: nodes that all connect to each other, and 1.5: two of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from itertools import chain
from pathlib import Path

import pytest

from embedbroker import AddressSettings, DivertConfiguration
from embedbroker.configfile import load_config
from embedbroker.pytest_plugin import BrokerCluster, ManagedBroker
from embedclient import ClientConsumer, RoutingType, ServerLocator
from tests.scenarios.clients import ORDERS, numbered, put, session_at, take
from tests.scenarios.nodes import ADDRESS, Client, MakeCluster, clients_of, drained, pass_time, received, turns

COUNT = 10
ALL = list(range(COUNT))


async def shared(cluster: BrokerCluster, clients: Sequence[Client], name: str = "queue0") -> list[ClientConsumer]:
    """A queue with a consumer at each client, known everywhere."""
    for client in clients:
        await client.queues(name)
    consumers = [await client.consumer(name) for client in clients]
    await cluster.wait_for_bindings(queue=name, count=len(clients), consumers=len(clients))
    return consumers


async def dealt(consumers: Sequence[ClientConsumer]) -> list[list[int]]:
    """What each consumer gets, in order of the first message of each."""
    return sorted([await received(consumer) for consumer in consumers])


async def counts(cluster: BrokerCluster, name: str) -> list[int]:
    """The number of messages in a queue of each node, when nothing moves any more."""
    await pass_time(1)
    return [
        next((queue.message_count for queue in node.queues() if queue.name == name), 0) if node.is_live else 0
        for node in cluster.nodes
    ]


# -- simple ------------------------------------------------------------------------------------------------------------


async def test_simple_with_backup(broker_cluster: MakeCluster) -> None:
    """1.3.1

    Given three pairs with shared stores, when all start, then all see each other, and stop in order.
    """
    cluster = await broker_cluster(3, pairs="shared-store").start()
    for pair in cluster.pairs:
        await pair.backup.stop()
        await pair.primary.stop()
    assert not any(broker.is_running for broker in cluster.brokers)


@pytest.mark.parametrize("count", [2, 3, 5])
async def test_simple(broker_cluster: MakeCluster, count: int) -> None:
    """1.3.2

    Given several nodes, when each has a queue and a consumer, then each has a local binding and one per other node.
    """
    cluster = await broker_cluster(count).start()
    async with clients_of(cluster) as clients:
        await shared(cluster, clients)
        for index, known in enumerate(cluster.bindings("queue0")):
            assert known[0].node == f"node-{index}"
            assert [binding.distance for binding in known] == [0] + [1] * (count - 1)
            assert [binding.consumers for binding in known] == [1] * count


async def test_simple_restart_cluster_connection(broker_cluster: MakeCluster) -> None:
    """1.3.4

    Given three nodes, when each cluster connection is stopped and started, then there are no bridges and no remote
    bindings meanwhile, and all of them afterwards.
    """
    cluster = await broker_cluster(3).start()
    async with clients_of(cluster) as clients:
        consumers = await shared(cluster, clients)
        for node in cluster.nodes:
            await node.broker.management.invoke("clusterconnection.cluster", "stop")
            assert await node.broker.management.get("clusterconnection.cluster", "Nodes") == {}
        assert [len(known) for known in cluster.bindings("queue0")] == [1, 1, 1]
        for node in cluster.nodes:
            await node.broker.management.invoke("clusterconnection.cluster", "start")
        await cluster.wait_for_bindings(queue="queue0", count=3, consumers=3)
        await clients[0].send(0, 9)
        assert await dealt(consumers) == turns(9, 3)


async def test_delete_address(broker_cluster: MakeCluster) -> None:
    """1.3.5

    Given local and remote bindings of an address, when it is deleted by force, then its own binding is gone on all
    nodes, and the store-and-forward queue stays.
    """
    cluster = await broker_cluster(2).start()
    async with clients_of(cluster) as (first, _second):
        await first.queues("queue0")
        await cluster.wait_for_bindings(queue="queue0", count=1)
        await cluster.nodes[0].broker.management.invoke("broker", "deleteAddress", ADDRESS, True)
        await cluster.wait_for_bindings(queue="queue0", count=0)
    for node in cluster.nodes:
        assert [queue.name.startswith("$.artemis.internal.sf.cluster.") for queue in node.queues()].count(True) == 1


@pytest.mark.parametrize("sent_to", ["orders", "orders::orders"], ids=["address", "send to FQQN"])
@pytest.mark.parametrize("consumed_from", ["orders", "orders::orders"], ids=["queue", "consume from FQQN"])
async def test_initial_distribution(broker_cluster: MakeCluster, sent_to: str, consumed_from: str) -> None:
    """1.3.6

    Given a queue on both nodes, and a consumer on node 0, when one message is sent on node 1, each by the name of
    the queue or by its fully qualified name, then it goes to node 0.
    """
    cluster = await broker_cluster(2).start()
    async with clients_of(cluster) as (first, second):
        for client in (first, second):
            await client.session.create_queue("orders")
        consumer = await first.consumer(consumed_from)
        await cluster.wait_for_bindings(queue="orders", count=2, consumers=1)
        await second.send(0, 1, address=sent_to)
        assert await received(consumer) == [0]


async def test_simple_snf_management(broker_cluster: MakeCluster) -> None:
    """1.3.7

    Given two nodes, when the store-and-forward queue is paused and resumed by management, then what is forwarded
    waits meanwhile.
    """
    cluster = await broker_cluster(2).start()
    name = f"$.artemis.internal.sf.cluster.{cluster.nodes[1].broker.node_id}"
    management = cluster.nodes[0].broker.management
    async with clients_of(cluster) as (first, second):
        await second.queues("queue0")
        await cluster.wait_for_bindings(queue="queue0", count=1)
        await management.invoke(f"queue.{name}", "pause")
        await first.send(0, COUNT)
        assert await counts(cluster, "queue0") == [0, 0]
        await cluster.nodes[0].wait_for(queue=name, count=COUNT)
        await management.invoke(f"queue.{name}", "resume")
        assert await drained(second, "queue0") == ALL


async def test_simple_round_robbin(broker_cluster: MakeCluster) -> None:
    """1.3.8

    Given three nodes that try ten times, when one stops for longer, then the two others share what is sent; when it is
    back, it takes part again.
    """
    cluster = await broker_cluster(3, reconnect_attempts=10, retry_interval_ms=100).start()
    async with clients_of(cluster, [0, 1]) as clients:
        async with clients_of(cluster, [2]) as (third,):
            consumers = await shared(cluster, [*clients, third])
            await clients[0].send(0, 9)
            assert await dealt(consumers) == turns(9, 3)
        await cluster.nodes[2].stop()
        await pass_time(5)
        await cluster.wait_for_bindings(queue="queue0", count=2, consumers=2)
        await clients[0].send(0, COUNT)
        assert await dealt(consumers[:2]) == turns(COUNT, 2)
        await cluster.start()
        async with clients_of(cluster, [2]) as (third,):
            consumers[2] = await third.consumer("queue0")
            await cluster.wait_for_bindings(queue="queue0", count=3, consumers=3)
            await clients[0].send(0, 9)
            assert await dealt(consumers) == turns(9, 3)


async def test_simple_round_robbin_no_failure(broker_cluster: MakeCluster) -> None:
    """1.3.9

    Given nodes that try without end, when one crashes in the middle of traffic, then what was on its way to it waits in
    a store-and-forward queue, and is there when it is back.
    """
    cluster = await broker_cluster(3).start()
    async with clients_of(cluster, [0, 1]) as clients:
        async with clients_of(cluster, [2]) as (third,):
            consumers = await shared(cluster, [*clients, third])
            cluster.partition([0], [2])
            await clients[0].send(0, 9)
            await cluster.nodes[2].crash()
        cluster.heal()
        await cluster.wait_formed()
        near = await dealt(consumers[:2])
        assert sorted(chain(*near)) != list(range(9))
        await cluster.start()
        async with clients_of(cluster, [2]) as (third,):
            far = await drained(third, "queue0")
        assert sorted([*near, far]) == turns(9, 3)
        cluster.assert_nothing_lost()


async def test_basic_round_robin_by_uri(broker_factory: Callable[..., ManagedBroker], tmp_path: Path) -> None:
    """1.3.11

    Given five nodes with files that have each cluster connection as a URL with parameters, when messages are sent, then
    they take turns on all five.
    """
    names = [f"node-{number}" for number in range(5)]
    nodes = []
    for name in names:
        others = ",".join(f"vm://{other}" for other in names if other != name)
        address = (
            f"static://({others})?connectorName=own;messageLoadBalancingType=ON_DEMAND;maxHops=1;retryInterval=500"
        )
        file = tmp_path / f"{name}.xml"
        file.write_text(
            "<configuration xmlns='urn:activemq'><core xmlns='urn:activemq:core'>"
            f"<connectors><connector name='own'>vm://{name}</connector></connectors>"
            f"<cluster-connections><cluster-connection-uri name='c' address='{address}'/></cluster-connections>"
            "</core></configuration>"
        )
        config = load_config(file, on_warning=lambda warning: None)
        nodes.append(
            broker_factory(
                name,
                connectors=config.connectors,
                cluster_connections=config.cluster_connections,
                cluster_password="secret",
            )
        )
    async with AsyncExitStack() as stack:
        sessions = []
        for node in nodes:
            await node.start()
        for node in nodes:
            sessions.append(await stack.enter_async_context(session_at(node.url)))
        consumers = [await session.create_consumer(ORDERS) for session in sessions]
        await pass_time(3)
        await put(sessions[0], numbered(0, COUNT))
        assert sorted([await take(consumer, 2) for consumer in consumers]) == [
            [str(number) for number in each] for each in turns(COUNT, 5)
        ]


# -- five nodes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pairs", [False, True], ids=["nodes", "pairs"])
async def test_stop_all_start_all(broker_cluster: MakeCluster, pairs: bool) -> None:
    """1.4.1, 1.4.29

    Given messages that take turns on all nodes, when all of them stop and start, then they take turns again.
    """
    count = 3 if pairs else 5
    cluster = await broker_cluster(count, pairs=pairs).start()
    for turn in range(2):
        async with clients_of(cluster) as clients:
            if turn:
                consumers = [await client.consumer("queue0") for client in clients]
                await cluster.wait_for_bindings(queue="queue0", count=count, consumers=count)
            else:
                consumers = await shared(cluster, clients)
            await clients[turn].send(0, COUNT)
            assert await dealt(consumers) == turns(COUNT, count)
        for broker in reversed(cluster.brokers):
            await broker.stop()
        if not turn:
            await cluster.start()


@pytest.mark.parametrize(
    ("count", "creates"),
    [(COUNT, True), (100, True), (100, False)],
    ids=["few", "many messages", "many messages no address auto create"],
)
async def test_basic_round_robin(broker_cluster: MakeCluster, count: int, creates: bool) -> None:
    """1.4.2, 1.4.3, 1.4.4

    Given one queue on each of five nodes, when messages are sent to one, then each gets a fifth, also where no address
    is created on demand: the queues of the cluster do not need that.
    """
    settings = AddressSettings(auto_create_addresses=creates, auto_create_queues=creates)
    cluster = await broker_cluster(5, brokers={"address_settings": {"#": settings}}).start()
    async with clients_of(cluster) as clients:
        for client in clients:
            await client.session.create_address(ADDRESS, [RoutingType.MULTICAST])
        consumers = await shared(cluster, clients)
        await clients[0].send(0, count)
        assert await dealt(consumers) == turns(count, 5)


async def test_round_robin_multiple_queues(broker_cluster: MakeCluster) -> None:
    """1.4.5

    Given three names on five nodes, when messages are sent, then those of each name take turns by themselves.
    """
    cluster = await broker_cluster(5).start()
    async with clients_of(cluster) as clients:
        consumers = {name: await shared(cluster, clients, name) for name in ("queue0", "queue1", "queue2")}
        await clients[3].send(0, COUNT)
        for each in consumers.values():
            assert await dealt(each) == turns(COUNT, 5)


async def test_multiple_non_load_balanced_queues(broker_cluster: MakeCluster) -> None:
    """1.4.6

    Given fifteen queues of different names on five nodes, when messages are sent, then each has all of them.
    """
    cluster = await broker_cluster(5).start()
    async with clients_of(cluster) as clients:
        for number in range(15):
            await clients[number % 5].queues(f"queue{number}")
        for number in range(15):
            await cluster.wait_for_bindings(queue=f"queue{number}", count=1)
        await clients[0].send(0, COUNT)
        for number in range(15):
            await cluster.wait_for(queue=f"queue{number}", count=COUNT)
        await pass_time(1)
        for number in (0, 7, 14):
            assert sum(await counts(cluster, f"queue{number}")) == COUNT


#: Which nodes have a queue of the name.
MIXTURE = {
    "all": (0, 1, 2, 3, 4),
    "three": (0, 1, 2),
    "others": (2, 3, 4),
    "two": (0, 3),
    "one": (1,),
    "last": (4,),
}


async def mix(
    cluster: BrokerCluster, clients: Sequence[Client], mixture: dict[str, tuple[int, ...]] = MIXTURE
) -> dict[str, list[ClientConsumer]]:
    """Queues of one address, each on some nodes, with consumers."""
    consumers = {}
    for name, nodes in mixture.items():
        for node in nodes:
            await clients[node].queues(name)
        consumers[name] = [await clients[node].consumer(name) for node in nodes]
    await know(cluster, mixture)
    return consumers


async def know(cluster: BrokerCluster, mixture: dict[str, tuple[int, ...]]) -> None:
    for name, nodes in mixture.items():
        await cluster.wait_for_bindings(queue=name, count=len(nodes), consumers=len(nodes))


async def check(clients: Sequence[Client], consumers: dict[str, list[ClientConsumer]], sender: int = 0) -> None:
    """Send, and look that the consumers of each name take turns."""
    await clients[sender].send(0, 30)
    for name, each in consumers.items():
        assert await dealt(each) == turns(30, len(each)), name


@pytest.mark.parametrize("removes", [False, True], ids=["as it is", "remove some queues and consumers"])
async def test_mixture_load_balanced_and_non_load_balanced_queues(broker_cluster: MakeCluster, removes: bool) -> None:
    """1.4.7, 1.4.8

    Given names that five, three and two nodes have, and names that one has, when messages are sent, then those of each
    name take turns, and a single queue has all. When some queues are deleted, the others share.
    """
    cluster = await broker_cluster(5).start()
    async with clients_of(cluster) as clients:
        consumers = await mix(cluster, clients)
        if removes:
            for name, node in (("all", 4), ("three", 1), ("two", 3)):
                position = MIXTURE[name].index(node)
                await consumers[name].pop(position).close()
                await clients[node].session.delete_queue(name)
            await know(cluster, MIXTURE | {"all": (0, 1, 2, 3), "three": (0, 2), "two": (0,)})
        await check(clients, consumers)


@pytest.mark.parametrize("pairs", [False, True], ids=["all servers are started", "all servers are started, of pairs"])
async def test_mixture_load_balanced_and_non_load_balanced_queues_add_queues_and_consumers_before(
    broker_cluster: MakeCluster, pairs: bool
) -> None:
    """1.4.9, 1.4.31

    Given queues that are made while nodes start one after the other, when all run, then those that came late know of
    everything, and messages take turns.
    """
    cluster = broker_cluster(4, pairs=pairs)
    mixture = {"all": (0, 1, 2, 3), "two": (0, 3), "one": (1,)}
    consumers: dict[str, list[ClientConsumer]] = {name: [] for name in mixture}
    async with AsyncExitStack() as stack:
        clients = []
        for node in range(4):
            for broker in cluster.pairs[node].brokers if pairs else (cluster.nodes[node],):
                await broker.start()
            clients += await stack.enter_async_context(clients_of(cluster, [node]))
            for name, nodes in mixture.items():
                if node in nodes:
                    await clients[node].queues(name)
                    consumers[name].append(await clients[node].consumer(name))
        await cluster.wait_formed()
        await know(cluster, mixture)
        await check(clients, consumers, sender=3)


async def test_mixture_load_balanced_and_non_load_balanced_queues_with_filters(broker_cluster: MakeCluster) -> None:
    """1.4.10

    Given queues with filters, when messages with two values and with none are sent, then only queues that match get
    copies and take turns.
    """
    cluster = await broker_cluster(5).start()
    async with clients_of(cluster) as clients:
        red = "colour = 'red'"
        for node in range(5):
            await clients[node].queues("some", filter=red if node < 3 else "colour = 'blue'")
            await clients[node].queues("every")
        await clients[4].queues("one", filter=red)
        consumers = {name: [await client.consumer(name) for client in clients] for name in ("some", "every")}
        await know(cluster, {"some": (0, 1, 2, 3, 4), "every": (0, 1, 2, 3, 4)})
        await cluster.wait_for_bindings(queue="one", count=1)
        await clients[0].send(0, 12, colour="red")
        assert await dealt(consumers["some"][:3]) == turns(12, 3)
        assert [await received(each) for each in consumers["some"][3:]] == [[], []]
        assert await drained(clients[4], "one") == list(range(12))
        await clients[0].send(12, 20, colour="blue")
        assert await dealt(consumers["some"][3:]) == [[12, 14, 16, 18], [13, 15, 17, 19]]
        await clients[0].send(20, 30)
        assert not any([await received(each) for each in consumers["some"]])
        assert sorted(chain(*[await received(each) for each in consumers["every"]])) == list(range(30))


async def test_mixture_load_balanced_and_non_load_balanced_queues_with_consumers_with_filters(
    broker_cluster: MakeCluster,
) -> None:
    """1.4.11

    Given consumers with filters, when messages with two values are sent, then filters of remote consumers steer the
    choice.
    """
    cluster = await broker_cluster(5).start()
    async with clients_of(cluster) as clients:
        for client in clients:
            await client.queues("queue0")
        consumers = [
            await client.consumer("queue0", "colour = 'red'" if node < 3 else "colour = 'blue'")
            for node, client in enumerate(clients)
        ]
        await know(cluster, {"queue0": (0, 1, 2, 3, 4)})
        await clients[4].send(0, 12, colour="red")
        assert await dealt(consumers[:3]) == turns(12, 3)
        await clients[4].send(0, 12, colour="blue")
        assert await dealt(consumers[3:]) == turns(12, 2)
        assert not any([await received(each) for each in consumers])


@pytest.mark.parametrize(
    ("how", "is_local", "expected"),
    [
        ("STRICT", False, [2, 2, 2, 2, 2]),
        ("ON_DEMAND", True, [10, 0, 0, 0, 0]),
        ("ON_DEMAND", False, [10, 0, 0, 0, 0]),
    ],
    ids=["true load balanced queues", "false local consumer load balanced queues", "false non load balanced queues 2"],
)
async def test_route_when_no_consumers(
    broker_cluster: MakeCluster, how: str, is_local: bool, expected: list[int]
) -> None:
    """1.4.12, 1.4.13, 1.4.14

    Given a queue on five nodes, when STRICT and no consumers, then messages are split; when ON_DEMAND, with a consumer
    where they are sent or with none at all, they stay.
    """
    cluster = await broker_cluster(5, message_load_balancing=how).start()
    async with clients_of(cluster) as clients:
        for client in clients:
            await client.queues("queue0")
        if is_local:
            await clients[0].consumer("queue0")
        await cluster.wait_for_bindings(queue="queue0", count=5, consumers=int(is_local))
        await clients[0].send(0, COUNT)
        assert await counts(cluster, "queue0") == expected


@pytest.mark.parametrize("how", ["ON_DEMAND", "STRICT"], ids=["false", "true"])
@pytest.mark.parametrize("local", [True, False], ids=["route when no consumers", "no local queue"])
async def test_non_load_balanced_queues(broker_cluster: MakeCluster, how: str, local: bool) -> None:
    """1.4.15, 1.4.16, 1.4.17

    Given queues of different names without consumers, with one where messages are sent or without, when ten are sent,
    then each queue has all of them.
    """
    cluster = await broker_cluster(5, message_load_balancing=how).start()
    async with clients_of(cluster) as clients:
        nodes = range(0 if local else 1, 5)
        for node in nodes:
            await clients[node].queues(f"queue{node}")
        for node in nodes:
            await cluster.wait_for_bindings(queue=f"queue{node}", count=1)
        await clients[0].send(0, COUNT)
        assert [await drained(clients[node], f"queue{node}") for node in nodes] == [ALL] * len(nodes)


async def test_no_local_queue_load_balanced_queues(broker_cluster: MakeCluster) -> None:
    """1.4.18

    Given STRICT, and one name on the four other nodes, when messages are sent, then these four take turns.
    """
    cluster = await broker_cluster(5, message_load_balancing="STRICT").start()
    async with clients_of(cluster) as clients:
        for client in clients[1:]:
            await client.queues("queue0")
        await cluster.wait_for_bindings(queue="queue0", count=4)
        await clients[0].send(0, 12)
        assert sorted([await drained(client, "queue0") for client in clients[1:]]) == turns(12, 4)


@pytest.mark.parametrize("pairs", [False, True], ids=["nodes", "pairs"])
async def test_start_stop_servers(broker_cluster: MakeCluster, pairs: bool) -> None:
    """1.4.19, 1.4.30

    Given a mixture on five nodes, when two of them stop and start, then each node has exactly the bindings of what
    is there, and messages take turns as before.
    """
    cluster = await broker_cluster(5, pairs=pairs).start()
    async with clients_of(cluster, [0, 1, 2]) as near:
        async with clients_of(cluster, [3, 4]) as far:
            consumers = await mix(cluster, [*near, *far])
            await check([*near, *far], consumers)
        for node in (3, 4):
            if pairs:
                await cluster.pairs[node].backup.stop()
            await cluster.nodes[node].stop()
        await cluster.wait_formed()
        left = {name: tuple(node for node in nodes if node < 3) for name, nodes in MIXTURE.items()}
        await know(cluster, left)
        await check(near, {name: consumers[name][: len(nodes)] for name, nodes in left.items() if nodes})
        await cluster.start()
        async with clients_of(cluster, [3, 4]) as far:
            for name, nodes in MIXTURE.items():
                kept = len(left[name])
                consumers[name][kept:] = [await far[node - 3].consumer(name) for node in nodes if node > 2]
            await know(cluster, MIXTURE)
            # What was sent to queues that no other node has waited for their nodes.
            for each in (consumers["last"], consumers["others"]):
                for consumer in each:
                    await received(consumer)
            await check([*near, *far], consumers, sender=3)


async def test_start_stop_servers_with_partition(broker_cluster: MakeCluster) -> None:
    """1.4.20

    Given a network that is split into three and two nodes at the start, when the split ends, then each node sees five
    members instead of three or two, and messages take turns on all of them.
    """
    cluster = broker_cluster(5)
    await cluster.nodes[0].start()
    cluster.partition([0, 1, 2], [3, 4])
    for node in cluster.nodes[1:]:
        await node.start()
    await cluster.wait_formed([0, 1, 2], [3, 4])
    async with clients_of(cluster) as clients:
        for client in clients:
            await client.queues("queue0")
        consumers = [await client.consumer("queue0") for client in clients]
        await cluster.wait_for_bindings(queue="queue0", count=3, nodes=[0, 1, 2])
        await cluster.wait_for_bindings(queue="queue0", count=2, nodes=[3, 4])
        cluster.heal()
        await cluster.wait_formed()
        await cluster.wait_for_bindings(queue="queue0", count=5, consumers=5)
        await clients[4].send(0, COUNT)
        assert await dealt(consumers) == turns(COUNT, 5)


async def test_stop_successive_servers(broker_cluster: MakeCluster) -> None:
    """1.4.21

    Given traffic on five nodes, when they stop one after the other, then the others know of one queue less each time,
    and share what is sent.
    """
    cluster = await broker_cluster(5).start()
    async with AsyncExitStack() as stack:
        scopes = [clients_of(cluster, [node]) for node in range(5)]
        clients = [(await stack.enter_async_context(scope))[0] for scope in scopes]
        consumers = await shared(cluster, clients)
        for left in (4, 3, 2, 1):
            await consumers[left].close()
            await clients[left].session.close()
            await cluster.nodes[left].stop()
            await cluster.wait_for_bindings(queue="queue0", count=left, consumers=left)
            await clients[0].send(0, 12)
            assert await dealt(consumers[:left]) == turns(12, left)


@pytest.mark.parametrize(
    ("prefixes", "known", "unknown"),
    [
        (["test"], ["test.1"], ["foo.queues.test.1"]),
        (["jms.eu.de", "!jms.eu.uk"], ["jms.eu.de"], ["jms.eu.uk"]),
        (
            ["jms.eu", "!jms.eu.uk", "jms.us", "!jms.us.bos"],
            ["jms.eu.de", "jms.eu.fr", "jms.us.ca", "jms.us.se"],
            ["jms.eu.uk", "jms.us.bos"],
        ),
    ],
    ids=[
        "creates bindings for simple string address filters",
        "does not creates bindings for string excludes address filters",
        "filters excludes and includes addresses in list",
    ],
)
async def test_cluster_address(
    broker_cluster: MakeCluster, prefixes: list[str], known: list[str], unknown: list[str]
) -> None:
    """1.4.22, 1.4.23, 1.4.24

    Given prefixes of addresses, some excluded, when queues are made, then others know of those whose address begins
    with an included prefix and with no excluded one.
    """
    cluster = await broker_cluster(2, addresses=prefixes).start()
    async with clients_of(cluster) as (first, _second):
        for name in (*unknown, *known):
            await first.queues(f"queue of {name}", address=name)
        for name in known:
            await cluster.wait_for_bindings(queue=f"queue of {name}", count=1)
        assert [cluster.bindings(f"queue of {name}")[1] for name in unknown] == [[]] * len(unknown)


# -- two nodes ---------------------------------------------------------------------------------------------------------


async def test_start_stop(broker_cluster: MakeCluster) -> None:
    """1.5.1

    Given two nodes, when ten are sent, then they alternate, and both nodes stop.
    """
    cluster = await broker_cluster(2).start()
    async with clients_of(cluster) as clients:
        consumers = await shared(cluster, clients)
        await clients[0].send(0, COUNT)
        assert await dealt(consumers) == turns(COUNT, 2)
    for node in cluster.nodes:
        await node.stop()


async def test_start_pause_start_other(broker_cluster: MakeCluster) -> None:
    """1.5.2

    Given a node with a queue, when another one starts later and gets the queue, too, then ten that are sent alternate.
    """
    cluster = broker_cluster(2)
    await cluster.nodes[0].start()
    async with clients_of(cluster, [0]) as (first,):
        await first.queues("queue0")
        consumers = [await first.consumer("queue0")]
        await pass_time(5)
        await cluster.start()
        async with clients_of(cluster, [1]) as (second,):
            await second.queues("queue0")
            consumers.append(await second.consumer("queue0"))
            await cluster.wait_for_bindings(queue="queue0", count=2, consumers=2)
            await first.send(0, COUNT)
            assert [await received(each) for each in consumers] == turns(COUNT, 2)


async def test_stop_start(broker_cluster: MakeCluster) -> None:
    """1.5.3

    Given traffic on two nodes, when the other one stops and starts, then the messages alternate in the same order.
    """
    cluster = await broker_cluster(2).start()
    async with clients_of(cluster, [0]) as (first,):
        async with clients_of(cluster, [1]) as (second,):
            consumers = await shared(cluster, [first, second])
            await first.send(0, COUNT)
            assert [await received(each) for each in consumers] == turns(COUNT, 2)
        await cluster.nodes[1].restart()
        async with clients_of(cluster, [1]) as (second,):
            consumers[1] = await second.consumer("queue0")
            await cluster.wait_for_bindings(queue="queue0", count=2, consumers=2)
            await first.send(0, COUNT)
            assert [await received(each) for each in consumers] == turns(COUNT, 2)


async def test_wildcard_flow_control(broker_cluster: MakeCluster) -> None:
    """1.3.3

    Given a queue of a wildcard address on node 0, when producers of two hundred addresses send to node 1, then all
    messages reach the remote consumer, and no producer is held up.
    """
    count = 200
    cluster = await broker_cluster(2).start()
    async with clients_of(cluster) as (first, second):
        await first.queues("all", address="queues.#")
        consumer = await first.consumer("all")
        await cluster.wait_for_bindings(queue="all", count=1, consumers=1)
        for number in range(count):
            producer = second.session.create_producer(f"queues.{number}")
            message = second.session.create_message(b"text", durable=False)
            message.properties["n"] = number
            await producer.send(message)
        assert await received(consumer) == list(range(count))


async def test_divert_redistributed_message(broker_cluster: MakeCluster) -> None:
    """1.3.10

    Given an exclusive divert on node 0 alone, when messages sent on node 1 are balanced to a consumer of node 0, then
    they are diverted there, and move to a consumer of the other queue on node 1.
    """
    diverts = {"away": DivertConfiguration("queues.first", "queues.second", exclusive=True)}
    settings = {"address_settings": {"#": AddressSettings(redistribution_delay_ms=0)}}
    cluster = await broker_cluster(2, brokers=[{**settings, "diverts": diverts}, settings]).start()
    async with clients_of(cluster) as (first, second):
        for client in (first, second):
            await client.queues("second", address="queues.second", routing_type=RoutingType.ANYCAST)
        await first.queues("first", address="queues.first", routing_type=RoutingType.ANYCAST)
        near = await first.consumer("first")
        far = await second.consumer("second")
        await cluster.wait_for_bindings(queue="first", count=1, consumers=1)
        await cluster.wait_for_bindings(queue="second", count=2, consumers=1)
        await second.send(0, COUNT, address="queues.first")
        assert await received(far) == ALL
        assert await received(near) == []


async def test_connection_load_balancing_using_initial_connectors(broker_cluster: MakeCluster) -> None:
    """1.4.25

    Given a client with the places of two nodes of five, when it makes twenty factories, then half of them are on either
    node without the topology, and with it all five have some.
    """
    cluster = await broker_cluster(5).start()
    url = f"({cluster.nodes[0].url},{cluster.nodes[1].url})"
    for uses_topology in (False, True):
        locator = ServerLocator(f"{url}?useTopologyForLoadBalancing={str(uses_topology).lower()}")
        places: Counter[object] = Counter()
        async with AsyncExitStack() as stack:
            for _ in range(20):
                factory = await stack.enter_async_context(locator.create_session_factory())
                assert factory.connector is not None
                places[factory.connector.parameters["serverId"]] += 1
                await pass_time(0.01)
        if uses_topology:
            assert len(places) == 5
        else:
            assert places == {"node-0": 10, "node-1": 10}
