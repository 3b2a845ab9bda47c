"""The contract of datagrams to a multicast group: the group, both ends of it, and the seam that opens them.

Does not depend on any concrete network, or on the content of a datagram. Datagrams may be lost, come twice, or come in
another order. Sender and receiver are two objects, because a client only receives.
"""

from __future__ import annotations

from ipaddress import AddressValueError, IPv4Address
from typing import Protocol

from attrs import Attribute, field, frozen

from embedclient.model import describe_name

from ._stream import Buffer

__all__ = ["DatagramReceiver", "DatagramSender", "Datagrams", "MulticastGroup"]

_PORT_MAX = 65_535


def _multicast(_: object, attribute: Attribute[str], value: object) -> None:
    try:
        is_multicast = isinstance(value, str) and IPv4Address(value).is_multicast
    except AddressValueError:
        is_multicast = False
    if not is_multicast:
        raise ValueError(
            f"the group address {describe_name(str(value))!r} is no IPv4 multicast address: use one from 224.0.0.0 to "
            "239.255.255.255, as 231.7.7.7"
        )


def _port(_: object, attribute: Attribute[int], value: object) -> None:
    least = 1 if attribute.name == "port" else -1
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= _PORT_MAX:
        raise ValueError(f"{attribute.name} is a number from {least} to {_PORT_MAX}, not {value!r}")


@frozen
class MulticastGroup:
    """A multicast group, and the interface of this machine that leads to it.

    Args:
        address: IPv4 multicast address.
        port: Port of the group, 1 to 65535.
        local_bind_address: Address or name of the interface for both directions; None for the default of the system.
        local_bind_port: Port from which datagrams are sent; -1 or 0 for a free one.

    Raises:
        ValueError: an address is no multicast address, or a port is out of its range.
    """

    address: str = field(validator=_multicast)
    port: int = field(default=9876, validator=_port)
    local_bind_address: str | None = None
    local_bind_port: int = field(default=-1, validator=_port)

    def __str__(self) -> str:
        interface = self.local_bind_address
        on = "the default interface" if interface is None else f"the interface of {describe_name(interface)}"
        return f"multicast group {self.address}:{self.port} on {on}"


class DatagramSender(Protocol):
    """Sends datagrams to a group."""

    def send_nowait(self, data: Buffer) -> None:
        """Send a datagram. One that finds no room is lost, as it may be on its way.

        Raises:
            TransportLost: the sender is closed here.
            OSError: the system sends nothing at the moment; the text names the group. A later datagram may pass.
        """

    def close(self) -> None:
        """Send nothing any more. A second close has no effect."""


class DatagramReceiver(Protocol):
    """Receives the datagrams of a group. At most one task receives at a time."""

    async def receive(self) -> bytes:
        """Return the next datagram, which is empty if it was sent so. Cancelling never loses one.

        Raises:
            TransportLost: the receiver is closed here, or broken; the text names the group.
        """

    def close(self) -> None:
        """Leave the group. A second close has no effect; a pending `receive` raises TransportLost."""


class Datagrams(Protocol):
    """Opens both ends of multicast groups, over UDP or over a network of tests."""

    async def open_sender(self, group: MulticastGroup) -> DatagramSender:
        """Return a sender to a group.

        Raises:
            OSError: the local address or port is not available; the text names the group and what to do.
        """

    async def open_receiver(self, group: MulticastGroup) -> DatagramReceiver:
        """Join a group. The receiver also gets what other processes of this machine send to the group.

        Raises:
            OSError: the group cannot be joined on the interface; the text names both and what to do.
        """
