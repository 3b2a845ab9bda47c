"""Results as rows: ours, the reference, their ratio, and whether the row meets its bound."""

from __future__ import annotations

import json
import os
import platform
import sysconfig
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from attrs import asdict, field, frozen

Better = Literal["higher", "lower"]


@frozen
class Row:
    """One figure of one case. With a `reference` the bounds are for the ratio ours / reference, else for `ours`."""

    case: str
    metric: str
    unit: str
    ours: float
    reference: float | None
    better: Better
    must: float | None = None
    aim: float | None = None
    details: dict[str, object] = field(factory=dict)

    @property
    def judged(self) -> float:
        """The value that is compared with the bounds."""
        return self.ours if self.reference is None else self.ours / self.reference

    def meets(self, bound: float | None) -> bool | None:
        """Return True if the bound holds; None without one."""
        if bound is None:
            return None
        return self.judged >= bound if self.better == "higher" else self.judged <= bound


def number(value: float | None) -> str:
    """Return three significant digits, or thousands."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def table(rows: Sequence[Row]) -> str:
    """Return the rows as a Markdown table."""
    lines = ["| Case | Metric | Ours | Reference | Ratio | Must | Aim | |", "|---|---|---|---|---|---|---|---|"]
    for row in rows:
        sign = "≥" if row.better == "higher" else "≤"
        ratio = "-" if row.reference is None else f"{row.judged:.2f}"
        must, aim = (f"{sign} {number(bound)}" if bound is not None else "-" for bound in (row.must, row.aim))
        verdict = {None: "", True: "ok", False: "**missed**"}[row.meets(row.must)]
        if verdict == "ok" and row.meets(row.aim):
            verdict = "aim"
        figures = f"{number(row.ours)} {row.unit} | {number(row.reference)} {row.unit if row.reference else ''}"
        lines.append(f"| {row.case} | {row.metric} | {figures} | {ratio} | {must} | {aim} | {verdict} |")
    return "\n".join(lines)


def is_optimized() -> bool:
    """Return True if the interpreter was built with --enable-optimizations.

    Without, everything takes 1.2 times as long.
    """
    return "--enable-optimizations" in str(sysconfig.get_config_var("CONFIG_ARGS"))


def environment() -> dict[str, object]:
    """Return what a reader needs to judge the figures."""
    return {
        "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "python": platform.python_version(),
        "optimized": is_optimized(),
        "system": platform.platform(),
        "cores": os.cpu_count(),
        "load_average": os.getloadavg(),
    }


def save(rows: Sequence[Row], path: Path, before: dict[str, object]) -> None:
    """Write everything as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = {"before": before, "after": environment(), "rows": [{**asdict(row), "judged": row.judged} for row in rows]}
    path.write_text(json.dumps(data, indent=1, ensure_ascii=False))
