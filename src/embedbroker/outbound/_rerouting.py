"""What waits for a member that has scaled down: it goes to the broker that has the queues of that member now.

Responsible for the queues there, which have the same names, and for moving each message in one transaction. Does not
depend on how the member has left. Rules of cluster-and-ha 7.7, with two differences. Where this broker has the queues,
Artemis drops the messages. And a message may be for a queue behind the member, at a third broker, to which there may be
no other way: then it stays until the member returns, and only that queue waits for it.

The queue stays as long as a transaction may bring messages to it, which follow the others after the commit.

A message that was sent to the member and not confirmed may be at the new place already. So it keeps its id for
duplicate detection, and begins to move when the ids that the member had have arrived there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from attrs import define, field

from embedbroker.kernel import (
    BRIDGE_ID_PREFIX,
    Kernel,
    Leaving,
    Message,
    Outcome,
    Queue,
    Reference,
    Refused,
    RemoteBinding,
    Transaction,
)
from embedclient.agent import CoreMessage
from embedclient.errors import ErrorCode, RemoteProtocolError
from embedclient.model import PropertyValue, RoutingType
from embedclient.wire.core import route_property

from ._bridged_message import BRIDGE_DUPLICATE_ID, bridge_id
from ._member_bridge import MemberBridge

__all__ = ["Rerouting"]

_ANYCAST = int(RoutingType.ANYCAST)
# Share of a step's work that moving one message takes: it is copied, recorded and counted in a transaction.
_COST = 32
# How often what stays is tried again: there may be another way to its queues meanwhile.
_AGAIN_S = 1.0


@define
class _Places:
    """The queues that a message goes to: ids of queues at the target, of bindings here, and of those that stay."""

    there: list[int] = field(factory=list)
    here: set[int] = field(factory=set)
    left: list[int] = field(factory=list)

    @property
    def exist(self) -> bool:
        """Return True if it goes anywhere."""
        return bool(self.there or self.here)


class Rerouting:
    """Move what is in one store-and-forward queue, and delete the queue.

    Args:
        kernel: Kernel of this broker.
        node: The 16 bytes of this broker's node id.
        queue: The queue. Nothing is routed to it any more.
        bindings: Queues that the member had announced, by the ids that it had given to them.
        target: Bridge to the member that has its queues now; None if it is this broker.
        since: When it begins at the earliest, in monotonic seconds.
        until: When it is too late to wait for the queues there, in monotonic seconds.
        is_used: Whether a bridge has the queue again, because the member has returned.
    """

    def __init__(
        self,
        kernel: Kernel,
        node: bytes,
        queue: Queue,
        bindings: Mapping[int, RemoteBinding],
        target: MemberBridge | None,
        since: float,
        until: float,
        is_used: Callable[[Queue], bool],
    ) -> None:
        self.until = until
        self.queue = queue
        #: Nothing is left to move, and nothing can come.
        self.is_over = False
        self._is_moving = False
        self._kernel = kernel
        self._node = node
        self._bindings = bindings
        self._own = {each.queue_name for each in bindings.values() if each.distance == 1}
        self._is_used = is_used
        self._target = target
        self._since = since
        # True once one of the messages of this pass has left a part behind, at the end of the queue.
        self._has_split = False

    def is_due(self, now: float) -> bool:
        """Return True if it must begin: the queues are known, or it is too late to wait for them.

        Before that, messages that were routed to the queue must be durable, and thus in it. An empty queue waits for
        the transactions that sent to it.
        """
        queue = self.queue
        if self._is_moving or queue.waiting_visible or (queue.pledged and not queue.message_count):
            return False
        if now < self._since or self._is_used(queue):
            self.is_over = self._is_used(queue)
            return False
        if self._target is None or now >= self.until:
            return True
        return self._target.bindings.is_complete and self._own <= {
            binding.queue_name for binding in self._target.bindings.by_cluster_name.values() if binding.distance == 1
        }

    def begin(self) -> None:
        """Move the messages over the next steps."""
        self._is_moving = True
        self._kernel.deferred.add_holding((self.queue,), self._moves())

    def _moves(self) -> Iterator[None]:
        count = 0
        self._has_split = False
        for reference in self._kernel.teardown.take_waiting(self.queue, self._is_movable):
            if reference is not None:
                self._move(reference)
                count += 1
                yield from (None for _ in range(_COST))
            yield
        # When the queue is no longer held.
        self._kernel.deferred.add_action(lambda: self._end(count))

    def _end(self, count: int) -> None:
        queue = self.queue
        self._is_moving = False
        self._since = self._kernel.monotonic + _AGAIN_S
        self.is_over = queue.deleted or self._is_used(queue)
        is_empty = not (queue.message_count or queue.waiting_visible)
        if not self.is_over and not queue.pledged:
            if is_empty and not self._kernel.forwarding.leads_behind(queue):
                # Deleted only if nothing has come since, and nothing can come.
                self._kernel.teardown.delete_queue(queue)
                self.is_over = True
            elif self._kernel.monotonic >= self.until:
                self.is_over = True
                if not is_empty:
                    self._log_left()
        if count:
            self._kernel.inform(f"queue {queue.name!r}: {count} messages went to the broker that has their queues now")

    def _log_left(self) -> None:
        queue = self.queue
        self._kernel.log(
            f"queue {queue.name!r}: {queue.message_count} messages stay until the member that has scaled down returns, "
            "because this broker has no other way to their queues; move them to those queues if it does not return"
        )

    # -- one message ---------------------------------------------------------------------------------------------

    def _is_movable(self, reference: Reference) -> bool:
        """Return True if a message goes anywhere, or cannot be read, which is found out later.

        Behind a part that stays, others go to the end of the queue, too: the order is promised.
        """
        if self._has_split:
            return True
        try:
            core = reference.message.to_core()
            assert isinstance(core, CoreMessage), core
            return self._places(core, core.route_in(self.queue.name) or b"").exist
        except RemoteProtocolError:
            return True

    def _places(self, message: CoreMessage, route: bytes) -> _Places:
        """Return the places of the queues that a message was routed to."""
        places = _Places()
        for at in range(0, len(route), 8):
            number = int.from_bytes(route[at : at + 8], "big", signed=True)
            binding = self._bindings.get(number)
            there = self._id_there(binding) if binding is not None else None
            here = self._id_here(message, binding) if there is None else None
            if there is not None:
                places.there.append(there)
            elif here is not None:
                places.here.add(here)
            else:
                places.left.append(number)
        return places

    def _id_there(self, binding: RemoteBinding) -> int | None:
        """Return the id at the target of a queue that the member had, or that is behind it; None if it has none."""
        if self._target is None or self._target.queue.deleted:
            return None
        known = self._target.bindings.by_cluster_name
        if binding.distance > 1:
            found = known.get(binding.cluster_name)
        else:
            found = known.get(f"{binding.queue_name}{self._target.node_id}")
        return found.remote_queue_id if found is not None else None

    def _id_here(self, message: CoreMessage, binding: RemoteBinding | None) -> int | None:
        """Return the id of a binding that takes a message in place of one of the member; None without one."""
        addresses = self._kernel.address_manager
        if binding is None:
            # An anycast queue of the address is as good as another one.
            known = addresses.addresses.get(message.address)
            found = known.route(message, _ANYCAST) if known is not None and not known.multicast else []
            return found[0].id if found else None
        if self._target is None and binding.distance == 1:
            queue = addresses.queues.get(binding.queue_name)
            if queue is not None:
                return queue.id
        address = addresses.resolution.find(message.address)
        if address is None:
            return None
        # Another way to the queue, or a queue that shares messages with it.
        queues, remote = self._kernel.forwarding.chosen(message, address, frozenset((binding.announced_id,)))
        is_elsewhere = queues or any(each.store_and_forward is not self.queue for each in remote)
        return binding.announced_id if is_elsewhere else None

    def _move(self, reference: Reference) -> None:
        message, queue, kernel = reference.message, self.queue, self._kernel
        transaction = kernel.transactions.begin()
        try:
            refused = self._send(message, transaction)
        except RemoteProtocolError as error:
            refused = Refused(ErrorCode.INTERNAL_ERROR, f"it cannot be copied: {error}")
        if refused is not None:
            transaction.rollback()
            kernel.log(f"queue {queue.name!r}: message {message.message_id} is a dead letter: {refused.text}")
            kernel.dead_letters.move(queue, reference)
            return
        queue.delivering_count += 1
        transaction.take(queue, (reference,), Outcome.ACCEPTED)
        kernel.removal.leave(queue, (reference,), Leaving.ACKNOWLEDGED, transaction)
        transaction.commit()

    def _send(self, message: Message, transaction: Transaction) -> Refused | None:
        """Send a copy to the queues that the message was routed to; one for those that cannot be reached stays."""
        kernel, core = self._kernel, message.to_core()
        assert isinstance(core, CoreMessage), core
        route = core.route_in(self.queue.name)
        if not route:
            return Refused(ErrorCode.ILLEGAL_STATE, "it was not routed to a queue of another broker")
        known_id = core.property(BRIDGE_DUPLICATE_ID)
        duplicate_id = known_id if isinstance(known_id, bytes) else bridge_id(self._node, message)
        stated = core.property("_AMQ_ROUTING_TYPE")
        routing_type = stated if isinstance(stated, int) else None
        places = self._places(core, route)
        known = BRIDGE_ID_PREFIX + duplicate_id
        address = kernel.address_manager.addresses.get(core.address)
        if places.here and address is not None and kernel.duplicates.is_in_force(address, known):
            # The member had the whole message, and has moved it here. In a transaction that would be an error.
            return None
        # A part that follows later must not count as a repetition of the one that goes now.
        id_left = self._node + kernel.ids.take().to_bytes(8, "big") if places.exist else duplicate_id
        changes: dict[str, PropertyValue] = {}
        removals = [route_property(self.queue.name), BRIDGE_DUPLICATE_ID]
        copy = message.with_changes(core.address, routing_type, changes, removals)
        parts = ((self.queue, places.left, id_left), (self._queue_there, places.there, duplicate_id))
        for queue, ids, unique in parts:
            if ids:
                self._has_split |= queue is self.queue
                route = b"".join([each.to_bytes(8, "big", signed=True) for each in ids])
                routed = copy.with_property(BRIDGE_DUPLICATE_ID, unique).with_route(queue.name, route)
                routed.assign_id(kernel.ids.take())
                kernel.placement.place(routed, [queue], transaction)
        if not places.here:
            return None
        return kernel.router.send(copy, routing_type, transaction, known, None, frozenset(places.here))

    @property
    def _queue_there(self) -> Queue:
        return self._target.queue if self._target is not None else self.queue
