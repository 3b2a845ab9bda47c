"""The lock driver over files: one directory that the brokers of a live and backup group share.

Responsible for doing lock operations exactly as the seam in ``embedbroker.locks`` describes them; ``Flocks`` manages
the lock files. Does not depend on which broker should hold what.

The record is one small file, which another one replaces atomically: a reader finds the old text or the new. It holds
the number of its inode: in a copy of the directory that number is different.
"""

from __future__ import annotations

import os
from pathlib import Path

from embedbroker.locks import (
    NOT_ALONE,
    NOT_HELD,
    Acquire,
    LiveState,
    Lock,
    LockFault,
    LockOperation,
    ReadHolder,
    ReadRecord,
    Release,
    StoreRecord,
    Verify,
    WriteRecord,
)

from ._flocks import Flocks, sync_directory

__all__ = ["RECORD_FILE", "FileLocks"]

RECORD_FILE = "node.state"
_NEW_RECORD_FILE = "node.state.new"
_RECORD_BYTES_MAX = 4096
_NONE = "none"


class FileLocks:
    """The locks in ``directory``, which is made when the first session opens."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.directory = Path(directory)

    def open(self, holder: str) -> _FileSession:
        """Begin a session.

        Raises:
            LockFault: the directory cannot be made.
        """
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LockFault(
                f"cannot make the lock directory {self.directory}: {error.strerror}; make one that this broker can"
                " write to, or set node_manager_lock_directory to another one"
            ) from error
        return _FileSession(self.directory, holder)


class _FileSession:
    immediate = False

    def __init__(self, directory: Path, holder: str) -> None:
        self._directory = directory
        self._flocks = Flocks(directory, holder, "lock directory", "node_manager_lock_directory")

    def run(self, operations: tuple[LockOperation, ...]) -> tuple[object, ...]:
        return self._flocks.run(self._do, operations)

    def close(self) -> None:
        self._flocks.close()

    def _do(self, operation: LockOperation) -> object:
        match operation:
            case Acquire(lock):
                return self._flocks.acquire(_lock_file(lock))
            case Release(lock):
                self._flocks.release(_lock_file(lock))
            case ReadHolder(lock):
                return self._flocks.holder_of(_lock_file(lock))
            case Verify(lock):
                return self._flocks.verify(_lock_file(lock))
            case ReadRecord():
                return self._read_record()
            case WriteRecord(record, over):
                if not self._flocks.verify(_lock_file(Lock.LIVE)):
                    raise LockFault(NOT_HELD)
                found = self._read_record()
                # A write that failed at its end may be in the file: no other session has the number of this life.
                if not found.may_follow(over) and found.life != record.life:
                    raise LockFault(NOT_ALONE)
                self._write_record(record)
        return None

    # -- the record ----------------------------------------------------------------------------------------------

    def _read_record(self) -> StoreRecord:
        found = self._flocks.text_of(RECORD_FILE, _RECORD_BYTES_MAX)
        if found is None:
            return StoreRecord()
        text, inode = found[0].decode("ascii", errors="replace"), found[1]
        lines = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
        try:
            return StoreRecord(
                LiveState(lines["state"]),
                lines["node"] if lines["node"] != _NONE else None,
                _number(lines["journal"]),
                int(lines["file"]) != inode,
                _number(lines.get("life", _NONE)),
                int(lines["last batch"]) if "last batch" in lines else None,
            )
        except (KeyError, ValueError):
            raise LockFault(
                f"{self._directory / RECORD_FILE} is damaged: remove it, and the brokers that share it get a new"
                " node id"
            ) from None

    def _write_record(self, record: StoreRecord) -> None:
        new = self._directory / _NEW_RECORD_FILE
        descriptor = os.open(new, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o640)
        try:
            lines = {
                "state": record.state.value,
                "node": record.node_id or _NONE,
                "journal": _text(record.journal_identity),
                "life": _text(record.life),
                "file": os.fstat(descriptor).st_ino,
            }
            if record.last_batch is not None:
                lines["last batch"] = record.last_batch
            text = "".join(f"{name}: {value}\n" for name, value in lines.items())
            os.pwrite(descriptor, text.encode("ascii"), 0)
            os.fsync(descriptor)
            # A file that loses its name while it is open leaves another one behind on some servers of files.
            self._flocks.forget(RECORD_FILE)
            os.rename(new, self._directory / RECORD_FILE)
        except BaseException:  # Ctrl-C, too
            os.close(descriptor)
            raise
        self._flocks.keep_open(RECORD_FILE, descriptor)
        sync_directory(self._directory)


def _lock_file(lock: Lock) -> str:
    return f"{lock.value}.lock"


def _number(text: str) -> int | None:
    return None if text == _NONE else int(text, 16)


def _text(number: int | None) -> str:
    return _NONE if number is None else f"{number:x}"
