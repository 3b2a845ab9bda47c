"""One broker node: the composition of kernel, protocols and journal behind one step function."""

from embedbroker.ha import LockDone, LockFailed, RoleChanged

from ._config_checks import check_filters, check_passwords
from ._inputs import (
    Accepted,
    AuditFailed,
    BytesReceived,
    Command,
    CommandKind,
    DecideBranch,
    Dialed,
    DialFailed,
    DiskDone,
    DiskFailed,
    Input,
    MakeRoom,
    PeerClosed,
    Tick,
    Written,
)
from ._node import Node
from ._node_state import NodeState
from ._outputs import (
    BranchDecided,
    CloseConnection,
    Dial,
    LetBrokersIn,
    Level,
    Notice,
    Output,
    Ready,
    SendBytes,
    StopListening,
    Stopped,
)

__all__ = [
    "Accepted",
    "AuditFailed",
    "BranchDecided",
    "BytesReceived",
    "CloseConnection",
    "Command",
    "CommandKind",
    "DecideBranch",
    "Dial",
    "DialFailed",
    "Dialed",
    "DiskDone",
    "DiskFailed",
    "Input",
    "LetBrokersIn",
    "Level",
    "LockDone",
    "LockFailed",
    "MakeRoom",
    "Node",
    "NodeState",
    "Notice",
    "Output",
    "PeerClosed",
    "Ready",
    "RoleChanged",
    "SendBytes",
    "StopListening",
    "Stopped",
    "Tick",
    "Written",
    "check_filters",
    "check_passwords",
]
