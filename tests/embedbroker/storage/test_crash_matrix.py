"""Crashes between any two disk operations, over several lives of one directory: nothing confirmed is lost or changed.

Each case runs a random workload, cuts the power (or only kills the broker) at a random operation, with a random subset
of unsynced sectors lost, and compares what the next life recovers with the model. The next life may die in its own
recovery. On the simulated disk, and on real files beside it.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest

from embedbroker.kernel import CommitSet, MarkerRemoved
from embedbroker.storage import Allocate, Journal, JournalState, Lane, Rename, _journal, _liveness
from embedbroker.storage._segments import COMPACTING
from embedbroker.testing._disk import SimulatedDisk
from tests.embedbroker.storage.journal_model import NOW, SMALL, ModelState, RecordedJournal
from tests.embedbroker.storage.journal_workload import Workload
from tests.embedbroker.storage.twin_disk import TwinDisk

pytestmark = pytest.mark.search

CASES = 160
REAL_CASES = 16
LIVES = 5

# What a crash has to interrupt, and what a recovery has to find, before the cases count as a matrix.
MOMENTS = (
    *("records not synced", "sectors not synced", "open transaction", "prepared transaction"),
    *("segment switch", "segment prepared", "reused segment", "compaction", "replaced segments left", "recovery"),
    *("torn batch cut", "killed with the system alive"),
)


def crash(disk: SimulatedDisk, random: Random, hits: Counter[str]) -> None:
    unsynced = any(file.older for file in disk._files.values())
    if random.random() < 0.8:
        hits["sectors not synced"] += unsynced
        disk.crash(random)
    else:  # only the broker was killed: the system still has everything that was written
        hits["killed with the system alive"] += unsynced
        if isinstance(disk, TwinDisk):
            disk.kill()


def recover_with_crashes(disk: SimulatedDisk, random: Random, hits: Counter[str]) -> Journal:
    """Recover, dying up to twice while doing so."""
    for _ in range(random.choice((0, 0, 0, 1, 2))):
        dying = RecordedJournal(disk)
        dying.open()
        for _ in range(random.randrange(1, 40)):
            if dying.journal.state is not JournalState.RECOVERING or not dying.step():
                break
        hits["recovery"] += dying.journal.state is JournalState.RECOVERING
        crash(disk, random, hits)
    living = RecordedJournal(disk)
    living.open()
    while living.journal.state is JournalState.RECOVERING:
        assert living.step()
    return living.journal


def count_moment(recorded: RecordedJournal, state: ModelState, hits: Counter[str]) -> None:
    """What the crash that comes now interrupts."""
    journal = recorded.journal
    names = recorded.file_names()
    hits["records not synced"] += journal.point() != journal.reached
    hits["open transaction"] += bool(state.transactions)
    hits["decision"] += bool(state.outcomes)
    for (_, (fact, *_)), point in ((call, point) for call, point in recorded.history if call[0] == "note"):
        hits["commit set"] += isinstance(fact, CommitSet)
        hits["commit set not synced"] += isinstance(fact, CommitSet) and point > journal.reached
        hits["marker removed"] += isinstance(fact, MarkerRemoved)
    hits["set not settled"] += bool(journal._liveness.ending)
    hits["cursor"] += bool(state.cursors)
    hits["prepared transaction"] += bool(state.prepared)
    writing = recorded.under_way.get(Lane.JOURNAL)
    hits["segment switch"] += writing is not None and any(
        isinstance(operation, Allocate | Rename) for operation in writing[0].operations
    )
    hits["segment prepared"] += journal._supply.preparing
    hits["reused segment"] += bool(journal._segments) and journal._segments[-1].reused
    hits["compaction"] += COMPACTING in names
    hits["replaced segments left"] += any(
        segment.compacted and any(name in names for name in replaced_by(segment.first, segment.last))
        for segment in journal._segments
    )


def replaced_by(first: int, last: int) -> list[str]:
    """The files that a merged segment makes superfluous, while the journal has not removed them yet."""
    return [f"segment-{generation:010}.journal" for generation in range(first, last + 1) if first != last]


def live(
    seed: int, disk: SimulatedDisk, *, decides: bool = False, marks: bool = False, reads: bool = False
) -> Counter[str]:
    """One directory through several lives; returns how often interesting moments were hit."""
    random = Random(seed)
    previous: RecordedJournal | None = None
    hits = Counter(dict.fromkeys(MOMENTS, 0))
    for _ in range(LIVES):
        journal = recover_with_crashes(disk, random, hits)
        assert journal.state is JournalState.READY, (seed, journal.failure)
        hits["torn batch cut"] += any("is cut" in note for note in journal.notes)
        assert journal.recovered is not None
        state = previous.check_recovered(journal.recovered) if previous else ModelState()
        previous = recorded = RecordedJournal(disk, SMALL, state, journal=journal)
        workload = Workload.on(random, state)
        workload.decides, workload.marks, workload.reads = decides, marks, reads
        held: Lane | None = None
        for _ in range(random.choice((5, 40, 130, 340))):
            name, arguments = workload.call()
            recorded.call(name, *arguments)
            if random.random() < 0.2:
                journal.on_tick(NOW)
            if random.random() < 0.04:
                held = random.choice((None, None, *Lane))  # one lane gets slow for a while
            for _ in range(random.choice((0, 0, 0, 1, 3, 9, 30))):
                if not recorded.step(random, held):
                    break
        assert journal.state is JournalState.READY, (seed, journal.failure)
        assert not any("compaction found damage" in note for note in journal.notes), (seed, journal.notes)
        if random.random() < 0.2:
            recorded.close()
        count_moment(recorded, workload.state, hits)
        crash(disk, random, hits)
    return hits


@pytest.mark.parametrize("group", range(8))
def test_nothing_confirmed_is_lost_in_any_crash(group: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if group % 4 == 3:  # every transaction is a large one, whose messages are taken off the index little by little
        monkeypatch.setattr(_liveness, "_SETTLED_AT_ONCE", 0)
        monkeypatch.setattr(_journal, "_SETTLED_PER_CALL", 1)
    hits: Counter[str] = Counter()
    for seed in range(group * CASES, (group + 1) * CASES):
        hits += live(seed, SimulatedDisk())
    assert min(hits[moment] for moment in MOMENTS) >= 3, hits


def test_decisions_about_prepared_transactions_are_lost_in_no_crash() -> None:
    hits: Counter[str] = Counter()
    for seed in range(2000, 2000 + CASES):
        hits += live(seed, SimulatedDisk(), decides=True)
    assert hits["decision"] >= 50, hits


def test_places_of_readers_are_lost_in_no_crash() -> None:
    hits: Counter[str] = Counter()
    for seed in range(3000, 3000 + CASES):
        hits += live(seed, SimulatedDisk(), reads=True)
    assert hits["cursor"] >= 50, hits


@pytest.mark.parametrize("settles_late", [False, True])
def test_a_commit_set_and_its_marker_survive_any_crash_together(
    settles_late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if settles_late:  # every set is a large one, whose transactions end in the index little by little
        monkeypatch.setattr(_liveness, "_SETTLED_AT_ONCE", 0)
        monkeypatch.setattr(_journal, "_SETTLED_PER_CALL", 1)
    hits: Counter[str] = Counter()
    for seed in range(3000 + 500 * settles_late, 3000 + 500 * settles_late + 2 * CASES):
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
