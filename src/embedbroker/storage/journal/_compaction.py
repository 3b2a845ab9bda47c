"""Compaction: rewrites a run of old segments without the records that are no longer needed.

Responsible for which records survive and for replacing the old segments by the result. Does not choose the run, and
never changes a record: each one is copied unchanged or left out, in the original order.

Steps of one compaction, and why a crash between any two steps is harmless:
1. The result grows in a file that recovery removes. Traffic goes on meanwhile, so a record may be copied although its
   message ends a moment later. The record that ended it stands in a later segment and stays while it is needed.
2. A record may be left out because of an ending record that is appended but not durable. So the result waits until
   everything appended while it grew is durable; if that never happens, nothing was replaced.
3. The result is synced and gets its name, which covers the generations of the old segments. From the moment the name is
   durable they do not count any more. Until then they do.
4. The old files are removed. Recovery does that if it finds some of them left.
"""

from __future__ import annotations

from struct import Struct

from attrs import Factory, define

from .._disk import Remove, Rename, Sync, SyncDirectory, WriteAt
from .._steps import Corruption, Steps, read
from . import _record_codec as codec
from ._batch import BatchFlags, BatchWalk, encode_batch, stored_size
from ._live_index import LiveIndex
from ._record_codec import ACKNOWLEDGE, ADD_MESSAGE, PREFIX, UPDATE_DELIVERY_COUNT, RecordKind
from ._segments import COMPACTING, FIRST_BATCH_OFFSET, Segment, SegmentFlags, SegmentHeader, encode_header, segment_name
from ._settings import JournalSettings

__all__ = ["Compaction", "without_survivors"]

_ADD, _ACKNOWLEDGE = int(RecordKind.ADD_MESSAGE), int(RecordKind.ACKNOWLEDGE)
_END_OF_TRANSACTION = (RecordKind.COMMIT, RecordKind.ROLLBACK)
_REMOVED = {
    RecordKind.REMOVE_ADDRESS: RecordKind.ADDRESS,
    RecordKind.REMOVE_QUEUE: RecordKind.QUEUE,
    RecordKind.FORGET_OUTCOME: RecordKind.HEURISTIC_OUTCOME,
    RecordKind.REMOVE_MARKER: RecordKind.MARKER,
    RecordKind.REMOVE_CURSOR: RecordKind.CURSOR,
    RecordKind.REMOVE_DIVERT: RecordKind.DIVERT,
    RecordKind.REMOVE_SETTINGS: RecordKind.SETTINGS,
    RecordKind.REMOVE_GROUP: RecordKind.GROUP,
}
_SIZE_AND_KIND = Struct("<IB")


@define(eq=False)
class Compaction:
    """The merge of one run of adjacent closed segments. ``result`` stays None while nothing survives."""

    settings: JournalSettings
    identity: int
    live_index: LiveIndex
    run: list[Segment]
    generation: int
    wall_ms: int
    # Message ids of the run's own messages, and whether they were copied.
    seen: dict[int, bool] = Factory(dict)
    copied: int = 0
    retained: int = 0
    refers_outside: bool = False
    complete: bool = True  # every copied message has all the references its record names, and no delivery count
    transactions: set[int] = Factory(set)
    definitions: set[tuple[int, int]] = Factory(set)
    # Addresses with duplicate ids in the result.
    identified: set[int] = Factory(set)
    end: int = FIRST_BATCH_OFFSET
    number: int = 0
    _outside: list[Segment] = Factory(list)
    _ended_outside: set[tuple[int, int]] = Factory(set)
    # Dead messages of segments outside that records of the run refer to, and how much of their lists is in the run.
    _ghosts: set[int] = Factory(set)
    _ghosts_taken: dict[Segment, int] = Factory(dict)
    _rolled_back: set[int] = Factory(set)
    # For each segment of the run, how much was dead and narrowed when compaction began.
    _before: dict[Segment, tuple[int, int]] = Factory(dict)
    _parts: list[bytes | bytearray] = Factory(list)
    _size: int = 0
    _crc: int = 0
    _synced: int = 0
    # Records that were looked at since the last step.
    _filtered: int = 0

    def copy(self) -> Steps[None]:
        """Write the surviving records to a separate file; no file is left if nothing survives.

        Raises:
            Corruption: a segment of the run is damaged.
        """
        yield (Remove(COMPACTING), WriteAt(COMPACTING, 0, (encode_header(self._header()),)))
        inside = dict.fromkeys(self.run)
        needs = {need: None for segment in self.run for need in segment.needs}
        self._outside = [need for need in needs if not need.gone and need not in inside]
        for segment in self._outside:
            self._ended_outside |= segment.ended
            self._take_ghosts(segment)
            yield ()
        for segment in self.run:
            self._before[segment] = len(segment.dead), segment.narrowed
            self._rolled_back |= {number for kind, number in segment.ended if kind == RecordKind.ROLLBACK}
        over = without_survivors(self.run)
        for segment in self.run:
            if segment not in over:
                yield from self._copy_segment(segment)
        yield from self._write_batch(BatchFlags.COMPACTED)
        if self.empty:
            yield (Remove(COMPACTING),)
            return
        self._keep(codec.encode_id(RecordKind.SEAL, self.wall_ms))
        yield from self._write_batch(BatchFlags.COMPACTED | BatchFlags.SEAL)
        yield (Sync(COMPACTING),)

    def replace(self) -> Steps[None]:
        """Replace the run by the result; the records that it was made from must be durable."""
        yield (Rename(COMPACTING, segment_name(self.run[0].first, self.run[-1].last)), SyncDirectory())

    @property
    def empty(self) -> bool:
        """True if nothing survives: the run can be dropped like dead segments."""
        return not self.copied and not self.retained

    def account(self) -> Segment:
        """Return the account of the result at this moment."""
        header = self._header()
        result = Segment(
            first=header.first,
            last=header.last,
            generation=header.generation,
            size=self.end,
            end=self.end,
            first_number=header.first_number,
            last_number=header.last_number,
            compacted=True,
            added=self.copied,
            retained=self.retained,
        )
        for segment in self.run:
            dead, narrowed = self._before[segment]
            for message_id in segment.dead[dead:]:
                if self.seen.get(message_id):
                    result.dead.append(message_id)
            self.complete &= segment.narrowed == narrowed
            result.ended |= {key for key in segment.ended if self._still_there(key)}
        if self.refers_outside:
            result.needs = dict.fromkeys(self._outside)
        return result

    def is_self_contained(self, result: Segment) -> bool:
        """Return True if no record before the current segment refers to the content of the result.

        This is the common case: messages that simply lie in their queues. Then the segments behind the run do not need
        it any more, and those without live content can be dropped without being read. An acknowledgement in one of them
        still refers to the result if its transaction was committed while the result grew.
        """
        if not self.complete or self.transactions or self.definitions or result.dead or result.orphans or result.ended:
            return False
        if self.live_index.has_unsettled:
            return False
        open_transactions = self.live_index.transactions.values()
        return not any(
            self.seen.get(message_id) for each in open_transactions for message_id, _ in each.acknowledgements
        )

    # -- copying -----------------------------------------------------------------------------------------------------

    def _copy_segment(self, segment: Segment) -> Steps[None]:
        walk = BatchWalk(
            identity=self.identity,
            generation=segment.generation,
            offset=FIRST_BATCH_OFFSET,
            expected=1 if segment.compacted else None,
        )
        while walk.offset < segment.end and not walk.ended:
            offset = walk.offset
            length = min(max(self.settings.compaction_slice_bytes, walk.wanted), segment.end - offset)
            data = yield from read(segment.name, offset, length)
            batches = walk.feed(data, offset, at_end=offset + length >= segment.end)
            self._take_ghosts_outside()
            for batch in batches:
                self._filter(data, batch.start, batch.end, segment)
                if self._filtered >= self.settings.compaction_step_records:
                    self._filtered = 0
                    yield ()
                    # What has died meanwhile is in the index no more.
                    self._take_ghosts_outside()
            if self._size >= self.settings.compaction_slice_bytes:
                yield from self._write_batch(BatchFlags.COMPACTED)
        if walk.offset < segment.end:
            raise Corruption(segment.name, walk.offset, walk.damage or "a batch is missing")

    def _filter(self, data: bytes, start: int, end: int, segment: Segment) -> None:
        """Copy the records that are needed; neighbours are copied in one piece."""
        position = piece = start
        unpack = _SIZE_AND_KIND.unpack_from
        while position < end:
            size, kind = unpack(data, position)
            if kind == _ADD:
                needed = self._needs_message(data, position)
            elif kind == _ACKNOWLEDGE:
                needed = self._needs_acknowledgement(data, position)
            else:
                needed = self._needs_rare(data, position, size, segment)
            if not needed:
                if position > piece:
                    self._keep(data[piece:position])
                piece = position + size
            position += size
            self._filtered += 1
        if position > piece:
            self._keep(data[piece:position])

    def _keep(self, records: bytes) -> None:
        self._parts.append(records)
        self._size += len(records)

    def _needs_message(self, data: bytes, position: int) -> bool:
        fields = ADD_MESSAGE.unpack_from(data, position)
        return self._needs_living(message_id=fields[5], transaction_id=fields[6], count=fields[11])

    def _needs_living(self, message_id: int, transaction_id: int, count: int) -> bool:
        """Return True if a message, or a duplicate id, is needed.

        The address of a duplicate id counts as its one queue.
        """
        placement = self.live_index.index.get(message_id)
        if placement is None:
            self.seen[message_id] = False
            return False
        if not placement.queues:
            self.live_index.forget(message_id)
            self.seen[message_id] = False
            return False
        self.seen[message_id] = True
        self.copied += 1
        counts = self.live_index.counts
        if len(placement.queues) < count:
            self.complete = False
        elif counts and any(message_id in counts.get(queue_id, ()) for queue_id in placement.queues):
            self.complete = False  # its delivery count stands in here or in a later segment
        if transaction_id:
            self.transactions.add(transaction_id)
        return True

    def _needs_acknowledgement(self, data: bytes, position: int) -> bool:
        *_, message_id, _queue_id, transaction_id = ACKNOWLEDGE.unpack_from(data, position)
        if transaction_id in self._rolled_back:
            return False
        copied = self.seen.get(message_id)
        if copied is None:
            copied = message_id in self.live_index.index or message_id in self._ghosts
            self.refers_outside |= copied
        if copied:
            self.retained += 1
            if transaction_id:
                self.transactions.add(transaction_id)
        return copied

    def _needs_rare(self, data: bytes, position: int, size: int, segment: Segment) -> bool:
        _, number, _, _ = PREFIX.unpack_from(data, position)
        if number not in RecordKind._value2member_map_:
            self.retained += 1
            return True  # of a newer version, which decides when it may go
        kind = RecordKind(number)
        if kind is RecordKind.DUPLICATE_ID:
            entry, transaction_id = codec.decode_duplicate_id(data, position, size)
            living = self._needs_living(entry.number, transaction_id, 1)
            if living:
                self.identified.add(entry.address_id)
            return living
        if kind is RecordKind.UPDATE_DELIVERY_COUNT:
            needed = self._needs_delivery_count(data, position, segment)
        elif kind is RecordKind.PREPARE:
            transaction_id = codec.TRANSACTION.unpack_from(data, position)[4]
            needed = transaction_id in self.live_index.transactions
            if needed:
                self.transactions.add(transaction_id)
        elif kind in _END_OF_TRANSACTION:
            transaction_id = codec.TRANSACTION.unpack_from(data, position)[4]
            outside = (kind, transaction_id) in self._ended_outside
            self.refers_outside |= outside
            needed = outside or transaction_id in self.transactions
        elif kind in _REMOVED:
            key = _REMOVED[kind], codec.IDENTIFIER.unpack_from(data, position)[4]
            outside = key in self._ended_outside
            self.refers_outside |= outside
            # A commit set may be here for its transactions alone: then the removal of its marker is still needed.
            needed = outside or (kind is RecordKind.REMOVE_MARKER and key in self.definitions)
        elif kind is RecordKind.CLEAR_DUPLICATE_IDS:
            needed = self._needs_clearing(codec.IDENTIFIER.unpack_from(data, position)[4])
        elif kind is RecordKind.COMMIT_SET:
            needed = self._needs_commit_set(data, position, size, segment)
        elif kind in _REMOVED.values():
            needed = self._needs_definition(kind, data, position, size, segment)
        else:
            # The id limit and the list of segments are repeated at the start of every later segment.
            needed = False
        self.retained += needed
        return needed

    def _needs_delivery_count(self, data: bytes, position: int, segment: Segment) -> bool:
        *_, message_id, queue_id, count = UPDATE_DELIVERY_COUNT.unpack_from(data, position)
        if self.live_index.counts.get(queue_id, {}).get(message_id) != count:
            return False  # gone, or a later record differs
        recounted = self.live_index.recounted.get(queue_id, {})
        if not segment.first <= recounted.get(message_id, segment.last) <= segment.last:
            return False  # a later record is equal
        self.complete = False
        self.refers_outside |= message_id not in self.seen
        return True

    def _needs_clearing(self, address_id: int) -> bool:
        """Return True if earlier records of duplicate ids would bring them into force again.

        In the run, those are ids that the index has not forgotten yet, and ids of open transactions.
        """
        outside = (RecordKind.CLEAR_DUPLICATE_IDS, address_id) in self._ended_outside
        self.refers_outside |= outside
        return outside or address_id in self.identified

    def _needs_definition(self, kind: RecordKind, data: bytes, position: int, size: int, segment: Segment) -> bool:
        if kind is RecordKind.HEURISTIC_OUTCOME:
            identifier = codec.decode_outcome(data, position, size).transaction_id
        elif kind is RecordKind.MARKER:
            identifier = codec.decode_marker(data, position, size).id
        elif kind is RecordKind.CURSOR:
            identifier = codec.decode_cursor(data, position, size)[0].id
        elif kind is RecordKind.DIVERT:
            identifier = codec.decode_divert(data, position, size)[0].id
        elif kind is RecordKind.SETTINGS:
            identifier = codec.decode_settings(data, position, size)[0].id
        elif kind is RecordKind.GROUP:
            identifier = codec.decode_group(data, position, size)[0].id
        elif kind is RecordKind.ADDRESS:
            identifier = codec.decode_address(data, position, size)[0].id
        else:
            identifier = codec.decode_queue(data, position, size)[0].id
        history = self.live_index.definitions.get((kind, identifier))
        if history is None or history[-1] is not segment:
            return False
        self.definitions.add((kind, identifier))
        return True

    def _needs_commit_set(self, data: bytes, position: int, size: int, segment: Segment) -> bool:
        """Return True if a commit set is needed.

        It ends transactions and defines a marker; either of them needs all of it.
        """
        marker, transactions = codec.decode_commit_set(data, position, size)
        needed = False
        for transaction_id in transactions:
            outside = (RecordKind.COMMIT, transaction_id) in self._ended_outside
            self.refers_outside |= outside
            needed |= outside or transaction_id in self.transactions
        key = RecordKind.MARKER, marker.id
        history = self.live_index.definitions.get(key)
        if needed or (history is not None and history[-1] is segment):
            self.definitions.add(key)
            return True
        return False

    def _take_ghosts_outside(self) -> None:
        for segment in self._outside:
            self._take_ghosts(segment)

    def _take_ghosts(self, segment: Segment) -> None:
        taken = self._ghosts_taken.get(segment, 0)
        self._ghosts.update(segment.dead[taken:])
        self._ghosts_taken[segment] = len(segment.dead)

    # -- the result --------------------------------------------------------------------------------------------------

    def _write_batch(self, flags: int) -> Steps[None]:
        if not self._size:
            return
        self.number += 1
        header, body, self._crc = encode_batch(
            self._parts,
            self._size,
            identity=self.identity,
            generation=self.generation,
            number=self.number,
            wall_ms=self.wall_ms,
            previous_crc=self._crc,
            flags=flags,
        )
        offset = self.end
        self.end += stored_size(self._size)
        self._parts, self._size = [], 0
        write = WriteAt(COMPACTING, offset, (header, body))
        if self.end - self._synced < self.settings.background_sync_bytes:
            yield (write,)
        else:
            self._synced = self.end
            yield (write, Sync(COMPACTING))

    def _header(self) -> SegmentHeader:
        written = [segment for segment in self.run if segment.first_number]
        return SegmentHeader(
            identity=self.identity,
            generation=self.generation,
            first=self.run[0].first,
            last=self.run[-1].last,
            first_number=written[0].first_number if written else 0,
            last_number=written[-1].last_number if written else 0,
            made_at_ms=self.wall_ms,
            flags=SegmentFlags.COMPACTED,
        )

    def _still_there(self, key: tuple[int, int]) -> bool:
        kind, number = key
        if kind in _END_OF_TRANSACTION:
            return number in self.transactions
        if kind == RecordKind.CLEAR_DUPLICATE_IDS:
            return number in self.identified
        return key in self.definitions


def without_survivors(run: list[Segment]) -> set[Segment]:
    """Return segments of a run that need not be read, because no record of theirs survives a compaction.

    Nothing in them lives, and what they ended is of segments that are gone or of which no message survives either.
    A flow of transactions makes a chain of these behind an early segment with definitions.
    """
    without_messages: dict[Segment, None] = {}
    for segment in run:
        if not segment.living and all(need.gone or need in without_messages for need in segment.needs):
            without_messages[segment] = None
    # Messages of a queue that was removed leave the index when their records are read.
    return {segment for segment in without_messages if not segment.pins and not segment.orphaned}
