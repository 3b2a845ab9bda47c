"""Queues of other brokers, bound at a stage: each broker has one store-and-forward queue here."""

from __future__ import annotations

from embedbroker.config import MessageLoadBalancing
from embedbroker.kernel import Queue, RemoteBinding, Selector
from embedclient.wire.core import CoreMessage

from .letters import text_of
from .stage import MULTICAST, Stage

__all__ = ["B", "C", "bind", "queue_ids", "sf", "sf_name"]

#: Node ids.
B, C = (f"{letter * 8}-0000-0000-0000-000000000000" for letter in "bc")


def sf_name(node: str) -> str:
    return f"$.artemis.internal.sf.cluster.{node}"


def sf(stage: Stage, node: str = B) -> Queue:
    """The store-and-forward queue for a broker, made at the first use."""
    name = sf_name(node)
    return stage.kernel.address_manager.queues.get(name) or stage.queue(name, routing_type=MULTICAST, internal=True)


def bind(
    stage: Stage,
    queue: str = "orders",
    node: str = B,
    *,
    address: str | None = None,
    routing_name: str | None = None,
    remote_queue_id: int = 7,
    load_balancing: MessageLoadBalancing = MessageLoadBalancing.ON_DEMAND,
    filter: str | None = None,
    consumers: tuple[str | None, ...] = (),
) -> RemoteBinding:
    """Bind a queue of a broker, with consumers that have these filters."""

    def selector(text: str | None) -> Selector | None:
        return stage.kernel.selectors.find(text)

    where = queue if address is None else address
    binding = RemoteBinding(
        where, queue + node, routing_name or where, remote_queue_id, 1, sf(stage, node), load_balancing,
        selector(filter),
    )  # fmt: skip
    for each in consumers:
        binding.add_consumer(selector(each))
    stage.kernel.address_manager.add_remote_binding(binding)
    return binding


def queue_ids(stage: Stage, node: str = B) -> list[tuple[str, list[int]]]:
    """The messages for a broker, each with the remote queues that it is for."""
    found: list[tuple[str, list[int]]] = []
    for reference in sf(stage, node).backlog:
        message = reference.message.to_core()
        assert isinstance(message, CoreMessage)
        ids = message.route_in(sf_name(node))
        assert ids is not None, message.properties
        found.append((text_of(message), [int.from_bytes(ids[at : at + 8], "big") for at in range(0, len(ids), 8)]))
    return found
