"""Segments: the files of a journal, their names, headers and the parts of them that are still needed.

Responsible for the naming scheme, the segment header and the account of one segment. The account contains the end of
its batches, its live content, and the older segments that its records refer to. Does not read or write: it describes
files.

Names::

    segment-0000000042.journal             generation 42, as written
    segment-0000000040-0000000042.journal  what compaction kept of generations 40 to 42; the file takes their place the
                                           moment it has this name, and files it covers are ignored and removed
    spare-0000000017.journal               an empty place: a new file, or one with obsolete content
    compacting.journal                     compaction's work in progress, of no value until it is renamed
    torn-0000000042-<batch>.copy           a torn tail that recovery cut, for inspection by people
    unfinished.copy                        this is a copy, salvaged or replicated, and part of it is still to be written
    oldreplica.<number>.<name>             what was in the way of a replicated copy; the journal ignores it

Header, 4096 bytes, so that no later write touches its page::

     0  magic "EBJS" | format version u8 | flags u8 | header size u16
     8  journal identity u64
    16  generation u64                 stands in every batch of the segment
    24  first generation u64 | last generation u64     what the file stands for; all three equal unless compacted
    40  first batch number u64 | last batch number u64 of what it stands for; 0 unless compacted
    56  made at i64                    Unix ms
  4092 crc u32                        bytes 0 to 4091
"""

from __future__ import annotations

import re
from array import array
from enum import IntFlag
from struct import Struct
from zlib import crc32

from attrs import Factory, define, field, frozen

from .._disk import Disk, ListFiles
from ._batch import FORMAT_VERSION, encode_batch

__all__ = [
    "COMPACTING",
    "FIRST_BATCH_OFFSET",
    "UNFINISHED_COPY",
    "GatheredBatch",
    "Placement",
    "Segment",
    "SegmentFlags",
    "SegmentHeader",
    "decode_header",
    "encode_header",
    "segment_name",
    "segment_range",
    "spare_name",
    "torn_name",
    "torn_tail",
]

FIRST_BATCH_OFFSET = 4096
COMPACTING = "compacting.journal"
UNFINISHED_COPY = "unfinished.copy"
MAGIC = b"EBJS"
HEADER = Struct("<4sBBHQQQQQQq")
CHECKED = FIRST_BATCH_OFFSET - 4
NAME = re.compile(r"segment-(\d{10,})(?:-(\d{10,}))?\.journal\Z")
TORN_NAME = re.compile(r"torn-(\d{10,})-(\d+)\.copy\Z")


class SegmentFlags(IntFlag):
    """The flags of a segment.

    COMPACTED: written by compaction. REUSED: the file held other batches before, so its tail may hold anything. AUDIT:
    of an audit log. CUT_SHORT: that log could not be written behind this segment.
    """

    COMPACTED = 1
    REUSED = 2
    AUDIT = 4
    CUT_SHORT = 8


def segment_name(first: int, last: int) -> str:
    """Return the name of the file that stands for these generations."""
    return f"segment-{first:010}.journal" if first == last else f"segment-{first:010}-{last:010}.journal"


def segment_range(name: str) -> tuple[int, int] | None:
    """Return the (first, last) generation of a segment's name, None for other names."""
    match = NAME.match(name)
    if match is None:
        return None
    first = int(match[1])
    return first, int(match[2]) if match[2] else first


def holds_journal(disk: Disk) -> bool:
    """Return True if a disk holds anything of a journal."""
    (names,) = disk.run((ListFiles(),))
    assert isinstance(names, tuple)
    return any(segment_range(name) for name in names)


def spare_name(generation: int) -> str:
    """Return the name of an empty place, made of a number no other file has."""
    return f"spare-{generation:010}.journal"


def torn_name(generation: int, number: int) -> str:
    """Return the name of the copy of a torn tail."""
    return f"torn-{generation:010}-{number}.copy"


def torn_tail(name: str) -> tuple[int, int] | None:
    """Return the (generation, number) of a copy's name, None for other names."""
    match = TORN_NAME.match(name)
    return (int(match[1]), int(match[2])) if match is not None else None


@frozen
class SegmentHeader:
    """The content of the first 4096 bytes of a segment."""

    identity: int
    generation: int
    first: int
    last: int
    first_number: int
    last_number: int
    made_at_ms: int
    flags: int

    @property
    def compacted(self) -> bool:
        """True if compaction wrote it: what it left out was of no use to a broker any more."""
        return bool(self.flags & SegmentFlags.COMPACTED)

    @property
    def cut_short(self) -> bool:
        """True if an audit log could not be written behind it."""
        return bool(self.flags & SegmentFlags.CUT_SHORT)


def encode_header(header: SegmentHeader) -> bytes:
    """Return everything in front of the first batch."""
    head = HEADER.pack(
        MAGIC,
        FORMAT_VERSION,
        header.flags,
        HEADER.size,
        header.identity,
        header.generation,
        header.first,
        header.last,
        header.first_number,
        header.last_number,
        header.made_at_ms,
    ).ljust(CHECKED, b"\0")
    return head + crc32(head).to_bytes(4, "little")


def decode_header(data: bytes) -> SegmentHeader | str:
    """Return the header, or a description of its damage."""
    if len(data) < FIRST_BATCH_OFFSET:
        return "the file is shorter than a segment header"
    if crc32(data[:CHECKED]) != int.from_bytes(data[CHECKED:FIRST_BATCH_OFFSET], "little"):
        return "the checksum of the segment header does not fit"
    magic, version, flags, _size, *numbers = HEADER.unpack_from(data)
    if magic != MAGIC:
        return "this is no journal segment"
    if version != FORMAT_VERSION:
        return f"the segment has format version {version}; this program reads {FORMAT_VERSION}"
    identity, generation, first, last, first_number, last_number, made_at_ms = numbers
    return SegmentHeader(identity, generation, first, last, first_number, last_number, made_at_ms, flags)


class Placement:
    """The segment of messages and the queues that still have them; shared by all messages with equal values of both.

    ``count`` is the number of those messages. Sharing keeps the index of live messages at one dictionary entry each.
    """

    __slots__ = ("count", "queues", "segment")

    def __init__(self, segment: Segment, queues: tuple[int, ...]) -> None:
        self.segment = segment
        self.queues = queues
        self.count = 0


@define(eq=False)
class Segment:
    """The account of one segment file. ``end`` is the offset behind its last batch, ``size`` that of the file."""

    first: int
    last: int
    generation: int
    size: int
    end: int = FIRST_BATCH_OFFSET
    first_number: int = 0
    last_number: int = 0
    compacted: bool = False
    reused: bool = False
    damaged: bool = False  # found while it was read in the background: it must never be touched again
    made: bool = True  # the file stands under its name, with its header synced
    gone: bool = False
    # Messages ever added here; known from ``close`` on, when no more can come.
    added: int = 0
    # Records other than messages that the last compaction kept: without it compaction would be repeated for nothing.
    retained: int = 0
    # Placements by queue id (messages with one reference) or by the tuple of their queue ids.
    placements: dict[int | tuple[int, ...], Placement] = Factory(dict)
    # The same by queue, for the removal of a queue.
    by_queue: dict[int, list[Placement]] = Factory(dict)
    # Placements whose last queue was removed: their messages are garbage without an acknowledgement.
    orphans: list[Placement] = Factory(list)
    # Ids of messages added here that have no references any more. Compaction of a later segment checks whether an
    # acknowledgement in it still has something to acknowledge.
    dead: array[int] = Factory(lambda: array("q"))
    # How often a message added here lost one of several queues. Compaction checks whether that happened meanwhile.
    narrowed: int = 0
    # How many of the dead are duplicate ids, which take little room.
    ids_gone: int = 0
    # Definitions in force, and records of open transactions.
    pins: int = 0
    # Older segments whose content would be read wrongly without the records in here, as an ordered set.
    needs: dict[Segment, None] = Factory(dict)
    # (record kind, id) of transactions and definitions with records here that records in later segments ended.
    ended: set[tuple[int, int]] = Factory(set)
    # The name of its file: used with each batch.
    name: str = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.name = segment_name(self.first, self.last)

    @property
    def extent(self) -> tuple[int, int, int]:
        """Generations and last batch number, 0 when there is no batch.

        Later segments list this of their predecessors.
        """
        return self.first, self.last, self.last_number if self.first_number else 0

    def placement(self, key: int | tuple[int, ...]) -> Placement:
        """Return the shared placement of messages here that these queues have."""
        placement = self.placements.get(key)
        if placement is None:
            queues = key if isinstance(key, tuple) else (key,)
            placement = self.placements[key] = Placement(self, queues)
            for queue_id in queues:
                self.by_queue.setdefault(queue_id, []).append(placement)
        return placement

    def remove_queue(self, queue_id: int) -> None:
        """Drop the queue's references to all messages here."""
        for placement in self.by_queue.pop(queue_id, ()):
            placement.queues = tuple([other for other in placement.queues if other != queue_id])
            if not placement.queues:
                self.orphans.append(placement)
        self.placements.pop(queue_id, None)

    def close(self) -> None:
        """End the account: no more records will come."""
        referenced = sum([placement.count for placement in self.placements.values() if placement.queues])
        self.added = referenced + len(self.dead) + self.orphaned

    @property
    def orphaned(self) -> int:
        """The number of messages here that lost their queues by removal of the queues."""
        return sum([placement.count for placement in self.orphans])

    @property
    def living(self) -> int:
        """The number of messages of this closed segment that are still referenced."""
        return self.added - len(self.dead) - self.orphaned


@frozen
class GatheredBatch:
    """A batch on its way to the disk: its records, and where they go."""

    number: int
    segment: Segment
    offset: int
    parts: list[bytes | bytearray]
    payload_size: int
    flags: int

    def encode(self, identity: int, wall_ms: int, previous_crc: int) -> tuple[bytes, bytes, int]:
        """Return header, body and the body's crc; may be called once only."""
        return encode_batch(
            self.parts,
            self.payload_size,
            identity=identity,
            generation=self.segment.generation,
            number=self.number,
            wall_ms=wall_ms,
            previous_crc=previous_crc,
            flags=self.flags,
        )
