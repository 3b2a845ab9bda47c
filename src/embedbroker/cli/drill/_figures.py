"""Figures over several times: smallest, middle, 99th of a hundred, largest."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from attrs import asdict, frozen

__all__ = ["Spread", "milliseconds", "spread_of"]


@frozen
class Spread:
    """A spread of times in seconds.

    ``p99`` is the smallest time that 99 of 100 do not exceed; of fewer than 100 times it is the largest.
    """

    count: int
    min: float
    median: float
    p99: float
    max: float

    def as_json(self) -> dict[str, float]:
        """Return the figures, rounded to a tenth of a millisecond."""
        return {name: round(value, 4) for name, value in asdict(self).items()}


def spread_of(times: Sequence[float]) -> Spread | None:
    """Return the spread of the times; None without times."""
    if not times:
        return None
    ordered = sorted(times)
    place = math.ceil(0.99 * len(ordered)) - 1
    return Spread(len(ordered), ordered[0], statistics.median(ordered), ordered[place], ordered[-1])


def milliseconds(seconds: float | None, absent: str = "never") -> str:
    """Return a time in milliseconds as text, without its unit."""
    return absent if seconds is None else f"{seconds * 1000:,.0f}"
