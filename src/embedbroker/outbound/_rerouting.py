"""What waits for a member that has scaled down: it goes to the broker that has the queues of that member now.

Responsible for the queues there, which have the same names, and for moving each message in one transaction. Does not
depend on how the member has left. Rules of cluster-and-ha 7.7, with one difference: where this broker has the queues,
Artemis drops the messages.

The queue stays as long as a transaction may bring messages to it, which follow the others after the commit.

A message that was sent to the member and not confirmed may be at the new place already. So it keeps its id for
duplicate detection, and the ids that the member had have moved there before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from embedbroker.kernel import (
    BRIDGE_ID_PREFIX,
    Kernel,
    Leaving,
    Message,
    Outcome,
    Queue,
    Reference,
    Refused,
    Transaction,
)
from embedclient.agent import CoreMessage
from embedclient.errors import ErrorCode, RemoteProtocolError
from embedclient.model import PropertyValue
from embedclient.wire.core import route_property

from ._bridged_message import BRIDGE_DUPLICATE_ID, bridge_id
from ._member_bridge import MemberBridge

__all__ = ["Rerouting"]

# Share of a step's work that moving one message takes: it is copied, recorded and counted in a transaction.
_COST = 32


class Rerouting:
    """Move what is in one store-and-forward queue, and delete the queue.

    Args:
        kernel: Kernel of this broker.
        node: The 16 bytes of this broker's node id.
        queue: The queue. Nothing is routed to it any more.
        names: Names of the member's queues, by the ids that it had given to them.
        target: Bridge to the member that has these queues now; None if it is this broker.
        until: When it is too late to wait for the queues there, in monotonic seconds.
        is_used: Whether a bridge has the queue again, because the member has returned.
    """

    def __init__(
        self,
        kernel: Kernel,
        node: bytes,
        queue: Queue,
        names: Mapping[int, str],
        target: MemberBridge | None,
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
        self._names = names
        self._is_used = is_used
        self._target = target

    def is_due(self, now: float) -> bool:
        """Return True if it must begin: the queues are known, or it is too late to wait for them.

        Before that, messages that were routed to the queue must be durable, and thus in it. An empty queue waits for
        the transactions that sent to it.
        """
        queue = self.queue
        if self._is_moving or queue.waiting_visible or (queue.pledged and not queue.message_count):
            return False
        if self._target is None or now >= self.until:
            return True
        return self._target.bindings.is_complete and set(self._names.values()) <= self._ids_there().keys()

    def begin(self) -> None:
        """Move the messages over the next steps."""
        self._is_moving = True
        self._kernel.deferred.add_holding((self.queue,), self._moves())

    def _ids_there(self) -> dict[str, int]:
        """Return the ids of the target's own queues by their names."""
        if self._target is None or self._target.queue.deleted:
            return {}
        bindings = self._target.bindings.by_cluster_name.values()
        return {binding.queue_name: binding.remote_queue_id for binding in bindings if binding.distance == 1}

    def _moves(self) -> Iterator[None]:
        count = 0
        for reference in self._kernel.teardown.take_waiting(self.queue):
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
        self.is_over = queue.deleted or self._is_used(queue)
        # Deleted only if nothing has come since, and nothing can come.
        if not self.is_over and not (queue.message_count or queue.waiting_visible or queue.pledged):
            self._kernel.teardown.delete_queue(queue)
            self.is_over = True
        if count:
            self._kernel.inform(f"queue {queue.name!r}: {count} messages went to the broker that has their queues now")

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
        """Send a copy to the queues that the message was routed to, or anew if they do not exist any more."""
        core = message.to_core()
        assert isinstance(core, CoreMessage), core
        route, known_id = core.route_in(self.queue.name) or b"", core.property(BRIDGE_DUPLICATE_ID)
        duplicate_id = known_id if isinstance(known_id, bytes) else bridge_id(self._node, message)
        stated = core.property("_AMQ_ROUTING_TYPE")
        routing_type = stated if isinstance(stated, int) else None
        numbers = [int.from_bytes(route[at : at + 8], "big", signed=True) for at in range(0, len(route), 8)]
        names = [self._names[number] for number in numbers if number in self._names]
        changes: dict[str, PropertyValue] = {}
        removals = [route_property(self.queue.name), BRIDGE_DUPLICATE_ID]
        copy = message.with_changes(core.address, routing_type, changes, removals)
        kernel = self._kernel
        if self._target is None:
            queues = kernel.address_manager.queues
            chosen = frozenset(queues[name].id for name in names if name in queues)
            return kernel.router.send(copy, routing_type, transaction, BRIDGE_ID_PREFIX + duplicate_id, None, chosen)
        there = self._ids_there()
        ids = b"".join(there[name].to_bytes(8, "big", signed=True) for name in names if name in there)
        if not ids:
            return kernel.router.send(copy, routing_type, transaction)
        queue = self._target.queue
        routed = copy.with_property(BRIDGE_DUPLICATE_ID, duplicate_id).with_route(queue.name, ids)
        routed.assign_id(kernel.ids.take())
        kernel.placement.place(routed, [queue], transaction)
        return None
