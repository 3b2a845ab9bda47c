"""One address: its routing types, its state, and its counts. Its bindings are in `_bindings.py`."""

from __future__ import annotations

from collections.abc import Iterator

from .._definitions import AddressDefinition
from ..queueing._queue import Queue
from ._bindings import Bindings
from ._id_cache import IdCache
from ._rotation import Shared

__all__ = ["Address"]

_ANYCAST = 1


class Address(Bindings):
    """Hold an address: its bindings, its routing types, and the counts that the broker keeps of it."""

    __slots__ = (
        "definition",
        "duplicate_ids",
        "idle_since_ms",
        "is_plain",
        "name",
        "paused",
        "removed",
        "routed_count",
        "swept",
        "swept_count",
        "unrouted_count",
    )

    def __init__(self, definition: AddressDefinition) -> None:
        super().__init__()
        self.definition = definition
        self.name = definition.name
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
        # True while its queues deliver nothing.
        self.paused = definition.paused
        # Found idle by the last sweep, and how many messages had been sent to it by then.
        self.swept = False
        self.swept_count = 0
        self.idle_since_ms = 0

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

    def add(self, queue: Queue) -> None:
        """Bind a queue, which makes the address no longer idle."""
        self.bind(queue)
        self.swept = False

    def remove(self, queue: Queue, now_ms: int) -> None:
        """Unbind a queue. From now on the address may be idle."""
        self.unbind(queue)
        self.idle_since_ms = now_ms

    def by_routing_name(self) -> Iterator[tuple[str, Shared]]:
        """Yield all bindings with their routing names: first the queues of this broker, those of wildcards too."""
        yield from ((self.name, queue) for queue in self.anycast)
        yield from ((queue.name, queue) for queue in self.multicast)
        others = self.others
        if others is None:
            return
        yield from ((queue.name, queue) for queue in others.multicast)
        yield from ((pattern, queue) for pattern, queues in others.anycast.items() for queue in queues)
        if others.rotation is not None:
            yield from others.rotation.remote_by_name()

    def forget_others(self) -> None:
        """Resolve diverts and queues of wildcard addresses anew before the next message."""
        self.is_plain = None
        self.is_resolved = False
