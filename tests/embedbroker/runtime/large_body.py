"""A program: a large body goes through a broker in this process, from and to a client in another one.

It prints the growth of this process' memory in MiB. Arguments: the size of the body in MiB; for the client, the port.
"""

from __future__ import annotations

import hashlib
import random
import socket
import sys
import tempfile
from collections import deque
from pathlib import Path
from typing import TypeVar

import trio

from embedbroker import BrokerConfig, EmbeddedBroker
from embedclient.model import Properties, PropertyType
from embedclient.wire.core import (
    CoreMessage,
    CreateQueueV2,
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


def run_client(size: int, port: int) -> None:
    client = Client(port)
    client.send(SessionStart(), CreateQueueV2("q", "q", None, True, False, True, False, 1))
    client.wait(NullResponse)
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


async def run_broker(size_mib: str) -> None:
    with tempfile.TemporaryDirectory() as directory:
        async with EmbeddedBroker(BrokerConfig(data_directory=directory, port=0)) as broker:
            before = memory_mib("VmRSS")
            await trio.run_process([sys.executable, __file__, size_mib, str(broker.port)])
            sys.stdout.write(f"{memory_mib('VmHWM') - before:.1f}\n")


if __name__ == "__main__":
    if len(sys.argv) > 2:
        run_client(int(sys.argv[1]) * MIB, int(sys.argv[2]))
    else:
        trio.run(run_broker, sys.argv[1])
