"""The end check: walks the accounts and reports missing messages. It changes nothing and can run at any time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from attrs import define, field

from ._accounts import DestinationAccount, Mark, SendState, SubscriptionAccount, TransactionAccount
from ._verdict import Finding, Kill, Tally, Timeline, TimelineBucket, Verdict

__all__ = ["TimelineRecorder", "audit"]

_NAMES = {
    Finding.REDELIVERED: "redelivered",
    Finding.RETURNED: "returned",
    Finding.AFTER_RESTART: "redelivered_after_restart",
    Finding.RESEND: "resend_duplicates",
    Finding.DUPLICATED_FLAGGED: "duplicated_flagged",
    Finding.DUPLICATED_UNFLAGGED: "duplicated_unflagged",
    Finding.REAPPEARED: "reappeared",
    Finding.REORDERED: "reordered",
    Finding.PHANTOM: "phantom",
    Finding.MISROUTED: "misrouted",
    Finding.LATE: "late",
    Finding.FLAGGED_AT_ONCE: "flagged_at_once",
    Finding.EXPIRED_EARLY: "expired_early",
    Finding.MOVED: "moved",
}


@define(eq=False)
class TimelineRecorder:
    """Count facts per slice of time."""

    bucket_s: float
    _buckets: dict[int, list[int]] = field(factory=dict, init=False)

    def sent(self, at: float) -> None:
        self._bucket(at)[0] += 1

    def confirmed(self, at: float) -> None:
        self._bucket(at)[1] += 1

    def delivered(self, at: float) -> None:
        self._bucket(at)[2] += 1

    def acknowledged(self, at: float) -> None:
        self._bucket(at)[3] += 1

    def timeline(self) -> Timeline:
        return Timeline(
            self.bucket_s, {slot: TimelineBucket(*counts) for slot, counts in sorted(self._buckets.items())}
        )

    def _bucket(self, at: float) -> list[int]:
        slot = int(at // self.bucket_s)
        bucket = self._buckets.get(slot)
        if bucket is None:
            bucket = self._buckets[slot] = [0, 0, 0, 0]
        return bucket


@define(eq=False)
class _Tallying:
    examples_max: int
    count: int = 0
    keys: list[str] = field(factory=list)

    def add(self, key: str) -> None:
        self.count += 1
        if len(self.keys) < self.examples_max:
            self.keys.append(key)

    def tally(self) -> Tally:
        return Tally(self.count, tuple(self.keys))


def audit(
    destinations: Sequence[DestinationAccount],
    doubtful: Sequence[TransactionAccount],
    findings: Mapping[Finding, Tally],
    *,
    drained: bool,
    expiring: bool,
    delivered: int,
    kills: tuple[Kill, ...],
    examples_max: int,
) -> Verdict:
    """Return the verdict over all accounts."""
    subscriptions = [subscription for destination in destinations for subscription in destination.subscriptions]
    lost, vanished, torn = (_Tallying(examples_max) for _ in range(3))
    if drained:
        for subscription in subscriptions:
            _audit_subscription(subscription, expiring, lost, vanished)
        for transaction in doubtful:
            if _is_torn(transaction):
                torn.add(transaction.name)
    marks = [bytes(subscription.marks) for subscription in subscriptions]
    return Verdict(
        drained=drained,
        sent=sum(len(destination.keys) for destination in destinations),
        confirmed=sum(destination.states.count(SendState.CONFIRMED) for destination in destinations),
        refused=sum(destination.states.count(SendState.REFUSED) for destination in destinations),
        unanswered=sum(destination.states.count(SendState.UNANSWERED) for destination in destinations),
        in_doubt=_in_state(destinations, SendState.IN_DOUBT, examples_max),
        resent=_resent(destinations, examples_max),
        delivered=delivered,
        acknowledged=_count_marked(marks, Mark.ACKNOWLEDGED),
        acknowledgements_in_doubt=_count_marked(marks, Mark.DOUBTFUL),
        expired=sum(_count_expiring(subscription) for subscription in subscriptions),
        dead_lettered=_count_marked(marks, Mark.MOVED),
        lost=lost.tally(),
        vanished=vanished.tally(),
        torn_transactions=torn.tally(),
        kills=kills,
        **{_NAMES[finding]: tally for finding, tally in findings.items()},
    )


def _audit_subscription(
    subscription: SubscriptionAccount, expiring: bool, lost: _Tallying, vanished: _Tallying
) -> None:
    keys = subscription.destination.keys
    for slot in subscription.promised(expiring=expiring):
        (vanished if subscription.deliveries[slot] else lost).add(keys[slot])


def _is_torn(transaction: TransactionAccount) -> bool:
    """Return True if some effects of a transaction in doubt are present and others are not.

    Messages that were sent again, may have expired, or were excused prove nothing and are left out.
    """
    happened: set[bool] = set()
    for destination, slot in transaction.sends:
        for subscription in destination.subscriptions:
            if subscription.decides(slot):
                happened.add(subscription.deliveries[slot] > 0)
    for subscription, slot, deliveries in transaction.acknowledgements:
        if subscription.decides(slot):
            happened.add(subscription.deliveries[slot] == deliveries)
    return len(happened) > 1


def _in_state(destinations: Sequence[DestinationAccount], state: SendState, examples_max: int) -> Tally:
    found = _Tallying(examples_max)
    for destination in destinations:
        slot = destination.states.find(state)
        while slot >= 0:
            found.add(destination.keys[slot])
            slot = destination.states.find(state, slot + 1)
    return found.tally()


def _resent(destinations: Sequence[DestinationAccount], examples_max: int) -> Tally:
    found = _Tallying(examples_max)
    for destination in destinations:
        if any(destination.resends):
            for slot, resends in enumerate(destination.resends):
                if resends:
                    found.add(destination.keys[slot])
    return found.tally()


def _count_marked(columns: Sequence[bytes], mark: Mark) -> int:
    values = [value for value in range(256) if value & int(mark)]
    return sum(column.count(value) for column in columns for value in values)


def _count_expiring(subscription: SubscriptionAccount) -> int:
    """Return the number of messages with an expiration that were never delivered here.

    Expiry may explain each of them, so none counts as a fault.
    """
    expected, expirations = int(Mark.EXPECTED), subscription.destination.expirations
    return sum(
        1
        for slot, marks in enumerate(subscription.marks)
        if marks & expected and not subscription.deliveries[slot] and expirations[slot] != math.inf
    )
