"""One address: its routing types, its queues, and the choice of queues for a message."""

from __future__ import annotations

from .._definitions import AddressDefinition
from ..message._message import Message
from ..queueing._queue import Queue
from ._bindings import OtherBindings
from ._id_cache import IdCache

__all__ = ["Address"]

_MULTICAST, _ANYCAST = 0, 1


class Address:
    """Hold an address with its bindings. Anycast queues share a round robin; every multicast queue gets the message."""

    __slots__ = (
        "_next_anycast",
        "anycast",
        "definition",
        "duplicate_ids",
        "idle_since_ms",
        "is_plain",
        "is_resolved",
        "multicast",
        "name",
        "others",
        "paused",
        "removed",
        "routed_count",
        "swept",
        "swept_count",
        "unrouted_count",
    )

    def __init__(self, definition: AddressDefinition) -> None:
        self.definition = definition
        self.name = definition.name
        self.anycast: list[Queue] = []
        # Thousands of subscriptions are added and removed on one topic.
        self.multicast: dict[Queue, None] = {}
        self._next_anycast = 0
        # None until the first message with an id arrives.
        self.duplicate_ids: IdCache | None = None
        # True once the broker no longer has the address.
        self.removed = False
        # Sends so far, and those of them that no queue took.
        self.routed_count = 0
        self.unrouted_count = 0
        # True when the address settings neither refuse sends nor change expirations; None until the first message needs
        # it, and again when `others` must be resolved anew.
        self.is_plain: bool | None = None
        # Diverts and queues of wildcard addresses; None without any. Valid while `is_resolved` is True.
        self.others: OtherBindings | None = None
        self.is_resolved = False
        # True while its queues deliver nothing.
        self.paused = definition.paused
        # Found idle by the last sweep, and how many messages had been sent to it by then.
        self.swept = False
        self.swept_count = 0
        self.idle_since_ms = 0

    @property
    def queues(self) -> list[Queue]:
        """Return all queues, anycast ones first."""
        return [*self.anycast, *self.multicast]

    @property
    def has_queues(self) -> bool:
        """Return True if any queue is bound, without listing them."""
        return bool(self.anycast or self.multicast)

    def serves(self, routing_type: int) -> bool:
        """Return True if the address has this routing type."""
        return self.definition.anycast if routing_type == _ANYCAST else self.definition.multicast

    def queues_exist(self, routing_type: int | None) -> bool:
        """Return True if a send with this routing type needs no new queue.

        Any queue is enough, although it may be of the other type: then the message is dropped, as by Artemis.
        """
        if routing_type is None or self.has_queues:
            return True
        return routing_type != _ANYCAST and self.definition.multicast

    def bind(self, queue: Queue) -> None:
        """Add a queue."""
        if queue.definition.routing_type == _ANYCAST:
            self.anycast.append(queue)
        else:
            self.multicast[queue] = None
        self.swept = False

    def unbind(self, queue: Queue, now_ms: int) -> None:
        """Remove a queue."""
        if queue.definition.routing_type == _ANYCAST:
            self.anycast.remove(queue)
        else:
            del self.multicast[queue]
        self.idle_since_ms = now_ms

    def forget_others(self) -> None:
        """Resolve diverts and queues of wildcard addresses anew before the next message."""
        self.is_plain = None
        self.is_resolved = False

    def route_all(self, message: Message, routing_type: int | None) -> list[Queue]:
        """Return the queues that take this message, those of wildcard addresses too."""
        targets = self.route(message, routing_type)
        if self.others is not None:
            targets += self.others.queues_for(message, routing_type)
        return targets

    def route(self, message: Message, routing_type: int | None) -> list[Queue]:
        """Return the queues that take this message; ``routing_type`` None means that the sender named none.

        The round robin moves on only when a queue was chosen; it looks at queue filters, not at consumers.
        """
        targets: list[Queue] = []
        if self.multicast and routing_type != _ANYCAST:
            for queue in self.multicast:
                if queue.filter is None or queue.filter.matches(message):
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
