"""What those who wait do about others who wait, too, and are frozen.

Responsible for noticing that nobody takes a free live lock, and for how a primary shows that it is awake. A frozen
process keeps its locks, so that one which only waits could keep everybody else from being live. Refuses to ask the
store: the claim does, and tells what it heard.
"""

from __future__ import annotations

from attrs import define, field

__all__ = ["HIDDEN_S", "LEFT_FREE_S", "Sign", "Vacancy"]

#: How long those who go before it may leave the live lock free before a backup takes it.
LEFT_FREE_S = 5.0
#: How often it looks meanwhile.
SEE_EVERY_S = 0.5
#: After how long beside a live backup a primary shows that it is awake, and how long it gives its failback lock back
#: for that: a live broker looks twice.
SHOWN_AFTER_S = 5.0
HIDDEN_S = 1.25


@define(eq=False)
class Vacancy:
    """How long a backup has seen the live lock free that others could have taken."""

    _since: float | None = field(init=False, default=None)
    _sees_at: float = field(init=False, default=0.0)

    def is_to_be_seen(self, now: float) -> bool:
        """Whether it is time to look who has the live lock."""
        return now >= self._sees_at

    def see(self, *, free: bool, now: float) -> None:
        """The store was asked."""
        self._sees_at = now + SEE_EVERY_S
        if not free:
            self._since = None
        elif self._since is None:
            self._since = now

    def end(self) -> None:
        """Somebody has it, or nobody is to."""
        self._since = None

    def lasts(self, before: int, now: float) -> bool:
        """Whether so many that go before have had their time. Who is nearer is to be first."""
        return self._since is not None and now >= self._since + before * LEFT_FREE_S


@define(eq=False)
class Sign:
    """When a primary that waits shows that it is awake: when it was passed over, and once after a while.

    It may have been frozen, or be the next process of one that was.
    """

    _life: int | None = field(init=False, default=None)
    _due: float | None = field(init=False, default=None)

    def is_due(self, life: int | None, now: float) -> bool:
        """Whether to show it now, with the life of the broker that is live."""
        if self._due is None:
            self._due = now + SHOWN_AFTER_S
        elif life != self._life:
            self._due = now  # somebody became live although this one goes before
        self._life = life
        if now < self._due:
            return False
        self._due = float("inf")
        return True
