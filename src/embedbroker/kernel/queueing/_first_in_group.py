"""A consumer's port that marks the first message of each group.

Queues without ``group_first_key`` do not have it on the path of a message.
"""

from __future__ import annotations

from embedclient.errors import RemoteProtocolError

from ._groups import GroupDispatcher
from ._queue import Consumer, ConsumerPort
from ._reference import Reference

__all__ = ["FirstInGroup"]


class FirstInGroup:
    """Add a property to the first message that the consumer gets of a group (broker-semantics 3.6).

    For a consumer of an exclusive queue it is the first message of all. The message itself does not change: the
    property is in the copy that is sent.
    """

    __slots__ = ("_began", "_key", "_port")

    def __init__(self, port: ConsumerPort, key: str) -> None:
        self._port = port
        self._key = key
        self._began = False

    def deliver(self, consumer: Consumer, reference: Reference) -> int:
        return self._port.deliver(consumer, self._marked(consumer, reference))

    def deliver_behind(self, point: int, consumer: Consumer, reference: Reference) -> int:
        return self._port.deliver_behind(point, consumer, self._marked(consumer, reference))

    def deliver_marker(self, consumer: Consumer, sequence: int) -> None:
        self._port.deliver_marker(consumer, sequence)

    def closed_by_broker(self, consumer: Consumer) -> None:
        self._port.closed_by_broker(consumer)

    def _marked(self, consumer: Consumer, reference: Reference) -> Reference:
        queue = consumer.queue
        if queue.definition.exclusive:
            is_first = not self._began
            self._began = True
        else:
            dispatcher = queue.dispatcher
            is_first = isinstance(dispatcher, GroupDispatcher) and dispatcher.first is reference
        if not is_first:
            return reference
        try:
            message = reference.message.with_property(self._key, True)
        except RemoteProtocolError:
            return reference
        return Reference(message, reference.position, reference.delivery_count)
