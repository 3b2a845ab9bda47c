"""2.12: brokers that host backups of each other."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from embedbroker import (
    ClusterConnection,
    Colocated,
    EmbeddedBroker,
    ReplicationBackup,
    ReplicationPrimary,
    Role,
    ScaleDown,
    SharedStoreBackup,
    SharedStorePrimary,
)
from embedbroker.pytest_plugin import BrokerCluster, ManagedBroker
from tests.scenarios.clients import ORDERS, put, queued, session_at, take
from tests.scenarios.nodes import MakeCluster

KINDS = pytest.mark.parametrize("kind", ["shared-store", "replication"])


def hosted(cluster: BrokerCluster) -> dict[str, list[str]]:
    """By the name of each node: the names of those whose backups it hosts."""
    names = {node.broker.node_id: node.name for node in cluster.nodes if node.is_running}
    return {
        node.name: [names[each.node_id] for each in node.broker.hosted_backups]
        for node in cluster.nodes
        if node.is_running
    }


def backup_of(node: ManagedBroker) -> ManagedBroker:
    assert node.hosted_backup is not None
    return node.hosted_backup


@KINDS
async def test_simple_distribution_backup_strategy_full(broker_cluster: MakeCluster, kind: str) -> None:
    """2.12.1

    Given two colocated brokers that request backups, when both run, then each hosts one backup with the node id of the
    other. It has the disk of the other with a shared store, and another one with replication, and other places.
    """
    cluster = await broker_cluster(2, colocated=kind).start()
    assert hosted(cluster) == {"node-0": ["node-1"], "node-1": ["node-0"]}
    for node, host in (cluster.nodes, reversed(cluster.nodes)):
        backup = backup_of(node)
        assert backup.name == f"{host.name}-colocated_backup_01" and backup.role is Role.BACKUP
        assert backup.broker.node_id == node.broker.node_id
        assert (backup.disk is node.disk) == (kind == "shared-store")
        places = {name: each.parameters["serverId"] for name, each in backup.broker.config.connectors.items()}
        assert places == {host.name: backup.name, node.name: node.name, "colocated_host": host.name}
    # Each serves at the place of its backup when it is lost, and takes that back.
    async with session_at(cluster.url) as session:
        for lost in cluster.nodes:
            await put(session, ["before", "after"])
            await lost.crash()
            await cluster.wait_formed()
            assert cluster.live(cluster.nodes.index(lost)) is backup_of(lost)
            await put(session, ["meanwhile"])
            await lost.start()
            await cluster.wait_formed()
            await cluster.wait_backed_up()
    await cluster.wait_for(queue=ORDERS.queue_name, count=6)
    cluster.assert_nothing_lost()


async def test_simple_distribution_backup_strategy_scale_down(broker_cluster: MakeCluster) -> None:
    """2.12.2

    Given hosted backups that scale down, when both run, then the backups listen nowhere and are at the places of their
    hosts. When a broker crashes, its host has its messages, and its clients.
    """
    backup = SharedStoreBackup(scale_down=ScaleDown())
    policy = Colocated(SharedStorePrimary(), backup, request_backup=True, backup_request_retry_interval_ms=500)
    cluster = await broker_cluster(2, colocated=True, brokers={"ha_policy": policy}).start()
    first, second = cluster.nodes
    config = backup_of(first).broker.config
    assert {name: each.parameters["serverId"] for name, each in config.connectors.items()} == {
        "node-0": "node-0",
        "node-1": "node-1",
        "colocated_host": "node-1",
    }
    assert config.port == 0 and backup_of(first).broker.role is Role.BACKUP
    async with session_at(f"{first.url}?ha=true&reconnectAttempts=-1&retryInterval=100") as session:
        await put(session, ["0", "1"])
        await first.crash()
        await second.wait_for(queue=ORDERS.queue_name, count=2)
        await put(session, ["2"])
        assert await queued(second) == ["0", "1", "2"]
        await backup_of(first).wait_for_role(Role.BACKUP)
        await first.start()
        await cluster.wait_formed()
        await cluster.wait_backed_up()
        assert first.is_live and await queued(first) == []
    cluster.assert_nothing_lost()


def whole_copies(directory: Path) -> list[Path]:
    """The records of hosted backups that have a whole copy."""
    records = directory.glob("*colocated_backup*/node.state")
    return [each for each in records if "in sync: yes" in each.read_text()]


async def test_simple_distribution_backup_strategy_scale_down_with_replication(tmp_path: Path) -> None:
    """2.12.2, in real time with directories: no lock manager decides, as in Artemis' test.

    A primary that returns with its directory has what it had when it crashed, once more.
    """
    policy = Colocated(
        ReplicationPrimary(),
        ReplicationBackup(scale_down=ScaleDown()),
        request_backup=True,
        backup_request_retry_interval_ms=100,
    )

    def member(name: str) -> EmbeddedBroker:
        return EmbeddedBroker(
            name=name,
            data_directory=tmp_path / name,
            connectors={"first": "vm://first", "second": "vm://second"},
            cluster_connections=ClusterConnection(
                connector=name, static_connectors=[{"first": "second", "second": "first"}[name]], retry_interval_ms=50
            ),
            cluster_password="secret",
            ha_policy=policy,
        )

    async with member("first") as first, member("second") as second:
        with trio.fail_after(60):
            for broker in (first, second):
                hosted_one = await broker.wait_for_hosted_backup(Role.BACKUP)
                assert hosted_one.url is None
            while len(whole_copies(tmp_path)) < 2:
                await trio.lowlevel.checkpoint()
            async with session_at(f"{first.vm_url}?ha=true&reconnectAttempts=-1&retryInterval=50") as session:
                await put(session, ["0", "1"])
                await first.crash()
                # Before that the client may not have noticed, and a call of it would be released.
                await second.wait_for(queue=ORDERS.queue_name, count=2, timeout=None)
                async with session.create_consumer(ORDERS) as consumer:
                    assert await take(consumer, 2) == ["0", "1"]
            await second.wait_for_hosted_backup(Role.BACKUP)
            await first.start()
            assert await first.management.message_count(ORDERS.queue_name) == 2


async def test_simple_distribution_of_backups_max_backups_exceeded(broker_cluster: MakeCluster) -> None:
    """2.12.3

    Given max-backups 1 and two more brokers, which find the first ones full, when all run, then the later two host the
    backups of each other.
    """
    policy = Colocated(SharedStorePrimary(), request_backup=True, backup_request_retry_interval_ms=500)
    cluster = broker_cluster(4, colocated=True, brokers={"ha_policy": policy})
    for node in cluster.nodes[:2]:
        await node.start()
    await cluster.wait_backed_up(0, 1)
    await cluster.start()
    assert hosted(cluster) == {
        "node-0": ["node-1"],
        "node-1": ["node-0"],
        "node-2": ["node-3"],
        "node-3": ["node-2"],
    }
