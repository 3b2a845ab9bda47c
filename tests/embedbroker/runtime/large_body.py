"""A program: a large body goes through a broker in this process, over a bridge to one in another, and to a client.

It prints the growth of the memory of both in MiB. Arguments: the size of the body in MiB; for the client, also the
ports of both brokers; for the other broker, none.
"""

from __future__ import annotations

import hashlib
import random
import socket
import subprocess
import sys
import tempfile
from collections import deque
from pathlib import Path
from typing import Any, TypeVar

import trio

from embedbroker import AddressConfiguration, BridgeConfig, BrokerConfig, EmbeddedBroker, QueueConfiguration
from embedclient.model import Properties, PropertyType
from embedclient.wire.core import (
    CoreMessage,
    CreateSession,
    CreateSessionResponse,
    FrameSplitter,
    NullResponse,
    Packet,
    Ping,
    SessionAcknowledge,
    SessionConsumerFlowCredit,
    SessionCreateConsumer,
    SessionReceiveContinuation,
    SessionReceiveLarge,
    SessionSendContinuation,
    SessionSendLarge,
    SessionStart,
    SubscribeTopologyV2,
    decode_packet,
    encode_packet,
    frame_spans,
)

CHUNK_BYTES = 100 * 1024
MIB = 1024 * 1024
VERSION = 136
P = TypeVar("P", bound=Packet)


def memory_mib(name: str) -> float:
    """Memory of this process: ``VmRSS`` is what it takes now, ``VmHWM`` the most that it took."""
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name)]
    return int(line.split()[1]) / 1024


class Client:
    """Packets over a socket."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._splitter = FrameSplitter()
        self._packets: deque[Packet] = deque()
        self._socket.sendall(b"ARTEMIS")
        self.send(Ping(600_000), SubscribeTopologyV2(False, VERSION), channel=0)
        self.send(
            CreateSession("s", 10, VERSION, None, None, CHUNK_BYTES, False, True, True, -1, False, None), channel=1
        )
        self.wait(CreateSessionResponse)

    def send(self, *packets: Packet, channel: int = 10) -> None:
        self._socket.sendall(b"".join([encode_packet(packet, channel, VERSION) for packet in packets]))

    def wait(self, kind: type[P]) -> P:
        while True:
            while self._packets:
                packet = self._packets.popleft()
                if isinstance(packet, kind):
                    return packet
                assert "Exception" not in type(packet).__name__, packet
            data = self._socket.recv(256 * 1024)
            assert data, "the broker closed the connection"
            buffer, headers = self._splitter.feed(data)
            for start, end in frame_spans(headers):
                self._packets.append(decode_packet(buffer, start, end, VERSION, False))


def run_client(size: int, source_port: int, target_port: int) -> None:
    client = Client(source_port)
    client.send(SessionStart())
    properties = Properties()
    properties.set("_AMQ_ROUTING_TYPE", 1, PropertyType.BYTE)
    client.send(SessionSendLarge(CoreMessage.build(type=4, address="q", properties=properties)))
    block, sent, left = random.Random(1).randbytes(2 * CHUNK_BYTES), hashlib.md5(), size
    while left:
        # No two chunks are alike.
        at = left // CHUNK_BYTES % CHUNK_BYTES
        chunk = block[at : at + min(CHUNK_BYTES, left)]
        sent.update(chunk)
        left -= len(chunk)
        client.send(SessionSendContinuation(chunk, left > 0, -1 if left else size, not left, 0 if left else -5))
    client.wait(NullResponse)
    client = Client(target_port)
    client.send(SessionStart())
    client.send(SessionCreateConsumer(0, "q", None, False, False), SessionConsumerFlowCredit(0, MIB))
    start, received, continues = client.wait(SessionReceiveLarge), hashlib.md5(), True
    while continues:
        part = client.wait(SessionReceiveContinuation)
        continues = part.continues
        received.update(part.chunk)
        client.send(SessionConsumerFlowCredit(0, len(part.chunk) + 26))
    assert received.digest() == sent.digest()
    client.send(SessionAcknowledge(0, start.message.message_id, True))
    client.wait(NullResponse)


def settings(directory: str, **more: Any) -> BrokerConfig:
    queue = AddressConfiguration(anycast={"q": QueueConfiguration()})
    return BrokerConfig(data_directory=directory, port=0, addresses={"q": queue}, cluster_password="secret", **more)


async def run_target() -> None:
    """Print the port, and when the input ends, the growth."""
    with tempfile.TemporaryDirectory() as directory:
        async with EmbeddedBroker(settings(directory)) as broker:
            before = memory_mib("VmRSS")
            sys.stdout.write(f"{broker.port}\n")
            sys.stdout.flush()
            await trio.to_thread.run_sync(sys.stdin.read)
            sys.stdout.write(f"{memory_mib('VmHWM') - before:.1f}\n")


async def run_source(size_mib: str) -> None:
    pipe = subprocess.PIPE
    target = await trio.lowlevel.open_process([sys.executable, __file__], stdin=pipe, stdout=pipe)
    assert target.stdin is not None and target.stdout is not None
    target_port = (await target.stdout.receive_some()).decode().strip()
    bridges = [BridgeConfig("to-target", "q", static_connectors=["target"])]
    connectors = {"target": f"tcp://127.0.0.1:{target_port}"}
    with tempfile.TemporaryDirectory() as directory:
        async with EmbeddedBroker(settings(directory, bridges=bridges, connectors=connectors)) as broker:
            before = memory_mib("VmRSS")
            await trio.run_process([sys.executable, __file__, size_mib, str(broker.port), target_port])
            sys.stdout.write(f"{memory_mib('VmHWM') - before:.1f} ")
    await target.stdin.aclose()
    sys.stdout.write((await target.stdout.receive_some()).decode())
    await target.wait()


if __name__ == "__main__":
    if len(sys.argv) > 2:
        run_client(int(sys.argv[1]) * MIB, int(sys.argv[2]), int(sys.argv[3]))
    elif len(sys.argv) > 1:
        trio.run(run_source, sys.argv[1])
    else:
        trio.run(run_target)
