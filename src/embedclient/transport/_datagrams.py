"""The contract of datagrams to a multicast group or a shared directory: both of its ends, and the seam that opens them.

Does not depend on any concrete network, or on the content of a datagram. Datagrams may be lost, come twice, or come in
another order. Sender and receiver are two objects, because a client only receives.
"""

from __future__ import annotations

from typing import Protocol

from embedclient.model import BroadcastEndpoint

from ._stream import Buffer

__all__ = ["DatagramReceiver", "DatagramSender", "Datagrams"]


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
    """Opens both ends of multicast groups and shared directories, of this machine or of a network of tests."""

    async def open_sender(self, group: BroadcastEndpoint) -> DatagramSender:
        """Return a sender to a group.

        Raises:
            OSError: the local address or port is not available; the text names the group and what to do.
        """

    async def open_receiver(self, group: BroadcastEndpoint) -> DatagramReceiver:
        """Join a group. The receiver also gets what other processes of this machine send to the group.

        Raises:
            OSError: the group cannot be joined on the interface; the text names both and what to do.
        """
