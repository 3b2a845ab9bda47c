"""When the host runs a journal batch: at once for a connection that is alone, a scheduler pass later for several."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import cast

import trio
import trio.testing

from embedbroker import BrokerConfig
from embedbroker.config import Role
from embedbroker.node import BytesReceived, DiskDone, Input, Node, Output
from embedbroker.runtime._disk_lanes import LONE_BATCHES_MIN
from embedbroker.runtime._host import Host
from embedbroker.storage import DiskOperation, DiskWork, Lane, Sync, WriteAt
from embedclient.model import Instant


class BatchPerRead:
    """A node that makes one journal batch of everything it is sent, and notes when it is told that it is stored."""

    config = BrokerConfig()
    is_running = True

    def __init__(self) -> None:
        self.done = 0
        self.stored = trio.Event()
        self._batches = 0

    def step(self, event: Input, now: Instant) -> Sequence[Output]:
        if isinstance(event, DiskDone):
            self.done += 1
            self.stored.set()
        if not isinstance(event, BytesReceived):
            return []
        self._batches += 1
        return [DiskWork(Lane.JOURNAL, self._batches, (WriteAt("journal", 0, (event.data,)), Sync("journal")))]

    def next_deadline(self) -> float | None:
        return None


class InstantDisk:
    """A disk that is done as soon as it is asked."""

    def run(self, operations: tuple[DiskOperation, ...]) -> tuple[object, ...]:
        return (None,) * len(operations)

    def close(self) -> None:
        pass


async def stored_at_once(connections: Sequence[int], size: int = 10) -> list[bool]:
    """For each read of these connections: whether its batch was done before the host did anything else."""

    def on_role(role: Role, in_sync: bool) -> None:
        pass

    node = BatchPerRead()
    results = []
    async with trio.open_nursery() as nursery:
        host = Host(cast(Node, node), nursery, InstantDisk(), None, logging.getLogger("test"), on_role)
        host.ready.set()
        host.start()
        for count, connection in enumerate(connections, 1):
            host.feed(BytesReceived(connection, b"x" * size))
            results.append(node.done == count)
            await node.stored.wait()
            node.stored = trio.Event()
            await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    return results


async def test_a_lone_connection_does_not_wait_for_others() -> None:
    results = await stored_at_once([1] * (LONE_BATCHES_MIN + 5))
    assert results == [False] * (LONE_BATCHES_MIN + 1) + [True] * 4


async def test_connections_that_take_turns_share_batches() -> None:
    assert not any(await stored_at_once([1, 2] * 20))


async def test_a_second_connection_ends_it() -> None:
    results = await stored_at_once([1] * (LONE_BATCHES_MIN + 2) + [2, 1, 1])
    assert results[-4:] == [True, False, False, False]


async def test_a_large_batch_goes_to_a_thread() -> None:
    assert not any(await stored_at_once([1] * (LONE_BATCHES_MIN + 5), size=100_000))
