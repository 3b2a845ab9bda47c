"""Bindings of an address beside its own queues: diverts, queues of wildcard addresses, parts of the broker itself.

`Address.route` chooses among the queues of an address.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeVar

from attrs import frozen

from embedclient.model import RoutingType

from .._authority import Permission
from .._refusal import Refused
from ..message._message import Message
from ..queueing._queue import Queue
from ..selector._selector import Selector
from ._diverts import Divert

__all__ = ["MANAGEMENT_ADDRESS", "NOTIFICATION_ADDRESS", "InternalBinding", "OtherBindings"]

MANAGEMENT_ADDRESS: Final = "activemq.management"
"""The address of management messages, as in Artemis."""

NOTIFICATION_ADDRESS: Final = "activemq.notifications"
"""The address of notifications, as in Artemis. It is not reserved: clients bind queues there."""


@frozen
class InternalBinding:
    """Bind an address to a part of the broker that takes messages: no queue, no route, no transaction.

    ``take(message, session, sender_waits)`` carries out one request, and returns why it is refused. ``sender_waits``:
    the sender waits for an answer to the send itself. ``permission`` is required on the address for a send. A reserved
    address can have no queues, and queries report that it exists.
    """

    address: str
    take: Callable[..., Refused | None]
    permission: Permission = Permission.SEND
    is_reserved: bool = True


class Filtering(Protocol):
    """Take the messages that a filter matches."""

    @property
    def filter(self) -> Selector | None:
        """Return the filter; None takes every message."""


F = TypeVar("F", bound=Filtering)


class OtherBindings:
    """Hold what takes messages of an address beside its own queues, as it was resolved.

    Args:
        exclusive: Exclusive diverts. A message that one of them takes goes nowhere else.
        diverts: All other diverts, by routing name: those of one name take turns.
        multicast: Multicast queues of wildcard addresses that match.
        anycast: Anycast queues of those, by wildcard address: those of one address take turns.
        turns: Position of each turn, kept over later resolutions.
    """

    __slots__ = ("anycast", "diverts", "exclusive", "multicast", "turns")

    def __init__(
        self,
        exclusive: Sequence[Divert],
        diverts: dict[str, list[Divert]],
        multicast: Sequence[Queue],
        anycast: dict[str, list[Queue]],
        turns: dict[str, int],
    ) -> None:
        self.exclusive = exclusive
        self.diverts = diverts
        self.multicast = multicast
        self.anycast = anycast
        self.turns = turns

    @property
    def has_diverts(self) -> bool:
        """Return True if there are diverts."""
        return bool(self.exclusive or self.diverts)

    @property
    def has_queues(self) -> bool:
        """Return True if there are queues."""
        return bool(self.multicast or self.anycast)

    def takes(self, queue: Queue) -> bool:
        """Return True if a queue is among them."""
        return queue in self.multicast or any(queue in queues for queues in self.anycast.values())

    def queues_for(self, message: Message, routing_type: int | None) -> list[Queue]:
        """Return the queues that take this message; ``routing_type`` None means that the sender named none."""
        targets: list[Queue] = []
        if routing_type != RoutingType.ANYCAST:
            targets += [queue for queue in self.multicast if _takes(queue, message)]
        if routing_type != RoutingType.MULTICAST:
            for pattern, queues in self.anycast.items():
                queue = self._next("queue " + pattern, queues, message)
                if queue is not None:
                    targets.append(queue)
        return targets

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
