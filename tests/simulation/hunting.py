"""The hunt for a bug: it is put into broker or client, and the ordinary seeds must find it.

No scenario is written for a bug. One that the first three hundred seeds do not find is a hole in workload, faults or
checkers. Any of these seeds may find it: the one that is known to have found it runs first, since reaching it in order
takes minutes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from itertools import count, islice
from typing import Any

import pytest

from embedbroker.kernel import XaBranches
from embedbroker.kernel._memory import MemoryAccount
from embedbroker.storage import Journal
from embedbroker.storage.recovery._recovered import RecoveredState
from tests.simulation.scenario import ScenarioFailed, SeedResult

from .fault_points import fault_point, replace
from .found_by import FOUND_BY

__all__ = [
    "Bug",
    "confirm_before_sync",
    "every",
    "failed_by_itself",
    "forget_duplicate_ids",
    "hunt",
    "known_seed",
    "last_account",
    "lose_a_prepared_branch",
    "needs",
    "seeds_for",
]

SEEDS_MAX = 400

Bug = Callable[[pytest.MonkeyPatch], None]


def every(number: int) -> Callable[[], bool]:
    """True once in so many calls."""
    calls = count(1)
    return lambda: next(calls) % number == 0


# By bug, which seeds have in their plan what it concerns.
_NEEDED: dict[Bug, Callable[[int], bool]] = {}


def needs(has_it: Callable[[int], bool]) -> Callable[[Bug], Bug]:
    """Hunt for a bug with the seeds that have in their plan what it concerns: the others cannot find it."""

    def note(bug: Bug) -> Bug:
        _NEEDED[bug] = has_it
        return bug

    return note


def known_seed(kind: str, bug: Bug) -> int:
    """The seed that found a bug before, or 1."""
    return FOUND_BY.get(kind, {}).get(bug.__name__, 1)


def seeds_for(kind: str, bug: Bug) -> Iterator[int]:
    """The seeds that may find a bug: first the seed that found it before."""
    known = known_seed(kind, bug)
    yield known
    has_it = _NEEDED.get(bug)
    others = (seed for seed in count(1) if seed != known and (has_it is None or has_it(seed)))
    yield from islice(others, SEEDS_MAX - 1)


def hunt(
    kind: str,
    bug: Bug,
    run: Callable[[int], SeedResult],
    patch: pytest.MonkeyPatch,
    record_property: Callable[..., None],
) -> None:
    """Run seeds of this kind until one finds the bug; none is a failure."""
    bug(patch)
    for seed in seeds_for(kind, bug):
        try:
            run(seed)
        except ScenarioFailed as failure:
            if failed_by_itself(bug, failure):
                pytest.fail(f"{bug.__name__} uses a name that is gone: {failure.text}")
            record_property("found by", f"seed {seed}: {failure.text.splitlines()[0]}")
            return
    pytest.fail(f"{SEEDS_MAX} seeds did not find {bug.__name__}")


def failed_by_itself(bug: Bug, failure: ScenarioFailed) -> bool:
    """Return True if the code of the bug raised the error: then it uses what a refactoring took away.

    An error of a call that has other arguments names the function, and is raised outside of it.
    """
    if isinstance(failure.__cause__, TypeError) and str(failure.__cause__).startswith(f"{bug.__name__}."):
        return True
    step = failure.__cause__.__traceback__ if failure.__cause__ is not None else None
    if step is None or not isinstance(failure.__cause__, AttributeError | TypeError):
        return False
    while step.tb_next is not None:
        step = step.tb_next
    return step.tb_frame.f_code.co_filename == inspect.getfile(bug)


def last_account(patch: pytest.MonkeyPatch) -> Callable[[], MemoryAccount]:
    """Return a function that returns the account in which memory was held last."""
    hold, found = fault_point("hold memory"), list[MemoryAccount]()

    def noted(self: MemoryAccount, *arguments: Any) -> None:
        found[:] = [self]
        hold(self, *arguments)

    replace(patch, "hold memory", noted)
    return lambda: found[0]


# Bugs that one broker can have, and groups too.


def confirm_before_sync(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Journal, "point", lambda self: self.reached)


def lose_a_prepared_branch(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(XaBranches, "restore", lambda self, xid, transaction: None)


def forget_duplicate_ids(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RecoveredState, "take_duplicate_ids", lambda self, limit: [])
