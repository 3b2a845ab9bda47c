"""The drill's time line as an SVG drawing: messages per second, outages, and what each broker was.

Responsible for coordinates and axes. Refuses to know what a drill is; it is given series, bands and lanes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape

from attrs import frozen

__all__ = ["Band", "Lane", "Series", "Stretch", "chart"]

WIDTH, HEIGHT = 1000, 320
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 30, 40
LANE_HEIGHT, LANE_GAP = 18, 6


@frozen
class Series:
    """A line: its name, the class that styles it, and (seconds, value) points."""

    name: str
    style: str
    points: Sequence[tuple[float, float]]


@frozen
class Band:
    """A stretch of time, marked at its beginning, with a text for it."""

    start: float
    end: float
    label: str
    text: str


@frozen
class Stretch:
    """A part of a lane: its times, the class that styles it, and a text for it."""

    start: float
    end: float
    style: str
    text: str


@frozen
class Lane:
    """Stretches one after the other, below the time axis."""

    name: str
    stretches: Sequence[Stretch]


def chart(
    series: Sequence[Series], bands: Sequence[Band], lanes: Sequence[Lane], end: float, unit: str, *, x_unit: str = "s"
) -> str:
    """An ``<svg>`` element that needs nothing from outside but the style classes of its page. Times are seconds, or
    what ``x_unit`` says.
    """
    highest = max((value for line in series for _, value in line.points), default=0.0)
    y_step = _round_step(highest / 5)
    y_end = max(y_step, math.ceil(highest / y_step) * y_step)
    x_step = _round_step(end / 10)
    place = _Place(max(end, 0.001), y_end)
    height = HEIGHT + len(lanes) * (LANE_HEIGHT + LANE_GAP)
    parts = [f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(unit)} over time">']
    parts.extend(_bands(place, bands))
    parts.extend(_grid(place, x_step, y_step, x_unit))
    for line in series:
        points = " ".join(f"{place.x(at):.1f},{place.y(value):.1f}" for at, value in line.points)
        parts.append(f'<polyline class="{line.style}" points="{points}"/>')
    for number, lane in enumerate(lanes):
        parts.extend(_lane(place, lane, HEIGHT + number * (LANE_HEIGHT + LANE_GAP)))
    parts.extend(_legend(series, unit))
    parts.append("</svg>")
    return "\n".join(parts)


@frozen
class _Place:
    end_s: float
    end_y: float

    def x(self, at: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * min(at, self.end_s) / self.end_s

    def y(self, value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / self.end_y


def _round_step(rough: float) -> float:
    """The next 1, 2 or 5 times a power of ten."""
    if rough <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(rough))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= rough * 0.999)


def _steps(step: float, end: float) -> Iterable[float]:
    return (number * step for number in range(int(end / step + 0.001) + 1))


def _grid(place: _Place, x_step: float, y_step: float, x_unit: str) -> Iterable[str]:
    floor = place.y(0)
    for value in _steps(y_step, place.end_y):
        y = place.y(value)
        yield f'<line class="grid" x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}"/>'
        yield f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{value:,g}</text>'
    for at in _steps(x_step, place.end_s):
        x = place.x(at)
        yield f'<line class="grid" x1="{x:.1f}" y1="{floor:.1f}" x2="{x:.1f}" y2="{floor + 5:.1f}"/>'
        yield f'<text x="{x:.1f}" y="{floor + 20:.1f}" text-anchor="middle">{at:g} {x_unit}</text>'


def _bands(place: _Place, bands: Sequence[Band]) -> Iterable[str]:
    top, floor = TOP, place.y(0)
    for band in bands:
        x, end = place.x(band.start), place.x(band.end)
        yield f"<g><title>{escape(band.text)}</title>"
        yield f'<rect class="outage" x="{x:.1f}" y="{top}" width="{max(1.0, end - x):.1f}" height="{floor - top:.1f}"/>'
        yield f'<line class="kill" x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{floor:.1f}"/>'
        yield f'<text class="kill" x="{x + 4:.1f}" y="{top + 12}">{escape(band.label)}</text></g>'


def _lane(place: _Place, lane: Lane, top: float) -> Iterable[str]:
    yield f'<text x="{LEFT - 8}" y="{top + LANE_HEIGHT - 5}" text-anchor="end">{escape(lane.name)}</text>'
    for part in lane.stretches:
        x, end = place.x(part.start), place.x(part.end)
        yield (
            f'<rect class="{part.style}" x="{x:.1f}" y="{top}" width="{max(0.5, end - x):.1f}" height="{LANE_HEIGHT}">'
            f"<title>{escape(part.text)}</title></rect>"
        )


def _legend(series: Sequence[Series], unit: str) -> Iterable[str]:
    yield f'<text x="{LEFT}" y="16">{escape(unit)}</text>'
    x = WIDTH - RIGHT - 140 * len(series)
    for line in series:
        yield f'<line class="{line.style}" x1="{x}" y1="12" x2="{x + 24}" y2="12"/>'
        yield f'<text x="{x + 30}" y="16">{escape(line.name)}</text>'
        x += 140
