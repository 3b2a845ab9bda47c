"""The blocking classes are what the generator writes from the async ones."""

from __future__ import annotations

import inspect
from typing import Protocol

import pytest

from embedclient import _client
from tools.blocking_source import MANAGEMENT_TARGET, MODULES, TARGET, WRAPPED, management_source, source_of


@pytest.mark.parametrize("module", MODULES)
def test_the_blocking_classes_are_up_to_date(module: str) -> None:
    assert (TARGET / f"{module}.py").read_text() == source_of(module), "run: python -m tools.blocking_source"


def test_every_client_class_that_waits_has_a_blocking_twin() -> None:
    classes = [getattr(_client, name) for name in _client.__all__]
    waiting = {
        found.__name__
        for found in classes
        if inspect.isclass(found)
        and Protocol not in found.__bases__
        and any(inspect.iscoroutinefunction(member) for member in vars(found).values())
    }
    by_hand = {"ConnectionFactory", "ServerLocator", "Opening"}
    below = {"TrioLoop"}  # the blocking facade runs on it
    assert waiting - by_hand - below - set(WRAPPED) == set()


def test_the_blocking_management_is_up_to_date() -> None:
    assert MANAGEMENT_TARGET.read_text() == management_source(), "run: python -m tools.blocking_source"
