"""The work of a step: publishing, deferred work, dispatch of woken queues, moves of expired messages, credit grants.

Responsible for the order of these, and for a bounded part of each per step. Does not depend on what wakes a queue.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

from ._clock import Clock
from ._deferred import DeferredWork
from ._memory import MemoryAccount
from ._store import Store
from .queueing._backlog import Reference
from .queueing._backpressure import Backpressure
from .queueing._queue import Queue
from .settling._expiry import Expiry
from .settling._move import MOVE_COST
from .settling._outcome import Outcome
from .settling._settlement import Settlement
from .transactions._visibility import VisibilityQueue

__all__ = ["Schedule", "is_shallow"]

# With more, the backlog packs messages in its middle, and restores them later; see `PriorityList.begin_chunk`.
_SHALLOW_MAX = 1_024


def is_shallow(queue: Queue) -> bool:
    """Return True if few messages wait in a queue: a consumer at work has enough, and none of them is packed."""
    return queue.backlog.size + queue.waiting_visible <= _SHALLOW_MAX


class Schedule:
    """Run what inputs made possible. It is the owner of all queues: they report here what they need.

    ``connect`` completes it, because expiry and settlement need queues, which need their owner.
    """

    def __init__(
        self,
        clock: Clock,
        store: Store,
        memory: MemoryAccount,
        deferred: DeferredWork,
        visibility: VisibilityQueue,
    ) -> None:
        self._clock = clock
        self._store = store
        self._memory = memory
        self._deferred = deferred
        self._visibility = visibility
        self._bodies = store.bodies
        self._woken: dict[Queue, None] = {}
        self._expired: list[tuple[Queue, Reference]] = []
        # Queues that deliver nothing until messages in flight are settled, and of which some were. Not all that wait: a
        # client may have thousands of those.
        self._maybe_settled: dict[Queue, None] = {}
        self._relieved: dict[Backpressure, None] = {}
        # What waits for a queue with few messages, in order.
        self._shallow_waits: dict[Queue, dict[Callable[[], None], None]] = {}
        #: Wall time, id and queue of each call that a queue with scheduled messages waits for, the earliest first.
        self.calls: list[tuple[int, int, Queue]] = []
        self._expiry: Expiry
        self._settlement: Settlement

    def connect(self, expiry: Expiry, settlement: Settlement) -> None:
        """Complete the schedule. Must come before the first queue."""
        self._expiry = expiry
        self._settlement = settlement

    # -- stepping ------------------------------------------------------------------------------------------------

    def run(self, budget: int) -> None:
        """Run what the inputs made possible, about ``budget`` messages of it; see `has_work`."""
        reached, visibility = self._store.reached, self._visibility
        # No long work keeps the queues from their turn.
        share = max(budget // 3, 1) if self._woken else budget
        moves = max(budget // MOVE_COST, 1)
        if visibility.next_point <= reached:
            budget -= share - visibility.publish(reached, share)
        if self._bodies.completed:
            self._complete_bodies()
        if self._relieved:
            for backpressure in list(self._relieved):
                backpressure.let_through()
        if self._deferred.waiting:
            budget -= self._deferred.run(min(share, budget))
        if self._maybe_settled:
            self._end_rebalances()
        if self._woken:
            self._dispatch(budget)
        if self._expired:
            expired = self._expired[:moves]
            del self._expired[:moves]
            for queue, reference in expired:
                self._expiry.move(queue, reference)
        if self._memory.relieved:
            self._memory.grant_waiting()
        if self._shallow_waits:
            self._end_shallow_waits()

    def _complete_bodies(self) -> None:
        """Report what was done for large bodies, which may send messages, or more of a delivery."""
        completed = self._bodies.completed
        for _ in range(len(completed)):
            completed.popleft()()

    def _end_rebalances(self) -> None:
        settled, self._maybe_settled = self._maybe_settled, {}
        for queue in settled:
            if queue.is_rebalancing and not queue.has_in_flight:
                queue.end_rebalance()

    def _end_shallow_waits(self) -> None:
        """Run what has waited longest for each queue. The step of that looks at the next: the queue may be deep again.

        So as many go on as the queue has room for, and thousands of others are left alone.
        """
        for queue in [queue for queue in self._shallow_waits if queue.deleted or is_shallow(queue)]:
            action = next(iter(self._shallow_waits[queue]))
            self.end_wait(queue, action)
            self._deferred.add_action(action)

    def _dispatch(self, budget: int) -> None:
        # One turn each: queues that wake again continue in the next step.
        woken, self._woken = self._woken, {}
        for queue in list(woken):
            if budget <= 0:
                break
            del woken[queue]
            if not queue.deleted:
                budget = queue.dispatch(budget)
        # Those that had no turn come first in the next step.
        woken.update(self._woken)
        self._woken = woken

    @property
    def has_work(self) -> bool:
        """Return True if `run` would do something at once."""
        if (
            self._visibility.next_point <= self._store.reached
            or self._woken
            or self._expired
            or self._deferred.waiting
            or self._relieved
            or self._bodies.completed
            or self._maybe_settled
            or (self._shallow_waits and any(queue.deleted or is_shallow(queue) for queue in self._shallow_waits))
        ):
            return True
        memory = self._memory
        return bool(memory.relieved) and memory.can_grant

    def release_due(self, limit: int) -> None:
        """Put scheduled messages that are due to their places in their queues, up to ``limit``."""
        calls, now_ms = self.calls, self._clock.now_ms
        while calls and limit > 0 and calls[0][0] <= now_ms:
            due_ms, _queue_id, queue = heappop(calls)
            if not queue.deleted:
                limit -= queue.release_due(due_ms, limit)

    def check(self, queue: Queue) -> None:
        """Raise AssertionError if a rebalance of a queue would never end."""
        assert not queue.is_rebalancing or queue in self._maybe_settled or queue.has_in_flight, queue.name

    def when_shallow(self, queue: Queue, action: Callable[[], None]) -> None:
        """Run an action as deferred work, in turn, when `is_shallow` is true of a queue, or the queue is deleted.

        One that waits for the queue already runs once.
        """
        self._shallow_waits.setdefault(queue, {})[action] = None

    def end_wait(self, queue: Queue, action: Callable[[], None]) -> None:
        """Forget an action that waits for a queue, if it still does."""
        waits = self._shallow_waits.get(queue)
        if waits is not None:
            waits.pop(action, None)
            if not waits:
                del self._shallow_waits[queue]

    def make_backpressure(self) -> Backpressure:
        """Return the backpressure for the consumers of one connection."""
        return Backpressure(self._relieved)

    # -- for queues (QueueOwner) ---------------------------------------------------------------------------------

    @property
    def now_ms(self) -> int:
        """Return the wall time of the step."""
        return self._clock.now_ms

    @property
    def is_publishing(self) -> bool:
        """Return True if durable messages still wait for their turn to become visible."""
        return self._visibility.next_point <= self._store.reached

    def wake(self, queue: Queue) -> None:
        """Dispatch this queue before the step ends."""
        self._woken[queue] = None

    def examine_rebalance(self, queue: Queue) -> None:
        """Call `end_rebalance` in this step if `has_in_flight` is False then."""
        self._maybe_settled[queue] = None

    def call_at(self, due_ms: int, queue: Queue) -> None:
        """Let a queue release its scheduled messages once the wall time is ``due_ms``."""
        heappush(self.calls, (due_ms, queue.id, queue))

    def forget(self, queue: Queue) -> None:
        """Remove a deleted queue from dispatch."""
        self._woken.pop(queue, None)
        self._maybe_settled.pop(queue, None)

    def settle_delivered(self, queue: Queue, reference: Reference) -> None:
        """Settle a message that a consumer with pre-acknowledge took."""
        self._settlement.settle(queue, (reference,), Outcome.ACCEPTED)

    def expires(self, queue: Queue) -> bool:
        """Return True if messages expire in a queue: not in one of the expiry address itself."""
        return self._expiry.applies_to(queue)

    def expire(self, queue: Queue, reference: Reference) -> bool:
        """Remember a message that was found expired; it moves when the current dispatch is over.

        Return False for queues of the expiry address itself: what is there is delivered.
        """
        if not self._expiry.applies_to(queue):
            return False
        self._expired.append((queue, reference))
        return True
