"""Stop all consumers of one connection together, while its peer does not keep up.

Responsible for remembering which of them could have received a message. So the cost of opening depends on the messages
that were held up, not on the number of consumers. Does not depend on bytes and connections.
"""

from __future__ import annotations

from itertools import islice
from typing import Protocol

__all__ = ["Backpressure", "HeldUp"]

# The first waiting consumers may use up what the peer can take: the others need no attempt to find that out.
_AT_ONCE_MAX = 64


class HeldUp(Protocol):
    """Could have received a message, but for the back-pressure of its connection."""

    def resume(self) -> None:
        """Continue now that the peer keeps up again."""


class Backpressure:
    """Let consumers pass while it is open.

    ``relieved`` collects valves that opened and whose waiting consumers must be let through.
    """

    __slots__ = ("_relieved", "_waiting", "is_shut")

    def __init__(self, relieved: dict[Backpressure, None]) -> None:
        self._relieved = relieved
        self._waiting: dict[HeldUp, None] = {}
        self.is_shut = False

    def shut(self) -> None:
        """Let nothing pass from now on."""
        self.is_shut = True
        self._relieved.pop(self, None)

    def open(self) -> None:
        """Let everything pass again; `let_through` wakes the queues of waiting consumers."""
        self.is_shut = False
        if self._waiting:
            self._relieved[self] = None

    def wait(self, consumer: HeldUp) -> None:
        """Add a consumer that could have received a message."""
        self._waiting[consumer] = None

    def forget(self, consumer: HeldUp) -> None:
        """Forget a consumer that is gone."""
        self._waiting.pop(consumer, None)

    def let_through(self) -> None:
        """Wake the queues of some waiting consumers, longest wait first."""
        for consumer in list(islice(self._waiting, _AT_ONCE_MAX)):
            del self._waiting[consumer]
            consumer.resume()
        if not self._waiting:
            del self._relieved[self]
