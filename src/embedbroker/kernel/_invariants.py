"""Invariants that must hold in a kernel between two steps.

A violation is a bug of the broker, never of a client: the checks are assertions.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._memory import MemoryAccount
    from .queueing._queue import Queue
    from .transactions._visibility import VisibilityQueue

__all__ = ["check_memory", "check_queue", "check_visibility"]


def check_queue(queue: Queue) -> None:
    """Raise AssertionError if the counters of a queue do not agree with what it holds."""
    name = queue.name
    queue.backlog.check()
    queue.dispatcher.check()
    held = sum([len(consumer.unsettled) for consumer in queue.consumers])
    assert 0 <= held <= queue.delivering_count, (name, held, queue.delivering_count)
    assert queue.waiting_visible >= 0, (name, queue.waiting_visible)
    assert queue.pledged >= 0, (name, queue.pledged)
    assert queue.acknowledged_count >= 0, (name, queue.acknowledged_count)
    assert queue.withdrawn_count >= 0, (name, queue.withdrawn_count)


def check_memory(memory: MemoryAccount) -> None:
    """Raise AssertionError if the sums of memory do not agree."""
    statistics = memory.statistics()
    by_address = sum(statistics.by_address.values())
    assert 0 <= statistics.used_bytes == by_address, (statistics.used_bytes, by_address)
    assert statistics.large_bodies.keys() <= statistics.shared.keys(), statistics.large_bodies
    assert all(queues > 0 for queues in statistics.shared.values()), statistics.shared
    assert statistics.reserved_bytes >= 0, statistics.reserved_bytes
    assert not statistics.homes or statistics.used_bytes, statistics.homes


def check_visibility(visibility: VisibilityQueue) -> None:
    """Raise AssertionError if messages could become visible out of order."""
    pending = visibility.pending
    points = [entry[0] for entry in pending]
    assert points == sorted(points), points
    assert visibility.next_point == (points[0] if points else math.inf), (visibility.next_point, points[:1])
