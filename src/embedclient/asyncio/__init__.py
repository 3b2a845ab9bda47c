"""The client for asyncio programs: the same classes as `embedclient`, driven by an asyncio edge.

Only the entry points differ, because they choose the event loop. All other code is shared, so the facades cannot drift
apart. All names of `embedclient` are here, so that a program changes its import and nothing else. `vm://`
works on trio only: use `broker.url` here.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING

from embedclient import _client
from embedclient._lazy import lazy_names

from ._edge import AsyncioLoop

if TYPE_CHECKING:
    from embedclient import errors as errors
    from embedclient._client import (
        AcknowledgeMode,
        Body,
        ClientConsumer,
        ClientMessage,
        ClientProducer,
        ClientSession,
        ClientSessionFactory,
        Connection,
        ConnectionMetaData,
        ExceptionListener,
        FailoverEventType,
        FailoverListener,
        FailureListener,
        JMSContext,
        JMSProducer,
        MessageConsumer,
        MessageListener,
        MessageProducer,
        Opening,
        QueueBrowser,
        Receipt,
        Session,
        XAConnection,
        XAJMSContext,
        XAResource,
        XASession,
    )
    from embedclient.agent import (
        AddressState,
        ConnectionFailed,
        FailoverCompleted,
        FailoverFailed,
        FailureDetected,
        FirstElementPolicy,
        LoadBalancingPolicy,
        LocatorSettings,
        Notification,
        QueueAttributes,
        QueueState,
        RandomPolicy,
        RandomStickyPolicy,
        RoundRobinPolicy,
        SendRefused,
        SessionMode,
    )
    from embedclient.errors import JMSException, XAException
    from embedclient.model import (
        BodyChunks,
        BytesMessage,
        DeliveryMode,
        Destination,
        MapMessage,
        MessageProperties,
        ObjectMessage,
        Processing,
        Progress,
        Properties,
        PropertyType,
        PropertyValue,
        Queue,
        Readable,
        RoutingType,
        SaveTarget,
        StreamMessage,
        TemporaryQueue,
        TemporaryTopic,
        TextMessage,
        TLSSettings,
        Topic,
        TransportConfiguration,
        TypedValue,
        XaCode,
        XaFlag,
        Xid,
    )
    from embedclient.model import JMSMessage as Message

__getattr__ = lazy_names(
    __name__,
    {
        ".._client": (
            "AcknowledgeMode Body ClientConsumer ClientMessage ClientProducer ClientSession "
            "ClientSessionFactory Connection ConnectionMetaData ExceptionListener FailoverEventType "
            "FailoverListener FailureListener JMSContext JMSProducer MessageConsumer MessageListener "
            "MessageProducer Opening QueueBrowser Receipt Session XAConnection XAJMSContext XAResource "
            "XASession"
        ),
        "..agent": (
            "AddressState ConnectionFailed FailoverCompleted FailoverFailed FailureDetected "
            "FirstElementPolicy LoadBalancingPolicy LocatorSettings Notification QueueAttributes "
            "QueueState RandomPolicy RandomStickyPolicy RoundRobinPolicy SendRefused SessionMode"
        ),
        "..model": (
            "BodyChunks BytesMessage DeliveryMode Destination MapMessage Message=JMSMessage "
            "MessageProperties ObjectMessage Processing Progress Properties PropertyType PropertyValue Queue "
            "Readable RoutingType SaveTarget StreamMessage TLSSettings TemporaryQueue TemporaryTopic "
            "TextMessage Topic TransportConfiguration TypedValue XaCode XaFlag Xid"
        ),
        "..errors": ("JMSException XAException errors"),
    },
)
__all__ = [
    "AcknowledgeMode",
    "AddressState",
    "Body",
    "BodyChunks",
    "BytesMessage",
    "ClientConsumer",
    "ClientMessage",
    "ClientProducer",
    "ClientSession",
    "ClientSessionFactory",
    "Connection",
    "ConnectionFactory",
    "ConnectionFailed",
    "ConnectionMetaData",
    "DeliveryMode",
    "Destination",
    "ExceptionListener",
    "FailoverCompleted",
    "FailoverEventType",
    "FailoverFailed",
    "FailoverListener",
    "FailureDetected",
    "FailureListener",
    "FirstElementPolicy",
    "InitialContext",
    "JMSContext",
    "JMSException",
    "JMSProducer",
    "LoadBalancingPolicy",
    "LocatorSettings",
    "MapMessage",
    "Message",
    "MessageConsumer",
    "MessageListener",
    "MessageProducer",
    "MessageProperties",
    "Notification",
    "ObjectMessage",
    "Opening",
    "Processing",
    "Progress",
    "Properties",
    "PropertyType",
    "PropertyValue",
    "Queue",
    "QueueAttributes",
    "QueueBrowser",
    "QueueState",
    "RandomPolicy",
    "RandomStickyPolicy",
    "Readable",
    "Receipt",
    "RoundRobinPolicy",
    "RoutingType",
    "SaveTarget",
    "SendRefused",
    "ServerLocator",
    "Session",
    "SessionMode",
    "StreamMessage",
    "TLSSettings",
    "TemporaryQueue",
    "TemporaryTopic",
    "TextMessage",
    "Topic",
    "TransportConfiguration",
    "TypedValue",
    "XAConnection",
    "XAConnectionFactory",
    "XAException",
    "XAJMSContext",
    "XAResource",
    "XASession",
    "XaCode",
    "XaFlag",
    "Xid",
    "errors",
]


def __dir__() -> list[str]:
    return __all__


class ConnectionFactory(_client.ConnectionFactory):
    """Create connections as `embedclient.ConnectionFactory` does, on asyncio."""

    def _make_loop(self) -> _client.Loop:
        return AsyncioLoop()


class XAConnectionFactory(_client.XAConnectionFactory):
    """Create XA connections as `embedclient.XAConnectionFactory` does, on asyncio."""

    def _make_loop(self) -> _client.Loop:
        return AsyncioLoop()


class ServerLocator(_client.ServerLocator):
    """Create session factories as `embedclient.ServerLocator` does, on asyncio."""

    def _make_loop(self) -> _client.Loop:
        return AsyncioLoop()


class InitialContext(_client.Names[_client.ConnectionFactory]):
    """Look names up as `embedclient.InitialContext` does, for factories on asyncio."""

    def __init__(self, environment: Mapping[str, str] | str | PathLike[str] = _client.DEFAULT_FILE) -> None:
        super().__init__(environment, ConnectionFactory, XAConnectionFactory)
