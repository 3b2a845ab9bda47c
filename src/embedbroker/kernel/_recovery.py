"""Filling queues with what a journal kept.

Responsible for order (by position), delivery counts, memory accounting, duplicate ids, and prepared branches. Such a
branch keeps what it acknowledged out of the queues and what it sent out of sight. Works on plain tuples: a message is
parsed at its first use, so recovery costs per header and the garbage collector sees chunks only. Does not depend on how
the journal stores anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from embedclient.errors import RemoteProtocolError
from embedclient.model import Encoding

from ._facts import DuplicateId, HeuristicOutcome
from .addressing._addresses import split_fqqn
from .message._body import Body
from .message._stored import body_of
from .queueing._backlog import CHUNK_ENTRIES, PackedReference, Reference
from .settling._outcome import Outcome
from .transactions._duplicate_ids import Identified
from .transactions._transaction import Transaction
from .xa._branch import xid_of

if TYPE_CHECKING:
    from ._kernel import Kernel
    from .queueing._queue import Queue

_CORE = int(Encoding.CORE)

__all__ = ["MessageRecord", "Recovery", "StoredTransaction"]


class _Line:
    """Collect what comes back to one priority of one queue, in chunks as a backlog takes them.

    A journal has messages in order of their positions: they are sorted again only if one was late.
    """

    __slots__ = ("_chunk", "_chunks", "_is_late", "_position", "count")

    def __init__(self) -> None:
        self._chunks: list[tuple[PackedReference, ...]] = []
        self._chunk: list[PackedReference] = []
        self._position = -1
        self._is_late = False
        self.count = 0

    def add(self, entry: PackedReference) -> None:
        position = entry[0]
        if position < self._position:
            self._is_late = True
        self._position = position
        self.count += 1
        chunk = self._chunk
        chunk.append(entry)
        if len(chunk) >= CHUNK_ENTRIES:
            self._chunks.append(tuple(chunk))
            chunk.clear()

    def in_order(self) -> list[tuple[PackedReference, ...]]:
        if self._chunk:
            self._chunks.append(tuple(self._chunk))
        if not self._is_late:
            return self._chunks
        entries = sorted(chain.from_iterable(self._chunks))
        return [tuple(entries[start : start + CHUNK_ENTRIES]) for start in range(0, len(entries), CHUNK_ENTRIES)]


class MessageRecord(Protocol):
    """Provide one message as a journal returns it. ``references`` are (queue id, position, delivery count)."""

    @property
    def message_id(self) -> int: ...
    @property
    def encoding(self) -> int: ...
    @property
    def priority(self) -> int: ...
    @property
    def durable(self) -> bool: ...
    @property
    def expiration(self) -> int: ...
    @property
    def deliver_at(self) -> int: ...
    @property
    def references(self) -> tuple[tuple[int, int, int], ...]: ...

    def stored_bytes(self) -> bytes:
        """Return the stored bytes of the message; see `Message.stored_bytes`."""


class StoredTransaction(Protocol):
    """Provide one prepared transaction as a journal returns it. ``acknowledgements`` are (message id, queue id)."""

    @property
    def transaction_id(self) -> int: ...
    @property
    def xid(self) -> bytes: ...
    @property
    def acknowledgements(self) -> Sequence[tuple[int, int]]: ...
    @property
    def duplicate_ids(self) -> Sequence[DuplicateId]: ...

    def take_adds(self, limit: int) -> Sequence[MessageRecord]:
        """Return the next messages it sent, in order; an empty result means that all were taken."""


class Recovery:
    """Restore queues portion by portion.

    `lock_some` until it is done, messages in any order, `send_some` until it is done.

    Then `finish` puts everything into queues and branches.
    """

    __slots__ = (
        "_address_names",
        "_addresses",
        "_bodies",
        "_counts_first",
        "_delayed",
        "_kernel",
        "_locking",
        "_locks",
        "_outcomes",
        "_prepared",
        "_queues",
        "_sending",
        "_waiting",
        "_wild",
    )

    def __init__(
        self,
        kernel: Kernel,
        transactions: Sequence[StoredTransaction] = (),
        outcomes: Iterable[HeuristicOutcome] = (),
        delayed: Mapping[tuple[int, int], int] = MappingProxyType({}),
        bodies: Mapping[int, int] | None = None,
        grouped: Iterable[int] = (),
    ) -> None:
        """Begin a recovery.

        ``delayed`` has by message and queue when a redelivery is due. ``grouped`` has queues whose messages may have
        groups.
        """
        self._kernel = kernel
        self._delayed = delayed
        # Sizes of the bodies of large messages that were found, by their numbers.
        self._bodies: Mapping[int, int] = {} if bodies is None else bodies
        self._counts_first = kernel.config.persist_delivery_count_before_delivery
        self._prepared = [(stored, kernel.transactions.restore(stored.transaction_id)) for stored in transactions]
        self._outcomes = outcomes
        # Queues of wildcard addresses, by their ids: their messages name other addresses.
        manager = kernel.address_manager
        self._wild = frozenset(
            [queue.id for queue in manager.queues.values() if manager.resolution.is_wild(queue.definition.address)]
        )
        # The transaction of each acknowledgement of prepared transactions.
        self._locks: dict[tuple[int, int], Transaction] = {}
        self._locking = self._all_locks()
        self._sending = list(reversed(self._prepared))
        self._queues = {queue.id: queue for queue in kernel.address_manager.queues.values()}
        self._address_names = {queue.id: queue.definition.address for queue in kernel.address_manager.queues.values()}
        self._addresses = {address.definition.id: address for address in kernel.address_manager.addresses.values()}
        self._waiting: dict[tuple[int, int], _Line] = {}
        for queue_id in grouped:
            if queue_id in self._queues:
                self._queues[queue_id].expect_groups()

    def _all_locks(self) -> Iterator[None]:
        for stored, transaction in self._prepared:
            for pair in stored.acknowledgements:
                self._locks[pair] = transaction
                yield
            for entry in stored.duplicate_ids:
                address = self._addresses.get(entry.address_id)
                if address is not None:
                    identified = Identified(address, entry)
                    identified.recorded = True
                    self._kernel.duplicates.claim(identified, transaction)
                yield

    def lock_some(self, limit: int) -> bool:
        """Record some acknowledgements and duplicate ids of prepared transactions.

        Return False when all are recorded.
        """
        return len(list(islice(self._locking, limit))) == limit

    def add(self, messages: Iterable[MessageRecord]) -> None:
        """Take some messages. References name queues that were restored before."""
        locks, queues, delayed, now_ms = self._locks, self._queues, self._delayed, self._kernel.now_ms
        restore = self._kernel.address_manager.restore
        wild = self._wild
        hold, addresses, waiting = self._kernel.memory.hold, self._address_names, self._waiting
        for message in messages:
            references = message.references
            stored, priority = message.stored_bytes(), message.priority
            due_ms = message.deliver_at
            if wild and any(queue_id in wild for queue_id, _position, _count in references):
                self._set_home(message.message_id, message.encoding, stored)
            if message.encoding == _CORE:
                hold(message.message_id, addresses[references[0][0]], len(stored), len(references))
            elif not self._hold_large(message, addresses[references[0][0]], stored):
                self._drop_damaged(message)
                continue
            for queue_id, position, delivery_count in references:
                if locks and (transaction := locks.pop((message.message_id, queue_id), None)) is not None:
                    # It was given to a consumer, which acknowledged it; that may have been written then.
                    count = max(delivery_count, 1) if self._counts_first else delivery_count + 1
                    reference = Reference(restore(message.encoding, stored), position, count)
                    transaction.take(queues[queue_id], (reference,), Outcome.ACCEPTED)
                    queues[queue_id].delivering_count += 1
                    queues[queue_id].added_count += 1
                    continue
                if delayed:
                    due_ms = delayed.get((message.message_id, queue_id), message.deliver_at)
                if due_ms > now_ms:
                    restored = restore(message.encoding, stored)
                    if message.deliver_at:
                        # A copy of it must be scheduled, too.
                        restored = restored.directed(message.deliver_at)
                    reference = Reference(restored, position, delivery_count)
                    queues[queue_id].schedule(reference, due_ms)
                    queues[queue_id].added_count += 1
                    continue
                entry = (
                    position,
                    delivery_count,
                    message.expiration,
                    message.encoding,
                    stored,
                    message.message_id,
                    message.durable,
                )
                line = waiting.get((queue_id, priority))
                if line is None:
                    line = waiting[queue_id, priority] = _Line()
                line.add(entry)

    def _hold_large(self, message: MessageRecord, address: str, stored: bytes) -> bool:
        """Count the memory of a message in another encoding, and its large body; return False if that is missing."""
        memory, queues = self._kernel.memory, len(message.references)
        try:
            body = body_of(stored)
        except RemoteProtocolError:
            return False
        if body.number and not self._has(body):
            return False
        memory.hold(message.message_id, address, len(stored), queues)
        if body.number:
            memory.hold_body(message.message_id, body.number, queues)
        return True

    def _has(self, body: Body) -> bool:
        return self._bodies.get(body.number, -1) >= body.size

    def _drop_damaged(self, message: MessageRecord) -> None:
        """Drop a message whose large body was removed by something else than the broker, with a line for each."""
        self._kernel.log(
            f"message {message.message_id} is dropped from {len(message.references)} queues: the file of its large "
            "body is missing or too short; files of a broker must not be removed while it is stopped"
        )
        for queue_id, _position, _count in message.references:
            self._locks.pop((message.message_id, queue_id), None)
            self._kernel.store.acknowledge(message.message_id, queue_id, 0)

    def _set_home(self, message_id: int, encoding: int, stored: bytes) -> None:
        """Count a message of a queue that is bound to a wildcard on the address it was sent to."""
        name = self._kernel.address_manager.restore(encoding, stored).address
        self._kernel.memory.set_home(message_id, split_fqqn(name)[0])

    def add_duplicate_ids(self, entries: Iterable[DuplicateId]) -> None:
        """Take some ids; those of each address come oldest first."""
        self._kernel.duplicates.restore(entries, self._addresses)

    def send_some(self, limit: int) -> bool:
        """Restore some of what prepared transactions sent; return False when all is restored."""
        if not self._sending:
            return False
        stored, transaction = self._sending[-1]
        messages = stored.take_adds(limit)
        for message in messages:
            if not message.references:
                continue
            # One place for all queues; journals of earlier versions counted in each queue.
            targets: dict[int, list[Queue]] = {}
            for queue_id, place, _count in message.references:
                targets.setdefault(place, []).append(self._queues[queue_id])
            address, kept = self._address_names[message.references[0][0]], message.stored_bytes()
            if any(queue_id in self._wild for queue_id, _place, _count in message.references):
                self._set_home(message.message_id, message.encoding, kept)
            if message.encoding == _CORE:
                self._kernel.memory.hold(message.message_id, address, len(kept), len(message.references))
            elif not self._hold_large(message, address, kept):
                self._kernel.log(
                    f"message {message.message_id} of a prepared transaction is dropped: the file of its large body is "
                    "missing or too short; files of a broker must not be removed while it is stopped"
                )
                continue
            restored = self._kernel.address_manager.restore(message.encoding, kept)
            if message.deliver_at:
                restored = restored.directed(message.deliver_at)
            for place, queues in targets.items():
                transaction.add(restored, queues, place)
        if not messages:
            self._sending.pop()
        return True

    def finish(self) -> None:
        """Put everything in order into the queues, and branches into the table where they can be decided."""
        for stored, transaction in self._prepared:
            self._kernel.branches.restore(xid_of(stored.xid), transaction)
        for outcome in self._outcomes:
            self._kernel.branches.restore_outcome(outcome)
        for (queue_id, priority), line in self._waiting.items():
            queue: Queue = self._queues[queue_id]
            queue.backlog.load(priority, line.in_order())
            queue.added_count += line.count
        self._waiting.clear()
        removed = self._kernel.large_bodies.remove_unused(self._bodies)
        if removed:
            self._kernel.inform(f"{removed} bodies of large messages are removed: no message refers to them")
        self._kernel.cursors.on_restored()
