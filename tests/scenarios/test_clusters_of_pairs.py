"""2.9 and 1.4: clusters whose nodes are pairs."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from embedbroker.pytest_plugin import BrokerCluster
from embedclient import ClientConsumer
from tests.scenarios.nodes import Client, MakeCluster, clients_of, received, turns

KINDS = pytest.mark.parametrize("kind", ["shared-store", "replication"])


async def shared(cluster: BrokerCluster, clients: Sequence[Client]) -> list[ClientConsumer]:
    for client in clients:
        await client.queues("queue0")
    consumers = [await client.consumer("queue0") for client in clients]
    await cluster.wait_for_bindings(queue="queue0", count=len(clients), consumers=len(clients))
    return consumers


async def check(clients: Sequence[Client], consumers: Sequence[ClientConsumer]) -> None:
    """Send at each node, and look that all take turns."""
    for client in clients:
        await client.send(0, 12)
        assert sorted([await received(each) for each in consumers]) == turns(12, len(consumers))


@KINDS
async def test_basic_round_robin(broker_cluster: MakeCluster, kind: str) -> None:
    """1.4.33

    Given three pairs, when a hundred are sent to one, then its queue and the two others take turns.
    """
    cluster = await broker_cluster(3, pairs=kind).start()
    async with clients_of(cluster) as clients:
        consumers = await shared(cluster, clients)
        await clients[1].send(0, 100)
        assert sorted([await received(each) for each in consumers]) == turns(100, 3)


@pytest.mark.parametrize(
    ("kind", "discovery"), [("shared-store", False), ("replication", False), ("shared-store", True)]
)
async def test_fail_primary_nodes(broker_cluster: MakeCluster, kind: str, discovery: bool) -> None:
    """2.9.1, 2.9.4

    Given three pairs with balanced traffic, with static connectors or discovery, when one primary after the other
    crashes, then messages take turns on the three queues all the same, wherever they are sent.
    """
    cluster = await broker_cluster(3, pairs=kind, discovery=discovery).start()
    async with clients_of(cluster) as clients:
        consumers = await shared(cluster, clients)
        await check(clients, consumers)
        for pair in cluster.pairs:
            assert await pair.failover() is pair.backup
            await cluster.wait_formed()
            await cluster.wait_for_bindings(queue="queue0", count=3, consumers=3)
            await check(clients, consumers)
    cluster.assert_nothing_lost()


async def test_fail_backup_nodes(broker_cluster: MakeCluster) -> None:
    """2.9.2

    Given the same, when backups that wait crash, then the traffic goes on.
    """
    cluster = await broker_cluster(3, pairs=True).start()
    async with clients_of(cluster) as clients:
        consumers = await shared(cluster, clients)
        for pair in cluster.pairs:
            await pair.backup.crash()
            await check(clients, consumers)


async def test_fail_all_nodes(broker_cluster: MakeCluster) -> None:
    """2.9.3

    Given the same, when a primary and then its backup crash, pair by pair, then the pairs that are left share the
    traffic.
    """
    cluster = await broker_cluster(3, pairs=True).start()
    async with clients_of(cluster, [2]) as (last,), clients_of(cluster, [1]) as (middle,):
        async with clients_of(cluster, [0]) as (first,):
            consumers = await shared(cluster, [first, middle, last])
            await check([first, middle, last], consumers)
            await cluster.pairs[0].failover()
            await cluster.wait_formed()
            await cluster.wait_for_bindings(queue="queue0", count=3, consumers=3)
            await check([first, middle, last], consumers)
        await cluster.pairs[0].backup.crash()
        await cluster.wait_formed()
        await cluster.wait_for_bindings(queue="queue0", count=2, consumers=2)
        await check([middle, last], consumers[1:])
