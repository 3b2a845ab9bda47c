"""A chart over time: lines, marked bands, and lanes of states below the axis.

Responsible for scales and ticks. The template `chart.svg` draws them; its page has the style classes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from attrs import frozen

__all__ = ["Band", "Chart", "Lane", "Series", "Stretch", "lanes_of"]


@frozen
class Series:
    """Hold a line: its name, the class that styles it, and (seconds, value) points."""

    name: str
    style: str
    points: Sequence[tuple[float, float]]


@frozen
class Band:
    """Hold a stretch of time, marked at its beginning, with a text for it."""

    start: float
    end: float
    label: str
    text: str


@frozen
class Stretch:
    """Hold a part of a lane: its times, the class that styles it, and a text for it."""

    start: float
    end: float
    style: str
    text: str


@frozen
class Lane:
    """Hold stretches one after the other, below the time axis."""

    name: str
    stretches: Sequence[Stretch]


def lanes_of(changes: Iterable[tuple[float, str, str]], end: float, digits: int) -> list[Lane]:
    """Return one lane per name of (seconds, name, state) changes; a state lasts until the next one of its name.

    Args:
        changes: seconds, name and state of each change, in the order of time for each name.
        end: seconds at which the last states end.
        digits: decimal places of the seconds in the texts.
    """
    found: dict[str, list[tuple[float, str]]] = {}
    for at, name, state in changes:
        found.setdefault(name, []).append((at, state))
    lanes = []
    for name, points in found.items():
        ends = [*(at for at, _ in points[1:]), end]
        stretches = [
            Stretch(at, min(until, end), state, f"{name}: {state} from {at:.{digits}f} s to {until:.{digits}f} s")
            for (at, state), until in zip(points, ends, strict=True)
            if at < min(until, end)
        ]
        lanes.append(Lane(name, stretches))
    return lanes


#: Width of a letter of a lane's name, at most.
_LETTER = 7


@frozen
class Chart:
    """Hold the data of the template `chart.svg`. Times are seconds, or hours where `x_unit` is "h"."""

    unit: str
    end: float
    series: Sequence[Series]
    bands: Sequence[Band] = ()
    lanes: Sequence[Lane] = ()
    x_unit: str = "s"

    width = 1000
    floor = 280
    right, top, bottom = 984, 30, 320
    lane_step, lane_height = 24, 18

    @property
    def left(self) -> float:
        """Return where the axis begins: the names of the lanes end there."""
        return max(64, 16 + _LETTER * max((len(lane.name) for lane in self.lanes), default=0))

    @property
    def height(self) -> int:
        return self.bottom + len(self.lanes) * self.lane_step

    @property
    def y_end(self) -> float:
        """Return the value at the top: the next multiple of a step above the highest point."""
        return max(self._y_step, math.ceil(self._highest / self._y_step) * self._y_step)

    def x(self, at: float) -> float:
        end = max(self.end, 0.001)
        return self.left + (self.right - self.left) * min(at, end) / end

    def y(self, value: float) -> float:
        return self.floor - (self.floor - self.top) * value / self.y_end

    def x_ticks(self) -> list[float]:
        return _ticks(_round_step(self.end / 10), max(self.end, 0.001))

    def y_ticks(self) -> list[float]:
        return _ticks(self._y_step, self.y_end)

    def points(self, line: Series) -> str:
        return " ".join(f"{self.x(at):.1f},{self.y(value):.1f}" for at, value in line.points)

    @property
    def _highest(self) -> float:
        return max((value for line in self.series for _, value in line.points), default=0.0)

    @property
    def _y_step(self) -> float:
        return _round_step(self._highest / 5)


def _round_step(rough: float) -> float:
    """Return the next 1, 2 or 5 times a power of ten."""
    if rough <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(rough))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= rough * 0.999)


def _ticks(step: float, end: float) -> list[float]:
    return [number * step for number in range(int(end / step + 0.001) + 1)]
