"""1.7: messages without a consumer on their node move to one that has a consumer; and 1.8: over failovers."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import trio
import trio.testing

from embedbroker import (
    AddressConfiguration,
    AddressSettings,
    ClusterConnection,
    EmbeddedBroker,
    GroupingHandlerConfig,
    GroupingHandlerType,
    QueueConfiguration,
)
from embedbroker.pytest_plugin import BrokerCluster
from embedbroker.testing import SimulatedDisk
from embedclient import BytesMessage, ClientConsumer, Queue, RoutingType, ServerLocator, Topic, Xid
from tests.scenarios.clients import ORDERS, session_at, xa_session_at
from tests.scenarios.nodes import ADDRESS, Client, MakeCluster, clients_of, drained, pass_time, received, turns

COUNT = 20
ALL = list(range(COUNT))
LARGE = pytest.mark.parametrize("large", [False, True], ids=["", "large"])
#: Long enough for everything that is to move.
A_WHILE_S = 1.0


async def start(
    broker_cluster: MakeCluster, count: int = 3, how: str = "ON_DEMAND", delay_ms: int = 0, **more: object
) -> BrokerCluster:
    settings = {"address_settings": {"#": AddressSettings(redistribution_delay_ms=delay_ms)}, **more}
    return await broker_cluster(count, message_load_balancing=how, brokers=settings).start()


async def prepare(cluster: BrokerCluster, clients: Sequence[Client], *consuming: int, queue: str = "queue0") -> None:
    """The same queue on every node."""
    for client in clients:
        await client.queues(queue)
    await cluster.wait_for_bindings(queue=queue, count=len(clients))


async def consume(
    cluster: BrokerCluster, clients: Sequence[Client], nodes: Sequence[int], filter: str | None = None
) -> list[ClientConsumer]:
    """A consumer on some nodes, known everywhere."""
    known = max(sum(binding.consumers for binding in cluster.bindings("queue0")[0]), 0)
    consumers = [await clients[node].consumer("queue0", filter) for node in nodes]
    await cluster.wait_for_bindings(queue="queue0", consumers=known + len(nodes))
    return consumers


async def counts(cluster: BrokerCluster, name: str = "queue0") -> list[int]:
    """The number of messages in a queue of each node, when nothing moves any more."""
    await pass_time(A_WHILE_S)
    return [next((queue.message_count for queue in node.queues() if queue.name == name), 0) for node in cluster.nodes]


async def test_redistribution_with_multiple_queues_on_the_same_address(broker_cluster: MakeCluster) -> None:
    """1.7.2

    Given two queues of one address and a consumer of one of them, when messages are sent and a remote consumer of the
    other one comes, then messages of that queue alone move, to the queue of the same name.
    """
    cluster = await start(broker_cluster, 2)
    async with clients_of(cluster) as clients:
        await prepare(cluster, clients, queue="queue0")
        await prepare(cluster, clients, queue="queue1")
        near = await clients[0].consumer("queue0")
        await cluster.wait_for_bindings(queue="queue0", consumers=1)
        await clients[0].send(0, COUNT)
        assert await counts(cluster, "queue1") == [COUNT, 0]
        far = await clients[1].consumer("queue1")
        assert [await received(near), await received(far)] == [ALL, ALL]
        assert [await counts(cluster, name) for name in ("queue0", "queue1")] == [[0, 0]] * 2


async def test_redistribution_stops_when_consumer_added(broker_cluster: MakeCluster) -> None:
    """1.7.3

    Given messages that could move, when a local consumer is back at once, then they stay and it has all of them.
    """
    cluster = await start(broker_cluster, 2, delay_ms=100)
    async with clients_of(cluster) as clients:
        await prepare(cluster, clients)
        near, far = await consume(cluster, clients, [0, 1])
        await far.close()
        await cluster.wait_for_bindings(queue="queue0", consumers=1)
        await clients[0].send(0, COUNT)
        await consume(cluster, clients, [1])
        await near.close()
        near = await clients[0].consumer("queue0")
        assert await received(near) == ALL


@LARGE
@pytest.mark.parametrize("others", [(0, 2), (2,)], ids=["all", "not consumers on all nodes"])
async def test_redistribution_when_consumer_is_closed(
    broker_cluster: MakeCluster, large: bool, others: tuple[int, ...]
) -> None:
    """1.7.4, 1.7.6, 1.7.27

    Given messages on node 1, and consumers on both other nodes or on one, when the consumer there is closed, then its
    messages move to them in turn.
    """
    cluster = await start(broker_cluster)
    async with clients_of(cluster, large=large) as clients:
        await prepare(cluster, clients)
        (closing,) = await consume(cluster, clients, [1])
        await clients[1].send(0, COUNT)
        consumers = await consume(cluster, clients, others)
        assert await counts(cluster) == [0, COUNT, 0]
        await closing.close()
        assert sorted([await received(each) for each in consumers]) == turns(COUNT, len(others))
        assert await counts(cluster) == [0, 0, 0]
    cluster.assert_nothing_lost()


async def test_redistribution_when_consumer_is_closed_different_queues(broker_cluster: MakeCluster) -> None:
    """1.7.5

    Given queues of three names on three nodes, when the consumer of one is closed, then nothing moves and nothing is
    doubled.
    """
    cluster = await start(broker_cluster)
    async with clients_of(cluster) as clients:
        consumers = []
        for node, client in enumerate(clients):
            await client.queues(f"queue{node}")
            consumers.append(await client.consumer(f"queue{node}"))
            await cluster.wait_for_bindings(queue=f"queue{node}", count=1, consumers=1)
        await clients[0].send(0, COUNT)
        await pass_time(A_WHILE_S)
        await consumers[1].close()
        assert await counts(cluster, "queue1") == [0, COUNT, 0]
        assert [await received(consumers[node]) for node in (0, 2)] == [ALL, ALL]


@pytest.mark.parametrize(
    ("how", "other"),
    [("STRICT", 2), ("ON_DEMAND", None)],
    ids=["forward when no consumers true", "no consumers on other nodes"],
)
async def test_no_redistribution_when_consumer_is_closed(
    broker_cluster: MakeCluster, how: str, other: int | None
) -> None:
    """1.7.7, 1.7.8

    Given STRICT, or no consumer on another node, when a consumer is closed and comes back, then its messages are still
    there.
    """
    cluster = await start(broker_cluster, how=how)
    async with clients_of(cluster) as clients:
        await prepare(cluster, clients)
        (closing,) = await consume(cluster, clients, [1])
        if other is not None:
            await consume(cluster, clients, [other])
        await clients[1].send(0, COUNT)
        before = await counts(cluster)
        await closing.close()
        assert await counts(cluster) == before
        assert len(await drained(clients[1], "queue0")) == before[1]


async def test_redistribution_when_consumer_is_closed_queues_with_filters(broker_cluster: MakeCluster) -> None:
    """1.7.10

    Given queues with different filters, when a consumer is closed, then its messages go only to a queue whose filter
    matches.
    """
    cluster = await start(broker_cluster)
    async with clients_of(cluster) as clients:
        await clients[0].queues("queue0", filter="colour = 'blue'")
        await clients[1].queues("queue0", filter="colour = 'red'")
        await clients[2].queues("queue0", filter="colour = 'red'")
        await cluster.wait_for_bindings(queue="queue0", count=3)
        (closing,) = await consume(cluster, clients, [1])
        await clients[1].send(0, COUNT, colour="red")
        consumers = await consume(cluster, clients, [0, 2])
        await closing.close()
        assert [await received(each) for each in consumers] == [[], ALL]


async def test_redistribution_when_consumer_is_closed_consumers_with_filters(broker_cluster: MakeCluster) -> None:
    """1.7.11

    Given consumers with different filters, when one is closed, then its messages go only where a filter matches.
    """
    cluster = await start(broker_cluster)
    async with clients_of(cluster) as clients:
        await prepare(cluster, clients)
        (closing,) = await consume(cluster, clients, [1], "colour = 'red'")
        await clients[1].send(0, COUNT, colour="red")
        (blue,) = await consume(cluster, clients, [0], "colour = 'blue'")
        (red,) = await consume(cluster, clients, [2], "colour = 'red'")
        await closing.close()
        assert [await received(blue), await received(red)] == [[], ALL]


async def test_redistribution_with_prefixes_when_remote_consumer_is_added(broker_cluster: MakeCluster) -> None:
    """1.7.12

    Given prefixes of addresses, when messages are sent to names that have one, then they are at the address without
    it, and move from there when a remote consumer comes.
    """
    cluster = await start(broker_cluster, 2, anycast_prefixes=["jms.queue.", "jms."], multicast_prefixes=["news."])
    async with session_at(cluster.nodes[0].url) as session:
        for number in range(COUNT):
            await session.create_producer(Queue("jms.queue.orders")).send(str(number))
        await session.create_producer(Queue("jms.orders")).send("x" * 300_000)  # a large message
        async with session_at(cluster.nodes[1].url) as far, await far.create_consumer(Queue("jms.orders")) as consumer:
            texts = [await consumer.receive_body(str) for _ in range(COUNT + 1)]
            assert texts == [*map(str, range(COUNT)), "x" * 300_000]
        async with await session.create_consumer(Topic("news.eu")) as subscriber:
            await session.create_producer(Topic("news.eu")).send("of a topic")
            assert await subscriber.receive_body(str) == "of a topic"
            found = await cluster.nodes[0].broker.management.addresses()
        names = {each.name: each.routing_types for each in found if each.name[0] not in "$a"}
        assert names.keys() >= {"orders", "eu"} and not any(name.startswith(("jms.", "news.")) for name in names)
        assert (names["orders"], names["eu"]) == (("ANYCAST",), ("MULTICAST",))


@LARGE
@pytest.mark.parametrize("how", ["ON_DEMAND", "OFF_WITH_REDISTRIBUTION"], ids=["as is", "lb off with redistribution"])
async def test_redistribution_when_remote_consumer_is_added(broker_cluster: MakeCluster, large: bool, how: str) -> None:
    """1.7.13, 1.7.15, 1.7.27

    Given messages without a local consumer, when a remote consumer comes, then all of them move there.
    """
    cluster = await start(broker_cluster, how=how)
    async with clients_of(cluster, large=large) as clients:
        await prepare(cluster, clients)
        (closing,) = await consume(cluster, clients, [0])
        await clients[0].send(0, COUNT)
        await closing.close()
        assert await counts(cluster) == [COUNT, 0, 0]
        (consumer,) = await consume(cluster, clients, [2])
        assert await received(consumer) == ALL


@pytest.mark.parametrize("routing_type", [RoutingType.ANYCAST, RoutingType.MULTICAST], ids=["anycast", "multicast"])
async def test_redistribution_with_fqqn(broker_cluster: MakeCluster, routing_type: RoutingType) -> None:
    """1.7.14

    Given messages that were sent to a fully qualified name, when the queue is made on another node, with a consumer by
    such a name, then all of them move there.
    """
    cluster = await start(broker_cluster, 2)
    async with clients_of(cluster) as clients:
        await clients[0].queues("queue0", routing_type=routing_type)
        await clients[0].send(0, COUNT, address=f"{ADDRESS}::queue0")
        await clients[1].queues("queue0", routing_type=routing_type)
        consumer = await clients[1].consumer(f"{ADDRESS}::queue0")
        assert await received(consumer) == ALL


async def test_redistribution_only_when_local_removed_lb_off_with_redistribution(broker_cluster: MakeCluster) -> None:
    """1.7.16

    Given OFF_WITH_REDISTRIBUTION and consumers on both nodes, when messages are sent, then nothing moves before the
    local consumer is removed.
    """
    cluster = await start(broker_cluster, 2, "OFF_WITH_REDISTRIBUTION")
    async with clients_of(cluster) as clients:
        await prepare(cluster, clients)
        near, far = await consume(cluster, clients, [0, 1])
        await clients[0].send(0, COUNT)
        assert await counts(cluster) == [COUNT, 0]
        await near.close()
        assert await received(far) == ALL


async def test_redistribution_to_remote_consumer_from_new_queue_lb_off_with_redistribution(
    broker_cluster: MakeCluster,
) -> None:
    """1.7.17

    Given a remote consumer, when a new local queue of the name gets messages, then they move to the consumer.
    """
    cluster = await start(broker_cluster, 2, "OFF_WITH_REDISTRIBUTION")
    async with clients_of(cluster) as clients:
        await clients[1].queues("queue0", routing_type=RoutingType.ANYCAST)
        consumer = await clients[1].consumer("queue0")
        await cluster.wait_for_bindings(queue="queue0", count=1, consumers=1)
        await clients[0].queues("queue0", routing_type=RoutingType.ANYCAST)
        await clients[0].send(0, COUNT)
        assert await received(consumer) == ALL


async def test_redistribution_to_remote_multicast_consumer_lb_off_with_redistribution(
    broker_cluster: MakeCluster,
) -> None:
    """1.7.18

    Given an address alone here, and a multicast queue with a consumer there, when messages are sent, then the remote
    queue has all of them.
    """
    cluster = await start(broker_cluster, 2, "OFF_WITH_REDISTRIBUTION")
    async with clients_of(cluster) as clients:
        await clients[0].session.create_address(ADDRESS, [RoutingType.MULTICAST])
        await clients[1].queues("queue0")
        consumer = await clients[1].consumer("queue0")
        await cluster.wait_for_bindings(queue="queue0", count=1, consumers=1)
        await clients[0].send(0, COUNT, is_multicast=True)
        assert await received(consumer) == ALL


@LARGE
@pytest.mark.parametrize("identified", [False, True], ids=["2", "2 with duplicate detection"])
async def test_back_and_forth(broker_cluster: MakeCluster, large: bool, identified: bool) -> None:
    """1.7.19, 1.7.20, 1.7.27

    Given messages, with ids of their own or without, when a consumer alternates between two nodes and takes nothing,
    then all of them move each time, and the last consumer has each once.
    """
    cluster = await start(broker_cluster, 2)
    async with clients_of(cluster, large=large) as clients:
        await prepare(cluster, clients)
        for number in range(COUNT):
            if identified:
                await clients[0].send(number, number + 1, _AMQ_DUPL_ID=f"mine {number}")
            else:
                await clients[0].send(number, number + 1)
        for turn in range(4):
            (consumer,) = await consume(cluster, clients, [(turn + 1) % 2])
            await cluster.nodes[(turn + 1) % 2].wait_for(queue="queue0", count=COUNT)
            assert sum(await counts(cluster)) == COUNT
            await consumer.close()
            await cluster.wait_for_bindings(queue="queue0", consumers=0)
        assert sorted(await drained(clients[0], "queue0")) == ALL
    cluster.assert_nothing_lost()


async def test_redistribution_to_queues_where_not_all_messages_match(broker_cluster: MakeCluster) -> None:
    """1.7.21

    Given two kinds of messages, when a remote consumer of one kind comes to each of two nodes, then each kind moves
    to its node.
    """
    cluster = await start(broker_cluster)
    async with clients_of(cluster) as clients:
        await prepare(cluster, clients)
        await clients[0].send(0, 10, colour="red")
        await clients[0].send(10, 20, colour="blue")
        (red,) = await consume(cluster, clients, [1], "colour = 'red'")
        (blue,) = await consume(cluster, clients, [2], "colour = 'blue'")
        assert [await received(red), await received(blue)] == [ALL[:10], ALL[10:]]


async def test_delayed_redistribution(broker_cluster: MakeCluster) -> None:
    """1.7.22

    Given a delay of 200 ms, when a consumer is closed, then nothing moves before that time.
    """
    cluster = await start(broker_cluster, 2, delay_ms=200)
    async with clients_of(cluster) as clients:
        await prepare(cluster, clients)
        (closing,) = await consume(cluster, clients, [0])
        await clients[0].send(0, COUNT)
        (consumer,) = await consume(cluster, clients, [1])
        begun = trio.current_time()
        await closing.close()
        assert await consumer.receive(timeout=5) is not None
        assert 0.2 <= trio.current_time() - begun < 0.3


async def test_delayed_redistribution_cancelled(broker_cluster: MakeCluster) -> None:
    """1.7.23

    Given a delay of 200 ms, when a local consumer is back in time, then it has everything.
    """
    cluster = await start(broker_cluster, 2, delay_ms=200)
    async with clients_of(cluster) as clients:
        await prepare(cluster, clients)
        (closing,) = await consume(cluster, clients, [0])
        await clients[0].send(0, COUNT)
        await consume(cluster, clients, [1])
        await closing.close()
        await pass_time(0.1)
        consumer = await clients[0].consumer("queue0")
        assert await received(consumer) == ALL


async def test_redistribution_number_of_messages_greater_than_batch_size(broker_cluster: MakeCluster) -> None:
    """1.7.24

    Given more messages than one step moves, when they move, then none is left.
    """
    cluster = await start(broker_cluster, 2)
    async with clients_of(cluster) as clients:
        await prepare(cluster, clients)
        await clients[0].send(0, 300)
        (consumer,) = await consume(cluster, clients, [1])
        assert await received(consumer) == list(range(300))
        assert await counts(cluster) == [0, 0]


@LARGE
async def test_redistribution_when_new_node_is_added_with_consumer(broker_cluster: MakeCluster, large: bool) -> None:
    """1.7.25, 1.7.27

    Given messages on the only node, when another one joins, with a consumer, then they move there.
    """
    settings = {"address_settings": {"#": AddressSettings(redistribution_delay_ms=0)}}
    cluster = broker_cluster(2, brokers=settings)
    await cluster.nodes[0].start()
    async with clients_of(cluster, [0], large=large) as (first,):
        await first.queues("queue0")
        await first.send(0, COUNT)
        await cluster.start()
        async with clients_of(cluster, [1]) as (second,):
            await second.queues("queue0")
            consumer = await second.consumer("queue0")
            assert await received(consumer) == ALL


@pytest.mark.parametrize("kind", ["replication", "shared-store"])
async def test_simple_redistribution(broker_cluster: MakeCluster, kind: str) -> None:
    """1.8.1, 1.8.2, 1.8.3

    Given two pairs, and a consumer at one, when messages are sent to the other and the consumer's broker crashes after
    half of them, then the rest follows from its backup in order, and none is left where they were sent.
    """
    settings = {"address_settings": {"#": AddressSettings(redistribution_delay_ms=0)}}
    cluster = await broker_cluster(2, pairs=kind, brokers=settings).start()
    async with clients_of(cluster) as clients:
        await prepare(cluster, clients)
        await clients[0].send(0, 100)
        consumer = await clients[1].consumer("queue0")
        found = []
        for _ in range(50):
            message = await consumer.receive(timeout=5)
            assert message is not None
            found.append(message.properties["n"])
            await message.acknowledge()
        await cluster.pairs[1].failover()
        found += await received(consumer)
        # What the client had in advance comes again.
        assert list(dict.fromkeys(found)) == list(range(100))
        await cluster.assert_empty("queue0")
    cluster.assert_nothing_lost()


async def test_redistribution_with_message_groups(broker_cluster: MakeCluster) -> None:
    """1.7.1

    Given messages of a group and others, and grouping handlers, when their consumer is closed and there is one on
    another node, then the others move there, and those of the group wait for a consumer on their node.
    """
    kinds = [GroupingHandlerType.LOCAL, GroupingHandlerType.REMOTE]
    brokers = [
        {
            "address_settings": {"#": AddressSettings(redistribution_delay_ms=0)},
            "grouping_handler": GroupingHandlerConfig("groups", kind),
        }
        for kind in kinds
    ]
    cluster = await broker_cluster(2, brokers=brokers).start()
    async with clients_of(cluster) as clients:
        await prepare(cluster, clients)
        (closing,) = await consume(cluster, clients, [0])
        await clients[0].send(0, COUNT, _AMQ_GROUP_ID="group")
        await clients[0].send(100, 100 + COUNT)
        await closing.close()
        await cluster.wait_for_bindings(queue="queue0", consumers=0)
        (consumer,) = await consume(cluster, clients, [1])
        assert await received(consumer) == list(range(100, 100 + COUNT))
        assert await counts(cluster) == [COUNT, 0]
        assert await drained(clients[0], "queue0") == ALL


async def prepared_acknowledgements(cluster: BrokerCluster, count: int) -> Xid:
    """Acknowledge messages of the queue at the first node in a branch that is prepared, and leave."""
    xid = Xid(7, b"branch", b"global")
    async with xa_session_at(cluster.nodes[0].url) as session:
        await session.xa_resource.start(xid)
        async with session.create_consumer(Queue("queue0")) as consumer:
            for _ in range(count):
                assert await consumer.receive(timeout=5) is not None
        await session.xa_resource.end(xid)
        await session.xa_resource.prepare(xid)
    return xid


@pytest.mark.parametrize(("count", "delay_ms"), [(COUNT, 1_000), (100, 0)], ids=["scheduling", "prepared and restart"])
async def test_redistribute_with(broker_cluster: MakeCluster, count: int, delay_ms: int) -> None:
    """1.7.9, 1.7.30

    Given acknowledgements that are prepared, with a redelivery delay or without, and a consumer on the other node, when
    their node restarts and the branch is rolled back, then all messages move to the consumer, when they are due.
    """
    settings = AddressSettings(redistribution_delay_ms=0, redelivery_delay_ms=delay_ms)
    cluster = await broker_cluster(2, brokers={"address_settings": {"#": settings}}).start()
    async with clients_of(cluster, [1]) as (second,):
        async with clients_of(cluster, [0]) as (first,):
            await first.queues("queue0", address="queue0", routing_type=RoutingType.ANYCAST)
            await second.queues("queue0", address="queue0", routing_type=RoutingType.ANYCAST)
            await first.send(0, count, address="queue0")
        xid = await prepared_acknowledgements(cluster, count)
        await cluster.nodes[0].restart()
        await cluster.wait_formed()
        consumer = await second.consumer("queue0")
        await cluster.wait_for_bindings(queue="queue0", count=2, consumers=1)
        assert await received(consumer) == []
        async with xa_session_at(cluster.nodes[0].url) as session:
            await session.xa_resource.rollback(xid)
        if delay_ms:
            assert await received(consumer) == []
            await pass_time(delay_ms / 1000)
        assert sorted(await received(consumer)) == list(range(count))
        assert await counts(cluster, "queue0") == [0, 0]


LARGE_BYTES = 300_000


@pytest.mark.parametrize("target_runs", [True, False], ids=["cleanup", "cleanup 2"])
async def test_redistribution_large_message_dir(autojump_clock: trio.testing.MockClock, target_runs: bool) -> None:
    """1.7.28, 1.7.29

    Given five large messages without a consumer on their node, when they move to a node with a consumer that takes
    none, then the files of their bodies are there alone; while that node does not run, five more stay where they are.
    """
    disks = {name: SimulatedDisk() for name in "ab"}

    def node(name: str, other: str) -> EmbeddedBroker:
        return EmbeddedBroker(
            name=name,
            disk=disks[name],
            connectors={"a": "vm://a", "b": "vm://b"},
            cluster_connections=ClusterConnection(connector=name, static_connectors=[other]),
            cluster_password="secret",
            addresses={"orders": AddressConfiguration(anycast={"orders": QueueConfiguration()})},
            address_settings={"#": AddressSettings(redistribution_delay_ms=0)},
        )

    def bodies(name: str) -> int:
        return sum(each.startswith("large-") for each in disks[name].names)

    async def put_five() -> None:
        async with session_at("vm://a") as session:
            for _ in range(5):
                await session.create_producer(ORDERS).send(BytesMessage(b"x" * LARGE_BYTES))

    async with node("a", "b"):
        await put_five()
        assert (bodies("a"), bodies("b")) == (5, 0)
        async with node("b", "a"):
            async with (
                ServerLocator("vm://b?consumerWindowSize=0").create_session_factory() as factory,
                factory.create_session() as session,
            ):
                await session.create_consumer("orders")
                await pass_time(5)
            assert (bodies("a"), bodies("b")) == (0, 5)
        if not target_runs:
            await put_five()
            await pass_time(5)
            assert (bodies("a"), bodies("b")) == (5, 5)
