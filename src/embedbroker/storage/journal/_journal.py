"""The journal: accepts durable facts as records, and returns the disk operations that make them durable.

Responsible for gathering records into batches, for one batch on its way to the disk while the next gathers, and for the
durability point. Responsible, too, for the effect of recovery, idle seals, background work and failures on those. Opens
no files, reads no clocks and does not depend on the content of messages: it returns ``DiskWork`` and receives its
outcome.

The path of a record:
1. ``add_message`` and its like append bytes to the batch that gathers. Segment, number and place of that batch are
   settled when its first record comes.
2. ``take_work`` returns one write and one sync for the oldest batch not written yet.
3. ``on_disk_done`` moves ``reached`` to its number.

A failed write or sync is final for this journal object. What the failed batch did to the disk is unknown, and a later
sync that succeeds proves nothing about it. ``reached`` never moves again; the next journal on the directory finds out
by recovery. Everything that was confirmed is older and therefore safe.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from embedbroker.kernel import AddressDefinition, DuplicateId, Fact, HeuristicOutcome, QueueDefinition

from .._body_files import BodyFiles
from .._disk import DiskFault, DiskOperation, DiskWork, FaultKind, Lane, Sync, WriteAt
from .._lane import StepLane
from .._steps import Corruption, Steps
from ..recovery._recovered import JournaledMessage, RecoveredState
from ..recovery._recovery import Recovery, recover
from . import _record_codec as codec
from ._background import Background
from ._batch import BATCH_HEADER_BYTES, BatchFlags, stored_size
from ._journal_state import JournalState
from ._live_index import LiveIndex
from ._record_codec import (
    ACKNOWLEDGE,
    ADD_MESSAGE,
    ADD_ONE,
    DELAYED_DELIVERY_COUNT,
    DURABLE,
    GROUPED,
    PAIR,
    UPDATE_DELIVERY_COUNT,
    RecordKind,
)
from ._segment_pool import SegmentPool
from ._segments import FIRST_BATCH_OFFSET, GatheredBatch, Segment
from ._settings import JournalSettings
from ._statistics import JournalStatistics, SegmentStatistics

if TYPE_CHECKING:
    from embedclient.model import Instant

__all__ = ["Journal"]

# Messages of large transactions taken off the index in one call: about 0.5 ms.
SETTLED_PER_CALL = 1000
# Members by themselves: looking one up in its enumeration costs more than its use, and each batch does it.
_READY, _CLOSING, _FAILED = JournalState.READY, JournalState.CLOSING, JournalState.FAILED
_LANE = Lane.JOURNAL
_SEAL = int(BatchFlags.SEAL)  # flag arithmetic on enumerations costs more than the rest of a batch's end
_ADD, _ACKNOWLEDGE, _UPDATE, _DUPLICATE_ID = map(
    int, (RecordKind.ADD_MESSAGE, RecordKind.ACKNOWLEDGE, RecordKind.UPDATE_DELIVERY_COUNT, RecordKind.DUPLICATE_ID)
)
_pack_add, _pack_add_one, _pack_pair = ADD_MESSAGE.pack, ADD_ONE.pack, PAIR.pack
_pack_acknowledge, _pack_id = ACKNOWLEDGE.pack, codec.DUPLICATE_ID.pack
_ADD_BYTES, _ADD_ONE_BYTES, _PAIR_BYTES = ADD_MESSAGE.size, ADD_ONE.size, PAIR.size
_ACKNOWLEDGE_BYTES, _ID_BYTES = ACKNOWLEDGE.size, codec.DUPLICATE_ID.size


class Journal:
    """A journal over one directory. Not thread-safe; every method returns at once.

    ``wall_ms`` (Unix milliseconds) goes into message records and batches: the caller must keep it current.
    ``recovered`` is set once the state is READY, for the kernel to take (and to set to None). ``failure`` is the reason
    of the state FAILED. ``notes`` collects lines for the log, those of recovery too; the caller takes them.

    While the state is RECOVERING each ``on_disk_done`` handles one slice of the journal and creates many objects that
    live on. The host may pause the garbage collector around that call and restore it afterwards; nothing here does.
    """

    def __init__(self, settings: JournalSettings) -> None:
        self.settings = settings
        self.state = JournalState.NEW
        self.failure: str | None = None
        #: Whether it failed because the disk is full.
        self.lacks_room = False
        self.recovered: RecoveredState | None = None
        self.notes: list[str] = []
        self.reached = 0
        #: The first batch of the newest segment that this life began, once it is durable; 0 before.
        self.rotated_at = 0
        self.wall_ms = 0
        self._works = 0
        self._recovery = StepLane()
        self._recovery_work = 0
        self._id_limit = 0
        self._crc = 0
        self._sealed = True
        self._active_at = 0.0
        # The batch that gathers. Its segment and offset are known because all before it are closed.
        self._parts: list[bytes | bytearray] = []
        self._room = 0
        self._capacity = 0
        self._number = 1
        self._segments: list[Segment] = []
        self._segment = Segment(first=0, last=0, generation=0, size=0, end=0)  # none yet: it has no room
        self._placements = self._segment.placements
        # Batches that are closed, and the last of them that holds more than a seal.
        self._gathered: deque[GatheredBatch] = deque()
        self._last_number = 0
        self._writing: tuple[int, GatheredBatch, int] | None = None  # work, batch, crc of its body
        self._segment_pool = SegmentPool(settings)
        self._live_index = LiveIndex()
        self._index = self._live_index.index
        self.background = self._make_background()
        self._background_work = 0
        #: Bodies of large messages. Their work shares the background lane, turn by turn.
        self.bodies = BodyFiles(lambda text: self.notes.append(text))
        self._bodies_work = 0
        self._is_turn_of_bodies = True

    def statistics(self) -> JournalStatistics:
        """Return the current figures."""
        pool, live_index = self._segment_pool, self._live_index
        segments = [
            SegmentStatistics(
                name=segment.name,
                size_bytes=segment.size,
                end=segment.end,
                has_batches=bool(segment.first_number),
                is_merged=segment.compacted,
                is_reused=segment.reused,
            )
            for segment in self._segments
        ]
        return JournalStatistics(
            identity=pool.identity,
            reached=self.reached,
            segments=tuple(segments),
            prepared=pool.prepared.name if pool.prepared is not None else None,
            is_preparing=pool.preparing,
            has_background_work=self.background.lane.steps is not None,
            gathered_records=len(self._parts),
            live_messages=len(live_index.index),
            queues_with_counts=len(live_index.counts.keys() | live_index.recounted.keys()),
            unsettled_commit_sets=len(live_index.ending),
        )

    # -- the store ---------------------------------------------------------------------------------------------------

    @property
    def newest_segment(self) -> int:
        """Return the generation of the newest segment that has batches; 0 for an empty journal.

        Recovery seals a segment with a torn tail, so the newest is not always the one that is being written.
        """
        return self._segments[-1].last if self._segments else 0

    def point(self) -> int:
        """Return the point that covers everything appended so far; ``reached`` when nothing is outstanding."""
        if self._parts:
            return self._number
        return self._last_number if self._last_number > self.reached else self.reached

    def add_message(
        self, message: JournaledMessage, transaction_id: int, references: Sequence[tuple[int, int]]
    ) -> None:
        """Append a message. Its stored bytes must not change before they are durable."""
        if len(references) != 1 or message.is_directed:
            self._add_with_references(message, transaction_id, references)
            return
        stored = message.stored_bytes()
        message_id = message.message_id
        queue_id, position = references[0]
        size = _ADD_ONE_BYTES + len(stored)
        if size > self._room:
            self._make_room(size)
        self._room -= size
        parts = self._parts
        parts.append(_pack_add_one(
            size, _ADD, DURABLE if message.durable else 0, message.encoding, message.priority, message_id,
            transaction_id, message.expiration, message.timestamp, self.wall_ms, 0, 1, len(stored), queue_id, position,
        ))  # fmt: skip
        parts.append(stored)
        placement = self._placements.get(queue_id)
        if placement is None:
            placement = self._segment.placement(queue_id)
        placement.count += 1
        self._index[message_id] = placement
        if transaction_id:
            self._live_index.hold_in_transaction(message_id, transaction_id, self._segment)

    def add_run(
        self,
        messages: Sequence[JournaledMessage],
        transaction_id: int,
        queue_id: int,
        first_position: int,
        replaced: Sequence[int] = (),
        origin_id: int = 0,
    ) -> None:
        """Append messages of one queue, whose positions count from the first; see `add_message` and `Store.add_run`."""
        if replaced:
            assert not transaction_id and first_position == messages[0].message_id, first_position
            self._add_replacing(messages, queue_id, replaced, origin_id)
            return
        if any(message.is_directed for message in messages):
            for position, message in enumerate(messages, first_position):
                self.add_message(message, transaction_id, ((queue_id, position),))
            return
        index, wall_ms = self._index, self.wall_ms
        placement = None
        for position, message in enumerate(messages, first_position):
            stored = message.stored_bytes()
            message_id = message.message_id
            size = _ADD_ONE_BYTES + len(stored)
            if size > self._room:
                self._make_room(size)
                placement = None
            self._room -= size
            self._parts += (_pack_add_one(
                size, _ADD, DURABLE if message.durable else 0, message.encoding, message.priority, message_id,
                transaction_id, message.expiration, message.timestamp, wall_ms, 0, 1, len(stored), queue_id, position,
            ), stored)  # fmt: skip
            if placement is None:
                placement = self._segment.placement(queue_id)
                if transaction_id:
                    self._live_index.note_transaction(transaction_id, self._segment)
            placement.count += 1
            index[message_id] = placement
        if transaction_id:
            self._live_index.hold_run([message.message_id for message in messages], transaction_id)

    def acknowledge(self, message_id: int, queue_id: int, transaction_id: int) -> None:
        """Append that one queue has settled one message."""
        if self._room < _ACKNOWLEDGE_BYTES:
            self._make_room(_ACKNOWLEDGE_BYTES)
        self._room -= _ACKNOWLEDGE_BYTES
        self._parts.append(
            _pack_acknowledge(_ACKNOWLEDGE_BYTES, _ACKNOWLEDGE, 0, 0, message_id, queue_id, transaction_id)
        )
        if transaction_id:
            self._live_index.acknowledge_in_transaction(message_id, queue_id, transaction_id, self._segment)
        else:
            self._live_index.acknowledge(message_id, queue_id, self._segment)

    def acknowledge_run(self, message_ids: Sequence[int], queue_id: int, transaction_id: int) -> None:
        """Append that one queue has settled these messages."""
        done, pack, size = 0, _pack_acknowledge, _ACKNOWLEDGE_BYTES
        while done < len(message_ids):
            if self._room < size:
                self._make_room(size)
            portion = message_ids[done : done + max(self._room // size, 1)]
            self._room -= size * len(portion)
            self._parts.append(
                b"".join([
                    pack(size, _ACKNOWLEDGE, 0, 0, message_id, queue_id, transaction_id) for message_id in portion
                ])
            )  # fmt: skip
            if transaction_id:
                self._live_index.acknowledge_run_in_transaction(portion, queue_id, transaction_id, self._segment)
            else:
                self._live_index.acknowledge_run(portion, queue_id, self._segment)
            done += len(portion)

    def add_duplicate_id(self, entry: DuplicateId, transaction_id: int) -> None:
        """Append an id that came with a message. It is in force from now on, or from the commit of its transaction."""
        self._append(codec.encode_duplicate_id(entry, transaction_id))
        self._live_index.add_duplicate_id(entry, transaction_id, self._segment)

    def add_message_once(
        self, message: JournaledMessage, references: Sequence[tuple[int, int]], entry: DuplicateId
    ) -> None:
        """Append a message without a transaction and the id that came with it, so that neither is durable alone."""
        size = _ADD_BYTES + _PAIR_BYTES * len(references) + len(message.stored_bytes()) + _ID_BYTES + len(entry.value)
        if size > self._room:
            self._make_room(size)
        self.add_message(message, 0, references)
        self.add_duplicate_id(entry, 0)

    def add_run_once(self, messages: Sequence[JournaledMessage], queue_id: int, entries: Sequence[DuplicateId]) -> None:
        """Append messages of one queue, each with its id; see `add_message_once`."""
        if any(message.is_directed for message in messages):
            for message, entry in zip(messages, entries, strict=True):
                self.add_message_once(message, ((queue_id, message.message_id),), entry)
            return
        index, wall_ms = self._index, self.wall_ms
        placement = id_placement = None
        for message, entry in zip(messages, entries, strict=True):
            stored = message.stored_bytes()
            message_id = message.message_id
            number, address_id, value = entry
            size, id_size = _ADD_ONE_BYTES + len(stored), _ID_BYTES + len(value)
            if size + id_size > self._room:
                self._make_room(size + id_size)
                placement = None
            self._room -= size + id_size
            self._parts += (_pack_add_one(
                size, _ADD, DURABLE if message.durable else 0, message.encoding, message.priority, message_id,
                0, message.expiration, message.timestamp, wall_ms, 0, 1, len(stored), queue_id, message_id,
            ), stored, _pack_id(id_size, _DUPLICATE_ID, 0, 0, number, address_id, 0), value)  # fmt: skip
            if placement is None or id_placement is None:
                placement = self._segment.placement(queue_id)
                id_placement = self._live_index.identified(address_id, self._segment)
            placement.count += 1
            index[message_id] = placement
            id_placement.count += 1
            index[number] = id_placement

    def forget_duplicate_ids(self, numbers: Sequence[int]) -> None:
        """Forget ids that are not in force any more.

        Nothing is written: other ids displaced them, and they leave later.
        """
        self._live_index.forget_run(numbers)

    def clear_duplicate_ids(self, address_id: int, numbers: Sequence[int]) -> None:
        """Append that the ids with these numbers are not in force any more: all that an address has."""
        self._append(codec.encode_id(RecordKind.CLEAR_DUPLICATE_IDS, address_id))
        self._live_index.clear_duplicate_ids(address_id, numbers, self._segment, self._segments)

    def update_delivery_count(self, message_id: int, queue_id: int, count: int, due_ms: int = 0) -> None:
        """Append the delivery count of one message in one queue, and when it is due, 0 for at once."""
        if due_ms:
            size = DELAYED_DELIVERY_COUNT.size
            self._append(DELAYED_DELIVERY_COUNT.pack(size, _UPDATE, 0, 0, message_id, queue_id, count, due_ms))
        else:
            size = UPDATE_DELIVERY_COUNT.size
            self._append(UPDATE_DELIVERY_COUNT.pack(size, _UPDATE, 0, 0, message_id, queue_id, count))
        self._live_index.update_delivery_count(message_id, queue_id, count, self._segment)

    def prepare(self, transaction_id: int, xid: bytes) -> None:
        """Append that a transaction is prepared: it stays open over restarts."""
        self._append(codec.encode_prepare(transaction_id, xid))
        self._live_index.prepare(transaction_id, xid, self._segment)

    def commit(self, transaction_id: int, positions: Sequence[tuple[int, int]]) -> None:
        """Append a commit: in each queue, the positions of its messages count from these."""
        self._append(codec.encode_commit(transaction_id, positions))
        self._live_index.commit(transaction_id, self._segment)

    def rollback(self, transaction_id: int) -> None:
        """Append that a transaction is undone."""
        self._append(codec.encode_rollback(transaction_id))
        self._live_index.rollback(transaction_id, self._segment)

    def add_outcome(self, outcome: HeuristicOutcome) -> None:
        """Append the decision about a prepared transaction. Its COMMIT or ROLLBACK must follow."""
        self._append(codec.encode_outcome(outcome))
        self._live_index.define(RecordKind.HEURISTIC_OUTCOME, outcome.transaction_id, self._segment)

    def remove_outcome(self, transaction_id: int) -> None:
        """Append that a decision is not needed any more."""
        self._append(codec.encode_id(RecordKind.FORGET_OUTCOME, transaction_id))
        self._live_index.remove(RecordKind.HEURISTIC_OUTCOME, transaction_id, self._segment, ())

    def add_address(self, definition: AddressDefinition) -> None:
        """Append an address, new or changed."""
        self._append(codec.encode_definition(definition))
        self._live_index.define(RecordKind.ADDRESS, definition.id, self._segment)

    def remove_address(self, address_id: int) -> None:
        """Append that an address is gone, with its duplicate ids. Its id must not be used again."""
        self._append(codec.encode_id(RecordKind.REMOVE_ADDRESS, address_id))
        self._live_index.remove(RecordKind.ADDRESS, address_id, self._segment, self._segments)

    def add_queue(self, definition: QueueDefinition) -> None:
        """Append a queue, new or changed. It must stand before the first message for it."""
        self._append(codec.encode_definition(definition))
        self._live_index.define(RecordKind.QUEUE, definition.id, self._segment)

    def remove_queue(self, queue_id: int) -> None:
        """Append that a queue is gone with everything in it. Its id must not be used again."""
        self._append(codec.encode_id(RecordKind.REMOVE_QUEUE, queue_id))
        self._live_index.remove(RecordKind.QUEUE, queue_id, self._segment, self._segments)

    def note(self, fact: Fact) -> None:
        """Append a rare fact."""
        self._append(codec.encode_fact(fact))
        self._live_index.note(fact, self._segment)

    def reserve_ids(self, limit: int) -> None:
        """Append that ids and positions below ``limit`` may have been used."""
        self._append(codec.encode_id(RecordKind.RESERVE_IDS, limit))
        self._id_limit = max(self._id_limit, limit)

    # -- gathering ---------------------------------------------------------------------------------------------------

    def _append(self, record: bytes) -> None:
        if len(record) > self._room:
            self._make_room(len(record))
        self._room -= len(record)
        self._parts.append(record)

    def _add_with_references(
        self, message: JournaledMessage, transaction_id: int, references: Sequence[tuple[int, int]]
    ) -> None:
        stored = message.stored_bytes()
        message_id = message.message_id
        size = _ADD_BYTES + _PAIR_BYTES * len(references) + len(stored)
        if size > self._room:
            self._make_room(size)
        self._room -= size
        queues = [queue_id for queue_id, _position in references]
        if transaction_id:
            self._live_index.add_in_transaction(message_id, queues, transaction_id, self._segment)
        else:
            self._live_index.add(message_id, queues, self._segment)
        flags = DURABLE if message.durable else 0
        if message.is_directed and message.is_grouped:
            flags |= GROUPED
        self._parts.append(_pack_add(
            size, _ADD, flags, message.encoding, message.priority, message_id,
            transaction_id, message.expiration, message.timestamp, self.wall_ms, message.deliver_at, len(references),
            len(stored),
        ))  # fmt: skip
        self._parts += [_pack_pair(queue_id, position) for queue_id, position in references]
        self._parts.append(stored)

    def _add_replacing(
        self, messages: Sequence[JournaledMessage], queue_id: int, replaced: Sequence[int], origin_id: int
    ) -> None:
        """Append messages of one queue, each with the acknowledgement of the message whose place it takes.

        Both records are in one batch, so that neither is durable alone.
        """
        index, wall_ms, live_index = self._index, self.wall_ms, self._live_index
        placement, left = None, 0
        for number, (message, gone_id) in enumerate(zip(messages, replaced, strict=True)):
            stored = message.stored_bytes()
            message_id = message.message_id
            size = _ADD_ONE_BYTES + len(stored)
            if size + _ACKNOWLEDGE_BYTES > self._room:
                live_index.acknowledge_run(replaced[left:number], origin_id, self._segment)
                self._make_room(size + _ACKNOWLEDGE_BYTES)
                placement, left = None, number
            self._room -= size + _ACKNOWLEDGE_BYTES
            self._parts += (_pack_add_one(
                size, _ADD, DURABLE if message.durable else 0, message.encoding, message.priority, message_id,
                0, message.expiration, message.timestamp, wall_ms, 0, 1, len(stored), queue_id, message_id,
            ), stored, _pack_acknowledge(_ACKNOWLEDGE_BYTES, _ACKNOWLEDGE, 0, 0, gone_id, origin_id, 0))  # fmt: skip
            if placement is None:
                placement = self._segment.placement(queue_id)
            placement.count += 1
            index[message_id] = placement
        live_index.acknowledge_run(replaced[left:], origin_id, self._segment)

    def _make_room(self, size: int) -> None:
        """Begin another batch, in this segment or the next, with room for ``size`` bytes of records at least."""
        if self.state is _FAILED:
            self._parts.clear()  # nothing will ever be written; the record that comes now keeps ``point`` out of reach
            return
        assert self.state is _READY or self.state is _CLOSING, self.state
        if self._parts:
            self._close_batch(0)
        free = self._segment.size - self._segment.end - BATCH_HEADER_BYTES
        if size > free:
            self._begin_segment(size)
        else:
            self._capacity = self._room = min(free, max(self.settings.batch_bytes_max, size))

    def _close_batch(self, flags: int) -> None:
        if not self._parts:
            return
        segment, size = self._segment, self._capacity - self._room
        self._gathered.append(GatheredBatch(self._number, segment, segment.end, self._parts, size, flags))
        segment.last_number = self._number
        # No caller waits for a seal; compaction does wait for the start of a segment in the same batch.
        if not flags or segment.end == FIRST_BATCH_OFFSET:
            self._last_number = self._number
        segment.end += stored_size(size)
        self._number += 1
        self._parts = []
        self._room = self._capacity = 0

    def _begin_segment(self, size: int) -> None:
        extents = [each.extent for each in self._segments]
        start = codec.encode_segment_start(self._id_limit, extents)
        needed = size + len(start)
        segment = self._segment_pool.take(FIRST_BATCH_OFFSET + stored_size(needed))
        segment.first_number = self._number
        if self._segments and self._segments[-1] is self._segment:
            self._segment.close()
        assert not self._segments or self._segments[-1].last < segment.first
        self._segments.append(segment)
        self._enter(segment)
        free = segment.size - FIRST_BATCH_OFFSET - BATCH_HEADER_BYTES
        self._capacity = min(free, max(self.settings.batch_bytes_max, needed))
        self._room = self._capacity - len(start)
        self._parts.append(start)

    def _enter(self, segment: Segment) -> None:
        self._segment = segment
        self._placements = segment.placements

    # -- the disk ----------------------------------------------------------------------------------------------------

    def open(self, now: Instant) -> None:
        """Begin recovery; the state is READY when the last of its work is done."""
        assert self.state is JournalState.NEW
        self.state = JournalState.RECOVERING
        self.wall_ms = now.wall_ms
        self._active_at = now.monotonic
        self._guard_recovery(lambda: self._recovery.begin(self._recover()))

    def take_work(self) -> list[DiskWork]:
        """Return the work to do next, at most one for each lane that is free."""
        work: list[DiskWork] = []
        state = self.state
        if state is not _READY and state is not _CLOSING:
            operations = self._recovery.take(0) if state is JournalState.RECOVERING else None
            if operations is not None:
                self._recovery_work = self._number_work()
                work.append(DiskWork(Lane.JOURNAL, self._recovery_work, operations))
            return work
        live_index = self._live_index
        if live_index.unsettled or live_index.ending:
            live_index.settle(SETTLED_PER_CALL)
        if self._writing is None and (self._parts or self._gathered):
            if state is _READY:
                self.background.choose(self.wall_ms)
            batch_work = self._write_next()
            if batch_work is not None:
                work.append(batch_work)
        bodies = self.bodies
        if state is _READY and (self.background.lane.steps is not None or bodies.requests or bodies.removals):
            background_work = self._next_in_background()
            if background_work is not None:
                work.append(background_work)
        return work

    def _next_in_background(self) -> DiskWork | None:
        """Return work of the journal or of large bodies, which take turns."""
        lane, bodies = self.background.lane, self.bodies
        if lane.under_way or bodies.under_way:
            return None
        operations = None
        if lane.steps is not None and not (self._is_turn_of_bodies and bodies.has_work(self.reached)):
            operations = lane.take(self.reached)
        if operations is not None:
            self._is_turn_of_bodies = True
            self._background_work = self._number_work()
            return DiskWork(Lane.BACKGROUND, self._background_work, operations)
        operations = bodies.take(self.reached)
        if operations is None:
            return None
        self._is_turn_of_bodies = False
        self._bodies_work = self._number_work()
        return DiskWork(Lane.BACKGROUND, self._bodies_work, operations)

    def on_disk_done(self, batch: int, results: tuple[object, ...], now: Instant) -> None:
        """Handle the success of the work numbered ``batch``."""
        self.wall_ms = now.wall_ms
        self._active_at = now.monotonic
        if self._writing is not None and batch == self._writing[0]:
            _, gathered, self._crc = self._writing
            self._writing = None
            self.reached = gathered.number
            if gathered.offset == FIRST_BATCH_OFFSET:
                self.rotated_at = gathered.number
            self._sealed = bool(gathered.flags & _SEAL)
        elif self.background.lane.under_way and batch == self._background_work:
            self.background.lane.done(results)
        elif self.bodies.under_way and batch == self._bodies_work:
            self.bodies.done(results)
        elif self._recovery.under_way and batch == self._recovery_work:
            self._guard_recovery(lambda: self._recovery.done(results))
        if self.state is _CLOSING:
            self._continue_closing()

    def on_disk_failed(self, batch: int, fault: DiskFault, now: Instant) -> None:
        """Handle the failure of the work numbered ``batch``.

        In the background it is a note; in the journal's lane it is final.
        """
        self.wall_ms = now.wall_ms
        if self.background.lane.under_way and batch == self._background_work:
            self.background.failed(fault)
            self._continue_closing()
            return
        if self.bodies.under_way and batch == self._bodies_work:
            self.bodies.failed(fault)
            self._continue_closing()
            return
        writing = self._writing is not None and batch == self._writing[0]
        if writing or (self._recovery.under_way and batch == self._recovery_work):
            self._writing = None
            self._recovery.abandon()
            self.lacks_room = fault.kind is FaultKind.FULL
            self._fail(str(fault))

    @property
    def has_room(self) -> bool | None:
        """Return True if the journal can go on when the current segment is full; None while that is being found out."""
        return self.background.has_room

    def next_deadline(self) -> float | None:
        """Return when ``on_tick`` must be called, in seconds of the monotonic clock; None: not before other calls."""
        if self._parts or self._sealed or self._writing or self._gathered or self.state is not _READY:
            return None
        return self._active_at + self.settings.seal_after_s

    def on_tick(self, now: Instant) -> None:
        """Write a seal after a time without records: it makes the last batch provably complete."""
        self.wall_ms = now.wall_ms
        deadline = self.next_deadline()
        leisure = deadline is not None and now.monotonic >= deadline
        if leisure:
            self._append_seal()
        if self.state is _READY:
            self.background.choose(self.wall_ms, leisure)

    def close(self, now: Instant) -> None:
        """Write what gathered, then a seal; the state is CLOSED when that is done. A failed journal stays FAILED."""
        self.wall_ms = now.wall_ms
        if self.state is JournalState.FAILED:
            return
        if self.state in (JournalState.NEW, JournalState.RECOVERING):
            self._recovery.abandon()
            self.state = JournalState.CLOSED
            return
        self.state = JournalState.CLOSING
        self._continue_closing()

    def _continue_closing(self) -> None:
        if self.state is not JournalState.CLOSING or self.background.lane.under_way or self.bodies.under_way:
            return
        self.background.lane.abandon()
        if self._parts or self._gathered or self._writing:
            return
        if self._sealed:
            self.state = JournalState.CLOSED
        else:
            self._append_seal()

    def _append_seal(self) -> None:
        self._append(codec.encode_id(RecordKind.SEAL, self.wall_ms))
        self._close_batch(BatchFlags.SEAL)

    def _number_work(self) -> int:
        self._works += 1
        return self._works

    def _write_next(self) -> DiskWork | None:
        if not self._gathered:
            self._close_batch(0)
        gathered = self._gathered[0]
        opens = gathered.offset == FIRST_BATCH_OFFSET
        if opens and self._segment_pool.preparing and not gathered.segment.made:
            return None  # its file is being prepared right now
        self._gathered.popleft()
        segment = gathered.segment
        file = segment.name
        before: list[DiskOperation] = []
        after: list[DiskOperation] = []
        if opens:
            file, before, after = self._segment_pool.opening(segment, self.wall_ms)
        header, body, crc = gathered.encode(self._segment_pool.identity, self.wall_ms, self._crc)
        operations: tuple[DiskOperation, ...] = WriteAt(file, gathered.offset, (header, body)), Sync(file)
        if opens:
            operations = (*before, *operations, *after)
        work = self._number_work()
        self._writing = work, gathered, crc
        return DiskWork(_LANE, work, operations)

    def _fail(self, reason: str) -> None:
        self.state = JournalState.FAILED
        self.failure = reason
        self._gathered.clear()
        self._parts.clear()
        self._room = self._capacity = 0
        self.background.lane.abandon()
        self.bodies.abandon()

    # -- recovery ----------------------------------------------------------------------------------------------------

    def _guard_recovery(self, advance: Callable[[], None]) -> None:
        try:
            advance()
        except Corruption as corruption:
            self._fail(f"the journal is damaged: {corruption}")

    def _recover(self) -> Steps[None]:
        recovery = yield from recover(self.settings)
        self._continue_from(recovery)

    def _continue_from(self, recovery: Recovery) -> None:
        replay = recovery.replay
        self._segment_pool.identity = recovery.identity
        self._segment_pool.generation = recovery.generation
        self._segment_pool.spares.extend(recovery.spares)
        self._segment_pool.prepared = recovery.prepared
        self._segments = recovery.segments
        self._live_index = replay.live_index
        self._index = replay.live_index.index
        self.background = self._make_background()
        self._id_limit = replay.id_limit
        self.reached = self._last_number = recovery.number
        self._number = recovery.number + 1
        self._crc = recovery.crc or 0
        self._sealed = recovery.sealed
        if recovery.current is not None:
            self._enter(recovery.current)
        self.notes += replay.notes
        self.state = JournalState.READY
        for transaction_id in replay.transaction_ids_to_roll_back():
            self.rollback(transaction_id)
        self.recovered = recovery.state

    def _make_background(self) -> Background:
        return Background(
            self.settings,
            self._segment_pool,
            self._live_index,
            self._segments,
            append=self._append,
            point=self.point,
            note=lambda text: self.notes.append(text),  # the caller may replace the list
        )
