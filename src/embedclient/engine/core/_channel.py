"""Confirmation numbering of one channel (core-protocol 7.1), the same for both roles.

Responsible for: counting confirmable packets in both directions, keeping sent ones until the peer confirms them,
saying when a confirmation is due and what must be sent again after a reattachment. Refuses to know: sockets, packet
bodies, which packets take part (the caller asks ``is_confirmed``), sessions, and what a lost packet means.

Command ids travel as signed 32-bit numbers that wrap around: 2^31 packets on one channel are half a day at full speed.
"""

from collections import deque

RESEND_BYTES_MAX = 256 * 1024 * 1024
"""Default limit of the bytes one channel keeps for sending again."""

_WRAP = 1 << 32
_HALF = 1 << 31


class Channel:
    """Counters and resend cache of one channel.

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
        """Confirmation window in bytes; -1 is off, 0 confirms every packet at once."""
        return self._window

    @property
    def next_command_id(self) -> int:
        """Number that the next packet given to `sent` gets; it counts on where command ids on the wire wrap."""
        return self._first_stored + len(self._cache)

    @property
    def over_limit(self) -> bool:
        """The peer left more bytes unconfirmed than this side is ready to keep; the connection should be failed."""
        return self.sent_bytes_cached > self.resend_bytes_max

    @property
    def keeps(self) -> bool:
        """Whether everything that is not confirmed is kept, so that it can be sent again."""
        return self._keeps

    @property
    def kept_count(self) -> int:
        """How many packets are kept."""
        return len(self._cache)

    def sent(self, *frame: bytes | bytearray) -> None:
        """Counts one confirmable packet that goes out, and keeps its pieces, uncopied, until it is confirmed."""
        if self._keeps:
            self._cache.append(frame)
            for piece in frame:
                self.sent_bytes_cached += len(piece)
        elif self._window != -1:
            self._first_stored += 1

    def stop_keeping(self) -> None:
        """Drops the cache for good. Numbering goes on in both directions; a reattachment has to be refused."""
        self._keeps = False
        self._first_stored += len(self._cache)
        self._cache.clear()
        self.sent_bytes_cached = 0

    def received(self, size: int) -> int | None:
        """Counts one confirmable packet of `size` frame bytes after it was processed.

        Returns the command id to confirm when the window is reached, else None.
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

    def flush(self) -> int | None:
        """Returns the command id to confirm now although the window is not reached; None when nothing is owed."""
        if self._unconfirmed_bytes == 0:
            return None
        self._unconfirmed_bytes = 0
        return self.last_confirmed

    def on_confirmed(self, command_id: int) -> int:
        """Drops what the peer confirmed from the cache and returns how many packets that were.

        History of the two odd cases:

        1. A confirmation at or below the previous one (both travelled across a reattachment) drops nothing.
        2. A confirmation beyond everything sent means that the peer counted packets this side did not. It drops the
           whole cache and numbering goes on after it, so that both sides agree again.
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
            for _ in range(drop_count):
                for piece in cache.popleft():
                    self.sent_bytes_cached -= len(piece)
        return drop_count

    def unwrapped(self, command_id: int) -> int:
        """The number a command id of the wire stands for, nearest to what is still kept."""
        newest_dropped = self._first_stored - 1
        return newest_dropped + (command_id - newest_dropped + _HALF) % _WRAP - _HALF

    def replay_after(self, command_id: int) -> list[bytes | bytearray]:
        """Drops what the peer has processed; returns the pieces of the rest in order, which stay in the cache."""
        assert self._keeps or self._window == -1
        self.on_confirmed(command_id)
        return [piece for frame in self._cache for piece in frame]

    def reset(self) -> None:
        """Starts again at zero in both directions: the peer has forgotten this channel."""
        self._cache.clear()
        self._first_stored = 0
        self.sent_bytes_cached = 0
        self._unconfirmed_bytes = 0
        self.last_confirmed = -1
