"""What a broker that scales down has for other members of its cluster: it moves to the target, which sends it on.

Responsible for the copies of messages in store-and-forward queues. Those for the target itself go to their queues there
at once. Those for a third broker carry the ids of their queues at that broker: the target puts them into its own
store-and-forward queue. Does not depend on the order of messages.
"""

from __future__ import annotations

from typing import Final

from embedbroker.kernel import Message, Queue
from embedclient.agent import CoreMessage
from embedclient.model import PropertyType, PropertyValue, TypedValue
from embedclient.wire.core import ROUTE_TO

from ._bridged_message import NodeForwarding
from ._remote_broker import Work

__all__ = ["STORE_AND_FORWARD", "Forwarded"]

STORE_AND_FORWARD: Final = "$.artemis.internal.sf."
"""Beginning of the names of store-and-forward queues; the cluster connection and the node id follow."""

_SCALE_DOWN_TO: Final = "_AMQ_SCALEDOWN_TO"
# Ids of queues are unique at one broker only. An Artemis does not read this, and may choose another member.
_SCALE_DOWN_NODE: Final = "_AMQ_SCALEDOWN_NODE"


class Forwarded:
    """Make the copies of messages of one store-and-forward queue.

    Args:
        queue: Name of the queue.
        node: The 16 bytes of this broker's node id.
        target_node_id: Node id of the target.
    """

    def __init__(self, queue: str, node: bytes, target_node_id: str | None) -> None:
        self._forwarding = NodeForwarding(queue, node, detects_duplicates=True)
        self._node_id = queue.rpartition(".")[2]
        self._is_for_target = self._node_id == target_node_id

    def prepare(self, queue: Queue) -> Work[None]:
        """Do nothing: the messages name their queues."""
        yield from ()

    def copy(self, message: Message, queues: list[Queue]) -> CoreMessage:
        """Return the copy of a message.

        Raises:
            NotForwarded: No queues of another broker were chosen for it, or its properties are malformed.
        """
        copy = self._forwarding.forwarded(message)
        if self._is_for_target:
            return copy
        chosen = copy.property(ROUTE_TO)
        assert isinstance(chosen, bytes), chosen
        changes: dict[str, PropertyValue | TypedValue] = {
            _SCALE_DOWN_TO: TypedValue(chosen, PropertyType.BYTES),
            _SCALE_DOWN_NODE: self._node_id,
        }
        return copy.copy_for(copy.address, changes=changes, removals=(ROUTE_TO,), expiration=copy.expiration)
