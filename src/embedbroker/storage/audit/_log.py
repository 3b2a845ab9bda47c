"""The audit log: what a broker did with each message, as evidence for a later audit.

Responsible for what is written where: records gather in one buffer during a step, and `take_work` hands out one write
of them. Segments are like those of the journal, with other records, never compacted. The oldest is removed when all of
them together would take more than the retention. Opens no files, and is never needed by the broker itself: when the log
cannot be written it stops, and the broker goes on.

The write must be done before the other outputs of its step are carried out. So a peer has seen nothing that is not in
the log, and neither has the journal's disk, when the process is killed. Nothing waits for a sync: syncs come with the
ends of segments and with the end of the log. A power cut may take what was not synced.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from struct import pack
from typing import TYPE_CHECKING

from attrs import frozen

from embedbroker.kernel import DecisionObserver

from .._disk import DiskOperation, Remove, Sync, SyncDirectory, WriteAt
from ..journal._batch import BATCH_HEADER_BYTES, encode_batch, stored_size
from ..journal._segments import FIRST_BATCH_OFFSET, SegmentFlags, SegmentHeader, encode_header
from ._codec import DELIVERED, MESSAGE, NUMBER, RETURNED, AuditRecordKind, audit_name, encode_facts

if TYPE_CHECKING:
    from embedbroker.kernel import Consumer, Queue, Reference

    from ._directory import AuditDirectory

__all__ = ["AuditLog", "AuditWork"]

_BUFFER_BYTES = 256 * 1024
# The maximum length of names of peers, in characters.
_NAME_CHARACTERS_MAX = 128
# The maximum number of transactions in one record.
_COMMITTED_MAX = 256
_SENT, _LEFT, _DELIVERED, _RETURNED, _CONFIRMED = (
    int(kind)
    for kind in (
        AuditRecordKind.SENT,
        AuditRecordKind.LEFT,
        AuditRecordKind.DELIVERED,
        AuditRecordKind.RETURNED,
        AuditRecordKind.CONFIRMED,
    )
)
_MESSAGE_BYTES, _DELIVERED_BYTES, _RETURNED_BYTES, _NUMBER_BYTES = (
    MESSAGE.size,
    DELIVERED.size,
    RETURNED.size,
    NUMBER.size,
)
_pack_message, _pack_delivered, _pack_returned = MESSAGE.pack_into, DELIVERED.pack_into, RETURNED.pack_into


@frozen
class AuditWork:
    """Disk work of the log.

    ``operations`` must be done before anything else of the step, ``later`` in the background, in order. Only a failure
    is answered.
    """

    operations: tuple[DiskOperation, ...]
    later: tuple[DiskOperation, ...] = ()


class AuditLog(DecisionObserver):
    """The audit log of one life of a broker, from `begin` to `end`. Its caller must keep ``wall_ms`` current (Unix ms).

    ``retention_bytes`` is for all segments together, ``segment_size_bytes`` for each. The methods that record facts are
    those of `embedbroker.kernel.DecisionObserver`.
    """

    def __init__(self, place: AuditDirectory, *, retention_bytes: int, segment_size_bytes: int) -> None:
        self.wall_ms = 0
        #: Whether facts are recorded.
        self.is_open = False
        self.notes = place.notes
        self._retention_bytes = retention_bytes
        self._segment_size_bytes = segment_size_bytes
        self._kept = place.segments
        self._kept_bytes = sum(size for _, size in place.segments)
        self._number = place.segments[-1][0] if place.segments else 0
        # The segment that is written, and where its next batch goes: 0 while it has no file.
        self._name = ""
        self._offset = 0
        self._header: SegmentHeader | None = None
        self._life = 0
        self._identity: dict[str, object] = {}
        self._batch = 1
        self._crc = 0
        # Records gather here; several batches of them fit into any segment.
        self._limit = min(_BUFFER_BYTES, segment_size_bytes // 4)
        self._buffer = bytearray(self._limit)
        self._end = 0
        self._operations: list[DiskOperation] = []
        self._later: list[DiskOperation] = []
        # The queues and consumers whose names this segment contains.
        self._queues: set[int] = set()
        self._consumers: set[int] = set()
        self._consumer = 0
        # What was sent or committed, and not confirmed: (durability point, last id given), one for each point.
        self._unmarked = False
        self._marks: deque[tuple[int, int]] = deque()

    # -- facts -------------------------------------------------------------------------------------------------------

    def routed(self, queue: Queue, message_id: int, durable: bool, transaction_id: int) -> None:
        """Record that a message has its place in a queue, or will have it with the commit.

        ``durable``: a crash leaves it there.
        """
        self._record(_SENT, durable, queue, message_id, transaction_id)
        if durable and not transaction_id:
            self._unmarked = True

    def delivered(self, consumer: Consumer, reference: Reference) -> None:
        """Record that a consumer is given a message."""
        queue_id, number = consumer.queue.id, consumer.number
        if number not in self._consumers:
            number = self._name_consumer(consumer)
        end = self._end
        if end + _DELIVERED_BYTES > self._limit:
            self._close_batch()
            return self.delivered(consumer, reference)
        count = reference.delivery_count
        _pack_delivered(
            self._buffer, end, _DELIVERED_BYTES, _DELIVERED, count > 1, 0, reference.message.message_id, queue_id,
            number, count,
        )  # fmt: skip
        self._end = end + _DELIVERED_BYTES

    def settled(self, queue: Queue, message_id: int, why: int, transaction_id: int) -> None:
        """Record that a queue has settled a message, or will with the commit."""
        self._record(_LEFT, why, queue, message_id, transaction_id)

    def returned(self, queue: Queue, message_id: int, counted: bool) -> None:
        """Record that a delivery is back in its queue; ``counted``: the next one is a redelivery."""
        if queue.id not in self._queues:
            self._name_queue(queue)
        if self._end + _RETURNED_BYTES > self._limit:
            self._close_batch()
            return self.returned(queue, message_id, counted)
        _pack_returned(self._buffer, self._end, _RETURNED_BYTES, _RETURNED, counted, 0, message_id, queue.id)
        self._end += _RETURNED_BYTES

    def committed(self, transaction_ids: Sequence[int], number: int) -> None:
        """Record that transactions are committed; ``number`` is the last id that was given by then."""
        for first in range(0, len(transaction_ids), _COMMITTED_MAX):
            ids = transaction_ids[first : first + _COMMITTED_MAX]
            size = _NUMBER_BYTES + 8 * len(ids)
            self._add(NUMBER.pack(size, AuditRecordKind.COMMITTED, 0, 0, number) + pack(f"<{len(ids)}q", *ids))
        self._unmarked = True

    def queue_removed(self, queue: Queue) -> None:
        """Record that a queue is gone with its content."""
        self._add(NUMBER.pack(_NUMBER_BYTES, AuditRecordKind.QUEUE_GONE, 0, 0, queue.id))

    # -- life --------------------------------------------------------------------------------------------------------

    def begin(self, identity: int, broker: str, node_id: str) -> None:
        """Record facts from now on, into a new segment. ``identity`` is the journal's."""
        assert not self._life, "one log is of one life"
        self._life = self._number + 1
        self._header = SegmentHeader(identity, 0, 0, 0, 0, 0, 0, SegmentFlags.AUDIT)
        self._identity = {"broker": broker[:_NAME_CHARACTERS_MAX], "node": node_id, "life": self._life}
        self.is_open = True
        self._begin_segment()

    def end(self) -> None:
        """End the log after an orderly stop, or a fault of the broker: no more facts come."""
        if self.is_open:
            self._add(encode_facts(AuditRecordKind.ENDED, {"life": self._life}))
            self._close_batch()
            self.is_open = False
            self._operations += self._later
            if self._offset:
                self._operations += [Sync(self._name), SyncDirectory()]
            self._later = []

    def fail(self) -> AuditWork:
        """Stop the log because it cannot be written. Return the work that may still record this in its last segment."""
        self.is_open = False
        self._operations.clear()
        self._later.clear()
        self._marks.clear()
        self._end = 0
        # In place, so that it needs no room on a full disk; in the segment before, too, if this one has no file.
        numbers = [number for number, _ in list(self._kept)[-1:]] + [self._number]
        flags = SegmentFlags.CUT_SHORT
        return AuditWork(tuple([WriteAt(audit_name(each), 0, (self._header_bytes(each, flags),)) for each in numbers]))

    def take_work(self, point: int, confirmed: int, last_id: int) -> AuditWork | None:
        """Return what the step must write.

        ``point`` covers everything appended to the journal so far. Up to ``confirmed`` no reply has to wait any more.
        ``last_id`` is the last id that was given.
        """
        if self._unmarked:
            self._unmarked = False
            if self._marks and self._marks[-1][0] == point:
                self._marks.pop()
            self._marks.append((point, last_id))
        through = 0
        while self._marks and self._marks[0][0] <= confirmed:
            through = self._marks.popleft()[1]
        if through:
            self._add(NUMBER.pack(_NUMBER_BYTES, _CONFIRMED, 0, 0, through))
        if self._end:
            self._close_batch()
        elif not self._operations:
            return None
        work = AuditWork(tuple(self._operations), tuple(self._later))
        self._operations, self._later = [], []
        return work

    # -- gathering ---------------------------------------------------------------------------------------------------

    def _record(self, kind: int, flags: int, queue: Queue, message_id: int, transaction_id: int) -> None:
        queue_id = queue.id
        if queue_id not in self._queues:
            self._name_queue(queue)
        end = self._end
        if end + _MESSAGE_BYTES > self._limit:
            self._close_batch()  # which may be the last of its segment, and another one has no names
            return self._record(kind, flags, queue, message_id, transaction_id)
        _pack_message(self._buffer, end, _MESSAGE_BYTES, kind, flags, 0, message_id, queue_id, transaction_id)
        self._end = end + _MESSAGE_BYTES

    def _make_room(self, size: int) -> None:
        if self._end + size > self._limit:
            self._close_batch()

    def _add(self, record: bytes) -> None:
        self._make_room(len(record))
        self._buffer[self._end : self._end + len(record)] = record
        self._end += len(record)

    def _name_queue(self, queue: Queue) -> None:
        definition = queue.definition
        facts = {
            "id": queue.id,
            "name": queue.name[:_NAME_CHARACTERS_MAX],
            "address": definition.address[:_NAME_CHARACTERS_MAX],
            "durable": queue.durable,
        }
        self._add(encode_facts(AuditRecordKind.NAMED_QUEUE, facts))
        self._queues.add(queue.id)

    def _name_consumer(self, consumer: Consumer) -> int:
        if not consumer.number:
            self._consumer += 1
            consumer.number = self._consumer
        if consumer.queue.id not in self._queues:
            self._name_queue(consumer.queue)
        facts = {
            "number": consumer.number,
            "session": consumer.session[:_NAME_CHARACTERS_MAX],
            "key": consumer.key,
            "queue": consumer.queue.id,
        }
        record = encode_facts(AuditRecordKind.NAMED_CONSUMER, facts)
        if self._end + len(record) > self._limit:
            self._close_batch()  # another segment has no name of the queue
            return self._name_consumer(consumer)
        self._add(record)
        self._consumers.add(consumer.number)
        return consumer.number

    def _close_batch(self) -> None:
        """Close what gathered as a batch of this segment; if that is full now, the next record opens another one."""
        assert self._header is not None
        if not self._offset:
            self._operations.append(WriteAt(self._name, 0, (self._header_bytes(self._number),)))
            self._later.append(SyncDirectory())
            self._offset = FIRST_BATCH_OFFSET
        head, body, self._crc = encode_batch(
            [bytes(memoryview(self._buffer)[: self._end])],
            self._end,
            identity=self._header.identity,
            generation=self._number,
            number=self._batch,
            wall_ms=self.wall_ms,
            previous_crc=self._crc,
        )
        self._operations.append(WriteAt(self._name, self._offset, (head, body)))
        self._batch += 1
        self._end = 0
        self._offset += BATCH_HEADER_BYTES + len(body)
        if self._offset + stored_size(self._limit) > self._segment_size_bytes:
            self._later.append(Sync(self._name))
            self._kept.append((self._number, self._offset))
            self._kept_bytes += self._offset
            self._begin_segment()

    def _begin_segment(self) -> None:
        while self._kept and self._kept_bytes + self._segment_size_bytes > self._retention_bytes:
            number, size = self._kept.popleft()
            self._kept_bytes -= size
            self._later.append(Remove(audit_name(number)))
        self._number += 1
        self._name = audit_name(self._number)
        self._offset = 0
        self._crc = 0
        self._queues.clear()
        self._consumers.clear()
        self._add(encode_facts(AuditRecordKind.BEGUN, self._identity))

    def _header_bytes(self, number: int, flags: int = 0) -> bytes:
        header = self._header
        assert header is not None
        return encode_header(
            SegmentHeader(header.identity, number, number, number, 0, 0, self.wall_ms, header.flags | flags)
        )
