"""The sync client core: one broker connection, its sessions, flow control, acknowledgement and reconnects.

XA loads with the first session that has it, and discovery with the first URL that needs it.
"""

from typing import TYPE_CHECKING

from embedclient._lazy import lazy_names
from embedclient.engine import (
    BytesReceived,
    CloseConnection,
    Dial,
    Dialed,
    DialFailed,
    PeerClosed,
    SendBytes,
    Tick,
    Written,
)
from embedclient.engine import TransportInput as Input
from embedclient.engine import TransportOutput as Output
from embedclient.wire.core import CoreMessage

from ._agent import Agent
from ._call import CONNECTION_ERRORS, DONE, Call, done_call, failed_call
from ._conversion import INFLATED_BYTES_MAX, Envelope, core_source, from_core
from ._large_content import ContentDecoder
from ._notifications import (
    ConnectionFailed,
    FailoverCompleted,
    FailoverFailed,
    FailureDetected,
    Notification,
    SendRefused,
)
from ._policies import FirstElementPolicy, LoadBalancingPolicy, RandomPolicy, RandomStickyPolicy, RoundRobinPolicy
from ._reconnection import AgentState
from ._settings import LocatorSettings, SessionFlags, SessionMode
from ._statistics import AgentStatistics, SessionStatistics
from ._topology import TOPOLOGY_PACKETS, Topology, TopologyNode
from .consumer._consumer import Consumer
from .consumer._large_message import LargeDelivery
from .consumer._prefetch import Delivery
from .consumer._received import Received
from .producer._async_sends import Receipt
from .producer._large_body import Chunker
from .producer._producer import Producer, Upload
from .session._queue_state import AddressState, QueueAttributes, QueueState
from .session._session import Session

if TYPE_CHECKING:
    from embedclient.engine.core import DiscoveryEntry, announced_entry

    from .session._xa import Branches

__all__ = [
    "CONNECTION_ERRORS",
    "DONE",
    "INFLATED_BYTES_MAX",
    "TOPOLOGY_PACKETS",
    "AddressState",
    "Agent",
    "AgentState",
    "AgentStatistics",
    "Branches",
    "BytesReceived",
    "Call",
    "Chunker",
    "CloseConnection",
    "ConnectionFailed",
    "Consumer",
    "ContentDecoder",
    "CoreMessage",
    "Delivery",
    "Dial",
    "DialFailed",
    "Dialed",
    "DiscoveryEntry",
    "Envelope",
    "FailoverCompleted",
    "FailoverFailed",
    "FailureDetected",
    "FirstElementPolicy",
    "Input",
    "LargeDelivery",
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
    "Receipt",
    "Received",
    "RoundRobinPolicy",
    "SendBytes",
    "SendRefused",
    "Session",
    "SessionFlags",
    "SessionMode",
    "SessionStatistics",
    "Tick",
    "Topology",
    "TopologyNode",
    "Upload",
    "Written",
    "announced_entry",
    "core_source",
    "done_call",
    "failed_call",
    "from_core",
]

__getattr__ = lazy_names(__name__, {".session._xa": "Branches", "..engine.core": "DiscoveryEntry announced_entry"})
