"""When the host runs a journal batch: at once for a connection that is alone, a scheduler pass later for several."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import cast

import pytest
import trio
import trio.testing

from embedbroker import BrokerConfig
from embedbroker.config import Role
from embedbroker.node import BytesReceived, DiskDone, Input, Node, Output
from embedbroker.runtime import _disk_lanes
from embedbroker.runtime._disk_lanes import LONE_BATCHES_MIN
from embedbroker.runtime._host import Host
from embedbroker.storage import DiskOperation, DiskWork, Lane, Sync, WriteAt
from embedclient.model import Instant


class BatchPerRead:
    """A node that makes one journal batch of everything it receives, and notes when the batch is reported as stored."""

    config = BrokerConfig()
    is_running = True
    replica_disk = None

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
    """A disk that completes each request at once."""

    def run(self, operations: tuple[DiskOperation, ...]) -> tuple[object, ...]:
        return (None,) * len(operations)

    def close(self) -> None:
        pass


class TimedDisk(InstantDisk):
    """A disk whose batches take these times, by the clock that the lanes read; it notes in which thread each ran."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.times: list[float] = []
        self.threads: list[int] = []
        self._now = 0.0
        monkeypatch.setattr(_disk_lanes, "perf_counter", lambda: self._now)

    def run(self, operations: tuple[DiskOperation, ...]) -> tuple[object, ...]:
        self._now += self.times[len(self.threads)]
        self.threads.append(threading.get_ident())
        return super().run(operations)


async def stored_at_once(connections: Sequence[int], size: int = 10, disk: InstantDisk | None = None) -> list[bool]:
    """For each read of these connections: whether its batch was done before the host did anything else."""

    def on_role(role: Role, in_sync: bool) -> None:
        pass

    node = BatchPerRead()
    results = []
    async with trio.open_nursery() as nursery:
        host = Host(cast(Node, node), nursery, disk or InstantDisk(), None, logging.getLogger("test"), on_role)
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


async def test_batches_of_a_disk_that_becomes_slow_go_to_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """What counts is the average: one slow sync does not count, a second soon after does; quick ones bring it back."""
    disk = TimedDisk(monkeypatch)
    lone = [1] * (LONE_BATCHES_MIN + 2)
    disk.times = [0.0001] * len(lone) + [0.002, 0.0001] + [0.002] * 3 + [0.0001] * 40
    results = await stored_at_once([1] * len(disk.times), disk=disk)
    on_loop = [thread == threading.get_ident() for thread in disk.threads]
    one_slow = len(lone) + 2
    assert all(on_loop[:one_slow]) and all(results[len(lone) : one_slow])
    # After the next slow one the average is 0.42 ms.
    assert on_loop[one_slow : one_slow + 4] == [True, False, False, False]
    assert not results[one_slow + 1]
    assert on_loop[-30:] == [True] * 30 and all(results[-30:])


async def test_the_average_that_moves_batches_is_0_4_ms(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it stays a little below, nothing moves; a little above, nearly everything does."""
    for seconds, moved in ((0.00039, False), (0.00041, True)):
        disk = TimedDisk(monkeypatch)
        disk.times = [seconds] * 60
        await stored_at_once([1] * 60, disk=disk)
        assert (disk.threads[-1] != threading.get_ident()) is moved


@pytest.mark.parametrize("latency_s", [None, 0.0, 0.01])
async def test_a_batch_that_was_not_begun_at_a_crash_is_no_disk_that_failed(
    latency_s: float | None, autojump_clock: trio.testing.MockClock
) -> None:
    """The disk is closed with the broker. Were it asked, the node would blame it for the end in the log."""
    node, disk = BatchPerRead(), InstantDisk()
    if latency_s is not None:
        disk.loop_latency_s = latency_s  # type: ignore[attr-defined]
    async with trio.open_nursery() as nursery:
        host = Host(cast(Node, node), nursery, disk, None, logging.getLogger("test"), lambda role, in_sync: None)
        host.ready.set()
        host.start()
        await trio.testing.wait_all_tasks_blocked()
        host.feed(BytesReceived(1, b"x"))
        host.give_up()
        await trio.testing.wait_all_tasks_blocked()
        autojump_clock.jump(1)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert node.done == 0
