"""Datagrams over TCP, for networks without multicast: each sender has a port, and receivers fetch what it sent last.

Responsible for the connections, and for the frame around a datagram. Does not depend on the content of a datagram.

A receiver sends nothing. A sender answers each connection with one frame and closes it. So a sender of which nothing is
left is a refused connection, and one place that hangs or answers with something else does not delay the others.
"""

from __future__ import annotations

import errno
import logging
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import trio

from embedclient.errors import RemoteProtocolError
from embedclient.model import AnnouncementHosts, AnnouncementPort

from ._look_ups import look_up, with_port
from ._stream import Buffer, ByteStream, TransportLost
from ._tcp import connect_tcp, error_text, listen_tcp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ._stream import Listener
    from ._tcp import Found

__all__ = [
    "ANSWER_S",
    "FETCH_EVERY_S",
    "FRAME_BYTES_MAX",
    "HostsReceiver",
    "PortSender",
    "announcement_in",
    "framed",
    "open_port_sender",
]

FETCH_EVERY_S: Final = 1.0
"""Pause between two fetches from one place."""
ANSWER_S: Final = 2.0
"""Time for one fetch, with the look-up of the name."""

_HEADER: Final = b"embedbroker announcement 1\n"
_LENGTHS: Final = 2
_BYTES_MAX: Final = 65_535
FRAME_BYTES_MAX: Final = len(_HEADER) + 2 * (_LENGTHS + _BYTES_MAX)
"""No frame has more bytes."""
# Of receivers that a sender answers at one time; further ones come again.
_ANSWERED_MAX: Final = 64
_ACCEPT_AGAIN_S: Final = 1.0
# As many as a discovery group has entries.
_WAITING_MAX: Final = 200

_log = logging.getLogger("embedclient")


def framed(channel: str, data: bytes) -> bytes:
    """Return what a sender answers: a header, the channel and a datagram."""
    parts = [_HEADER]
    for part in (channel.encode(), data):
        parts += [len(part).to_bytes(_LENGTHS, "big"), part]
    return b"".join(parts)


def announcement_in(frame: Buffer, channel: str) -> bytes | None:
    """Return the datagram in what came from a sender so far; None if more must come.

    Raises:
        RemoteProtocolError: The bytes are no frame, or one of another channel.
    """
    given = bytes(frame)
    if given[: len(_HEADER)] != _HEADER[: len(given)]:
        raise RemoteProtocolError("something else than an announcement came from there")
    at = len(_HEADER)
    parts: list[bytes] = []
    for _ in range(2):
        end = at + _LENGTHS + int.from_bytes(given[at : at + _LENGTHS], "big")
        if len(given) < at + _LENGTHS or len(given) < end:
            return None
        parts.append(given[at + _LENGTHS : end])
        at = end
        if parts[0] != channel.encode():
            raise RemoteProtocolError("the broker there has another channel")
    return parts[1]


async def open_port_sender(port: AnnouncementPort) -> PortSender:
    """Listen at the first port of the range that is free.

    Raises:
        OSError: No port of the range is free, or the interface is unknown; the text names them.
    """
    for number in port.ports:
        try:
            listeners = await listen_tcp(port.bind_address, number)
        except OSError as error:
            if error.errno == errno.EADDRINUSE and number != port.ports[-1]:
                continue
            advice = "it must be free, and the local bind address must be one of this machine"
            raise OSError(error.errno, f"cannot announce at {port}: {error_text(error)}; {advice}") from error
        return PortSender(port, listeners)
    raise AssertionError("a range has a port")


class PortSender:
    """A DatagramSender of a TCP port. A task of the trio run answers the receivers."""

    def __init__(self, port: AnnouncementPort, listeners: Sequence[Listener]) -> None:
        #: The port of the range that was free.
        self.port = listeners[0].port
        self._channel = port.channel
        self._listeners = listeners
        self._frame: bytes | None = None
        self._answered = 0
        self._scope = trio.CancelScope()
        trio.lowlevel.spawn_system_task(self._serve, name=f"announcements at {port}")

    def send_nowait(self, data: Buffer) -> None:
        if self._scope.cancel_called:
            raise TransportLost("closed here")
        if len(data) <= _BYTES_MAX:
            self._frame = framed(self._channel, bytes(data))

    def close(self) -> None:
        self._scope.cancel()
        for listener in self._listeners:
            listener.close()

    async def _serve(self) -> None:
        with self._scope:
            async with trio.open_nursery() as nursery:
                for listener in self._listeners:
                    nursery.start_soon(self._accept, listener, nursery)

    async def _accept(self, listener: Listener, nursery: trio.Nursery) -> None:
        while True:
            try:
                stream = await listener.accept()
            except TransportLost:
                return
            except OSError:
                await trio.sleep(_ACCEPT_AGAIN_S)
                continue
            if self._frame is None or self._answered >= _ANSWERED_MAX:
                stream.close()
            else:
                self._answered += 1
                nursery.start_soon(self._answer, stream, self._frame)

    async def _answer(self, stream: ByteStream, frame: bytes) -> None:
        try:
            with trio.move_on_after(ANSWER_S):
                rest = memoryview(frame)
                while rest:
                    taken = stream.send_nowait(rest)
                    rest = rest[taken:]
                    if rest:
                        await stream.wait_writable()
        except TransportLost:
            return
        finally:
            self._answered -= 1
            stream.close()


class HostsReceiver:
    """A DatagramReceiver of a list of hosts. A task of the trio run fetches from each place."""

    def __init__(self, hosts: AnnouncementHosts) -> None:
        self._channel = hosts.channel
        self._waiting: deque[bytes] = deque()
        self._reader = trio.lowlevel.ParkingLot()
        self._scope = trio.CancelScope()
        trio.lowlevel.spawn_system_task(self._serve, hosts.places, name=f"announcements of {hosts}")

    async def receive(self) -> bytes:
        await trio.lowlevel.checkpoint()
        while not self._waiting and not self._scope.cancel_called:
            await self._reader.park()
        if self._scope.cancel_called:
            raise TransportLost("closed here")
        return self._waiting.popleft()

    def close(self) -> None:
        self._scope.cancel()
        self._reader.unpark_all()

    async def _serve(self, places: list[tuple[str, int]]) -> None:
        with self._scope:
            async with trio.open_nursery() as nursery:
                for host, port in places:
                    nursery.start_soon(self._follow, host, port)

    async def _follow(self, host: str, port: int) -> None:
        """Fetch again and again. The log has a line when a place has no announcement any more, or none at first."""
        is_silent = False
        while True:
            try:
                with trio.fail_after(ANSWER_S):
                    data = await _fetched(host, port, self._channel)
            except (TransportLost, RemoteProtocolError, trio.TooSlowError) as error:
                if not is_silent:
                    reason = f"no answer within {ANSWER_S:g} s" if isinstance(error, trio.TooSlowError) else str(error)
                    # A list of hosts may name some that are not running now.
                    is_unusable = isinstance(error, RemoteProtocolError)
                    _log.log(
                        logging.WARNING if is_unusable else logging.INFO,
                        "no announcement of a broker at %s:%d: %s",
                        host,
                        port,
                        reason,
                    )
                is_silent = True
            else:
                is_silent = False
                if len(self._waiting) < _WAITING_MAX:
                    self._waiting.append(data)
                    self._reader.unpark_all()
            await trio.sleep(FETCH_EVERY_S)


async def _fetched(host: str, port: int, channel: str) -> bytes:
    stream = await connect_tcp(host, port, find=_addresses)
    try:
        came = bytearray()
        while (data := announcement_in(came, channel)) is None:
            more = await stream.receive(_BYTES_MAX)
            if not more:
                raise TransportLost("the connection was closed without an announcement")
            came += more
        return data
    finally:
        stream.close()


async def _addresses(host: str, port: int) -> Sequence[Found]:
    """Return the addresses of a host, without a thread of trio's pool: its look-up may hang, and comes again."""
    ended = trio.Event()
    token = trio.lowlevel.current_trio_token()

    def wake() -> None:
        with suppress(trio.RunFinishedError):
            token.run_sync_soon(ended.set)

    result = look_up(host, wake)
    await ended.wait()
    return with_port(result.result(), port)
