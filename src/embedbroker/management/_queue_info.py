"""The operation ``sendQueueInfoToQueue``: a snapshot of queues and consumers for another broker of the cluster.

Responsible for the messages of the snapshot, in the form and order of Artemis (cluster-and-ha 7.4). Their place among
the notifications is exact: behind those of earlier events, and ahead of those of later ones. Does not depend on the
broker that requests it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from attrs import frozen

from embedbroker.kernel import Kernel, Queue, QueueDefinition, RemoteBinding, Selector, is_decided_by, may_match
from embedclient.model import Properties, PropertyType

from ._notifications import binding_properties, is_published, remote_binding_properties, set_text
from ._registry import BrokerView, Call, Kind, ManagementRefused, Operation, Parameter, QueueEvent
from ._texts import no_queue

__all__ = ["QUEUE_INFO_OPERATIONS", "SNAPSHOTS_MAX"]

SNAPSHOTS_MAX = 32
"""Maximum number of snapshots under way at once: later commits and answers wait behind them."""

_BINDING, _CONSUMER = "BINDING_ADDED", "CONSUMER_CREATED"
# What the filter of another broker reads of the messages. They have no binding type.
_KIND, _ADDRESS, _DISTANCE, _BINDING_TYPE = "_AMQ_NotifType", "_AMQ_Address", "_AMQ_Distance", "_AMQ_Binding_Type"
_DECISIVE = frozenset({_KIND, _ADDRESS, _DISTANCE, _BINDING_TYPE})
_RESET, _COMPLETE = "_AMQ_RESET_QUEUE_DATA", "_AMQ_RESET_QUEUE_DATA_COMPLETE"
# More than a message with names of usual length takes, or its event before it is sent.
_MESSAGE_BYTES = 1024
# Share of a step's work that one message takes: it is composed, filtered and delivered.
_COST = 32


@frozen(eq=False)
class _Snapshot:
    """Send the snapshot to one queue, with the name of the request as its address."""

    broker: BrokerView
    queue: Queue
    name: str
    #: The filter of the queue, if it refuses none of the messages that it gets.
    decided: Selector | None

    def send(self) -> None:
        """Send the state of this moment, at once or over the next steps.

        Raises:
            ManagementRefused: There is no room for the messages, or too many snapshots are under way.
        """
        kernel, under_way = self.broker.kernel, self.broker.queue_snapshots
        _drop_deleted(under_way)
        if self.queue in under_way:
            raise ManagementRefused(f"a snapshot for queue {self.name!r:.200} is under way: try again later")
        if len(under_way) >= SNAPSHOTS_MAX:
            raise ManagementRefused(f"{SNAPSHOTS_MAX} snapshots of queues are under way: try again later")
        # Consumers add to it: a full broker is spared the list.
        self._check_room(2 + len(kernel.address_manager.queues) + len(kernel.address_manager.resolution.remote))
        events = _events(kernel, self.queue.filter)
        self._check_room(len(events))
        under_way[self.queue] = events
        kernel.observers.call_each(self._put, self._taken(events), len(events), _COST)

    def _check_room(self, count: int) -> None:
        """Refuse a snapshot for which the memory has no room beside what the others are yet to send."""
        ahead = sum(map(len, self.broker.queue_snapshots.values()))
        if not self.broker.kernel.memory.has_room((ahead + count) * _MESSAGE_BYTES):
            raise ManagementRefused(f"the broker is full: there is no room for {count} messages; try again later")

    def _taken(self, events: deque[QueueEvent]) -> Iterator[QueueEvent]:
        """Yield each event once; a deleted queue gets no more, and its snapshot takes no more of the steps."""
        while events and not self.queue.deleted:
            event = events.popleft()
            if not events:
                self.broker.queue_snapshots.pop(self.queue, None)
            yield event
        self.broker.queue_snapshots.pop(self.queue, None)

    def _put(
        self, kind: str, announced: QueueDefinition | tuple[RemoteBinding, int] | None, filter: str | None
    ) -> None:
        properties = Properties()
        timestamp_ms = 0
        if announced is None:
            properties.set(kind, True, PropertyType.BOOLEAN)
        else:
            timestamp_ms = self.broker.kernel.now_ms
            if isinstance(announced, QueueDefinition):
                properties, binding_id = binding_properties(announced, self.broker.node_id), announced.id
            else:
                properties, binding_id = remote_binding_properties(announced[0]), announced[1]
            properties.set("_AMQ_NotifType", kind, PropertyType.STRING)
            properties.set("_AMQ_NotifTimestamp", timestamp_ms, PropertyType.LONG)
            if kind == _BINDING:
                properties.set("_AMQ_Binding_ID", binding_id, PropertyType.LONG)
                set_text(properties, "_AMQ_FilterString", filter)
            elif filter is not None:
                properties.set("_AMQ_FilterString", filter, PropertyType.STRING)
        message = self.broker.compose_notification(self.name, properties, timestamp_ms, is_durable=False)
        wanted = self.queue.filter
        # The filter of the queue selects addresses; it has no condition that the markers would meet.
        if announced is None or wanted is None or wanted is self.decided or wanted.matches(message):
            self.broker.kernel.router.send_to_queue(message, self.queue)


def _events(kernel: Kernel, wanted: Selector | None) -> deque[QueueEvent]:
    """Return the messages to send. Consumers without a filter precede those with one, as in Artemis.

    Args:
        kernel: The kernel of the broker.
        wanted: The filter of the queue that gets them. What it refuses at any rate is left out.
    """
    events: deque[QueueEvent] = deque([(_RESET, None, None)])
    text = wanted.text if wanted is not None else None

    def takes(kind: str, address: str, distance: int) -> bool:
        known = (_KIND, kind), (_ADDRESS, address), (_DISTANCE, distance), (_BINDING_TYPE, None)
        return text is None or may_match(text, *known)

    for queue in kernel.address_manager.queues.values():
        definition = queue.definition
        # In a cluster, half of the queues are those through which brokers talk with each other.
        if takes(_BINDING, definition.address, 0):
            events.append((_BINDING, definition, definition.filter))
        if queue.consumers and takes(_CONSUMER, definition.address, 0):
            filters = [consumer.filter_text for consumer in queue.consumers if is_published(consumer)]
            filters.sort(key=lambda text: text is not None)
            events.extend((_CONSUMER, definition, filter) for filter in filters)
    for binding in kernel.address_manager.resolution.remote:
        remote = (binding, binding.announced_id)
        if takes(_BINDING, binding.address, binding.distance):
            events.append((_BINDING, remote, binding.filter.text if binding.filter is not None else None))
        if binding.consumer_count and takes(_CONSUMER, binding.address, binding.distance):
            filtered = [each for each, count in binding.consumer_filters.items() for _ in range(count)]
            for filter in (*[None] * (binding.consumer_count - len(filtered)), *filtered):
                events.append((_CONSUMER, remote, filter))
    events.append((_COMPLETE, None, None))
    return events


def _drop_deleted(under_way: dict[Queue, deque[QueueEvent]]) -> None:
    """Forget the snapshots of deleted queues, which a bridge leaves that connects again."""
    for queue in [queue for queue in under_way if queue.deleted]:
        under_way.pop(queue).clear()


def _send(call: Call, queue_name: str | None, _address: str | None) -> None:
    """Send the snapshot. The addresses of the cluster connection stand in the filter of the queue, as in Artemis."""
    queue = call.kernel.address_manager.find_queue(queue_name) if queue_name is not None else None
    if queue is None or queue_name is None:
        raise no_queue(queue_name if queue_name is not None else "null")
    wanted = queue.filter
    is_decided = wanted is not None and is_decided_by(wanted.text, _DECISIVE)
    _Snapshot(call.broker, queue, queue_name, wanted if is_decided else None).send()


QUEUE_INFO_OPERATIONS = (
    Operation(
        "sendQueueInfoToQueue",
        (Parameter("queueName", Kind.TEXT), Parameter("address", Kind.TEXT)),
        "void",
        _send,
        "Send all queues and consumers to a queue, as another broker of the cluster requests it.",
    ),
)
