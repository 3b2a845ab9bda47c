"""Numbers of options, where they may have a fraction.

Does not depend on which options there are.
"""

from __future__ import annotations

import math
from typing import Any

import click

__all__ = ["Number"]


class Number(click.FloatRange):
    """A finite number in a range.

    Python reads `nan` and `inf` as numbers, too, and with these no command would ever end.
    """

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a number with an end.", param, ctx)
        return number
