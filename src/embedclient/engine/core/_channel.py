"""Confirmation numbering of one channel (core-protocol 7.1), the same for both roles.

Responsible for counting confirmable packets in both directions, and for keeping sent ones until the peer confirms them.
Also responsible for reporting when a confirmation is due and what must be sent again after a reattachment. Does not
depend on: sockets, packet bodies, which packets take part (the caller evaluates ``is_confirmed``), sessions, and the
meaning of a lost packet.

Command ids travel as signed 32-bit numbers that wrap around: 2^31 packets on one channel are half a day at full speed.
"""

from collections import deque
from collections.abc import Sequence
from itertools import chain
from typing import Protocol

RESEND_BYTES_MAX = 256 * 1024 * 1024
"""Default limit of the bytes one channel keeps for sending again."""

_WRAP = 1 << 32
_HALF = 1 << 31


class ChannelReceiver(Protocol):
    """Takes the frames of one channel of a connection, and is informed of the connection's end."""

    def on_frame(self, packet_type: int, buffer: bytes | bytearray, start: int, end: int) -> None:
        """Handle one frame, from its length field at ``start`` to ``end``."""

    def on_gone(self) -> None:
        """Handle that the connection is gone, whichever end closed it."""


class Channel:
    """A channel's counters and resend cache.

    A window of -1 switches numbering off: `sent` and `received` then cost one comparison and keep nothing.
    """

    __slots__ = (
        "_cache",
        "_first_stored",
        "_keeps",
        "_unconfirmed_bytes",
        "_window",
        "channel_id",
        "last_confirmed",
        "resend_bytes_max",
        "sent_bytes_cached",
    )

    def __init__(self, channel_id: int, confirmation_window: int, resend_bytes_max: int = RESEND_BYTES_MAX) -> None:
        assert confirmation_window >= -1, confirmation_window
        self.channel_id = channel_id
        self._window = confirmation_window
        self.resend_bytes_max = resend_bytes_max
        # Each frame as the pieces it was sent in.
        self._cache: deque[tuple[bytes | bytearray, ...]] = deque()
        self._keeps = confirmation_window != -1
        self._first_stored = 0
        self.sent_bytes_cached = 0
        self._unconfirmed_bytes = 0
        # Receiver side: command id of the last packet processed, -1 before the first one.
        self.last_confirmed = -1

    @property
    def window(self) -> int:
        """Return the confirmation window in bytes; -1 is off, 0 confirms every packet at once."""
        return self._window

    @property
    def next_command_id(self) -> int:
        """Return the number of the next packet given to `sent`.

        It continues to grow where command ids on the wire wrap.
        """
        return self._first_stored + len(self._cache)

    @property
    def over_limit(self) -> bool:
        """Return True if the peer left more bytes unconfirmed than the limit; the connection should be failed."""
        return self.sent_bytes_cached > self.resend_bytes_max

    @property
    def keeps(self) -> bool:
        """Return True if all unconfirmed packets are kept, so that they can be sent again."""
        return self._keeps

    @property
    def kept_count(self) -> int:
        """Return the number of kept packets."""
        return len(self._cache)

    def sent(self, *frame: bytes | bytearray) -> None:
        """Count one outgoing confirmable packet. Keep its pieces, uncopied, until it is confirmed."""
        if self._keeps:
            self._cache.append(frame)
            for piece in frame:
                self.sent_bytes_cached += len(piece)
        elif self._window != -1:
            self._first_stored += 1

    def sent_run(self, frames: Sequence[tuple[bytes | bytearray, ...]], size: int) -> None:
        """Count outgoing confirmable packets of ``size`` bytes in all, as `sent` does with the pieces of each."""
        if self._keeps:
            self._cache.extend(frames)
            self.sent_bytes_cached += size
        elif self._window != -1:
            self._first_stored += len(frames)

    def stop_keeping(self) -> None:
        """Drop the cache for good. Numbering continues in both directions; a reattachment must be rejected."""
        self._keeps = False
        self._first_stored += len(self._cache)
        self._cache.clear()
        self.sent_bytes_cached = 0

    def received(self, size: int) -> int | None:
        """Count one confirmable packet of `size` frame bytes after it was processed.

        Return the command id to confirm when the window is reached, else None.
        """
        if self._window == -1:
            return None
        count = self.last_confirmed + 1
        self.last_confirmed = count if count < _HALF else -_HALF
        self._unconfirmed_bytes += size
        if self._unconfirmed_bytes < self._window:
            return None
        self._unconfirmed_bytes = 0
        return self.last_confirmed

    def received_run(self, count: int, size: int) -> int | None:
        """Count confirmable packets of ``size`` frame bytes in all, as `received` does with each."""
        if self._window == -1:
            return None
        self.last_confirmed = (self.last_confirmed + count + _HALF) % _WRAP - _HALF
        self._unconfirmed_bytes += size
        if self._unconfirmed_bytes < self._window:
            return None
        self._unconfirmed_bytes = 0
        return self.last_confirmed

    def flush(self) -> int | None:
        """Return the command id to confirm now although the window is not reached; None when no confirmation is due."""
        if self._unconfirmed_bytes == 0:
            return None
        self._unconfirmed_bytes = 0
        return self.last_confirmed

    def on_confirmed(self, command_id: int) -> int:
        """Drop the packets that the peer confirmed from the cache. Return their number.

        History of the two odd cases:

        1. A confirmation at or below the previous one (both travelled across a reattachment) drops nothing.
        2. A confirmation beyond everything sent means that the peer counted packets this side did not. It drops the
           whole cache and numbering continues after it, so that both sides agree again.
        """
        advance = self.unwrapped(command_id) + 1 - self._first_stored
        if advance <= 0:
            return 0
        self._first_stored += advance
        drop_count = advance
        cache = self._cache
        if drop_count >= len(cache):
            drop_count = len(cache)
            cache.clear()
            self.sent_bytes_cached = 0
        else:
            # One confirmation may be for tens of thousands of packets, in one step of a broker.
            popleft = cache.popleft
            dropped = [popleft() for _ in range(drop_count)]
            self.sent_bytes_cached -= sum(map(len, chain.from_iterable(dropped)))
        return drop_count

    def unwrapped(self, command_id: int) -> int:
        """Return the number that a command id of the wire represents, nearest to the kept packets."""
        newest_dropped = self._first_stored - 1
        return newest_dropped + (command_id - newest_dropped + _HALF) % _WRAP - _HALF

    def replay_after(self, command_id: int) -> list[bytes | bytearray]:
        """Drop the packets that the peer has processed. Return the pieces of the rest in order; they stay cached."""
        assert self._keeps or self._window == -1
        self.on_confirmed(command_id)
        return [piece for frame in self._cache for piece in frame]

    def reset(self) -> None:
        """Start again at zero in both directions: the peer has forgotten this channel."""
        self._cache.clear()
        self._first_stored = 0
        self.sent_bytes_cached = 0
        self._unconfirmed_bytes = 0
        self.last_confirmed = -1
