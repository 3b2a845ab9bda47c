"""A JMS-like client for Apache Artemis and embedbroker, on trio.

    async with ConnectionFactory("tcp://localhost:61616").connect() as connection:
        async with connection.session() as session:
            await session.create_producer(Queue("orders")).send("hello")

`embedclient.blocking` is the same client for threads and scripts, `embedclient.asyncio` for asyncio programs.
Responsible for the exported names only; each is loaded on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._lazy import lazy_names

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
        ConnectionFactory,
        ConnectionMetaData,
        ExceptionListener,
        FailoverEventType,
        FailoverListener,
        FailureListener,
        InitialContext,
        JMSContext,
        JMSProducer,
        MessageConsumer,
        MessageListener,
        MessageProducer,
        Opening,
        QueueBrowser,
        Receipt,
        ServerLocator,
        Session,
        XAConnection,
        XAConnectionFactory,
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
        "._client": (
            "AcknowledgeMode Body ClientConsumer ClientMessage ClientProducer ClientSession ClientSessionFactory "
            "Connection ConnectionFactory ConnectionMetaData ExceptionListener FailoverEventType FailoverListener "
            "FailureListener InitialContext JMSContext JMSProducer MessageConsumer MessageListener MessageProducer "
            "Opening QueueBrowser Receipt ServerLocator Session XAConnection XAConnectionFactory XAJMSContext "
            "XAResource XASession"
        ),
        ".agent": (
            "AddressState ConnectionFailed FailoverCompleted FailoverFailed FailureDetected FirstElementPolicy "
            "LoadBalancingPolicy LocatorSettings Notification QueueAttributes QueueState RandomPolicy "
            "RandomStickyPolicy RoundRobinPolicy SendRefused SessionMode"
        ),
        ".errors": "JMSException XAException errors",
        ".model": (
            "BodyChunks BytesMessage DeliveryMode Destination MapMessage MessageProperties ObjectMessage Processing "
            "Progress Properties PropertyType PropertyValue Queue Readable RoutingType SaveTarget StreamMessage "
            "TemporaryQueue TemporaryTopic TextMessage Topic TLSSettings TransportConfiguration TypedValue XaCode "
            "XaFlag Xid Message=JMSMessage"
        ),
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
