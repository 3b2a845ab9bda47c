"""What a consumer may be sent before it requests more, in the forms that protocols count it in.

Responsible for what is left and for the effect of a grant. Does not depend on queues. A queue calls `Credit.can_take`
before a delivery, charges the cost that the port returns, and reports when there is nothing more to deliver.
"""

from __future__ import annotations

from typing import Protocol

__all__ = ["UNLIMITED_CREDIT", "ByteCredit", "CountCredit", "Credit"]

UNLIMITED_CREDIT = 1 << 62


class Credit(Protocol):
    """Count the credit of a consumer. The deliverer charges ``left`` in place: a call per message is one too many."""

    left: int

    def can_take(self, size: int) -> bool:
        """Return True if a message of ``size`` bytes may be sent now; 0 stands for a message that is not known yet."""

    def grant(self, amount: int) -> None:
        """Apply a grant of the peer."""

    def on_marker(self) -> None:
        """Handle the state in which everything deliverable was delivered, just before the requested marker is sent."""


class ByteCredit:
    """Count bytes (CORE). As in Artemis, the last message may exceed what was left, which makes ``left`` negative."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = 0

    def can_take(self, size: int) -> bool:
        return self.left > 0

    def grant(self, amount: int) -> None:
        """Apply one flow token: -1 switches flow control off, 0 takes all credit away."""
        if amount == -1:
            self.left = UNLIMITED_CREDIT
        elif amount == 0:
            self.left = 0
        elif self.left < UNLIMITED_CREDIT:
            self.left += amount

    def on_marker(self) -> None:
        """Do nothing: a forced delivery takes no credit away."""


class CountCredit:
    """Count messages of any size (AMQP 1.0, 2.6.7). With ``drains``, credit that finds no message is used up."""

    __slots__ = ("drains", "left")

    def __init__(self) -> None:
        self.left = 0
        self.drains = False

    def can_take(self, size: int) -> bool:
        return self.left > 0

    def grant(self, amount: int) -> None:
        """Set the link credit from now on, whatever was left."""
        self.left = amount

    def on_marker(self) -> None:
        if self.drains:
            self.left = 0
