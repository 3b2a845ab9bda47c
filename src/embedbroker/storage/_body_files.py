"""Bodies of large messages as files: one file for each, beside the segments of the journal.

Responsible for the order of their operations, for room in the queue of the disk, and for what a fault of the disk
means: it ends one body, and nothing else. Does not open files: the journal hands the operations out in its background
lane, so they are simulated and replicated as everything that the journal writes.

The life of a file:

1. Bytes are written as they arrive. Nothing refers to the file; after a crash it is removed.
2. The end syncs the file and the directory. Only then may a record refer to it.
3. The file is removed once the record of the last acknowledgement is durable. After a crash before that, it is removed
   at the start.

So there is never a record without a whole file.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from functools import partial

from attrs import define

from embedbroker.kernel import OnFinished, OnRead

from ._disk import DiskFault, DiskOperation, FaultKind, ReadChecked, Remove, Stat, Sync, SyncDirectory, WriteAt

__all__ = ["BODY_SUFFIX", "BodyFiles", "body_file", "body_number"]

BODY_SUFFIX = ".body"
"""The end of the names of all files of large bodies, those that a replication put aside too; no other file has it."""
_NAME = re.compile(r"large-(\d{10,20})\.body\Z", re.ASCII)
# The limits of one piece of disk work.
_WORK_BYTES = 2 * 1024 * 1024
_WORK_OPERATIONS = 64
# Bytes of one body that wait for the disk before its sender should wait, and below which it may go on.
_WAITING_BYTES_MAX = 2 * 1024 * 1024
_WAITING_BYTES_LOW = 512 * 1024
# A body is synced after this many bytes: one large sync at its end would delay those of the journal.
_SYNC_EVERY_BYTES = 8 * 1024 * 1024


def body_file(number: int) -> str:
    """Return the name of the file of a body."""
    return f"large-{number:010}.body"


def body_number(name: str) -> int | None:
    """Return the number of the body in a file; None for names of other files."""
    match = _NAME.match(name)
    return int(match[1]) if match is not None else None


@define(eq=False)
class _Upload:
    """A body that is not finished: `0 <= written <= size`."""

    size: int = 0
    written: int = 0
    unsynced: int = 0
    exists: bool = False
    failure: str | None = None
    waiting: Callable[[], None] | None = None
    # The last write that waits for the disk: bytes that come meanwhile join it.
    gathering: _Write | None = None


@define(eq=False)
class _Write:
    """Bytes of a body that wait for the disk."""

    number: int
    offset: int
    pieces: list[bytes]
    size: int


@define(eq=False)
class _Finish:
    """The end of a body."""

    number: int
    done: OnFinished
    durable: bool


@define(eq=False)
class _Reading:
    """A read of a portion."""

    number: int
    offset: int
    length: int
    done: OnRead
    checksum: int


@define(eq=False)
class _Removal:
    """A file that is removed once the point is reached."""

    number: int
    point: int


_Request = _Write | _Finish | _Reading | _Removal


class BodyFiles:
    """The large bodies of one directory. The owner takes operations, and reports their outcome.

    ``notes`` collects lines for the log.
    """

    def __init__(self, notes: Callable[[str], None]) -> None:
        self.completed: deque[Callable[[], None]] = deque()
        self.under_way = False
        self._note = notes
        self._uploads: dict[int, _Upload] = {}
        self.requests: deque[_Write | _Finish | _Reading] = deque()
        self.removals: deque[_Removal] = deque()
        # Each operation under way, with the request that it belongs to.
        self._doing: list[tuple[_Request, DiskOperation]] = []

    # -- the body store ----------------------------------------------------------------------------------------------

    def append(self, number: int, data: bytes) -> bool:
        upload = self._uploads.get(number)
        if upload is None:
            upload = self._uploads[number] = _Upload()
        if upload.failure is not None:
            return True
        last = upload.gathering
        if last is not None and last.size + len(data) <= _WORK_BYTES // 2:
            last.pieces.append(data)
            last.size += len(data)
        else:
            upload.gathering = _Write(number, upload.size, [data], len(data))
            self.requests.append(upload.gathering)
        upload.size += len(data)
        return upload.size - upload.written <= _WAITING_BYTES_MAX

    def when_written(self, number: int, action: Callable[[], None]) -> None:
        upload = self._uploads.get(number)
        if upload is None or upload.failure is not None or upload.size - upload.written <= _WAITING_BYTES_LOW:
            self.completed.append(action)
        else:
            upload.waiting = action

    def finish(self, number: int, done: OnFinished, *, durable: bool) -> None:
        self._uploads.setdefault(number, _Upload())
        self.requests.append(_Finish(number, done, durable))

    def read(self, number: int, offset: int, length: int, done: OnRead, checksum: int = 0) -> None:
        self.requests.append(_Reading(number, offset, length, done, checksum))

    def remove(self, number: int, point: int) -> None:
        if self._uploads.pop(number, None) is not None:
            self.requests = deque([request for request in self.requests if request.number != number])
            point = 0
        removal = _Removal(number, point)
        if point:
            self.removals.append(removal)
        else:
            self.removals.appendleft(removal)

    # -- the disk ----------------------------------------------------------------------------------------------------

    def has_work(self, reached: int) -> bool:
        """Return True if `take` would return operations, but for work that is under way."""
        return bool(self.requests) or (bool(self.removals) and self.removals[0].point <= reached)

    def take(self, reached: int) -> tuple[DiskOperation, ...] | None:
        """Return the operations to do next, while none are under way; None if there are none."""
        assert not self.under_way
        doing = self._doing
        while self.removals and self.removals[0].point <= reached and len(doing) < _WORK_OPERATIONS:
            removal = self.removals.popleft()
            doing.append((removal, Remove(body_file(removal.number))))
        room = _WORK_BYTES
        while self.requests and room > 0 and len(doing) < _WORK_OPERATIONS:
            request = self.requests.popleft()
            if isinstance(request, _Reading):
                file = body_file(request.number)
                doing.append((request, ReadChecked(file, request.offset, request.length, request.checksum)))
                room -= request.length
            elif isinstance(request, _Write):
                self._begin_write(request)
                room -= request.size
            else:
                self._begin_end(request)
        self.under_way = bool(doing)
        return tuple([operation for _request, operation in doing]) if doing else None

    def _begin_write(self, request: _Write) -> None:
        upload = self._uploads[request.number]
        if upload.gathering is request:
            upload.gathering = None
        if upload.failure is not None:
            return
        file = body_file(request.number)
        self._doing.append((request, WriteAt(file, request.offset, tuple(request.pieces))))
        upload.exists = True
        upload.unsynced += request.size
        if upload.unsynced >= _SYNC_EVERY_BYTES:
            upload.unsynced = 0
            self._doing.append((request, Sync(file)))

    def _begin_end(self, request: _Finish) -> None:
        upload, file = self._uploads[request.number], body_file(request.number)
        if upload.failure is not None:
            self._end(request, upload.failure)
            return
        if not upload.exists:
            upload.exists = True
            self._doing.append((request, WriteAt(file, 0, ())))
        if request.durable:
            self._doing += [(request, Sync(file)), (request, SyncDirectory())]
        else:
            # It follows the writes, and ends with them.
            self._doing.append((request, Stat(file)))

    def _end(self, request: _Finish, failure: str | None) -> None:
        if failure is None:
            self._uploads.pop(request.number, None)
        self.completed.append(partial(request.done, failure))

    def done(self, results: tuple[object, ...]) -> None:
        """Handle the results of the operations that `take` returned."""
        doing, self._doing, self.under_way = self._doing, [], False
        for index, ((request, operation), result) in enumerate(zip(doing, results, strict=True)):
            self._settle(
                request, operation, result, is_last=index + 1 == len(doing) or doing[index + 1][0] is not request
            )

    def _settle(self, request: _Request, operation: DiskOperation, result: object, *, is_last: bool) -> None:
        if isinstance(request, _Reading):
            assert isinstance(result, tuple)
            self.completed.append(partial(request.done, *result))
            return
        upload = self._uploads.get(request.number)
        if upload is None:
            return  # a removal, or a body that was given up meanwhile
        if isinstance(operation, WriteAt) and isinstance(request, _Write):
            upload.written += request.size
            self._let_go_on(upload)
        elif isinstance(request, _Finish) and is_last:
            self._end(request, None)

    def _let_go_on(self, upload: _Upload) -> None:
        action = upload.waiting
        if action is not None and (upload.failure is not None or upload.size - upload.written <= _WAITING_BYTES_LOW):
            upload.waiting = None
            self.completed.append(action)

    def failed(self, fault: DiskFault) -> None:
        """Handle a fault of the disk: it ends the request of the operation that failed; the others are done again."""
        count = len(fault.done)
        failed = self._doing[self._failed_at(count, fault)][0]
        doing, self._doing, self.under_way = self._doing, [], False
        for index, ((request, operation), result) in enumerate(zip(doing[:count], fault.done, strict=True)):
            self._settle(request, operation, result, is_last=doing[index + 1][0] is not request)
        again = list(dict.fromkeys(request for request, _operation in doing[count:] if request is not failed))
        for request in reversed(again):
            if isinstance(request, _Removal):
                self.removals.appendleft(request)
            elif isinstance(request, _Reading) or request.number in self._uploads:
                self.requests.appendleft(request)
        self._fail(failed, fault)

    def _failed_at(self, count: int, fault: DiskFault) -> int:
        """Return which operation failed. Only those that write need room, and those before are simply done again."""
        if fault.kind is FaultKind.FULL:
            for index in range(count, len(self._doing)):
                if isinstance(self._doing[index][1], WriteAt):
                    return index
        return count

    def _fail(self, request: _Request, fault: DiskFault) -> None:
        if isinstance(request, _Reading):
            self._note(f"a large message cannot be read: {fault}")
            self.completed.append(partial(request.done, None, request.checksum))
            return
        if isinstance(request, _Removal):
            self._note(f"the file of a large message stays until the next start: {fault}")
            return
        upload = self._uploads.get(request.number)
        if upload is None:
            return
        upload.failure = f"the body of a large message cannot be stored: {fault}"
        self._note(upload.failure)
        self._let_go_on(upload)
        if isinstance(request, _Finish):
            self._end(request, upload.failure)

    def abandon(self) -> None:
        """Forget everything that waits, because nothing will be written any more."""
        self.under_way = False
        self._doing = []
        self.requests.clear()
        self.removals.clear()
        self._uploads.clear()
        self.completed.clear()
