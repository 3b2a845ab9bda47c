"""Ordinary seeds come past every fault point: a bug that is put in there is a bug.

`test_patched_names.py` runs the seeds of the other kinds, whose points are reached seldom.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from .fault_points import FAULT_POINTS, fault_point, replace
from .scenario.scenario import run_seed

_SEEDS_MAX = 60


@pytest.mark.search
@pytest.mark.timeout(900)
def test_seeds_come_past_every_fault_point(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = set(FAULT_POINTS["ONE_BROKER"])

    def noted(name: str) -> Callable[..., Any]:
        original = fault_point(name)

        def passing(*arguments: Any, **options: Any) -> Any:
            missing.discard(name)
            return original(*arguments, **options)

        return passing

    for name in FAULT_POINTS["ONE_BROKER"]:
        replace(monkeypatch, name, noted(name))
    for seed in range(1, _SEEDS_MAX + 1):
        run_seed(seed)
        if not missing:
            return
    pytest.fail(f"{_SEEDS_MAX} seeds did not come past {sorted(missing)}")
