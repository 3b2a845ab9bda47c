"""What locks and leases in files have in common: file systems that hang, or have no locks, or may not be written to."""

from __future__ import annotations

import errno
import fcntl
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from embedbroker.locks import Acquire, Lock, LockFault, ReadHolder, ReadLeaseHolder, TakeLease
from embedbroker.runtime import _flocks
from embedbroker.runtime._file_leases import FileLockManager
from embedbroker.runtime._file_locks import FileLocks

PATIENCE_S = 60.0
# A driver, how it takes, how it looks, and what an operator may change.
LOCKS = (FileLocks, Acquire(Lock.LIVE), ReadHolder(Lock.LIVE), "the lock directory", "node_manager_lock_directory")
LEASES = (FileLockManager, TakeLease("node"), ReadLeaseHolder("node"), "the locks-folder", "the locks-folder")
drivers = pytest.mark.parametrize("driver", [LOCKS, LEASES], ids=["locks", "leases"])
Driver = tuple[Callable[[Path], Any], Any, Any, str, str]


def closers() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "embedbroker-locks"]


@drivers
def test_closing_a_session_does_not_wait_for_a_file_system_that_hangs(
    driver: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, take, look, _title, _setting = driver
    monkeypatch.setattr(_flocks, "CLOSED_WITHIN_S", 0.01)
    first, second = make(tmp_path).open("first"), make(tmp_path).open("second")
    first.run((take,))
    asked, comes_back = threading.Event(), threading.Event()
    faults: list[str] = []

    def hang(_flocks: object, _name: str) -> None:
        asked.set()
        comes_back.wait(PATIENCE_S)

    def ask() -> None:
        with pytest.raises(LockFault) as caught:
            first.run((look, look))
        faults.append(str(caught.value))

    with monkeypatch.context() as patched:
        patched.setattr(_flocks.Flocks, "holder_of", hang)
        batch = threading.Thread(target=ask)
        batch.start()
        assert asked.wait(PATIENCE_S)
        first.close()
        assert batch.is_alive() and second.run((take,))[0] in (False, None)
        (closer,) = closers()
        comes_back.set()
        batch.join()
        closer.join()
    assert faults == ["the session was closed"], "nothing more is done of that batch"
    assert second.run((take,))[0]
    second.close()


@drivers
def test_a_session_whose_thread_never_comes_back_is_closed_all_the_same(
    driver: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, take, look, _title, _setting = driver
    monkeypatch.setattr(_flocks, "CLOSED_WITHIN_S", 0.01)
    session = make(tmp_path).open("first")
    session.run((take,))
    asked, comes_back = threading.Event(), threading.Event()

    def hang(_flocks: object, _name: str) -> None:
        asked.set()
        comes_back.wait(PATIENCE_S)

    monkeypatch.setattr(_flocks.Flocks, "holder_of", hang)
    batch = threading.Thread(target=session.run, args=((look,),))
    batch.start()
    assert asked.wait(PATIENCE_S)
    session.close()  # the batch is in a system call that does not end
    (closer,) = closers()
    assert closer.daemon, "the process may end"
    comes_back.set()
    batch.join()
    closer.join()
    with pytest.raises(LockFault, match="the session was closed"):
        session.run((take,))


@drivers
@pytest.mark.parametrize("code", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_is_said_so(
    driver: Driver, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, take, look, title, setting = driver

    def flock(descriptor: int, kind: int) -> None:
        raise OSError(code, os.strerror(code))

    session = make(tmp_path).open("first")
    with monkeypatch.context() as patched:
        patched.setattr(fcntl, "flock", flock)
        for operation in (take, look):
            with pytest.raises(LockFault) as fault:
                session.run((operation,))
            assert str(fault.value) == (
                f"cannot use {title} {tmp_path}: {os.strerror(code)}; its file system has no locks, {setting} may be on"
                " another one"
            )
    session.close()


@drivers
@pytest.mark.parametrize("code", [errno.EACCES, errno.EPERM, errno.EROFS])
def test_a_folder_that_may_not_be_written_to_is_said_so(
    driver: Driver, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, take, _look, title, _setting = driver

    def refuse(*_arguments: object) -> int:
        raise OSError(code, os.strerror(code))

    session = make(tmp_path).open("first")
    with monkeypatch.context() as patched:
        patched.setattr(os, "open", refuse)
        with pytest.raises(LockFault) as fault:
            session.run((take,))
    assert str(fault.value) == (
        f"cannot use {title} {tmp_path}: {os.strerror(code)}; the user of this broker has to be able to write there"
    )
    assert session.run((take,))[0], "and when it may, it does"
    session.close()


def test_a_lock_directory_that_may_not_be_made_is_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object, **_options: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(LockFault, match="Permission denied; make one that this broker can write to, or set node_man"):
        FileLocks(tmp_path / "locks").open("first")
