"""Message counters: how many messages each queue got, in total and by the hour, sampled from time to time.

Responsible for the counts between two samples, and for their history. A queue counts added and acknowledged messages in
any case: a broker whose counters are disabled, and a message, cost nothing more. Days and hours are those of UTC.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from attrs import define, field

if TYPE_CHECKING:
    from embedbroker.config import BrokerConfig

    from ._clock import Clock
    from .addressing._addresses import AddressManager
    from .queueing._queue import Queue

__all__ = ["DayHistory", "MessageCounters", "QueueCounter"]

_NEVER = math.inf
_HOURS = 24
_HOUR_MS = 3_600_000
_DAY_MS = _HOURS * _HOUR_MS
_NO_DATA = -1


@define(eq=False)
class DayHistory:
    """Hold the added messages of one day by the hour; -1: nothing is known of that hour.

    ``day`` is the number of days since 1970.
    """

    day: int
    hours: list[int] = field(factory=lambda: [_NO_DATA] * _HOURS)

    def add(self, hour: int, count: int) -> None:
        """Count messages in an hour; the hours before it, from the first known one on, had none."""
        known = False
        for index in range(hour + 1):
            known = known or self.hours[index] != _NO_DATA
            if (known or index == hour) and self.hours[index] == _NO_DATA:
                self.hours[index] = 0
        self.hours[hour] += count

    def finish(self) -> None:
        """Count nothing more: the remaining hours had no messages."""
        self.add(_HOURS - 1, 0)


class QueueCounter:
    """Hold the counts of one queue at its last sample. Times are Unix milliseconds, 0 before the first event."""

    __slots__ = (
        "_acknowledged_before",
        "_added_before",
        "_count_before",
        "_depth_before",
        "acknowledged_ms",
        "added_ms",
        "count",
        "days",
        "queue",
        "updated_ms",
    )

    def __init__(self, queue: Queue, now_ms: int) -> None:
        self.queue = queue
        self._added_before = self._acknowledged_before = 0
        self.reset()
        self.days: list[DayHistory] = []
        self.reset_history(now_ms)

    def reset(self) -> None:
        """Count from 0 again; the history stays."""
        #: Messages added since the start of the queue, or since the last reset.
        self.count = 0
        self.updated_ms = self.added_ms = self.acknowledged_ms = 0
        self._count_before = self._depth_before = 0

    def reset_history(self, now_ms: int) -> None:
        """Begin the history now."""
        self.days = [DayHistory(now_ms // _DAY_MS)]
        self.days[0].add(now_ms % _DAY_MS // _HOUR_MS, 0)

    def sample(self, now_ms: int, days_max: int) -> None:
        """Take over what the queue counted since the last sample."""
        queue = self.queue
        added = _since(queue.added_count, self._added_before)
        acknowledged = _since(queue.acknowledged_count, self._acknowledged_before)
        self._added_before, self._acknowledged_before = queue.added_count, queue.acknowledged_count
        self.count += added
        self.updated_ms = now_ms
        if added:
            self.added_ms = now_ms
        if acknowledged:
            self.acknowledged_ms = now_ms
        self.extend_history(now_ms, days_max, added)

    def extend_history(self, now_ms: int, days_max: int, count: int = 0) -> None:
        """Let the history reach to the present hour, in which messages are counted; the oldest days go."""
        day, last = now_ms // _DAY_MS, self.days[-1]
        if day > last.day:
            last.finish()
            for missing in range(max(last.day + 1, day - days_max), day):
                self.days.append(DayHistory(missing, [0] * _HOURS))
            self.days.append(DayHistory(day))
            self.days[-1].add(0, 0)
        del self.days[:-days_max]
        self.days[-1].add(now_ms % _DAY_MS // _HOUR_MS, count)

    def take_deltas(self) -> tuple[int, int]:
        """Return the change of the count, and of the messages in the queue, since the last call."""
        count, depth = self.count, self.queue.message_count
        deltas = count - self._count_before, depth - self._depth_before
        self._count_before, self._depth_before = count, depth
        return deltas


def _since(count: int, before: int) -> int:
    # The count of a queue can be reset.
    return count - before if count >= before else count


class MessageCounters:
    """Sample all queues of a broker in each period, while the counters are enabled.

    ``due`` is the time of the next sample in monotonic seconds, infinity while they are disabled.
    """

    __slots__ = ("_address_manager", "_clock", "_counters", "days_max", "due", "enabled", "period_ms")

    def __init__(self, config: BrokerConfig, clock: Clock, address_manager: AddressManager) -> None:
        self._clock = clock
        self._address_manager = address_manager
        self._counters: dict[int, QueueCounter] = {}
        self.enabled = config.message_counter_enabled
        self.period_ms = config.message_counter_sample_period_ms
        self.days_max = config.message_counter_max_day_history
        self.due = _NEVER

    @property
    def counted_queues(self) -> list[str]:
        """Return the names of the queues that have a counter."""
        return [counter.queue.name for counter in self._counters.values()]

    def of(self, queue: Queue) -> QueueCounter:
        """Return the counter of a queue."""
        counter = self._counters.get(queue.id)
        if counter is None:
            counter = self._counters[queue.id] = QueueCounter(queue, self._clock.now_ms)
        return counter

    def forget(self, queue: Queue) -> None:
        """Remove the counter of a deleted queue."""
        self._counters.pop(queue.id, None)

    def restart_period(self) -> None:
        """Count the period from now. The schedule of the broker must be informed."""
        self.due = self._clock.monotonic + self.period_ms / 1000 if self.enabled else _NEVER

    def enable(self) -> None:
        """Sample from now on."""
        if not self.enabled:
            self.enabled = True
            self.restart_period()

    def disable(self) -> None:
        """Sample no more; the counts are 0, and the histories are empty."""
        if self.enabled:
            self.enabled = False
            self.restart_period()
            self.reset()
            self.reset_histories()

    def reset(self) -> None:
        """Let all queues count from 0 again."""
        for counter in self._counters.values():
            counter.reset()

    def reset_histories(self) -> None:
        """Begin all histories now."""
        for counter in self._counters.values():
            counter.reset_history(self._clock.now_ms)

    def sample(self) -> Iterator[None]:
        """Sample all queues; yield after each. The next period is counted from now."""
        self.restart_period()
        for queue in list(self._address_manager.queues.values()):
            if not queue.deleted:
                self.of(queue).sample(self._clock.now_ms, self.days_max)
            yield
