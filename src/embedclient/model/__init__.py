"""Values that both sides share: messages, properties, destinations, identifiers.

The classes of JMS messages load when the first of their names is used: a broker needs none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from embedclient._lazy import lazy_names

from ._checks import Check, instance, number, optional, whole
from ._connector import (
    IN_VM_CONNECTOR_FACTORY,
    TCP_CONNECTOR_FACTORY,
    TransportConfiguration,
    Xid,
    can_be_dialled,
    unfit_parameter,
)
from ._destination import (
    Destination,
    Queue,
    TemporaryQueue,
    TemporaryTopic,
    Topic,
    deletable,
    fully_qualified_name,
    parse_destination,
    split_attributes,
    split_fully_qualified_name,
    subscription_queue_name,
)
from ._message import GROUP_BUCKET_PREFIX, ORIGINAL_ADDRESS, Encoding, Origin, RoutingType
from ._number_text import number_text
from ._ping_period import ping_period_ms
from ._place import Place, WarnsWhenDeleted
from ._properties import Properties, PropertyType, PropertyValue, TypedValue
from ._similar_name import did_you_mean, hints_at_names
from ._summary import summary
from ._thread_shortage import ThreadShortage, is_thread_shortage, start_thread
from ._time import Entropy, Instant, make_uuid, uuid_text
from ._tls import TLS, TLSContext, TLSSettings, as_tls, read_tls_parameter, tls_parameter_name
from ._transport_names import ACCEPTOR_PARAMETERS, CONNECTOR_PARAMETERS, TLS_PARAMETERS
from ._url import (
    URLParameter,
    describe_name,
    describe_url,
    is_host_name,
    split_members,
    unsupported_scheme,
    url_parameters,
)
from ._xa import XaCode, XaFlag

if TYPE_CHECKING:
    from ._broadcast_endpoint import (
        AnnouncementHosts,
        AnnouncementPort,
        BroadcastEndpoint,
        SharedDirectory,
        received_at,
        sent_to,
    )
    from ._jgroups_stack import JGroupsStack, parse_jgroups_stack
    from ._jms_body import ObjectMessage, TextMessage
    from ._jms_bytes import BytesMessage
    from ._jms_map import MapMessage
    from ._jms_message import BodyValue, DeliveryMode, Headers, JMSMessage, MessageSource
    from ._jms_properties import MessageProperties
    from ._jms_selector import filter_for_selector, selector_text
    from ._jms_stream import StreamMessage
    from ._jms_streams import (
        DONE_WAITING,
        BodyChunks,
        BodyStream,
        MemoryChunks,
        Progress,
        Readable,
        ReadableBody,
        is_readable,
    )
    from ._multicast import MulticastGroup
    from ._processing import Processing
    from ._saving import SaveTarget, TargetFile

__all__ = [
    "ACCEPTOR_PARAMETERS",
    "CONNECTOR_PARAMETERS",
    "DONE_WAITING",
    "GROUP_BUCKET_PREFIX",
    "IN_VM_CONNECTOR_FACTORY",
    "ORIGINAL_ADDRESS",
    "TCP_CONNECTOR_FACTORY",
    "TLS",
    "TLS_PARAMETERS",
    "AnnouncementHosts",
    "AnnouncementPort",
    "BodyChunks",
    "BodyStream",
    "BodyValue",
    "BroadcastEndpoint",
    "BytesMessage",
    "Check",
    "DeliveryMode",
    "Destination",
    "Encoding",
    "Entropy",
    "Headers",
    "Instant",
    "JGroupsStack",
    "JMSMessage",
    "MapMessage",
    "MemoryChunks",
    "MessageProperties",
    "MessageSource",
    "MulticastGroup",
    "ObjectMessage",
    "Origin",
    "Place",
    "Processing",
    "Progress",
    "Properties",
    "PropertyType",
    "PropertyValue",
    "Queue",
    "Readable",
    "ReadableBody",
    "RoutingType",
    "SaveTarget",
    "SharedDirectory",
    "StreamMessage",
    "TLSContext",
    "TLSSettings",
    "TargetFile",
    "TemporaryQueue",
    "TemporaryTopic",
    "TextMessage",
    "ThreadShortage",
    "Topic",
    "TransportConfiguration",
    "TypedValue",
    "URLParameter",
    "WarnsWhenDeleted",
    "XaCode",
    "XaFlag",
    "Xid",
    "as_tls",
    "can_be_dialled",
    "deletable",
    "describe_name",
    "describe_url",
    "did_you_mean",
    "filter_for_selector",
    "fully_qualified_name",
    "hints_at_names",
    "instance",
    "is_host_name",
    "is_readable",
    "is_thread_shortage",
    "make_uuid",
    "number",
    "number_text",
    "optional",
    "parse_destination",
    "parse_jgroups_stack",
    "ping_period_ms",
    "read_tls_parameter",
    "received_at",
    "selector_text",
    "sent_to",
    "split_attributes",
    "split_fully_qualified_name",
    "split_members",
    "start_thread",
    "subscription_queue_name",
    "summary",
    "tls_parameter_name",
    "unfit_parameter",
    "unsupported_scheme",
    "url_parameters",
    "uuid_text",
    "whole",
]

__getattr__ = lazy_names(
    __name__,
    {
        "._broadcast_endpoint": (
            "AnnouncementHosts AnnouncementPort BroadcastEndpoint SharedDirectory received_at sent_to"
        ),
        "._jgroups_stack": "JGroupsStack parse_jgroups_stack",
        "._jms_body": "ObjectMessage TextMessage",
        "._jms_bytes": "BytesMessage",
        "._jms_map": "MapMessage",
        "._processing": "Processing",
        "._jms_message": "BodyValue DeliveryMode Headers JMSMessage MessageSource",
        "._jms_properties": "MessageProperties",
        "._jms_selector": "filter_for_selector selector_text",
        "._jms_stream": "StreamMessage",
        "._jms_streams": "DONE_WAITING BodyChunks BodyStream MemoryChunks Progress Readable ReadableBody is_readable",
        "._multicast": "MulticastGroup",
        "._saving": "SaveTarget TargetFile",
    },
)
