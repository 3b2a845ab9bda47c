"""The initial copy, at the primary: the list of files, what of them the backup lacks, and sending that.

Responsible for the moment of the copy, for what the backup may keep, and for the part of each file that is copied. Does
not depend on what is in the files, and does not decide when the backup is in sync.

The copy is of one moment, at which the disk does nothing for the journal. Work issued later travels as work, while
chunks are read from files that it changes. What makes that right:

- Bytes that such work wrote are left out of chunks, whenever they were read: the work carries them. All others are
  unchanged since that moment. So a chunk and a work that was sent after it may be done in any order, except for an
  older chunk after newer work. The backup never does that: see ``_backup``.
- Work that renames, removes or cuts a file waits until that file is copied.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable

from embedbroker import storage
from embedbroker.storage import DiskOperation, Lane
from embedclient.errors import LocalProtocolError
from embedclient.wire.core import CopiedFile, CopyBegin, ReplicaInventory, StreamMark

from ._files import is_copied
from ._lane import CopySteps, Request
from ._operations import written_bytes
from ._send_window import SendWindow

__all__ = ["InitialCopy"]

_KIB = 1024
CHUNK_BYTES = 128 * _KIB
# The limit of unanswered chunks. What is sent meanwhile stands behind them, so this is the price of a copy for the
# traffic (docs/performance.md). With the way there and back it bounds the rate: 10 ms to the backup are 50 MiB/s.
WINDOW_BYTES = 512 * _KIB
# The bytes after which a backup syncs: all at once would make the end long, and each other sync of that disk with it.
SYNC_EVERY_BYTES = 4 * 1024 * _KIB
_ZEROS = bytes(CHUNK_BYTES)


class InitialCopy:
    """The copy for one backup. ``listing``: new work must wait. ``begun``: the moment of the copy is over.

    ``copied``: the whole copy is. ``uncopied`` has the files of which a part is still to be read, now or in the copy,
    as an ordered set.
    """

    def __init__(
        self, flow: SendWindow, clock: Callable[[], float], log: Callable[[str], None], is_quiet: Callable[[], bool]
    ) -> None:
        self.listing = False
        self.begun = False
        self.copied = False
        self.uncopied: dict[str, None] = {}
        self._flow = flow
        self._clock = clock
        self._log = log
        self._is_quiet = is_quiet
        # The bytes of each file that the backup has, proved to be the same.
        self._kept: dict[str, int] = {}
        # The parts that work wrote since the moment of the copy, as (start, end), by file.
        self._written: dict[str, list[tuple[int, int]]] = {}
        self._sent_bytes = 0
        self._synced_at = 0

    @property
    def catches_up(self) -> bool:
        """Return True if the backup keeps some of its files."""
        return bool(self._kept)

    def note_writes(self, operations: Iterable[DiskOperation]) -> None:
        """Note the work behind the moment of the copy."""
        for operation in operations:
            if isinstance(operation, storage.WriteAt | storage.Zero) and operation.file in self.uncopied:
                end = operation.offset + written_bytes(operation)
                spans = self._written.setdefault(operation.file, [])
                if spans and spans[-1][0] <= operation.offset <= spans[-1][1]:
                    spans[-1] = spans[-1][0], max(end, spans[-1][1])
                else:
                    spans.append((operation.offset, end))

    # -- the steps -----------------------------------------------------------------------------------------------

    def run(self, inventory: ReplicaInventory, identity: int) -> CopySteps:
        """Run the copy, from the comparison with the backup's files to the last byte."""
        sizes = yield from self._list()
        afresh = True
        if inventory.newest and inventory.journal_identity == identity:
            yield from self._compare(inventory, sizes)
            afresh = inventory.newest not in self._kept
        if afresh:
            self._kept.clear()
        sizes = yield from self._list()
        # Files with little to copy come first: work on them waits.
        names = sorted(sizes, key=lambda name: (storage.copied_bytes(name, sizes[name]), name))
        files = tuple([CopiedFile(name, min(self._kept.get(name, 0), sizes[name]), sizes[name]) for name in names])
        self.uncopied = dict.fromkeys(names)
        self.begun = True
        self._flow.send_begin(CopyBegin(afresh, files), self._clock())
        self._send_list(afresh, files)
        for index, file in enumerate(files):
            yield from self._copy(index, file)
            self.uncopied.pop(file.name, None)
            self._written.pop(file.name, None)
        last = self._flow.send_mark(StreamMark.SYNC, self._clock())
        yield lambda: self._flow.answered(Lane.COPY) >= last
        self.copied = True

    def _list(self) -> Generator[Request, tuple[object, ...], dict[str, int]]:
        """Return the files and their sizes, at a moment when no work is under way."""
        self.listing = True
        yield self._is_quiet
        (found,) = yield (storage.ListFiles(),)
        assert isinstance(found, tuple)
        names = [name for name in found if is_copied(name)]
        stats = (yield tuple([storage.Stat(name) for name in names])) if names else ()
        self.listing = False
        return {name: size for name, size in zip(names, stats, strict=True) if isinstance(size, int)}

    def _compare(self, inventory: ReplicaInventory, sizes: dict[str, int]) -> CopySteps:
        """Find the files of the backup that are the start of those here, the newest first: without it the others do not
        count."""
        held = sorted(inventory.files, key=lambda file: file.name != inventory.newest)
        held = [file for file in held if 0 < file.size <= sizes.get(file.name, -1)]
        self.uncopied = dict.fromkeys([file.name for file in held])
        for file in held:
            (digest,) = yield (storage.Digest(file.name, 0, file.size),)
            if digest == file.digest:
                self._kept[file.name] = file.size
            elif file.name == inventory.newest:
                return

    def _send_list(self, afresh: bool, files: tuple[CopiedFile, ...]) -> None:
        whole = sum(storage.copied_bytes(file.name, file.size) for file in files)
        kept = sum(file.kept for file in files)
        how = "afresh" if afresh else f"of which {kept >> 20} MiB are there already"
        self._log(f"copying {whole >> 20} MiB in {len(files)} files to {self._flow.line.name}, {how}")

    def _copy(self, index: int, file: CopiedFile) -> CopySteps:
        offset, end = file.kept, storage.copied_bytes(file.name, file.size)
        while offset < end:
            yield self._has_room
            (data,) = yield (storage.Read(file.name, offset, min(CHUNK_BYTES, end - offset)),)
            assert isinstance(data, bytes)
            if not data:
                raise LocalProtocolError(f"{file.name} ends at {offset}, before it was {file.size} bytes long")
            for start, stop in self._unwritten(file.name, offset, offset + len(data)):
                self._send(index, start, data[start - offset : stop - offset])
            offset += len(data)
            if self._sent_bytes - self._synced_at >= SYNC_EVERY_BYTES:
                self._synced_at = self._sent_bytes
                self._flow.send_mark(StreamMark.SYNC, self._clock())

    def _has_room(self) -> bool:
        return self._flow.unanswered_bytes(Lane.COPY) < WINDOW_BYTES

    def _send(self, index: int, offset: int, data: bytes) -> None:
        # The backup begins with zeros: most of a segment that was prepared.
        if data != _ZEROS[: len(data)]:
            self._sent_bytes += len(data)
            self._flow.send_chunk(index, offset, data, self._clock())

    def _unwritten(self, name: str, start: int, end: int) -> list[tuple[int, int]]:
        """Return the spans of a part of a file that no work has written."""
        parts = [(start, end)]
        for low, high in self._written.get(name, ()):
            parts = [
                piece
                for begin, stop in parts
                for piece in ((begin, min(stop, low)), (max(begin, high), stop))
                if piece[0] < piece[1]
            ]
        return parts
