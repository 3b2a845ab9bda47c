"""Crashes between any two disk operations, over several lives of one directory: nothing confirmed is lost or changed.

Each case runs a random workload, cuts the power (or only kills the broker) at a random operation, with a random subset
of unsynced sectors lost, and compares what the next life recovers with the model. The next life may die in its own
recovery. On the simulated disk, and on real files beside it.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from embedbroker.storage.journal import _journal
from embedbroker.storage.journal import _live_index as _live_index
from embedbroker.testing._disk import SimulatedDisk
from tests.embedbroker.storage.journal_lives import FLOWING, MOMENTS, flow, live
from tests.embedbroker.storage.twin_disk import TwinDisk

pytestmark = [pytest.mark.search, pytest.mark.timeout(300)]

CASES = 160
# Enough for each moment: the size of a record decides which seeds tear a batch.
REAL_CASES = 32
FLOW_CASES = 40


@pytest.mark.parametrize("group", range(4))
def test_nothing_confirmed_is_lost_in_any_crash(group: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if group % 4 == 3:  # every transaction is a large one, whose messages are taken off the index little by little
        monkeypatch.setattr(_live_index, "SETTLED_AT_ONCE", 0)
        monkeypatch.setattr(_journal, "SETTLED_PER_CALL", 1)
    hits: Counter[str] = Counter()
    for seed in range(group * CASES, (group + 1) * CASES):
        hits += live(seed, SimulatedDisk())
    assert min(hits[moment] for moment in MOMENTS) >= 3, hits


def test_decisions_about_prepared_transactions_are_lost_in_no_crash() -> None:
    hits: Counter[str] = Counter()
    for seed in range(2000, 2000 + CASES // 2):
        hits += live(seed, SimulatedDisk(), decides=True)
    assert hits["decision"] >= 25, hits


def test_places_of_readers_are_lost_in_no_crash() -> None:
    hits: Counter[str] = Counter()
    for seed in range(3000, 3000 + CASES // 2):
        hits += live(seed, SimulatedDisk(), reads=True)
    assert hits["cursor"] >= 25, hits


def test_diverts_are_lost_in_no_crash_and_a_message_that_moves_is_in_one_queue() -> None:
    hits: Counter[str] = Counter()
    for seed in range(5000, 5000 + CASES // 2):
        hits += live(seed, SimulatedDisk(), diverts=True, moves=True)
    assert hits["divert"] >= 25 and hits["move on its way"] >= 25, hits


CHANGES = (
    "pause of a queue",
    "pause of an address",
    "update of a queue",
    "settings of kind address",
    "settings of kind security",
    "scheduled message",
    "delayed redelivery",
)


def test_changes_by_management_are_as_before_or_as_after_any_crash() -> None:
    """A definition comes back as it was before a change or after it, with all its fields, and so do times."""
    hits: Counter[str] = Counter()
    for seed in range(7000, 7000 + CASES):
        hits += live(seed, SimulatedDisk(), manages=True)
    assert min(hits[f"{change} safe"] for change in CHANGES) >= 100, hits
    assert min(hits[f"{change} on its way"] for change in CHANGES) >= 20, hits


@pytest.mark.parametrize("settles_late", [False, True])
def test_duplicate_ids_that_were_cleared_come_back_after_no_crash(
    settles_late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if settles_late:
        monkeypatch.setattr(_live_index, "SETTLED_AT_ONCE", 0)
        monkeypatch.setattr(_journal, "SETTLED_PER_CALL", 1)
    hits: Counter[str] = Counter()
    for seed in range(8000 + 500 * settles_late, 8000 + 500 * settles_late + CASES // 2):
        hits += live(seed, SimulatedDisk(), clears=True)
    for seed in range(9000 + 500 * settles_late, 9000 + 500 * settles_late + FLOW_CASES // 2):
        hits += live(seed, SimulatedDisk(), FLOWING, clears=True)
    assert hits["ids cleared"] >= 100 and hits["merged segment"] >= 30 and hits["compaction"] >= 3, hits


@pytest.mark.parametrize("settles_late", [False, True])
def test_a_commit_set_and_its_marker_survive_any_crash_together(
    settles_late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if settles_late:  # every set is a large one, whose transactions end in the index little by little
        monkeypatch.setattr(_live_index, "SETTLED_AT_ONCE", 0)
        monkeypatch.setattr(_journal, "SETTLED_PER_CALL", 1)
    hits: Counter[str] = Counter()
    for seed in range(3000 + 500 * settles_late, 3000 + 500 * settles_late + CASES):
        hits += live(seed, SimulatedDisk(), marks=True)
    assert min(hits[moment] for moment in (*MOMENTS, "commit set", "commit set not synced", "marker removed")) >= 3, (
        hits
    )
    assert not settles_late or hits["set not settled"] >= 3, hits


def test_nothing_confirmed_is_lost_in_any_crash_of_a_real_disk(tmp_path: Path) -> None:
    hits: Counter[str] = Counter()
    for seed in range(1000, 1000 + REAL_CASES):
        (tmp_path / str(seed)).mkdir()
        disk = TwinDisk(directory=tmp_path / str(seed))
        hits += live(seed, disk)
        disk.close()
    assert min(hits[moment] for moment in MOMENTS) >= 1, hits


@pytest.mark.parametrize("settles_late", [False, True])
def test_what_stays_in_a_flow_survives_compactions_and_crashes(
    settles_late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if settles_late:
        monkeypatch.setattr(_live_index, "SETTLED_AT_ONCE", 0)
        monkeypatch.setattr(_journal, "SETTLED_PER_CALL", 1)
    hits: Counter[str] = Counter()
    for seed in range(6000 + 500 * settles_late, 6000 + 500 * settles_late + FLOW_CASES):
        hits += flow(seed)
    assert hits["merged segment"] >= 60 and hits["compaction"] >= 5 and hits["open transaction"] >= 30, hits
