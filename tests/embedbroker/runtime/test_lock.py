"""A directory belongs to one broker at a time, whether the second one is in this process or in another."""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from embedbroker.config import BrokerConfig
from embedbroker.runtime._directory import open_directory
from embedbroker.runtime._lock import LOCK_FILE, DirectoryLock, DirectoryLocked
from embedbroker.storage import WriteAt
from embedclient.errors import ResourceAllocationException

HOLD = """
import sys
from pathlib import Path
from embedbroker.runtime._lock import DirectoryLock
lock = DirectoryLock.acquire(Path(sys.argv[1]), "the other")
print("locked", flush=True)
sys.stdin.read()
"""


def test_a_second_broker_of_this_process_is_refused_with_the_name_of_the_first(tmp_path: Path) -> None:
    lock = DirectoryLock.acquire(tmp_path, "first one")
    with pytest.raises(DirectoryLocked) as refused:
        DirectoryLock.acquire(tmp_path, "second")
    lock.release()
    assert str(refused.value) == f"directory {tmp_path} is used by broker 'first one' in this process ({os.getpid()})"


def test_a_released_directory_can_be_locked_again(tmp_path: Path) -> None:
    first = DirectoryLock.acquire(tmp_path, "a broker with a long name")
    first.release()
    first.release()
    second = DirectoryLock.acquire(tmp_path, "b")
    assert (tmp_path / LOCK_FILE).read_text() == f"{os.getpid()} b\n"
    second.release()


def test_a_broker_in_another_process_is_refused_until_that_one_is_killed(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None and process.stdout is not None
    with process.stdin, process.stdout:
        assert process.stdout.readline() == "locked\n"
        with pytest.raises(DirectoryLocked, match=f"broker 'the other' in process {process.pid}"):
            DirectoryLock.acquire(tmp_path, "mine")
        process.kill()
        process.wait()
    DirectoryLock.acquire(tmp_path, "mine").release()


@pytest.mark.parametrize("text", ["", "\u00b2 squared", "\x00"])
def test_a_holder_that_wrote_nothing_readable_is_still_a_holder(tmp_path: Path, text: str) -> None:
    lock = DirectoryLock.acquire(tmp_path, "first")
    (tmp_path / LOCK_FILE).write_text(text)
    with pytest.raises(DirectoryLocked, match="is used by another broker"):
        DirectoryLock.acquire(tmp_path, "second")
    lock.release()


def test_a_directory_that_is_not_there_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        DirectoryLock.acquire(tmp_path / "missing", "name")


def test_readers_share_a_directory_and_keep_brokers_out(tmp_path: Path) -> None:
    DirectoryLock.acquire(tmp_path, "long gone").release()
    before = (tmp_path / LOCK_FILE).read_bytes()
    one, two = DirectoryLock.acquire_to_read(tmp_path), DirectoryLock.acquire_to_read(tmp_path)
    for reader in (one, two):
        with pytest.raises(DirectoryLocked, match=r"is used by a reader of its journal$"):
            DirectoryLock.acquire(tmp_path, "mine")
        reader.release()
    assert (tmp_path / LOCK_FILE).read_bytes() == before
    DirectoryLock.acquire(tmp_path, "mine").release()


def test_a_reader_is_refused_with_the_name_of_the_broker(tmp_path: Path) -> None:
    lock = DirectoryLock.acquire(tmp_path, "busy")
    with pytest.raises(DirectoryLocked, match="is used by broker 'busy' in this process"):
        DirectoryLock.acquire_to_read(tmp_path)
    lock.release()


def test_a_reader_makes_no_lock_file(tmp_path: Path) -> None:
    DirectoryLock.acquire_to_read(tmp_path).release()
    assert list(tmp_path.iterdir()) == []


def test_a_directory_whose_files_cannot_be_opened_is_not_left_locked(tmp_path: Path) -> None:
    config = BrokerConfig(data_directory=str(tmp_path))
    lowest = os.open(os.devnull, os.O_RDONLY)
    os.close(lowest)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + 1, before[1]))  # one descriptor: that of the lock
    try:
        with pytest.raises(ResourceAllocationException, match=r"cannot open directory .*Too many open files"):
            open_directory(config, None, late=False)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    open_directory(config, None, late=False).close()


@pytest.mark.parametrize("acquire", [lambda path: DirectoryLock.acquire(path, "mine"), DirectoryLock.acquire_to_read])
def test_a_lock_file_that_is_replaced_while_it_is_locked_does_not_let_a_second_one_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, acquire: Callable[[Path], DirectoryLock]
) -> None:
    (tmp_path / LOCK_FILE).write_text("")
    others: list[DirectoryLock] = []

    def overtaken(descriptor: int, kind: int) -> None:
        monkeypatch.undo()
        (tmp_path / LOCK_FILE).unlink()
        others.append(DirectoryLock.acquire(tmp_path, "faster"))
        fcntl.flock(descriptor, kind)

    monkeypatch.setattr("fcntl.flock", overtaken)
    with pytest.raises(DirectoryLocked, match="is used by broker 'faster'"):
        acquire(tmp_path)
    others[0].release()


@pytest.mark.parametrize("call", ["flock", "close"])
def test_a_directory_is_free_although_its_file_system_refuses_at_the_end(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One at the other end of a network reports at the end what it could not do before."""
    opened = open_directory(BrokerConfig(data_directory=str(tmp_path)), None, late=False)
    opened.disk.run((WriteAt("file", 0, (b"x",)),))
    close = os.close

    def flock(_descriptor: int, _kind: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    def close_and_refuse(descriptor: int) -> None:
        close(descriptor)
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patched:
        patched.setattr(*(fcntl, "flock", flock) if call == "flock" else (os, "close", close_and_refuse))
        opened.close()
    DirectoryLock.acquire(tmp_path, "the next").release()
