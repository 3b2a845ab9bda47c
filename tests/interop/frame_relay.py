"""A relay that loses a frame of a chosen kind and cuts the connection with it, or reports when a frame is under way.

It finds where frames of the CORE protocol begin and what kind each is, and reads nothing of what is in them.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator

from tests.interop.relay import Relay, reset

#: Types of packets (core-protocol 4).
NULL_RESPONSE, SESS_COMMIT, SESS_SEND, SESS_RECEIVE_MSG = 21, 43, 71, 75
# What a client sends before its first frame.
_GREETING_BYTES = 7
_SIZE_BYTES = 4


class FrameRelay(Relay):
    """A `Relay`; `lose` determines what happens to the next frame of a kind."""

    def __init__(self, port: int) -> None:
        # The packet that is lost, and whether it comes from the broker; None: nothing is.
        self._wanted: tuple[int, bool] | None = None
        self._wanting = threading.RLock()
        #: How many frames were lost.
        self.lost = 0
        # How many more frames of a kind pass before the relay reports one.
        self._left: dict[tuple[int, bool], int] = {}
        self._tell: dict[tuple[int, bool], Callable[[], None]] = {}
        super().__init__(port)

    def lose(self, packet_type: int, *, from_broker: bool) -> None:
        """Throw away the next frame of this kind and all that follows it, and reset the connection."""
        with self._wanting:
            assert self._wanted is None, f"{self._wanted} did not come"
            self._wanted = packet_type, from_broker

    @property
    def waits(self) -> bool:
        """Whether a frame that is to be lost has not come."""
        return self._wanted is not None

    def when(self, packet_type: int, *, from_broker: bool, number: int, act: Callable[[], None]) -> None:
        """Have this done, once, when the frame of that number of a kind has come, and before it goes on."""
        kind = (packet_type, from_broker)
        self._left[kind], self._tell[kind] = number, act

    def _count(self, kind: tuple[int, bool]) -> None:
        if kind in self._left:
            self._left[kind] -= 1
            if not self._left[kind]:
                del self._left[kind]
                self._tell.pop(kind)()

    @property
    def answers(self) -> dict[str, Callable[[], None]]:
        """What a Java case may ask for."""
        return {
            "cut": self.cut,
            "lose-answer": lambda: self.lose(NULL_RESPONSE, from_broker=True),
            "lose-send": lambda: self.lose(SESS_SEND, from_broker=False),
        }

    def _carry(self, source: socket.socket, sink: socket.socket, from_broker: bool) -> None:
        try:
            for frame in _frames(source, 0 if from_broker else _GREETING_BYTES):
                with self._wanting:
                    kind = (frame[_SIZE_BYTES], from_broker)
                    self._count(kind)
                    is_lost = kind == self._wanted
                    if is_lost:
                        self._wanted = None
                        self.lost += 1
                if is_lost:
                    raise ConnectionResetError
                sink.sendall(frame)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            # These two only: a client that was cut off may be back by now, through the same relay.
            reset(sink)
            reset(source)


def _frames(source: socket.socket, greeting: int) -> Iterator[bytes]:
    """What comes, frame by frame; the greeting before the first one is a separate piece, with its next frame."""
    pending, start = b"", greeting
    while data := source.recv(65536):
        pending += data
        while len(pending) >= start + _SIZE_BYTES + 1:
            end = start + _SIZE_BYTES + int.from_bytes(pending[start : start + _SIZE_BYTES], "big")
            if len(pending) < end:
                break
            yield pending[:end]
            pending, start = pending[end:], 0
