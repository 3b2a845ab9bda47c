"""What can happen to the agent: the closed union of its inputs."""

from attrs import frozen


@frozen
class Dialed:
    """The connection that a `Dial` asked for is open."""

    connection: int


@frozen
class DialFailed:
    """The connection that a `Dial` asked for could not be opened."""

    connection: int
    reason: str


@frozen
class BytesReceived:
    """One read from a connection, of any size."""

    connection: int
    data: bytes


@frozen
class PeerClosed:
    """The connection ended, orderly or not, without `CloseConnection`."""

    connection: int
    reason: str


@frozen
class Written:
    """The transport took `count` bytes of what `SendBytes` gave it."""

    connection: int
    count: int


@frozen
class Tick:
    """Time has passed; sent at or after `next_deadline()`."""


Input = Dialed | DialFailed | BytesReceived | PeerClosed | Written | Tick
