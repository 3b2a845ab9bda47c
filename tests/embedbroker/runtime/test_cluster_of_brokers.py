"""Brokers on real sockets find each other, and clients learn a pair."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
import trio.testing

from embedbroker import EmbeddedBroker
from embedbroker.config import ClusterConnection, Role, SharedStoreBackup, SharedStorePrimary
from embedbroker.runtime._embedded import life_of
from embedclient import ConnectionFactory, Queue
from embedclient.transport import TransportLost, connect_tcp

TIMEOUT_S = 60.0


def member(path: Path | None, *others: EmbeddedBroker, **changes: object) -> EmbeddedBroker:
    """A broker that looks for some others."""
    values = {"cluster_user": "cluster", "cluster_password": "secret", **changes}
    connectors = {other.config.name: other.url for other in others}
    return EmbeddedBroker(
        connectors=connectors,
        cluster_connections=ClusterConnection(static_connectors=tuple(connectors), retry_interval_ms=50),
        data_directory=None if path is None else str(path),
        **values,  # type: ignore[arg-type]  # tests name real fields
    )


async def until_known(broker: EmbeddedBroker, *names: str) -> None:
    """Wait until a broker has members and backups of these names."""
    cluster = life_of(broker).host.node.cluster
    assert cluster is not None
    topology, changed = cluster.topology, trio.Event()

    def look(_change: object) -> None:
        members = topology.members.values()
        found = [connector.name for each in members for connector in (each.live, each.backup) if connector is not None]
        if sorted(found) == sorted(names):
            changed.set()

    topology.listen(look)
    look(None)
    with trio.fail_after(TIMEOUT_S):
        await changed.wait()
    topology.forget(look)


async def test_two_live_brokers_on_free_ports_know_each_other_until_one_crashes() -> None:
    async with member(None, name="a") as a, member(None, a, name="b") as b:
        await until_known(a, "a", "b")
        await until_known(b, "b", "a")
        await a.crash()
        await until_known(b, "b")


async def test_a_client_of_the_live_broker_goes_on_at_the_backup_it_was_told_of(tmp_path: Path) -> None:
    primary = member(tmp_path, name="primary", ha_policy=SharedStorePrimary())
    async with primary, member(tmp_path, primary, name="backup", ha_policy=SharedStoreBackup()) as backup:
        assert (primary.role, backup.role) == (Role.LIVE, Role.BACKUP)
        await until_known(primary, "primary", "backup")
        url = f"{primary.url}?ha=true&reconnectAttempts=-1&retryInterval=50"
        async with ConnectionFactory(url).connect() as connection, connection.session() as session:
            producer = session.create_producer(Queue("q"))
            await producer.send("before")
            await primary.crash()
            with trio.fail_after(TIMEOUT_S):
                await backup.wait_for_role(Role.LIVE)
                await producer.send("after")
                async with session.create_consumer(Queue("q")) as consumer:
                    received = [await consumer.receive() for _ in range(2)]
        assert [message.body for message in received] == ["before", "after"]
        assert f"tcp://127.0.0.1:{backup.port}" == backup.url


async def test_a_backup_lets_nobody_in_and_keeps_the_port_it_announced(tmp_path: Path) -> None:
    primary = member(tmp_path, name="primary", ha_policy=SharedStorePrimary())
    async with primary, member(tmp_path, primary, name="backup", ha_policy=SharedStoreBackup()) as backup:
        await until_known(primary, "primary", "backup")
        cluster = life_of(primary).host.node.cluster
        assert cluster is not None
        (place,) = [each.backup for each in cluster.topology.members.values() if each.backup is not None]
        port = int(place.parameters["port"])
        with pytest.raises(TransportLost, match="refused"):
            await connect_tcp("127.0.0.1", port)
        await primary.stop(failover=True)
        with trio.fail_after(TIMEOUT_S):
            await backup.wait_for_role(Role.LIVE)
        assert backup.port == port


async def test_a_wrong_cluster_password_keeps_brokers_apart_and_serves_their_clients(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with member(None, name="a") as a, member(None, a, name="b", cluster_password="wrong") as b:
        async with ConnectionFactory(b.url).connect() as connection, connection.session() as session:
            await session.create_producer(Queue("q")).send("hello")
        await until_known(a, "a")
        await until_known(b, "b")
    assert "must be the same on all brokers of a cluster" in caplog.text


VM = {"a": "vm://a", "b": "vm://b"}


def vm_member(name: str, *others: str, **changes: object) -> EmbeddedBroker:
    return EmbeddedBroker(
        name=name,
        connectors=VM,
        cluster_connections=ClusterConnection(connector=name, static_connectors=others),
        cluster_user="cluster",
        cluster_password="secret",
        **changes,  # type: ignore[arg-type]  # tests name real fields
    )


async def test_brokers_in_one_program_need_no_sockets_and_in_virtual_time_no_time(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with vm_member("a", "b") as a:
        with trio.move_on_after(5):  # it dials without success
            await trio.sleep_forever()
        async with vm_member("b") as b:
            await until_known(a, "a", "b")
            await until_known(b, "b", "a")
            begun = trio.current_time()
            await a.crash()
            await until_known(b, "b")
            assert trio.current_time() == begun
