"""The columns behind the ledger: one account per destination (sends) and one per subscription (deliveries).

A message is a slot, its number among the messages sent to its destination. Facts are kept in arrays indexed by slot,
a few bytes each, so that a million messages and several subscriptions fit in memory. Rules live in the ledger.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterator
from enum import IntEnum, IntFlag

from attrs import define, field

__all__ = ["UNORDERED", "DestinationAccount", "Mark", "SendState", "SubscriptionAccount", "TransactionAccount"]

#: The stream of messages that were sent again: they have left their place in the order.
UNORDERED = 0xFFFFFFFF


class SendState(IntEnum):
    UNANSWERED = 0
    CONFIRMED = 1
    IN_DOUBT = 2
    REFUSED = 3


class Mark(IntFlag):
    """The state of one message at one subscription."""

    EXPECTED = 1  # the subscription existed when the message was sent and its filter takes it
    EXCLUDED = 2  # the subscription's filter refuses it
    ACKNOWLEDGING = 4  # an acknowledgement was requested
    ACKNOWLEDGED = 8  # the acknowledgement was confirmed
    MOVED = 16  # found on its dead letter address, or on its expiry address
    RETURNED = 32  # given back in an orderly way since the last delivery
    DOUBTFUL = 64  # the acknowledgement may or may not have happened
    SHOWN = 128  # a browser or an inspection found it there


#: Expected, and none of the marks that settle a message.
_OWED = int(Mark.EXPECTED | Mark.ACKNOWLEDGING | Mark.ACKNOWLEDGED | Mark.MOVED)
_CONFIRMED, _REFUSED = int(SendState.CONFIRMED), int(SendState.REFUSED)
_EXPECTED_OR_MOVED = int(Mark.EXPECTED | Mark.MOVED)
_EXPECTED, _RETURNED, _SHOWN = int(Mark.EXPECTED), int(Mark.RETURNED), int(Mark.SHOWN)


def _doubles() -> array[float]:
    return array("d")


def _integers() -> array[int]:
    return array("I")


@define(eq=False)
class DestinationAccount:
    """Hold all sends to one destination."""

    name: str
    keys: list[str] = field(factory=list)
    states: bytearray = field(factory=bytearray)
    durable: bytearray = field(factory=bytearray)
    resends: bytearray = field(factory=bytearray)
    streams: array[int] = field(factory=_integers)  # producer and priority: order holds within one of these
    expirations: array[float] = field(factory=_doubles)  # math.inf: never
    subscriptions: list[SubscriptionAccount] = field(factory=list)
    #: Messages sent again with an id that lets the broker take them once, while an earlier send was in doubt.
    repeated: set[int] = field(factory=set)
    #: Non-durable messages below this slot met a kill: they may be missing.
    volatile_below: int = 0

    def add(self, key: str, stream: int, durable: bool, expires_at: float | None) -> int:
        slot = len(self.keys)
        self.keys.append(key)
        self.states.append(SendState.UNANSWERED)
        self.durable.append(durable)
        self.resends.append(0)
        self.streams.append(stream)
        self.expirations.append(math.inf if expires_at is None else expires_at)
        return slot

    def volatile(self, slot: int) -> bool:
        """Return True if a kill may have removed the message, because it was not durable."""
        return slot < self.volatile_below and not self.durable[slot]


@define(eq=False)
class SubscriptionAccount:
    """Hold all deliveries of one queue or topic subscription."""

    name: str
    destination: DestinationAccount
    durable: bool
    open: bool = True
    marks: bytearray = field(factory=bytearray)
    deliveries: bytearray = field(factory=bytearray)  # stops counting at 255
    requested: bytearray = field(factory=bytearray)  # deliveries when the last acknowledgement was requested
    lives: array[int] = field(factory=_integers)  # number of kills before the last delivery
    order: dict[tuple[str, int], int] = field(factory=dict)  # consumer and stream -> highest slot delivered
    firsts: dict[int, int] = field(factory=dict)  # slot of a resent message -> see first_deliveries()
    #: Slot -> broker of the last delivery, where the caller names brokers.
    brokers: dict[int, str] = field(factory=dict)
    #: Messages below this slot may have been in a consumer's buffer when the consumer returned it or was cut off; they
    #: correctly come back behind later ones.
    unordered_below: int = 0
    #: Consumers that are returning messages now (`giving_back >= 0`); order holds only at 0.
    giving_back: int = 0
    #: Messages sent to a consumer that acknowledges before delivery, or that a purge may have removed: their delivery
    #: cannot be verified.
    taken: set[int] = field(factory=set)
    #: Purges that are under way. Each returns True for the key of a message that its filter spares; None spares none.
    purges: list[Callable[[str], bool] | None] = field(factory=list)
    #: Messages below this slot may be missing: the subscription is not durable and was interrupted.
    excused_below: int = 0

    def reach(self, slot: int) -> None:
        """Grow the columns to hold ``slot``."""
        missing = slot + 1 - len(self.marks)
        if missing > 0:
            self.marks.extend(bytes(missing))
            self.deliveries.extend(bytes(missing))
            self.requested.extend(bytes(missing))
            self.lives.frombytes(bytes(missing * self.lives.itemsize))

    def first_deliveries(self, slot: int) -> int:
        """Return the unflagged deliveries of a message that was sent more than once, without those returned since."""
        given_back = self.marks[slot] & _RETURNED
        return self.firsts.get(slot, 1 if self.deliveries[slot] and not given_back else 0)

    def promised(self, *, expiring: bool) -> Iterator[int]:
        """Yield the slots that must be here or be settled, and are neither.

        Args:
            expiring: include messages that have an expiration.
        """
        destination = self.destination
        states, deliveries = destination.states, self.deliveries
        for slot, marks in enumerate(self.marks):
            if marks & _OWED != _EXPECTED or slot < self.excused_below or slot in self.taken:
                continue
            if self.purges and self.may_be_purged(slot):
                continue
            state = states[slot]
            seen = deliveries[slot] or marks & _SHOWN
            if state == _REFUSED or (state != _CONFIRMED and not seen):
                continue
            if destination.volatile(slot) or (not expiring and destination.expirations[slot] != math.inf):
                continue
            yield slot

    def may_be_purged(self, slot: int) -> bool:
        """Return True if a purge that is under way may have removed the message."""
        key = self.destination.keys[slot]
        return any(spares is None or not spares(key) for spares in self.purges)

    def decides(self, slot: int) -> bool:
        """Return True if the presence of the message here proves the outcome of its transaction."""
        destination = self.destination
        if slot >= len(self.marks) or slot < self.excused_below or slot in self.taken or self.may_be_purged(slot):
            return False
        if self.marks[slot] & _EXPECTED_OR_MOVED != _EXPECTED:
            return False
        unsure = destination.resends[slot] or destination.volatile(slot) or destination.expirations[slot] != math.inf
        return not unsure


@define(eq=False)
class TransactionAccount:
    """Hold the sends and acknowledgements of one transaction without an outcome, or with an outcome in doubt."""

    name: str
    #: Acknowledgements of one call outside of transactions.
    is_batch: bool = False
    sends: list[tuple[DestinationAccount, int]] = field(factory=list)
    #: Subscription, slot, and the number of deliveries of the message at its acknowledgement.
    acknowledgements: list[tuple[SubscriptionAccount, int, int]] = field(factory=list)
