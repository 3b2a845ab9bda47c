"""The way between clients and a broker, or between two brokers, and its faults.

Responsible for the switches and for the pipes of every connection that goes this way. A pipe keeps TCP's guarantees:
bytes in order until a cut, and never a silent loss inside a connection that lives. Does not depend on which programs
are at its ends.

A pipe has no task. A reader waits until a piece is due and nothing holds it, so a delay costs nothing but time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Literal, TypeAlias

import trio

from embedclient.errors import IllegalStateException
from embedclient.model import summary
from embedclient.transport import TransportLost

from ._arguments import check_count, check_seconds, check_share
from ._carrier import Carrier, carried_now

__all__ = ["Direction", "Link", "PipeEnd"]

Direction: TypeAlias = Literal["both", "to_broker", "from_broker"]
Buffer: TypeAlias = bytes | bytearray | memoryview

# What one direction of a connection takes before the sender has to wait.
_PIPE_LIMIT_BYTES = 262_144
_WAYS: dict[Direction, tuple[Direction, ...]] = {
    "both": ("to_broker", "from_broker"),
    "to_broker": ("to_broker",),
    "from_broker": ("from_broker",),
}


class Link:
    """Hold, delay and cut everything that goes this way.

    ``direction`` is ``"both"``, ``"to_broker"`` or ``"from_broker"``; between two brokers the one that was dialled is
    the broker. A link with ``has_datagrams`` is one between two brokers in virtual time: elsewhere datagrams do not go
    over links.

    Made by the fixtures: a broker's and a pair's `link`.
    """

    def __init__(
        self,
        name: str,
        note: Callable[[str], None],
        on_closed: Callable[[], object] = lambda: None,
        carrier: Carrier | None = None,
        *,
        has_datagrams: bool = False,
    ) -> None:
        self.name = name
        self._has_datagrams = has_datagrams
        self._carrier = carrier
        self._note = note
        self._on_closed = on_closed
        # By way: True if nothing arrives.
        self._held: dict[Direction, bool] = {"to_broker": False, "from_broker": False}
        # By way: how long what is sent is under way, in seconds.
        self._delay_s: dict[Direction, float] = {"to_broker": 0.0, "from_broker": 0.0}
        self._left: dict[Direction, int | None] = {"to_broker": None, "from_broker": None}
        self.datagram_loss = 0.0
        self.datagram_duplication = 0.0
        self._connections: dict[_Connection, None] = {}

    def __repr__(self) -> str:
        return summary(self, self.name, f"connections={self.connection_count}")

    @property
    def connection_count(self) -> int:
        """Number of connections of which at least one end is open."""
        return len(self._connections)

    @carried_now
    def partition(self, direction: Direction = "both") -> None:
        """Hold everything back, closing included: what is under way arrives after `heal`.

        Neither end receives an error.

        Args:
            direction: ``"both"``, ``"to_broker"`` or ``"from_broker"``.
        """
        for way in _ways(direction):
            self._held[way] = True
        self._note(f"link {self.name}: partition, {direction}")

    @carried_now
    def delay(self, seconds: float, direction: Direction = "both") -> None:
        """Delay what is sent from now on.

        Args:
            seconds: the delay, 0 or more.
            direction: ``"both"``, ``"to_broker"`` or ``"from_broker"``.
        """
        check_seconds("a delay", seconds)
        for way in _ways(direction):
            self._delay_s[way] = seconds
        self._note(f"link {self.name}: delay of {seconds:g} s, {direction}")

    @carried_now
    def drop_after(self, count: int, direction: Direction = "to_broker") -> None:
        """Break a connection after a number of bytes.

        It happens once, to the connection that carried the last of them.

        Args:
            count: bytes that still pass, over all connections, 0 or more.
            direction: ``"both"``, ``"to_broker"`` or ``"from_broker"``; each direction has its own count.
        """
        check_count("the number of bytes that still pass", count)
        for way in _ways(direction):
            self._left[way] = count
        self._note(f"link {self.name}: drops after {count} bytes, {direction}")

    @carried_now
    def cut(self) -> None:
        """Break every connection: what is under way is lost, and both sides learn of it at once."""
        broken = list(self._connections)
        for connection in broken:
            connection.break_off("reset", lose=True)
        self._note(f"link {self.name}: {len(broken)} connections cut")

    @carried_now
    def disturb_datagrams(self, *, loss: float = 0.0, duplication: float = 0.0) -> None:
        """Lose or repeat some of the datagrams by which two brokers find each other, from now on.

        `partition` loses all of them, and `delay` delays them. All three need virtual time: on sockets, as in asyncio,
        in plain tests and with ``--embedbroker-real``, datagrams do not go over the link.

        Args:
            loss: share of datagrams that do not arrive, 0 to 1.
            duplication: share of datagrams that arrive twice, 0 to 1.

        Raises:
            TypeError: a share is not a number.
            ValueError: a share is not between 0 and 1.
            IllegalStateException: no datagrams go over this link.
        """
        check_share("loss", loss)
        check_share("duplication", duplication)
        if not self._has_datagrams:
            raise IllegalStateException(
                f"no datagrams go over link {self.name}: they do only between two brokers in virtual time"
            )
        self.datagram_loss, self.datagram_duplication = loss, duplication
        self._note(f"link {self.name}: of datagrams, {loss:g} are lost and {duplication:g} arrive twice")

    @carried_now
    def heal(self) -> None:
        """End holding, delaying, dropping, and the faults of datagrams."""
        self.datagram_loss = self.datagram_duplication = 0.0
        for way in _WAYS["both"]:
            self._held[way] = False
            self._delay_s[way] = 0.0
            self._left[way] = None
        for connection in list(self._connections):
            connection.wake()
        self._note(f"link {self.name}: healed")

    def pipe(self, names: tuple[str, str]) -> tuple[PipeEnd, PipeEnd]:
        """Return a new connection: the dialling end, and that of the broker.

        ``names``: how the ends call each other.
        """
        connection = _Connection(self, names)
        self._connections[connection] = None
        return connection.ends

    # -- for the pipes -------------------------------------------------------------------------------------------

    def holds(self, way: Direction) -> bool:
        """Return True if nothing arrives this way."""
        return self._held[way]

    def arrival(self, way: Direction) -> float:
        """Return when what is sent now arrives; 0 means at once, without a look at the clock."""
        delay_s = self._delay_s[way]
        return trio.current_time() + delay_s if delay_s else 0.0

    def delay_of(self, way: Direction) -> float:
        """Return the delay of this way, in seconds."""
        return self._delay_s[way]

    def share_that_passes(self, way: Direction, count: int) -> int | None:
        """Return how many of ``count`` bytes still pass before the connection breaks; None while it does not."""
        left = self._left[way]
        if left is None:
            return None
        if count < left:
            self._left[way] = left - count
            return None
        self._left[way] = None
        return left

    def carries(self, peer: str) -> bool:
        """Return True for the broker's name of a connection that goes this way."""
        return self._connection_of(peer) is not None

    def delay_answer(self, peer: str, seconds: float) -> None:
        """Let nothing that the broker sends on one connection arrive before some seconds have passed."""
        connection = self._connection_of(peer)
        if connection is not None:
            connection.flow_back.due_after(seconds)

    def drop_answer(self, peer: str) -> None:
        """Break one connection before the next byte of the broker."""
        connection = self._connection_of(peer)
        if connection is not None:
            connection.flow_back.passes_nothing = True

    def _connection_of(self, peer: str) -> _Connection | None:
        return next((each for each in self._connections if each.ends[1].peer == peer), None)

    def forget(self, connection: _Connection) -> None:
        """Forget a connection of which both ends are closed."""
        self._connections.pop(connection, None)
        self._on_closed()

    def open_dialled(self) -> list[str]:
        """Return the broker's names of connections whose dialling end is open."""
        return [connection.ends[0].called for connection in self._connections if not connection.ends[0].is_closed]

    def open_ends(self) -> list[str]:
        """Return the peers' names of open ends."""
        return [end.called for connection in self._connections for end in connection.ends if not end.is_closed]

    def dropped(self, peer: str) -> None:
        """Note that a connection has carried the last byte it was allowed."""
        self._note(f"link {self.name}: dropped the connection of {peer}")


class _Connection:
    """Two directions and their ends."""

    def __init__(self, link: Link, names: tuple[str, str]) -> None:
        self.link = link
        out, back = _Flow(self, "to_broker"), _Flow(self, "from_broker")
        self._flows = (out, back)
        self.flow_back = back
        self.ends = (PipeEnd(self, out, back, *names), PipeEnd(self, back, out, names[1], names[0]))

    def break_off(self, reason: str, *, lose: bool) -> None:
        peer = self.ends[0].called
        for flow in self._flows:
            flow.break_off(f"connection of {peer}: {reason}", lose=lose)

    def wake(self) -> None:
        for flow in self._flows:
            flow.wake_reader()

    def closed(self) -> None:
        near, far = self.ends
        if near.is_closed and far.is_closed:
            self.link.forget(self)


class _Flow:
    """One direction: pieces under way with the time at which each is due, and perhaps an end behind them."""

    def __init__(self, connection: _Connection, way: Direction) -> None:
        self.way = way
        # The one reader while it waits: a pipe has one at each end, and most reads wait.
        self._reader: trio.lowlevel.Task | None = None
        # None until one waits: nearly every read would look at an empty one.
        self._writers: trio.lowlevel.ParkingLot | None = None
        self.broken: str | None = None
        self.reader_gone = False
        #: True if the connection breaks before the next byte.
        self.passes_nothing = False
        self.size_bytes = 0
        self._connection = connection
        self._link = connection.link
        self._pieces: deque[tuple[float, bytes]] = deque()
        self._last_due = 0.0
        self._ends_at: float | None = None

    @property
    def has_room(self) -> bool:
        return self.size_bytes < _PIPE_LIMIT_BYTES

    def put(self, data: Buffer) -> int:
        room = _PIPE_LIMIT_BYTES - self.size_bytes
        size, link = len(data), self._link
        if type(data) is not bytes or size > room:
            data = bytes(memoryview(data)[:room])
            size = len(data)
        if not size or self.reader_gone:
            return size
        if not self.passes_nothing and link._left[self.way] is None:
            # As most sends: straight to the reader.
            if link._delay_s[self.way]:
                self._last_due = max(self._last_due, link.arrival(self.way))
            self._pieces.append((self._last_due, data))
            self.size_bytes += size
            reader = self._reader
            if reader is not None:
                self._reader = None
                trio.lowlevel.reschedule(reader)
            return size
        passing = 0 if self.passes_nothing else link.share_that_passes(self.way, size)
        self._append(data if passing is None else data[:passing])
        if passing is not None:
            link.dropped(self._connection.ends[0].called)
            self._connection.break_off("reset", lose=False)
        return size

    async def wait_for_news(self) -> None:
        """Wait until there may be room, or the end."""
        if self._writers is None:
            self._writers = trio.lowlevel.ParkingLot()
        await self._writers.park()

    def due_after(self, seconds: float) -> None:
        """Let what is sent from now on arrive later. Bytes stay in order, so one pause is enough."""
        self._last_due = max(self._last_due, trio.current_time() + seconds)

    def _append(self, data: bytes) -> None:
        if data:
            if self._link._delay_s[self.way]:
                self._last_due = max(self._last_due, self._link.arrival(self.way))
            self._pieces.append((self._last_due, data))
            self.size_bytes += len(data)
            if self._reader is not None:
                self.wake_reader()

    async def take(self, max_bytes: int) -> bytes:
        # A read that parks lets others run by that alone: most do, and a pass of the scheduler more would cost as much.
        is_silent = not self._pieces and self.broken is None and self._ends_at is None
        due = None if is_silent else self._next_due()
        if self.reader_gone or due is not None:
            await trio.lowlevel.checkpoint()
            due = self._next_due()
        while not self.reader_gone:
            if due is None:
                # As in `_wait`: a coroutine more would be entered again with each read.
                assert self._reader is None, "a pipe has one reader at each end"
                self._reader = trio.lowlevel.current_task()
                await trio.lowlevel.wait_task_rescheduled(self._abandon_wait)
                if self._pieces and not self._link._held[self.way]:
                    due, data = self._pieces[0]
                    if not due and self.size_bytes == len(data) <= max_bytes:
                        # As most reads: the only piece, and due at once.
                        self._pieces.popleft()
                        self.size_bytes = 0
                        if self._writers is not None:
                            self._writers.unpark_all()
                        return data
            elif due and due > trio.current_time():
                with trio.move_on_at(due):
                    await self._wait()
            elif self._pieces:
                return self._collect(max_bytes)
            elif self.broken is not None:
                raise TransportLost(self.broken)
            else:
                return b""
            due = self._next_due()
        raise TransportLost("closed here")

    async def _wait(self) -> None:
        """Wait until there may be news for the reader."""
        assert self._reader is None, "a pipe has one reader at each end"
        self._reader = trio.lowlevel.current_task()
        await trio.lowlevel.wait_task_rescheduled(self._abandon_wait)

    def _abandon_wait(self, _raise_cancel: object) -> trio.lowlevel.Abort:
        self._reader = None
        return trio.lowlevel.Abort.SUCCEEDED

    def wake_reader(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            trio.lowlevel.reschedule(reader)

    def _next_due(self) -> float | None:
        """Return when the next piece, or the end, is due for the reader; None while that is not known."""
        if self._link._held[self.way]:
            return None
        if self._pieces:
            return self._pieces[0][0]
        return self._last_due if self.broken is not None else self._ends_at

    def _collect(self, max_bytes: int) -> bytes:
        pieces = self._pieces
        if len(pieces) == 1 and self.size_bytes <= max_bytes:
            data = pieces.popleft()[1]  # as most reads: it is due
        else:
            data = self._collect_pieces(max_bytes)
        self.size_bytes -= len(data)
        if self._writers is not None:
            self._writers.unpark_all()
        return data

    def _collect_pieces(self, max_bytes: int) -> bytes:
        now, parts, wanted = trio.current_time() if self._last_due else 0.0, [], max_bytes
        while wanted and self._pieces and self._pieces[0][0] <= now:
            due, piece = self._pieces.popleft()
            if len(piece) > wanted:
                self._pieces.appendleft((due, piece[wanted:]))
                piece = piece[:wanted]
            parts.append(piece)
            wanted -= len(piece)
        return b"".join(parts)

    def end(self) -> None:
        """End this direction: nothing more will be sent."""
        self._ends_at = max(self._last_due, self._link.arrival(self.way))
        self._wake()

    def leave(self) -> None:
        """Record that the reader has left."""
        self.reader_gone = True
        self._pieces.clear()
        self.size_bytes = 0
        self._wake()

    def break_off(self, reason: str, *, lose: bool) -> None:
        self.broken = reason
        if lose:
            self._pieces.clear()
            self._last_due = 0.0
            self.size_bytes = 0
        self._wake()

    def _wake(self) -> None:
        self.wake_reader()
        if self._writers is not None:
            self._writers.unpark_all()


class PipeEnd:
    """A ByteStream. ``called`` is how the other end calls this one."""

    def __init__(self, connection: _Connection, outgoing: _Flow, incoming: _Flow, called: str, peer: str) -> None:
        self.called = called
        self.peer = peer
        self.is_closed = False
        self._connection = connection
        self._outgoing = outgoing
        self._incoming = incoming
        #: Reads up to so many bytes. That of the flow itself: tests read more than they do anything else.
        self.receive: Callable[[int], Coroutine[Any, Any, bytes]] = incoming.take

    def send_nowait(self, data: Buffer) -> int:
        outgoing = self._outgoing
        if self.is_closed:
            raise TransportLost("closed here")
        if outgoing.broken is not None:
            raise TransportLost(outgoing.broken)
        # The peer's leaving is news, which may be held as well.
        if outgoing.reader_gone and not self._connection.link._held[self._incoming.way]:
            raise TransportLost(f"connection to {self.peer}: closed by the peer")
        return outgoing.put(data)

    async def wait_writable(self) -> None:
        outgoing = self._outgoing
        await trio.lowlevel.checkpoint()
        while not (self.is_closed or outgoing.broken or outgoing.reader_gone or outgoing.has_room):
            await outgoing.wait_for_news()

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self._outgoing.end()
            self._incoming.leave()
            self._connection.closed()


def _ways(direction: Direction) -> tuple[Direction, ...]:
    if direction not in _WAYS:
        raise ValueError(f"direction is one of {', '.join(map(repr, _WAYS))}, not {direction!r}")
    return _WAYS[direction]
