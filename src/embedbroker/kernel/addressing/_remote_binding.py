"""The binding of a queue of another broker: what routing needs of that queue and of its consumers.

Responsible for the consumers that the other broker announces. Does not depend on the connection to the other broker,
nor on the choice among bindings (see `Rotation`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import blake2b

from attrs import Factory, define, field

from embedbroker.config import AddressSettings, MessageLoadBalancing
from embedclient.model import RoutingType, uuid_text

from ..message._message import Message
from ..queueing._queue import Queue
from ..selector._selector import Selector

__all__ = ["RemoteBinding", "announced_group", "common_routing_type", "group_of"]

# Ids from this one on are of no queue here: those come from one counter, which begins at 1.
_ANNOUNCED_IDS_FROM = 1 << 62
# Behind the first bit: a hash of the routing name, then one of the name in the cluster.
_GROUP_BITS, _NAME_BITS = 30, 32
_ANYCAST, _MULTICAST = int(RoutingType.ANYCAST), int(RoutingType.MULTICAST)
_NODE_ID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\Z")


@define(eq=False)
class RemoteBinding:
    """Hold one queue of another broker. Invariant: filtered consumers <= ``consumer_count``.

    Attributes:
        address: Address of the queue.
        cluster_name: Name of the queue with the node id of its broker; unique in the cluster.
        routing_name: Bindings with the same one share messages: the address for anycast, the queue for multicast.
        remote_queue_id: Id of the binding at the broker that announces it.
        distance: Number of bridges to the queue, from 1.
        store_and_forward: Local queue of what goes there.
        load_balancing: Which messages go there.
        filter: Filter of the queue; None for all messages.
        is_connected: Whether the broker that announces it is connected.
        consumer_count: Number of consumers.
        id: Id among the bindings of this broker, 0 until it is bound; later ones have higher ids.
        route: Bytes of its ``remote_queue_id`` in copies.
        announced_id: Id that other brokers get of it, and name in what they send for it. It follows from the name, so
            that it is the same in each life of this broker and over each way: a message may be under way for long.
            With `group_of` it leads to the bindings that share messages with it, when the binding itself is gone.
    """

    address: str
    cluster_name: str
    routing_name: str
    remote_queue_id: int
    distance: int
    store_and_forward: Queue
    load_balancing: MessageLoadBalancing
    filter: Selector | None = None
    is_connected: bool = True
    consumer_count: int = 0
    id: int = 0
    route: bytes = field(init=False)
    announced_id: int = field(init=False)
    # Filters of consumers, each with the number of consumers that have it.
    _consumer_filters: dict[str, tuple[Selector, int]] = Factory(dict)

    def __attrs_post_init__(self) -> None:
        self.route = self.remote_queue_id.to_bytes(8, "big", signed=True)
        group, name = announced_group(self.routing_name), _hash(self.cluster_name, _NAME_BITS)
        self.announced_id = _ANNOUNCED_IDS_FROM | group << _NAME_BITS | name

    def leads_over(self, node: bytes | None) -> bool:
        """Return True if the next broker on the way there has this node id of 16 bytes. None is the id of none."""
        return node is not None and self.store_and_forward.name.endswith(uuid_text(node))

    @property
    def queue_name(self) -> str:
        """Return the name of the queue: the name in the cluster without the node id behind it."""
        return _NODE_ID.sub("", self.cluster_name)

    @property
    def routing_type(self) -> int | None:
        """Return the routing type of the queue; None if it has the name of its address, and thus may have either."""
        if self.routing_name != self.address:
            return _MULTICAST
        return _ANYCAST if self.queue_name != self.address else None

    @property
    def takes_all(self) -> bool:
        """Return True if each message is wanted there: it is connected, and has a consumer, and nothing is filtered."""
        return (
            self.is_connected
            and self.consumer_count > 0
            and self.filter is None
            and not self._consumer_filters
            and self.load_balancing is not MessageLoadBalancing.OFF
        )

    @property
    def consumer_filters(self) -> dict[str, int]:
        """Return the filters of consumers, each with the number of consumers that have it."""
        return {text: count for text, (_selector, count) in self._consumer_filters.items()}

    def has_matching_consumer(self, message: Message) -> bool:
        """Return True if a consumer wants a message.

        One without a filter wants every message. Artemis leaves it out as soon as another consumer has a filter.
        """
        if not self._consumer_filters:
            return self.consumer_count > 0
        if self._unfiltered_count:
            return True
        return any(selector.matches(message) for selector, _count in self._consumer_filters.values())

    @property
    def _unfiltered_count(self) -> int:
        return self.consumer_count - sum(count for _selector, count in self._consumer_filters.values())

    def add_consumer(self, filter: Selector | None) -> None:
        """Count a consumer; None is no filter."""
        self.consumer_count += 1
        if filter is not None:
            _selector, count = self._consumer_filters.get(filter.text, (filter, 0))
            self._consumer_filters[filter.text] = (filter, count + 1)

    def remove_consumer(self, filter: str | None) -> bool:
        """Count a consumer no more; return False if none with this filter is counted."""
        if filter is None:
            if self._unfiltered_count == 0:
                return False
        else:
            counted = self._consumer_filters.pop(filter, None)
            if counted is None:
                return False
            selector, count = counted
            if count > 1:
                self._consumer_filters[filter] = (selector, count - 1)
        self.consumer_count -= 1
        return True

    def remove_consumers(self) -> list[str | None]:
        """Count no consumer any more; return the filter of each one that was counted."""
        filters: list[str | None] = [text for text, count in self.consumer_filters.items() for _ in range(count)]
        filters.extend([None] * self._unfiltered_count)
        self.consumer_count = 0
        self._consumer_filters.clear()
        return filters

    def follow(self, other: RemoteBinding) -> None:
        """Have the filter and the consumers of a binding that this one replaces."""
        self.filter, self.consumer_count = other.filter, other.consumer_count
        self._consumer_filters = dict(other._consumer_filters)


def common_routing_type(bindings: Iterable[RemoteBinding], stated: int | None, settings: AddressSettings) -> int:
    """Return the routing type with which to create an address that has queues at other brokers only.

    Args:
        bindings: Bindings of those queues.
        stated: Routing type of a send to the address; it counts if each binding may have either.
        settings: Settings of the address; they count without one.
    """
    default = settings.default_queue_routing_type
    assert default is not None
    found = [binding.routing_type for binding in bindings]
    return next((each for each in [*found, stated] if each is not None), default)


def announced_group(routing_name: str) -> int:
    """Return the part of an announced id that bindings with one routing name have in common."""
    return _hash(routing_name, _GROUP_BITS)


def group_of(binding_id: int) -> int | None:
    """Return the part of an announced id that stands for its routing name; None for the id of a queue."""
    return (binding_id - _ANNOUNCED_IDS_FROM) >> _NAME_BITS if binding_id >= _ANNOUNCED_IDS_FROM else None


def _hash(name: str, bits: int) -> int:
    digest = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 64 - bits
