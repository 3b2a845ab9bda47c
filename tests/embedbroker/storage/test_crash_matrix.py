"""Crashes between any two disk operations, over several lives of one directory: nothing confirmed is lost or changed.

Each case runs a random workload on the simulated disk, cuts the power (or only kills the broker) at a random operation,
with a random subset of unsynced sectors lost, and compares what the next life recovers with the model. The next life
may die in its own recovery.
"""

from __future__ import annotations

from random import Random

import pytest

from embedbroker.storage import Journal, JournalState, Lane, _journal, _liveness
from embedbroker.testing._disk import SimulatedDisk
from tests.embedbroker.storage.journal_model import NOW, SMALL, ModelState, RecordedJournal
from tests.embedbroker.storage.journal_workload import Workload

CASES = 50
LIVES = 5


def crash(disk: SimulatedDisk, random: Random) -> None:
    if random.random() < 0.8:
        disk.crash(random)
    # else: the broker was killed, and the system still has everything that was written


def recover_with_crashes(disk: SimulatedDisk, random: Random) -> Journal:
    """Recover, dying up to twice while doing so."""
    for _ in range(random.choice((0, 0, 0, 1, 2))):
        dying = RecordedJournal(disk)
        dying.open()
        for _ in range(random.randrange(1, 40)):
            if dying.journal.state is not JournalState.RECOVERING or not dying.step():
                break
        crash(disk, random)
    living = RecordedJournal(disk)
    living.open()
    while living.journal.state is JournalState.RECOVERING:
        assert living.step()
    return living.journal


def live(seed: int) -> dict[str, int]:
    """One directory through several lives; returns how often interesting moments were hit."""
    random = Random(seed)
    disk = SimulatedDisk()
    previous: RecordedJournal | None = None
    hits = dict.fromkeys(("switch", "compacted", "dropped", "torn", "unconfirmed", "open", "prepared"), 0)
    for _ in range(LIVES):
        journal = recover_with_crashes(disk, random)
        assert journal.state is JournalState.READY, (seed, journal.failure)
        hits["torn"] += any("is cut" in note for note in journal.notes)
        assert journal.recovered is not None
        state = previous.check_recovered(journal.recovered) if previous else ModelState()
        previous = recorded = RecordedJournal(disk, SMALL, state, journal=journal)
        workload = Workload.on(random, state)
        held: Lane | None = None
        for _ in range(random.choice((5, 40, 120, 300))):
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
        for key, hit in (
            ("unconfirmed", journal.point() != journal.reached),
            ("open", bool(workload.state.transactions)),
            ("prepared", bool(workload.state.prepared)),
            ("switch", len(journal._segments) > 1),
            ("compacted", any(segment.compacted for segment in journal._segments)),
            ("dropped", bool(journal._supply.spares)),
        ):
            hits[key] += hit
        crash(disk, random)
    return hits


@pytest.mark.parametrize("group", range(8))
def test_nothing_confirmed_is_lost_in_any_crash(group: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if group % 4 == 3:  # every transaction is a large one, whose messages are taken off the index little by little
        monkeypatch.setattr(_liveness, "_SETTLED_AT_ONCE", 0)
        monkeypatch.setattr(_journal, "_SETTLED_PER_CALL", 1)
    hits: dict[str, int] = {}
    for seed in range(group * CASES, (group + 1) * CASES):
        for name, count in live(seed).items():
            hits[name] = hits.get(name, 0) + count
    assert min(hits.values()) >= 3, hits
