"""What only locks in files can meet: other processes, kills, freezes, copies, and hands of an operator."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from embedbroker.locks import (
    Acquire,
    ClaimState,
    LiveState,
    Lock,
    LockFault,
    ReadHolder,
    ReadRecord,
    StoreRecord,
    Verify,
    WriteRecord,
)
from embedbroker.runtime._file_locks import RECORD_FILE, FileLocks

from .claimants import Group

HOLD = """
import sys
from embedbroker.locks import Acquire, Lock
from embedbroker.runtime._file_locks import FileLocks
session = FileLocks(sys.argv[1]).open("broker 'other'")
print(session.run((Acquire(Lock.LIVE),)), flush=True)
sys.stdin.read()
"""


@contextmanager
def another_holder(directory: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the live lock."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(directory)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None and process.stdout is not None
    with process.stdin, process.stdout:
        assert process.stdout.readline() == "(True,)\n"
        yield process
        process.kill()
        process.wait()


def test_a_killed_process_has_given_its_locks_back(tmp_path: Path) -> None:
    mine = FileLocks(tmp_path).open("mine")
    with another_holder(tmp_path) as process:
        answer = mine.run((Acquire(Lock.LIVE), ReadHolder(Lock.LIVE)))
        assert answer == (False, f"broker 'other' in process {process.pid}")
        process.kill()
        process.wait()
        assert mine.run((ReadHolder(Lock.LIVE), Acquire(Lock.LIVE))) == (None, True)
    mine.close()


def test_a_frozen_process_keeps_its_locks(tmp_path: Path) -> None:
    mine = FileLocks(tmp_path).open("mine")
    with another_holder(tmp_path) as process:
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)
        assert mine.run((Acquire(Lock.LIVE),)) == (False,)
        process.send_signal(signal.SIGCONT)
        assert mine.run((Acquire(Lock.LIVE),)) == (False,)
    mine.close()


def test_a_lock_file_that_somebody_removed_is_a_lost_lock(tmp_path: Path) -> None:
    first, second = FileLocks(tmp_path).open("first"), FileLocks(tmp_path).open("second")
    first.run((Acquire(Lock.LIVE),))
    assert second.run((Acquire(Lock.LIVE),)) == (False,)
    (tmp_path / "live.lock").unlink()
    assert first.run((Verify(Lock.LIVE),)) == (False,)
    assert second.run((Acquire(Lock.LIVE), Verify(Lock.LIVE))) == (True, True)
    first.close()
    second.close()


def test_a_lock_is_taken_on_the_file_that_has_the_name(tmp_path: Path) -> None:
    """One looked, the file was removed, another one made a new file: both must mean that one."""
    first, second = FileLocks(tmp_path).open("first"), FileLocks(tmp_path).open("second")
    assert first.run((ReadHolder(Lock.LIVE),)) == (None,)
    (tmp_path / "live.lock").unlink()
    assert second.run((Acquire(Lock.LIVE),)) == (True,)
    assert first.run((Acquire(Lock.LIVE),)) == (False,)
    first.close()
    second.close()


@pytest.mark.parametrize("keep", [False, True], ids=["copy", "copy with times and rights"])
def test_a_copied_directory_is_seen(tmp_path: Path, keep: bool) -> None:
    session = FileLocks(tmp_path / "original").open("first")
    record = StoreRecord(LiveState.PAUSED, "a node", 7)
    session.run((Acquire(Lock.LIVE), WriteRecord(record)))
    session.close()
    shutil.copytree(tmp_path / "original", tmp_path / "copy", copy_function=shutil.copy2 if keep else shutil.copyfile)
    (tmp_path / "original").rename(tmp_path / "moved")
    copy, moved = FileLocks(tmp_path / "copy").open("copy"), FileLocks(tmp_path / "moved").open("moved")
    assert copy.run((ReadRecord(),)) == (StoreRecord(LiveState.PAUSED, "a node", 7, copied=True),)
    assert moved.run((ReadRecord(),)) == (record,)
    copy.run((Acquire(Lock.LIVE), WriteRecord(record)))
    assert copy.run((ReadRecord(),)) == (record,)
    copy.close()
    moved.close()


@pytest.mark.parametrize("text", ["", "state: active\n", "state: resting\nnode: a\njournal: 1\nfile: 2\n", "\0" * 512])
def test_a_damaged_record_is_named_with_what_to_do(tmp_path: Path, text: str) -> None:
    (tmp_path / RECORD_FILE).write_text(text)
    session = FileLocks(tmp_path).open("first")
    with pytest.raises(LockFault, match=rf"{tmp_path / RECORD_FILE} is damaged: remove it"):
        session.run((ReadRecord(),))
    session.close()


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LockFault, match=rf"cannot make the lock directory {tmp_path / 'file' / 'locks'}: Not a dir"):
        FileLocks(tmp_path / "file" / "locks").open("first")


def test_a_directory_that_is_gone_is_named(tmp_path: Path) -> None:
    session = FileLocks(tmp_path / "locks").open("first")
    (tmp_path / "locks").rmdir()
    with pytest.raises(LockFault, match=rf"cannot use the lock directory {tmp_path / 'locks'}: No such file"):
        session.run((Acquire(Lock.LIVE),))
    session.close()


@pytest.mark.parametrize("call", ["pwrite", "ftruncate", "fstat"])
def test_a_lock_that_cannot_be_noted_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    def full(*_arguments: object) -> None:
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    first, second = FileLocks(tmp_path).open("first"), FileLocks(tmp_path).open("second")
    with monkeypatch.context() as patched, pytest.raises(LockFault, match="Disk quota exceeded"):
        patched.setattr(os, call, full)
        first.run((Acquire(Lock.LIVE),))
    assert second.run((ReadHolder(Lock.LIVE), Acquire(Lock.LIVE))) == (None, True)
    assert first.run((Verify(Lock.LIVE),)) == (False,)
    first.close()
    second.close()


def test_a_lock_is_asked_for_again_when_it_is_verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that was away may have given it to another machine."""
    session = FileLocks(tmp_path).open("first")
    session.run((Acquire(Lock.LIVE),))
    assert session.run((Verify(Lock.LIVE),)) == (True,)

    def taken(_descriptor: int, _kind: int) -> None:
        raise BlockingIOError

    with monkeypatch.context() as patched:
        patched.setattr("fcntl.flock", taken)
        assert session.run((Verify(Lock.LIVE),)) == (False,)
        with pytest.raises(LockFault, match="the live lock is not held"):
            session.run((WriteRecord(StoreRecord(LiveState.ACTIVE, "a node", 7)),))
    session.close()


def test_a_record_that_somebody_removed_under_a_live_broker_is_written_again(tmp_path: Path) -> None:
    group = Group(locks=FileLocks(tmp_path))  # type: ignore[arg-type]  # sessions are all it opens
    primary = group.primary()
    (tmp_path / RECORD_FILE).unlink()
    group.wait(0.6)
    assert group.record() == StoreRecord(LiveState.ACTIVE, "node of p", 7)
    shutil.copy(tmp_path / RECORD_FILE, tmp_path / "copy")
    (tmp_path / "copy").rename(tmp_path / RECORD_FILE)
    group.wait(0.6)
    assert group.record() == StoreRecord(LiveState.ACTIVE, "node of p", 7) and primary.stands(ClaimState.LIVE)
    (tmp_path / RECORD_FILE).write_text("scribble")
    group.wait(0.6)
    assert f"{tmp_path / RECORD_FILE} is damaged: remove it" in primary.failure


def test_a_record_without_a_life_is_one_from_before_and_may_be_replaced(tmp_path: Path) -> None:
    (tmp_path / RECORD_FILE).write_text("")
    inode = (tmp_path / RECORD_FILE).stat().st_ino
    (tmp_path / RECORD_FILE).write_text(f"state: paused\nnode: a node\njournal: 7\nfile: {inode}\n")
    session = FileLocks(tmp_path).open("first")
    assert session.run((ReadRecord(),)) == (StoreRecord(LiveState.PAUSED, "a node", 7),)
    session.run((Acquire(Lock.LIVE), WriteRecord(StoreRecord(LiveState.ACTIVE, "a node", 7, life=3), over=None)))
    session.close()
