"""Messages that arrived and were not taken yet.

Responsible for giving them out by priority, highest first, and in order of arrival within one priority. Does not depend
on consumers, credits or acknowledgements.
"""

from collections import deque
from collections.abc import Iterator
from typing import Final, Protocol

from embedclient.wire.core import CoreMessage

from .._call import Call

PRIORITY_MAX: Final = 9


class DeliveryAcknowledger(Protocol):
    """Acknowledge the deliveries of one consumer; see `Acknowledgements`."""

    def acknowledge(self, delivery: "Delivery") -> Call[None]:
        """Acknowledge this delivery and all before it."""

    def acknowledge_individually(self, delivery: "Delivery") -> Call[None]:
        """Acknowledge this delivery only."""

    def gave_back(self, delivery: "Delivery") -> bool:
        """Return True if the delivery is going to come again."""


class Delivery:
    """A message as delivered to one consumer. `sequence` orders the deliveries of a consumer."""

    __slots__ = ("acknowledgements", "delivery_count", "frame_size", "message", "sequence")

    def __init__(
        self,
        message: CoreMessage,
        delivery_count: int,
        acknowledgements: DeliveryAcknowledger,
        frame_size: int,
        sequence: int,
    ) -> None:
        self.message = message
        self.delivery_count = delivery_count
        self.acknowledgements = acknowledgements
        self.frame_size = frame_size
        self.sequence = sequence

    @property
    def redelivered(self) -> bool:
        """Return True if it was delivered before, to this or another consumer."""
        return self.delivery_count > 1

    def __repr__(self) -> str:
        return f"<Delivery {self.sequence} of {self.message!r}, count {self.delivery_count}>"


class Prefetch:
    """A consumer's buffer, one queue per priority. `highest` is the best priority in it, -1 when empty."""

    __slots__ = ("_count", "_levels", "highest")

    def __init__(self) -> None:
        self._levels: list[deque[Delivery]] = [deque() for _ in range(PRIORITY_MAX + 1)]
        self._count = 0
        self.highest = -1

    def __len__(self) -> int:
        return self._count

    @property
    def first(self) -> Delivery:
        """Return the message that `take` would return. The buffer must not be empty."""
        return self._levels[self.highest][0]

    def put(self, delivery: Delivery, priority: int) -> None:
        self._levels[priority].append(delivery)
        self._count += 1
        if priority > self.highest:
            self.highest = priority

    def put_back(self, delivery: Delivery, priority: int) -> None:
        """Put a delivery that was taken just now back in front of its priority."""
        self._levels[priority].appendleft(delivery)
        self._count += 1
        if priority > self.highest:
            self.highest = priority

    def take(self) -> Delivery:
        """Return the next message. The buffer must not be empty."""
        level = self._levels[self.highest]
        delivery = level.popleft()
        self._count -= 1
        if not level:
            self._descend()
        return delivery

    def remove(self, delivery: Delivery, priority: int) -> bool:
        """Remove a delivery. Return True if it was present."""
        level = self._levels[priority]
        if delivery not in level:
            return False
        level.remove(delivery)
        self._count -= 1
        if priority == self.highest and not level:
            self._descend()
        return True

    def _descend(self) -> None:
        if self._count == 0:
            self.highest = -1
            return
        while not self._levels[self.highest]:
            self.highest -= 1

    def clear(self) -> Iterator[Delivery]:
        """Remove and return all messages."""
        while self._count:
            yield self.take()
