"""The choice between queues of this broker and of others: bindings with the same routing name take turns.

Responsible for the rotation of Artemis (cluster-and-ha 8.2) at one address that has remote bindings. Does not depend
on how a message gets to another broker.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol, TypeAlias

from embedbroker.config import MessageLoadBalancing
from embedclient.model import RoutingType

from ..message._message import Message
from ..queueing._queue import Queue
from ._remote_binding import RemoteBinding

__all__ = ["Group", "GroupDecisions", "Rotation", "Shared"]

Shared: TypeAlias = "Queue | RemoteBinding"
"""A binding that shares messages with those of the same routing name."""

_MULTICAST = RoutingType.MULTICAST
_STAYING = (MessageLoadBalancing.OFF, MessageLoadBalancing.OFF_WITH_REDISTRIBUTION)


class GroupDecisions(Protocol):
    """Provide the decisions on message groups."""

    def binding_of(self, message: Message, name: str, bindings: Sequence[Shared]) -> Shared | None:
        """Return the binding for the group of a message; None leaves the choice to the rotation."""


class Group:
    """Hold the bindings with one routing name, in order of their addition, and the one whose turn is next."""

    __slots__ = ("_behind_home", "_remote", "bindings", "home", "position")

    def __init__(self, bindings: Sequence[Shared], position: int) -> None:
        self.bindings = bindings
        self.position = position
        local = [binding for binding in bindings if isinstance(binding, Queue)]
        self._remote = [binding for binding in bindings if isinstance(binding, RemoteBinding)]
        #: The only queue of this broker; None if there are none, or several.
        self.home = local[0] if len(local) == 1 else None
        self._behind_home = 0 if self.home is None else (bindings.index(self.home) + 1) % len(bindings)

    def stays_home(self, message: Message, load_balancing: MessageLoadBalancing, *, stays: bool) -> bool:
        """Return True if a message goes to `home`, as `next_for` has it; False leaves that to it."""
        if not stays:
            if load_balancing is not MessageLoadBalancing.ON_DEMAND:
                return False
            for binding in self._remote:
                if binding.consumer_count and binding.is_connected:
                    return False
        home = self.home
        if home is None or not (home.filter is None or home.filter.matches(message)):
            return False
        self.position = self._behind_home
        return True

    def next_for(
        self,
        message: Message,
        load_balancing: MessageLoadBalancing,
        queue_name: str | None,
        *,
        stays: bool,
        routing_type: int | None = None,
    ) -> Shared | None:
        """Return the binding that takes a message; the next turn is that of the binding behind it.

        One with a matching consumer comes before all others, and one without a consumer only if there is no better.

        Args:
            message: Message.
            load_balancing: Type in force.
            queue_name: Name that the queue must have; None for any name.
            stays: Whether the message does not leave this broker.
            routing_type: Routing type that a queue of this broker must have; None for any.
        """
        bindings = self.bindings
        count = len(bindings)
        is_strict = load_balancing is MessageLoadBalancing.STRICT
        prefers_local = load_balancing is MessageLoadBalancing.ON_DEMAND
        position = self.position if self.position < count else 0
        fallback = -1
        for _ in range(count):
            binding = bindings[position]
            is_local = isinstance(binding, Queue)
            if (
                (
                    (routing_type is None or binding.definition.routing_type == routing_type)
                    if isinstance(binding, Queue)
                    else not stays
                )
                and (binding.filter is None or binding.filter.matches(message))
                and (queue_name is None or _queue_name(binding) == queue_name)
            ):
                if count == 1 or _is_preferred(binding, message, is_strict=is_strict):
                    self.position = (position + 1) % count
                    return binding
                if fallback < 0 or (prefers_local and is_local):
                    fallback = position
            position = (position + 1) % count
        if fallback < 0:
            return None
        self.position = (fallback + 1) % count
        return bindings[fallback]

    @property
    def has_consumers_elsewhere(self) -> bool:
        """Return True if a broker that is connected has a consumer."""
        return any(binding.is_connected and binding.consumer_count for binding in self._remote)

    def has_elsewhere(self, message: Message, origin: Queue, queue_name: str | None) -> bool:
        """Return True if `next_elsewhere` finds a binding."""
        return self._find_elsewhere(message, origin, queue_name) >= 0

    def next_elsewhere(self, message: Message, origin: Queue, queue_name: str | None) -> Shared | None:
        """Return the binding that takes a message out of a queue: one with a consumer that wants it; None for none.

        The next turn is that of the binding behind it. A ``queue_name`` is required of the queue; None allows any.
        """
        found = self._find_elsewhere(message, origin, queue_name)
        if found < 0:
            return None
        self.position = (found + 1) % len(self.bindings)
        return self.bindings[found]

    def only_elsewhere(self, origin: Queue, queue_name: str | None) -> RemoteBinding | None:
        """Return the binding that `next_elsewhere` returns for each message; None if that depends on the message."""
        if len(self._remote) != 1 or len(self.bindings) != 2 or self.home is not origin:
            return None
        remote = self._remote[0]
        return remote if remote.takes_all and queue_name in (None, remote.queue_name) else None

    def _find_elsewhere(self, message: Message, origin: Queue, queue_name: str | None) -> int:
        bindings = self.bindings
        count = len(bindings)
        for step in range(count):
            position = (self.position + step) % count
            binding = bindings[position]
            if (
                binding is not origin
                and _is_preferred(binding, message, is_strict=False)
                and (binding.filter is None or binding.filter.matches(message))
                and (queue_name is None or _queue_name(binding) == queue_name)
            ):
                return position
        return -1


def _is_preferred(binding: Shared, message: Message, *, is_strict: bool) -> bool:
    """Return True if a binding is connected and has a consumer that wants a message, where consumers matter."""
    if isinstance(binding, Queue):
        return is_strict or binding.has_matching_consumer(message)
    if not binding.is_connected:
        return False
    if is_strict:
        return True
    return (
        binding.consumer_count > 0
        and binding.load_balancing is not MessageLoadBalancing.OFF
        and binding.has_matching_consumer(message)
    )


def _queue_name(binding: Shared) -> str:
    return binding.name if isinstance(binding, Queue) else binding.queue_name


class Rotation:
    """Hold the groups of an address that have a remote binding.

    Args:
        groups: Bindings by routing name, each list in order of addition, with a remote binding at least.
        before: What was in force until now; its turns go on.
        is_complete: Whether the address has no other queues.
        decisions: Decisions on message groups; None: groups have no effect on the choice.
    """

    __slots__ = ("_decisions", "_remote", "groups", "load_balancing", "members", "only")

    def __init__(
        self,
        groups: Mapping[str, Sequence[Shared]],
        before: Rotation | None,
        *,
        is_complete: bool,
        decisions: GroupDecisions | None = None,
    ) -> None:
        known: Mapping[str, Group] = before.groups if before is not None else {}
        self.groups: dict[str, Group] = {
            name: Group(bindings, known[name].position if name in known else 0) for name, bindings in groups.items()
        }
        #: Queues of this broker that are in a group.
        self.members: Collection[Queue] = frozenset(
            [binding for bindings in groups.values() for binding in bindings if isinstance(binding, Queue)]
        )
        remote = [each for bindings in groups.values() for each in bindings if isinstance(each, RemoteBinding)]
        self._remote = {binding.announced_id: binding for binding in remote}
        #: Type in force: that of the remote binding added last.
        self.load_balancing = max(remote, key=lambda binding: binding.id).load_balancing
        self._decisions = decisions
        #: The only group, if nothing else takes messages here: the most frequent case, and the fastest.
        self.only = (
            next(iter(self.groups.values())) if is_complete and len(self.groups) == 1 and decisions is None else None
        )

    def chosen(self, ids: frozenset[int]) -> list[RemoteBinding]:
        """Return the remote bindings with these ids, which another broker has chosen for a message."""
        return [self._remote[each] for each in ids if each in self._remote]

    def remote_by_name(self) -> list[tuple[str, RemoteBinding]]:
        """Return the remote bindings with their routing names, those that are connected first."""
        found = [(binding.routing_name, binding) for binding in self._remote.values()]
        return sorted(found, key=lambda each: not each[1].is_connected)

    def home_for(self, message: Message, routing_type: int | None) -> Queue | None:
        """Return the queue that takes a message, if that is clear at once; None leaves the choice to `choose`."""
        only, load_balancing = self.only, self.load_balancing
        if only is None or only.home is None:
            return None
        stays = load_balancing in _STAYING and routing_type != _MULTICAST
        fits = routing_type is None or only.home.definition.routing_type == routing_type
        return only.home if fits and only.stays_home(message, load_balancing, stays=stays) else None

    def choose(
        self, message: Message, routing_type: int | None, queue_name: str | None = None
    ) -> tuple[list[Queue], list[RemoteBinding]]:
        """Return the queues of the groups that take a message, and the remote bindings.

        Args:
            message: Message.
            routing_type: Routing type of the send; None if the sender named none.
            queue_name: Queue that the sender named; None for all.
        """
        load_balancing = self.load_balancing
        stays = load_balancing in _STAYING and routing_type != _MULTICAST
        queues: list[Queue] = []
        remote: list[RemoteBinding] = []
        decisions = self._decisions if queue_name is None else None
        for name, group in self.groups.items():
            binding = decisions.binding_of(message, name, group.bindings) if decisions is not None else None
            if binding is None:
                binding = group.next_for(message, load_balancing, queue_name, stays=stays, routing_type=routing_type)
            if isinstance(binding, RemoteBinding):
                remote.append(binding)
            elif binding is not None and (routing_type is None or binding.definition.routing_type == routing_type):
                queues.append(binding)
        return queues, remote

    def next_in(self, group: Group, message: Message, routing_type: int | None) -> Shared | None:
        """Return the binding of a group whose turn it is for a message; the next turn is that of the one behind it."""
        stays = self.load_balancing in _STAYING and routing_type != _MULTICAST
        return group.next_for(message, self.load_balancing, None, stays=stays, routing_type=routing_type)
