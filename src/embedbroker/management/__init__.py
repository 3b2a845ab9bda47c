"""Management: one registry of attributes, operations and services, for messages, Python and the command line."""

from ._acceptor_control import ACCEPTOR
from ._address_control import ADDRESS
from ._bridge_control import BRIDGE
from ._broadcast_group_control import BROADCAST_GROUP
from ._broker_control import BROKER
from ._cluster_control import CLUSTER_CONNECTION
from ._diverts import DIVERT
from ._notifications import Notifications, Publisher
from ._queue_control import QUEUE
from ._registry import (
    PENDING_MAX,
    STATUS_PROPERTY,
    VERSION,
    Attribute,
    BrokerView,
    Control,
    Departure,
    Failure,
    HostCall,
    Kind,
    Letter,
    ManagementRefused,
    Operation,
    Parameter,
    QueueEvent,
    Registry,
    Respond,
    Success,
)
from .services import SERVICES, Answer

__all__ = [
    "CONTROLS",
    "PENDING_MAX",
    "SERVICES",
    "STATUS_PROPERTY",
    "VERSION",
    "Answer",
    "Attribute",
    "BrokerView",
    "Control",
    "Departure",
    "Failure",
    "HostCall",
    "Kind",
    "Letter",
    "ManagementRefused",
    "Notifications",
    "Operation",
    "Parameter",
    "Publisher",
    "QueueEvent",
    "Registry",
    "Respond",
    "Success",
]

CONTROLS = (BROKER, ADDRESS, QUEUE, DIVERT, ACCEPTOR, BRIDGE, CLUSTER_CONNECTION, BROADCAST_GROUP)
"""The controls of a broker, in the order of the documentation."""
