"""What `broker_cluster` and its twin give a test."""

from __future__ import annotations

import pytest

from embedbroker.pytest_plugin import BrokerCluster
from embedbroker.pytest_plugin._pair import PAIR_KINDS
from tests.embedbroker.pytest_plugin.conftest import Inner
from tests.scenarios.nodes import MakeCluster, clients_of

SURFACES = pytest.mark.parametrize("options", [(), ("--embedbroker-real",)], ids=["virtual", "real"])


@SURFACES
def test_a_cluster_forms_and_loses_and_gets_back_a_node(inner: Inner, options: tuple[str, ...]) -> None:
    result = inner(
        """
        async def test_it(broker_cluster):
            cluster = await broker_cluster(3).start()
            assert [node.name for node in cluster.nodes] == ["node-0", "node-1", "node-2"]
            assert cluster.brokers == cluster.nodes and cluster.pairs == ()
            assert cluster.url == "(" + ",".join(node.url for node in cluster.nodes) + ")"
            await put(cluster.nodes[2].url, "kept")
            async with cluster.sessions() as sessions:
                assert len(sessions) == 3
                await cluster.nodes[2].crash()
                assert cluster.live(2) is None
                await cluster.wait_formed()
                await cluster.assert_empty("orders")
            await cluster.nodes[2].start()
            await cluster.nodes[0].restart()
            await cluster.wait_formed()
            await cluster.wait_for(queue="orders", count=1)
            cluster.assert_nothing_lost()
            await cluster.nodes[1].stop()
            assert (await cluster.start()).live(1) is cluster.nodes[1]
        """,
        *options,
    )
    result.assert_outcomes(passed=1)


def test_nodes_join_one_by_one(inner: Inner) -> None:
    result = inner(
        """
        async def test_it(broker_cluster):
            cluster = broker_cluster(4)
            for node in cluster.nodes:
                await node.start()
                await cluster.wait_formed()
        """
    )
    result.assert_outcomes(passed=1)


def test_a_partition_makes_two_clusters_and_its_end_one(inner: Inner) -> None:
    result = inner(
        """
        async def test_it(broker_cluster, broker_clock):
            cluster = await broker_cluster(5).start()
            assert broker_clock.seconds < 1
            cluster.partition([0, 1, 2], [3, 4])
            await cluster.wait_formed([0, 1, 2], [3, 4])
            with pytest.raises(WaitTimeout, match="a cluster of nodes 0, 1, 2, 3, 4: not within 1 s(.|\\n)*"
                                                  "node-3 sees node-3, node-4\\n"):
                await cluster.wait_formed(timeout=1)
            cluster.heal()
            await cluster.wait_formed()
            cluster.link(0, 4).cut()
            await cluster.wait_formed()
        """
    )
    result.assert_outcomes(passed=1)


@pytest.mark.parametrize("kind", PAIR_KINDS)
def test_each_node_may_have_a_backup(inner: Inner, kind: str) -> None:
    result = inner(
        f"""
        async def test_it(broker_cluster):
            cluster = await broker_cluster(3, pairs={kind!r}).start()
            assert [pair.kind for pair in cluster.pairs] == [{kind!r}] * 3
            assert [broker.name for broker in cluster.brokers][:2] == ["node-0", "node-0-backup"]
            async with cluster.sessions() as sessions:
                await sessions[1].create_producer(ORDERS).send("kept")
                await cluster.nodes[1].crash()
                assert await cluster.pairs[1].wait_live() is cluster.pairs[1].backup is cluster.live(1)
                await sessions[1].create_producer(ORDERS).send("too")
            await cluster.wait_formed()
            await cluster.wait_for(queue="orders", count=2, consumers=0)
            cluster.partition([0], [1, 2])
            await cluster.wait_formed([0], [1, 2], timeout=30)
            cluster.heal()
            await cluster.pairs[1].failback()
            await cluster.wait_formed(timeout=30)
            assert "?ha=true" in cluster.url and "node-1-backup" in cluster.url
            cluster.assert_nothing_lost()
        """
    )
    result.assert_outcomes(passed=1)


@SURFACES
def test_what_each_node_knows_of_a_queue(inner: Inner, options: tuple[str, ...]) -> None:
    result = inner(
        """
        async def test_it(broker_cluster):
            cluster = await broker_cluster(3, connection_ttl_ms=1_000, check_period_ms=300).start()
            async with cluster.consumers("orders"):
                await cluster.wait_for_bindings(queue="orders", count=3, consumers=3)
                known = cluster.bindings("orders")
                assert [[each.distance for each in one] for one in known] == [[0, 1, 1]] * 3
                assert [each.node for each in known[1]] == ["node-1", "node-0", "node-2"]
                cluster.partition([0, 1], [2])
                await cluster.wait_for_bindings(queue="orders", count=2, consumers=2, nodes=[0, 1])
                await cluster.wait_formed([0, 1], [2])
                await cluster.wait_for_bindings(queue="orders", count=1, nodes=[2])
                with pytest.raises(WaitTimeout, match="nodes 2: queue orders with 3 nodes: not within 0.1 s"):
                    await cluster.wait_for_bindings(queue="orders", count=3, nodes=[2], timeout=0.1)
                assert [each.node for each in cluster.bindings("orders")[2]] == ["node-2"]
                cluster.heal()
                await cluster.wait_for_bindings(queue="orders", consumers=3)
                await cluster.nodes[0].crash()
                await cluster.wait_for_bindings(queue="orders", count=2)
                assert cluster.bindings("orders")[0] == []
        """,
        *options,
    )
    result.assert_outcomes(passed=1)


def test_a_topology_and_the_settings_of_one_node(inner: Inner) -> None:
    result = inner(
        """
        async def test_topologies(broker_cluster):
            for topology in ("chain", "ring", {0: [1], 1: [2]}):
                cluster = await broker_cluster(3, topology=topology).start()
                connections = [node.broker.config.cluster_connection for node in cluster.nodes]
                assert all(each.allow_direct_connections_only for each in connections)
                targets = [len(each.static_connectors) for each in connections]
                assert targets == ([1, 1, 1] if topology == "ring" else [1, 1, 0])

        async def test_settings(broker_cluster):
            brokers = [{"id_cache_size": size} for size in (7, 8)]
            cluster = await broker_cluster(2, brokers=brokers, message_load_balancing="STRICT").start()
            assert [node.broker.config.id_cache_size for node in cluster.nodes] == [7, 8]
            connections = [node.broker.config.cluster_connection for node in cluster.nodes]
            assert [each.message_load_balancing.name for each in connections] == ["STRICT"] * 2
        """
    )
    result.assert_outcomes(passed=2)


def test_a_node_of_a_plain_test_scales_down(inner: Inner) -> None:
    result = inner(
        """
        def test_it(broker_cluster_blocking):
            cluster = broker_cluster_blocking(2).start()
            with cluster.sessions() as sessions:
                for text in ("one", "two"):
                    sessions[0].create_producer(ORDERS).send(text)
            assert cluster.nodes[0].scale_down(cluster.nodes[1]) == 2
            cluster.wait_formed()
            cluster.nodes[1].wait_for(queue="orders", count=2)
        """
    )
    result.assert_outcomes(passed=1)


def test_wrong_use_of_a_cluster_fails_at_once(inner: Inner) -> None:
    result = inner(
        """
        @pytest.mark.parametrize(("arguments", "settings", "text"), [
            ((0,), {}, "1 to 64 nodes, not 0"),
            (("4",), {}, "an int, not '4'"),
            ((2,), {"pairs": "mirror"}, "'shared-store', 'replication', not 'mirror'"),
            ((2,), {"topology": "star"}, "'symmetric', 'chain', 'ring', or maps nodes"),
            ((2,), {"topology": {0: [2]}}, r"connects node 0 to \\[2\\], but nodes are 0 to 1"),
            ((2,), {"static_connectors": ["x"]}, "takes no static_connectors: topology= gives"),
            ((2,), {"discovery_group": "x"}, "takes no discovery_group: discovery=True gives"),
            ((2,), {"discovery": True, "topology": "ring"}, "discovery=True needs topology='symmetric'"),
            ((2,), {"brokers": [{}]}, "settings for 1 nodes of 2"),
            ((2,), {"brokers": {"port": 1}}, "takes no port"),
        ])
        async def test_making(broker_cluster, arguments, settings, text):
            with pytest.raises((TypeError, ValueError), match=text):
                broker_cluster(*arguments, **settings)

        async def test_using(broker_cluster):
            cluster = broker_cluster(2)
            with pytest.raises(IllegalStateException, match="cannot wait for a cluster of nodes 0, 1: .*never started"):
                await cluster.wait_formed()
            await cluster.start()
            for groups, text in [(([0],), "2 groups"), (([0], [2]), "0 to 1, not 2"), (([0], [0]), "twice"),
                                 ((0, 1), "a list of indexes"), (([True], [1]), "an int, not True")]:
                with pytest.raises((TypeError, ValueError), match=text):
                    cluster.partition(*groups)
            with pytest.raises(ValueError, match="no link between node 1 and itself"):
                cluster.link(1, 1)
            with pytest.raises(WaitTimeout, match="over all nodes: queue q with 1 messages: not within 1 s"):
                await cluster.wait_for(queue="q", count=1, timeout=1)
            await cluster.nodes[0].crash()
            with pytest.raises(IllegalStateException, match="'node-0' crashed"):
                cluster.assert_nothing_lost()
        """
    )
    result.assert_outcomes(passed=11)


def test_a_plain_test_has_a_cluster_too(inner: Inner) -> None:
    result = inner(
        """
        def test_it(broker_cluster_blocking):
            cluster = broker_cluster_blocking(2, pairs=True).start()
            with cluster.sessions() as sessions:
                for session in sessions:
                    session.create_producer(ORDERS).send("kept")
                cluster.nodes[0].crash()
                cluster.pairs[0].wait_live()
                cluster.wait_formed()
                cluster.wait_for(queue="orders", count=2)
            assert cluster.live(0).name == "node-0-backup"
            with cluster.consumers("prices") as consumers:
                assert [[each.consumers for each in known] for known in cluster.bindings("prices")] == [[1, 1]] * 2
                with cluster.sessions() as sessions:
                    for price in "1234":
                        sessions[1].create_producer(Queue("prices")).send(price)
                    with cluster.consumers("prices", sessions) as others:
                        known = [[each.consumers for each in bindings] for bindings in cluster.bindings("prices")]
                        assert len(others) == 2 and known == [[2, 2]] * 2
                    cluster.wait_for(queue="prices", consumers=2)
                assert sorted(consumer.receive(timeout=10).body for consumer in consumers) == ["1", "2"]
            cluster.partition([0], [1])
            cluster.heal()
            cluster.link(0, 1).cut()
            cluster.wait_formed()
            cluster.assert_nothing_lost()
        """
    )
    result.assert_outcomes(passed=1)


@pytest.mark.search
async def test_thirty_two_nodes_share_messages_while_one_is_gone(broker_cluster: MakeCluster) -> None:
    """Each message is taken once, at one of the four nodes that have the queue."""
    cluster = await broker_cluster(32, message_load_balancing="STRICT").start()
    nodes, sent = [0, 9, 20, 31], 0
    async with clients_of(cluster, nodes) as clients:
        for client in clients:
            await client.queues("shared")
        await cluster.wait_for_bindings(queue="shared", count=4)
        for client in clients:
            await client.send(sent, sent := sent + 40)
        await cluster.wait_for(queue="shared", count=sent)
        assert await counts(cluster, nodes) == [40] * 4
        await cluster.nodes[9].crash()
        for client in (clients[0], clients[2], clients[3]):
            await client.send(sent, sent := sent + 40)
    await cluster.nodes[9].start()
    await cluster.wait_formed()
    await cluster.wait_for(queue="shared", count=sent)
    async with clients_of(cluster, nodes) as clients:
        await clients[1].send(sent, sent := sent + 40)
        await cluster.wait_for(queue="shared", count=sent)
        taken: list[int] = []
        for client, count in zip(clients, await counts(cluster, nodes), strict=True):
            consumer = await client.consumer("shared")
            for _ in range(count):
                message = await consumer.receive(timeout=1)
                assert message is not None
                number = message.properties["n"]
                assert isinstance(number, int)
                taken.append(number)
                await message.acknowledge()
    assert sorted(taken) == list(range(sent))
    await cluster.assert_empty("shared")


async def counts(cluster: BrokerCluster, nodes: list[int]) -> list[int]:
    """The messages of the queue at each of these nodes."""
    return [await cluster.nodes[node].broker.management.message_count("shared") for node in nodes]
