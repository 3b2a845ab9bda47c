"""What can become of a delivery, in the words of AMQP 1.0 (3.4)."""

from __future__ import annotations

from enum import Enum

__all__ = ["Outcome"]


class Outcome(Enum):
    """How a delivery ended. Those that modify a message say two things, ``delivery_failed`` and ``undeliverable_here``.

    A failed delivery stays counted, and a message with too many of them goes to the dead letter address. A message that
    is undeliverable here goes back to its place, and never again to the consumer that said so.
    """

    ACCEPTED = ("accepted", False, False)
    # To the dead letter address, however often it was delivered.
    REJECTED = ("rejected", False, False)
    # To the expiry address: a client found it expired.
    EXPIRED = ("expired", False, False)
    # Back to its place, as if never delivered.
    RELEASED = ("released", False, False)
    FAILED = ("modified: delivery failed", True, False)
    UNDELIVERABLE_HERE = ("modified: undeliverable here", False, True)
    FAILED_UNDELIVERABLE_HERE = ("modified: delivery failed, undeliverable here", True, True)

    def __init__(self, _text: str, delivery_failed: bool, undeliverable_here: bool) -> None:
        self.delivery_failed = delivery_failed
        self.undeliverable_here = undeliverable_here

    @property
    def leaves(self) -> bool:
        """Whether the message leaves its queue."""
        return self in (Outcome.ACCEPTED, Outcome.REJECTED, Outcome.EXPIRED)

    @classmethod
    def modified(cls, *, delivery_failed: bool, undeliverable_here: bool) -> Outcome:
        """The outcome ``modified`` with these fields; with neither it is the same as released."""
        if undeliverable_here:
            return cls.FAILED_UNDELIVERABLE_HERE if delivery_failed else cls.UNDELIVERABLE_HERE
        return cls.FAILED if delivery_failed else cls.RELEASED
