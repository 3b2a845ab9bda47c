"""A small file beside the journal that is read once and replaced as a whole.

Responsible for leaving the old text or the new one after a crash at any point. Does one piece of work at a time, in
order. Does not depend on the text, or on the lane of the disk.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

from ._disk import (
    DiskFault,
    DiskOperation,
    DiskWork,
    Lane,
    ListFiles,
    Read,
    Rename,
    Sync,
    SyncDirectory,
    Truncate,
    WriteAt,
)

__all__ = ["AtomicFile", "AtomicFileOwner"]

_Then = Callable[[tuple[object, ...]], None]
_Failed = Callable[[str], None]
_Work = tuple[tuple[DiskOperation, ...], _Then, _Failed | None]


class AtomicFileOwner(Protocol):
    """Use a file, until it cannot go on."""

    def on_failure(self) -> None:
        """Handle that nothing is read or written any more."""


class AtomicFile:
    """One such file.

    Its work counts down from ``first_number``. ``failure`` is the reason why it cannot go on; ``title`` is its name for
    an operator.
    """

    def __init__(self, name: str, new_name: str, title: str, size_max: int, first_number: int) -> None:
        self.failure: str | None = None
        self.owner: AtomicFileOwner | None = None
        self.names: tuple[str, ...] = ()
        self._name = name
        self._new_name = new_name
        self._title = title
        self._size_max = size_max
        self._last = first_number
        self._under_way = 0
        self._on_done: _Then | None = None
        self._on_failed: _Failed | None = None
        #: Work that was requested and not taken.
        self.requests: deque[_Work] = deque()

    @property
    def is_idle(self) -> bool:
        """Return True if all requested work is done."""
        return not self.requests and not self._under_way

    @property
    def waits(self) -> bool:
        """Return True if there is work to take."""
        return bool(self.requests) and not self._under_way and self.failure is None

    def read(self, then: Callable[[bytes | None], None]) -> None:
        """Read the file; ``then`` receives its text, or None without a file.

        After that `names` holds the names of the files.
        """

        def look(results: tuple[object, ...]) -> None:
            (names,) = results
            assert isinstance(names, tuple)
            self.names = names
            if self._name in names:
                self.requests.appendleft(((Read(self._name, 0, self._size_max),), understand, None))
            else:
                then(None)

        def understand(results: tuple[object, ...]) -> None:
            (text,) = results
            assert isinstance(text, bytes)
            then(text)

        self.requests.append(((ListFiles(),), look, None))

    def replace(self, text: bytes, then: Callable[[], None], on_failed: _Failed | None = None) -> None:
        """Replace the text; ``then`` is called when the new one survives a power cut.

        With ``on_failed`` a failure is no `failure` of this file: the old text or the new one stays, and other work
        goes on.
        """
        operations = (
            WriteAt(self._new_name, 0, (text,)),
            Truncate(self._new_name, len(text)),
            Sync(self._new_name),
            Rename(self._new_name, self._name),
            SyncDirectory(),
        )
        self.requests.append((operations, lambda _results: then(), on_failed))

    def take_work(self, lane: Lane) -> DiskWork | None:
        """Return the next work for the disk."""
        if not self.waits:
            return None
        operations, self._on_done, self._on_failed = self.requests.popleft()
        self._last -= 1
        self._under_way = self._last
        return DiskWork(lane, self._under_way, operations)

    def on_disk_done(self, batch: int, results: tuple[object, ...]) -> bool:
        """Handle a success of the disk; return True if the work was this file's."""
        if batch != self._under_way:
            return False
        done, self._on_done, self._under_way = self._on_done, None, 0
        assert done is not None
        done(results)
        return True

    def on_disk_failed(self, batch: int, fault: DiskFault) -> bool:
        """Handle a failure of the disk; return True if the work was this file's."""
        if batch != self._under_way:
            return False
        self._under_way = 0
        text = f"cannot keep {self._title}: {fault}"
        if self._on_failed is not None:
            self._on_failed(text)
            return True
        self.failure = text
        if self.owner is not None:
            self.owner.on_failure()
        return True
