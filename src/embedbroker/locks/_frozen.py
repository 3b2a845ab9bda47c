"""Waiting brokers that are frozen, and how others that wait get past them.

Responsible for noticing that no broker takes a free live lock, and for how a primary shows that it is awake. A frozen
process keeps its locks, so a frozen broker that only waits could keep all others from being active. Does not read the
store: the claim does, and passes the results on.
"""

from __future__ import annotations

from attrs import define, field

__all__ = ["HIDDEN_S", "LEFT_FREE_S", "Sign", "Vacancy"]

#: How long the brokers that go before a backup may leave the live lock free before the backup takes it, in seconds.
LEFT_FREE_S = 5.0
#: Seconds between its checks meanwhile.
SEE_EVERY_S = 0.5
#: Seconds beside an active backup until a primary shows that it is awake; and for how many seconds it gives its
#: failback lock back for that: an active broker checks twice.
SHOWN_AFTER_S = 5.0
HIDDEN_S = 1.25


@define(eq=False)
class Vacancy:
    """How long a backup has seen the live lock free that others could have taken."""

    _since: float | None = field(init=False, default=None)
    _sees_at: float = field(init=False, default=0.0)

    def is_to_be_seen(self, now: float) -> bool:
        """Return True if a check of the live lock is due."""
        return now >= self._sees_at

    def see(self, *, free: bool, now: float) -> None:
        """Note the result of a check."""
        self._sees_at = now + SEE_EVERY_S
        if not free:
            self._since = None
        elif self._since is None:
            self._since = now

    def end(self) -> None:
        """Note that the lock is taken, or must not be taken."""
        self._since = None

    def lasts(self, before: int, now: float) -> bool:
        """Return True if ``before`` brokers that go first have had their time. A nearer broker must be first."""
        return self._since is not None and now >= self._since + before * LEFT_FREE_S


@define(eq=False)
class Sign:
    """When a primary that waits shows that it is awake: when it was passed over, and once after a while.

    It may have been frozen, or be the next process of one that was.
    """

    _life: int | None = field(init=False, default=None)
    _due: float | None = field(init=False, default=None)

    def is_due(self, life: int | None, now: float) -> bool:
        """Return True if the sign is due now. ``life`` is the start number of the active broker."""
        if self._due is None:
            self._due = now + SHOWN_AFTER_S
        elif life != self._life:
            self._due = now  # another broker became active although this one goes before
        self._life = life
        if now < self._due:
            return False
        self._due = float("inf")
        return True
