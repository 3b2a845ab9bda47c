"""Message groups in a cluster: all messages of a group go to one of the queues that share messages.

Responsible for the binding that a decision names, and for proposals. Does not depend on how brokers take and
exchange decisions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from .._clock import Clock
from .._definitions import GroupDecision
from .._group_notices import GroupNotice
from ..message._message import Message
from ..queueing._queue import Queue
from ._rotation import Group, Rotation, Shared

if TYPE_CHECKING:
    from ._address import Address

__all__ = ["ClusterGroups", "GroupingHandler", "RoutingUndecided"]

_TRIES_MAX: Final = 10
_MULTICAST, _ANYCAST = 0, 1
_ALL_QUEUES: Final[frozenset[int]] = frozenset()


class RoutingUndecided(Exception):
    """End the routing of a message for which something is not known yet, such as the queue of its group.

    Attributes:
        wait: Takes an action, and runs it when the message may be tried again.
    """

    def __init__(self, wait: Callable[[Callable[[], None]], None]) -> None:
        super().__init__()
        self.wait = wait


class GroupingHandler(Protocol):
    """Provide decisions: the name in the cluster of the queue of a group, by the key of the group."""

    def find(self, key: str, now_s: float) -> str | None:
        """Return the decision for a key, and count a message of its group."""

    def propose(self, key: str, queue: str, now_s: float) -> str | None:
        """Return the decision for a key, None if another broker has yet to take it."""

    def awaits(self, queue: str, now_s: float) -> bool:
        """Return True if messages must wait for a queue that is not there yet."""

    def when_changed(self, key: str, action: Callable[[], None]) -> None:
        """Run an action when a message that waits may be tried again."""

    def drop(self, key: str, queue: str) -> None:
        """End a group whose queue is gone."""


class GroupPublisher(Protocol):
    """Send notifications about groups."""

    def publish_group_notice(self, notice: GroupNotice) -> None:
        """Send a notification to the brokers that listen."""


class GroupReceiver(Protocol):
    """Take notifications about groups."""

    def receive(self, notice: GroupNotice) -> None:
        """Handle a notification of another broker."""


class ClusterGroups:
    """One instance per broker. Without a ``handler`` it has no effect.

    ``restored`` are the decisions of the journal, until a handler takes them. ``ready`` has the actions of messages
    that waited for a decision, which the owner runs at its next turn. ``publisher`` sends notifications to other
    brokers, and ``receiver`` takes theirs; each is None without one.
    """

    __slots__ = ("_clock", "handler", "node_id", "publisher", "ready", "receiver", "restored")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.handler: GroupingHandler | None = None
        self.node_id = ""
        self.restored: Sequence[GroupDecision] = ()
        self.ready: list[Callable[[], None]] = []
        self.publisher: GroupPublisher | None = None
        self.receiver: GroupReceiver | None = None

    def prepare(self, message: Message, address: Address, routing_type: int | None) -> frozenset[int]:
        """Make sure that the group of a message has its decisions before the message is routed.

        Args:
            message: Message of a group, to an address with all its queues.
            address: Its address, resolved.
            routing_type: Routing type of the send; None if the sender named none.

        Returns:
            Ids of the queues that the message is for; empty: the routing of the address finds them.

        Raises:
            RoutingUndecided: A decision is under way; the message waits for it.
        """
        group_id = message.group_id
        if self.handler is None or not isinstance(group_id, str):
            return _ALL_QUEUES
        others = address.others
        if others is not None and others.rotation is not None:
            self._prepare_shared(message, group_id, others.rotation, routing_type)
            return _ALL_QUEUES
        if not address.anycast or routing_type == _MULTICAST:
            return _ALL_QUEUES
        # The next queue of this broker, which may be one of several in the cluster later.
        queues = address.anycast
        queue = self._decided(
            f"{group_id}.{address.name}", queues, lambda: next(iter(address.route(message, _ANYCAST)), None)
        )
        if queue is None or len(queues) == 1 or others is not None:
            return _ALL_QUEUES
        copies = address.route(message, _MULTICAST) if routing_type is None else []
        return frozenset([each.id for each in (queue, *copies) if isinstance(each, Queue)])

    def _prepare_shared(self, message: Message, group_id: str, rotation: Rotation, routing_type: int | None) -> None:
        for name, group in rotation.groups.items():

            def next_binding(group: Group = group) -> Shared | None:
                return rotation.next_in(group, message, routing_type)

            self._decided(f"{group_id}.{name}", group.bindings, next_binding)

    def _decided(
        self, key: str, bindings: Sequence[Shared], next_binding: Callable[[], Shared | None]
    ) -> Shared | None:
        """Return the binding that a decision names; None if there is no decision, since no binding takes the message.

        Raises:
            RoutingUndecided: The decision is under way, or its queue.
        """
        handler = self.handler
        assert handler is not None
        for _ in range(_TRIES_MAX):
            decided = handler.find(key, self._clock.monotonic)
            if decided is None:
                proposed = next_binding()
                if proposed is None:
                    return None
                decided = handler.propose(key, self.name_of(proposed), self._clock.monotonic)
                if decided is None:
                    raise RoutingUndecided(partial(self._wait, key))
            found = self._named(decided, bindings)
            if found is not None:
                return found
            if handler.awaits(decided, self._clock.monotonic):
                raise RoutingUndecided(partial(self._wait, key))
            handler.drop(key, decided)
        return None

    def publish(self, notice: GroupNotice) -> None:
        """Send a notification to other brokers; without one that listens it is dropped."""
        if self.publisher is not None:
            self.publisher.publish_group_notice(notice)

    def receive(self, notice: GroupNotice) -> None:
        """Handle a notification of another broker; without a handler it is ignored."""
        if self.receiver is not None:
            self.receiver.receive(notice)

    def _wait(self, key: str, action: Callable[[], None]) -> None:
        assert self.handler is not None
        self.handler.when_changed(key, lambda: self.ready.append(action))

    def binding_of(self, message: Message, name: str, bindings: Sequence[Shared]) -> Shared | None:
        """Return the binding that the decision on the group of a message names; None leaves the choice to the rotation.

        Args:
            message: Message of a group.
            name: Routing name that the bindings share.
            bindings: The bindings.
        """
        group_id = message.group_id if message.is_grouped else None
        if self.handler is None or not isinstance(group_id, str):
            return None
        decided = self.handler.find(f"{group_id}.{name}", self._clock.monotonic)
        found = None if decided is None else self._named(decided, bindings)
        if found is None or (found.filter is not None and not found.filter.matches(message)):
            return None
        return found

    def _named(self, queue: str, bindings: Iterable[Shared]) -> Shared | None:
        return next((each for each in bindings if self.name_of(each) == queue), None)

    def name_of(self, binding: Shared) -> str:
        """Return the name of a queue in the cluster."""
        return binding.name + self.node_id if isinstance(binding, Queue) else binding.cluster_name
