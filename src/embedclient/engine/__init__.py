"""Sans-I/O protocol state machines shared by client and broker, and the inputs and outputs of step machines.

Which side is ours is an argument, or is left open.
"""

from ._datagrams import DatagramReceived, GroupFailed, JoinGroup, LeaveGroup, SendDatagram
from ._dialer import ConnectionDialer, DialHandler, Pipe
from ._io import (
    BytesReceived,
    CloseConnection,
    Dial,
    Dialed,
    DialFailed,
    PeerClosed,
    SendBytes,
    Tick,
    TransportInput,
    TransportOutput,
    Written,
)

__all__ = [
    "BytesReceived",
    "CloseConnection",
    "ConnectionDialer",
    "DatagramReceived",
    "Dial",
    "DialFailed",
    "DialHandler",
    "Dialed",
    "GroupFailed",
    "JoinGroup",
    "LeaveGroup",
    "PeerClosed",
    "Pipe",
    "SendBytes",
    "SendDatagram",
    "Tick",
    "TransportInput",
    "TransportOutput",
    "Written",
]
