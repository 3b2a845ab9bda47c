"""The simulated disk: files in memory that forget what was not synced.

Responsible for being at least as unkind as a real disk. In a crash every unsynced sector is kept or lost independently,
and one may tear. Sizes and names not yet synced may be old or new. A failed sync loses for good what it should have
kept. Does not depend on the meaning of the files. All chance comes from the given generator.
"""

from __future__ import annotations

from hashlib import sha256
from random import Random
from zlib import crc32

from attrs import Factory, define

from embedbroker.storage import (
    SECTOR_BYTES,
    Allocate,
    Digest,
    DiskFault,
    DiskOperation,
    FaultKind,
    ListFiles,
    Read,
    ReadChecked,
    Remove,
    Rename,
    Stat,
    Sync,
    SyncDirectory,
    Truncate,
    WriteAt,
    Zero,
)

__all__ = ["DiskSpeed", "SimulatedDisk"]


@define
class DiskSpeed:
    """How long disk work takes: a fixed part, a part per sync, and a factor for bad days."""

    base_s: float = 0.00005
    sync_s: float = 0.0004
    factor: float = 1.0


@define(eq=False)
class _File:
    """One file.

    ``content`` is what a read sees. ``older`` holds the durable bytes of sectors that were written since.
    """

    content: bytearray = Factory(bytearray)
    durable_size: int = 0
    older: dict[int, bytes] = Factory(dict)
    # Sectors that a failed sync gave up: their durable bytes stay the old ones, whatever is synced later.
    lost: dict[int, bytes] = Factory(dict)


# One atomic change of names: new name -> file, old name -> None.
_Change = dict[str, _File | None]


@define(eq=False)
class SimulatedDisk:
    """One directory in memory.

    Args:
        capacity_bytes: limit of the sum of file sizes; None: no limit.
        operations: operations done so far.
        loop_latency_s: seconds that each batch takes, on the clock of the run it is used in.
    """

    capacity_bytes: int | None = None
    operations: int = 0
    loop_latency_s: float = 0.0
    _faults: dict[int, DiskFault] = Factory(dict)
    _files: dict[str, _File] = Factory(dict)
    # The directory as the disk has it, and the changes since, oldest first.
    _durable: dict[str, _File] = Factory(dict)
    _changes: list[_Change] = Factory(list)

    @property
    def names(self) -> list[str]:
        """The names of all files."""
        return list(self._files)

    @property
    def has_unsynced_sectors(self) -> bool:
        """Return True if a power cut could take something that was written."""
        return any(file.older for file in self._files.values())

    def content(self, name: str) -> bytes:
        """Return what a read of a file returns.

        Args:
            name: name of the file.

        Raises:
            KeyError: there is no file of this name.
        """
        return bytes(self._files[name].content)

    def contents(self) -> dict[str, bytes]:
        """Return the content of each file by its name."""
        return {name: bytes(file.content) for name, file in self._files.items()}

    def run(self, operations: tuple[DiskOperation, ...]) -> tuple[object, ...]:
        """Do the operations in order and return one result for each.

        Args:
            operations: operations as the journal requests them.

        Raises:
            DiskFault: an operation failed; those after it did not happen.
        """
        results = []
        for operation in operations:
            self.operations += 1
            if self._faults:
                self._meet_fault(operation)
            results.append(self._do(operation))
        return tuple(results)

    def fail_at(self, operation: int, kind: FaultKind = FaultKind.FAILED) -> None:
        """Let one operation fail.

        Args:
            operation: its number; ``operations`` counts from 0.
            kind: the fault that it raises.
        """
        self._faults[operation] = DiskFault(kind, "", "simulated: " + kind.value)

    def repair(self) -> None:
        """Remove all pending faults, and make space."""
        self._faults.clear()
        self.capacity_bytes = None

    def heal(self) -> None:
        """Forget the failures that are still to come."""
        self._faults.clear()

    def crash(self, random: Random, tear: bool = True) -> None:
        """Cut the power: what was not synced is kept or lost sector by sector, names in the order they changed.

        Args:
            random: the generator that decides.
            tear: whether a sector of a file may be torn.
        """
        kept_changes = random.randrange(len(self._changes) + 1)
        for change in self._changes[:kept_changes]:
            _apply(self._durable, change)
        self._changes.clear()
        for name in sorted(self._durable):
            _crash_file(self._durable[name], random, tear)
        self._files = dict(self._durable)

    def lose_unsynced(self) -> None:
        """Cut the power at the most revealing moment: exactly what was synced is kept."""
        self._changes.clear()
        for file in self._durable.values():
            _lose_unsynced(file)
        self._files = dict(self._durable)

    def holds(self, file: str, offset: int, data: bytes) -> bool:
        """Return True if a file, if it is there, has these bytes, and would have them after a power cut.

        Args:
            file: name of the file.
            offset: first byte, from 0.
            data: the bytes that are expected there.
        """
        held = self._files.get(file)
        if held is None:
            return True
        sectors = range(offset // SECTOR_BYTES, (offset + len(data) + SECTOR_BYTES - 1) // SECTOR_BYTES)
        loose = any(sector in held.older or sector in held.lost for sector in sectors)
        return not loose and held.content[offset : offset + len(data)] == data

    def flip(self, file: str, offset: int, mask: int) -> None:
        """Damage one byte at rest.

        Args:
            file: name of the file.
            offset: the byte, from 0.
            mask: bits to invert, 1 to 255.
        """
        self._files[file].content[offset] ^= mask

    def copy(self) -> SimulatedDisk:
        """Return an independent disk in the same state."""
        twins: dict[int, _File] = {}

        def twin(names: _Change) -> _Change:
            return {name: twins.setdefault(id(file), _copy(file)) if file else None for name, file in names.items()}

        other = SimulatedDisk(self.capacity_bytes, self.operations, self.loop_latency_s)
        _apply(other._files, twin({**self._files}))
        _apply(other._durable, twin({**self._durable}))
        other._changes = [twin(change) for change in self._changes]
        other._faults = dict(self._faults)
        return other

    def _meet_fault(self, operation: DiskOperation) -> None:
        fault = self._faults.pop(self.operations - 1, None)
        if fault is not None:
            if isinstance(operation, Sync) and operation.file in self._files:
                _give_up(self._files[operation.file])
            raise DiskFault(fault.kind, getattr(operation, "file", ""), fault.text)

    def _do(self, operation: DiskOperation) -> object:
        match operation:
            case WriteAt(file, offset, data):
                self._write(self._made(file), file, offset, b"".join(data))
            case Zero(file, offset, size):
                self._write(self._made(file), file, offset, bytes(size))
            case Sync(file):
                _sync(self._existing(file))
            case Read(file, offset, length):
                return bytes(self._existing(file).content[offset : offset + length])
            case ReadChecked(file, offset, length, checksum):
                found = bytes(self._existing(file).content[offset : offset + length])
                return found, crc32(found, checksum)
            case Digest(file, offset, length):
                return sha256(self._existing(file).content[offset : offset + length]).digest()
            case ListFiles():
                return tuple(sorted(self._files))
            case Stat(file):
                return len(self._files[file].content) if file in self._files else None
            case Rename(file, new):
                self._change({new: self._existing(file), file: None})
            case Allocate(file, size):
                made = self._made(file)
                self._reserve(file, size - len(made.content))
                _resize(made, max(size, len(made.content)))
            case Truncate(file, size):
                _resize(self._existing(file), size)
            case Remove(file):
                if file in self._files:
                    self._change({file: None})
            case SyncDirectory():
                for change in self._changes:
                    _apply(self._durable, change)
                self._changes.clear()
        return None

    def _write(self, file: _File, name: str, offset: int, data: bytes) -> None:
        end = offset + len(data)
        self._reserve(name, end - len(file.content))
        if end > len(file.content):
            _resize(file, end)
        for sector in range(offset // SECTOR_BYTES, (end + SECTOR_BYTES - 1) // SECTOR_BYTES):
            _remember(file, sector)
        file.content[offset:end] = data

    def _reserve(self, name: str, count: int) -> None:
        if self.capacity_bytes is None or count <= 0:
            return
        if sum(len(file.content) for file in self._files.values()) + count > self.capacity_bytes:
            raise DiskFault(FaultKind.FULL, name, "simulated: no space left")

    def _existing(self, name: str) -> _File:
        file = self._files.get(name)
        if file is None:
            raise DiskFault(FaultKind.MISSING, name, "no such file")
        return file

    def _made(self, name: str) -> _File:
        if name not in self._files:
            self._change({name: _File()})
        return self._files[name]

    def _change(self, change: _Change) -> None:
        _apply(self._files, change)
        self._changes.append(change)


def _apply(directory: dict[str, _File], change: _Change) -> None:
    for name, file in change.items():
        if file is None:
            directory.pop(name, None)
        else:
            directory[name] = file


def _remember(file: _File, sector: int) -> None:
    if sector not in file.older:
        start = sector * SECTOR_BYTES
        durable = file.lost.pop(sector, None)
        if durable is None:
            durable = bytes(file.content[start : start + SECTOR_BYTES]).ljust(SECTOR_BYTES, b"\0")
        file.older[sector] = durable


def _resize(file: _File, size: int) -> None:
    if size < len(file.content):
        for sector in range(size // SECTOR_BYTES, (len(file.content) + SECTOR_BYTES - 1) // SECTOR_BYTES):
            _remember(file, sector)
        del file.content[size:]
    else:
        file.content.extend(bytes(size - len(file.content)))


def _sync(file: _File) -> None:
    file.older.clear()
    file.durable_size = len(file.content)


def _give_up(file: _File) -> None:
    """Give up bytes after a failed sync: the system takes them for clean, so no later sync writes them."""
    for sector, durable in file.older.items():
        file.lost.setdefault(sector, durable)
    file.older.clear()


def _crash_file(file: _File, random: Random, tear: bool) -> None:
    older = {**file.older, **file.lost}
    if len(file.content) != file.durable_size and random.random() < 0.5:
        size = file.durable_size
    else:
        size = len(file.content)
    file.content.extend(bytes(max(0, size - len(file.content))))
    del file.content[size:]
    torn = random.choice(sorted(older)) if tear and older and random.random() < 0.25 else -1
    share = random.choice((0.0, 0.1, 0.5, 0.9, 1.0))  # of sectors that are kept
    for sector in sorted(older):
        start = sector * SECTOR_BYTES
        durable = older[sector]
        if sector == torn:
            cut = random.randrange(1, SECTOR_BYTES)
            durable = bytes(file.content[start : start + cut]).ljust(cut, b"\0") + durable[cut:]
        elif sector not in file.lost and random.random() < share:
            continue
        stop = min(start + SECTOR_BYTES, size)
        if stop > start:
            file.content[start:stop] = durable[: stop - start]
    file.older.clear()
    file.lost.clear()
    file.durable_size = size


def _lose_unsynced(file: _File) -> None:
    """Bring back the durable bytes of every sector written since."""
    size = file.durable_size
    file.content.extend(bytes(max(0, size - len(file.content))))
    del file.content[size:]
    for sector, durable in {**file.older, **file.lost}.items():
        start = sector * SECTOR_BYTES
        stop = min(start + SECTOR_BYTES, size)
        if stop > start:
            file.content[start:stop] = durable[: stop - start]
    file.older.clear()
    file.lost.clear()


def _copy(file: _File) -> _File:
    return _File(bytearray(file.content), file.durable_size, dict(file.older), dict(file.lost))
