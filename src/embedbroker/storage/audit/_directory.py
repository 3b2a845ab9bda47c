"""A directory with audit logs of earlier lives, as the next life finds it.

Responsible for the list of segments, and for cutting what the end of a life left half written. Does not judge what is
missing in between: an audit does that.
"""

from __future__ import annotations

from collections import deque

from attrs import Factory, define

from .._disk import SECTOR_BYTES, Disk, ListFiles, Read, Remove, Stat, Sync, Truncate
from ..journal._batch import MAGIC, BatchWalk, find_header
from ..journal._segments import FIRST_BATCH_OFFSET, decode_header
from ._codec import audit_name, audit_number

__all__ = ["AuditDirectory", "scan_audit_directory"]


@define(eq=False)
class AuditDirectory:
    """The content of an audit directory.

    ``segments``: (number, bytes) of each, oldest first. ``notes``: what was cut, for the broker's log.
    """

    segments: deque[tuple[int, int]] = Factory(deque)
    notes: list[str] = Factory(list)


def scan_audit_directory(disk: Disk) -> AuditDirectory:
    """List the segments. The torn end of the newest one is cut; whole batches are never touched.

    Raises:
        DiskFault: the directory cannot be read or written.
    """
    place = AuditDirectory()
    (names,) = disk.run((ListFiles(),))
    assert isinstance(names, tuple)
    numbers = sorted(number for name in names if (number := audit_number(name)) is not None)
    for number in numbers:
        (size,) = disk.run((Stat(audit_name(number)),))
        assert isinstance(size, int)
        place.segments.append((number, size))
    if place.segments:
        number, size = place.segments[-1]
        end = _end_of(disk, audit_name(number), size)
        name = audit_name(number)
        if not end:
            disk.run((Remove(name),))
            place.segments.pop()
            place.notes.append(f"audit log: {name} was removed, it was never written whole")
        elif end < size:
            disk.run((Truncate(name, end), Sync(name)))
            place.segments[-1] = number, end
            place.notes.append(f"audit log: the torn end of {name} was cut, {size - end} bytes")
    return place


def _end_of(disk: Disk, name: str, size: int) -> int:
    """Return the offset behind the last whole batch.

    Return the size if that offset is unknown, or if a whole batch follows damage. Return 0 if there is neither a header
    nor a batch.
    """
    (data,) = disk.run((Read(name, 0, size),))
    assert isinstance(data, bytes)
    header = decode_header(data[:FIRST_BATCH_OFFSET])
    if isinstance(header, str):
        return size if MAGIC in data else 0
    walk = BatchWalk(header.identity, header.generation, FIRST_BATCH_OFFSET)
    walk.feed(data[FIRST_BATCH_OFFSET:], FIRST_BATCH_OFFSET, at_end=True)
    behind = walk.offset + SECTOR_BYTES
    number = walk.number or 0
    later = find_header(data[behind:], behind, identity=header.identity, generation=header.generation, above=number)
    return size if walk.foreign or later is not None else walk.offset
