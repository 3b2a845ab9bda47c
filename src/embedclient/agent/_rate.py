"""A limit of messages per second (producerMaxRate and consumerMaxRate of core-protocol 10.2).

Responsible for counting within each second and for waking a rejected caller. Never reads a clock.
"""

from collections.abc import Callable

from attrs import define

from ._timers import Timers


@define(eq=False)
class RateLimit:
    """A limit of `per_second` messages in any second that begins with the first of them."""

    per_second: int
    _second_began: float = float("-inf")
    _used: int = 0
    _wakes: bool = False

    def take(self, now: float) -> bool:
        """Count one message and return True if it may pass now."""
        if now - self._second_began >= 1.0:
            self._second_began = now
            self._used = 0
        if self._used >= self.per_second:
            return False
        self._used += 1
        return True

    def wake(self, timers: Timers, wake: Callable[[], None]) -> None:
        """Call `wake` when the next message may pass, after `take` returned False: once for any number of requests."""
        if self._wakes:
            return
        self._wakes = True

        def on_pause_over() -> None:
            self._wakes = False
            wake()

        timers.after(max(0.0, self._second_began + 1.0 - timers.now)).when_done(on_pause_over)


def rate_limit(per_second: int) -> RateLimit | None:
    """Return the limit of a setting in messages per second; None for -1."""
    return RateLimit(per_second) if per_second > 0 else None
