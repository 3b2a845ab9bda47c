"""1.1, 1.2, 1.4 and 1.7: clusters whose nodes are reached over sockets, in real time."""

from __future__ import annotations

from typing import Any

import pytest

from embedbroker import AddressSettings
from embedbroker.pytest_plugin._bench import Surface
from embedclient import BytesMessage, ClientConsumer, Queue
from tests.scenarios.nodes import MakeCluster, clients_of, turns


async def numbers(consumer: ClientConsumer, count: int) -> list[int]:
    """The numbers of so many messages."""
    found = []
    for _ in range(count):
        message = await consumer.receive(timeout=60)
        assert message is not None
        number = message.properties["n"]
        assert isinstance(number, int)
        found.append(number)
    return found


@pytest.mark.parametrize(
    ("cluster_over_tcp", "topology", "settings"),
    [
        (Surface.SOCKETS, {0: [1]}, {}),
        (Surface.SOCKETS, "chain", {}),
        (Surface.SOCKETS, "symmetric", {}),
        (Surface.SOCKETS, "symmetric", {"discovery": True}),
        (Surface.SOCKETS, "symmetric", {"pairs": "shared-store"}),
        (Surface.REAL, "symmetric", {"discovery": True, "pairs": "shared-store"}),
    ],
    ids=["one way", "chain", "static", "discovery", "pairs", "all of it with files"],
    indirect=["cluster_over_tcp"],
)
async def test_round_robin(cluster_over_tcp: MakeCluster, topology: Any, settings: dict[str, Any]) -> None:
    """1.1.24, 1.2.10, 1.4.32

    Given nodes over TCP, in each topology, and a consumer on the first and the last, when ten messages are sent to the
    first, then they take turns.
    """
    count = 2 if topology == {0: [1]} else 5
    cluster = await cluster_over_tcp(count, topology=topology, **settings).start()
    async with clients_of(cluster, [0, count - 1]) as clients:
        for client in clients:
            await client.queues("queue0")
        consumers = [await client.consumer("queue0") for client in clients]
        await cluster.wait_for_bindings(queue="queue0", count=2, consumers=2, nodes=[0])
        await clients[0].send(0, 10)
        assert sorted([await numbers(each, 5) for each in consumers]) == turns(10, 2)


async def test_large_messages_move(cluster_over_tcp: MakeCluster) -> None:
    """1.7.27

    Given large messages without a consumer on their node, when there is one on the other node, then they move to it
    over TCP with their bodies.
    """
    settings = {"address_settings": {"#": AddressSettings(redistribution_delay_ms=0)}}
    cluster = await cluster_over_tcp(2, brokers=settings).start()
    bodies = [bytes([number]) * 300_000 for number in range(5)]
    async with cluster.sessions() as (first, second):
        for body in bodies:
            await first.create_producer(Queue("orders")).send(BytesMessage(body))
        consumer = await second.create_consumer(Queue("orders"))
        found = [await consumer.receive(timeout=60) for _ in bodies]
        assert [each.body for each in found if isinstance(each, BytesMessage)] == bodies
        await cluster.assert_empty("orders")
    cluster.assert_nothing_lost()


@pytest.mark.parametrize(
    ("cluster_over_tcp", "discovery"),
    [(Surface.SOCKETS, True), (Surface.REAL, False)],
    ids=["discovery", "files"],
    indirect=["cluster_over_tcp"],
)
async def test_fail_primary_nodes(cluster_over_tcp: MakeCluster, discovery: bool) -> None:
    """2.9.4

    Given two pairs over TCP, with discovery or with files, when one primary after the other crashes, then messages take
    turns on both queues all the same, wherever they are sent.
    """
    cluster = await cluster_over_tcp(2, pairs="shared-store", discovery=discovery).start()
    async with clients_of(cluster) as clients:
        for client in clients:
            await client.queues("queue0")
        consumers = [await client.consumer("queue0") for client in clients]
        for pair in [None, *cluster.pairs]:
            if pair is not None:
                assert await pair.failover() is pair.backup
                await cluster.wait_formed()
            await cluster.wait_for_bindings(queue="queue0", count=2, consumers=2)
            for client in clients:
                await client.send(0, 10)
                assert sorted([await numbers(each, 5) for each in consumers]) == turns(10, 2)
