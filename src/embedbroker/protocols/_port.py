"""The broker's end of one connection as protocols see it: an output buffer with a limit.

Responsible for gathering what one step sends, and for reporting a peer that does not keep up. Does not depend on
sockets: the node takes what was gathered after each step, and reports what the peer drained.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

__all__ = ["Buffer", "ConnectionPort"]

Buffer = bytes | bytearray | memoryview


class ConnectionPort:
    """Gather the output of one connection.

    ``room`` is how many bytes may still be sent before the peer counts as slow. Below zero, ``on_slow`` has been called
    once, and ``on_relieved`` is called when half of the high-water mark is free again. A protocol that sends at speed
    appends to ``out`` itself, after registering in ``dirty`` when it was empty, and subtracts from ``room``. ``excess``
    is how far the one frame that made the peer slow went beyond, or all that was sent again: no reason to disconnect a
    peer.
    """

    __slots__ = (
        "acceptor",
        "alive",
        "certificate_subject",
        "close_reason",
        "dirty",
        "excess",
        "high_water",
        "id",
        "is_paused",
        "on_relieved",
        "on_slow",
        "out",
        "peer",
        "reading_changed",
        "room",
        "slow",
    )

    def __init__(
        self, link_id: int, peer: str, high_water: int, dirty: list[ConnectionPort], acceptor: int = 0
    ) -> None:
        self.id = link_id
        self.peer = peer
        #: Index of the acceptor at which the peer connected.
        self.acceptor = acceptor
        #: Subject of the certificate by which TLS has verified the peer; None without one.
        self.certificate_subject: str | None = None
        self.out: list[Buffer] = []
        self.dirty = dirty
        self.high_water = high_water
        self.room = high_water
        self.excess = 0
        self.slow = False
        self.alive = True
        # Whether the peer must not be read, and whether that changed since the node took the output.
        self.is_paused = False
        self.reading_changed = False
        self.close_reason: str | None = None
        self.on_slow: Callable[[], None] | None = None
        self.on_relieved: Callable[[], None] | None = None

    def write(self, frame: Buffer) -> None:
        """Send one frame with the output of this step. Without effect on a link that is gone."""
        if not self.alive:
            return
        if not self.out:
            self.dirty.append(self)
        self.out.append(frame)
        self.room -= len(frame)
        if self.room < 0 and not self.slow:
            self.become_slow()

    def write_pieces(self, pieces: Sequence[Buffer]) -> int:
        """Send what belongs together, as `write` does; return its size."""
        size = sum(map(len, pieces))
        if self.alive and size:
            if not self.out:
                self.dirty.append(self)
            self.out.extend(pieces)
            self.room -= size
            if self.room < 0 and not self.slow:
                self.become_slow()
        return size

    def reserve(self, size: int) -> None:
        """Count what will be sent with `write_reserved`, so that the sender to a slow peer stops in time."""
        if self.alive:
            self.room -= size
            if self.room < 0 and not self.slow:
                self.become_slow()

    def write_reserved(self, pieces: Sequence[Buffer]) -> None:
        """Send what belongs together, and was counted before."""
        if self.alive:
            if not self.out:
                self.dirty.append(self)
            self.out.extend(pieces)

    def become_slow(self) -> None:
        """Mark the peer as slow: its senders should stop."""
        self.slow = True
        self.excess = -self.room
        if self.on_slow is not None:
            self.on_slow()

    def written(self, count: int) -> None:
        """Count bytes that the peer drained."""
        self.room += count
        assert self.room <= self.high_water, (self.room, self.high_water)
        if self.slow and self.room >= self.high_water // 2:
            self.slow = False
            if self.on_relieved is not None:
                self.on_relieved()

    def pause_reading(self) -> None:
        """Read nothing more from the peer until `resume_reading`; what is on its way may still arrive."""
        self._set_paused(True)

    def resume_reading(self) -> None:
        """Read from the peer again."""
        self._set_paused(False)

    def _set_paused(self, paused: bool) -> None:
        if self.is_paused is not paused and self.alive:
            if not self.out:
                self.dirty.append(self)
            self.is_paused = paused
            self.reading_changed = not self.reading_changed

    def close(self, reason: str) -> None:
        """End the connection after what was written so far was handed over."""
        if self.alive:
            if not self.out:
                self.dirty.append(self)
            self.alive = False
            self.close_reason = reason

    def take(self) -> bytes:
        """Return everything gathered, as one piece."""
        out = self.out
        data = bytes(out[0]) if len(out) == 1 else b"".join(out)
        out.clear()
        return data
