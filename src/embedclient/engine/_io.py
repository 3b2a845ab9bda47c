"""Inputs and outputs that all our step machines share: their connections, in numbers, and the passing of time.

Responsible for the vocabulary between a step machine (the client's agent, a broker's node) and the edge that drives it.
A machine with more to exchange extends the two unions. Does not depend on protocols, sockets or the purpose of a
machine.

There is one value per read or write, never one per message.
"""

from __future__ import annotations

from typing import TypeAlias

from attrs import frozen

from ..model import TransportConfiguration

__all__ = [
    "BytesReceived",
    "CloseConnection",
    "Dial",
    "DialFailed",
    "Dialed",
    "PeerClosed",
    "SendBytes",
    "Tick",
    "TransportInput",
    "TransportOutput",
    "Written",
]


@frozen
class Dialed:
    """The connection that a `Dial` requested is open.

    ``peer`` is the remote address for log lines; it is empty where the edge has none.
    """

    connection: int
    peer: str = ""


@frozen
class DialFailed:
    """The connection that a `Dial` requested could not be opened."""

    connection: int
    reason: str


@frozen
class BytesReceived:
    """One read from a connection, of any size."""

    connection: int
    data: bytes


@frozen
class PeerClosed:
    """The connection ended, orderly or not. It never follows a `CloseConnection`."""

    connection: int
    reason: str


@frozen
class Written:
    """The transport took ``count`` bytes of what `SendBytes` carried; one value may sum up several writes."""

    connection: int
    count: int


@frozen
class Tick:
    """A deadline has passed. Early or spurious ticks are harmless."""


TransportInput: TypeAlias = Dialed | DialFailed | BytesReceived | PeerClosed | Written | Tick


@frozen
class Dial:
    """Open a connection. The answer is `Dialed` or `DialFailed`; after a `CloseConnection` for it there is no answer.

    The machine chooses ``connection`` and must not use the number again.
    """

    connection: int
    connector: TransportConfiguration
    timeout_s: float


@frozen
class SendBytes:
    """Send these bytes in order; at most one per connection and step."""

    connection: int
    data: bytes


@frozen
class CloseConnection:
    """Send the bytes handed over before, then close. The edge must not report anything about it afterwards."""

    connection: int
    reason: str


TransportOutput: TypeAlias = Dial | SendBytes | CloseConnection
