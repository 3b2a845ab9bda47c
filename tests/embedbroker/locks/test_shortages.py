"""A store that is short of descriptors, memory or space for a while: no right is lost by that. A clock by hand."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from embedbroker.config import HAPolicy, PrimaryOnly
from embedbroker.locks import (
    Acquire,
    AttemptResult,
    ClaimState,
    KeepLease,
    Lease,
    LeaseActivation,
    LiveState,
    Lock,
    LockFault,
    ReadHolder,
    ReadRecord,
    StoreRecord,
    TakeLease,
    Verify,
    WriteRecord,
)
from embedbroker.runtime._file_leases import FileLockManager
from embedbroker.runtime._file_locks import FileLocks
from embedbroker.testing._leases import SimulatedLockManager
from tests.embedbroker.locks.test_lease_activation import Pair

from .claimants import BACKUP, PRIMARY, Broker, Group

PASSING = [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EINTR, errno.ESTALE, errno.ENOSPC, errno.EDQUOT]
NOTED = "the lock store failed, it is asked again: too many open files"
LOOK = (Verify(Lock.LIVE), ReadHolder(Lock.FAILBACK), ReadRecord())


# -- live brokers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", [PRIMARY, BACKUP, PrimaryOnly()], ids=["primary", "backup", "alone"])
def test_a_live_broker_outlasts_a_shortage_and_confirms_nothing_that_it_is_not_sure_of(policy: HAPolicy) -> None:
    group = Group()
    group.primary("former").die()
    live = Broker(group, "p", policy).start()
    group.wait(1)
    assert live.stands(ClaimState.LIVE)
    live.claim.notes.clear()
    group.locks.short = True
    group.wait(10)
    assert live.stands(ClaimState.LIVE) and not live.claim.is_sure(group.now)
    group.locks.short = False
    group.wait(1)
    assert live.stands(ClaimState.LIVE) and live.claim.is_sure(group.now)
    assert live.notes == [NOTED]


def test_a_shortage_that_does_not_pass_ends_a_live_broker_like_a_store_that_does_not_answer() -> None:
    group = Group()
    live = group.primary()
    group.wait(1)
    group.locks.short = True
    group.wait(14)
    assert live.stands(ClaimState.LIVE)
    group.wait(3)
    assert live.failure == "too many open files"


def test_a_store_that_is_short_again_and_again_is_told_of_once_a_minute() -> None:
    group = Group()
    live = group.primary()
    group.wait(1)
    live.claim.notes.clear()
    for _second in range(50):
        group.locks.short = True
        group.wait(0.6)
        group.locks.short = False
        group.wait(0.6)
    assert live.stands(ClaimState.LIVE) and live.notes == [NOTED]
    group.locks.short = True
    group.wait(1)
    assert live.notes == [NOTED, NOTED]


def test_a_lock_that_was_lost_meanwhile_is_lost() -> None:
    group = Group()
    live = group.primary()
    group.wait(1)
    group.locks.short = True
    group.wait(5)
    group.locks.revoke(Lock.LIVE)
    group.locks.short = False
    group.wait(1)
    assert live.failure == "the live lock is lost: another broker may be live"


# -- writers of the record -------------------------------------------------------------------------------------------


def test_a_record_that_finds_no_room_is_written_when_there_is_some() -> None:
    group = Group()
    live = Broker(group, "p", PRIMARY, settles=False).start()
    group.locks.full.add("primary 'p'")
    live.settles = True
    group.wait(10)
    assert live.stands(ClaimState.SETTLING)
    group.locks.full.clear()
    group.wait(1)
    assert live.stands(ClaimState.LIVE) and group.record() == StoreRecord(LiveState.ACTIVE, "node of p", 7)


def test_a_stop_waits_for_room_a_moment_only() -> None:
    group = Group()
    live = group.primary()
    group.locks.full.add("primary 'p'")
    live.stop()
    group.wait(1)
    assert live.stands(ClaimState.LEAVING)
    group.wait(3)
    assert live.stands(ClaimState.OVER)
    assert live.notes[-1] == "the lock store does not know of this stop: no space left in the lock directory"


def test_a_stop_while_a_record_finds_no_room_writes_what_is_newer() -> None:
    group = Group()
    live = Broker(group, "p", PRIMARY, settles=False).start()
    group.locks.full.add("primary 'p'")
    live.settles = True
    group.wait(1)
    live.stop()
    group.locks.full.clear()
    group.wait(1)
    assert live.stands(ClaimState.OVER) and group.record() == StoreRecord(LiveState.PAUSED, "node of p", 7)


# -- waiting brokers -------------------------------------------------------------------------------------------------


def test_a_backup_that_finds_no_room_when_it_takes_over_waits_on_and_is_live_when_there_is_some() -> None:
    group = Group()
    primary, backup = group.primary(), group.backup("a")
    group.wait(1)
    group.locks.full.add("backup 'a'")
    primary.die()
    group.wait(50)
    assert backup.stands(ClaimState.WAITING) and group.locks.holder(Lock.LIVE) is None
    said = "the lock store failed, it is asked again: no space left in the lock directory"
    assert backup.notes.count(said) == 1
    group.locks.full.clear()
    group.wait(3)
    assert backup.stands(ClaimState.LIVE) and group.record() == StoreRecord(LiveState.ACTIVE, "node of p", 7)


def test_a_backup_that_has_room_takes_over_from_one_that_has_none() -> None:
    group = Group()
    primary, first, second = group.primary(), group.backup("a"), group.backup("b")
    group.wait(1)
    group.locks.full.add("backup 'a'")
    primary.die()
    group.wait(15)
    assert (first.state, second.state) == (ClaimState.WAITING, ClaimState.LIVE)


def test_a_primary_comes_before_a_backup_that_finds_no_room() -> None:
    group = Group()
    primary, backup = group.primary(), group.backup("a")
    group.wait(1)
    group.locks.full.add("backup 'a'")
    primary.die()
    group.wait(5)
    returned = group.primary()
    group.wait(5)
    assert (returned.state, backup.state) == (ClaimState.LIVE, ClaimState.WAITING)


def test_a_backup_that_starts_while_the_store_is_short_waits_and_a_primary_not_for_ever() -> None:
    group = Group()
    group.locks.short = True
    backup, primary = group.backup(), group.primary()
    group.wait(14)
    assert (backup.state, primary.state) == (ClaimState.REQUESTING, ClaimState.REQUESTING)
    group.wait(60)
    assert backup.stands(ClaimState.REQUESTING) and primary.failure == "too many open files"
    group.locks.short = False
    group.wait(3)
    assert backup.stands(ClaimState.WAITING)


# -- leases ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lasts_s", [None, 9.0], ids=["without an end", "with an end"])
def test_a_lease_outlasts_a_shortage_and_not_one_that_does_not_pass(lasts_s: float | None) -> None:
    pair = Pair(lasts_s)
    live = pair.broker("a")
    assert live.tries() is AttemptResult.GRANTED
    inner, short = live.session, True

    class Short:
        immediate = True

        def run(self, operations: Any) -> Any:
            if short and isinstance(operations[0], KeepLease):
                raise LockFault("too many open files", passes=True)
            return inner.run(operations)

        def close(self) -> None:
            inner.close()

    live.session = Short()
    pair.wait(5.0)
    assert live.failure() is None
    short = False
    pair.wait(20.0)
    assert live.failure() is None
    short = True
    pair.wait(17.0)
    assert live.failure() is not None


def test_a_lease_that_cannot_be_kept_for_another_reason_ends_at_once() -> None:
    activation = LeaseActivation("node")
    session = SimulatedLockManager(lambda: 0.0).open("mine")
    activation.try_to_activate(0, 0.0)
    while activation.is_busy:
        activation.on_time(0.0)
        number = activation.epoch_to_write()
        if number is not None:
            activation.on_written(number)
        work = activation.take_work(0.0)
        if work is not None:
            activation.on_done(work.batch, session.run(work.operations), 0.0)
    assert activation.holds
    due = activation.next_deadline()
    assert due is not None
    work = activation.take_work(due)
    assert work is not None and work.operations == (KeepLease("node"),)
    activation.on_failed(work.batch, LockFault("damaged"), due)
    assert activation.failure == "damaged"


# -- files -----------------------------------------------------------------------------------------------------------


def refusing(code: int, patched: pytest.MonkeyPatch) -> None:
    def refuse(path: object, *_arguments: object) -> int:
        raise OSError(code, os.strerror(code), str(path))

    patched.setattr(os, "open", refuse)


@pytest.mark.parametrize("code", PASSING)
def test_what_the_operating_system_is_short_of_passes(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = FileLocks(tmp_path).open("a")
    with monkeypatch.context() as patched, pytest.raises(LockFault) as caught:
        refusing(code, patched)
        session.run((Acquire(Lock.LIVE),))
    assert caught.value.passes
    assert session.run((Acquire(Lock.LIVE),)) == (True,)
    session.close()


@pytest.mark.parametrize("code", PASSING)
def test_a_lease_that_cannot_be_looked_at_for_a_moment_passes(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = FileLockManager(tmp_path).open("a")
    session.run((TakeLease("node"),))
    with monkeypatch.context() as patched, pytest.raises(LockFault) as caught:
        patched.setattr(os, "stat", refusing_stat(code))
        session.run((KeepLease("node"),))
    assert caught.value.passes
    assert session.run((KeepLease("node"),)) == (Lease(),)
    session.close()


def refusing_stat(code: int) -> Any:
    def refuse(path: object, *_arguments: object, **_options: object) -> None:
        raise OSError(code, os.strerror(code), str(path))

    return refuse


@pytest.mark.parametrize("code", [errno.EIO, errno.EACCES, errno.ENOLCK, errno.EROFS])
def test_what_does_not_pass_is_said_so(code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = FileLocks(tmp_path).open("a")
    with monkeypatch.context() as patched, pytest.raises(LockFault) as caught:
        refusing(code, patched)
        session.run((Acquire(Lock.LIVE),))
    assert not caught.value.passes
    session.close()


def test_a_live_broker_looks_without_a_descriptor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also at a lock that was never taken, whose file is not there."""
    session = FileLocks(tmp_path).open("a")
    record = StoreRecord(LiveState.ACTIVE, "a node", 7, life=1)
    session.run((Acquire(Lock.LIVE), WriteRecord(record)))
    with monkeypatch.context() as patched:
        refusing(errno.EMFILE, patched)
        assert session.run(LOOK) == (True, None, record)
    assert session.run(LOOK) == (True, None, record)
    other = FileLocks(tmp_path).open("b")
    other.run((Acquire(Lock.FAILBACK),))
    with monkeypatch.context() as patched:
        refusing(errno.EMFILE, patched)
        held, waiting, read = session.run(LOOK)
        assert held and str(waiting).startswith("b in process") and read == record
        # Another life wrote the record: what was open before is not looked at.
        (tmp_path / "node.state").rename(tmp_path / "kept")
        (tmp_path / "node.state").write_text("state: active\n")
        with pytest.raises(LockFault) as caught:
            session.run(LOOK)
        assert caught.value.passes
    session.close()
    other.close()


def test_a_record_whose_writing_failed_at_the_end_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has its name, and no caller has the answer that it survives a power cut."""
    session = FileLocks(tmp_path).open("a")
    former, record = StoreRecord(LiveState.ACTIVE, "n", 7, life=1), StoreRecord(LiveState.ACTIVE, "n", 7, life=2)
    session.run((Acquire(Lock.LIVE), WriteRecord(former)))
    with monkeypatch.context() as patched, pytest.raises(LockFault) as caught:

        def refuse(folder: Path) -> None:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(folder))

        patched.setattr("embedbroker.runtime._file_locks.sync_directory", refuse)
        session.run((WriteRecord(record, over=1),))
    assert caught.value.passes
    assert session.run((WriteRecord(record, over=1), ReadRecord())) == (None, record)
    session.close()
