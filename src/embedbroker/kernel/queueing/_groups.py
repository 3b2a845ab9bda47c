"""The choice of consumers for a queue with message groups: all messages of a group go to one consumer.

Responsible for the assignment of groups to consumers (broker-semantics 3.6). A queue gets this dispatcher with its
first message of a group, so that others do not pay for groups.
"""

from __future__ import annotations

from itertools import islice
from typing import TypeAlias, TypeVar
from zlib import crc32

from embedclient.errors import RemoteProtocolError
from embedclient.model import GROUP_BUCKET_PREFIX

from .._definitions import QueueDefinition
from ..message._message import Message
from ._backlog import Backlog, Bookmark
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


class GroupDispatcher(Dispatcher[ConsumerT]):
    """Choose consumers for a queue with groups.

    Each consumer looks through the backlog with its own bookmark, as a consumer with a filter does: it passes over
    messages of groups that others have. Bookmarks begin again when such a group has no consumer any more. So a group
    whose consumer is busy holds up no other group, and no message is examined twice without a reason.
    """

    __slots__ = ("_buckets", "_holders", "_looks_again", "_passed", "_rebalances", "first")

    def __init__(self, before: Dispatcher[ConsumerT], definition: QueueDefinition) -> None:
        """Take over the consumers and turns of the dispatcher that the queue had before."""
        super().__init__()
        self.consumers = before.consumers
        self.levels = before.levels
        self._buckets = definition.group_buckets
        self._rebalances = definition.group_rebalance
        # The consumer of each group, or bucket of groups, that has one.
        self._holders: dict[_Key, ConsumerT] = {}
        # Those among them whose messages another consumer has passed over.
        self._passed: set[_Key] = set()
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
        if not self._passed.isdisjoint(ended):
            self._look_again()
        return bool(ended)

    # -- consumers -----------------------------------------------------------------------------------------------

    def add(self, consumer: ConsumerT) -> bool:
        super().add(consumer)
        if not self._rebalances or not self._holders:
            return False
        self._holders.clear()
        self._look_again()
        return True

    def remove(self, consumer: ConsumerT) -> bool:
        others_wait = super().remove(consumer)
        ended = [key for key, holder in self._holders.items() if holder is consumer]
        for key in ended:
            del self._holders[key]
        if not self._passed.isdisjoint(ended):
            self._look_again()
        return others_wait or bool(ended)

    def _look_again(self) -> None:
        """Let all consumers look through the whole backlog: they passed over messages that are for any of them now."""
        self._looks_again = True
        self._passed.clear()
        for consumer in self.consumers:
            consumer.cursor = Bookmark()

    # -- choosing ------------------------------------------------------------------------------------------------

    def choose(self, reference: Reference) -> ConsumerT | None:
        message = reference.message
        key = self._key_of(message)
        holder = self._holders.get(key) if key is not None else None
        if holder is None:
            consumer = super().choose(reference)
        else:
            consumer = holder if self._can_take(holder, message) else None
        if consumer is not None:
            self._assign(key, reference, consumer)
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
                self._assign(self._key_of(reference.message), reference, consumer)
                hand(consumer, reference)
        return budget, taken

    def _take(self, consumer: ConsumerT, backlog: Backlog, budget: int) -> tuple[Reference | None, int]:
        """Take out the next message for a consumer, as `Backlog.take_matching`."""
        holders, selector = self._holders, consumer.selector

        def matches(message: Message) -> bool:
            key = self._key_of(message)
            if key is not None and holders.get(key, consumer) is not consumer:
                self._passed.add(key)
                return False
            return selector is None or selector.matches(message)

        return backlog.take_matching(consumer.cursor, matches, budget)

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
            self._look_again()

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
        assert self._passed <= self._holders.keys(), "a group without a consumer was passed over"


def _closes_group(message: Message) -> bool:
    try:
        return message.closes_group
    except RemoteProtocolError:
        return False
