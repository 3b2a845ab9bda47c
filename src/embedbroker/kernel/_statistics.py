"""Figures of a broker's queues and memory, for tests, tools and reports.

Does not depend on the objects it describes: the values are frozen, and cost nothing until they are requested.
"""

from __future__ import annotations

from attrs import frozen

__all__ = ["BacklogStatistics", "KernelStatistics", "QueueStatistics"]


@frozen
class BacklogStatistics:
    """Hold figures of what waits in a queue, and how it is held."""

    size: int
    returned: int
    """Messages of ``size`` that were delivered before and came back."""
    open_chunks: int
    sealed_chunks: int
    entries: int
    """Entries of all chunks: messages, and the gaps of messages that were taken: ``entries >= size - returned``."""


@frozen
class QueueStatistics:
    """Hold counters of one queue."""

    name: str
    backlog: BacklogStatistics
    delivering: int
    scheduled: int
    """Messages that must not be delivered yet."""
    waiting_visible: int
    """Messages routed here that are not visible yet."""
    added: int
    acknowledged: int
    consumers: int
    browsers: int
    consumer_priorities: tuple[int, ...]
    """Priorities with a consumer that had a turn, highest first."""
    turns: int
    """Consumers that wait for their turn, closed ones that are not swept yet included."""


@frozen
class KernelStatistics:
    """Hold counters of one broker."""

    queues: tuple[QueueStatistics, ...]
    used_bytes: int
    reserved_bytes: int
    shared_messages: int
    """Messages that are in several queues."""
    addresses_with_messages: tuple[str, ...]
    claimed_duplicate_ids: int
    """Duplicate ids of transactions that have neither ended nor given them up."""
    pending_visibility: int
    """Messages and commits that wait for durability."""
    has_deferred_work: bool
