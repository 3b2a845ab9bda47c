"""Filling queues with what a journal kept.

Responsible for order (by position), delivery counts and memory accounting. Works on plain tuples: a message is parsed
when it is wanted, so recovery costs per header and the garbage collector sees chunks only. Refuses to know how the
journal stores anything.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from ._backlog import Sealed

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
        self._addresses = {queue.id: queue.definition.address for queue in kernel.catalog.queues.values()}
        self._waiting: dict[tuple[int, int], list[Sealed]] = {}

    def add(self, messages: Iterable[StoredMessage]) -> None:
        """Take some messages. References name queues that were restored before."""
        hold, addresses, waiting = self._kernel.memory.hold, self._addresses, self._waiting
        for message in messages:
            references = message.references
            raw, priority = message.raw, message.priority
            hold(message.message_id, addresses[references[0][0]], len(raw), len(references))
            for queue_id, position, delivery_count in references:
                entry = (position, delivery_count, message.expiration, message.encoding, raw)
                entries = waiting.get((queue_id, priority))
                if entries is None:
                    waiting[queue_id, priority] = [entry]
                else:
                    entries.append(entry)

    def finish(self) -> None:
        """Put everything in order into the queues."""
        for (queue_id, priority), entries in self._waiting.items():
            entries.sort()
            queue: Queue = self._queues[queue_id]
            queue.backlog.load(priority, entries)
            queue.added_count += len(entries)
        self._waiting.clear()
