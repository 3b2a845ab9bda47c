"""A real broker with a client that behaves beside the ones that do not, and a count of everything that could leak.

Responsible for the witness and the counting. Refuses to be bad: tests bring their own bytes.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing
from attrs import define

from embedbroker import EmbeddedBroker
from embedbroker.runtime._embedded import life_of
from embedclient import ConnectionFactory, Session
from embedclient.transport import ByteStream, TransportLost, vm_connect
from embedclient.transport._tcp import TcpStream
from embedclient.wire.core import (
    CreateSession,
    FrameSplitter,
    Packet,
    Ping,
    SubscribeTopologyV2,
    decode_packet,
    encode_packet,
    frame_spans,
)

__all__ = ["GuardedBroker", "Intruder", "guarded_broker"]

LOGGER = "embedbroker.broker"


@define(eq=False)
class Intruder:
    """A raw connection to the broker."""

    stream: ByteStream
    packets: list[Packet]
    _splitter: FrameSplitter
    #: Of a connection over TCP.
    socket: socket.socket | None = None

    async def send(self, data: bytes) -> None:
        """Write everything, unless the broker closes first."""
        view = memoryview(data)
        try:
            while view:
                taken = self.stream.send_nowait(view)
                view = view[taken:]
                if view:
                    await self.stream.wait_writable()
        except TransportLost:
            pass

    async def send_packets(self, *packets: Packet, channel: int = 10) -> None:
        await self.send(b"".join(encode_packet(packet, channel, 136) for packet in packets))

    async def open_session(self) -> None:
        """Shake hands and open a session on channel 10."""
        create = CreateSession("intruder", 10, 136, None, None, 1, False, True, True, -1, False, None)
        await self.send(
            b"ARTEMIS"
            + encode_packet(Ping(60_000), 0, 136)
            + encode_packet(SubscribeTopologyV2(False, 136), 0, 136)
            + encode_packet(create, 1, 136)
        )
        for _ in range(3):
            await self.next_packet()

    async def next_packet(self) -> Packet:
        """The next packet from the broker."""
        while not self.packets:
            data = await self.stream.receive(65_536)
            assert data, "the broker closed the connection"
            buffer, headers = self._splitter.feed(data)
            self.packets += [decode_packet(buffer, start, end, 136, False) for start, end in frame_spans(headers)]
        return self.packets.pop(0)

    async def wait_closed(self) -> bytes:
        """Read until the broker closes; return what it sent before."""
        said = b""
        try:
            while data := await self.stream.receive(65_536):
                said += data
        except TransportLost:
            pass
        self.stream.close()
        return said


class GuardedBroker:
    """What tests work with: connections to make, and the log."""

    def __init__(self, broker: EmbeddedBroker, session: Session, caplog: pytest.LogCaptureFixture) -> None:
        self.broker = broker
        self._session = session
        self._caplog = caplog
        self._count = 0

    async def connect(self, *, vm: bool = False) -> Intruder:
        """A connection that has sent nothing."""
        if vm:
            await trio.lowlevel.checkpoint()  # the broker has to accept: few may wait
            stream: ByteStream = vm_connect(self.broker.vm_url.removeprefix("vm://"))
        else:
            await trio.lowlevel.checkpoint()
            connected = socket.create_connection(("127.0.0.1", self.broker.port), timeout=60)
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connected.setblocking(False)
            return Intruder(TcpStream(connected), [], FrameSplitter(), connected)
        return Intruder(stream, [], FrameSplitter())

    def lines(self) -> list[str]:
        """What the broker logged since the last time."""
        lines = [record.getMessage() for record in self._caplog.records if record.name == LOGGER]
        self._caplog.clear()
        return lines

    async def look(self) -> None:
        """Send and receive a message with the witness, as if no other client were connected."""
        self._count += 1
        await self._session.create_producer("witness").send(f"{self._count}")
        async with self._session.create_consumer("witness") as consumer:
            message = await consumer.receive(timeout=60)
            assert message is not None and message.body == f"{self._count}"

    def holdings(self) -> tuple[int, ...]:
        """Connections, sessions, tasks, sockets and message bytes."""
        host = life_of(self.broker).host
        node = host.node
        return (
            host.statistics().connections,
            len(node.connections.served) + len(node.connections.newcomers) + len(node.connections.lost),
            len(node.core.sessions),
            trio.lowlevel.current_statistics().tasks_living,
            len(os.listdir("/proc/self/fd")),
            node.kernel.memory.used_bytes,
        )


@asynccontextmanager
async def guarded_broker(caplog: pytest.LogCaptureFixture, **config: object) -> AsyncIterator[GuardedBroker]:
    """A broker with its witness. At the end everything is as it was before the intruders came."""
    caplog.set_level(logging.DEBUG, LOGGER)
    with trio.fail_after(60):
        async with (
            EmbeddedBroker(**config) as broker,  # type: ignore[arg-type]  # tests name real fields
            ConnectionFactory(broker.url).connect() as connection,
            connection.session() as session,
        ):
            guarded = GuardedBroker(broker, session, caplog)
            await guarded.look()
            await trio.testing.wait_all_tasks_blocked()
            before = guarded.holdings()
            guarded.lines()
            yield guarded
            await guarded.look()
            await trio.testing.wait_all_tasks_blocked()
            assert guarded.holdings() == before
