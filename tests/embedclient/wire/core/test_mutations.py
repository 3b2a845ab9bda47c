"""Mutated traffic gives values or RemoteProtocolError; the long campaign is ``nox -s fuzz``."""

from __future__ import annotations

from itertools import islice

import pytest

from tests.fuzz.campaign import run
from tests.fuzz.families import Family, families
from tests.fuzz.mutations import mutations

MUTATIONS = 100_000


@pytest.mark.search
@pytest.mark.parametrize("family", families(), ids=lambda family: family.name)
def test_mutations_are_read_or_refused(family: Family) -> None:
    outcome = run(family, MUTATIONS, seed=20_240_101)
    # A family in which nothing, or everything, is refused tests nothing.
    assert outcome.accepted > MUTATIONS // 20
    assert outcome.refused > MUTATIONS // 20


def test_equal_seeds_give_equal_mutations() -> None:
    corpus = [bytes(20), b"abc" * 10]
    first, second, third = (list(islice(mutations(corpus, seed), 200)) for seed in (1, 1, 2))
    assert first == second != third


def test_a_failure_names_its_input() -> None:
    def explode(index: int, data: bytes) -> bool:
        raise ValueError("boom")

    with pytest.raises(ValueError, match="boom") as caught:
        run(Family("test", (b"\0",), explode), 10, seed=7)
    assert caught.value.__notes__[0].startswith("test, seed 7, input 1: corpus 0, ")
