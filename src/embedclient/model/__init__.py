"""Values that both sides share: messages, properties, destinations, identifiers."""

from ._connector import IN_VM_CONNECTOR_FACTORY, TCP_CONNECTOR_FACTORY, TransportConfiguration, Xid
from ._destination import (
    Destination,
    Queue,
    TemporaryQueue,
    TemporaryTopic,
    Topic,
    fully_qualified_name,
    parse_destination,
    split_attributes,
    split_fully_qualified_name,
    subscription_queue_name,
)
from ._message import Encoding, Message, RoutingType
from ._properties import Properties, PropertyType, PropertyValue, TypedValue
from ._time import Entropy, Instant, make_uuid, uuid_text

__all__ = [
    "IN_VM_CONNECTOR_FACTORY",
    "TCP_CONNECTOR_FACTORY",
    "Destination",
    "Encoding",
    "Entropy",
    "Instant",
    "Message",
    "Properties",
    "PropertyType",
    "PropertyValue",
    "Queue",
    "RoutingType",
    "TemporaryQueue",
    "TemporaryTopic",
    "Topic",
    "TransportConfiguration",
    "TypedValue",
    "Xid",
    "fully_qualified_name",
    "make_uuid",
    "parse_destination",
    "split_attributes",
    "split_fully_qualified_name",
    "subscription_queue_name",
    "uuid_text",
]
