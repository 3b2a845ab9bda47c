"""The parts of the journal that are still needed: the index of live messages, open transactions and definitions.

Responsible for following each record when it is appended or replayed, so that whole segments can be dropped and garbage
can be found without reading. Does not depend on bytes and files.

The index runs ahead of the disk: it contains records that are appended but not yet synced. Compaction acts on it, and
must therefore wait until everything appended at that time is durable before the old segments go.

An edge "segment C needs segment A" means: C holds a record that ends something in A. Such a record acknowledges a
message added in A, ends a transaction with records in A, or removes a definition in A. It may also hold a delivery
count. C may go only after A, or the ended item would come back to life. A segment may go when nothing in it lives and
all it needs is gone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import assert_never

from attrs import Factory, define

from embedbroker.kernel import (
    CommitSet,
    CursorDefinition,
    CursorRemoved,
    DivertDefinition,
    DivertRemoved,
    DuplicateId,
    Fact,
    FencingToken,
    FencingTokenRemoved,
    GroupDecision,
    GroupDecisionRemoved,
    SettingsDefinition,
    SettingsRemoved,
)

from ._record_codec import RecordKind
from ._segments import Placement, Segment

__all__ = ["LiveIndex", "OpenTransaction"]

Key = tuple[int, int]

# How many items one call may process beside its own record; a transaction of 100,000 messages would take 50 ms.
SETTLED_AT_ONCE = 100
# Freeing this many entries of a list costs as much as taking one message off.
_FREED_AS_ONE = 16


@define(eq=False)
class OpenTransaction:
    """A transaction without COMMIT or ROLLBACK so far."""

    adds: list[int] = Factory(list)
    acknowledgements: list[tuple[int, int]] = Factory(list)
    # The segments of its records; the value counts those that pin the segment while the transaction is open.
    segments: dict[Segment, int] = Factory(dict)
    xid: bytes | None = None
    # The entries that its end leaves unchanged: they are never used again, but freeing many of them takes time.
    over: list[int] | list[tuple[int, int]] = Factory(list[int])


@define(eq=False)
class LiveIndex:
    """The state of all records. ``index`` maps the id of every live message to its placement."""

    index: dict[int, Placement] = Factory(dict)
    # By queue, so that they are removed with it: the latest persisted delivery counts of live messages.
    counts: dict[int, dict[int, int]] = Factory(dict)
    # Messages with a count that did not only grow: the number of the segment with the latest record. Earlier records
    # may contain the same count, and their content alone would keep them for ever.
    recounted: dict[int, dict[int, int]] = Factory(dict)
    transactions: dict[int, OpenTransaction] = Factory(dict)
    # Transactions that ended, with the messages they took off: those of the acknowledgements after a commit, those of
    # the adds after a rollback. Duplicate ids that were cleared, too. Until they are settled their messages count as
    # live, which errs on the safe side.
    unsettled: deque[OpenTransaction] = Factory(deque)
    # Commit sets: the transactions that have not ended here yet, and the segment of the record. Those count as open
    # until then, which is safe as long as no segment goes and no compaction begins meanwhile.
    ending: deque[tuple[list[int], Segment]] = Factory(deque)
    # Segments with records of a definition that is in force, the latest last.
    definitions: dict[Key, list[Segment]] = Factory(dict)
    # Addresses that may have duplicate ids.
    _identified: set[int] = Factory(set)

    def add(self, message_id: int, queues: Sequence[int], segment: Segment) -> None:
        """Add a message without a transaction."""
        placement = segment.placement(queues[0] if len(queues) == 1 else tuple(queues))
        placement.count += 1
        self.index[message_id] = placement

    def add_in_transaction(self, message_id: int, queues: Sequence[int], transaction_id: int, segment: Segment) -> None:
        """Add a message in a transaction; it lives at least as long as the transaction is open."""
        self.add(message_id, queues, segment)
        self.hold_in_transaction(message_id, transaction_id, segment)

    def hold_in_transaction(self, message_id: int, transaction_id: int, segment: Segment) -> None:
        """Let a message, which has been added, live at least as long as a transaction is open."""
        transaction = self._transaction(transaction_id)
        transaction.adds.append(message_id)
        transaction.segments.setdefault(segment, 0)

    def note_transaction(self, transaction_id: int, segment: Segment) -> None:
        """Note that a segment has records of a transaction."""
        self._transaction(transaction_id).segments.setdefault(segment, 0)

    def hold_run(self, message_ids: Iterable[int], transaction_id: int) -> None:
        """Like `hold_in_transaction`, for messages whose segments are noted."""
        self._transaction(transaction_id).adds += message_ids

    def add_duplicate_id(self, entry: DuplicateId, transaction_id: int, segment: Segment) -> None:
        """Add a duplicate id to its address.

        The address keeps it as a queue keeps a message: it lives until the address forgets it or is gone.
        """
        self._identified.add(entry.address_id)
        if transaction_id:
            self.add_in_transaction(entry.number, (entry.address_id,), transaction_id, segment)
        else:
            self.add(entry.number, (entry.address_id,), segment)

    def identified(self, address_id: int, segment: Segment) -> Placement:
        """Return the placement of the duplicate ids of an address in a segment. Some of them follow."""
        self._identified.add(address_id)
        return segment.placement(address_id)

    def clear_duplicate_ids(
        self, address_id: int, numbers: Iterable[int], segment: Segment, segments: Iterable[Segment]
    ) -> None:
        """Remove the ids in force at an address; ``segment`` has the record of that.

        Segments may also have records of ids that were forgotten without a record. Those need it, too.
        """
        for earlier in segments:
            if address_id in earlier.by_queue:
                self._note_end((RecordKind.CLEAR_DUPLICATE_IDS, address_id), earlier, segment)
        self._settle_later(OpenTransaction(adds=list(numbers)))

    def acknowledge(self, message_id: int, queue_id: int, segment: Segment) -> None:
        """Remove one reference. Unknown ones are no error: compaction may have dropped the message already."""
        home = self._settle(message_id, queue_id)
        if home is not None and home is not segment:
            segment.needs[home] = None

    def acknowledge_in_transaction(self, message_id: int, queue_id: int, transaction_id: int, segment: Segment) -> None:
        """Remove one reference when the transaction commits."""
        transaction = self._transaction(transaction_id)
        transaction.acknowledgements.append((message_id, queue_id))
        transaction.segments[segment] = transaction.segments.get(segment, 0) + 1
        segment.pins += 1
        placement = self.index.get(message_id)
        if placement is not None and placement.segment is not segment:
            segment.needs[placement.segment] = None

    def acknowledge_run(self, message_ids: Iterable[int], queue_id: int, segment: Segment) -> None:
        """Like `acknowledge` for each of these messages."""
        home, index, before = segment, self.index, None
        for message_id in message_ids:
            placement = index.get(message_id)
            if placement is None:
                continue
            if placement is not before and (self.counts or placement.queues != (queue_id,)):
                # Mostly messages of one queue, without counts: those are taken off here.
                changed = self._settle(message_id, queue_id)
            else:
                before, changed = placement, placement.segment
                placement.count -= 1
                del index[message_id]
                changed.dead.append(message_id)
            if changed is not None and changed is not home:
                home = changed
                if home is not segment:
                    segment.needs[home] = None

    def acknowledge_run_in_transaction(
        self, message_ids: Sequence[int], queue_id: int, transaction_id: int, segment: Segment
    ) -> None:
        """Like `acknowledge_in_transaction` for each of these messages."""
        transaction, index = self._transaction(transaction_id), self.index
        transaction.acknowledgements += [(message_id, queue_id) for message_id in message_ids]
        transaction.segments[segment] = transaction.segments.get(segment, 0) + len(message_ids)
        segment.pins += len(message_ids)
        before = None
        for message_id in message_ids:
            placement = index.get(message_id)
            if placement is not before and placement is not None:
                before = placement
                if placement.segment is not segment:
                    segment.needs[placement.segment] = None

    def update_delivery_count(self, message_id: int, queue_id: int, count: int, segment: Segment) -> None:
        """Record the delivery count of a message in a queue."""
        placement = self.index.get(message_id)
        if placement is None:
            return
        if queue_id not in placement.queues:
            return
        counts = self.counts.setdefault(queue_id, {})
        if count <= counts.get(message_id, -1) or message_id in self.recounted.get(queue_id, ()):
            self.recounted.setdefault(queue_id, {})[message_id] = segment.last
        counts[message_id] = count
        if placement.segment is not segment:
            segment.needs[placement.segment] = None

    def prepare(self, transaction_id: int, xid: bytes, segment: Segment) -> None:
        transaction = self._transaction(transaction_id)
        transaction.xid = xid
        transaction.segments[segment] = transaction.segments.get(segment, 0) + 1
        segment.pins += 1

    def commit(self, transaction_id: int, segment: Segment) -> None:
        transaction = self._end(RecordKind.COMMIT, transaction_id, segment)
        if transaction is not None:
            transaction.over, transaction.adds = transaction.adds, []
            self._settle_later(transaction)

    def rollback(self, transaction_id: int, segment: Segment) -> None:
        transaction = self._end(RecordKind.ROLLBACK, transaction_id, segment)
        if transaction is not None:
            transaction.over, transaction.acknowledgements = transaction.acknowledgements, []
            self._settle_later(transaction)

    def note(self, fact: Fact, segment: Segment) -> None:
        """Record a rare fact."""
        match fact:
            case FencingToken():
                self.define(RecordKind.MARKER, fact.id, segment)
            case FencingTokenRemoved():
                self.remove(RecordKind.MARKER, fact.id, segment, ())
            case CommitSet():
                self.define(RecordKind.MARKER, fact.marker.id, segment)
                self.ending.append((list(reversed(fact.transaction_ids)), segment))
                if len(fact.transaction_ids) <= SETTLED_AT_ONCE:
                    self._end_sets(SETTLED_AT_ONCE)
            case CursorDefinition():
                self.define(RecordKind.CURSOR, fact.id, segment)
            case CursorRemoved():
                self.remove(RecordKind.CURSOR, fact.id, segment, ())
            case DivertDefinition():
                self.define(RecordKind.DIVERT, fact.id, segment)
            case DivertRemoved():
                self.remove(RecordKind.DIVERT, fact.id, segment, ())
            case SettingsDefinition():
                self.define(RecordKind.SETTINGS, fact.id, segment)
            case SettingsRemoved():
                self.remove(RecordKind.SETTINGS, fact.id, segment, ())
            case GroupDecision():
                self.define(RecordKind.GROUP, fact.id, segment)
            case GroupDecisionRemoved():
                self.remove(RecordKind.GROUP, fact.id, segment, ())
            case _:
                assert_never(fact)

    @property
    def has_unsettled(self) -> bool:
        """Return True if `settle` has something to do."""
        return bool(self.unsettled or self.ending)

    def settle(self, limit: int) -> None:
        """End what commit sets committed, then remove what large transactions ended from the index.

        ``limit`` bounds each.
        """
        self._take_off(self._end_sets(limit))

    def _end_sets(self, limit: int) -> int:
        while self.ending and limit > 0:
            transaction_ids, segment = self.ending[0]
            while transaction_ids and limit > 0:
                self.commit(transaction_ids.pop(), segment)
                limit -= 1
            if not transaction_ids:
                self.ending.popleft()
        return limit

    def _take_off(self, limit: int) -> None:
        """Remove up to ``limit`` messages that large transactions ended from the index.

        Free the entries that the end of a transaction leaves unchanged.
        """
        while self.unsettled and limit > 0:
            transaction = self.unsettled[0]
            acknowledgements, adds = transaction.acknowledgements, transaction.adds
            while acknowledgements and limit > 0:
                self._settle(*acknowledgements.pop())
                limit -= 1
            while adds and limit > 0:
                self.forget(adds.pop())
                limit -= 1
            over = transaction.over
            if over and limit > 0:
                count = min(len(over), _FREED_AS_ONE * limit)
                del over[-count:]
                limit -= -(-count // _FREED_AS_ONE)
            if not acknowledgements and not adds and not over:
                self.unsettled.popleft()

    def define(self, kind: RecordKind, identifier: int, segment: Segment) -> None:
        """Record that an address, a queue, a decision or a marker exists or changed; ``kind`` is that of its record."""
        history = self.definitions.setdefault((kind, identifier), [])
        if history:
            history[-1].pins -= 1
        if not history or history[-1] is not segment:
            # Without this, the history of a definition that changes with each batch of a reader would contain all
            # segments there ever were.
            history[:] = [earlier for earlier in history if not earlier.gone]
            history.append(segment)
        segment.pins += 1

    def remove(self, kind: RecordKind, identifier: int, segment: Segment, segments: Iterable[Segment]) -> None:
        """Remove an address, queue, decision or marker, and with it the duplicate ids or the references."""
        history = self.definitions.pop((kind, identifier), None)
        if history is not None:
            history[-1].pins -= 1
            for earlier in history:
                self._note_end((kind, identifier), earlier, segment)
        if kind == RecordKind.QUEUE or identifier in self._identified:
            self._identified.discard(identifier)
            self.drop_counts(identifier)
            for other in segments:
                other.remove_queue(identifier)

    def drop_counts(self, queue_id: int) -> None:
        """Drop the delivery counts of a queue that is gone."""
        self.counts.pop(queue_id, None)
        self.recounted.pop(queue_id, None)

    def move(self, old: list[Segment], new: Segment, later: Iterable[Segment]) -> None:
        """Replace ``old`` by ``new`` after compaction: edges to the old segments become edges to the new one."""
        for segment in old:
            segment.gone = True
            for placement in segment.orphans:
                placement.segment = new
            for queue_id, placements in segment.by_queue.items():
                for placement in placements:
                    placement.segment = new
                new.by_queue.setdefault(queue_id, []).extend(placements)
            new.orphans += segment.orphans
            new.pins += segment.pins
        replaced = dict.fromkeys(old)
        for other in later:
            if replaced.keys() & other.needs.keys():
                other.needs = {need: None for need in other.needs if need not in replaced} | {new: None}
        for transaction in self.transactions.values():
            for segment in old:
                if segment in transaction.segments:
                    pins = transaction.segments.pop(segment)
                    transaction.segments[new] = transaction.segments.get(new, 0) + pins
        for history in self.definitions.values():
            if any(segment in replaced for segment in history):
                # The latest stays last: it is the one in force.
                moved = [new if segment in replaced else segment for segment in reversed(history)]
                history[:] = reversed(dict.fromkeys([segment for segment in moved if not segment.gone]))

    def _transaction(self, transaction_id: int) -> OpenTransaction:
        transaction = self.transactions.get(transaction_id)
        if transaction is None:
            transaction = self.transactions[transaction_id] = OpenTransaction()
        return transaction

    def _end(self, kind: RecordKind, transaction_id: int, segment: Segment) -> OpenTransaction | None:
        transaction = self.transactions.pop(transaction_id, None)
        if transaction is not None:
            for earlier, pins in transaction.segments.items():
                earlier.pins -= pins
                self._note_end((kind, transaction_id), earlier, segment)
                if kind is RecordKind.ROLLBACK:
                    earlier.ended.add((kind, transaction_id))  # in the same segment too: its records can go at once
        return transaction

    def _settle_later(self, transaction: OpenTransaction) -> None:
        self.unsettled.append(transaction)
        if len(transaction.adds) + len(transaction.acknowledgements) + len(transaction.over) <= SETTLED_AT_ONCE:
            self._take_off(SETTLED_AT_ONCE)

    def _note_end(self, key: Key, earlier: Segment, segment: Segment) -> None:
        if earlier is not segment:
            segment.needs[earlier] = None
            earlier.ended.add(key)

    def _settle(self, message_id: int, queue_id: int) -> Segment | None:
        """Take one queue from a message; return the message's segment if that changed anything."""
        placement = self.index.get(message_id)
        if placement is None or queue_id not in placement.queues:
            return None
        if self.counts:
            for counted in (self.counts, self.recounted):
                of_queue = counted.get(queue_id)
                if of_queue is not None and of_queue.pop(message_id, None) is not None and not of_queue:
                    del counted[queue_id]
        segment = placement.segment
        placement.count -= 1
        if len(placement.queues) == 1:
            del self.index[message_id]
            segment.dead.append(message_id)
        else:
            segment.narrowed += 1
            left = tuple([other for other in placement.queues if other != queue_id])
            self.index[message_id] = remaining = segment.placement(left[0] if len(left) == 1 else left)
            remaining.count += 1
        return segment

    def forget(self, message_id: int) -> None:
        """Remove a message whatever references it had, or a duplicate id."""
        placement = self.index.pop(message_id, None)
        if placement is not None:
            placement.count -= 1
            placement.segment.dead.append(message_id)
            if placement.queues and placement.queues[0] in self._identified:
                placement.segment.ids_gone += 1

    def forget_run(self, numbers: Iterable[int]) -> None:
        """Remove duplicate ids, as `forget` does with each."""
        pop, identified = self.index.pop, self._identified
        for number in numbers:
            placement = pop(number, None)
            if placement is not None:
                segment = placement.segment
                placement.count -= 1
                segment.dead.append(number)
                if placement.queues and placement.queues[0] in identified:
                    segment.ids_gone += 1

    def ids_in(self, segment: Segment) -> int:
        """Return how many duplicate ids in force have their records in a segment."""
        return sum([
            placement.count
            for key, placements in segment.by_queue.items()
            if key in self._identified
            for placement in placements
        ])  # fmt: skip
