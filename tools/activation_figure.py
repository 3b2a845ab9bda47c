"""The figure of a replicating broker's stages in the documentation, drawn from the table `TRANSITIONS`.

Responsible for the places of stages and labels, and for the file: `python -m tools.activation_figure` writes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import pairwise
from math import hypot
from pathlib import Path

from embedbroker.ha.replication._stages import ROLES, TRANSITIONS, Event, Stage

FIGURE = Path(__file__).parents[1] / "docs" / "activation.svg"
Point = tuple[float, float]

_WIDTH, _HEIGHT = 1000, 790
_BOX = (152.0, 42.0)
#: Characters of the text below a name that fit into a box.
_ABOUT_MAX = 29
#: The middle of each stage's box.
_PLACES: dict[Stage, Point] = {
    Stage.NEW: (500, 50),
    Stage.READING: (500, 135),
    Stage.SEARCHING: (120, 250),
    Stage.REQUESTING_LEASE: (880, 250),
    Stage.BACKUP: (500, 370),
    Stage.VOTING: (120, 570),
    Stage.GRANTED: (500, 570),
    Stage.RECORDING: (500, 650),
    Stage.ACTIVE: (200, 650),
    Stage.LEAVING: (500, 735),
    Stage.OVER: (780, 735),
}
#: What an edge goes through, where a straight line would cross a box.
_THROUGH: dict[tuple[Stage, Stage], Point] = {(Stage.READING, Stage.GRANTED): (655, 300)}
#: How far along its edge a label stands, where the middle is taken.
_LABEL_AT = {
    (Stage.READING, Stage.BACKUP): 0.6,
    (Stage.READING, Stage.GRANTED): 0.25,
    (Stage.SEARCHING, Stage.GRANTED): 0.28,
    (Stage.VOTING, Stage.BACKUP): 0.2,
    (Stage.BACKUP, Stage.VOTING): 0.25,
    (Stage.REQUESTING_LEASE, Stage.GRANTED): 0.35,
    (Stage.REQUESTING_LEASE, Stage.BACKUP): 0.3,
}
#: Distance between the two edges of a pair of stages that have one each way.
_APART = 14.0
_COLOURS = {"LIVE": "#dcefd9", "BACKUP": "#f3f3ef", "ACTIVATING": "#fbf0cc", "STOPPED": "#fff"}
_SIZE = f'viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" font-size="13"'
_HEAD = f"""<svg xmlns="http://www.w3.org/2000/svg" {_SIZE}>
  <title>The stages of the activation of a replicating broker, and what leads from one to the next</title>
  <defs>
    <marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">
      <path d="M0,0 L8,4 L0,8 z" fill="#333"/>
    </marker>
  </defs>
  <rect width="{_WIDTH}" height="{_HEIGHT}" rx="8" fill="#fff"/>"""


def figure() -> str:
    """Return the figure: an edge per pair of stages, with the events that lead from one to the other.

    Every stage may end. The edges for that are left out, but for the one from LEAVING.
    """
    edges: dict[tuple[Stage, Stage], list[Event]] = {}
    for stage, row in TRANSITIONS.items():
        for event, following in row.items():
            if following is not Stage.OVER or event is Event.HANDED_OVER:
                edges.setdefault((stage, following), []).append(event)
    lines, labels = [], []
    for (stage, following), events in edges.items():
        line, label = _edge(stage, following, ", ".join(event.value for event in events), set(edges))
        lines.append(line)
        labels += label
    boxes = [part for stage in Stage for part in _box(stage)]
    return "\n".join([_HEAD, *lines, *labels, *boxes, "</svg>"]) + "\n"


def _box(stage: Stage) -> list[str]:
    (x, y), (width, height) = _PLACES[stage], _BOX
    role = ROLES.get(stage)
    colour = "#d9e6f7" if role is None else _COLOURS[role.name]
    name = stage.name.replace("_", " ")
    about = [] if stage.value == name.lower() or len(stage.value) > _ABOUT_MAX else [stage.value]
    return [
        f'  <rect x="{x - width / 2:g}" y="{y - height / 2:g}" width="{width:g}" height="{height:g}" rx="6" '
        f'fill="{colour}" stroke="#777"/>',
        _text(x, y - 2 if about else y + 4.5, name, "font-weight", "bold"),
        *(_text(x, y + 13, text, "font-size", "10") for text in about),
    ]


def _text(x: float, y: float, text: str, attribute: str, value: str) -> str:
    return f'  <text x="{x:g}" y="{y:g}" text-anchor="middle" {attribute}="{value}">{escape(text)}</text>'


def _edge(stage: Stage, following: Stage, text: str, edges: set[tuple[Stage, Stage]]) -> tuple[str, list[str]]:
    """Return the line of an edge, and its label on a white ground."""
    if stage is following:
        (x, y), (width, height) = _PLACES[stage], _BOX
        right, low = x + width / 2, y + height / 2
        path = f"M{right - 30:g},{low:g} C{right - 25:g},{low + 45:g} {right + 60:g},{low + 35:g} {right:g},{y + 8:g}"
        return _line(path), _label((right + 75, low + 36), text)
    points = [_PLACES[stage], _PLACES[following]]
    through = _THROUGH.get((stage, following))
    if through is not None:
        points.insert(1, through)
    elif (following, stage) in edges:
        points = _beside(points)
    first, last = _border(stage, points[0], points[1]), _border(following, points[-1], points[-2])
    points = [first, *points[1:-1], last]
    path = "M" + " L".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return _line(path), _label(_along(points, _LABEL_AT.get((stage, following), 0.5)), text)


def _line(path: str) -> str:
    return f'  <path d="{path}" fill="none" stroke="#333" marker-end="url(#head)"/>'


def _label(place: Point, text: str) -> list[str]:
    x, y = place
    width = 5.6 * len(text) + 6
    return [
        f'  <rect x="{x - width / 2:.1f}" y="{y - 9:.1f}" width="{width:.1f}" height="16" fill="#fff"/>',
        _text(round(x, 1), round(y + 3.5, 1), text, "font-size", "11"),
    ]


def _beside(points: Sequence[Point]) -> list[Point]:
    """Return a line shifted to its right-hand side."""
    (x0, y0), (x1, y1) = points
    length = hypot(x1 - x0, y1 - y0)
    right, down = -(y1 - y0) / length * _APART, (x1 - x0) / length * _APART
    return [(x0 + right, y0 + down), (x1 + right, y1 + down)]


def _border(stage: Stage, inside: Point, other: Point) -> Point:
    """Return where the line from a point in the box of a stage to another point leaves the box."""
    (x, y), (dx, dy) = inside, (other[0] - inside[0], other[1] - inside[1])
    (middle_x, middle_y), (width, height) = _PLACES[stage], _BOX
    across = (width / 2 - (x - middle_x) * (1 if dx > 0 else -1)) / abs(dx) if dx else 2
    down = (height / 2 - (y - middle_y) * (1 if dy > 0 else -1)) / abs(dy) if dy else 2
    share = min(across, down)
    return x + dx * share, y + dy * share


def _along(points: Sequence[Point], share: float) -> Point:
    lengths = [hypot(b[0] - a[0], b[1] - a[1]) for a, b in pairwise(points)]
    left = share * sum(lengths)
    for ((x0, y0), (x1, y1)), length in zip(pairwise(points), lengths, strict=True):
        if left <= length:
            return x0 + (x1 - x0) * left / length, y0 + (y1 - y0) * left / length
        left -= length
    return points[-1]


if __name__ == "__main__":
    FIGURE.write_text(figure())
