"""Messages that cannot be parsed, sent on to a dead letter address by the task that found them.

Responsible for each of them arriving once, however often a task is run: a copy has a duplicate id made of its place.
Also responsible for a queue in which it arrives: a broker confirms messages without a route, and the original leaves.
Does not remove the original from its queue; it leaves with its range.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Self

from embedclient.blocking import ClientSession
from embedclient.errors import DuplicateIDException, JMSException, RemoteProtocolError
from embedclient.model import Properties, PropertyType, PropertyValue, RoutingType, TypedValue
from embedclient.wire.core import ROUTING_TYPE_KEY, CoreMessage

from ._broker_connection import BrokerConnection
from ._frames import Block
from ._options import SourceOptions
from ._rows import Poison
from ._sink_broker import Destinations
from ._sink_values import Target

__all__ = ["DeadLetters"]

# Properties that brokers write into dead letters (Message.HDR_ORIGINAL_ADDRESS and its siblings in Artemis).
_ORIGINAL_ADDRESS = "_AMQ_ORIG_ADDRESS"
_ORIGINAL_QUEUE = "_AMQ_ORIG_QUEUE"
_ORIGINAL_MESSAGE_ID = "_AMQ_ORIG_MESSAGE_ID"
_ORIGINAL_ROUTING_TYPE = "_AMQ_ORIG_ROUTING_TYPE"
_ROUTING_TYPE = "_AMQ_ROUTING_TYPE"
_DUPLICATE_ID = "_AMQ_DUPL_ID"
_REASON = "embedbroker_reason"
# The original property bytes, where they are malformed and no message can have them.
_PROPERTIES = "embedbroker_properties"
_REASON_CHARACTERS_MAX = 1_000


class DeadLetters:
    """Send dead letters over a separate session, which is opened for the first one. Use it as a context."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._session: ClientSession | None = None

    def send(self, queue: str, block: Block, poison: list[Poison]) -> None:
        """Send a copy of each, and wait until the broker has them.

        Raises:
            InvalidDestinationException: the address has no queue, and none is created automatically.
        """
        if not poison:
            return
        address = self._options.dead_letter_address
        if self._session is None:
            self._session = BrokerConnection.shared(self._options.connection).session()
            # Any queue bound there must receive them, under any name; only without one a queue is created.
            if not self._session.query_address(address).queue_names:
                Destinations(self._session).prepare(Target(address, RoutingType.ANYCAST))
        copies = [_copy(block.message(each.place), address, queue, each) for each in poison]
        with self._session.create_producer(address) as producer:
            for _, error in producer.send_encoded([copy.raw for copy in copies], confirmed=True):
                if not isinstance(error, DuplicateIDException):
                    raise error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        session, self._session = self._session, None
        if session is not None:
            try:
                session.close()
            except JMSException:  # it was lost with its connection
                pass


def _copy(message: CoreMessage, address: str, queue: str, poison: Poison) -> CoreMessage:
    place = poison.place
    changes: dict[str, PropertyValue | TypedValue] = {
        _ORIGINAL_ADDRESS: message.address,
        _ORIGINAL_QUEUE: queue,
        _ORIGINAL_MESSAGE_ID: place.message_id,
        _DUPLICATE_ID: f"embedbroker:{queue}:{place.position or place.message_id}",
        _REASON: poison.reason[:_REASON_CHARACTERS_MAX],
    }
    try:
        message.property_spans()
    except RemoteProtocolError:
        return _copy_without_properties(message, address, changes)
    routing = message.property_byte(ROUTING_TYPE_KEY)
    if routing in tuple(RoutingType):  # peers may have put anything under a reserved name
        changes[_ORIGINAL_ROUTING_TYPE] = TypedValue(routing, PropertyType.BYTE)
    # With it a topic's message would be routed to queues of topics alone.
    return message.copy_for(address, changes=changes, removals=(_ROUTING_TYPE,), expiration=0)


def _copy_without_properties(
    message: CoreMessage, address: str, changes: Mapping[str, PropertyValue | TypedValue]
) -> CoreMessage:
    """Return a copy that has the malformed properties as the bytes of one property."""
    properties = Properties({_PROPERTIES: bytes(message.raw[message.properties_at :])})
    properties.update({name: value for name, value in changes.items() if not isinstance(value, TypedValue)})
    return CoreMessage.build(
        type=message.type,
        address=address,
        durable=message.durable,
        priority=message.priority,
        timestamp=message.timestamp,
        user_id=message.user_id,
        properties=properties,
        body=message.body,
    )
