"""The sync client brain: one broker connection, its sessions, flow control, acknowledgement and reconnects.

XA loads with the first session that has it.
"""

from typing import TYPE_CHECKING

from embedclient.agent._agent import Agent
from embedclient.agent._call import CONNECTION_ERRORS, DONE, Call, done_call, failed_call
from embedclient.agent._consumer import Consumer
from embedclient.agent._conversion import INFLATED_BYTES_MAX, Envelope, from_core
from embedclient.agent._inputs import BytesReceived, Dialed, DialFailed, Input, PeerClosed, Tick, Written
from embedclient.agent._lifeline import AgentState
from embedclient.agent._notifications import (
    ConnectionFailed,
    FailoverCompleted,
    FailoverFailed,
    FailureDetected,
    Notification,
    SendRefused,
)
from embedclient.agent._outputs import CloseConnection, Dial, Output, SendBytes
from embedclient.agent._policies import (
    FirstElementPolicy,
    LoadBalancingPolicy,
    RandomPolicy,
    RandomStickyPolicy,
    RoundRobinPolicy,
)
from embedclient.agent._prefetch import Delivery
from embedclient.agent._producer import Producer
from embedclient.agent._queue_state import AddressState, QueueAttributes, QueueState
from embedclient.agent._received import Received
from embedclient.agent._session import Session
from embedclient.agent._settings import LocatorSettings, SessionFlags, SessionMode
from embedclient.agent._topology import Topology, TopologyNode
from embedclient.wire.core import CoreMessage

if TYPE_CHECKING:
    from embedclient.agent._xa import Branches

__all__ = [
    "CONNECTION_ERRORS",
    "DONE",
    "INFLATED_BYTES_MAX",
    "AddressState",
    "Agent",
    "AgentState",
    "Branches",
    "BytesReceived",
    "Call",
    "CloseConnection",
    "ConnectionFailed",
    "Consumer",
    "CoreMessage",
    "Delivery",
    "Dial",
    "DialFailed",
    "Dialed",
    "Envelope",
    "FailoverCompleted",
    "FailoverFailed",
    "FailureDetected",
    "FirstElementPolicy",
    "Input",
    "LoadBalancingPolicy",
    "LocatorSettings",
    "Notification",
    "Output",
    "PeerClosed",
    "Producer",
    "QueueAttributes",
    "QueueState",
    "RandomPolicy",
    "RandomStickyPolicy",
    "Received",
    "RoundRobinPolicy",
    "SendBytes",
    "SendRefused",
    "Session",
    "SessionFlags",
    "SessionMode",
    "Tick",
    "Topology",
    "TopologyNode",
    "Written",
    "done_call",
    "failed_call",
    "from_core",
]


def __getattr__(name: str) -> object:
    if name != "Branches":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from embedclient.agent._xa import Branches

    return Branches
