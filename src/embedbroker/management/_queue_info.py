"""The operation ``sendQueueInfoToQueue``: a snapshot of queues and consumers for another broker of the cluster.

Responsible for the messages of the snapshot, in the form and order of Artemis (cluster-and-ha 7.4). Their place among
the notifications is exact: behind those of earlier events, and ahead of those of later ones. Does not depend on the
broker that requests it.
"""

from __future__ import annotations

from collections.abc import Iterator

from attrs import frozen

from embedbroker.kernel import Kernel, Queue, QueueDefinition
from embedclient.model import Properties, PropertyType

from ._notifications import binding_properties, is_published, set_text
from ._registry import BrokerView, Call, Kind, ManagementRefused, Operation, Parameter
from ._texts import no_queue

__all__ = ["QUEUE_INFO_OPERATIONS"]

_RESET, _COMPLETE = "_AMQ_RESET_QUEUE_DATA", "_AMQ_RESET_QUEUE_DATA_COMPLETE"
# More than a message with names of usual length takes.
_MESSAGE_BYTES = 1024
# Share of a step's work that one message takes: it is composed, filtered and delivered.
_COST = 32


@frozen
class _Announced:
    """Hold one queue at the moment of the request, with the filter of each of its consumers."""

    definition: QueueDefinition
    filters: list[str | None]


@frozen(eq=False)
class _Snapshot:
    """Send the snapshot to one queue, with the name of the request as its address."""

    broker: BrokerView
    queue: Queue
    name: str

    def send(self) -> None:
        """Send the state of this moment, at once or over the next steps.

        Raises:
            ManagementRefused: There is no room for the messages.
        """
        kernel = self.broker.kernel
        announced = _announced(kernel)
        count = 2 + sum(1 + len(each.filters) for each in announced)
        if not kernel.memory.has_room(count * _MESSAGE_BYTES):
            raise ManagementRefused(f"the broker is full: there is no room for {count} messages; try again later")
        kernel.observers.call_each(self._put, _events(announced), count, _COST)

    def _put(self, kind: str, definition: QueueDefinition | None, filter: str | None) -> None:
        if self.queue.deleted:
            return
        properties = Properties()
        timestamp_ms = 0
        if definition is None:
            properties.set(kind, True, PropertyType.BOOLEAN)
        else:
            timestamp_ms = self.broker.kernel.now_ms
            properties = binding_properties(definition, self.broker.node_id)
            properties.set("_AMQ_NotifType", kind, PropertyType.STRING)
            properties.set("_AMQ_NotifTimestamp", timestamp_ms, PropertyType.LONG)
            if kind == "BINDING_ADDED":
                properties.set("_AMQ_Binding_ID", definition.id, PropertyType.LONG)
                set_text(properties, "_AMQ_FilterString", filter)
            elif filter is not None:
                properties.set("_AMQ_FilterString", filter, PropertyType.STRING)
        message = self.broker.compose_notification(self.name, properties, timestamp_ms, is_durable=False)
        wanted = self.queue.filter
        # The filter of the queue selects addresses; it has no condition that the markers would meet.
        if definition is None or wanted is None or wanted.matches(message):
            self.broker.kernel.router.send_to_queue(message, self.queue)


def _announced(kernel: Kernel) -> list[_Announced]:
    """Return the queues of the broker. Consumers without a filter precede those with one, as in Artemis."""
    found = []
    for queue in kernel.address_manager.queues.values():
        filters: list[str | None] = []
        if queue.consumers:
            filters.extend(consumer.filter_text for consumer in queue.consumers if is_published(consumer))
            filters.sort(key=lambda text: text is not None)
        found.append(_Announced(queue.definition, filters))
    return found


def _events(announced: list[_Announced]) -> Iterator[tuple[object, ...]]:
    yield _RESET, None, None
    for each in announced:
        yield "BINDING_ADDED", each.definition, each.definition.filter
        for filter in each.filters:
            yield "CONSUMER_CREATED", each.definition, filter
    yield _COMPLETE, None, None


def _send(call: Call, queue_name: str | None, _address: str | None) -> None:
    """Send the snapshot. The addresses of the cluster connection stand in the filter of the queue, as in Artemis."""
    queue = call.kernel.address_manager.find_queue(queue_name) if queue_name is not None else None
    if queue is None or queue_name is None:
        raise no_queue(queue_name if queue_name is not None else "null")
    _Snapshot(call.broker, queue, queue_name).send()


QUEUE_INFO_OPERATIONS = (
    Operation(
        "sendQueueInfoToQueue",
        (Parameter("queueName", Kind.TEXT), Parameter("address", Kind.TEXT)),
        "void",
        _send,
        "Send all queues and consumers to a queue, as another broker of the cluster requests it.",
    ),
)
