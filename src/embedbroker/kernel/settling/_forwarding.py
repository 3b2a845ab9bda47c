"""Forwarding: a message goes to queues of other brokers by a copy in the store-and-forward queue of each broker.

Responsible for the copies, which name their remote queues, and for the one choice among all bindings of an address.
Does not depend on the bridges that empty those queues, nor on records and transactions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias

from embedclient.errors import ErrorCode, RemoteProtocolError
from embedclient.model import RoutingType

from .._ids import Ids
from .._refusal import Refused
from ..addressing._address import Address
from ..addressing._addresses import AddressManager, split_fqqn
from ..addressing._bindings import Chosen
from ..addressing._remote_binding import RemoteBinding, announced_group, group_of
from ..addressing._rotation import Shared
from ..message._message import Message
from ..queueing._backlog import PackedReference, Restore
from ..queueing._queue import Queue

__all__ = ["Copy", "Forwarding", "RouteCopier", "RouteCopiers", "copiers_by"]

Copy = tuple[Message, Queue]
"""A copy with its id, and the store-and-forward queue that takes it."""

RouteCopier: TypeAlias = Callable[[int, bytes | bytearray, int], Message | None]
"""Build the copy of `Message.with_route`, under an id, from an encoding tag and stored bytes.

None for a message with the id of a group, or with a large body. Raise RemoteProtocolError.
"""

RouteCopiers: TypeAlias = Callable[[str, bytes], RouteCopier]
"""Return the copier for one store-and-forward queue and the ids of queues behind it."""

_ANYCAST = int(RoutingType.ANYCAST)
_NONE: Sequence[RemoteBinding] = ()
_LEFT_MAX: Final = 10_000
_REMOVED_MAX: Final = 10_000
_NEAREST_MAX: Final = 100_000


class Forwarding:
    """Choose queues and remote bindings for messages, and make the copies for other brokers."""

    __slots__ = ("_addresses", "_copier", "_ids", "_left", "_nearest", "_removed", "_route_copiers")

    def __init__(self, addresses: AddressManager, ids: Ids, route_copiers: RouteCopiers) -> None:
        self._addresses = addresses
        self._ids = ids
        self._route_copiers = route_copiers
        # The last one, with its binding and the route of that.
        self._copier: tuple[RemoteBinding, bytes, RouteCopier] | None = None
        # By announced id: the bindings of members that have stopped, and for which messages may be on their way.
        self._left: dict[int, RemoteBinding] = {}
        # By announced id: the smallest distance at which a queue was ever bound in this life of the broker.
        self._nearest: dict[int, int] = {}
        # By id: the names of multicast queues of this broker that are deleted. Others may not know that yet.
        self._removed: dict[int, str] = {}

    def on_left(self, bindings: Iterable[RemoteBinding]) -> None:
        """Keep bindings that are gone because a broker has stopped, for messages that others have sent before.

        They go to the store-and-forward queue, as those of this broker did. Only the shortest way counts that ever led
        to a queue: it becomes shorter with each broker. A longer one may lead back, and messages would circulate.
        """
        for each in bindings:
            if each.distance == self._nearest.get(each.announced_id):
                self._left[each.announced_id] = each
        while len(self._left) > _LEFT_MAX:
            del self._left[next(iter(self._left))]

    def on_binding(self, binding: RemoteBinding, binding_id: int) -> None:
        """Note how near a queue is; what was there before is over. Observes `CommitObserver.remote_binding_added`."""
        nearest = self._nearest.pop(binding_id, binding.distance)
        self._nearest[binding_id] = min(nearest, binding.distance)
        if binding.distance <= nearest:
            self._left.pop(binding_id, None)
        while len(self._nearest) > _NEAREST_MAX:
            del self._nearest[next(iter(self._nearest))]

    def on_queue_removed(self, queue: Queue) -> None:
        """Keep the name of a deleted queue. Observes `DecisionObserver.queue_removed`."""
        if queue.definition.routing_type == RoutingType.MULTICAST:
            self._removed[queue.id] = queue.name
            if len(self._removed) > _REMOVED_MAX:
                del self._removed[next(iter(self._removed))]

    def leads_behind(self, store_and_forward: Queue) -> bool:
        """Return True if messages on their way may be for queues behind the broker of a store-and-forward queue.

        That broker has stopped, and those queues have not: what comes for them waits until it returns.
        """
        return any(each.store_and_forward is store_and_forward and each.distance > 1 for each in self._left.values())

    def choose(self, message: Message, address: Address, routing_type: int | None) -> Chosen:
        """Return the queues that take a message, those of wildcard addresses too, and the remote bindings.

        Args:
            message: Message with its id, sent to the address or to one queue of it.
            address: The address, resolved.
            routing_type: Routing type of the send; None if the sender named none.
        """
        others = address.others
        rotation = others.rotation if others is not None else None
        if rotation is None:
            return self.local(message, address, routing_type), _NONE
        if "::" not in message.address:
            return address.choose(message, routing_type)
        name = split_fqqn(message.address)[1]
        queues, remote = address.choose(message, routing_type, name)
        queue = self._addresses.queues.get(name) if name is not None else None
        if queue is not None and queue not in rotation.members:
            queues += self._addresses.qualified_queues(message, routing_type)
        return queues, remote

    def chosen(self, message: Message, address: Address, ids: frozenset[int], sender: bytes | None = None) -> Chosen:
        """Return the bindings with these ids, which another broker has chosen for a message.

        A chosen queue may be one broker further, and no longer known here: that broker has stopped, or this one has
        just started. Then another queue that shares messages with it takes the message, one of this broker if possible.
        Without one, the message waits for the broker that has stopped, unless that is the ``sender``: this broker had
        the way from there, and the two would send the message to each other again and again.

        A chosen queue of this broker may have been deleted and created again, which the other broker did not know yet.
        The new one takes the message if one of another broker shares messages with it: then the subscription has never
        ended. Otherwise it has, and what was sent to it before is dropped.

        Args:
            message: The message.
            address: Its address.
            ids: Ids of bindings.
            sender: Node id of the other broker; None if it is unknown.
        """
        queues, remote = address.chosen(ids)
        if len(queues) + len(remote) == len(ids):
            return queues, remote
        found = {queue.id for queue in queues} | {binding.announced_id for binding in remote}
        groups = {group_of(each) for each in ids - found} - {None}
        if groups:
            remote = list(remote)
            for name, binding in address.by_routing_name():
                group = announced_group(name)
                if group not in groups or not (binding.filter is None or binding.filter.matches(message)):
                    continue
                groups.remove(group)
                if isinstance(binding, RemoteBinding):
                    remote.append(binding)
                else:
                    queues.append(binding)
            left = [self._left[each] for each in ids - found if group_of(each) in groups and each in self._left]
            remote += [each for each in left if not (each.store_and_forward.deleted or each.leads_over(sender))]
        for each in (ids - found) & self._removed.keys():
            queue = self._created_again(self._removed[each], address)
            if queue is not None and queue not in queues and (queue.filter is None or queue.filter.matches(message)):
                queues.append(queue)
        return queues, remote

    def _created_again(self, name: str, address: Address) -> Queue | None:
        """Return the queue of an address that has a name and shares its messages with another broker; None for none."""
        rotation = address.others.rotation if address.others is not None else None
        group = rotation.groups.get(name) if rotation is not None else None
        return group.home if group is not None else None

    def bound(self, message: Message, address: Address, routing_type: int | None, chosen: Chosen | None) -> Chosen:
        """Return the bindings that take a message: those that another broker has ``chosen``, if they are left.

        If all of them are gone, it goes to an anycast queue of this broker, since it must not be lost. Multicast queues
        here were not chosen, or shared the message with one that has it: they would have it twice. See `choose` for
        the rest.
        """
        if chosen is None:
            return self.choose(message, address, routing_type)
        if any(chosen) or routing_type == RoutingType.MULTICAST:
            return chosen
        is_multicast = routing_type is None and (address.definition.multicast or bool(address.multicast))
        return chosen if is_multicast else (self.local(message, address, _ANYCAST), _NONE)

    def local(self, message: Message, address: Address, routing_type: int | None) -> list[Queue]:
        """Return the queues of this broker that take a message, as if there were no others; see `choose`."""
        if "::" in message.address:
            return self._addresses.qualified_queues(message, routing_type)
        return address.route_all(message, routing_type)

    def copies_for(self, message: Message, binding: Shared) -> list[Copy] | Refused:
        """Return the copy with which a message moves to one binding, or why it cannot be copied."""
        if isinstance(binding, RemoteBinding):
            return self.copies(message, (binding,))
        try:
            copy = message.copy_to(message.address, None, message.expiration)
        except RemoteProtocolError as error:
            return Refused(ErrorCode.INTERNAL_ERROR, f"it cannot be copied: {error}")
        copy.assign_id(self._ids.take())
        return [(copy, binding)]

    def copies(self, message: Message, remote: Sequence[RemoteBinding]) -> list[Copy] | Refused:
        """Return one copy for each broker that has a queue for a message, or why it cannot be copied."""
        if len(remote) == 1:
            copy = self.copy(message, remote[0])
            return copy if isinstance(copy, Refused) else [(copy, remote[0].store_and_forward)]
        routes: dict[Queue, bytes] = {}
        for binding in remote:
            queue = binding.store_and_forward
            # The last one first, as Artemis writes them.
            routes[queue] = binding.route + routes.get(queue, b"")
        copies: list[Copy] = []
        try:
            for queue, route in routes.items():
                copy = message.with_route(queue.name, route)
                copy.assign_id(self._ids.take())
                copies.append((copy, queue))
        except RemoteProtocolError as error:
            return _not_copied(error)
        return copies

    def copies_of_run(self, messages: Sequence[Message], binding: RemoteBinding) -> list[Message] | None:
        """Return the copies of messages for the broker of one binding; None if one of them cannot be copied."""
        name, route = binding.store_and_forward.name, binding.route
        try:
            copies = [message.with_route(name, route) for message in messages]
        except RemoteProtocolError:
            return None
        for message_id, copy in enumerate(copies, self._ids.take(len(copies))):
            copy.assign_id(message_id)
        return copies

    def copies_of_packed(self, entries: Sequence[PackedReference], binding: RemoteBinding) -> list[Message]:
        """Return the copies of waiting messages, up to one with a group or a large body, or that cannot be copied."""
        if self._copier is None or self._copier[0] is not binding or self._copier[1] != binding.route:
            copy_for = self._route_copiers(binding.store_and_forward.name, binding.route)
            self._copier = binding, binding.route, copy_for
        copy = self._copier[2]
        copies: list[Message] = []
        first_id = self._ids.take(len(entries))
        try:
            for message_id, entry in enumerate(entries, first_id):
                found = copy(entry[3], entry[4], message_id)
                if found is None:
                    break
                copies.append(found)
        except RemoteProtocolError:
            # It is left to those that look at each message.
            pass
        return copies

    def copy(self, message: Message, binding: RemoteBinding) -> Message | Refused:
        """Return the copy for the broker of one binding, or why it cannot be copied."""
        try:
            copy = message.with_route(binding.store_and_forward.name, binding.route)
        except RemoteProtocolError as error:
            return _not_copied(error)
        copy.assign_id(self._ids.take())
        return copy


def copiers_by(restore: Restore) -> RouteCopiers:
    """Return copiers that restore each message. Those of an encoding may do without that."""

    def copier(queue_name: str, queue_ids: bytes) -> RouteCopier:
        def copy(encoding: int, stored: bytes | bytearray, message_id: int) -> Message | None:
            message = restore(encoding, stored)
            if message.body_number or message.group_id is not None:
                return None
            copied = message.with_route(queue_name, queue_ids)
            copied.assign_id(message_id)
            return copied

        return copy

    return copier


def _not_copied(error: RemoteProtocolError) -> Refused:
    return Refused(ErrorCode.INTERNAL_ERROR, f"a message for another broker cannot be copied: {error}")
