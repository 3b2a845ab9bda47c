"""What a connection costs: one step for each read, one write for each answer, a task only for a full pipe."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import cast

import pytest
import trio
import trio.testing

from embedbroker import BrokerConfig
from embedbroker.config import Role
from embedbroker.node import Accepted, BytesReceived, Input, Node, Output, PeerClosed, SendBytes, Written
from embedbroker.runtime._host import Host
from embedclient.model import Instant
from embedclient.transport import ByteStream, Listener

KIB = 1024


class AnswerPerRead:
    """A node that answers each read with a few bytes, and keeps everything it received."""

    config = BrokerConfig()

    def __init__(self, answer: bytes) -> None:
        self.inputs: list[Input] = []
        self._answer = answer

    def step(self, event: Input, now: Instant) -> Sequence[Output]:
        self.inputs.append(event)
        return [SendBytes(event.connection, self._answer)] if isinstance(event, BytesReceived) else []

    def next_deadline(self) -> float | None:
        return None


class CountedStream:
    """A pipe whose peer has sent some bytes already, and that takes so many at once before it is full."""

    peer = "counted"

    def __init__(self, incoming: int, room: int) -> None:
        self.unread = incoming
        self.room = room
        self.asked: list[int] = []
        self.writes: list[int] = []
        self.drained = trio.Event()
        self._closed = trio.Event()

    def send_nowait(self, data: bytes | bytearray | memoryview) -> int:
        taken = min(len(data), self.room)
        self.room -= taken
        self.writes.append(taken)
        return taken

    async def wait_writable(self) -> None:
        await self.drained.wait()

    async def receive(self, max_bytes: int) -> bytes:
        await trio.lowlevel.checkpoint()
        self.asked.append(max_bytes)
        if not self.unread:
            await self._closed.wait()
        count = min(max_bytes, self.unread)
        self.unread -= count
        return b"x" * count

    def close(self) -> None:
        self._closed.set()


class OneConnection:
    """A listener with a single peer."""

    port = 0
    address = "counted"

    def __init__(self, stream: ByteStream) -> None:
        self._streams = [stream]

    async def accept(self) -> ByteStream:
        if not self._streams:
            await trio.sleep_forever()
        return self._streams.pop()

    def close(self) -> None:
        pass


async def serve(nursery: trio.Nursery, node: AnswerPerRead, stream: CountedStream) -> int:
    """Serve the stream until nothing goes on; returns how many tasks that has added beside the reader."""

    def on_role(role: Role, in_sync: bool) -> None:
        pass

    host = Host(cast(Node, node), nursery, None, None, logging.getLogger("test"), on_role)
    host.ready.set()
    host.start()
    listener: Listener = OneConnection(stream)
    nursery.start_soon(host.serve, listener, 0)
    before = len(nursery.child_tasks)
    await trio.testing.wait_all_tasks_blocked()
    return len(nursery.child_tasks) - before - 1


def sizes(node: AnswerPerRead) -> list[int]:
    return [len(event.data) for event in node.inputs if isinstance(event, BytesReceived)]


async def test_a_read_of_up_to_256_kib_is_one_step_and_one_write() -> None:
    node, stream = AnswerPerRead(b"answer"), CountedStream(600 * KIB, room=1000)
    async with trio.open_nursery() as nursery:
        added = await serve(nursery, node, stream)
        nursery.cancel_scope.cancel()
    assert sizes(node) == [256 * KIB, 256 * KIB, 88 * KIB]
    assert stream.asked == [256 * KIB] * 4  # the last one waits
    assert stream.writes == [6, 6, 6]
    assert added == 0, "a pipe that takes everything needs no writer"
    # No step is for what a write took: that is reported in larger sums.
    assert [type(event) for event in node.inputs[1:5]] == [Accepted, BytesReceived, BytesReceived, BytesReceived]


async def test_writes_are_reported_in_sums() -> None:
    node, stream = AnswerPerRead(bytes(80 * KIB)), CountedStream(4 * 256 * KIB, room=10**9)
    async with trio.open_nursery() as nursery:
        await serve(nursery, node, stream)
        nursery.cancel_scope.cancel()
    assert stream.writes == [80 * KIB] * 4
    assert [event.count for event in node.inputs if isinstance(event, Written)] == [160 * KIB] * 2


@pytest.mark.parametrize("room", [0, 2, 7], ids=["none", "a part", "the first and a part"])
async def test_a_full_pipe_gets_one_writer_until_it_is_drained(room: int) -> None:
    node, stream = AnswerPerRead(b"answer"), CountedStream(3 * 256 * KIB, room=room)
    async with trio.open_nursery() as nursery:
        assert await serve(nursery, node, stream) == 1
        assert sum(stream.writes) == room
        tasks = len(nursery.child_tasks)
        stream.room = 10**6
        stream.drained.set()
        await trio.testing.wait_all_tasks_blocked()
        assert len(nursery.child_tasks) == tasks - 1, "the writer goes when nothing is unsent"
        assert sum(stream.writes) == 18
        nursery.cancel_scope.cancel()
    assert not any(isinstance(event, PeerClosed) for event in node.inputs)
