"""The brokers of a cluster agree on the queue of each message group (cluster-and-ha 10).

Responsible for the decisions: on the broker that decides (`LocalGrouping`) and on the others (`RemoteGrouping`); for
time-outs, for the end of groups, and for the notifications that carry all this, over several hops. Does not depend
on the form of notifications, on how messages are routed, or on the connection between brokers.

A key is the id of a group with a dot and a routing name: an address may have several queues for one group. A decision
is the name of a queue in the cluster.

Artemis differs in one point: a broker there does not pass a decision on, so a proposal of a broker two hops away from
the one that decides has no answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Protocol

from attrs import Factory, define

from embedbroker.config import GroupingHandlerConfig
from embedbroker.kernel import GroupDecision, GroupNotice, GroupNoticeKind, name_in_text

__all__ = ["TRIES_MAX", "GroupingOwner", "LocalGrouping", "RemoteGrouping"]

TRIES_MAX: Final = 10
"""Proposals of one decision; then its messages are routed without it."""

_RELAYED_MAX: Final = 10_000
GROUPS_WARNED_AT: Final = 100_000
_PROVISIONAL: Final = -1


class GroupingOwner(Protocol):
    """The broker around a handler."""

    def publish(self, notice: GroupNotice) -> None:
        """Send a notification once everything is durable that is recorded by now."""

    def record(self, key: str, queue: str) -> int:
        """Record a decision; return its id."""

    def forget(self, decision_id: int) -> None:
        """Record the end of a decision."""

    def unpin(self, key: str) -> None:
        """Have local queues forget the consumer of a group, so that the next message chooses one."""

    def has_queue(self, queue: str) -> bool:
        """Return True if a queue of this name in the cluster can get messages."""

    def log(self, text: str) -> None:
        """Log one line for the operator."""


@define(eq=False)
class _Decision:
    """One decision; ``id`` is that of its record, and ``used_s`` the time of the last message.

    A provisional one is the proposal that had no answer: it holds for one time-out from ``used_s``.
    """

    id: int
    key: str
    queue: str
    used_s: float


class _Decisions:
    """Hold decisions by key and by queue."""

    def __init__(self) -> None:
        self.by_key: dict[str, _Decision] = {}
        self._by_queue: dict[str, dict[str, _Decision]] = {}

    def add(self, decision: _Decision) -> None:
        self.by_key[decision.key] = decision
        self._by_queue.setdefault(decision.queue, {})[decision.key] = decision

    def pop(self, key: str) -> _Decision | None:
        decision = self.by_key.pop(key, None)
        if decision is not None:
            same_queue = self._by_queue[decision.queue]
            del same_queue[key]
            if not same_queue:
                del self._by_queue[decision.queue]
        return decision

    def of_queue(self, queue: str) -> list[_Decision]:
        return list(self._by_queue.get(queue, {}).values())

    @property
    def queues(self) -> Iterable[str]:
        return self._by_queue


class _Missing:
    """Hold the queues that decisions name and that are not there, and the messages that wait for them.

    A queue is not there while brokers still connect, or while news of it are on their way.
    """

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        # Until when messages wait; 0 after that, until the queue is there again.
        self._until_s: dict[str, float] = {}
        self._waiting: list[Callable[[], None]] = []

    def awaits(self, queue: str, now_s: float) -> bool:
        """Return True if messages must wait for a queue: its time is not over, or begins now."""
        return now_s < self._until_s.setdefault(queue, now_s + self._timeout_s)

    def wait(self, action: Callable[[], None]) -> None:
        """Run an action when a queue is there, or given up."""
        self._waiting.append(action)

    def remove(self, queue: str) -> None:
        """Note that a queue is there, or is gone for good."""
        if self._until_s.pop(queue, None) is not None:
            self._try_again()

    @property
    def next_deadline_s(self) -> float | None:
        """Return when `give_up` is due; None for never."""
        return min((until for until in self._until_s.values() if until), default=None)

    def give_up(self, now_s: float) -> list[str]:
        """Return the queues whose time is over, in the order of their names."""
        over = sorted(queue for queue, until in self._until_s.items() if until and now_s >= until)
        self._until_s.update(dict.fromkeys(over, 0.0))
        if over:
            self._try_again()
        return over

    def _try_again(self) -> None:
        waiting, self._waiting = self._waiting, []
        for action in waiting:
            action()


def _given_up(queues: list[str], timeout_s: float) -> str:
    names = ", ".join(map(name_in_text, queues))
    return (
        f"grouping handler: {names} of earlier decisions did not come back within {timeout_s:g} s;"
        " their groups get other queues with their next messages"
    )


class LocalGrouping:
    """Decide for the whole cluster. The first proposal for a key is its decision.

    Args:
        config: The handler.
        owner: The broker.
    """

    def __init__(self, config: GroupingHandlerConfig, owner: GroupingOwner) -> None:
        self._owner = owner
        self._timeout_s = config.timeout_ms / 1000
        self._group_timeout_s = config.group_timeout_ms / 1000 if config.group_timeout_ms > 0 else None
        self._reaper_period_s = config.reaper_period_ms / 1000
        self._decisions = _Decisions()
        self._reaps_at_s: float | None = None
        self._missing = _Missing(self._timeout_s)

    def begin(self, restored: Iterable[GroupDecision], now_s: float) -> None:
        """Begin with the decisions of the journal; their groups count as used now."""
        for each in restored:
            self._decisions.add(_Decision(each.id, each.key, each.queue, now_s))
        for queue in self._decisions.queues:
            if not self._owner.has_queue(queue):
                self._missing.awaits(queue, now_s)
        if self._group_timeout_s is not None:
            self._reaps_at_s = now_s + self._reaper_period_s

    # -- messages of this broker ---------------------------------------------------------------------------------

    def find(self, key: str, now_s: float) -> str | None:
        """Return the decision for a key, and count a message of its group."""
        decision = self._decisions.by_key.get(key)
        if decision is None:
            return None
        decision.used_s = now_s
        return decision.queue

    def propose(self, key: str, queue: str, now_s: float) -> str | None:
        """Return the decision for a key: that of before, or else the proposal."""
        return self.find(key, now_s) or self._decide(key, queue, now_s)

    def _decide(self, key: str, queue: str, now_s: float) -> str:
        self._decisions.add(_Decision(self._owner.record(key, queue), key, queue, now_s))
        if len(self._decisions.by_key) == GROUPS_WARNED_AT and self._group_timeout_s is None:
            self._owner.log(
                f"grouping handler: there are {GROUPS_WARNED_AT} groups, in memory and in the journal, and none ends"
                " by itself; set group_timeout_ms, so that groups without messages end"
            )
        return queue

    def awaits(self, queue: str, now_s: float) -> bool:
        """Return True if messages must wait for a queue that is not there yet."""
        return not self._owner.has_queue(queue) and self._missing.awaits(queue, now_s)

    def when_changed(self, key: str, action: Callable[[], None]) -> None:
        """Run an action when a message that waits may be tried again."""
        self._missing.wait(action)

    def drop(self, key: str, queue: str) -> None:
        """End a group whose queue is gone, in the whole cluster."""
        self._end(key, queue, distance=0)

    # -- what other brokers send ---------------------------------------------------------------------------------

    def on_notice(self, notice: GroupNotice, now_s: float) -> None:
        """Handle a notification of another broker."""
        if notice.kind is GroupNoticeKind.PROPOSAL:
            decided = self.find(notice.key, now_s)
            if decided is None:
                self._decide(notice.key, notice.queue, now_s)
            self._owner.publish(GroupNotice(GroupNoticeKind.RESPONSE, notice.key, notice.queue, decided))
        elif notice.kind is GroupNoticeKind.END:
            decision = self._decisions.by_key.get(notice.key)
            # The group may have another queue by now.
            if decision is not None and decision.queue == notice.queue:
                self._end(notice.key, notice.queue, notice.distance + 1)

    def _end(self, key: str, queue: str, distance: int) -> None:
        decision = self._decisions.pop(key)
        if decision is not None:
            self._owner.forget(decision.id)
        self._owner.unpin(key)
        self._owner.publish(GroupNotice(GroupNoticeKind.END, key, queue, distance=distance))

    def on_queue_added(self, queue: str) -> None:
        """Note that a queue is there, of this broker or of another one."""
        self._missing.remove(queue)

    def on_queue_removed(self, queue: str) -> None:
        """End the groups of a queue that is gone, or whose broker has stopped in order."""
        ended = self._decisions.of_queue(queue)
        if ended:
            self._owner.log(
                f"grouping handler: {name_in_text(queue)} is gone, deleted or with a broker that stopped;"
                f" its groups ({len(ended)}) get other queues with their next messages"
            )
        for decision in ended:
            self._end(decision.key, queue, distance=0)
        self._missing.remove(queue)

    def on_link(self) -> None:
        """Note that another broker has connected."""

    # -- time ----------------------------------------------------------------------------------------------------

    @property
    def next_deadline_s(self) -> float | None:
        """Return when `on_time` is due; None for never."""
        due = self._missing.next_deadline_s
        return self._reaps_at_s if due is None else min(due, self._reaps_at_s or due)

    def on_time(self, now_s: float) -> None:
        """Give up queues that did not come back, and end groups without messages."""
        if over := self._missing.give_up(now_s):
            self._owner.log(_given_up(over, self._timeout_s))
        if self._reaps_at_s is not None and now_s >= self._reaps_at_s:
            self._reaps_at_s = now_s + self._reaper_period_s
            assert self._group_timeout_s is not None
            idle = [each for each in self._decisions.by_key.values() if each.used_s + self._group_timeout_s < now_s]
            for decision in idle:
                self._end(decision.key, decision.queue, distance=0)


@define(eq=False)
class _Pending:
    """A proposal without an answer: its queue, the time of the next try, and the messages that wait for it."""

    queue: str
    due_s: float
    tries: int = 1
    waiting: list[Callable[[], None]] = Factory(list)


class RemoteGrouping:
    """Propose the queues of groups to the broker that decides, and keep its decisions.

    Args:
        config: The handler.
        owner: The broker.
    """

    def __init__(self, config: GroupingHandlerConfig, owner: GroupingOwner) -> None:
        self._owner = owner
        self._timeout_s = config.timeout_ms / 1000
        self._group_timeout_s = config.group_timeout_ms / 1000 if config.group_timeout_ms > 0 else None
        self._decisions = _Decisions()
        self._pending: dict[str, _Pending] = {}
        self._missing = _Missing(self._timeout_s)
        # Keys whose proposals of other brokers went on, with the time until which they do not go on again.
        self._relayed: dict[str, float] = {}
        # The same for decisions. Where brokers connect in one direction, those that need one are beyond this broker,
        # although their proposals took another way.
        self._answered: dict[str, float] = {}

    def begin(self, restored: Iterable[GroupDecision], now_s: float) -> None:
        """Forget what the journal has: this broker may have decided before, and another one does now."""
        for each in restored:
            self._owner.forget(each.id)

    # -- messages of this broker ---------------------------------------------------------------------------------

    def find(self, key: str, now_s: float) -> str | None:
        """Return the known decision for a key, and count a message of its group.

        After the group time-out the decision is proposed again, so that the other broker counts the group as used.
        """
        decision = self._decisions.by_key.get(key)
        if decision is None:
            return None
        if decision.id == _PROVISIONAL:
            if now_s < decision.used_s + self._timeout_s:
                return decision.queue
            self._decisions.pop(key)
            return None
        if self._group_timeout_s is not None and decision.used_s + self._group_timeout_s / 2 < now_s:
            decision.used_s = now_s
            self._owner.publish(GroupNotice(GroupNoticeKind.PROPOSAL, key, decision.queue))
        return decision.queue

    def propose(self, key: str, queue: str, now_s: float) -> str | None:
        """Return the known decision for a key; without one, propose a queue and return None."""
        found = self.find(key, now_s)
        if found is None and key not in self._pending:
            self._pending[key] = _Pending(queue, now_s + self._timeout_s)
            self._owner.publish(GroupNotice(GroupNoticeKind.PROPOSAL, key, queue))
        return found

    def awaits(self, queue: str, now_s: float) -> bool:
        """Return True if messages must wait for a queue that is not there yet."""
        return not self._owner.has_queue(queue) and self._missing.awaits(queue, now_s)

    def when_changed(self, key: str, action: Callable[[], None]) -> None:
        """Run an action when a proposal has its decision, or its queue is there, or either is given up."""
        pending = self._pending.get(key)
        if pending is not None:
            pending.waiting.append(action)
        else:
            self._missing.wait(action)

    def is_pending(self, key: str) -> bool:
        """Return True if a proposal has no decision yet."""
        return key in self._pending

    def drop(self, key: str, queue: str) -> None:
        """End a group whose queue is gone, in the whole cluster."""
        self._end(key, queue, distance=0)

    # -- what other brokers send ---------------------------------------------------------------------------------

    def on_notice(self, notice: GroupNotice, now_s: float) -> None:
        """Handle a notification of another broker, and pass it on where others need it."""
        if notice.kind is GroupNoticeKind.PROPOSAL:
            self._relay_proposal(notice, now_s)
        elif notice.kind is GroupNoticeKind.RESPONSE:
            self._on_response(notice, now_s)
        elif self._is_news(notice):
            self._end(notice.key, notice.queue, notice.distance + 1)

    def _relay_proposal(self, notice: GroupNotice, now_s: float) -> None:
        goes_on_from = self._relayed.get(notice.key, 0.0)
        waits = now_s < goes_on_from
        _note(self._relayed, notice.key, goes_on_from if waits else now_s + self._timeout_s / 2)
        # In a ring the same proposal comes from both sides. The answer to one of this broker is for the other, too.
        if not waits and notice.key not in self._pending:
            self._owner.publish(
                GroupNotice(GroupNoticeKind.PROPOSAL, notice.key, notice.queue, distance=notice.distance + 1)
            )

    def _on_response(self, notice: GroupNotice, now_s: float) -> None:
        queue = notice.queue if notice.decided is None else notice.decided
        self._decisions.pop(notice.key)
        self._decisions.add(_Decision(0, notice.key, queue, now_s))
        if self._relayed.pop(notice.key, None) is not None or now_s >= self._answered.get(notice.key, 0.0):
            _note(self._answered, notice.key, now_s + self._timeout_s / 2)
            self._owner.publish(GroupNotice(notice.kind, notice.key, notice.queue, notice.decided, notice.distance + 1))
        pending = self._pending.pop(notice.key, None)
        for action in [] if pending is None else pending.waiting:
            action()

    def _is_news(self, notice: GroupNotice) -> bool:
        decision = self._decisions.by_key.get(notice.key)
        # A decision of later is not affected. Without one, other brokers may still have it.
        return decision is None or decision.queue == notice.queue

    def _end(self, key: str, queue: str, distance: int) -> None:
        self._decisions.pop(key)
        self._answered.pop(key, None)
        self._owner.unpin(key)
        self._owner.publish(GroupNotice(GroupNoticeKind.END, key, queue, distance=distance))

    def on_queue_added(self, queue: str) -> None:
        """Note that a queue is there, of this broker or of another one."""
        self._missing.remove(queue)

    def on_queue_removed(self, queue: str) -> None:
        """Forget the groups of a queue that is gone; the broker that decides ends them."""
        for decision in self._decisions.of_queue(queue):
            self._decisions.pop(decision.key)
            self._owner.unpin(decision.key)
        self._missing.remove(queue)

    def on_link(self) -> None:
        """Propose again what has no decision: another broker has connected, which may be the one that decides."""
        for key, pending in self._pending.items():
            self._owner.publish(GroupNotice(GroupNoticeKind.PROPOSAL, key, pending.queue))

    # -- time ----------------------------------------------------------------------------------------------------

    @property
    def next_deadline_s(self) -> float | None:
        """Return when `on_time` is due; None for never."""
        dues = [pending.due_s for pending in self._pending.values()]
        missing = self._missing.next_deadline_s
        return min(dues if missing is None else [*dues, missing], default=None)

    def on_time(self, now_s: float) -> None:
        """Repeat proposals without an answer; give up those that were repeated often enough, and missing queues."""
        if over := self._missing.give_up(now_s):
            self._owner.log(_given_up(over, self._timeout_s))
        for key, pending in list(self._pending.items()):
            if now_s < pending.due_s:
                continue
            if pending.tries < TRIES_MAX:
                pending.tries += 1
                pending.due_s = now_s + self._timeout_s
                if pending.tries == 2:
                    self._owner.log(
                        f"grouping handler: no broker decided on group {name_in_text(key)!r} within"
                        f" {self._timeout_s:g} s; it is proposed again. One broker must have a LOCAL handler, and the"
                        " address of each handler must match the cluster connections"
                    )
                self._owner.publish(GroupNotice(GroupNoticeKind.PROPOSAL, key, pending.queue))
            else:
                self._give_up(key, pending, now_s)

    def _give_up(self, key: str, pending: _Pending, now_s: float) -> None:
        self._owner.log(
            f"grouping handler: group {name_in_text(key)!r} has no decision after {TRIES_MAX} proposals; its messages"
            f" go to {name_in_text(pending.queue)} for {self._timeout_s:g} s"
        )
        # A later message proposes again.
        self._decisions.add(_Decision(_PROVISIONAL, key, pending.queue, now_s))
        del self._pending[key]
        for action in pending.waiting:
            action()


def _note(until: dict[str, float], key: str, time_s: float) -> None:
    """Keep the time of a key as the newest one; too many drop the oldest."""
    until.pop(key, None)
    until[key] = time_s
    if len(until) > _RELAYED_MAX:
        del until[next(iter(until))]
