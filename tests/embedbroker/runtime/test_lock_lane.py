"""When the loop waits for a lock store: only if the store is quick, and never for a write."""

from __future__ import annotations

import time

import pytest

from embedbroker.locks import Acquire, Lock, LockFault, LockOperation, LockWork, MemoryLocks, StoreRecord, WriteRecord
from embedbroker.node import LockDone, LockFailed
from embedbroker.runtime._lock_lane import LockLane

QUESTION = LockWork(1, (Acquire(Lock.LIVE),))
WRITE = LockWork(2, (WriteRecord(StoreRecord()), Acquire(Lock.LIVE)))


class Store:
    """A session that takes its time, by a separate clock."""

    immediate = False

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seconds = 0.0
        self.takes_s = 0.0001
        self.fault: LockFault | None = None
        monkeypatch.setattr(time, "perf_counter", lambda: self.seconds)

    def run(self, operations: tuple[LockOperation, ...]) -> tuple[object, ...]:
        self.seconds += self.takes_s
        if self.fault is not None:
            raise self.fault
        return (True,) * len(operations)

    def close(self) -> None:
        pass


def test_a_store_has_to_show_that_it_is_quick_and_a_slow_one_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(monkeypatch)
    lane = LockLane(store)
    assert not lane.is_quick(QUESTION)
    for _ in range(40):
        assert lane.run(QUESTION) == LockDone(1, (True,))
    assert lane.is_quick(QUESTION) and not lane.is_quick(WRITE)
    store.takes_s = 1.0
    lane.run(WRITE)
    assert lane.is_quick(QUESTION), "a write says nothing about questions"
    lane.run(QUESTION)
    assert not lane.is_quick(QUESTION)


def test_a_store_in_memory_is_asked_on_the_loop_at_once() -> None:
    lane = LockLane(MemoryLocks().open("a"))
    assert lane.is_quick(QUESTION) and lane.is_quick(WRITE)


def test_a_fault_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(monkeypatch)
    store.fault = LockFault("away")
    assert LockLane(store).run(QUESTION) == LockFailed(1, store.fault)
