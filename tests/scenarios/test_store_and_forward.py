"""5.3, 6 and 7: bridges of a cluster that fail, brokers that restart, and messages that expire on their way."""

from __future__ import annotations

from embedbroker import AddressSettings
from embedbroker.pytest_plugin import BrokerCluster
from embedclient import Queue
from tests.scenarios.nodes import ADDRESS, MakeCluster, clients_of, drained, forwarded, pass_time, received, turns

COUNT = 10
ALL = list(range(COUNT))


def way_to(cluster: BrokerCluster, node: int) -> str:
    """The name of the store-and-forward queues of what goes to a node."""
    return f"$.artemis.internal.sf.cluster.{cluster.nodes[node].broker.node_id}"


async def test_reconnect_bridge(broker_cluster: MakeCluster) -> None:
    """5.3.1

    Given traffic on two nodes, when the link between them breaks five times in the middle, then each message is
    consumed exactly once, and both nodes know of what they knew before.
    """
    cluster = await broker_cluster(2).start()
    async with clients_of(cluster) as clients:
        for client in clients:
            await client.queues("queue0")
        consumers = [await client.consumer("queue0") for client in clients]
        await cluster.wait_for_bindings(queue="queue0", count=2, consumers=2)
        before = cluster.bindings("queue0")
        for turn in range(5):
            await clients[0].send(20 * turn, 20 * turn + 10)
            cluster.link(0, 1).cut()
            await clients[0].send(20 * turn + 10, 20 * turn + 20)
            await cluster.wait_formed()
            await cluster.wait_for_bindings(queue="queue0", count=2, consumers=2)
        found = [await received(each) for each in consumers]
        assert sorted([*found[0], *found[1]]) == list(range(100))
        assert all(len(each) > 20 for each in found)
        assert cluster.bindings("queue0") == before
    cluster.assert_nothing_lost()


async def test_pause_address_blocking_snf_queue(broker_cluster: MakeCluster) -> None:
    """5.3.3

    Given a paused address, when messages are sent, then the local queue is paused and the store-and-forward queue is
    not: a remote consumer has its share.
    """
    cluster = await broker_cluster(2, message_load_balancing="STRICT").start()
    async with clients_of(cluster) as clients:
        for client in clients:
            await client.queues("queue0")
        consumers = [await client.consumer("queue0") for client in clients]
        await cluster.wait_for_bindings(queue="queue0", count=2, consumers=2)
        management = cluster.nodes[0].broker.management
        await management.invoke(f"address.{ADDRESS}", "pause")
        await clients[0].send(0, COUNT)
        assert [await received(each) for each in consumers] == [[], turns(COUNT, 2)[1]]
        await management.invoke(f"address.{ADDRESS}", "resume")
        assert await received(consumers[0]) == turns(COUNT, 2)[0]


async def test_bad_client_send_messages_to_snf_queue(broker_cluster: MakeCluster) -> None:
    """5.3.4

    Given a client that sends to a store-and-forward queue, when the bridge meets that, then it goes to the dead letter
    address, what is really forwarded goes on, and nothing comes back after a restart.
    """
    cluster = await broker_cluster(2).start()
    way = way_to(cluster, 1)
    async with clients_of(cluster) as (first, second):
        await second.queues("queue0")
        consumer = await second.consumer("queue0")
        await cluster.wait_for_bindings(queue="queue0", count=1, consumers=1)
        await first.send(0, 5)
        await first.send(100, 105, address=way)
        await first.send(5, COUNT)
        assert await received(consumer) == ALL
        await cluster.nodes[0].wait_for(queue="DLQ", count=5)
    assert await forwarded(cluster, 0) == COUNT
    await cluster.nodes[0].restart()
    await cluster.wait_formed()
    await cluster.nodes[0].wait_for(queue=way, count=0)
    await cluster.nodes[0].wait_for(queue="DLQ", count=5)


async def test_restart_with_queues_create_in_diff_order(broker_cluster: MakeCluster) -> None:
    """6.1

    Given eleven durable queues on node 0, and node 1 that sends to one, when node 0 crashes and starts, then messages
    of before and after are in the right queue only.
    """
    cluster = await broker_cluster(2, message_load_balancing="STRICT").start()
    names = [f"queue{number}" for number in range(11)]
    async with clients_of(cluster, [1]) as (second,):
        async with clients_of(cluster, [0]) as (first,):
            for name in names:
                await first.queues(name, address=f"address of {name}")
            await cluster.wait_for_bindings(queue=names[-1], count=1)
            await second.send(0, 5, address=f"address of {names[4]}")
        await cluster.nodes[0].crash()
        await second.send(5, 8, address=f"address of {names[4]}")
        await cluster.nodes[0].start()
        await cluster.wait_for_bindings(queue=names[4], count=1)
        await second.send(8, COUNT, address=f"address of {names[4]}")
        async with clients_of(cluster, [0]) as (first,):
            assert await drained(first, names[4]) == ALL
            for name in names:
                await cluster.nodes[0].wait_for(queue=name, count=0)


async def test_restart_with_queues_create_in_diff_order_2(broker_cluster: MakeCluster) -> None:
    """6.2

    Given no consumers, and messages that are on their way to node 0 while it is down, when it is back and both nodes
    get consumers, then all of them are received, half on either node.
    """
    cluster = await broker_cluster(2, message_load_balancing="STRICT", reconnect_attempts=-1).start()
    async with clients_of(cluster, [1]) as (second,):
        async with clients_of(cluster, [0]) as (first,):
            await first.queues("queue0")
            await second.queues("queue0")
            await cluster.wait_for_bindings(queue="queue0", count=2)
        cluster.partition([0], [1])
        await second.send(0, 20)
        await cluster.nodes[0].crash()
        cluster.heal()
        await cluster.nodes[0].start()
        await cluster.wait_for(queue="queue0", count=20)
        async with clients_of(cluster, [0]) as (first,):
            assert sorted([await drained(first, "queue0"), await drained(second, "queue0")]) == turns(20, 2)
    cluster.assert_nothing_lost()


async def test_expiry_on_snf(broker_cluster: MakeCluster) -> None:
    """7.1

    Given STRICT, expiry queues with a prefix and a suffix that are made when they are needed, and a store-and-forward
    queue that is paused, when messages expire in it, then they are in the expiry queue of their own address.
    """
    settings = AddressSettings(
        expiry_address="EXP",
        auto_create_expiry_resources=True,
        expiry_queue_prefix="before.",
        expiry_queue_suffix=".behind",
    )
    brokers = {"address_settings": {"orders": settings}}
    cluster = await broker_cluster(2, message_load_balancing="STRICT", addresses=["orders"], brokers=brokers).start()
    way = way_to(cluster, 1)
    async with cluster.sessions() as sessions:
        consumers = [await session.create_consumer(Queue("orders")) for session in sessions]
        await cluster.wait_for_bindings(queue="orders", count=2, consumers=2)
        await cluster.nodes[0].broker.management.invoke(f"queue.{way}", "pause")
        for consumer in consumers:
            await consumer.close()
        producer = sessions[0].create_producer(Queue("orders"))
        for number in range(20):
            await producer.send(str(number), time_to_live=1)
        await cluster.nodes[0].wait_for(queue="before.orders.behind", count=20, timeout=60)
        await cluster.nodes[0].wait_for(queue=way, count=0)


async def test_cluster_bridge_add_remote_binding(broker_cluster: MakeCluster) -> None:
    """5.3.2

    Given a queue of node 1 that is deleted, of which node 0 gets no notification, when it is created again, then its
    new binding takes the place of the old one, and messages arrive.
    """
    cluster = await broker_cluster(2).start()
    management = cluster.nodes[1].broker.management
    async with clients_of(cluster) as (first, second):
        await second.queues("queue0")
        await cluster.wait_for_bindings(queue="queue0", count=1)
        (notices,) = [queue.name for queue in cluster.nodes[1].queues() if queue.name.startswith("notif.")]
        await management.invoke(f"queue.{notices}", "pause")
        await second.session.delete_queue("queue0")
        await management.invoke(f"queue.{notices}", "removeAllMessages")
        await management.invoke(f"queue.{notices}", "resume")
        await pass_time(1)
        assert [len(known) for known in cluster.bindings("queue0")] == [1, 0]
        await second.queues("queue0")
        consumer = await second.consumer("queue0")
        await cluster.wait_for_bindings(queue="queue0", count=1, consumers=1)
        await first.send(0, COUNT)
        assert await received(consumer) == ALL
