"""A limit of messages per second (producerMaxRate and consumerMaxRate of core-protocol 10.2).

Responsible for counting within each second and for waking whoever was refused. Refuses to read a clock.
"""

from collections.abc import Callable

from attrs import define

from ._timers import Timers


@define(eq=False)
class RateLimit:
    """At most `per_second` messages in any second that begins with the first of them."""

    per_second: int
    _second_began: float = float("-inf")
    _used: int = 0
    _wakes: bool = False

    def take(self, now: float) -> bool:
        """Counts one message if it may pass now."""
        if now - self._second_began >= 1.0:
            self._second_began = now
            self._used = 0
        if self._used >= self.per_second:
            return False
        self._used += 1
        return True

    def wake(self, timers: Timers, wake: Callable[[], None]) -> None:
        """After `take` refused a message: calls `wake` when the next one may pass, once however often it is asked."""
        if self._wakes:
            return
        self._wakes = True

        def on_pause_over() -> None:
            self._wakes = False
            wake()

        timers.after(max(0.0, self._second_began + 1.0 - timers.now)).when_done(on_pause_over)


def rate_limit(per_second: int) -> RateLimit | None:
    """The limit of a setting; -1 is none."""
    return RateLimit(per_second) if per_second > 0 else None
