"""One broker node: the composition of kernel, protocols and journal behind one step function."""

from ._inputs import (
    Accepted,
    BytesReceived,
    Command,
    CommandKind,
    DecideBranch,
    Dialed,
    DialFailed,
    DiskDone,
    DiskFailed,
    Input,
    PeerClosed,
    Tick,
    Written,
)
from ._node import Node, NodeState
from ._outputs import BranchDecided, CloseConnection, Dial, Level, Notice, Output, Ready, SendBytes, Stopped

__all__ = [
    "Accepted",
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
    "Level",
    "Node",
    "NodeState",
    "Notice",
    "Output",
    "PeerClosed",
    "Ready",
    "SendBytes",
    "Stopped",
    "Tick",
    "Written",
]
