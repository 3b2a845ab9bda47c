"""Moves of messages that are deep in a backlog to a store-and-forward queue, without objects of these messages.

Responsible for a portion that moves as a whole. A message with a group, an expiration that is over, or bytes that
cannot be read is left to those that look at each message. Does not depend on the reason of a move.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import accumulate

from .._observer import Observers
from ..addressing._remote_binding import RemoteBinding
from ..queueing._queue import Queue
from ..settling._forwarding import Forwarding
from ..settling._removal import Removal
from ._placement import Placement

__all__ = ["PackedMoves"]

# Size of the messages that move as one portion: the one that exceeds it is the last.
_BYTES_MAX = 1 << 20


class PackedMoves:
    """Move messages as plain values; see `Backlog`."""

    __slots__ = ("_forwarding", "_observers", "_placement", "_removal")

    def __init__(self, forwarding: Forwarding, placement: Placement, removal: Removal, observers: Observers) -> None:
        self._forwarding = forwarding
        self._placement = placement
        self._removal = removal
        self._observers = observers

    def move(self, queue: Queue, binding: RemoteBinding, limit: int, staying: Collection[int]) -> tuple[int, int]:
        """Move the first waiting messages to the broker of a binding; return how many, and their size in bytes.

        Args:
            queue: The queue that they leave.
            binding: The binding that takes all of them.
            limit: Number of messages at most.
            staying: Ids of messages that stay.
        """
        observers, target = self._observers, binding.store_and_forward
        if observers.follow_messages or observers.decision.settled or not self._placement.takes_runs(target):
            return 0, 0
        entries = queue.first_packed(limit)
        if not entries or (entries[0][6] and queue.durable is not target.durable):
            return 0, 0
        if staying and not all(entry[5] not in staying for entry in entries):
            return 0, 0
        if sum([len(entry[4]) for entry in entries]) > _BYTES_MAX:
            sizes = accumulate([len(entry[4]) for entry in entries])
            del entries[1 + sum([size <= _BYTES_MAX for size in sizes]) :]
        copies = self._forwarding.copies_of_packed(entries, binding)
        if copies:
            del entries[len(copies) :]
            queue.take_packed(len(copies))
            self._placement.place_moved(copies, target, [entry[5] for entry in entries], queue)
            self._removal.finish_packed(queue, entries)
        return len(copies), sum([copy.memory_size for copy in copies])
