"""Outcomes of a delivery, with the names of AMQP 1.0 (3.4)."""

from __future__ import annotations

from enum import Enum

__all__ = ["Outcome"]


class Outcome(Enum):
    """Define how a delivery ended. Modified outcomes have two flags, ``delivery_failed`` and ``undeliverable_here``.

    A failed delivery stays counted, and a message with too many of them goes to the dead letter address. A message that
    is undeliverable here returns to its place, and never again goes to the consumer that settled it so.
    """

    ACCEPTED = ("accepted", False, False)
    # To the dead letter address, whatever its delivery count.
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
        """Return True if the message leaves its queue."""
        return self in (Outcome.ACCEPTED, Outcome.REJECTED, Outcome.EXPIRED)

    @classmethod
    def modified(cls, *, delivery_failed: bool, undeliverable_here: bool) -> Outcome:
        """Return the outcome ``modified`` with these fields; with neither it is the same as released."""
        if undeliverable_here:
            return cls.FAILED_UNDELIVERABLE_HERE if delivery_failed else cls.UNDELIVERABLE_HERE
        return cls.FAILED if delivery_failed else cls.RELEASED
