"""The simulated network, with the semantics of TCP: bytes arrive in order, in any pieces, until the connection dies.

Latency, pauses, one-way partitions and cuts happen here. Bytes are never lost inside a connection that lives on; a cut
loses a suffix of what was under way, in each direction independently. The network does not look at the bytes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from itertools import pairwise
from typing import Protocol

from ._world import World

__all__ = ["Dialer", "Listener", "Network", "Peer", "SimulatedLink"]

#: What a connection takes at once, like a socket's buffer; the rest counts as written when it has arrived.
SOCKET_BUFFER_BYTES = 65_536


class Peer(Protocol):
    """A host at one end of links. ``connection`` is the host's number of the link."""

    name: str

    def on_written(self, connection: int, count: int) -> None:
        """Handle that the connection took ``count`` more of the bytes that were sent."""

    def on_bytes(self, connection: int, data: bytes) -> None:
        """Handle the next bytes."""

    def on_closed(self, connection: int, reason: str) -> None:
        """Handle that the other end closed, or the connection broke. Nothing follows."""


class Listener(Peer, Protocol):
    """A host that accepts connections."""

    def accept(self, dialer: str) -> int | None:
        """Return the number for a new connection of the host of that name, or None if nothing listens for it."""

    def on_accepted(self, connection: int, link: SimulatedLink) -> None:
        """Handle the opening of the new connection."""


class Dialer(Peer, Protocol):
    """A host that opens connections."""

    def on_dialed(self, connection: int, link: SimulatedLink) -> None:
        """Handle the opening of the connection."""

    def on_dial_failed(self, connection: int, reason: str) -> None:
        """Handle that the connection could not be opened."""


class Network:
    """All links of a world, and the conditions they share."""

    def __init__(self, world: World, *, latency_s: float = 0.0005, jitter_s: float = 0.0005) -> None:
        self.world = world
        self.latency_s = latency_s
        self.jitter_s = jitter_s
        self.split_chance = 0.1
        self.links: list[SimulatedLink] = []
        #: Whether nothing listens for a dialer at a place, whatever its host answers.
        self.refuses: Callable[[str, str], bool] | None = None
        self._held: dict[tuple[str, str], None] = {}
        self._slow: dict[tuple[str, str], float] = {}
        self._listeners: dict[str, Listener] = {}

    def listen(self, listener: Listener) -> None:
        """Register a host under its name. The host decides at each moment whether it takes connections."""
        self._listeners[listener.name] = listener

    def dial(self, dialer: Dialer, connection: int, name: str, timeout_s: float) -> None:
        """Connect a host to the listener of that name. The host receives the outcome within ``timeout_s``."""
        dialing = _Dialing(self, dialer, connection, self._listeners.get(name))
        if self.holds(dialer.name, name) or self.holds(name, dialer.name):
            self.world.after(timeout_s, dialing, "timed out")
        else:
            self.world.after(self.delay_s(dialer.name, name), dialing, None)

    def connect(self, near: Peer, near_connection: int, far: Peer, far_connection: int) -> SimulatedLink:
        """Create a link between two hosts."""
        link = SimulatedLink(self, near, near_connection, far, far_connection)
        self.links.append(link)
        return link

    def hold(self, sender: str, receiver: str) -> None:
        """Delay bytes from one host to the other from now on (a pause; held both ways: a partition)."""
        self._held[(sender, receiver)] = None

    def release(self, sender: str, receiver: str) -> None:
        """End a hold: the waiting bytes go on their way."""
        if self._held.pop((sender, receiver), 0) is None:
            for link in self.links:
                link.release(sender, receiver)

    def holds(self, sender: str, receiver: str) -> bool:
        return (sender, receiver) in self._held

    @property
    def held(self) -> Collection[tuple[str, str]]:
        """The (sender, receiver) pairs whose bytes wait."""
        return self._held.keys()

    @property
    def any_held(self) -> bool:
        """True if some host waits for another one's bytes."""
        return bool(self._held)

    def heal(self) -> None:
        """End every hold."""
        for sender, receiver in list(self._held):
            self.release(sender, receiver)

    def between(self, name: str, other: str) -> list[SimulatedLink]:
        """Return the living links between two hosts."""
        return [link for link in self.links if {link.near.name, link.far.name} == {name, other}]

    def slow_down(self, one: str, other: str, extra_s: float) -> None:
        """Add ``extra_s`` to the delay between two hosts from now on; 0 restores the usual delay."""
        for pair in ((one, other), (other, one)):
            if extra_s:
                self._slow[pair] = extra_s
            else:
                self._slow.pop(pair, None)

    def delay_s(self, sender: str = "", receiver: str = "") -> float:
        """Return the time one piece of bytes takes, on the way between two hosts if they are named."""
        delay = self.latency_s + self.jitter_s * self.world.random.random()
        return delay + self._slow.get((sender, receiver), 0.0) if self._slow else delay


class SimulatedLink:
    """One connection: two pipes. Hosts send on it, close it, and faults cut it."""

    __slots__ = ("_pipes", "_silent", "far", "near", "network", "open")

    def __init__(self, network: Network, near: Peer, near_connection: int, far: Peer, far_connection: int) -> None:
        self.network = network
        self.near = near
        self.far = far
        self.open = True
        self._silent = False
        self._pipes = (
            _Pipe(network, near, near_connection, far, far_connection),
            _Pipe(network, far, far_connection, near, near_connection),
        )

    def send(self, sender: Peer, data: bytes) -> int:
        """Send bytes to the other end; on a dead link they go nowhere. Return how many were taken at once."""
        return self._outgoing(sender).send(data) if self.open or self._silent else 0

    def close(self, closer: Peer) -> None:
        """Close in order: the other end receives what was sent, then the end. The closer receives nothing any more."""
        if self.open:
            self._retire()
            self._outgoing(closer).end("closed by peer")
            self._incoming(closer).kill()

    def cut(self, reason: str) -> None:
        """Break the connection: each direction still delivers a random prefix, then its receiver is notified."""
        if self.open:
            self._retire()
            for pipe in self._pipes:
                pipe.break_off(reason)

    def vanish(self, host: Peer, reason: str) -> None:
        """Remove one host at once: it receives nothing any more, the other end a random prefix and then the reset."""
        if self.open:
            self._retire()
            self._incoming(host).kill()
            self._outgoing(host).break_off(reason)

    def fall_silent(self, notified: Peer, reason: str) -> None:
        """Make the connection half open: one host is notified, the other receives a random prefix, and nothing more.

        Bytes that the other host sends go nowhere; only its own time-outs end the connection for it.
        """
        if self.open:
            self._retire()
            self._silent = True
            self._incoming(notified).break_off(reason)
            self._outgoing(notified).lose_suffix()
            for pipe in self._pipes:
                pipe.mute()

    def release(self, sender: str, receiver: str) -> None:
        for pipe in self._pipes:
            if pipe.sender.name == sender and pipe.receiver.name == receiver:
                pipe.schedule()

    def _retire(self) -> None:
        self.open = False
        self.network.links.remove(self)

    def _outgoing(self, host: Peer) -> _Pipe:
        return self._pipes[0] if host is self.near else self._pipes[1]

    def _incoming(self, host: Peer) -> _Pipe:
        return self._pipes[1] if host is self.near else self._pipes[0]


class _Pipe:
    """One direction of a link: pieces under way, each with its time of arrival, and perhaps an end behind them."""

    __slots__ = (
        "_arrival",
        "_connection",
        "_dead",
        "_end",
        "_mute",
        "_network",
        "_owed",
        "_pieces",
        "_scheduled",
        "_sender_connection",
        "_under_way",
        "receiver",
        "sender",
    )

    def __init__(
        self, network: Network, sender: Peer, sender_connection: int, receiver: Peer, receiver_connection: int
    ) -> None:
        self.sender = sender
        self.receiver = receiver
        self._network = network
        self._sender_connection = sender_connection
        self._connection = receiver_connection
        self._under_way = 0
        self._owed = 0
        self._pieces: deque[tuple[float, bytes]] = deque()
        self._arrival = 0.0
        self._end: str | None = None
        self._dead = False
        self._mute = False
        self._scheduled = False

    def send(self, data: bytes) -> int:
        size, room, network = len(data), SOCKET_BUFFER_BYTES - self._under_way, self._network
        taken = size if size <= room else max(0, room)
        self._under_way += size
        self._owed += size - taken
        if self._mute:
            return taken
        split = size > 1 and network.world.random.random() < network.split_chance
        for piece in self._split(data) if split else (data,):
            arrival = network.world.now + network.delay_s(self.sender.name, self.receiver.name)
            if arrival > self._arrival:
                self._arrival = arrival
            self._pieces.append((self._arrival, piece))
        if not self._scheduled:
            self.schedule()
        return taken

    def end(self, reason: str) -> None:
        self._end = reason
        self._arrival = max(self._arrival, self._network.world.now + self._delay_s())
        self._pieces.append((self._arrival, b""))
        self.schedule()

    def break_off(self, reason: str) -> None:
        """Lose a random suffix of what is under way; then notify the receiver that the connection broke."""
        self.lose_suffix()
        kept = self._pieces
        # A partition does not delay a reset for ever: the receiver's own time-outs are tested by holds alone.
        self._end = reason
        self._arrival = max(self._network.world.now + self._delay_s() * 4, kept[-1][0] if kept else 0.0)
        kept.append((self._arrival, b""))
        self.schedule()

    def _delay_s(self) -> float:
        return self._network.delay_s(self.sender.name, self.receiver.name)

    def mute(self) -> None:
        """Let further bytes fill the sender's buffer and arrive nowhere, without notice to either end."""
        self._mute = True

    def lose_suffix(self) -> None:
        """Lose a random suffix of what is under way: from nothing to all of it."""
        under_way = sum(len(piece) for _, piece in self._pieces)
        keep = self._network.world.random.randint(0, under_way)
        kept: deque[tuple[float, bytes]] = deque()
        for arrival, piece in self._pieces:
            if keep:
                kept.append((arrival, piece[:keep]))
                keep -= len(kept[-1][1])
        self._pieces = kept

    def kill(self) -> None:
        """Drop everything: the receiver is gone."""
        self._dead = True
        self._pieces.clear()

    def schedule(self) -> None:
        if self._pieces and not self._scheduled and not self._dead and (self._end is not None or not self._is_held()):
            self._scheduled = True
            self._network.world.at(self._pieces[0][0], self, None)

    def on_event(self, event: object) -> None:
        """Deliver everything due, as one read."""
        assert event is None, "a pipe's only event is an arrival"
        self._scheduled = False
        if self._dead or (self._end is None and self._is_held()):
            return
        now, pieces = self._network.world.now, self._pieces
        data = b""
        while pieces and pieces[0][0] <= now:
            piece = pieces.popleft()[1]
            data = data + piece if data else piece
        ended = self._end is not None and not pieces
        if pieces:
            self.schedule()
        self._under_way -= len(data)
        if data:
            self.receiver.on_bytes(self._connection, data)
        if self._owed or ended:
            self._after_arrival(len(data), ended)

    def _after_arrival(self, count: int, ended: bool) -> None:
        """Continue after an arrival: the receiver may have closed the link, or crashed, because of it."""
        if self._dead:
            return
        if self._owed and self._end is None:
            written, self._owed = min(self._owed, count), max(0, self._owed - count)
            self.sender.on_written(self._sender_connection, written)
        if ended:
            self._dead = True
            self.receiver.on_closed(self._connection, self._end or "")

    def _is_held(self) -> bool:
        network = self._network
        return network.any_held and network.holds(self.sender.name, self.receiver.name)

    def _split(self, data: bytes) -> list[bytes]:
        chance = self._network.world.random
        cuts = sorted(chance.randrange(1, len(data)) for _ in range(chance.randint(1, 3)))
        edges = [0, *cuts, len(data)]
        return [data[start:end] for start, end in pairwise(edges) if end > start]


class _Dialing:
    """One attempt to connect, on its way."""

    __slots__ = ("_connection", "_dialer", "_listener", "_network")

    def __init__(self, network: Network, dialer: Dialer, connection: int, listener: Listener | None) -> None:
        self._network = network
        self._dialer = dialer
        self._connection = connection
        self._listener = listener

    def on_event(self, event: object) -> None:
        if isinstance(event, str):
            self._dialer.on_dial_failed(self._connection, event)
            return
        accepted = None
        if self._listener is not None and not self._is_refused():
            accepted = self._listener.accept(self._dialer.name)
        if self._listener is None or accepted is None:
            self._dialer.on_dial_failed(self._connection, "connection refused")
            return
        link = self._network.connect(self._dialer, self._connection, self._listener, accepted)
        self._listener.on_accepted(accepted, link)
        self._dialer.on_dialed(self._connection, link)

    def _is_refused(self) -> bool:
        refuses, listener = self._network.refuses, self._listener
        return refuses is not None and listener is not None and refuses(self._dialer.name, listener.name)
