"""A hunt begins with the seed that is known to have found the bug, and goes on with all the others."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import pytest

from tests.simulation.scenario import ScenarioFailed, SeedResult

from . import hunting
from .find_again import hunts
from .found_by import FOUND_BY
from .hunting import SEEDS_MAX, hunt


def a_bug(patch: pytest.MonkeyPatch) -> None:
    """Nothing is changed: the seeds of these tests are no scenarios."""


def seeds_run(monkeypatch: pytest.MonkeyPatch, known: int, finds: Callable[[int], bool]) -> list[int]:
    """The seeds that a hunt runs, in their order."""
    monkeypatch.setattr(hunting, "FOUND_BY", {"KIND": {"a_bug": known}})
    seeds: list[int] = []

    def run(seed: int) -> SeedResult:
        seeds.append(seed)
        if finds(seed):
            raise ScenarioFailed(seed, "found", [])
        return None  # type: ignore[return-value]

    hunt("KIND", a_bug, run, monkeypatch, lambda name, value: None)
    return seeds


def test_the_known_seed_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    assert seeds_run(monkeypatch, 90, lambda seed: seed == 90) == [90]


def test_when_it_finds_nothing_any_more_all_others_are_run(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = seeds_run(monkeypatch, 90, lambda seed: seed == SEEDS_MAX)
    assert ran == [90, *range(1, 90), *range(91, SEEDS_MAX + 1)]


def test_seeds_without_what_a_bug_concerns_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    hunting.needs(lambda seed: seed % 100 == 0)(a_bug)
    try:
        assert seeds_run(monkeypatch, 90, lambda seed: seed == 400) == [90, 100, 200, 300, 400]
    finally:
        hunting.needs(lambda _seed: True)(a_bug)


def test_no_seed_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(pytest.fail.Exception, match=f"{SEEDS_MAX} seeds did not find a_bug"):
        seeds_run(monkeypatch, 90, lambda seed: False)


def use_a_name_that_is_gone(broker: type[Any], patch: pytest.MonkeyPatch) -> None:
    patch.setattr(broker, "begin", lambda self, now: self._gone)


def have_other_arguments(broker: type[Any], patch: pytest.MonkeyPatch) -> None:
    patch.setattr(broker, "begin", lambda self: None)


@pytest.mark.parametrize("bug", [use_a_name_that_is_gone, have_other_arguments])
def test_a_bug_that_fails_by_itself_finds_nothing(
    monkeypatch: pytest.MonkeyPatch, bug: Callable[[type[Any], pytest.MonkeyPatch], None]
) -> None:
    class Broker:
        def begin(self, now: int) -> None:
            raise AttributeError("the broker fails")

    @wraps(bug)
    def in_broker(patch: pytest.MonkeyPatch) -> None:
        bug(Broker, patch)

    def run(seed: int) -> SeedResult:
        try:
            Broker().begin(1)
        except (AttributeError, TypeError) as error:
            raise ScenarioFailed(seed, str(error), []) from error
        raise AssertionError("it fails")

    with pytest.raises(pytest.fail.Exception, match=f"{bug.__name__} uses a name that is gone"):
        hunt("KIND", in_broker, run, monkeypatch, lambda name, value: None)


def test_each_known_seed_is_an_ordinary_one_of_a_bug_that_is_hunted() -> None:
    hunted = {(kind, bug.__name__) for kind, bug, _ in hunts()}
    known = {(kind, name): seed for kind, seeds in FOUND_BY.items() for name, seed in seeds.items()}
    assert known.keys() <= hunted
    assert all(seed >= 1 for seed in known.values())
