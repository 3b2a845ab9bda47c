"""1.4 and 1.5: nodes that find each other by datagrams."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from embedbroker.pytest_plugin import BrokerCluster
from embedclient import ClientConsumer
from tests.scenarios.nodes import Client, MakeCluster, clients_of, pass_time, received, turns

#: Of virtual time: a node that is silent for longer leaves the list of places.
FORGOTTEN_S = 15


async def shared(cluster: BrokerCluster, clients: Sequence[Client]) -> list[ClientConsumer]:
    """A queue with a consumer at each client, known everywhere; the queue may be there."""
    for client in clients:
        if not (await client.session.query_queue("queue0")).exists:
            await client.queues("queue0")
    consumers = [await client.consumer("queue0") for client in clients]
    await cluster.wait_for_bindings(queue="queue0", count=len(clients), consumers=len(clients))
    return consumers


async def check(clients: Sequence[Client], consumers: Sequence[ClientConsumer]) -> None:
    await clients[-1].send(0, 10)
    assert sorted([await received(each) for each in consumers]) == turns(10, len(consumers))


async def test_start_stop_servers_with_pause_before_restarting(broker_cluster: MakeCluster) -> None:
    """1.4.26

    Given five nodes, when two stop, and start after a pause in which their places are forgotten, then all is as before.
    """
    cluster = await broker_cluster(5, discovery=True).start()
    async with clients_of(cluster, [0, 1, 2]) as clients:
        async with clients_of(cluster, [3, 4]) as others:
            consumers = await shared(cluster, [*clients, *others])
            await check([*clients, *others], consumers)
        for number in (3, 4):
            await cluster.nodes[number].stop()
        await pass_time(FORGOTTEN_S)
        await cluster.wait_for_bindings(queue="queue0", count=3, consumers=3)
        await check(clients, consumers[:3])
        await cluster.start()
        async with clients_of(cluster, [3, 4]) as others:
            consumers[3:] = [await client.consumer("queue0") for client in others]
            await cluster.wait_for_bindings(queue="queue0", count=5, consumers=5)
            await check([*clients, *others], consumers)


async def test_start_stop_servers_with_partition(broker_cluster: MakeCluster) -> None:
    """1.4.27

    Given a network that is split into three and two nodes, for datagrams too, when the split ends, then each node sees
    five members, and messages take turns on all of them.
    """
    cluster = broker_cluster(5, discovery=True)
    await cluster.nodes[0].start()
    cluster.partition([0, 1, 2], [3, 4])
    for node in cluster.nodes[1:]:
        await node.start()
    await cluster.wait_formed([0, 1, 2], [3, 4])
    await pass_time(FORGOTTEN_S)
    cluster.heal()
    await cluster.wait_formed()
    async with clients_of(cluster) as clients:
        await check(clients, await shared(cluster, clients))


async def test_start_stop_servers_with_wrong_connector_configurations(
    broker_cluster: MakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """1.4.28

    Given nodes that announce places at which no broker listens, when they run, then each is alone, with a line in its
    log, and serves its clients.
    """
    wrong = [{"connectors": {f"node-{number}": f"vm://nowhere-{number}"}} for number in range(2)]
    cluster = broker_cluster(2, discovery=True, brokers=wrong)
    for node in cluster.nodes:
        await node.start()
    await pass_time(30)
    await cluster.wait_formed([0], [1])
    async with clients_of(cluster) as clients:
        for client in clients:
            await client.queues("queue0")
            await client.send(0, 10)
    assert [[queue.message_count for queue in node.queues() if queue.name == "queue0"] for node in cluster.nodes] == [
        [10],
        [10],
    ]
    for number in range(2):
        assert f"no broker answers at node-{number} (vm://nowhere-{number}), which is tried again" in caplog.text


async def test_two_nodes(broker_cluster: MakeCluster) -> None:
    """1.5.5

    Given a node that waits for another one, when that starts later, stops, and starts again, then messages take turns
    on both each time, in the same order.
    """
    cluster = broker_cluster(2, discovery=True)
    await cluster.nodes[0].start()
    await pass_time(FORGOTTEN_S)
    async with clients_of(cluster, [0]) as (first,):
        for turn in range(2):
            await cluster.start()
            async with clients_of(cluster, [1]) as (second,):
                consumers = await shared(cluster, [first, second])
                await first.send(0, 10)
                assert sorted([await received(each) for each in consumers]) == turns(10, 2)
                await consumers[0].close()
            if not turn:
                await cluster.nodes[1].restart()
