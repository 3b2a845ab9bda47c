"""The bindings of an address, and the choice of those that take a message.

Responsible for an address' own queues, and for what takes its messages beside them: diverts, queues of wildcard
addresses, and queues of other brokers. Does not depend on how those are found (see `Resolution`).
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from itertools import chain
from typing import Protocol, TypeAlias, TypeVar

from embedclient.model import RoutingType

from ..message._message import Message
from ..queueing._queue import Queue
from ..selector._selector import Selector
from ._diverts import Divert
from ._remote_binding import RemoteBinding
from ._rotation import Rotation

__all__ = ["Bindings", "Chosen", "OtherBindings"]

_MULTICAST, _ANYCAST = 0, 1


class Filtering(Protocol):
    """Take the messages that a filter matches."""

    @property
    def filter(self) -> Selector | None:
        """Return the filter; None takes every message."""


F = TypeVar("F", bound=Filtering)

Chosen: TypeAlias = tuple[list[Queue], Sequence[RemoteBinding]]
"""Queues of this broker, and bindings of queues of others."""


class OtherBindings:
    """Hold what takes messages of an address beside its own queues, as it was resolved.

    Args:
        exclusive: Exclusive diverts. A message that one of them takes goes nowhere else.
        diverts: All other diverts, by routing name: those of one name take turns.
        multicast: Multicast queues of wildcard addresses that match.
        anycast: Anycast queues of those, by wildcard address: those of one address take turns.
        turns: Position of each turn, kept over later resolutions.
        rotation: Groups with remote bindings; None without any.
    """

    __slots__ = ("anycast", "diverts", "exclusive", "has_diverts", "has_queues", "multicast", "rotation", "turns")

    def __init__(
        self,
        exclusive: Sequence[Divert],
        diverts: dict[str, list[Divert]],
        multicast: Sequence[Queue],
        anycast: dict[str, list[Queue]],
        turns: dict[str, int],
        rotation: Rotation | None = None,
    ) -> None:
        self.exclusive = exclusive
        self.diverts = diverts
        self.multicast = multicast
        self.anycast = anycast
        self.turns = turns
        self.rotation = rotation
        #: Whether there are diverts, and queues.
        self.has_diverts = bool(exclusive or diverts)
        self.has_queues = bool(multicast or anycast)

    def takes(self, queue: Queue) -> bool:
        """Return True if a queue is among them."""
        return queue in self.multicast or any(queue in queues for queues in self.anycast.values())

    def queues_for(self, message: Message, routing_type: int | None, grouped: Container[Queue] = ()) -> list[Queue]:
        """Return the queues that take this message, without those in groups.

        ``routing_type`` None means that the sender named none.
        """
        targets: list[Queue] = []
        if routing_type != RoutingType.ANYCAST:
            targets += [queue for queue in self.multicast if queue not in grouped and _takes(queue, message)]
        if routing_type != RoutingType.MULTICAST:
            for pattern, queues in self.anycast.items():
                if queues[0] in grouped:
                    continue
                queue = self._next("queue " + pattern, queues, message)
                if queue is not None:
                    targets.append(queue)
        return targets

    def chosen(self, ids: frozenset[int], own: list[Queue]) -> Chosen:
        """Return the bindings with these ids, together with queues of the address itself."""
        wild = [queue for queue in chain(self.multicast, *self.anycast.values()) if queue.id in ids]
        remote = self.rotation.chosen(ids) if self.rotation is not None else ()
        return own + wild, remote

    def diverts_for(self, message: Message) -> tuple[list[Divert], bool]:
        """Return the diverts that take this message, and True if they are exclusive."""
        exclusive = [divert for divert in self.exclusive if _takes(divert, message)]
        if exclusive:
            return exclusive, True
        chosen = [self._next("divert " + name, diverts, message) for name, diverts in self.diverts.items()]
        return [divert for divert in chosen if divert is not None], False

    def _next(self, name: str, bindings: Sequence[F], message: Message) -> F | None:
        """Return the binding whose turn it is among those that take the message; others keep their turn."""
        count = len(bindings)
        first = self.turns.get(name, 0)
        for step in range(count):
            binding = bindings[(first + step) % count]
            if _takes(binding, message):
                self.turns[name] = (first + step + 1) % count
                return binding
        return None


def _takes(binding: Filtering, message: Message) -> bool:
    return binding.filter is None or binding.filter.matches(message)


class Bindings:
    """Hold the queues of an address. Anycast queues share a round robin; every multicast queue gets the message."""

    __slots__ = ("_next_anycast", "anycast", "is_resolved", "multicast", "others")

    def __init__(self) -> None:
        self.anycast: list[Queue] = []
        # Thousands of subscriptions are added and removed on one topic.
        self.multicast: dict[Queue, None] = {}
        self._next_anycast = 0
        # Diverts and queues of wildcard addresses; None without any. Valid while `is_resolved` is True.
        self.others: OtherBindings | None = None
        self.is_resolved = False

    @property
    def queues(self) -> list[Queue]:
        """Return all queues, anycast ones first."""
        return [*self.anycast, *self.multicast]

    @property
    def has_queues(self) -> bool:
        """Return True if any queue is bound, without listing them."""
        return bool(self.anycast or self.multicast)

    def bind(self, queue: Queue) -> None:
        """Add a queue."""
        if queue.definition.routing_type == _ANYCAST:
            self.anycast.append(queue)
        else:
            self.multicast[queue] = None

    def unbind(self, queue: Queue) -> None:
        """Remove a queue."""
        if queue.definition.routing_type == _ANYCAST:
            self.anycast.remove(queue)
        else:
            del self.multicast[queue]

    def route_all(self, message: Message, routing_type: int | None) -> list[Queue]:
        """Return the queues that take this message, those of wildcard addresses too."""
        targets = self.route(message, routing_type)
        if self.others is not None:
            targets += self.others.queues_for(message, routing_type)
        return targets

    def choose(
        self, message: Message, routing_type: int | None, queue_name: str | None = None
    ) -> tuple[list[Queue], list[RemoteBinding]]:
        """Return the queues that take this message, and the remote bindings; see `Rotation.choose`.

        With a ``queue_name``, only queues in groups: the caller finds the others.
        """
        others = self.others
        assert others is not None and others.rotation is not None
        rotation = others.rotation
        queues, remote = rotation.choose(message, routing_type, queue_name)
        if queue_name is not None:
            return queues, remote
        grouped = rotation.members
        if not grouped:
            queues += self.route(message, routing_type)
        else:
            if routing_type != _ANYCAST:
                queues += [queue for queue in self.multicast if queue not in grouped and _takes(queue, message)]
            if routing_type != _MULTICAST and self.anycast and self.anycast[0] not in grouped:
                queues += self.route(message, _ANYCAST)
        if others.has_queues:
            queues += others.queues_for(message, routing_type, grouped)
        return queues, remote

    def chosen(self, ids: frozenset[int]) -> Chosen:
        """Return the bindings with these ids, which another broker has chosen for a message."""
        found: list[Queue] = []
        for queue in chain(self.anycast, self.multicast):
            if queue.id in ids:
                found.append(queue)
                if len(found) == len(ids):
                    return found, ()
        return (found, ()) if self.others is None else self.others.chosen(ids, found)

    def route(self, message: Message, routing_type: int | None) -> list[Queue]:
        """Return the queues that take this message; ``routing_type`` None means that the sender named none.

        The round robin moves on only when a queue was chosen; it looks at queue filters, not at consumers.
        """
        targets: list[Queue] = []
        if self.multicast and routing_type != _ANYCAST:
            # Many have the same filter: those of the members of a cluster, for example.
            last, takes = None, True
            for queue in self.multicast:
                filter = queue.filter
                if filter is not last:
                    last = filter
                    takes = filter is None or filter.matches(message)
                if takes:
                    targets.append(queue)
        anycast = self.anycast
        if anycast and routing_type != _MULTICAST:
            count = len(anycast)
            if count == 1:
                if anycast[0].filter is None or anycast[0].filter.matches(message):
                    targets.append(anycast[0])
            else:
                for step in range(count):
                    queue = anycast[(self._next_anycast + step) % count]
                    if queue.filter is None or queue.filter.matches(message):
                        self._next_anycast = (self._next_anycast + step + 1) % count
                        targets.append(queue)
                        break
        return targets
