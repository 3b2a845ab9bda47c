"""Brokers that host backups of each other, beyond the checklist of scenarios."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from attrs import evolve

from embedbroker import AddressSettings, Colocated, SharedStorePrimary
from embedbroker.pytest_plugin import BlockingCluster, BrokerClock, BrokerCluster
from embedclient import Queue
from embedclient.blocking import ConnectionFactory


async def test_a_broker_that_finds_no_room_gives_up_after_its_retries(
    broker_cluster: Callable[..., BrokerCluster], broker_clock: BrokerClock, caplog: pytest.LogCaptureFixture
) -> None:
    host = Colocated(SharedStorePrimary())
    requester = Colocated(
        SharedStorePrimary(), request_backup=True, backup_request_retries=2, backup_request_retry_interval_ms=100
    )
    policies = [{"ha_policy": each} for each in (host, requester, evolve(requester, max_backups=0))]
    cluster = broker_cluster(3, colocated=True, brokers=policies)
    await cluster.nodes[0].start()
    await cluster.nodes[1].start()
    await cluster.wait_backed_up(1)
    await cluster.nodes[2].start()
    await cluster.wait_backed_up(1, 2)
    assert [len(node.broker.hosted_backups) for node in cluster.nodes] == [1, 1, 0]
    # Both hosts are full: the backup that is lost with the second one has no place any more.
    await cluster.nodes[1].crash()
    await broker_clock.advance(10)
    assert "no backup of this broker, after 3 requests: none of 2 brokers has room for one" in caplog.text


async def test_a_backup_that_is_killed_alone_is_there_again(
    broker_cluster: Callable[..., BrokerCluster], broker_clock: BrokerClock
) -> None:
    cluster = await broker_cluster(2, colocated=True).start()
    node, host = cluster.nodes
    assert node.hosted_backup is not None
    killed = node.hosted_backup.broker
    killed.kill()
    await broker_clock.advance(5)
    await cluster.wait_backed_up()
    assert node.hosted_backup.broker is not killed and len(host.broker.hosted_backups) == 1


async def test_a_backup_begins_with_what_its_host_has_adopted(broker_cluster: Callable[..., BrokerCluster]) -> None:
    cluster = broker_cluster(2, colocated=True)
    host, other = cluster.nodes
    await host.start()
    settings = {"#": AddressSettings(max_delivery_attempts=7)}
    await host.broker.management.reload_configuration(evolve(host.broker.config, address_settings=settings))
    await other.start()
    await cluster.wait_backed_up()
    backup = other.hosted_backup
    assert backup is not None and backup.broker.config.address_settings == settings
    assert not backup.broker.config.is_secured
    await other.crash()
    await cluster.wait_formed()
    assert (await backup.broker.management.address_settings("any")).max_delivery_attempts == 7


def test_a_plain_test_over_sockets(broker_cluster_blocking: Callable[..., BlockingCluster]) -> None:
    cluster = broker_cluster_blocking(2, colocated="replication").start()
    first, second = cluster.nodes
    with ConnectionFactory(cluster.url).connect() as connection, connection.session() as session:
        session.create_producer(Queue("orders")).send("kept")
        first.crash()
        cluster.wait_formed()
        live = cluster.live(0)
        assert live is not None and live.name == "node-1-colocated_backup_01"
        cluster.wait_for(queue="orders", count=1)
        first.start()
        cluster.wait_backed_up()
        assert first.is_live and second.is_live
    cluster.assert_nothing_lost()


@pytest.mark.parametrize(
    ("count", "settings", "problem"),
    [
        (1, {"colocated": True}, "colocated= needs two nodes or more: each hosts the backup of another one"),
        (2, {"colocated": True, "pairs": True}, "nodes are pairs or colocated: remove pairs= or colocated="),
        (2, {"colocated": "both"}, "colocated= is False, True, or one of 'shared-store', 'replication', not 'both'"),
    ],
)
async def test_what_cannot_be_is_refused(
    count: int, settings: dict[str, object], problem: str, broker_cluster: Callable[..., BrokerCluster]
) -> None:
    with pytest.raises(ValueError, match=problem):
        broker_cluster(count, **settings)
