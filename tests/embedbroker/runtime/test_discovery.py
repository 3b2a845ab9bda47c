"""Brokers that announce themselves: over UDP on the loopback, and over a network in memory in virtual time."""

from __future__ import annotations

import asyncio
import logging
import socket
from pathlib import Path
from random import Random

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from embedbroker import (
    AddressConfiguration,
    BridgeConfig,
    BroadcastGroup,
    ClusterConnection,
    DiscoveryGroup,
    EmbeddedBroker,
    QueueConfiguration,
)
from embedclient import ConnectionFactory, Queue, ServerLocator
from embedclient.asyncio import ServerLocator as AsyncioLocator
from embedclient.errors import ConnectionTimedOutException
from embedclient.model import parse_jgroups_stack
from embedclient.transport._memory_datagrams import MemoryMulticast
from tests.embedbroker.runtime.test_cluster_of_brokers import until_known

ADDRESS, LOOPBACK = "231.7.9.1", "127.0.0.1"


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


def announced(name: str, port: int) -> EmbeddedBroker:
    """A member of a cluster without any connector in its configuration."""
    return EmbeddedBroker(
        name=name,
        broadcast_groups=[BroadcastGroup("b", ADDRESS, port, LOOPBACK, broadcast_period_ms=200)],
        discovery_groups=[DiscoveryGroup("d", ADDRESS, port, LOOPBACK)],
        cluster_connections=ClusterConnection(discovery_group="d", retry_interval_ms=50),
        cluster_password="secret",
    )


async def test_two_brokers_and_a_client_find_each_other_over_udp() -> None:
    port = free_port()
    async with announced("a", port) as a, announced("b", port) as b:
        await until_known(a, "a", "b")
        await until_known(b, "b", "a")
        url = f"udp://{ADDRESS}:{port}?localBindAddress={LOOPBACK}"
        async with ServerLocator(url).create_session_factory() as factory:
            assert factory.connector is not None and factory.connector.port in (a.port, b.port)
        await b.crash()
        await until_known(a, "a")
        await b.start()
        await until_known(a, "a", "b")


async def test_brokers_and_clients_find_each_other_in_a_shared_directory(tmp_path: Path) -> None:
    """With one JGroups file, and nothing else in common."""
    (tmp_path / "stack.xml").write_text(f"<config><TCP/><FILE_PING location='{tmp_path}'/></config>")

    def member(name: str) -> EmbeddedBroker:
        return EmbeddedBroker(
            name=name,
            broadcast_groups=[BroadcastGroup("b", shared_directory=tmp_path, channel="c", broadcast_period_ms=200)],
            discovery_groups=[DiscoveryGroup("d", shared_directory=tmp_path, channel="c")],
            cluster_connections=ClusterConnection(discovery_group="d", retry_interval_ms=50),
            cluster_password="secret",
        )

    url = f"jgroups://c?file={tmp_path / 'stack.xml'}"
    async with member("a") as a, member("b") as b:
        await until_known(a, "a", "b")
        await until_known(b, "b", "a")
        async with ServerLocator(url).create_session_factory() as factory:
            assert factory.connector is not None and factory.connector.port in (a.port, b.port)

        async def connect_by_asyncio() -> int | None:
            async with AsyncioLocator(url).create_session_factory() as factory:
                return factory.connector.port if factory.connector is not None else None

        found = await trio.to_thread.run_sync(lambda: asyncio.run(connect_by_asyncio()))
        assert found in (a.port, b.port)


async def test_brokers_and_clients_find_each_other_by_the_hosts_of_tcpping(tmp_path: Path) -> None:
    """With one JGroups file: the second broker takes the next port of the range, and a dead host is in the list."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port = int(probe.getsockname()[1])
    (tmp_path / "stack.xml").write_text(
        f"<config><TCP bind_addr='{LOOPBACK}' bind_port='{port}'/>"
        f"<TCPPING initial_hosts='{LOOPBACK}[{port}],{LOOPBACK}[1]' port_range='10'/></config>"
    )
    stack = parse_jgroups_stack((tmp_path / "stack.xml").read_text(), "c")
    announcing = BroadcastGroup("b", listen_port=port, port_range=10, channel="c", local_bind_address=LOOPBACK)
    finding = DiscoveryGroup("d", hosts=[f"{LOOPBACK}:{port}", f"{LOOPBACK}:1"], port_range=10, channel="c")
    assert (announcing.group, finding.group) == (stack.announced_at, stack.group)

    def member(name: str) -> EmbeddedBroker:
        return EmbeddedBroker(
            name=name,
            broadcast_groups=[announcing],
            discovery_groups=[finding],
            cluster_connections=ClusterConnection(discovery_group="d", retry_interval_ms=50),
            cluster_password="secret",
        )

    url = f"jgroups://c?file={tmp_path / 'stack.xml'}"
    async with member("a") as a, member("b") as b:
        await until_known(a, "a", "b")
        await until_known(b, "b", "a")
        async with ServerLocator(url).create_session_factory() as factory:
            assert factory.connector is not None and factory.connector.port in (a.port, b.port)

        async def connect_by_asyncio() -> int | None:
            async with AsyncioLocator(url).create_session_factory() as factory:
                return factory.connector.port if factory.connector is not None else None

        found = await trio.to_thread.run_sync(lambda: asyncio.run(connect_by_asyncio()))
        assert found in (a.port, b.port)
        await b.crash()
        await until_known(a, "a")
        await b.start()
        await until_known(a, "a", "b")
    locator = ServerLocator(f"{url}&discoveryInitialWaitTimeout=50")
    with pytest.raises(ConnectionTimedOutException, match="no announcement came within"):
        async with locator.create_session_factory():
            pass


async def test_a_group_on_an_interface_that_does_not_exist_is_two_lines_and_the_broker_serves() -> None:
    lines: list[str] = []
    both_failed = trio.Event()

    class Watch(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "group '" in record.getMessage():
                lines.append(record.getMessage())
            if len(lines) == 2:
                both_failed.set()

    broker = EmbeddedBroker(
        broadcast_groups=[BroadcastGroup("b", ADDRESS, 9876, "203.0.113.1", broadcast_period_ms=20)],
        discovery_groups=[DiscoveryGroup("d", ADDRESS, 9876, "203.0.113.1")],
        cluster_connections=ClusterConnection(discovery_group="d"),
        cluster_password="secret",
    )
    logger, watch = logging.getLogger("embedbroker.broker"), Watch()
    logger.addHandler(watch)
    try:
        async with broker:
            with trio.fail_after(60):
                await both_failed.wait()
            async with ConnectionFactory(broker.url).connect() as connection, connection.session() as session:
                for _ in range(20):
                    await session.create_producer(Queue("q")).send("served")
    finally:
        logger.removeHandler(watch)
    where = "multicast group 231.7.9.1:9876 on the interface of 203.0.113.1"
    assert sorted(line.partition(": ")[0] for line in lines) == ["broadcast group 'b'", "discovery group 'd'"]
    assert all(where in line and "is tried again" in line for line in lines)


@pytest.mark.usefixtures("autojump_clock")
async def test_a_bridge_finds_its_target_by_a_discovery_group(caplog: pytest.LogCaptureFixture) -> None:
    network = MemoryMulticast(Random(1), latency_s=0.01)
    group = DiscoveryGroup("d", ADDRESS)
    bridge = BridgeConfig("to-hub", "orders", discovery_group="d", retry_interval_ms=500)
    edge = EmbeddedBroker(
        name="edge",
        addresses={"orders": AddressConfiguration(anycast={"orders": QueueConfiguration()})},
        discovery_groups=[group],
        bridges=[bridge],
        datagrams=network.at("edge"),
        cluster_password="x",
    )
    hub = EmbeddedBroker(
        name="hub",
        connectors={"here": "vm://hub"},
        broadcast_groups=[BroadcastGroup("b", ADDRESS, connectors=["here"])],
        datagrams=network.at("hub"),
        cluster_password="x",
    )
    async with edge, ConnectionFactory(edge.vm_url).connect() as connection, connection.session() as session:
        producer = session.create_producer(Queue("orders"))
        await producer.send("first")
        await wait_all_tasks_blocked()
        assert "no broker has announced itself to discovery group 'd'" in caplog.text
        assert await edge.management.message_count("orders") == 1
        for body in ("first", "second"):
            async with (
                hub,
                ConnectionFactory(hub.vm_url).connect() as there,
                there.session() as reading,
                reading.create_consumer(Queue("orders")) as consumer,
            ):
                with trio.fail_after(30):
                    message = await consumer.receive()
                assert message.body == body
            await producer.send("second")
    assert network.is_empty
