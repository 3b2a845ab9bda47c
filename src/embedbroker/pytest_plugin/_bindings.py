"""The bindings of a queue on a node of a cluster: the local one, and those of other nodes.

Responsible for one value per queue. Does not depend on how a broker is informed of the queues of others.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from embedbroker.kernel import Kernel

__all__ = ["BindingState", "bindings_in"]


@frozen
class BindingState:
    """A queue of a cluster, as one node has it among its bindings.

    Attributes:
        node: Name of the broker that has the queue; its node id, if it is no broker of this test.
        distance: Number of brokers on the way to it; 0 for the own queue.
        consumers: Number of its consumers.
        filter: Filter of the queue; None for all messages.
    """

    node: str
    distance: int
    consumers: int
    filter: str | None = None


def bindings_in(kernel: Kernel, queue: str, own: str, names: Mapping[str, str]) -> list[BindingState]:
    """Return a broker's bindings of a queue: the local one first, then in order of distance and name.

    Args:
        kernel: the broker's kernel.
        queue: the queue's name.
        own: the broker's name.
        names: the names of brokers, by their node ids.
    """
    found = []
    local = kernel.address_manager.queues.get(queue)
    if local is not None:
        found.append(BindingState(own, 0, local.consumer_count, local.definition.filter or None))
    for binding in kernel.address_manager.resolution.remote:
        if binding.queue_name == queue and binding.is_connected:
            node_id = binding.cluster_name.removeprefix(queue)
            filter = binding.filter.text if binding.filter is not None else None
            found.append(BindingState(names.get(node_id, node_id), binding.distance, binding.consumer_count, filter))
    return sorted(found, key=lambda each: (each.distance, each.node))
