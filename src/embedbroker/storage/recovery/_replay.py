"""Replay: applies the records of batches, in order, to an empty state.

Responsible for the combined meaning of records. Does not depend on their source: recovery reads and checks the batches.
The result is the same for segments as written and for segments after compaction. So acknowledgements of unknown
messages, ends of unknown transactions and removals of unknown definitions are no errors.
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Iterable, Iterator

from attrs import Factory, define

from embedbroker.kernel import (
    AddressDefinition,
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
    HeuristicOutcome,
    QueueDefinition,
    SettingsDefinition,
    SettingsRemoved,
)

from ..journal import _record_codec as codec
from ..journal._live_index import LiveIndex
from ..journal._record_codec import (
    ACKNOWLEDGE,
    ADD_MESSAGE,
    GROUPED,
    PAIR,
    PREFIX,
    TRANSACTION,
    RecordKind,
)
from ..journal._segments import Segment
from ._recovered import REFERENCES, RecoveredState, RecoveredTransaction, StoredMessage

__all__ = ["MalformedRecord", "Replay"]

_KIND = 4  # offset of the kind in a record
_ADD, _ACKNOWLEDGE, _COMMIT = int(RecordKind.ADD_MESSAGE), int(RecordKind.ACKNOWLEDGE), int(RecordKind.COMMIT)
_COMMITS = (_COMMIT, int(RecordKind.COMMIT_SET))
# Records, and effects of a commit, in one slice: some 4 ms.
SLICE = 2_000


class MalformedRecord(Exception):
    """A record in a batch with a fitting checksum makes no sense to this program."""

    def __init__(self, position: int, text: str) -> None:
        super().__init__(text)
        self.position = position


@define(eq=False)
class _Transaction:
    adds: dict[int, StoredMessage] = Factory(dict)
    acknowledgements: list[tuple[int, int]] = Factory(list)
    duplicate_ids: list[DuplicateId] = Factory(list)
    xid: bytes | None = None


@define(eq=False)
class Replay:
    """The state after the records applied so far, and the account of what the journal still needs."""

    live_index: LiveIndex = Factory(LiveIndex)
    messages: dict[int, StoredMessage] = Factory(dict)
    addresses: dict[int, AddressDefinition] = Factory(dict)
    queues: dict[int, QueueDefinition] = Factory(dict)
    # By transaction id, decisions about prepared transactions.
    outcomes: dict[int, HeuristicOutcome] = Factory(dict)
    fencing_tokens: dict[int, FencingToken] = Factory(dict)
    cursors: dict[int, CursorDefinition] = Factory(dict)
    diverts: dict[int, DivertDefinition] = Factory(dict)
    groups: dict[int, GroupDecision] = Factory(dict)
    settings: dict[int, SettingsDefinition] = Factory(dict)
    # By address: its ids in the order in which they came into force.
    duplicate_ids: dict[int, dict[int, bytes]] = Factory(dict)
    # By message: the wall time before which it must not be delivered, where it has one.
    deliver_at: dict[int, int] = Factory(dict)
    # By message and queue: when a delayed redelivery is due.
    delayed: dict[tuple[int, int], int] = Factory(dict)
    # Queues that may hold messages of groups.
    grouped: set[int] = Factory(set)
    id_limit: int = 0
    # The extents of the latest SEGMENT_START, and what was dropped since.
    extents: list[tuple[int, int, int]] = Factory(list)
    dropped: set[tuple[int, int]] = Factory(set)
    notes: list[str] = Factory(list)
    _transactions: dict[int, _Transaction] = Factory(dict)
    # What is left of the slice.
    _room: int = Factory(lambda: SLICE)

    def apply(self, data: bytes, start: int, end: int, segment: Segment, segments: Iterable[Segment]) -> Iterator[None]:
        """Apply the records in ``data[start:end]``, which stand in ``segment``; pause when a slice of work is done.

        Raises:
            MalformedRecord: nothing can be concluded; ``position`` is an offset in ``data``.
        """
        messages, index, placements = self.messages, self.live_index.index, segment.placements
        unpack_add, unpack_pair, unpack_acknowledge = ADD_MESSAGE.unpack_from, PAIR.unpack_from, ACKNOWLEDGE.unpack_from
        position = start
        try:
            while position < end:
                self._room -= 1
                if self._room <= 0:
                    self._room = SLICE
                    yield
                kind = data[position + _KIND]
                if kind == _ADD:
                    (size, _, flags, encoding, priority, message_id, transaction_id, expiration, timestamp, wall_ms,
                     due_ms, count, raw_size) = unpack_add(data, position)  # fmt: skip
                    raw_start = position + size - raw_size
                    if raw_start != position + 64 + 16 * count or position + size > end:
                        raise MalformedRecord(position, "a message record with wrong sizes")
                    head = (encoding, priority, flags, expiration, timestamp, wall_ms)
                    raw = data[raw_start : raw_start + raw_size]
                    if due_ms:
                        self.deliver_at[message_id] = due_ms
                    if flags & GROUPED:
                        pairs = codec.decode_pairs(data, position + 64, raw_start)
                        self.grouped.update([queue_id for queue_id, _place in pairs])
                    if count == 1 and transaction_id:
                        queue_id, place = unpack_pair(data, position + 64)
                        self._transaction(transaction_id).adds[message_id] = (*head, raw, queue_id, place)
                        self.live_index.add_in_transaction(message_id, (queue_id,), transaction_id, segment)
                    elif count == 1:
                        queue_id, place = unpack_pair(data, position + 64)
                        messages[message_id] = (*head, raw, queue_id, place)
                        placement = placements.get(queue_id)
                        if placement is None:
                            placement = segment.placement(queue_id)
                        placement.count += 1
                        index[message_id] = placement
                    else:
                        pairs = codec.decode_pairs(data, position + 64, raw_start)
                        stored = (*head, raw, *[number for pair in pairs for number in pair])
                        self._add(message_id, transaction_id, stored, segment)
                elif kind == _ACKNOWLEDGE:
                    size, _, _, _, message_id, queue_id, transaction_id = unpack_acknowledge(data, position)
                    if size != ACKNOWLEDGE.size:
                        raise MalformedRecord(position, "an acknowledgement with a wrong size")
                    if transaction_id:
                        self._transaction(transaction_id).acknowledgements.append((message_id, queue_id))
                        self.live_index.acknowledge_in_transaction(message_id, queue_id, transaction_id, segment)
                    else:
                        self._settle(message_id, queue_id)
                        self.live_index.acknowledge(message_id, queue_id, segment)
                elif kind in _COMMITS:
                    commit = self._commit if kind == _COMMIT else self._commit_set
                    size = yield from commit(data, position, end, segment)
                else:
                    size = self._apply_rare(data, position, end, segment, segments)
                position += size
        except (struct.error, IndexError, ValueError, TypeError) as error:
            raise MalformedRecord(position, f"a record that cannot be read: {error}") from error
        if position != end:
            raise MalformedRecord(position, "a record that ends behind its batch")

    @property
    def transaction_ids(self) -> Iterable[int]:
        """Transactions that are open, prepared or not."""
        return self._transactions

    def transaction_ids_to_roll_back(self) -> list[int]:
        """Return transactions that were open and not prepared when the journal ended."""
        return [transaction_id for transaction_id, each in self._transactions.items() if each.xid is None]

    def settle(self) -> Iterator[None]:
        """Remove what large transactions ended, a slice with each step."""
        while self.live_index.unsettled:
            self.live_index.settle(SLICE)
            yield

    def finish(self, segments: Iterable[Segment]) -> RecoveredState:
        """Return the recovered state. References to queues and addresses without definition are garbage from here on.

        `settle` must have removed what large transactions ended before.
        """
        assert not self.live_index.unsettled
        for segment in segments:
            for owner in [each for each in segment.by_queue if each not in self.queues and each not in self.addresses]:
                segment.remove_queue(owner)
        counts = self.live_index.counts
        for queue_id in counts.keys() - self.queues.keys():
            self.live_index.drop_counts(queue_id)
        queue_ids = frozenset(self.queues)
        prepared = [
            RecoveredTransaction(
                transaction_id,
                each.xid,
                each.acknowledgements,
                each.duplicate_ids,
                each.adds,
                counts,
                queue_ids,
                self.deliver_at,
            )
            for transaction_id, each in self._transactions.items()
            if each.xid is not None
        ]
        return RecoveredState(
            tuple(self.addresses.values()),
            tuple(self.queues.values()),
            tuple(prepared),
            tuple(self.outcomes.values()),
            # A queue whose definition cannot be read has no content for a cursor to read.
            tuple([cursor for cursor in self.cursors.values() if cursor.queue_id in self.queues]),
            self.id_limit,
            tuple(self.notes),
            self.messages,
            {queue_id: dict(each) for queue_id, each in counts.items()},
            {address_id: values for address_id, values in self.duplicate_ids.items() if address_id in self.addresses},
            fencing_tokens=tuple(self.fencing_tokens.values()),
            deliver_at={message_id: due for message_id, due in self.deliver_at.items() if message_id in self.messages},
            grouped=frozenset(self.grouped),
            delayed={key: due_ms for key, due_ms in self.delayed.items() if key[0] in self.messages},
            diverts=tuple(self.diverts.values()),
            groups=tuple(self.groups.values()),
            settings=tuple(self.settings.values()),
        )

    def _apply_rare(self, data: bytes, position: int, end: int, segment: Segment, segments: Iterable[Segment]) -> int:
        size, kind, flags = _prefix(data, position, end)
        if kind not in RecordKind._value2member_map_:
            if not flags & codec.SKIPPABLE:
                raise MalformedRecord(position, f"a record of kind {kind}, which a newer version of this program wrote")
            return int(size)
        match RecordKind(kind):
            case RecordKind.UPDATE_DELIVERY_COUNT:
                message_id, queue_id, count, due_ms = codec.decode_delivery_count(data, position, size)
                if due_ms:
                    self.delayed[message_id, queue_id] = due_ms
                else:
                    self.delayed.pop((message_id, queue_id), None)
                self.live_index.update_delivery_count(message_id, queue_id, count, segment)
            case RecordKind.DUPLICATE_ID | RecordKind.CLEAR_DUPLICATE_IDS as noted:
                self._note_duplicate_ids(noted, data, position, size, segment, segments)
            case RecordKind.PREPARE:
                transaction_id = TRANSACTION.unpack_from(data, position)[4]
                self._prepare(transaction_id, data[position + TRANSACTION.size : position + size], segment)
            case RecordKind.ROLLBACK:
                transaction_id = TRANSACTION.unpack_from(data, position)[4]
                self._transactions.pop(transaction_id, None)
                self.live_index.rollback(transaction_id, segment)
            case RecordKind.ADDRESS | RecordKind.QUEUE as defined:
                self._define(defined, data, position, size, segment)
            case RecordKind.HEURISTIC_OUTCOME:
                outcome = codec.decode_outcome(data, position, size)
                self.outcomes[outcome.transaction_id] = outcome
                self.live_index.define(RecordKind.HEURISTIC_OUTCOME, outcome.transaction_id, segment)
            case RecordKind.FORGET_OUTCOME:
                identifier = codec.IDENTIFIER.unpack_from(data, position)[4]
                self.outcomes.pop(identifier, None)
                self.live_index.remove(RecordKind.HEURISTIC_OUTCOME, identifier, segment, ())
            case RecordKind.MARKER | RecordKind.REMOVE_MARKER | RecordKind.CURSOR | RecordKind.REMOVE_CURSOR as noted:
                self._note(noted, data, position, size, segment)
            case RecordKind.DIVERT | RecordKind.REMOVE_DIVERT as noted:
                self._note_divert(noted, data, position, size, segment)
            case RecordKind.SETTINGS | RecordKind.REMOVE_SETTINGS | RecordKind.GROUP | RecordKind.REMOVE_GROUP as noted:
                self._note_settings_or_group(noted, data, position, size, segment)
            case RecordKind.REMOVE_ADDRESS:
                identifier = codec.IDENTIFIER.unpack_from(data, position)[4]
                self.addresses.pop(identifier, None)
                self.duplicate_ids.pop(identifier, None)
                self.live_index.remove(RecordKind.ADDRESS, identifier, segment, segments)
            case RecordKind.REMOVE_QUEUE:
                identifier = codec.IDENTIFIER.unpack_from(data, position)[4]
                self.queues.pop(identifier, None)
                self.live_index.remove(RecordKind.QUEUE, identifier, segment, segments)
            case RecordKind.RESERVE_IDS:
                self.id_limit = max(self.id_limit, codec.IDENTIFIER.unpack_from(data, position)[4])
            case RecordKind.SEGMENT_START:
                id_limit, self.extents = codec.decode_segment_start(data, position, size)
                self.id_limit = max(self.id_limit, id_limit)
                self.dropped.clear()
            case RecordKind.SEGMENTS_DROPPED:
                self.dropped.update(codec.decode_dropped(data, position, size))
            case _:  # SEAL has no effect here; hot kinds do not come this way
                pass
        return size

    def _prepare(self, transaction_id: int, xid: bytes, segment: Segment) -> None:
        self._transaction(transaction_id).xid = xid
        self.live_index.prepare(transaction_id, xid, segment)

    def _note(self, kind: RecordKind, data: bytes, position: int, size: int, segment: Segment) -> None:
        """Apply a marker or the place of a reader: new, changed or removed."""
        fact: Fact
        if kind is RecordKind.MARKER:
            fact = codec.decode_marker(data, position, size)
            self.fencing_tokens[fact.id] = fact
        elif kind is RecordKind.CURSOR:
            fact, _unknown = codec.decode_cursor(data, position, size)
            self.cursors[fact.id] = fact
        else:
            identifier = codec.IDENTIFIER.unpack_from(data, position)[4]
            if kind is RecordKind.REMOVE_MARKER:
                fact = FencingTokenRemoved(identifier)
                self.fencing_tokens.pop(identifier, None)
            else:
                fact = CursorRemoved(identifier)
                self.cursors.pop(identifier, None)
        self.live_index.note(fact, segment)

    def _note_divert(self, kind: RecordKind, data: bytes, position: int, size: int, segment: Segment) -> None:
        fact: Fact
        if kind is RecordKind.DIVERT:
            fact, unknown = codec.decode_divert(data, position, size)
            self.diverts[fact.id] = fact
            if unknown:
                self.notes.append(f"divert {fact.name}: unknown fields {', '.join(unknown)} are ignored")
        else:
            fact = DivertRemoved(codec.IDENTIFIER.unpack_from(data, position)[4])
            self.diverts.pop(fact.id, None)
        self.live_index.note(fact, segment)

    def _note_settings_or_group(
        self, kind: RecordKind, data: bytes, position: int, size: int, segment: Segment
    ) -> None:
        fact: Fact
        if kind is RecordKind.SETTINGS:
            fact, unknown = codec.decode_settings(data, position, size)
            self.settings[fact.id] = fact
            if unknown:
                names = ", ".join(unknown)
                self.notes.append(f"{fact.kind} settings of {fact.match}: unknown fields {names} are ignored")
        elif kind is RecordKind.GROUP:
            fact, _unknown = codec.decode_group(data, position, size)
            self.groups[fact.id] = fact
        elif kind is RecordKind.REMOVE_GROUP:
            fact = GroupDecisionRemoved(codec.IDENTIFIER.unpack_from(data, position)[4])
            self.groups.pop(fact.id, None)
        else:
            fact = SettingsRemoved(codec.IDENTIFIER.unpack_from(data, position)[4])
            self.settings.pop(fact.id, None)
        self.live_index.note(fact, segment)

    def _commit(self, data: bytes, position: int, end: int, segment: Segment) -> Generator[None, None, int]:
        """Carry out the effects of a transaction, which may be more than a slice."""
        size, _kind, _flags = _prefix(data, position, end)
        transaction_id = TRANSACTION.unpack_from(data, position)[4]
        first = dict(codec.decode_pairs(data, position + TRANSACTION.size, position + size))
        yield from self._carry_out(transaction_id, first, segment)
        return size

    def _commit_set(self, data: bytes, position: int, end: int, segment: Segment) -> Generator[None, None, int]:
        """Carry out the effects of each transaction of a commit set."""
        size, _kind, _flags = _prefix(data, position, end)
        marker, transactions = codec.decode_commit_set(data, position, size)
        self.fencing_tokens[marker.id] = marker
        self.live_index.note(marker, segment)
        for transaction_id, first in transactions.items():
            yield from self._carry_out(transaction_id, first, segment)
        return size

    def _carry_out(self, transaction_id: int, first: dict[int, int], segment: Segment) -> Iterator[None]:
        transaction = self._transactions.pop(transaction_id, None)
        self.live_index.commit(transaction_id, segment)
        for _ in self._effects(transaction, first) if transaction is not None else ():
            self._room -= 1
            if self._room <= 0:
                self._room = SLICE
                yield

    def _effects(self, transaction: _Transaction, first: dict[int, int]) -> Iterator[None]:
        adds = transaction.adds
        for message_id in list(adds):
            self.messages[message_id] = _placed(adds.pop(message_id), first)
            yield
        for message_id, queue_id in transaction.acknowledgements:
            self._settle(message_id, queue_id)
            yield
        for entry in transaction.duplicate_ids:
            self._bring_into_force(entry)
            yield

    def _define(self, kind: RecordKind, data: bytes, position: int, size: int, segment: Segment) -> None:
        definition: AddressDefinition | QueueDefinition
        if kind is RecordKind.ADDRESS:
            definition, unknown = codec.decode_address(data, position, size)
            self.addresses[definition.id] = definition
        else:
            definition, unknown = codec.decode_queue(data, position, size)
            self.queues[definition.id] = definition
        if unknown:
            self.notes.append(f"{definition.name}: unknown fields {', '.join(unknown)} are ignored")
        self.live_index.define(kind, definition.id, segment)

    def _add(self, message_id: int, transaction_id: int, stored: StoredMessage, segment: Segment) -> None:
        queues = [number for number in stored[REFERENCES::2] if isinstance(number, int)]
        if transaction_id:
            self._transaction(transaction_id).adds[message_id] = stored
            self.live_index.add_in_transaction(message_id, queues, transaction_id, segment)
        else:
            self.messages[message_id] = stored
            self.live_index.add(message_id, queues, segment)

    def _note_duplicate_ids(
        self, kind: RecordKind, data: bytes, position: int, size: int, segment: Segment, segments: Iterable[Segment]
    ) -> None:
        """Apply a duplicate id, or the end of all that are in force at an address."""
        if kind is RecordKind.DUPLICATE_ID:
            self._add_duplicate_id(*codec.decode_duplicate_id(data, position, size), segment)
        else:
            address_id = codec.IDENTIFIER.unpack_from(data, position)[4]
            numbers = self.duplicate_ids.pop(address_id, {})
            self.live_index.clear_duplicate_ids(address_id, numbers, segment, segments)

    def _add_duplicate_id(self, entry: DuplicateId, transaction_id: int, segment: Segment) -> None:
        if transaction_id:
            self._transaction(transaction_id).duplicate_ids.append(entry)
        else:
            self._bring_into_force(entry)
        self.live_index.add_duplicate_id(entry, transaction_id, segment)

    def _bring_into_force(self, entry: DuplicateId) -> None:
        self.duplicate_ids.setdefault(entry.address_id, {})[entry.number] = entry.value

    def _transaction(self, transaction_id: int) -> _Transaction:
        transaction = self._transactions.get(transaction_id)
        if transaction is None:
            transaction = self._transactions[transaction_id] = _Transaction()
        return transaction

    def _settle(self, message_id: int, queue_id: int) -> None:
        stored = self.messages.get(message_id)
        if stored is None:
            return
        encoding, priority, flags, expiration, timestamp, wall_ms, raw, *tail = stored
        queues = tail[::2]
        if queue_id not in queues:
            return
        if len(queues) == 1:
            del self.messages[message_id]
        else:
            at = 2 * queues.index(queue_id)
            del tail[at : at + 2]
            self.messages[message_id] = (encoding, priority, flags, expiration, timestamp, wall_ms, raw, *tail)


def _prefix(data: bytes, position: int, end: int) -> tuple[int, int, int]:
    """Return size, kind and flags of a record that ends before ``end``."""
    if position + PREFIX.size > end:
        raise MalformedRecord(position, "a record cut short")
    size, kind, flags, _ = PREFIX.unpack_from(data, position)
    if size < PREFIX.size or position + size > end:
        raise MalformedRecord(position, f"a record of kind {kind} with a wrong size")
    return size, kind, flags


def _placed(stored: StoredMessage, first: dict[int, int]) -> StoredMessage:
    """Add the first position of each queue to the ordinals of a transaction's message."""
    encoding, priority, flags, expiration, timestamp, wall_ms, raw, *tail = stored
    if len(tail) == 2:
        tail[1] += first.get(tail[0], 0)
        return encoding, priority, flags, expiration, timestamp, wall_ms, raw, *tail
    for at in range(0, len(tail), 2):
        tail[at + 1] += first.get(tail[at], 0)
    return encoding, priority, flags, expiration, timestamp, wall_ms, raw, *tail
