"""The outage that is under way: its beginning, what it hit, and which clients are served again.

Responsible for which success counts as the first of the new time. Does not depend on what a fault is.
"""

from __future__ import annotations

import math
from enum import Enum

import trio

from ._plan import Hit, OutageRecord

__all__ = ["NewTime", "Outage"]


class NewTime(Enum):
    """When the old time is over. A success of the old time may still belong to before the fault."""

    #: At the fault itself: an operation that began after it began at the next broker.
    AT_ONCE = "at once"
    #: For each client when it noticed that its connection is gone.
    WITH_THE_LOSS = "with the loss"
    #: When the fault is over. What was begun before it may succeed then.
    WHEN_HEALED = "when healed"


class Outage:
    """One outage. Times are seconds from the beginning of the drill.

    ``joins``: the prefix of a cluster node's messages. The outage is over only when messages go to the node and from
    it.
    """

    def __init__(
        self, name: str, began: NewTime, at: float, hit: Hit, producers: int, *, joins: str | None = None
    ) -> None:
        self.name = name
        self.over = trio.Event()
        self._began = began
        self._hit = hit
        self._producers = producers
        # Where the broker goes on for a while, the first loss is the beginning.
        self._at = None if began is NewTime.WITH_THE_LOSS else at
        self._requested_at = at
        self._serving_at: float | None = None
        self._healed_at = math.inf
        self._delivered_at: float | None = None
        # In a cluster: messages sent since, and when one of them came from another node, and went to one.
        self._joins = joins
        self._sent: set[str] = set()
        self._arrived_at: float | None = None
        self._left_at: float | None = None
        self._lost: dict[str, float] = {}
        self._back: dict[str, float] = {}

    @property
    def noticed(self) -> bool:
        """True if the outage has begun for the clients."""
        return self._at is not None

    def lost(self, client: str, now: float) -> None:
        """Record that a client noticed the loss of its connection."""
        self._lost.setdefault(client, now)
        if self._at is None:
            self._at = now

    def serving(self, now: float) -> None:
        """Record that a broker serves clients from now on."""
        if self._serving_at is None:
            self._serving_at = now

    def healed(self, now: float) -> None:
        """Record that the fault is over."""
        self._healed_at = now

    def succeeded(self, producer: str, began: float, now: float) -> None:
        """Record that a send or commit that began at ``began`` was confirmed."""
        if producer not in self._back and self._is_new(producer, began, now):
            self._back[producer] = now
            self._look()

    def delivered(self, now: float) -> None:
        """Record a message from a broker whose loss its consumer has not noticed."""
        if self._delivered_at is None and self._is_over_by(now):
            self._delivered_at = now
            self._look()

    def sent(self, key: str) -> None:
        """Record that a producer of any node is about to send a message."""
        if self._joins is not None and self.noticed and self._joined_at is None:
            self._sent.add(key)

    def arrived(self, key: str, now: float) -> None:
        """Record that a consumer of this node received a message that was sent to another node."""
        if self._arrived_at is None and key in self._sent and self._is_over_by(now):
            self._arrived_at = now
            self._look()

    def left(self, key: str, now: float) -> None:
        """Record that a consumer of another node received a message, which may have been sent to this node."""
        is_of_node = self._joins is not None and key.startswith(self._joins)
        if is_of_node and self._left_at is None and key in self._sent and self._is_over_by(now):
            self._left_at = now
            self._look()

    def record(self) -> OutageRecord:
        """Return all times as a record."""
        at = self._requested_at if self._at is None else self._at

        def since(moment: float | None) -> float | None:
            return None if moment is None else moment - at

        back = tuple(sorted(moment - at for moment in self._back.values()))
        return OutageRecord(
            self.name,
            at,
            self._hit,
            since(self._serving_at),
            since(self._delivered_at),
            back,
            since(self._joined_at),
        )

    @property
    def _joined_at(self) -> float | None:
        if self._arrived_at is None or self._left_at is None:
            return None
        return max(self._arrived_at, self._left_at)

    def _is_over_by(self, now: float) -> bool:
        return now >= self._healed_at if self._began is NewTime.WHEN_HEALED else self._at is not None

    def _is_new(self, producer: str, began: float, now: float) -> bool:
        if self._began is NewTime.WHEN_HEALED:
            return now >= self._healed_at
        if self._began is NewTime.AT_ONCE:
            return self._at is not None and began >= self._at
        return began >= self._lost.get(producer, math.inf)

    def _look(self) -> None:
        is_joined = self._joined_at is not None or self._joins is None
        if self._delivered_at is not None and len(self._back) == self._producers and is_joined:
            self._sent.clear()
            self.over.set()
