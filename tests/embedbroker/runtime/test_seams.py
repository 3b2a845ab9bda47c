"""What tests replace under a broker: its network, its disk by one in memory; and how they follow it."""

from __future__ import annotations

import threading

import pytest
import trio
import trio.testing

from embedbroker import BrokerConfig, EmbeddedBroker, Role
from embedbroker.node import Node
from embedbroker.runtime import observe
from embedbroker.storage import DiskOperation
from embedbroker.testing import SimulatedDisk
from embedclient import ConnectionFactory, TransportConfiguration
from embedclient.errors import IllegalStateException
from embedclient.transport import ByteStream, Listener, TransportLost, vm_listen


class ThreadsSeen:
    """A disk in memory that notes from which threads it is used."""

    def __init__(self, loop_latency_s: float) -> None:
        self.loop_latency_s = loop_latency_s
        self.names: set[str] = set()
        self._disk = SimulatedDisk()

    def run(self, operations: tuple[DiskOperation, ...]) -> tuple[object, ...]:
        self.names.add(threading.current_thread().name)
        return self._disk.run(operations)


@pytest.mark.parametrize("latency_s", [0.0, 0.5])
async def test_a_disk_in_memory_is_asked_on_the_loop_and_takes_the_time_it_says(
    latency_s: float, autojump_clock: trio.testing.MockClock
) -> None:
    disk = ThreadsSeen(latency_s)
    config = BrokerConfig(segment_size_bytes=65_536)
    async with (
        EmbeddedBroker(config, disk=disk) as broker,
        ConnectionFactory(broker.vm_url).connect() as connection,
        connection.session() as session,
    ):
        producer = session.create_producer("orders")
        await producer.send("creates the queue")
        begun = trio.current_time()
        await producer.send("x" * 200_000)  # more than is written on the loop to a disk that blocks
        assert latency_s <= trio.current_time() - begun <= 3 * latency_s
    assert disk.names == {threading.current_thread().name}


class Elsewhere:
    """A network without TCP: clients come in by another name, and other brokers cannot be reached."""

    def __init__(self) -> None:
        self.dialled: list[str] = []

    async def listen(self, config: BrokerConfig) -> list[Listener]:
        await trio.lowlevel.checkpoint()
        return [vm_listen(config.name)]

    async def dial(self, connector: TransportConfiguration, timeout_s: float) -> ByteStream:
        await trio.lowlevel.checkpoint()
        self.dialled.append(connector.name)
        raise TransportLost("there is nobody")


async def test_a_broker_listens_on_the_network_it_was_given_and_has_no_port(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with EmbeddedBroker(name="here", network=Elsewhere()) as broker:
        assert (broker.url, broker.vm_url, broker.port) == ("vm://here", "vm://here", 0)
        async with ConnectionFactory(broker.url).connect() as connection, connection.session() as session:
            await session.create_producer("orders").send("hello")
        await broker.stop()
        with pytest.raises(IllegalStateException):
            broker.url  # noqa: B018  # the property raises
        await broker.start()
        assert broker.url == "vm://here"


class Notes:
    def __init__(self) -> None:
        self.roles: list[tuple[Role, str | None]] = []
        self.queues: set[str] = set()

    def role_changed(self, role: Role, failure: str | None) -> None:
        self.roles.append((role, failure))

    def stepped(self, node: Node) -> None:
        self.queues |= set(node.kernel.address_manager.queues)


async def test_an_observer_hears_of_roles_and_steps_over_all_lives() -> None:
    broker, notes = EmbeddedBroker(), Notes()
    observe(broker, notes)
    async with broker:
        async with ConnectionFactory(broker.vm_url).connect() as connection, connection.session() as session:
            await session.create_producer("orders").send("hello")
        await broker.crash()
        await broker.start()
    assert "orders" in notes.queues
    live = [(Role.ACTIVATING, None), (Role.LIVE, None), (Role.STOPPED, None)]
    assert notes.roles == live * 2
