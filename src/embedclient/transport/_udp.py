"""Datagrams over UDP multicast, with raw non-blocking sockets.

The receiver is bound to the address of its group, so datagrams of other groups on the same port do not arrive. Where
the system cannot do that it is bound to all addresses, as in Artemis. Does not depend on the content of a datagram.
"""

from __future__ import annotations

import errno
import os
import socket
import sys
from typing import Final

import trio

from embedclient.model import (
    AnnouncementHosts,
    AnnouncementPort,
    BroadcastEndpoint,
    MulticastGroup,
    SharedDirectory,
    describe_name,
)

from ._announcement_ports import HostsReceiver, open_port_sender
from ._datagrams import DatagramReceiver, DatagramSender
from ._directory import DirectoryReceiver, DirectorySender
from ._stream import Buffer, TransportLost
from ._tcp import addresses, error_text

__all__ = ["SystemDatagrams", "joined_socket"]

# The system chooses.
ANY_INTERFACE: Final = "0.0.0.0"

_DATAGRAM_BYTES_MAX = 65_535
# Option of Linux, which Python has no name for.
_IP_MULTICAST_ALL: Final = 49
# Not compared where it is used: a type checker would leave out what stands behind the comparison.
_PLATFORM: str = sys.platform
# No room in a buffer: the datagram is lost, which the receiver must expect anyway.
_LOST = frozenset({errno.EAGAIN, errno.EWOULDBLOCK, errno.ENOBUFS, errno.EINTR})


class UdpSender:
    """A DatagramSender over one bound socket."""

    def __init__(self, bound: socket.socket, group: MulticastGroup) -> None:
        self._socket = bound
        self._group = group
        self.port: int = bound.getsockname()[1]

    def send_nowait(self, data: Buffer) -> None:
        if self._socket.fileno() < 0:
            raise TransportLost("closed here")
        try:
            self._socket.sendto(data, (self._group.address, self._group.port))
        except OSError as error:
            if error.errno not in _LOST:
                raise _failed(f"cannot send to {self._group}", error) from error

    def close(self) -> None:
        self._socket.close()


class UdpReceiver:
    """A DatagramReceiver over one socket that has joined a group."""

    def __init__(self, joined: socket.socket, group: MulticastGroup) -> None:
        self._socket = joined
        self._group = group

    async def receive(self) -> bytes:
        while True:
            if self._socket.fileno() < 0:
                await trio.lowlevel.checkpoint()
                raise TransportLost("closed here")
            try:
                await trio.lowlevel.wait_readable(self._socket)
                return self._socket.recv(_DATAGRAM_BYTES_MAX)
            except (BlockingIOError, InterruptedError):
                continue  # the datagram had a bad checksum
            except trio.ClosedResourceError as error:
                raise TransportLost("closed here") from error
            except OSError as error:
                if self._socket.fileno() < 0:
                    raise TransportLost("closed here") from error
                raise TransportLost(f"{self._group}: {error_text(error)}") from error

    def close(self) -> None:
        if self._socket.fileno() >= 0:
            trio.lowlevel.notify_closing(self._socket)
            self._socket.close()


class SystemDatagrams:
    """Datagrams over UDP, over files of a shared directory, or fetched from hosts.

    The time to live of each datagram is 1, so no router forwards it.

    Args:
        newest_first: Whether the newest file of a shared directory comes first, for a search that takes one datagram.
    """

    def __init__(self, *, newest_first: bool = False) -> None:
        self._newest_first = newest_first

    async def open_sender(self, group: BroadcastEndpoint) -> DatagramSender:
        if isinstance(group, SharedDirectory):
            return DirectorySender(group)
        if isinstance(group, AnnouncementPort):
            return await open_port_sender(group)
        if isinstance(group, AnnouncementHosts):
            raise TypeError(f"nothing can be sent to {group}: a sender has a port")
        where = f"cannot send to {group}"
        interface = await _interface(group, where)
        opened = _socket()
        try:
            # The bound address alone decides the interface on Linux only.
            opened.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(interface))
            opened.bind((interface, max(0, group.local_bind_port)))
        except OSError as error:
            opened.close()
            port = f" from port {group.local_bind_port}" if group.local_bind_port > 0 else ""
            advice = "the local bind address must be one of this machine, and the local bind port must be free"
            raise _failed(where + port, error, advice) from error
        return UdpSender(opened, group)

    async def open_receiver(self, group: BroadcastEndpoint) -> DatagramReceiver:
        if isinstance(group, SharedDirectory):
            return DirectoryReceiver(group, newest_first=self._newest_first)
        if isinstance(group, AnnouncementHosts):
            await trio.lowlevel.checkpoint()
            return HostsReceiver(group)
        if isinstance(group, AnnouncementPort):
            raise TypeError(f"at {group} is nothing to receive: receivers have a list of hosts")
        interface = await _interface(group, f"cannot join {group}")
        return UdpReceiver(joined_socket(group, interface), group)


def joined_socket(group: MulticastGroup, interface: str = ANY_INTERFACE) -> socket.socket:
    """Return a non-blocking socket that has joined a group on the interface with the IPv4 address ``interface``.

    Raises:
        OSError: the group cannot be joined there; the text names both and what to do.
    """
    opened = _socket()
    try:
        _share_port(opened)
        if _PLATFORM == "linux":
            # Otherwise datagrams come from every interface on which any process has joined the group.
            opened.setsockopt(socket.IPPROTO_IP, _IP_MULTICAST_ALL, 0)
        _bind_to_group(opened, group)
        membership = socket.inet_aton(group.address) + socket.inet_aton(interface)
        opened.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
    except OSError as error:
        opened.close()
        advice = "set the local bind address to the address of an interface with multicast, as 127.0.0.1"
        raise _failed(f"cannot join {group}", error, advice) from error
    return opened


def _socket() -> socket.socket:
    opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    opened.setblocking(False)
    return opened


def _share_port(opened: socket.socket) -> None:
    """Allow other receivers of the group on this machine, which all get each datagram."""
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if _PLATFORM == "darwin":
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)


def _bind_to_group(opened: socket.socket, group: MulticastGroup) -> None:
    if os.name != "nt":
        try:
            opened.bind((group.address, group.port))
        except OSError as error:
            if error.errno != errno.EADDRNOTAVAIL:
                raise
        else:
            return
    opened.bind(("", group.port))


async def _interface(group: MulticastGroup, where: str) -> str:
    """Return the IPv4 address of the interface; that of all interfaces lets the system choose."""
    name = group.local_bind_address
    if name is None:
        await trio.lowlevel.checkpoint()
        return ANY_INTERFACE
    advice = "the local bind address must be one of this machine"
    try:
        found = await addresses(name, 0)
    except OSError as error:
        raise _failed(where, error, advice) from error
    of_ipv4 = [str(address[0]) for family, _, _, _, address in found if family == socket.AF_INET]
    if not of_ipv4:
        raise _failed(where, OSError(errno.EAFNOSUPPORT, f"{describe_name(name)} has no IPv4 address"), advice)
    return of_ipv4[0]


def _failed(where: str, error: OSError, advice: str = "") -> OSError:
    return OSError(error.errno, f"{where}: {error_text(error)}" + (f"; {advice}" if advice else ""))
