"""A JMS-like client for Apache Artemis and embedbroker, on trio.

    async with ConnectionFactory("tcp://localhost:61616").connect() as connection:
        async with connection.session() as session:
            await session.create_producer(Queue("orders")).send("hello")

`embedclient.blocking` is the same client for threads and scripts, `embedclient.asyncio` for asyncio programs.
Responsible for names only; each is loaded on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from embedclient import errors as errors
    from embedclient._client import (
        AcknowledgeMode,
        ClientConsumer,
        ClientMessage,
        ClientProducer,
        ClientSession,
        ClientSessionFactory,
        Connection,
        ConnectionFactory,
        ConnectionMetaData,
        JMSContext,
        JMSProducer,
        MessageConsumer,
        MessageProducer,
        QueueBrowser,
        Receipt,
        ServerLocator,
        Session,
    )
    from embedclient.agent import (
        FirstElementPolicy,
        LoadBalancingPolicy,
        LocatorSettings,
        QueueAttributes,
        RandomPolicy,
        RandomStickyPolicy,
        RoundRobinPolicy,
        SessionMode,
    )
    from embedclient.errors import JMSException
    from embedclient.model import (
        BytesMessage,
        DeliveryMode,
        Destination,
        MapMessage,
        ObjectMessage,
        Queue,
        RoutingType,
        StreamMessage,
        TemporaryQueue,
        TemporaryTopic,
        TextMessage,
        Topic,
        TransportConfiguration,
    )
    from embedclient.model import JMSMessage as Message

_PACKAGES = {
    "_client": "AcknowledgeMode ClientConsumer ClientMessage ClientProducer ClientSession ClientSessionFactory "
    "Connection ConnectionFactory ConnectionMetaData JMSContext JMSProducer MessageConsumer MessageProducer "
    "QueueBrowser Receipt ServerLocator Session",
    "agent": "FirstElementPolicy LoadBalancingPolicy LocatorSettings QueueAttributes RandomPolicy RandomStickyPolicy "
    "RoundRobinPolicy SessionMode",
    "errors": "JMSException",
    "model": "BytesMessage DeliveryMode Destination MapMessage ObjectMessage Queue RoutingType StreamMessage "
    "TemporaryQueue TemporaryTopic TextMessage Topic TransportConfiguration",
}
_HOME = {name: (package, name) for package, names in _PACKAGES.items() for name in names.split()}
_HOME["Message"] = ("model", "JMSMessage")

__all__ = [
    "AcknowledgeMode",
    "BytesMessage",
    "ClientConsumer",
    "ClientMessage",
    "ClientProducer",
    "ClientSession",
    "ClientSessionFactory",
    "Connection",
    "ConnectionFactory",
    "ConnectionMetaData",
    "DeliveryMode",
    "Destination",
    "FirstElementPolicy",
    "JMSContext",
    "JMSException",
    "JMSProducer",
    "LoadBalancingPolicy",
    "LocatorSettings",
    "MapMessage",
    "Message",
    "MessageConsumer",
    "MessageProducer",
    "ObjectMessage",
    "Queue",
    "QueueAttributes",
    "QueueBrowser",
    "RandomPolicy",
    "RandomStickyPolicy",
    "Receipt",
    "RoundRobinPolicy",
    "RoutingType",
    "ServerLocator",
    "Session",
    "SessionMode",
    "StreamMessage",
    "TemporaryQueue",
    "TemporaryTopic",
    "TextMessage",
    "Topic",
    "TransportConfiguration",
    "errors",
]


def __getattr__(name: str) -> object:
    if name == "errors":
        return import_module("embedclient.errors")
    try:
        package, inner_name = _HOME[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    value: object = getattr(import_module(f"embedclient.{package}"), inner_name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
