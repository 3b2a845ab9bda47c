"""What a consumer may be sent before it asks for more, in the forms that protocols count it in.

Responsible for what is left and for what a grant means. Refuses to know queues: they ask `Credit.can_take` before a
delivery, charge what the port says it cost, and say when there is nothing more to deliver.
"""

from __future__ import annotations

from typing import Protocol

__all__ = ["UNLIMITED_CREDIT", "ByteCredit", "CountCredit", "Credit"]

UNLIMITED_CREDIT = 1 << 62


class Credit(Protocol):
    """``left`` is charged in place by whoever delivers: a call per message is one too many."""

    left: int

    def can_take(self, size: int) -> bool:
        """Whether a message of so many bytes may be sent now. 0 is one that is not known yet."""

    def grant(self, amount: int) -> None:
        """Apply what the peer said."""

    def on_marker(self) -> None:
        """Everything that could be delivered was, and the consumer, which asked for that, is about to be told."""


class ByteCredit:
    """CORE: bytes. The last message may be larger than what was left, as in Artemis, which makes that negative."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = 0

    def can_take(self, size: int) -> bool:
        return self.left > 0

    def grant(self, amount: int) -> None:
        """One flow token: -1 switches flow control off, 0 takes all credit away."""
        if amount == -1:
            self.left = UNLIMITED_CREDIT
        elif amount == 0:
            self.left = 0
        elif self.left < UNLIMITED_CREDIT:
            self.left += amount

    def on_marker(self) -> None:
        """A forced delivery takes nothing away."""


class CountCredit:
    """AMQP 1.0 (2.6.7): messages of any size. With ``drains``, what finds no message is used up."""

    __slots__ = ("drains", "left")

    def __init__(self) -> None:
        self.left = 0
        self.drains = False

    def can_take(self, size: int) -> bool:
        return self.left > 0

    def grant(self, amount: int) -> None:
        """The link credit from now on, whatever was left."""
        self.left = amount

    def on_marker(self) -> None:
        if self.drains:
            self.left = 0
