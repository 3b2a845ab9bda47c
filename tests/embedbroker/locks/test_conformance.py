"""One suite for everything that is a lock store: memory, files, and the simulated twin."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from embedbroker.locks import (
    Acquire,
    LiveState,
    Lock,
    LockFault,
    Locks,
    LockSession,
    MemoryLocks,
    ReadHolder,
    ReadRecord,
    Release,
    StoreRecord,
    Verify,
    WriteRecord,
)
from embedbroker.runtime._file_locks import FileLocks
from embedbroker.testing._locks import SimulatedLocks

Open = Callable[[str], LockSession]


@pytest.fixture(params=["memory", "files", "simulated"])
def locks(request: pytest.FixtureRequest, tmp_path: Path) -> Locks:
    if request.param == "memory":
        return MemoryLocks()
    return FileLocks(tmp_path / "made" / "for it") if request.param == "files" else SimulatedLocks()


def test_a_lock_has_one_holder_until_it_gives_it_back(locks: Locks) -> None:
    first, second = locks.open("first"), locks.open("second")
    assert first.run((Acquire(Lock.LIVE),)) == (True,)
    assert second.run((Acquire(Lock.LIVE), Acquire(Lock.LIVE))) == (False, False)
    assert first.run((Release(Lock.LIVE),)) == (None,)
    assert second.run((Acquire(Lock.LIVE),)) == (True,)
    assert first.run((Acquire(Lock.LIVE),)) == (False,)
    first.close()
    second.close()


def test_locks_are_independent_of_each_other(locks: Locks) -> None:
    first, second = locks.open("first"), locks.open("second")
    assert first.run((Acquire(Lock.LIVE), Acquire(Lock.FAILBACK))) == (True, True)
    assert second.run((Acquire(Lock.BACKUP), Acquire(Lock.FAILBACK))) == (True, False)
    first.run((Release(Lock.LIVE),))
    assert second.run((Acquire(Lock.FAILBACK), Acquire(Lock.LIVE))) == (False, True)
    first.close()
    second.close()


def test_who_holds_a_lock_has_it_and_may_ask_again(locks: Locks) -> None:
    session = locks.open("first")
    assert session.run((Acquire(Lock.LIVE), Acquire(Lock.LIVE), Verify(Lock.LIVE))) == (True, True, True)
    session.close()


def test_giving_back_what_is_not_held_is_no_fault_and_takes_nothing_from_others(locks: Locks) -> None:
    first, second = locks.open("first"), locks.open("second")
    first.run((Acquire(Lock.LIVE),))
    assert second.run((Release(Lock.LIVE), Release(Lock.BACKUP))) == (None, None)
    assert first.run((Verify(Lock.LIVE),)) == (True,)
    assert second.run((Acquire(Lock.LIVE), Verify(Lock.LIVE))) == (False, False)
    first.close()
    second.close()


def test_the_holder_is_named_to_everybody_and_looking_takes_nothing(locks: Locks) -> None:
    first, second, third = locks.open("broker 'a'"), locks.open("broker 'b'"), locks.open("broker 'c'")
    assert second.run((ReadHolder(Lock.LIVE),)) == (None,)
    first.run((Acquire(Lock.LIVE),))
    for session in (first, second, third):
        (holder,) = session.run((ReadHolder(Lock.LIVE),))
        assert str(holder).startswith("broker 'a'")
    first.run((Release(Lock.LIVE),))
    assert second.run((ReadHolder(Lock.LIVE),)) == (None,)
    third.run((Acquire(Lock.LIVE),))
    (holder,) = second.run((ReadHolder(Lock.LIVE),))
    assert str(holder).startswith("broker 'c'")
    for session in (first, second, third):
        session.close()


def test_a_session_that_ends_has_given_everything_back_and_the_record_stays(locks: Locks) -> None:
    first, second = locks.open("first"), locks.open("second")
    record = StoreRecord(LiveState.ACTIVE, "a node", 5)
    first.run((Acquire(Lock.LIVE), Acquire(Lock.BACKUP), WriteRecord(record)))
    first.close()
    first.close()
    assert second.run((Acquire(Lock.LIVE), Acquire(Lock.BACKUP), ReadRecord())) == (True, True, record)
    second.close()


def test_a_closed_session_does_nothing_more(locks: Locks) -> None:
    first, second = locks.open("first"), locks.open("second")
    first.close()
    with pytest.raises(LockFault, match="closed"):
        first.run((Acquire(Lock.LIVE),))
    assert second.run((Acquire(Lock.LIVE),)) == (True,)
    second.close()


def test_the_record_of_an_empty_store_says_nothing(locks: Locks) -> None:
    session = locks.open("first")
    assert session.run((ReadRecord(),)) == (StoreRecord(LiveState.NOT_STARTED, None, None, copied=False),)
    session.close()


@pytest.mark.parametrize("state", LiveState)
def test_everybody_reads_what_was_written_last(locks: Locks, state: LiveState) -> None:
    first, second = locks.open("first"), locks.open("second")
    first.run((Acquire(Lock.LIVE),))
    for record in (
        StoreRecord(LiveState.ACTIVE, "a longer text than the one that replaces it", 2**63 - 1),
        StoreRecord(state, "a node", None, life=2**63 - 1),
        StoreRecord(state, "a node", 5, life=2**63 - 1, last_batch=0),
        StoreRecord(state, "a node", 5, life=2**63 - 1, last_batch=2**63 - 1),
        StoreRecord(state, None, None),
    ):
        assert first.run((WriteRecord(record, over=2**63 - 1), ReadRecord())) == (None, record)
        assert second.run((ReadRecord(),)) == (record,)
    first.close()
    second.close()


def test_nobody_writes_the_record_without_the_live_lock(locks: Locks) -> None:
    first, second = locks.open("first"), locks.open("second")
    record = StoreRecord(LiveState.ACTIVE, "a node", 5)
    first.run((Acquire(Lock.LIVE), WriteRecord(record), Release(Lock.LIVE)))
    for session in (first, second):
        session.run((Acquire(Lock.BACKUP), Acquire(Lock.FAILBACK)))
        with pytest.raises(LockFault, match="the live lock is not held"):
            session.run((WriteRecord(StoreRecord(LiveState.PAUSED, "another", 6)),))
    assert second.run((ReadRecord(),)) == (record,)
    first.close()
    second.close()


def test_the_record_of_another_life_is_replaced_only_by_who_knows_it(locks: Locks) -> None:
    """Where locks do not reach every machine, two may hold them; the record is what both see."""
    session = locks.open("first")
    session.run((Acquire(Lock.LIVE), WriteRecord(StoreRecord(LiveState.ACTIVE, "a node", 5, life=1))))
    newer = StoreRecord(LiveState.ACTIVE, "a node", 5, life=2)
    for life in (None, 2, 3):
        with pytest.raises(LockFault, match="another broker was made live on the same store"):
            session.run((WriteRecord(newer, over=life),))
    assert session.run((WriteRecord(newer, over=1), ReadRecord())) == (None, newer)
    session.close()
