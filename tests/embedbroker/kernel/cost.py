"""What something costs, in numbers that no load of the machine changes."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING

from attrs import frozen

if TYPE_CHECKING:
    from _typeshed import TraceFunction


@frozen
class Cost:
    """Lines of Python that ran, loops on one line counted by their rounds, and the most memory that was held at once.

    Loops inside C code are in neither number: a copy shows as memory, comparisons where a test gives the compared
    objects an ``__eq__`` of Python. What moves inside a list has to be bounded by the length of the list.
    """

    lines: int
    peak_bytes: int


def cost_of(action: Callable[[], object]) -> Cost:
    """Runs the action once, and counts."""
    lines = 0

    def count(_frame: FrameType, event: str, _argument: object) -> TraceFunction:
        nonlocal lines
        if event == "line":
            lines += 1
        return count

    tracer = sys.gettrace()
    tracemalloc.start()
    sys.settrace(count)
    try:
        action()
    finally:
        sys.settrace(tracer)
        peak_bytes = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return Cost(lines, peak_bytes)
