"""Lines of the log about refusals, at a bounded rate.

Responsible for the number of lines, and for the count of those that were left out. Time is an argument. Does not depend
on the reason of a refusal.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field

__all__ = ["RefusalLines"]

_LINES_MAX = 20
_PERIOD_S = 10.0


@define(eq=False)
class RefusalLines:
    """Write at most 20 lines in 10 seconds; the first line of the next period has the number of those left out."""

    log: Callable[[str], None]
    _began: float = field(default=0.0, init=False)
    _written: int = field(default=0, init=False)
    _left_out: int = field(default=0, init=False)

    def add(self, text: str, now: float) -> None:
        """Write a line, or count it."""
        if now - self._began >= _PERIOD_S:
            if self._left_out:
                self.log(f"security: {self._left_out} more refusals were not logged")
            self._began, self._written, self._left_out = now, 0, 0
        if self._written < _LINES_MAX:
            self._written += 1
            self.log(f"security: {text}")
        else:
            self._left_out += 1
