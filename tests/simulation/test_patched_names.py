"""Each name that a bug replaces exists, and ordinary seeds come past it: no refactoring switches a mutation check off.

Bugs name points of `fault_points.py`, or replace a public name of a class or a module. Which it is, is found out here
by letting each bug patch a recorder.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator
from types import FunctionType, MemberDescriptorType, ModuleType
from typing import Any, cast

import pytest

from .find_again import Hunt, hunts

pytestmark = [pytest.mark.search, pytest.mark.timeout(900)]

_SEEDS_MAX = 60
_HUNTS = hunts()
_KINDS = sorted({kind for kind, _, _ in _HUNTS})
_MISSING = object()


class Recorder:
    """Takes the place of a MonkeyPatch and replaces nothing. ``found`` has each target and name once."""

    def __init__(self) -> None:
        self.found: dict[str, tuple[Any, str]] = {}

    def setattr(self, target: Any, name: str, value: object, raising: bool = True) -> None:
        self.found[f"{target.__name__}.{name}"] = (target, name)


def patched(of: list[Hunt]) -> dict[str, tuple[Any, str]]:
    recorder = Recorder()
    for _, bug, _ in of:
        names = Recorder()
        bug(cast(pytest.MonkeyPatch, names))
        assert names.found, f"{bug.__name__} patches nothing"
        recorder.found.update(names.found)
    return recorder.found


def of_kind(kind: str) -> list[Hunt]:
    return [each for each in _HUNTS if each[0] == kind]


def observed(found: object, name: str, note: Callable[[], None]) -> object:
    """Return what notes each use of an attribute, and otherwise does the same."""
    if isinstance(found, staticmethod):
        return staticmethod(cast(FunctionType, observed(found.__func__, name, note)))
    if isinstance(found, FunctionType):

        def call(*arguments: Any, **options: Any) -> Any:
            note()
            return found(*arguments, **options)

        return call

    def read(self: Any) -> Any:
        note()
        if isinstance(found, property):
            assert found.fget is not None
            return found.fget(self)
        return found.__get__(self, type(self)) if isinstance(found, MemberDescriptorType) else self.__dict__[name]

    def write(self: Any, value: object) -> None:
        if isinstance(found, property | MemberDescriptorType):
            found.__set__(self, value)
        else:
            self.__dict__[name] = value

    return property(read, write)


def is_used_in(module: ModuleType, name: str) -> bool:
    """Return True if a module reads one of its constants."""
    nodes = ast.walk(ast.parse(inspect.getsource(module)))
    return any(isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load) for node in nodes)


def observe(patch: pytest.MonkeyPatch, names: dict[str, tuple[Any, str]]) -> set[str]:
    """Observe each name. Return those that have not been used, which shrink while seeds run."""
    missing = set(names)

    def note(text: str) -> Callable[[], None]:
        return lambda: missing.discard(text)

    for text, (target, name) in names.items():
        found = inspect.getattr_static(target, name, _MISSING)
        if isinstance(target, ModuleType) and not isinstance(found, FunctionType):
            assert found is not _MISSING and is_used_in(target, name), text
            missing.discard(text)
        else:
            # An attribute of instances alone is missing here; it counts when an instance has it and it is read.
            patch.setattr(target, name, observed(found, name, note(text)), raising=False)
    return missing


def runs(kind: str) -> Iterator[Callable[[], object]]:
    _, _, run = of_kind(kind)[0]
    for seed in range(1, _SEEDS_MAX + 1):
        yield lambda seed=seed: run(seed)  # type: ignore[misc]  # bound now


@pytest.mark.parametrize("kind", _KINDS)
def test_seeds_come_past_every_name_that_a_bug_replaces(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = observe(monkeypatch, patched(of_kind(kind)))
    for run in runs(kind):
        if not missing:
            return
        run()
    assert not missing, f"{_SEEDS_MAX} seeds did not come past {sorted(missing)}"


def test_a_name_that_nothing_uses_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broker:
        def __init__(self) -> None:
            self.state = "live"

        def deliver(self) -> str:
            return self.state

        @property
        def is_live(self) -> bool:
            return self.state == "live"

    names = ("deliver", "settle", "is_live", "state")
    missing = observe(monkeypatch, {name: (Broker, name) for name in names})
    broker = Broker()
    assert missing == set(names)
    assert (broker.is_live, missing) == (True, {"deliver", "settle"})
    assert (broker.deliver(), missing) == ("live", {"settle"})
