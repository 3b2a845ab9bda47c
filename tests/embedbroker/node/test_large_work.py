"""Work on many thousands of messages is done in steps that do not grow with it, and others are served meanwhile."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from embedbroker.config import BrokerConfig
from embedbroker.kernel.settling._move import MOVE_COST
from embedbroker.locks._lease_activation import GRACE_S
from embedbroker.storage.journal import _journal
from embedbroker.storage.recovery import _replay

from .large_work import WORKS, LargeWork, Measured, WorkStage, compaction, expiry_scan, lines_of, run, seconds_of

Work = Callable[[WorkStage, int], LargeWork]

works = pytest.mark.parametrize("work", WORKS, ids=lambda work: work.__name__)

# Enough for chunks, segments and slices of every kind to have been full in the smaller run.
FEW, MANY = 2_400, 7_200
WORK = 50
SEGMENT_BYTES = 1 << 20
SMALL_SEGMENT_BYTES = 1 << 16

# A step that does everything is fifteen times a fair one.
HUGE = 30_000
FULL_WORK = 2_000


@pytest.mark.search
@works
def test_no_step_does_more_because_there_is_more_to_do(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    """In lines of Python. Limits that do not depend on ``work_per_step_max`` are made as small."""
    monkeypatch.setattr(_replay, "SLICE", WORK)
    monkeypatch.setattr(_journal, "SETTLED_PER_CALL", WORK // 2)
    size = SMALL_SEGMENT_BYTES if work is compaction else SEGMENT_BYTES
    few, many = (run(work, count, lines_of, work_per_step_max=WORK, segment_size_bytes=size) for count in (FEW, MANY))
    assert max(many.all) <= 1.5 * max(few.all)
    assert max(many.other, default=0.0) <= 1.5 * max(few.all)


@pytest.mark.search
@works
def test_tens_of_thousands_of_messages_take_their_turns(work: Work) -> None:
    """In time, beside what the same run takes: what Python's lines do not show is freeing, copying and searching.

    A fair step is as long as its share of the messages; a request is worked on in several passes, and what is given
    only a note costs next to nothing.
    """

    def measure() -> Measured:
        return run(work, HUGE, seconds_of, work_per_step_max=FULL_WORK, segment_size_bytes=SEGMENT_BYTES)

    measured = measure()
    fair = sum(measured.all) * FULL_WORK / HUGE / (MOVE_COST if work is expiry_scan else 1)
    usual = percentile(measured.alone or measured.all, 50)
    longest, longest_other = 4 * fair + 20 * usual, 3 * fair + 20 * usual
    if max(measured.all) > longest or percentile(measured.other or [0.0], 99) > longest_other:
        measured = measured.at_best(measure())
    assert max(measured.all) <= longest
    assert percentile(measured.other or [0.0], 99) <= longest_other


@pytest.mark.search
@works
def test_the_longest_step_is_shorter_than_what_is_taken_off_a_lease(work: Work) -> None:
    """A step that begins with a lease ends, and confirms, before another broker may have it. A shorter lease than that
    of 2.5 s has less taken off, a fifth of it."""
    measured = run(work, 3 * FULL_WORK, seconds_of, work_per_step_max=FULL_WORK, segment_size_bytes=SEGMENT_BYTES)
    assert BrokerConfig().work_per_step_max == FULL_WORK
    assert 0 < max(measured.all) < GRACE_S / 2


def percentile(costs: list[float], share: int) -> float:
    return sorted(costs)[len(costs) * share // 100]
