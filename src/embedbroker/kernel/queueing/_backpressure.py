"""What stops all consumers of one connection together, while its peer does not keep up.

Responsible for remembering which of them would have got something, so that opening costs as much as was asked of it and
not as much as there are consumers. Refuses to know bytes and connections.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._consumer import Consumer

__all__ = ["Backpressure"]

# The first of those that wait may use up what the peer can take: the others are not all asked to find that out.
_AT_ONCE_MAX = 64


class Backpressure:
    """Open or shut. ``relieved`` collects valves that opened and whose waiting consumers have to be let through."""

    __slots__ = ("_relieved", "_waiting", "is_shut")

    def __init__(self, relieved: dict[Backpressure, None]) -> None:
        self._relieved = relieved
        self._waiting: dict[Consumer, None] = {}
        self.is_shut = False

    def shut(self) -> None:
        """Nothing passes from now on."""
        self.is_shut = True
        self._relieved.pop(self, None)

    def open(self) -> None:
        """Everything passes again; those that wait are told by `let_through`."""
        self.is_shut = False
        if self._waiting:
            self._relieved[self] = None

    def wait(self, consumer: Consumer) -> None:
        """This one would have got something."""
        self._waiting[consumer] = None

    def forget(self, consumer: Consumer) -> None:
        """This one is gone."""
        self._waiting.pop(consumer, None)

    def let_through(self) -> None:
        """Tell the queues of some that wait, longest first."""
        for consumer in list(islice(self._waiting, _AT_ONCE_MAX)):
            del self._waiting[consumer]
            consumer.queue.consumer_ready(consumer)
        if not self._waiting:
            del self._relieved[self]
