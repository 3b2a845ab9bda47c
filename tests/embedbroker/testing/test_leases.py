"""The simulated lock manager fails on purpose, in the ways that real ones have."""

from __future__ import annotations

import pytest

from embedbroker.locks import LockFault, ReadSequence, SwapSequence, TakeLease
from embedbroker.testing._leases import SimulatedLockManager


def test_an_answer_may_be_lost_of_what_was_done() -> None:
    manager = SimulatedLockManager(lambda: 0.0)
    session = manager.open("one")
    manager.breaks_after = 1
    with pytest.raises(LockFault, match="any more"):
        session.run((SwapSequence("key", 0, 1),))
    assert session.run((ReadSequence("key"),)) == (1,)


def test_what_comes_behind_the_break_was_not_done() -> None:
    manager = SimulatedLockManager(lambda: 0.0)
    session = manager.open("one")
    manager.breaks_after = 1
    with pytest.raises(LockFault):
        session.run((SwapSequence("key", 0, 1), SwapSequence("key", 1, 2)))
    assert manager.sequences == {"key": 1}


def test_a_batch_that_is_shorter_is_done_and_the_next_one_breaks() -> None:
    manager = SimulatedLockManager(lambda: 0.0)
    session = manager.open("one")
    manager.breaks_after = 2
    session.run((TakeLease("key"),))
    with pytest.raises(LockFault):
        session.run((ReadSequence("key"), ReadSequence("key")))
    assert session.run((ReadSequence("key"), ReadSequence("key"))) == (0, 0)
