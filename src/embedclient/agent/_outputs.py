"""What the agent asks its driver to do: the closed union of its outputs."""

from attrs import frozen

from embedclient.model import TransportConfiguration


@frozen
class Dial:
    """Open a connection; answer with `Dialed` or `DialFailed`."""

    connection: int
    configuration: TransportConfiguration
    timeout_s: float


@frozen
class SendBytes:
    """Send these bytes in order; at most one per connection and take."""

    connection: int
    data: bytes


@frozen
class CloseConnection:
    """Send what was handed over before, then close; nothing about the connection needs to be reported any more."""

    connection: int
    reason: str


Output = Dial | SendBytes | CloseConnection
