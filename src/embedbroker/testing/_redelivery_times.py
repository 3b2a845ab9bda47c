"""Rollbacks of users, and the times before which what they returned must not come again.

A user reports a rollback before its request, and again when the broker has answered. A delivery in between is judged
with the answer: without one, the broker may have returned the messages for another reason, at once. An answer does not
wait for the disk. So a later life of the broker must keep a delay only if its record had become durable.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define, field

__all__ = ["RedeliveryTimes", "ReportedRollback"]

#: A broker counts in milliseconds from the beginning of the present one.
_TOLERANCE_S = 0.001

#: Subscription and message id.
_Place = tuple[str, int]


@define(eq=False)
class ReportedRollback:
    """One rollback: since when it is under way, what it returns, and what was delivered before the broker answered.

    ``delay_s`` is the shortest delay that may be in force for it. ``is_void``: the broker has begun another life
    meanwhile.
    """

    since: float
    delay_s: float
    places: tuple[_Place, ...]
    delivered: list[tuple[_Place, float]] = field(factory=list)
    is_void: bool = False


@define(eq=False)
class RedeliveryTimes:
    """The messages that wait for a redelivery delay. ``delay_s`` of 0 reports nothing, as all rollbacks do then.

    ``delays`` has the delays of subscriptions that have another one.
    """

    delay_s: float = 0.0
    delays: dict[str, float] = field(factory=dict)
    #: By place, when the rollback was requested, and the delay.
    _waiting: dict[_Place, tuple[float, float]] = field(factory=dict, init=False)
    _open: dict[_Place, ReportedRollback] = field(factory=dict, init=False)
    #: Those of them that may not be durable, with a point of the journal that covers them; None: not known yet.
    _unsafe: dict[_Place, int | None] = field(factory=dict, init=False)

    def begin(self, subscription: str, message_ids: Sequence[int], now: float) -> ReportedRollback:
        """A user requests a rollback that returns these messages."""
        delay_s = self.delays.get(subscription, self.delay_s)
        rollback = ReportedRollback(now, delay_s, tuple([(subscription, number) for number in message_ids]))
        if delay_s:
            self._open.update(dict.fromkeys(rollback.places, rollback))
        return rollback

    def end(self, rollback: ReportedRollback, *, answered: bool) -> str | None:
        """The rollback is over. Return what came too early; None for nothing.

        ``answered``: the broker that held the messages has carried it out.
        """
        for place in rollback.places:
            if self._open.get(place) is rollback:
                del self._open[place]
        if not answered or rollback.is_void or not rollback.delay_s:
            return None
        delivered = dict(rollback.delivered)
        for place in rollback.places:
            if place not in delivered:
                self._waiting[place] = rollback.since, rollback.delay_s
                self._unsafe[place] = None
        for place, now in delivered.items():
            complaint = _complaint(place, rollback.since + rollback.delay_s, now)
            if complaint is not None:
                return complaint
        return None

    def note_durability(self, point: int, reached: int) -> None:
        """The journal has recorded everything up to a point, and what it reached is durable."""
        for place, covered in list(self._unsafe.items()):
            if covered is None:
                self._unsafe[place] = covered = point
            if covered <= reached:
                del self._unsafe[place]

    def begin_life(self) -> None:
        """The broker begins another life, which depends on nothing that was not durable."""
        for place in self._unsafe:
            self._waiting.pop(place, None)
        self._unsafe.clear()
        for rollback in self._open.values():
            rollback.is_void = True

    @property
    def are_unsafe(self) -> bool:
        """Return True if `note_durability` must be called."""
        return bool(self._unsafe)

    @property
    def are_awaited(self) -> bool:
        """Return True if `delivered` must be called."""
        return bool(self._waiting or self._open)

    def changing(self, subscription: str, delay_s: float) -> None:
        """A change of the delay is requested: the shorter one counts until `changed`, also for rollbacks under way."""
        self.delays[subscription] = min(delay_s, self.delays.get(subscription, self.delay_s))
        for place, rollback in self._open.items():
            if place[0] == subscription:
                rollback.delay_s = min(rollback.delay_s, delay_s)

    def changed(self, subscription: str, delay_s: float) -> None:
        """The change is confirmed: rollbacks that are requested from now on have this delay."""
        self.delays[subscription] = delay_s

    def delivered(
        self, subscription: str, message_id: int, now: float
    ) -> tuple[tuple[float, float] | None, str | None]:
        """A message left for a consumer. Return when its rollback was, with the delay, and what is wrong, if any."""
        place = subscription, message_id
        rollback = self._open.get(place)
        if rollback is not None:
            rollback.delivered.append((place, now))
            return None, None
        waited = self._waiting.pop(place, None)
        self._unsafe.pop(place, None)
        return waited, None if waited is None else _complaint(place, sum(waited), now)


def _complaint(place: _Place, due: float, now: float) -> str | None:
    early_s = due - now
    if early_s <= _TOLERANCE_S:
        return None
    return f"message {place[1]} of {place[0]} left for a consumer {early_s:.3f} s before its redelivery is due"
