"""1.6: the ways of balancing, and what is special about topics, diverts, temporary queues and expirations."""

from __future__ import annotations

import logging

import pytest
import trio

from embedbroker import AddressFullPolicy, AddressSettings, DivertConfiguration
from embedclient import DeliveryMode, Queue, RoutingType, Session, TextMessage, Topic
from tests.scenarios.nodes import ADDRESS, MakeCluster, clients_of, drained, pass_time, received, turns

COUNT = 10
ALL = list(range(COUNT))


async def test_message_load_balancing_off(broker_cluster: MakeCluster) -> None:
    """1.6.1

    Given OFF and a consumer on both nodes, when ten are sent to node 0, then node 0 has all of them.
    """
    cluster = await broker_cluster(2, message_load_balancing="OFF").start()
    async with clients_of(cluster) as clients:
        for client in clients:
            await client.queues("queue0")
        consumers = [await client.consumer("queue0") for client in clients]
        await cluster.wait_for_bindings(queue="queue0", count=2, consumers=2)
        await clients[0].send(0, COUNT)
        assert [await received(each) for each in consumers] == [ALL, []]


async def test_message_load_balancing_with_filters_update(broker_cluster: MakeCluster) -> None:
    """1.6.2

    Given a shared queue, when its filter is changed by an update, then the other node's binding has the new one.
    """
    cluster = await broker_cluster(2).start()
    async with clients_of(cluster) as (first, _second):
        await first.queues("queue0", filter="colour = 'red'")
        await cluster.wait_for_bindings(queue="queue0", count=1)
        assert cluster.bindings("queue0")[1][0].filter == "colour = 'red'"
        update = '{"name": "queue0", "filter-string": "colour = \'blue\'"}'
        await cluster.nodes[0].broker.management.invoke("broker", "updateQueue", update)
        await pass_time(1)
        assert cluster.bindings("queue0")[1][0].filter == "colour = 'blue'"


async def test_stack_overflow(broker_cluster: MakeCluster) -> None:
    """1.6.3

    Given OFF, and a queue on the other node only, when a message is sent, then it does not go round and round.
    """
    cluster = await broker_cluster(2, message_load_balancing="OFF").start()
    async with clients_of(cluster) as (first, second):
        await second.session.create_queue("queue0")
        await first.session.create_address("queue0", [RoutingType.ANYCAST])
        await cluster.wait_for_bindings(queue="queue0", count=1)
        await first.send(0, 1, address="queue0")
        await pass_time(1)
        assert sum(queue.message_count for node in cluster.nodes for queue in node.queues()) == 0


async def test_stack_overflow_with_local_consumer_and_filter(broker_cluster: MakeCluster) -> None:
    """1.6.4

    Given OFF, and a queue with another filter on each node, when messages of both kinds are sent, then none goes round
    and round, and none leaves its node.
    """
    cluster = await broker_cluster(2, message_load_balancing="OFF").start()
    async with clients_of(cluster) as (first, second):
        await first.session.create_queue("queue0", filter="colour = 'red'")
        await second.session.create_queue("queue0", filter="colour = 'blue'")
        consumers = [await client.consumer("queue0") for client in (first, second)]
        await cluster.wait_for_bindings(queue="queue0", count=2, consumers=2)
        await first.send(0, 5, address="queue0", colour="red")
        await first.send(5, 10, address="queue0", colour="blue")
        assert [await received(each) for each in consumers] == [ALL[:5], []]


async def test_stack_overflow_jms(broker_cluster: MakeCluster) -> None:
    """1.6.5

    Given OFF, and a consumer on the other node only, when a program sends, then its own node makes the queue and keeps
    the message.
    """
    cluster = await broker_cluster(2, message_load_balancing="OFF").start()
    async with cluster.sessions() as (first, second):
        await second.create_consumer(Queue("orders"))
        await cluster.wait_for_bindings(queue="orders", count=1, consumers=1)
        await first.create_producer(Queue("orders")).send("mine")
        await cluster.nodes[0].wait_for(queue="orders", count=1)
        await cluster.nodes[1].wait_for(queue="orders", count=0)


@pytest.mark.parametrize("how", ["OFF", "OFF_WITH_REDISTRIBUTION", "ON_DEMAND", "STRICT"])
async def test_topic_redistribution_off(broker_cluster: MakeCluster, how: str) -> None:
    """1.6.6

    Given a durable subscription of another name on each node, when a program publishes on one, then all subscribers
    receive everything, whatever the way of balancing.
    """
    cluster = await broker_cluster(3, message_load_balancing=how).start()
    async with cluster.sessions() as sessions:
        subscribers = []
        for node, session in enumerate(sessions):
            subscribers.append(await session.create_shared_durable_consumer(Topic("news"), f"reader-{node}"))
            await cluster.wait_for_bindings(queue=f"reader-{node}", count=1, consumers=1)
        producer = sessions[0].create_producer(Topic("news"))
        for number in range(COUNT):
            await producer.send(str(number))
        for subscriber in subscribers:
            found = [await subscriber.receive(timeout=1) for _ in range(COUNT + 1)]
            assert [getattr(each, "body", None) for each in found] == [*map(str, ALL), None]


@pytest.mark.parametrize(
    ("names", "filters", "expected"),
    [
        (["one", "one", "one"], [None, None, None], [[0, 1, 2]]),
        (["one", "two", "three"], [None, None, None], [[0, 1, 2]]),
        (["one", "two", "three"], ["n >= 0", "n >= 0", "n < 0"], [[0, 1]]),
    ],
    ids=["one queue", "multi queues", "multi queues with filter"],
)
async def test_anycast_address_routing_multi_node(
    broker_cluster: MakeCluster, names: list[str], filters: list[str | None], expected: list[list[int]]
) -> None:
    """1.6.7, 1.6.8, 1.6.9

    Given STRICT and an anycast address with a queue on each of three nodes, of one name or of three, with filters or
    without, when messages are sent, then each goes to exactly one queue that matches, in turn.
    """
    cluster = await broker_cluster(3, message_load_balancing="STRICT").start()
    async with clients_of(cluster) as clients:
        for client, name, filter in zip(clients, names, filters, strict=True):
            await client.queues(name, filter=filter, routing_type=RoutingType.ANYCAST)
        for name in names:
            await cluster.wait_for_bindings(queue=name, count=names.count(name))
        await clients[0].send(0, 12)
        found = [await drained(client, name) for client, name in zip(clients, names, strict=True)]
        (sharing,) = expected
        assert sorted(found[node] for node in sharing) == turns(12, len(sharing))
        assert sum(map(len, found)) == 12


async def test_mulitcast_address_multi_queues_routing_multi_node(broker_cluster: MakeCluster) -> None:
    """1.6.10

    Given a multicast address with a queue of another name on each of three nodes, when messages are sent, then each
    queue has all of them.
    """
    cluster = await broker_cluster(3, message_load_balancing="STRICT").start()
    async with clients_of(cluster) as clients:
        for node, client in enumerate(clients):
            await client.queues(f"queue{node}")
            await cluster.wait_for_bindings(queue=f"queue{node}", count=1)
        await clients[1].send(0, COUNT)
        assert [await drained(client, f"queue{node}") for node, client in enumerate(clients)] == [ALL] * 3


async def test_headers_removed(broker_cluster: MakeCluster) -> None:
    """1.6.15

    Given a message that was forwarded, when it is consumed, then it has the properties that it was sent with, and none
    of the cluster.
    """
    cluster = await broker_cluster(2).start()
    async with clients_of(cluster) as (first, second):
        await second.queues("queue0")
        consumer = await second.consumer("queue0")
        await cluster.wait_for_bindings(queue="queue0", count=1, consumers=1)
        await first.send(7, 8, colour="red")
        message = await consumer.receive(timeout=5)
        assert message is not None
        names = {name for name, _value in message.properties.items()}
        assert {name for name in names if "ROUTE_TO" in name} == set()
        assert names - {"_AMQ_BRIDGE_DUP", "_AMQ_DUPL_ID"} <= {"n", "colour", "_AMQ_ROUTING_TYPE"}


async def test_cluster_connection_client_id(broker_cluster: MakeCluster) -> None:
    """1.6.17

    Given a client id of the cluster connection, when a node lists its connections, then one carries it.
    """
    cluster = await broker_cluster(2, client_id="of the cluster").start()
    found = await cluster.nodes[1].broker.management.invoke("broker", "listConnections", "", 1, 50)
    assert "of the cluster" in str(found)


async def test_exclusive_divert_does_not_duplicate_message_in_cluster(broker_cluster: MakeCluster) -> None:
    """1.6.18

    Given an exclusive divert of a wildcard address on both nodes, when one message is sent, then the queue to which
    it leads has exactly one.
    """
    diverts = {"all of them": DivertConfiguration("incoming.#", "target", exclusive=True)}
    cluster = await broker_cluster(2, brokers={"diverts": diverts}).start()
    async with clients_of(cluster) as clients:
        for client in clients:
            await client.queues("target", address="target", routing_type=RoutingType.ANYCAST)
            await client.queues("incoming.1", address="incoming.1", routing_type=RoutingType.ANYCAST)
        await cluster.wait_for_bindings(queue="target", count=2)
        await cluster.wait_for_bindings(queue="incoming.1", count=2)
        await clients[0].send(0, 1, address="incoming.1")
        await pass_time(1)
        await cluster.wait_for(queue="target", count=1)
        await cluster.wait_for(queue="incoming.1", count=0)


async def test_send_expire_while_load_balance(broker_cluster: MakeCluster) -> None:
    """1.6.19

    Given store-and-forward queues that are paused, when messages expire in them, then all are in the expiry queue of
    the node where they were sent.
    """
    cluster = await broker_cluster(3, message_load_balancing="STRICT", addresses=["orders"]).start()
    management = cluster.nodes[0].broker.management
    async with cluster.sessions() as sessions:
        consumers = [await session.create_consumer(Queue("orders")) for session in sessions]
        await cluster.wait_for_bindings(queue="orders", count=3, consumers=3)
        for node in cluster.nodes[1:]:
            name = f"$.artemis.internal.sf.cluster.{node.broker.node_id}"
            await management.invoke(f"queue.{name}", "pause")
        await consumers[0].close()
        producer = sessions[0].create_producer(Queue("orders"))
        for number in range(30):
            await producer.send(str(number), time_to_live=1)
        await cluster.nodes[0].wait_for(queue="ExpiryQueue", count=30, timeout=60)
        await cluster.wait_for(queue="ExpiryQueue", count=30)


async def answer(session: Session, count: int) -> None:
    """Answer requests, each to the queue that it names."""
    async with session.create_consumer(Queue("requests")) as requests:
        for _ in range(count):
            request = await requests.receive(timeout=60)
            assert isinstance(request, TextMessage)
            assert request.reply_to is not None
            await session.create_producer(request.reply_to).send(f"answer to {request.text}")


async def request(session: Session, replies: object, count: int) -> None:
    """Send requests, and wait for the answer to each."""
    async with session.create_consumer(replies) as answers:  # type: ignore[arg-type]
        for number in range(count):
            message = TextMessage(str(number))
            message.reply_to = replies  # type: ignore[assignment]
            await session.create_producer(Queue("requests")).send(message)
            found = await answers.receive(timeout=60)
            assert isinstance(found, TextMessage)
            assert found.text == f"answer to {number}"


@pytest.mark.parametrize("waits", [True, False], ids=["wait for bindings", "no wait for bindings"])
async def test_request_response(broker_cluster: MakeCluster, waits: bool) -> None:
    """1.6.23, 1.6.24

    Given a queue of requests and one of replies on different nodes of five, when many requests are sent, then each is
    answered, also when no client waits until the nodes know of the queues.
    """
    count = 50
    cluster = await broker_cluster(5, brokers={"address_settings": {"#": NOW}}).start()
    async with cluster.sessions() as sessions, trio.open_nursery() as nursery:
        nursery.start_soon(answer, sessions[4], count)
        if waits:
            await cluster.wait_for_bindings(queue="requests", count=1, consumers=1)
        await request(sessions[1], Queue("replies"), count)


#: Messages without a consumer on their node go where there is one.
NOW = AddressSettings(redistribution_delay_ms=0)


async def test_send_to_temp_queue_from_another_cluster_node(broker_cluster: MakeCluster) -> None:
    """1.6.25

    Given a temporary queue of a client of node 0, when a client of node 1 sends to it, then its owner receives that.
    """
    cluster = await broker_cluster(2).start()
    async with cluster.sessions() as (first, second):
        queue = await first.create_temporary_queue()
        async with first.create_consumer(queue) as consumer:
            await cluster.wait_for_bindings(queue=queue.name, count=1, consumers=1)
            await second.create_producer(queue).send("from the other side")
            found = await consumer.receive(timeout=5)
            assert isinstance(found, TextMessage)
            assert found.text == "from the other side"


#: The addresses that are there without temporary queues.
KEPT = {"requests", "DLQ", "ExpiryQueue"}


async def test_duplicate_cache_cleanup_for_temp_queues(broker_cluster: MakeCluster) -> None:
    """1.6.26

    Given many requests with temporary queues for the replies of another node, when these are gone, then so are the
    caches of duplicate ids for them.
    """
    cluster = await broker_cluster(2).start()
    async with cluster.sessions() as (first, second), trio.open_nursery() as nursery:
        nursery.start_soon(answer, second, COUNT)
        await cluster.wait_for_bindings(queue="requests", count=1, consumers=1)
        for _ in range(COUNT):
            replies = await first.create_temporary_queue()
            await request(first, replies, 1)
            await first.delete_temporary(replies)
    await pass_time(1)
    for node in cluster.nodes:
        # An address has its ids with it.
        names = await node.broker.management.get("broker", "AddressNames")
        assert {name for name in names if not name.startswith(("activemq", "$", "notif"))} <= KEPT


@pytest.mark.parametrize("how", ["OFF", "STRICT", "ON_DEMAND", "OFF_WITH_REDISTRIBUTION"])
async def test_connection_load_balancing_anon_run(broker_cluster: MakeCluster, how: str) -> None:
    """1.6.27

    Given an auto-delete queue with a consumer on both nodes, when the local one disappears in the middle and comes
    back, then all messages are consumed.
    """
    cluster = await broker_cluster(2, message_load_balancing=how, brokers={"address_settings": {"#": NOW}}).start()
    async with cluster.sessions() as (first, second):
        consumers = [await session.create_consumer(Queue("orders")) for session in (first, second)]
        await cluster.wait_for_bindings(queue="orders", count=2, consumers=2)
        producer = first.create_producer(Queue("orders"))
        found: list[object] = []
        for number in range(20):
            if number == 5:
                await consumers[0].close()
            elif number == 15:
                consumers[0] = await first.create_consumer(Queue("orders"))
            await producer.send(str(number))
            if number in (4, 14, 19):
                for consumer in consumers:
                    while not consumer.closed and (message := await consumer.receive(timeout=1)) is not None:
                        found.append(getattr(message, "body", None))
        assert sorted(map(str, found)) == sorted(map(str, range(20)))


@pytest.mark.parametrize("window", [2_000, 20_000])
async def test_redistribution_flow_control(broker_cluster: MakeCluster, window: int) -> None:
    """1.6.16

    Given a producer window of cluster connections, and an address of the other node that is full with one message, when
    messages are forwarded, then that node has as many bytes as the window allows.
    """
    full = AddressSettings(max_size_bytes=1, address_full_policy=AddressFullPolicy.BLOCK)
    brokers = [{}, {"address_settings": {ADDRESS: full}}]
    cluster = await broker_cluster(2, producer_window_size=window, brokers=brokers).start()
    async with clients_of(cluster) as (first, second):
        await second.queues("queue0")
        await cluster.wait_for_bindings(queue="queue0", count=1)
        await first.send(0, 200)
        await pass_time(2)
        count = cluster.nodes[1].queue("queue0").message_count
        size = await cluster.nodes[1].broker.management.get("queue.queue0", "PersistentSize")
        # It has fewer headers there than on its way, and a client requests credit for half of its window first.
        assert isinstance(size, int) and window / 5 < size <= window
        assert count < 200


async def test_auto_delete(broker_cluster: MakeCluster, caplog: pytest.LogCaptureFixture) -> None:
    """1.6.28

    Given addresses whose queues are deleted and purged without consumers, when messages are sent on one node without
    waiting while a listener works on another one, then all of them arrive, and the log has no line about that.
    """
    settings = AddressSettings(auto_delete_queues=True, default_purge_on_no_consumers=True)
    cluster = await broker_cluster(3, brokers={"address_settings": {"#": settings}}).start()
    for turn in range(3):
        async with cluster.sessions() as sessions:
            consumer = await sessions[1].create_consumer(Queue("orders"))
            await cluster.wait_for_bindings(queue="orders", consumers=1)
            producer = sessions[0].create_producer(Queue("orders"))
            producer.delivery_mode = DeliveryMode.NON_PERSISTENT
            for number in range(50):
                await producer.send(str(number))
            found = [await consumer.receive(timeout=5) for _ in range(50)]
            assert sorted(int(str(each.body)) for each in found if each is not None) == list(range(50)), turn
        # What is left is the queue of the producer's node, which never had a consumer.
        await cluster.wait_for_bindings(queue="orders", count=1, nodes=[1], timeout=100)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
