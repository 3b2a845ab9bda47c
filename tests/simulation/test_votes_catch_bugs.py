"""The checkers of pairs that vote can fail: each bug is put into asker or voter, and ordinary seeds must find it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.simulation.scenario.plan import GroupMode
from tests.simulation.scenario.scenario import run_group_seed

from .hunting import Bug, hunt
from .vote_bugs import VOTE_BUGS

pytestmark = [pytest.mark.search, pytest.mark.timeout(900)]


@pytest.mark.parametrize("bug", VOTE_BUGS, ids=lambda bug: bug.__name__)
def test_the_ordinary_seeds_find(
    bug: Bug, monkeypatch: pytest.MonkeyPatch, record_property: Callable[..., None]
) -> None:
    hunt(GroupMode.VOTES.name, bug, lambda seed: run_group_seed(seed, GroupMode.VOTES), monkeypatch, record_property)
