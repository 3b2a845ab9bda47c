"""Filling queues with what a journal kept.

Responsible for order (by position), delivery counts, memory accounting and the duplicate ids. Works on plain tuples: a
message is parsed when it is wanted, so recovery costs per header and the garbage collector sees chunks only. Refuses to
know how the journal stores anything.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from ._backlog import Sealed
from ._duplicate_ids import DuplicateId

if TYPE_CHECKING:
    from ._kernel import Kernel
    from ._queue import Queue

__all__ = ["Recovery", "StoredMessage"]


class StoredMessage(Protocol):
    """One message as a journal gives it back. ``references`` are (queue id, position, delivery count)."""

    @property
    def message_id(self) -> int: ...
    @property
    def encoding(self) -> int: ...
    @property
    def priority(self) -> int: ...
    @property
    def expiration(self) -> int: ...
    @property
    def raw(self) -> bytes: ...
    @property
    def references(self) -> tuple[tuple[int, int, int], ...]: ...


class Recovery:
    """Takes messages in any order, portion by portion; `finish` puts them into their queues."""

    __slots__ = ("_addresses", "_kernel", "_queues", "_waiting")

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._queues = {queue.id: queue for queue in kernel.catalog.queues.values()}
        self._addresses = {address.definition.id: address for address in kernel.catalog.addresses.values()}
        self._waiting: dict[tuple[int, int], list[Sealed]] = {}

    def add(self, messages: Iterable[StoredMessage]) -> None:
        """Take some messages. References name queues that were restored before."""
        hold, queues, waiting = self._kernel.memory.hold, self._queues, self._waiting
        for message in messages:
            references = message.references
            raw, priority = message.raw, message.priority
            hold(message.message_id, queues[references[0][0]].definition.address, len(raw), len(references))
            for queue_id, position, delivery_count in references:
                entry = (position, delivery_count, message.expiration, message.encoding, raw)
                entries = waiting.get((queue_id, priority))
                if entries is None:
                    waiting[queue_id, priority] = [entry]
                else:
                    entries.append(entry)

    def add_duplicate_ids(self, entries: Iterable[DuplicateId]) -> None:
        """Take some ids; those of each address come oldest first."""
        self._kernel.duplicates.restore(entries, self._addresses)

    def finish(self) -> None:
        """Put everything in order into the queues."""
        for (queue_id, priority), entries in self._waiting.items():
            entries.sort()
            queue: Queue = self._queues[queue_id]
            queue.backlog.load(priority, entries)
            queue.added_count += len(entries)
        self._waiting.clear()
