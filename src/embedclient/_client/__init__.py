"""The client's classes, written once over a small port (`Edge`) that trio and asyncio implement.

Responsible for scopes, waiting and cancellation; every decision about the protocol is the agent's. Names are loaded on
first use, because a program pays for each module at its start.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from embedclient._client._browser import QueueBrowser
    from embedclient._client._closing import settle_closing
    from embedclient._client._connection import (
        Connection,
        ConnectionMetaData,
        ExceptionListener,
        FailoverEventType,
        FailoverListener,
        FailureListener,
    )
    from embedclient._client._connection_factory import ConnectionFactory
    from embedclient._client._consumer import MessageConsumer
    from embedclient._client._context import JMSContext, JMSProducer
    from embedclient._client._conversion import Body
    from embedclient._client._core_message import ClientMessage
    from embedclient._client._core_session import ClientConsumer, ClientProducer, ClientSession
    from embedclient._client._edge import PAUSES_PER_SWITCH, Edge, Loop
    from embedclient._client._entropy import SystemEntropy
    from embedclient._client._intake import MessageListener
    from embedclient._client._jndi import DEFAULT_FILE, InitialContext, Names
    from embedclient._client._locator import DEFAULT_URL, ClientSessionFactory, ServerLocator
    from embedclient._client._modes import AcknowledgeMode
    from embedclient._client._opening import Closeable, Opening
    from embedclient._client._producer import MessageProducer, Receipt
    from embedclient._client._pump import Pump
    from embedclient._client._session import Session
    from embedclient._client._time_budget import TimeBudget
    from embedclient._client._trio_scope import TrioLoop
    from embedclient._client._url import ClientURL, parse_url
    from embedclient._client._xa import XAConnection, XAConnectionFactory, XAJMSContext, XASession
    from embedclient._client._xa_resource import XAResource

_MODULES = {
    "_browser": "QueueBrowser",
    "_closing": "settle_closing",
    "_connection": "Connection ConnectionMetaData ExceptionListener FailoverEventType FailoverListener FailureListener",
    "_connection_factory": "ConnectionFactory",
    "_consumer": "MessageConsumer",
    "_context": "JMSContext JMSProducer",
    "_conversion": "Body",
    "_core_message": "ClientMessage",
    "_core_session": "ClientConsumer ClientProducer ClientSession",
    "_edge": "PAUSES_PER_SWITCH Edge Loop",
    "_entropy": "SystemEntropy",
    "_intake": "MessageListener",
    "_jndi": "DEFAULT_FILE InitialContext Names",
    "_locator": "DEFAULT_URL ClientSessionFactory ServerLocator",
    "_modes": "AcknowledgeMode",
    "_opening": "Closeable Opening",
    "_producer": "MessageProducer Receipt",
    "_pump": "Pump",
    "_session": "Session",
    "_time_budget": "TimeBudget",
    "_trio_scope": "TrioLoop",
    "_url": "ClientURL parse_url",
    "_xa": "XAConnection XAConnectionFactory XAJMSContext XASession",
    "_xa_resource": "XAResource",
}
_HOME = {name: module for module, names in _MODULES.items() for name in names.split()}

__all__ = [
    "DEFAULT_FILE",
    "DEFAULT_URL",
    "PAUSES_PER_SWITCH",
    "AcknowledgeMode",
    "Body",
    "ClientConsumer",
    "ClientMessage",
    "ClientProducer",
    "ClientSession",
    "ClientSessionFactory",
    "ClientURL",
    "Closeable",
    "Connection",
    "ConnectionFactory",
    "ConnectionMetaData",
    "Edge",
    "ExceptionListener",
    "FailoverEventType",
    "FailoverListener",
    "FailureListener",
    "InitialContext",
    "JMSContext",
    "JMSProducer",
    "Loop",
    "MessageConsumer",
    "MessageListener",
    "MessageProducer",
    "Names",
    "Opening",
    "Pump",
    "QueueBrowser",
    "Receipt",
    "ServerLocator",
    "Session",
    "SystemEntropy",
    "TimeBudget",
    "TrioLoop",
    "XAConnection",
    "XAConnectionFactory",
    "XAJMSContext",
    "XAResource",
    "XASession",
    "parse_url",
    "settle_closing",
]


def __getattr__(name: str) -> object:
    try:
        module = import_module(f"embedclient._client.{_HOME[name]}")
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    value: object = getattr(module, name)
    globals()[name] = value
    return value
