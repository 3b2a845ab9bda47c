"""What refers to the bodies of large messages.

Responsible for removing a body with the last reference: a message in any number of queues, its copies at other
addresses, a consumer that receives it, or the sender that writes it. The record of what removed the last reference is
durable before the body is gone. Does not depend on where bodies are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._store import Store

__all__ = ["LargeBodies"]


class LargeBodies:
    """Count the uses of each body.

    Invariant: ``uses > 0`` for each number that is known.
    """

    __slots__ = ("_damaged", "_store", "_uses", "deliveries")

    def __init__(self, store: Store) -> None:
        self._store = store
        self._uses: dict[int, int] = {}
        # Bodies in use that could not be delivered: the log has a line for each.
        self._damaged: set[int] = set()
        #: Number of consumers that receive a body at the moment.
        self.deliveries = 0

    @property
    def uses(self) -> Mapping[int, int]:
        """Return how many uses each body has, by its number."""
        return self._uses

    def hold(self, number: int) -> None:
        """Count one more use of a body."""
        self._uses[number] = self._uses.get(number, 0) + 1

    def release(self, number: int) -> None:
        """Count one use less. The body is removed with the last one, behind everything that is recorded by now."""
        left = self._uses[number] - 1
        if left:
            self._uses[number] = left
        else:
            del self._uses[number]
            self._damaged.discard(number)
            self._store.bodies.remove(number, self._store.point())

    def begin_delivery(self, number: int) -> None:
        """Count a consumer that receives a body."""
        self.deliveries += 1
        self.hold(number)

    def end_delivery(self, number: int) -> None:
        """Count a consumer less; see `release`."""
        self.deliveries -= 1
        self.release(number)

    def note_damage(self, number: int) -> bool:
        """Note that a body cannot be delivered; return True for the first time."""
        if number in self._damaged:
            return False
        self._damaged.add(number)
        return True

    def remove_unused(self, found: Mapping[int, int]) -> int:
        """Remove those of the bodies found at the start that no message refers to; return their number."""
        unused = [number for number in found if number not in self._uses]
        for number in unused:
            self._store.bodies.remove(number, 0)
        return len(unused)
