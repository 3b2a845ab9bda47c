"""TCP byte pipes over raw non-blocking sockets.

Every operation is tried at once and waits for the operating system only when it must. Trio's stream classes take a lock
and two checkpoints per operation, which costs more than the system call. Does not depend on the data sent.
"""

from __future__ import annotations

import errno
import logging
import math
import os
import socket
from collections.abc import Awaitable, Callable, Sequence

import trio

from embedclient.model import ThreadShortage, is_thread_shortage

from ._stream import Buffer, TransportLost

# The operating system lacks a resource that may come back; a listener that gave up here would never accept again.
_OUT_OF_CAPACITY = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS})
_OUT_OF_CAPACITY_PAUSE_S = 0.1
# The peer gave up between its handshake and our accept: no fault of the listener.
_PEER_GAVE_UP = frozenset(
    {errno.ECONNABORTED, errno.EPERM, errno.EPROTO, errno.ENETDOWN, errno.ENETUNREACH, errno.EHOSTUNREACH}
)
# A read buffer beyond the allocator's mmap threshold costs two system calls (17 instead of 3 us per small read,
# measured). So large reads are used only while the peer fills them.
_SMALL_READ_BYTES = 65_536
_LISTENER_DESCRIPTOR_MIN = 256
# Maximum number of peers closed for each new one, when other code takes the descriptors that become free.
_ROOM_TRIES = 3
_WARN_EVERY_S = 60.0
_log = logging.getLogger("embedclient")
_SocketAddress = tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]
_Bound = tuple[tuple[str | int | bytes, ...], int, int, int]
Found = tuple[socket.AddressFamily, socket.SocketKind, int, str, _SocketAddress]
"""One address of a host, as ``socket.getaddrinfo`` returns it."""


def _address_text(address: Sequence[object]) -> str:
    host = str(address[0])
    return f"[{host}]:{address[1]}" if ":" in host else f"{host}:{address[1]}"


def _peer_text(connected: socket.socket) -> str:
    try:
        return _address_text(connected.getpeername())
    except OSError:
        return "unknown peer"  # it is gone already; the first receive raises the reason


class TcpStream:
    """A ByteStream over one connected, non-blocking socket."""

    __slots__ = ("_drained", "_read_bytes", "_socket", "peer")

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._read_bytes = _SMALL_READ_BYTES
        # The last read took less than it could have: the next one would find nothing, so it waits first.
        self._drained = True
        self.peer = _peer_text(connected)

    def send_nowait(self, data: Buffer) -> int:
        try:
            return self._socket.send(data)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError as error:
            raise self._lost(error) from error

    async def wait_writable(self) -> None:
        if self._socket.fileno() < 0:
            await trio.lowlevel.checkpoint()
            return
        try:
            await trio.lowlevel.wait_writable(self._socket)
        except trio.ClosedResourceError:
            return  # the send that follows reports it

    async def receive(self, max_bytes: int) -> bytes:
        if self._drained:
            descriptor = self._socket.fileno()
            if descriptor >= 0:
                # `_receive_when_readable`, written out: each small read comes this way.
                try:
                    await trio.lowlevel.wait_readable(descriptor)
                    return self._read(max_bytes)
                except (BlockingIOError, InterruptedError):
                    return await self._receive_when_readable(max_bytes)
                except trio.ClosedResourceError as error:
                    raise TransportLost("closed here") from error
                except OSError as error:
                    raise self._lost(error) from error
        await trio.lowlevel.checkpoint_if_cancelled()
        try:
            data = self._read(max_bytes)
        except (BlockingIOError, InterruptedError):
            return await self._receive_when_readable(max_bytes)
        except OSError as error:
            raise self._lost(error) from error
        # A peer that always has bytes ready must not starve the other tasks; the bytes are ours now, hence shielded.
        await trio.lowlevel.cancel_shielded_checkpoint()
        return data

    def _read(self, max_bytes: int) -> bytes:
        wanted = min(max_bytes, self._read_bytes)
        data = self._socket.recv(wanted)
        self._drained = len(data) < wanted
        if not self._drained:
            self._read_bytes = max_bytes
        elif len(data) < _SMALL_READ_BYTES:
            self._read_bytes = _SMALL_READ_BYTES
        return data

    async def _receive_when_readable(self, max_bytes: int) -> bytes:
        while True:
            try:
                await trio.lowlevel.wait_readable(self._socket)
                return self._read(max_bytes)
            except (BlockingIOError, InterruptedError):
                continue
            except trio.ClosedResourceError as error:
                raise TransportLost("closed here") from error
            except OSError as error:
                raise self._lost(error) from error

    def send_eof(self) -> None:
        """Tell the peer that nothing more comes. What it sends is still received, its own end last.

        Raises:
            TransportLost: the connection is lost or closed.
        """
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError as error:
            raise self._lost(error) from error

    def close(self) -> None:
        if self._socket.fileno() >= 0:
            trio.lowlevel.notify_closing(self._socket)
            self._socket.close()

    def _lost(self, error: OSError) -> TransportLost:
        if error.errno == errno.EBADF and self._socket.fileno() < 0:
            return TransportLost("closed here")
        return TransportLost(f"connection to {self.peer}: {error_text(error)}")


class TcpListener:
    """A Listener over one bound socket. Its descriptor stays above those of accepted connections.

    Linux closes the descriptors of a process that is killed from the highest to the lowest. History of the fault that
    this avoids, which a Java client meets (2.6 and 2.44), and which any broker can cause:

    1. The broker is killed. The connection of a client is reset, and the listener still exists.
    2. The client connects again at once. The dying process holds the connection, and the client queries whether it must
       fail over.
    3. The listener is closed, and that connection with it. The client does not notice, and waits for the answer until
       the call time-out, 30 seconds.
    """

    def __init__(self, bound: socket.socket, *, no_delay: bool) -> None:
        self._socket = bound
        self._no_delay = no_delay
        name = bound.getsockname()
        self.port: int = name[1]
        self.address = _address_text(name)
        # Descriptors or memory are short. Logged once per shortage.
        self._is_short = False
        # Accepted connections have a descriptor below this number.
        self._end = math.inf
        self._kept_free = 0
        self._make_room: Callable[[], bool] = lambda: False
        self._warned_at = -math.inf

    def keep_free(self, descriptors: int, make_room: Callable[[], bool]) -> None:
        """Reserve so many of this process's descriptors for other uses; a quarter of them, if there are few.

        ``make_room`` is called for a peer that would take one of those. It closes another peer and returns True, or
        returns False, and the new one is closed.
        """
        self._kept_free, self._make_room = descriptors, make_room
        self._read_limit()

    async def accept(self) -> TcpStream:
        while True:
            if self._socket.fileno() < 0:
                await trio.lowlevel.checkpoint()
                raise TransportLost("listener closed here")
            try:
                await trio.lowlevel.wait_readable(self._socket)
                accepted, _ = self._socket.accept()
            except (BlockingIOError, InterruptedError):
                continue
            except trio.ClosedResourceError as error:
                raise TransportLost("listener closed here") from error
            except OSError as error:
                if self._socket.fileno() < 0:
                    raise TransportLost("listener closed here") from error
                if error.errno in _OUT_OF_CAPACITY:
                    if self._make_room():
                        continue
                    if not self._is_short:
                        _log.error("%s accepts no connection for the moment: %s", self.address, error.strerror)
                    self._is_short = True
                    await trio.sleep(_OUT_OF_CAPACITY_PAUSE_S)
                elif error.errno not in _PEER_GAVE_UP:
                    raise
                continue
            self._is_short = False
            if accepted.fileno() >= self._end:
                moved = self._moved_down(accepted)
                if moved is None:
                    continue
                accepted = moved
            if os.name != "nt" and accepted.fileno() > self._socket.fileno():
                self._rise_above(accepted.fileno())
            _prepare(accepted, no_delay=self._no_delay)
            return TcpStream(accepted)

    def _read_limit(self) -> None:
        """Read the limit of descriptors, which the program may change at any time."""
        try:
            import resource  # missing on Windows
        except ImportError:
            return
        soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft != resource.RLIM_INFINITY:
            self._end = soft - min(self._kept_free, soft // 4)

    def _moved_down(self, accepted: socket.socket) -> socket.socket | None:
        """Return the same connection with an allowed descriptor; None if there was no room, and it is closed then."""
        self._read_limit()
        for _try in range(_ROOM_TRIES):
            if accepted.fileno() < self._end:
                return accepted
            if not self._make_room():
                break
            try:
                moved = accepted.dup()
            except OSError:
                continue
            accepted.close()
            accepted = moved
        if accepted.fileno() < self._end:
            return accepted
        accepted.close()
        now = trio.current_time()
        if now >= self._warned_at + _WARN_EVERY_S:
            self._warned_at = now
            _log.error(
                "%s refuses connections for the moment: %d file descriptors are in use, and the rest is for files",
                self.address,
                self._end,
            )
        return None

    def _rise_above(self, descriptor: int) -> None:
        """Move the listener to twice the accepted `descriptor`, so that a move is rare."""
        import fcntl  # missing on Windows, where clients run too

        low = self._socket
        # Above every possible descriptor of an accepted connection, no further rise is needed.
        wanted = int(min(max(_LISTENER_DESCRIPTOR_MIN, 2 * descriptor), self._end))
        try:
            high = fcntl.fcntl(low.fileno(), fcntl.F_DUPFD_CLOEXEC, wanted)
        except OSError:
            return  # above the allowed limit: the listener keeps its descriptor
        self._socket = socket.socket(fileno=high)
        self._socket.setblocking(False)
        low.close()

    def close(self) -> None:
        if self._socket.fileno() >= 0:
            trio.lowlevel.notify_closing(self._socket)
            self._socket.close()


class TcpReservation:
    """Reserved addresses. Connections are refused until `listen`, and no other process gets the port."""

    def __init__(self) -> None:
        self._bound: list[socket.socket] = []
        self._given: list[_Bound] = []
        self.port = 0

    def add(self, bound: socket.socket) -> None:
        """Add one more address of the same port."""
        self._bound.append(bound)
        self.port = bound.getsockname()[1]

    def listen(self, backlog: int = 128, *, no_delay: bool = True) -> list[TcpListener]:
        """Let peers in. The listeners own the addresses from now on.

        Raises:
            OSError: another program listens there although the address is taken; the text names it.
        """
        for bound in self._bound:
            try:
                bound.listen(backlog)
            except OSError as error:
                raise _unusable(bound.getsockname(), error) from error
        listeners = [TcpListener(bound, no_delay=no_delay) for bound in self._bound]
        self._given = [(one.getsockname(), one.family, one.type, one.proto) for one in self._bound]
        self._bound.clear()
        return listeners

    def take_back(self) -> None:
        """Take the addresses again. The listeners that own them are closed.

        Raises:
            OSError: another process was faster; nothing is taken.
        """
        given, self._given = self._given, []
        try:
            for address, family, kind, protocol in given:
                bound = _bind(address, family, kind, protocol)
                assert bound is not None, "there was one of that family before"
                self._bound.append(bound)
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        """Release the addresses that have no listener."""
        for bound in self._bound:
            bound.close()
        self._bound.clear()


async def connect_tcp(
    host: str,
    port: int,
    *,
    timeout_s: float | None = None,
    no_delay: bool = True,
    local_address: tuple[str, int] | None = None,
    send_buffer_bytes: int | None = None,
    receive_buffer_bytes: int | None = None,
    find: Callable[[str, int], Awaitable[Sequence[Found]]] | None = None,
) -> TcpStream:
    """Connect to the first address of `host` that answers, within `timeout_s` for all of them together.

    Args:
        timeout_s: seconds for all addresses together; None for no limit.
        find: looks up the addresses; None for `addresses`.

    Raises:
        TransportLost: no address answered; the reason names every address that was tried.
    """
    deadline = trio.current_time() + (timeout_s if timeout_s is not None else float("inf"))
    where = f"{host}:{port}"
    try:
        with trio.fail_at(deadline):
            found = await (find or addresses)(host, port)
            local = [] if local_address is None else await _local_addresses(*local_address)
    except trio.TooSlowError:
        raise TransportLost(f"cannot connect to {where}: looking up the name took over {timeout_s:g} s") from None
    except OSError as error:
        raise TransportLost(f"cannot connect to {where}: {error_text(error)}") from error

    def prepare(opened: socket.socket) -> None:
        _prepare(opened, no_delay=no_delay)
        _size_buffers(opened, send_buffer_bytes, receive_buffer_bytes)
        if local_address is not None:
            _bind_local(opened, local_address, local)

    failures: list[str] = []
    for index, (family, kind, protocol, _, address) in enumerate(found):
        # An address that never answers may use only its share, or the ones behind it would never be tried.
        share_s = (deadline - trio.current_time()) / (len(found) - index)
        try:
            with trio.fail_after(max(0.0, share_s)):
                return TcpStream(await _connected(socket.socket(family, kind, protocol), prepare, address))
        except trio.TooSlowError:
            failures.append(f"{_address_text(address)}: no answer within {share_s:.3g} s")
        except OSError as error:
            failures.append(f"{_address_text(address)}: {error_text(error)}")
    raise TransportLost(f"cannot connect to {where} ({'; '.join(failures)})")


async def listen_tcp(host: str | None, port: int, backlog: int = 128, *, no_delay: bool = True) -> list[TcpListener]:
    """Listen on every address of `host` (None: all interfaces). With port 0 all of them share the port of the first.

    Raises:
        OSError: the address is in use, unknown or not permitted; its text names it.
    """
    reservation = await reserve_tcp(host, port)
    try:
        return reservation.listen(backlog, no_delay=no_delay)
    except BaseException:  # Ctrl-C, too, must not leave ports taken
        reservation.close()
        raise


async def reserve_tcp(host: str | None, port: int) -> TcpReservation:
    """Take the addresses that `listen_tcp` would listen on, without accepting peers yet.

    Raises:
        OSError: as `listen_tcp` does.
    """
    flags = socket.AI_PASSIVE if host is None else 0
    found = await addresses(host, port, flags)
    reservation = TcpReservation()
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            shared_port = reservation.port or port
            bound = _bind((str(address[0]), shared_port, *address[2:]), family, kind, protocol)
            if bound is not None:
                reservation.add(bound)
    except BaseException:  # a cancellation, too, must not leave ports taken
        reservation.close()
        raise
    if not reservation.port:
        raise OSError(errno.EADDRNOTAVAIL, f"cannot listen on {host}:{port}: no usable address")
    return reservation


async def addresses(host: str | None, port: int, flags: int = 0) -> Sequence[Found]:
    """Return the addresses of a host, with OSError for whatever keeps the system from finding one."""
    try:
        return await trio.socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
    except ValueError as error:
        raise no_host_name(host) from error
    except RuntimeError as error:
        if not is_thread_shortage(error):
            raise
        raise OSError(errno.EAGAIN, str(ThreadShortage(f"looking up the name {host!r}"))) from error


async def _local_addresses(host: str, port: int) -> Sequence[Found]:
    """Return the addresses of the near end: without a name, the one of each family that lets the system choose."""
    if not host:
        return [
            (family, socket.SOCK_STREAM, 0, "", (any_address, port))
            for family, any_address in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::"))
        ]
    return await addresses(host, port)


def _bind_local(opened: socket.socket, local_address: tuple[str, int], local: Sequence[Found]) -> None:
    # A name would be looked up inside bind, which stops the event loop.
    for family, _, _, _, address in local:
        if family == opened.family:
            opened.bind(address)
            return
    raise OSError(errno.EADDRNOTAVAIL, f"the local address {local_address[0]!r} is of another kind")


def no_host_name(host: str | None) -> OSError:
    """Return the error for a name that is never looked up."""
    # A label that is empty or too long, a NUL: Python rejects these before the name is looked up.
    return socket.gaierror(socket.EAI_NONAME, f"{host!r} is not the name of a host")


def _bind(address: tuple[str | int | bytes, ...], family: int, kind: int, protocol: int) -> socket.socket | None:
    try:
        bound = socket.socket(family, kind, protocol)
    except OSError as error:
        if error.errno == errno.EAFNOSUPPORT:
            return None  # the name has an IPv6 address and this kernel has no IPv6
        raise
    try:
        bound.setblocking(False)
        if os.name != "nt":
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind(address)
    except OSError as error:
        bound.close()
        raise _unusable(address, error) from error
    return bound


def _unusable(address: tuple[str | int | bytes, ...], error: OSError) -> OSError:
    return OSError(error.errno, f"cannot listen on {_address_text(address)}: {error_text(error)}")


async def _connected(
    opened: socket.socket, prepare: Callable[[socket.socket], None], address: _SocketAddress
) -> socket.socket:
    """Return the socket once it is connected. Close it on any failure."""
    try:
        prepare(opened)
        await _connect(opened, address)
    except BaseException:  # a cancellation, too, must not leave it open
        opened.close()
        raise
    return opened


async def _connect(opened: socket.socket, address: _SocketAddress) -> None:
    code = opened.connect_ex(address)
    if code in (errno.EINPROGRESS, errno.EWOULDBLOCK):
        await trio.lowlevel.wait_writable(opened)
        code = opened.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    else:
        await trio.lowlevel.checkpoint()
    if code != 0:
        raise OSError(code, os.strerror(code))


def _prepare(connected: socket.socket, *, no_delay: bool) -> None:
    connected.setblocking(False)
    if no_delay:
        try:
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError:
            return  # refused on a socket whose peer has gone; the first receive reports that


def _size_buffers(opened: socket.socket, send_bytes: int | None, receive_bytes: int | None) -> None:
    # Unchanged unless requested: a fixed size switches the kernel's tuning off.
    if send_bytes is not None:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_bytes)
    if receive_bytes is not None:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)


def error_text(error: OSError) -> str:
    """Return the reason of the system, without its number."""
    return error.strerror or str(error) or type(error).__name__
