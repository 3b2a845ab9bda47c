"""The client's classes, written once over a small port (`Edge`) that trio and asyncio implement.

Responsible for scopes, waiting and cancellation; the agent makes every decision about the protocol. Names are loaded
on first use, because each module adds to the start time of a program.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from embedclient._lazy import lazy_names

if TYPE_CHECKING:
    from ._broker_search import BrokerSearch
    from ._browser import QueueBrowser
    from ._closing import settle_closing
    from ._connection import (
        Connection,
        ConnectionMetaData,
        ExceptionListener,
        FailoverEventType,
        FailoverListener,
        FailureListener,
    )
    from ._connection_factory import ConnectionFactory
    from ._consumer import MessageConsumer
    from ._context import JMSContext, JMSProducer
    from ._conversion import Body
    from ._core_message import ClientMessage
    from ._core_session import ClientConsumer, ClientProducer, ClientSession
    from ._edge import PAUSES_PER_SWITCH, Edge, Loop
    from ._entropy import SystemEntropy
    from ._intake import MessageListener
    from ._jndi import DEFAULT_FILE, InitialContext, Names
    from ._locator import DEFAULT_URL, ClientSessionFactory, ServerLocator
    from ._modes import AcknowledgeMode
    from ._opening import Closeable, Opening
    from ._producer import MessageProducer, Receipt
    from ._pump import Pump
    from ._session import Session
    from ._time_budget import TimeBudget
    from ._trio_scope import TrioLoop
    from ._url import ClientURL, parse_url
    from ._xa import XAConnection, XAConnectionFactory, XAJMSContext, XASession
    from ._xa_resource import XAResource

__getattr__ = lazy_names(
    __name__,
    {
        "._broker_search": "BrokerSearch",
        "._browser": "QueueBrowser",
        "._closing": "settle_closing",
        "._connection": (
            "Connection ConnectionMetaData ExceptionListener FailoverEventType FailoverListener FailureListener"
        ),
        "._connection_factory": "ConnectionFactory",
        "._consumer": "MessageConsumer",
        "._context": "JMSContext JMSProducer",
        "._conversion": "Body",
        "._core_message": "ClientMessage",
        "._core_session": "ClientConsumer ClientProducer ClientSession",
        "._edge": "PAUSES_PER_SWITCH Edge Loop",
        "._entropy": "SystemEntropy",
        "._intake": "MessageListener",
        "._jndi": "DEFAULT_FILE InitialContext Names",
        "._locator": "DEFAULT_URL ClientSessionFactory ServerLocator",
        "._modes": "AcknowledgeMode",
        "._opening": "Closeable Opening",
        "._producer": "MessageProducer Receipt",
        "._pump": "Pump",
        "._session": "Session",
        "._time_budget": "TimeBudget",
        "._trio_scope": "TrioLoop",
        "._url": "ClientURL parse_url",
        "._xa": "XAConnection XAConnectionFactory XAJMSContext XASession",
        "._xa_resource": "XAResource",
    },
)
__all__ = [
    "DEFAULT_FILE",
    "DEFAULT_URL",
    "PAUSES_PER_SWITCH",
    "AcknowledgeMode",
    "Body",
    "BrokerSearch",
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
