"""Datagrams over a shared directory: each sender has one file there, and receivers look for those that changed.

Responsible for the files, in threads, because a directory of another machine may hang. Does not depend on the content
of a datagram.

No clocks are compared: a file counts as sent again when it changed, and the first look takes every file. So each
receiver gets what a crashed sender left, once. A sender removes its file at its close, and with its first datagram the
files that are older by an hour than its own.
"""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final
from uuid import uuid4

import trio

from embedclient.model import SharedDirectory, ThreadShortage

from ._stream import Buffer, TransportLost
from ._tcp import error_text
from ._threads import run_in_thread

__all__ = ["LOOK_EVERY_S", "DirectoryReader", "DirectoryReceiver", "DirectorySender"]

LOOK_EVERY_S: Final = 1.0
"""Pause between two looks of a receiver."""

_SUFFIX: Final = ".announcement"
_BYTES_MAX: Final = 65_535
# As many as a discovery group has entries.
_FILES_MAX: Final = 200
_LEFT_S: Final = 3_600.0
# To open a pipe would wait for its writer. Not everywhere a part of `os`.
_NONBLOCK: Final = getattr(os, "O_NONBLOCK", 0)
_REMOVAL_S: Final = 2.0


class DirectoryReader:
    """What changed in a directory since the last look. It blocks, so it belongs into a thread.

    Args:
        directory: Where senders have their files.
        newest_first: Whether the file that changed last comes first: a search that ends with the first file of use
            must not begin with what a crashed sender left. Otherwise the newest one comes last, so that it counts.
    """

    def __init__(self, directory: SharedDirectory, *, newest_first: bool = False) -> None:
        self._directory = directory
        self._newest_first = newest_first
        self._seen: dict[str, tuple[int, int, int]] = {}

    def look(self) -> list[bytes]:
        """Return the content of each file that is new or changed.

        Raises:
            OSError: The directory cannot be read; the text names it. One that does not exist has no files.
        """
        present: dict[str, tuple[int, int, int]] = {}
        try:
            with os.scandir(self._directory.place) as entries:
                for entry in entries:
                    if entry.name.endswith(_SUFFIX):
                        with suppress(FileNotFoundError):
                            found = entry.stat()
                            if stat.S_ISREG(found.st_mode):
                                present[entry.name] = (found.st_mtime_ns, found.st_ino, found.st_size)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise OSError(error.errno, f"cannot read {self._directory}: {error_text(error)}") from error
        newest = sorted(present, key=lambda name: present[name], reverse=True)[:_FILES_MAX]
        ordered = newest if self._newest_first else reversed(newest)
        changed = [name for name in ordered if self._seen.get(name) != present[name]]
        self._seen = {name: present[name] for name in newest}
        return [content for name in changed if (content := self._content(name))]

    def _content(self, name: str) -> bytes:
        try:
            with open(os.path.join(self._directory.place, name), "rb", opener=_open_nonblocking) as file:
                return file.read(_BYTES_MAX)
        except OSError:
            # Its sender has just removed it, or it is not for this user: others may still be.
            return b""


def _open_nonblocking(path: str, flags: int) -> int:
    # A file of another kind may have taken the place of the one that was seen.
    return os.open(path, flags | _NONBLOCK)


class DirectoryReceiver:
    """A DatagramReceiver of a directory."""

    def __init__(self, directory: SharedDirectory, *, newest_first: bool = False) -> None:
        self._directory = directory
        self._reader = DirectoryReader(directory, newest_first=newest_first)
        self._waiting: deque[bytes] = deque()
        self._has_looked = False
        self._closed = trio.Event()

    async def receive(self) -> bytes:
        await trio.lowlevel.checkpoint()
        while not self._waiting and not self._closed.is_set():
            if self._has_looked:
                with trio.move_on_after(LOOK_EVERY_S):
                    await self._closed.wait()
                    break
            self._has_looked = True
            try:
                self._waiting += await run_in_thread(
                    self._reader.look, f"reading {self._directory}", abandon_on_cancel=True
                )
            except (OSError, ThreadShortage) as error:
                raise TransportLost(str(error)) from error
        if self._closed.is_set():
            raise TransportLost("closed here")
        return self._waiting.popleft()

    def close(self) -> None:
        self._closed.set()


class DirectorySender:
    """A DatagramSender with one file. A task of the trio run writes it, so that a slow directory delays no other work.

    Of several datagrams that wait, the last one counts.
    """

    def __init__(self, directory: SharedDirectory) -> None:
        self._directory = directory
        self._path = os.path.join(directory.place, f"{uuid4()}{_SUFFIX}")
        self._data: bytes | None = None
        self._failure: Exception | None = None
        self._wake = trio.Event()
        self._is_closed = False
        self._has_written = False
        trio.lowlevel.spawn_system_task(self._serve, name=f"announcements in {directory}")

    def send_nowait(self, data: Buffer) -> None:
        if self._is_closed:
            raise TransportLost("closed here")
        self._data = bytes(data)
        self._wake.set()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise OSError(f"cannot write to {self._directory}: {failure}") from failure

    def close(self) -> None:
        self._is_closed = True
        self._wake.set()

    async def _serve(self) -> None:
        try:
            while not self._is_closed:
                await self._wake.wait()
                self._wake = trio.Event()
                data, self._data = self._data, None
                if data is not None and not self._is_closed:
                    self._failure = await self._in_thread(partial(self._write, data))
        finally:
            # The run may end at this moment, and the directory may hang.
            with trio.move_on_after(_REMOVAL_S, shield=True):
                if self._has_written:
                    await self._in_thread(self._remove)

    async def _in_thread(self, work: Callable[[], None]) -> Exception | None:
        try:
            await run_in_thread(work, f"writing to {self._directory}", abandon_on_cancel=True)
        except (OSError, ThreadShortage) as error:
            return error
        return None

    def _write(self, data: bytes) -> None:
        is_first, self._has_written = not self._has_written, True
        os.makedirs(self._directory.place, exist_ok=True)
        written = f"{self._path}.new"
        with open(written, "wb") as file:
            file.write(data)
        os.replace(written, self._path)
        if is_first:
            self._remove_left()

    def _remove_left(self) -> None:
        """Remove files that were not written for an hour, by the clock of the directory."""
        oldest = os.stat(self._path).st_mtime - _LEFT_S
        with os.scandir(self._directory.place) as entries:
            for entry in entries:
                if entry.name.endswith((_SUFFIX, f"{_SUFFIX}.new")):
                    with suppress(OSError):
                        if entry.stat().st_mtime < oldest:
                            os.unlink(entry.path)

    def _remove(self) -> None:
        os.unlink(self._path)
