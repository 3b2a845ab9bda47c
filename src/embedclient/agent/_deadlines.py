"""Time-outs of calls of equal duration, so the oldest call always expires first.

Responsible for the deadline of each call. Never reads a clock: calls are stamped when the driver takes the outputs that
carry them, so that requests need no time argument.
"""

from collections.abc import Callable, Hashable

from embedclient.model import Instant


class Deadlines:
    """Deadlines of one duration; -1 ms switches them off."""

    __slots__ = ("_on_start", "_timeout_s", "expiry_of", "unstamped")

    def __init__(self, timeout_ms: int, on_start: Callable[[], None] | None = None) -> None:
        # Called when a wait begins that may have nothing to send: the driver must stamp it all the same.
        self._on_start = on_start
        self._timeout_s = timeout_ms / 1000 if timeout_ms >= 0 else None
        #: Waits with their deadlines. Insertion order is expiry order, because every entry waits equally long.
        self.expiry_of: dict[Hashable, tuple[float, Callable[[], None]]] = {}
        #: Waits that began since the last `stamp`.
        self.unstamped: dict[Hashable, Callable[[], None]] = {}

    @property
    def count(self) -> int:
        """Return the number of waits."""
        return len(self.unstamped) + len(self.expiry_of)

    def start(self, key: Hashable, on_timeout: Callable[[], None]) -> None:
        """Begin a wait; its time runs from the next `stamp`. A wait already begun keeps its deadline."""
        if self._timeout_s is not None and key not in self.expiry_of:
            self.unstamped[key] = on_timeout
            if self._on_start is not None:
                self._on_start()

    def stop(self, key: Hashable) -> None:
        if self.unstamped.pop(key, None) is None:
            self.expiry_of.pop(key, None)

    def stamp(self, now: Instant) -> None:
        """Start the time of everything started since the last stamp at `now`."""
        if self.unstamped:
            assert self._timeout_s is not None
            expiry = now.monotonic + self._timeout_s
            for key, on_timeout in self.unstamped.items():
                self.expiry_of[key] = (expiry, on_timeout)
            self.unstamped.clear()

    def next(self) -> float | None:
        if not self.expiry_of:
            return None
        for expiry, _ in self.expiry_of.values():
            return expiry
        return None

    def expire(self, now: Instant) -> None:
        """Run the time-outs that are due, oldest first."""
        while self.expiry_of:
            key = next(iter(self.expiry_of))
            expiry, on_timeout = self.expiry_of[key]
            if expiry > now.monotonic:
                return
            del self.expiry_of[key]
            on_timeout()
