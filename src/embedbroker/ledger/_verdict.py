"""The conclusions of the ledger: findings about one delivery, tallies of them, and the verdict over a whole run.

Only values are here; the facts behind them stay in the ledger.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from enum import IntFlag

from attrs import field, frozen

__all__ = ["FAULTS", "Finding", "Kill", "Tally", "Timeline", "TimelineBucket", "Verdict"]


class Finding(IntFlag):
    """The findings about one delivery, beyond "the next message came". Several may hold at once."""

    NONE = 0
    REDELIVERED = 1  # again and flagged; no consumer had acknowledged it
    RETURNED = 2  # again and unflagged, after the consumer gave it back in an orderly way
    AFTER_RESTART = 4  # again and unflagged, but the broker was killed in between
    RESEND = 8  # a second copy that exists because a send in doubt was sent again
    DUPLICATED_FLAGGED = 16  # again and flagged, after an acknowledgement that was never confirmed
    DUPLICATED_UNFLAGGED = 32
    REAPPEARED = 64  # again, although its acknowledgement had been confirmed
    REORDERED = 128  # after a later message of the same producer and priority
    PHANTOM = 256  # refused, rolled back, or never sent at all
    MISROUTED = 512  # the subscription's filter excludes it
    LATE = 1024  # after its expiration
    EXPIRED_EARLY = 4096  # on the expiry address before its time
    MOVED = 8192  # again and unflagged, at another broker: the flag does not go with a message that moves
    FLAGGED_AT_ONCE = 2048  # the first delivery, flagged, of a message that no consumer can have given back


#: Findings that an at-least-once broker must never cause.
FAULTS = (
    Finding.DUPLICATED_UNFLAGGED
    | Finding.REAPPEARED
    | Finding.REORDERED
    | Finding.PHANTOM
    | Finding.MISROUTED
    | Finding.LATE
    | Finding.EXPIRED_EARLY
)


@frozen
class Tally:
    """Hold a finding.

    Args:
        count: how many times it was found.
        keys: its first ``examples_max`` message keys, in the order found.
    """

    count: int = 0
    keys: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.count > 0


@frozen
class Kill:
    """Hold one kill of the broker and the work that it interrupted.

    Args:
        at: time of the kill, in seconds on the ledger's clock.
        unconfirmed_sends: sends without an answer at the kill.
        open_transactions: transactions without an outcome at the kill.
        restarted_at: time when the broker served again, in seconds; None before that.
        next_delivery_at: time of the next delivery, in seconds; None before that.
    """

    at: float
    unconfirmed_sends: int
    open_transactions: int
    restarted_at: float | None = None
    next_delivery_at: float | None = None

    @property
    def recovery_s(self) -> float | None:
        """Return the seconds from the kill to the next delivery, or None if nothing was delivered after it."""
        return None if self.next_delivery_at is None else self.next_delivery_at - self.at


@frozen
class TimelineBucket:
    """Hold the counts of one slice of time.

    Args:
        sent: sends, those again included.
        confirmed: confirmed sends.
        delivered: deliveries.
        acknowledged: confirmed acknowledgements.
    """

    sent: int
    confirmed: int
    delivered: int
    acknowledged: int


@frozen
class Timeline:
    """Hold counts per slice of time.

    Args:
        bucket_s: seconds of a slice.
        buckets: counts by ``int(at // bucket_s)``. Empty slices are left out.
    """

    bucket_s: float
    buckets: Mapping[int, TimelineBucket] = field(factory=dict)


_NOTHING = Tally()


@frozen
class Verdict:
    """The state of the account.

    ``drained`` is True if consumers had emptied every queue before. Otherwise no message can count as lost, so
    ``lost``, ``vanished`` and ``torn_transactions`` stay empty.

    Args:
        drained: consumers had emptied every queue before. Otherwise no message can count as lost, so ``lost``,
            ``vanished`` and ``torn_transactions`` stay empty.
        sent: messages that were sent.
        confirmed: messages whose send the broker has confirmed.
        refused: messages that the broker has refused.
        unanswered: messages whose send has no answer yet.
        in_doubt: messages whose send will never be answered.
        resent: messages that were sent again.
        delivered: deliveries, those again included.
        acknowledged: confirmed acknowledgements.
        acknowledgements_in_doubt: acknowledgements of unknown outcome.
        expired: messages with an expiration that were never delivered: expiry may explain each of them.
        dead_lettered: messages found on dead letter and expiry addresses.
        lost: messages that were confirmed and never delivered.
        vanished: messages that were delivered, not acknowledged, and never delivered again.
        torn_transactions: commits in doubt of which only a part happened.
        redelivered: `Finding.REDELIVERED`.
        returned: `Finding.RETURNED`.
        redelivered_after_restart: `Finding.AFTER_RESTART`.
        resend_duplicates: `Finding.RESEND`.
        duplicated_flagged: `Finding.DUPLICATED_FLAGGED`.
        duplicated_unflagged: `Finding.DUPLICATED_UNFLAGGED`.
        reappeared: `Finding.REAPPEARED`.
        reordered: `Finding.REORDERED`.
        phantom: `Finding.PHANTOM`.
        misrouted: `Finding.MISROUTED`.
        late: `Finding.LATE`.
        expired_early: `Finding.EXPIRED_EARLY`.
        moved: `Finding.MOVED`.
        flagged_at_once: `Finding.FLAGGED_AT_ONCE`; not a fault: consumers may have come and gone unseen.
        kills: the kills of the broker, in order.
    """

    drained: bool
    sent: int = 0
    confirmed: int = 0
    refused: int = 0
    unanswered: int = 0
    in_doubt: Tally = _NOTHING
    resent: Tally = _NOTHING
    delivered: int = 0
    acknowledged: int = 0
    acknowledgements_in_doubt: int = 0
    expired: int = 0
    dead_lettered: int = 0  # found on dead letter and expiry addresses
    lost: Tally = _NOTHING  # confirmed, never delivered
    vanished: Tally = _NOTHING  # delivered, not acknowledged, never delivered again
    torn_transactions: Tally = _NOTHING  # a commit in doubt of which only a part happened
    redelivered: Tally = _NOTHING
    returned: Tally = _NOTHING
    redelivered_after_restart: Tally = _NOTHING
    resend_duplicates: Tally = _NOTHING
    duplicated_flagged: Tally = _NOTHING
    duplicated_unflagged: Tally = _NOTHING
    reappeared: Tally = _NOTHING
    reordered: Tally = _NOTHING
    phantom: Tally = _NOTHING
    misrouted: Tally = _NOTHING
    late: Tally = _NOTHING
    expired_early: Tally = _NOTHING
    moved: Tally = _NOTHING
    flagged_at_once: Tally = _NOTHING  # not a fault: consumers may have come and gone unseen
    kills: tuple[Kill, ...] = ()

    @property
    def nothing_lost(self) -> bool:
        """Return True if every confirmed message and every delivered message is accounted for."""
        return not (self.lost or self.vanished or self.torn_transactions)

    @property
    def clean(self) -> bool:
        """Return True if nothing was lost and no fault of an at-least-once broker occurred."""
        return self.nothing_lost and not any(self.faults())

    def faults(self) -> dict[str, Tally]:
        """Return the faults that occurred, by name, except losses."""
        names = ("duplicated_unflagged", "reappeared", "reordered", "phantom", "misrouted", "late", "expired_early")
        tallies: dict[str, Tally] = {name: getattr(self, name) for name in names}
        return {name: tally for name, tally in tallies.items() if tally}

    def losses(self) -> dict[str, Tally]:
        """Return the losses that occurred, by name."""
        tallies = {"lost": self.lost, "vanished": self.vanished, "torn_transactions": self.torn_transactions}
        return {name: tally for name, tally in tallies.items() if tally}

    @property
    def recovery_s(self) -> tuple[float, float, float] | None:
        """Return minimum, median and maximum seconds from a kill to the next delivery, or None without such a kill."""
        times = [kill.recovery_s for kill in self.kills if kill.recovery_s is not None]
        return (min(times), statistics.median(times), max(times)) if times else None
