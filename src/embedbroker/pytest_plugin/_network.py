"""The networks that tests run on: pipes in memory, or TCP with a link behind each accepted connection.

Responsible for which link carries a connection: clients use the link of a broker, brokers the link between the two.
Beside those is a console, through which the plugin looks at queues whatever happened to the links. Does not depend on
brokers and their protocol.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from random import Random
from typing import TYPE_CHECKING, Protocol

import trio

from embedbroker.config import BrokerConfig
from embedclient import TransportConfiguration
from embedclient.transport import (
    ByteStream,
    Listener,
    TcpListener,
    TcpReservation,
    TransportLost,
    connect_tcp,
    vm_listen,
)

from ._carrier import Carrier
from ._link import Link, PipeEnd

if TYPE_CHECKING:
    from embedclient.transport import Datagrams, MemoryMulticast, TcpStream

__all__ = ["Fabric", "MemoryFabric", "TcpFabric"]

_READ_BYTES = 65_536
_HOST = "127.0.0.1"
# How long `Links.until` waits, in all: only for what is really left behind, for a closing is visible in the next pass.
_PATIENCE_SHARES, _PATIENCE_SHARE_S = 4, 0.5


class Links:
    """Hold the links of one test, made at their first use. Those between brokers may have datagrams, too."""

    def __init__(
        self, note: Callable[[str], None], carrier: Carrier | None = None, *, has_datagrams: bool = False
    ) -> None:
        self._has_datagrams = has_datagrams
        self._note = note
        self._carrier = carrier
        self._links: dict[tuple[str, ...], Link] = {}
        self._lookers = trio.lowlevel.ParkingLot()

    def changed(self) -> None:
        """Wake waits: something was closed."""
        if self._lookers:
            self._lookers.unpark_all()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something that changes with closing holds, or until it is certain that it will not.

        A machine that stands still for longer than a wait ends the wait in the same moment in which it receives what
        happened meanwhile. So the time is given in shares: one that passed unseen is followed by others.
        """
        await trio.lowlevel.checkpoint()
        for _ in range(_PATIENCE_SHARES):
            with trio.move_on_after(_PATIENCE_SHARE_S):
                while not holds():
                    await self._lookers.park()
                return

    def to(self, broker: str) -> Link:
        """Return the link of a broker's clients."""
        return self._link((broker,), f"to {broker}")

    def between(self, one: str, other: str) -> Link:
        """Return the link between two brokers."""
        first, second = sorted((one, other))
        return self._link((first, second), f"between {first} and {second}")

    def _link(self, key: tuple[str, ...], name: str) -> Link:
        if key not in self._links:
            has_datagrams = self._has_datagrams and len(key) > 1
            self._links[key] = Link(name, self._note, self.changed, self._carrier, has_datagrams=has_datagrams)
        return self._links[key]

    def __iter__(self) -> Iterator[Link]:
        return iter(self._links.values())


class Port(Protocol):
    """Where one broker is in a fabric: its ``Network``, and what clients and the plugin connect to."""

    url: str
    console_url: str

    @property
    def datagrams(self) -> Datagrams | None:
        """Return what opens multicast groups there; None is UDP."""

    async def listen(self, config: BrokerConfig) -> list[Listener]: ...

    async def dial(self, connector: TransportConfiguration, timeout_s: float) -> ByteStream: ...

    async def clients_noticed(self) -> None:
        """Wait until the clients of this broker know that it has ended, if they are in another loop or process."""


class Fabric(Protocol):
    """A network with any number of brokers on it."""

    links: Links

    async def place(self, broker: str) -> Port:
        """Give a broker its place. From now on it has a URL, whether it runs or not."""

    def leftovers(self) -> list[str]:
        """Return what is still open, in words."""

    def close(self) -> None:
        """Release port numbers on which no broker listens, and what is left of ended connections."""


# -- in memory -------------------------------------------------------------------------------------------------------


class _PeerListener:
    """Accept connections of other brokers. A listener with the interface of the transport's listeners."""

    port = 0

    def __init__(self, broker: str, forget: Callable[[], None]) -> None:
        self.broker = broker
        self.address = f"of brokers at {broker}"
        self._forget = forget
        self._waiting: deque[PipeEnd] = deque()
        self._acceptors = trio.lowlevel.ParkingLot()
        self._closed = False

    def take_in(self, end: PipeEnd) -> None:
        self._waiting.append(end)
        self._acceptors.unpark()

    async def accept(self) -> ByteStream:
        # A wait lets others run by that alone.
        if self._waiting or self._closed:
            await trio.lowlevel.checkpoint()
        while not self._waiting:
            if self._closed:
                raise TransportLost("listener closed here")
            await self._acceptors.park()
        return self._waiting.popleft()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._forget()
            while self._waiting:
                self._waiting.popleft().close()
            self._acceptors.unpark_all()


class MemoryFabric:
    """Pipes inside one trio run. No socket, no thread. ``seed`` decides which datagrams are lost."""

    def __init__(self, note: Callable[[str], None], seed: int) -> None:
        self.links = Links(note, has_datagrams=True)
        self._seed = seed
        #: By the name of a broker; at an acceptor beside its first one also by that of the acceptor, behind a dot.
        self.peers: dict[str, _PeerListener] = {}
        self.serials = count(1)
        self._multicast: MemoryMulticast | None = None

    @property
    def multicast(self) -> MemoryMulticast:
        """Return the network for datagrams, which loses those that a partition of links holds back."""
        if self._multicast is None:
            from ._multicast import LinkedMulticast

            # Apart from the test's own generator, whose values do not depend on how many datagrams are sent.
            self._multicast = LinkedMulticast(self.links.between, Random(f"datagrams of {self._seed}"))
        return self._multicast

    async def place(self, broker: str) -> Port:
        await trio.lowlevel.checkpoint()
        return _MemoryPort(self, broker)

    def forget(self, broker: str) -> None:
        """Accept no more connections of brokers at that name."""
        self.peers.pop(broker, None)

    def leftovers(self) -> list[str]:
        ends = [f"the connection {end}" for link in self.links for end in link.open_ends()]
        return ends + [f"the listener {listener.address}" for listener in self.peers.values()]

    def close(self) -> None:
        """Do nothing: there is nothing to close."""


class _MemoryPort:
    def __init__(self, fabric: MemoryFabric, broker: str) -> None:
        self.url = f"vm://{broker}"
        self.console_url = f"vm://{broker}.console"
        self._fabric = fabric
        self._broker = broker

    @property
    def datagrams(self) -> Datagrams | None:
        return self._fabric.multicast.at(self._broker)

    async def listen(self, config: BrokerConfig) -> list[Listener]:
        await trio.lowlevel.checkpoint()
        return [*self._listen_as(self._broker), vm_listen(f"{self._broker}.console")]

    async def listen_at(self, config: BrokerConfig, number: int) -> list[Listener]:
        await trio.lowlevel.checkpoint()
        return self._listen_as(f"{self._broker}.{config.listens_at[number].name}")

    def _listen_as(self, name: str) -> list[Listener]:
        fabric = self._fabric
        clients = vm_listen(name, fabric.links.to(self._broker).pipe)
        peers = fabric.peers[name] = _PeerListener(self._broker, lambda: fabric.forget(name))
        return [clients, peers]

    async def dial(self, connector: TransportConfiguration, timeout_s: float) -> ByteStream:
        # As with TCP, others run meanwhile.
        await trio.lowlevel.checkpoint()
        target = str(connector.parameters.get("serverId"))
        listener = self._fabric.peers.get(target)
        if listener is None:
            raise TransportLost(f"cannot connect to {target}: no broker of that name is live here")
        link = self._fabric.links.between(self._broker, listener.broker)
        ours, theirs = link.pipe((f"{self._broker}#{next(self._fabric.serials)}", target))
        listener.take_in(theirs)
        return ours

    async def clients_noticed(self) -> None:
        """Return at once: the end of a pipe is seen in the next pass."""


# -- over TCP --------------------------------------------------------------------------------------------------------


class _Doorway:
    """Hold a port number for one broker for the whole test, whether it listens there or not.

    1. A broker crashes; its port is free. Clients and the other broker of its pair go on dialling it.
    2. The system gives the same number to another broker, of this test or of one that runs beside it.
    3. That broker receives connections for the first one, and the first one cannot start again.

    So the number is reserved again in the same moment in which its listener closes. A connection to it is refused.
    """

    def __init__(self) -> None:
        self._reservation: TcpReservation | None = _reserve(0)
        self.number = self._reservation.port
        self._listening: list[_DoorwayListener] = []
        self._closed = False

    @property
    def is_open(self) -> bool:
        return bool(self._listening)

    def listen(self) -> _DoorwayListener:
        """Accept connections.

        Raises:
            OSError: another process took the number all the same.
        """
        reservation, self._reservation = self._reservation or _reserve(self.number), None
        try:
            [listener] = reservation.listen()
        except BaseException:  # Ctrl-C, too, must not leave the number taken
            reservation.close()
            raise
        opened = _DoorwayListener(listener, self._taken_back)
        self._listening.append(opened)
        return opened

    def _taken_back(self, listener: _DoorwayListener) -> None:
        self._listening.remove(listener)
        if self._closed:
            return
        try:
            self._reservation = _reserve(self.number)
        except OSError:
            pass  # another process was faster; the next start reports it

    def close(self) -> None:
        """Release the number."""
        self._closed = True
        reservation, self._reservation = self._reservation, None
        if reservation is not None:
            reservation.close()


class _DoorwayListener:
    def __init__(self, listener: TcpListener, on_closed: Callable[[_DoorwayListener], None]) -> None:
        self.port = listener.port
        self.address = listener.address
        self._listener = listener
        self._on_closed: Callable[[_DoorwayListener], None] | None = on_closed

    async def accept(self) -> TcpStream:
        return await self._listener.accept()

    def close(self) -> None:
        self._listener.close()
        on_closed, self._on_closed = self._on_closed, None
        if on_closed is not None:
            on_closed(self)


def _reserve(number: int) -> TcpReservation:
    """Bind a port without listening; 0 is one that is free. Not awaited: no other task can run in between."""
    bound = socket.socket()
    reservation = TcpReservation()
    try:
        bound.setblocking(False)
        if os.name != "nt":
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((_HOST, number))
        reservation.add(bound)
    except BaseException:  # Ctrl-C, too, must not leave the number taken
        bound.close()
        raise
    return reservation


class TcpFabric:
    """Real sockets. Behind each of them is a pipe of the link, with a task for either direction."""

    def __init__(self, nursery: trio.Nursery, note: Callable[[str], None], carrier: Carrier | None = None) -> None:
        self.links = Links(note, carrier)
        #: Each with the link that it belongs to.
        self.open_sockets: dict[ByteStream, Link] = {}
        #: By the port that a broker announces: its name, and the port at which other brokers really connect.
        self.peers: dict[int, tuple[str, int]] = {}
        self._nursery = nursery
        self._ports: list[_TcpPort] = []

    async def place(self, broker: str) -> Port:
        await trio.lowlevel.checkpoint()
        port = _TcpPort(self, broker)
        self._ports.append(port)
        return port

    def leftovers(self) -> list[str]:
        ends = [f"the connection {end}" for link in self.links for end in link.open_ends()]
        sockets = [f"the socket to {stream.peer}" for stream in self.open_sockets]
        return [*ends, *sockets, *(f"the listener {name}" for port in self._ports for name in port.open_listeners())]

    def close(self) -> None:
        for port in self._ports:
            port.close()
        for stream in list(self.open_sockets):
            stream.close()

    def splice(self, stream: TcpStream, end: PipeEnd, link: Link) -> None:
        """Carry bytes between a socket and the end of a pipe, until one of them is over."""
        self.open_sockets[stream] = link
        self._nursery.start_soon(self._carry_in, stream, end)
        self._nursery.start_soon(self._carry_out, end, stream)

    async def _carry_in(self, stream: TcpStream, end: PipeEnd) -> None:
        """Carry what a socket receives, and close it when its peer has closed."""
        try:
            with suppress(TransportLost):
                await _carry(stream, end)
            end.close()
            with suppress(TransportLost):
                # Its peer closes when it reads the end. One that sends still learns of it by a reset.
                await stream.receive(_READ_BYTES)
        finally:
            end.close()
            stream.close()
            self.open_sockets.pop(stream, None)
            self.links.changed()

    async def _carry_out(self, end: PipeEnd, stream: TcpStream) -> None:
        """Carry what a socket sends, and its end."""
        try:
            with suppress(TransportLost):
                await _carry(end, stream)
            with suppress(TransportLost):
                stream.send_eof()
        finally:
            end.close()
            self.links.changed()


async def _carry(source: ByteStream, target: ByteStream) -> None:
    while data := await source.receive(_READ_BYTES):
        rest = memoryview(data)
        while rest := rest[target.send_nowait(rest) :]:
            await target.wait_writable()


class _SplicingListener:
    """Accept sockets, and return to the broker the far end of a pipe for each."""

    def __init__(self, fabric: TcpFabric, listener: _DoorwayListener, link: Link) -> None:
        self.port = listener.port
        self.address = listener.address
        self._fabric = fabric
        self._listener = listener
        self._link = link

    async def accept(self) -> ByteStream:
        stream = await self._listener.accept()
        near, far = self._link.pipe((stream.peer, self.address))
        self._fabric.splice(stream, near, self._link)
        return far

    def close(self) -> None:
        self._listener.close()


class _TcpPort:
    def __init__(self, fabric: TcpFabric, broker: str) -> None:
        self._fabric = fabric
        self._broker = broker
        self._clients, self._peers = _Doorway(), _Doorway()
        self.url = f"tcp://{_HOST}:{self._clients.number}"
        self.console_url = f"tcp://{_HOST}:{self._peers.number}"
        fabric.peers[self._clients.number] = (broker, self._peers.number)

    @property
    def datagrams(self) -> Datagrams | None:
        return None

    async def listen(self, config: BrokerConfig) -> list[Listener]:
        await trio.lowlevel.checkpoint()
        clients = self._clients.listen()
        try:
            peers = self._peers.listen()
        except BaseException:  # Ctrl-C, too: the other listener has no owner yet that would close it
            clients.close()
            raise
        return [_SplicingListener(self._fabric, clients, self._fabric.links.to(self._broker)), peers]

    async def dial(self, connector: TransportConfiguration, timeout_s: float) -> ByteStream:
        if connector.port not in self._fabric.peers:
            raise TransportLost(f"cannot connect to {connector.host}:{connector.port}: no broker of this test")
        target, port = self._fabric.peers[connector.port]
        stream = await connect_tcp(_HOST, port, timeout_s=timeout_s)
        link = self._fabric.links.between(self._broker, target)
        ours, theirs = link.pipe((self._broker, target))
        self._fabric.splice(stream, theirs, link)
        return ours

    async def clients_noticed(self) -> None:
        """Wait until the clients have closed their sockets too, for 2 seconds at most; then close them.

        A test that goes on earlier would send to the broker that has ended. Behind a partition no client notices.
        """
        fabric = self._fabric
        link = fabric.links.to(self._broker)

        def left() -> list[ByteStream]:
            return [stream for stream, each in fabric.open_sockets.items() if each is link]

        await fabric.links.until(lambda: link.holds("from_broker") or not left())
        if not link.holds("from_broker"):
            for stream in left():
                stream.close()

    def open_listeners(self) -> list[str]:
        return [f"of {self._broker}, {door.number}" for door in (self._clients, self._peers) if door.is_open]

    def close(self) -> None:
        self._clients.close()
        self._peers.close()
