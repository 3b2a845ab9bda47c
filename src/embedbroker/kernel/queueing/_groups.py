"""The choice of consumers for a queue with message groups: all messages of a group go to one consumer.

Responsible for the assignment of groups to consumers (broker-semantics 3.6). A queue gets this dispatcher with its
first message of a group, so that others do not pay for groups.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Protocol, TypeAlias, TypeVar
from zlib import crc32

from embedclient.errors import RemoteProtocolError
from embedclient.model import GROUP_BUCKET_PREFIX

from .._definitions import QueueDefinition
from ..message._message import Message
from ._backlog import Backlog
from ._dispatcher import Candidate, Dispatcher, Hand, Level
from ._reference import Reference

__all__ = ["GroupDispatcher"]

ConsumerT = TypeVar("ConsumerT", bound=Candidate)

_Key: TypeAlias = str | int
_INT_DIGITS_MAX = 10


def _group_of(message: Message) -> str | None:
    """Return the id of the group of a message; None for a message without a group."""
    try:
        group = message.group_id
    except RemoteProtocolError:
        return None
    return group if isinstance(group, str) else None


class GroupedQueue(Protocol):
    """Provide what groups depend on of their queue."""

    @property
    def definition(self) -> QueueDefinition:
        """Return its definition."""

    @property
    def backlog(self) -> Backlog:
        """Return the messages that wait."""

    def is_expired(self, message: Message) -> bool:
        """Return True if a message has expired, so that it is not delivered."""


class GroupDispatcher(Dispatcher[ConsumerT]):
    """Choose consumers for a queue with groups.

    Each consumer looks through the backlog with its own bookmark, as a consumer with a filter does: it passes over
    messages of groups that others have. When such a group has no consumer any more, bookmarks return to its first
    message that was passed over and is left. So a group whose consumer is busy holds up no other group, and the end of
    a group costs no look at messages in front of that.
    """

    __slots__ = ("_buckets", "_holders", "_looks_again", "_passed", "_queue", "_rebalances", "first")

    def __init__(self, before: Dispatcher[ConsumerT], queue: GroupedQueue) -> None:
        """Take over the consumers and turns of the dispatcher that the queue had before."""
        super().__init__()
        self.consumers = before.consumers
        self.levels = before.levels
        self._queue = queue
        self._buckets = queue.definition.group_buckets
        self._rebalances = queue.definition.group_rebalance
        # The consumer of each group, or bucket of groups, that has one.
        self._holders: dict[_Key, ConsumerT] = {}
        # Those among them whose messages another consumer has passed over: by priority, the lowest and the highest
        # position of these. The messages may be gone.
        self._passed: dict[_Key, dict[int, tuple[int, int]]] = {}
        self._looks_again = False
        # The message that was handed over last, if its consumer got a group with it.
        self.first: Reference | None = None

    @property
    def group_count(self) -> int:
        """Return the number of groups, or buckets of groups, that have a consumer."""
        return len(self._holders)

    def groups(self, limit: int) -> list[tuple[str, ConsumerT]]:
        """Return groups with their consumers. A bucket has the name under which clients choose it."""
        return [
            (key if isinstance(key, str) else f"{GROUP_BUCKET_PREFIX}{key}", holder)
            for key, holder in islice(self._holders.items(), limit)
        ]

    def reset(self, group: str | None) -> bool:
        """End the assignment of a group, or of its bucket, or of all. Return True if others must look at messages."""
        if group is None:
            ended = list(self._holders)
        else:
            key = self._key(group)
            ended = [key] if key in self._holders else []
        for key in ended:
            del self._holders[key]
        self._reopen(ended)
        return bool(ended)

    # -- consumers -----------------------------------------------------------------------------------------------

    def add(self, consumer: ConsumerT) -> bool:
        super().add(consumer)
        if not self._rebalances or not self._holders:
            return False
        self._holders.clear()
        self._reopen(list(self._passed))
        return True

    def remove(self, consumer: ConsumerT) -> bool:
        others_wait = super().remove(consumer)
        ended = [key for key, holder in self._holders.items() if holder is consumer]
        for key in ended:
            del self._holders[key]
        self._reopen(ended)
        return others_wait or bool(ended)

    def _reopen(self, ended: Iterable[_Key]) -> None:
        """Let consumers look again at messages of groups that ended, as far as some were passed over."""
        lowest: dict[int, int] = {}
        for key in ended:
            for priority, (low, _high) in self._passed.pop(key, {}).items():
                lowest[priority] = min(lowest.get(priority, low), low)
        if lowest:
            self._look_again(lowest)

    def _look_again(self, lowest: dict[int, int]) -> None:
        """Let all consumers look again at messages from these positions on; the keys are priorities."""
        self._looks_again = True
        for consumer in self.consumers:
            for priority, position in lowest.items():
                self._queue.backlog.rewind(consumer.cursor, priority, position)

    # -- choosing ------------------------------------------------------------------------------------------------

    def choose(self, reference: Reference) -> ConsumerT | None:
        message = reference.message
        key = self._key_of(message)
        if key is None:
            return super().choose(reference)
        holder = self._holders.get(key)
        if holder is None:
            consumer = super().choose(reference)
        else:
            consumer = holder if self._can_take(holder, message) else None
        if consumer is not None:
            self._assign_unless_expired(key, reference, consumer)
        return consumer

    def _can_take(self, consumer: ConsumerT, message: Message) -> bool:
        if not consumer.started or consumer.closed or not consumer.credit.can_take(message.encoded_size):
            return False
        if consumer.backpressure.is_shut:
            consumer.backpressure.wait(consumer)
            return False
        return consumer.selector is None or consumer.selector.matches(message)

    def dispatch(self, backlog: Backlog, hand: Hand[ConsumerT], budget: int) -> int:
        self._looks_again = True
        while self._looks_again and budget > 0:
            # Once more if a group ended meanwhile: consumers of a higher priority had passed over its messages.
            self._looks_again = False
            budget = super().dispatch(backlog, hand, budget)
        return budget

    def _dispatch_round(
        self, level: Level[ConsumerT], backlog: Backlog, hand: Hand[ConsumerT], budget: int
    ) -> tuple[int, bool]:
        taken = False
        for _ in range(len(level.ready)):
            consumer = self._next_ready(level, 0)
            if consumer is None or budget <= 0 or not backlog.size:
                break
            if len(level.ready) > 1:
                level.ready.rotate(-1)
            reference, budget = self._take(consumer, backlog, budget)
            if reference is not None:
                taken = True
                self._assign_unless_expired(self._key_of(reference.message), reference, consumer)
                hand(consumer, reference)
        return budget, taken

    def _take(self, consumer: ConsumerT, backlog: Backlog, budget: int) -> tuple[Reference | None, int]:
        """Take out the next message for a consumer, as `Backlog.take_matching`."""
        holders, selector, passed = self._holders, consumer.selector, self._passed
        # The group of the message that was examined last, if another consumer has that group.
        others: _Key | None = None

        def matches(message: Message) -> bool:
            nonlocal others
            key = self._key_of(message)
            others = key if key is not None and holders.get(key, consumer) is not consumer else None
            return others is None and (selector is None or selector.matches(message))

        def passed_over(reference: Reference) -> None:
            if others is None:
                return
            priority, position = reference.message.priority, reference.position
            ranges = passed.get(others)
            if ranges is None:
                ranges = passed[others] = {}
            low, high = ranges.get(priority, (position, position))
            ranges[priority] = min(low, position), max(high, position)

        return backlog.take_matching(consumer.cursor, matches, budget, passed_over)

    def _assign_unless_expired(self, key: _Key | None, reference: Reference, consumer: ConsumerT) -> None:
        """Assign a group, unless its message is not delivered: then the next one begins, or ends, the group."""
        if reference.message.expiration and self._queue.is_expired(reference.message):
            self.first = None
        else:
            self._assign(key, reference, consumer)

    def _assign(self, key: _Key | None, reference: Reference, consumer: ConsumerT) -> None:
        """Assign a group to the consumer that gets this message of it, or end the assignment with the message."""
        self.first = None
        if key is None:
            return
        if key not in self._holders:
            self.first = reference
        if not _closes_group(reference.message):
            self._holders[key] = consumer
            return
        self._holders.pop(key, None)
        if key in self._passed:
            self._forget_delivered(key, reference, consumer)
            self._reopen((key,))

    def _forget_delivered(self, key: _Key, last: Reference, consumer: ConsumerT) -> None:
        """Forget messages of a group that were passed over, and that its consumer got before the last one."""
        if consumer.selector is not None:
            # It may have left some of them.
            return
        ranges, priority = self._passed[key], last.message.priority
        low, high = ranges.pop(priority, (0, 0))
        if high > last.position:
            ranges[priority] = max(low, last.position + 1), high

    def _key_of(self, message: Message) -> _Key | None:
        """Return the group of a message, or the bucket of its group; None for a message without a group."""
        group = _group_of(message)
        return None if group is None else self._key(group)

    def _key(self, group: str) -> _Key:
        if self._buckets < 0:
            return group
        number = group.removeprefix(GROUP_BUCKET_PREFIX)
        # A longer number is no int of Artemis, and Python refuses to read one of thousands of digits.
        if number is not group and number.isascii() and number.isdigit() and len(number) <= _INT_DIGITS_MAX:
            return int(number) % self._buckets
        return crc32(group.encode("utf-8", "surrogatepass")) % self._buckets

    def check(self) -> None:
        super().check()
        assert all(holder in self.consumers for holder in self._holders.values()), "a group of a consumer that is gone"
        assert self._passed.keys() <= self._holders.keys(), "a group without a consumer was passed over"


def _closes_group(message: Message) -> bool:
    try:
        return message.closes_group
    except RemoteProtocolError:
        return False
