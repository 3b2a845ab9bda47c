"""A directory through several lives of a broker, each ended by a crash at a random moment, the next one's recovery too.

``python -m tests.embedbroker.storage.journal_lives --cases 10000 --first-seed 0``: messages that flow, for as long as
wanted; a case that fails is printed, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from random import Random

from attrs import frozen

from embedbroker.kernel import AddressDefinition, CommitSet, FencingTokenRemoved, QueueDefinition, SettingsDefinition
from embedbroker.storage import Allocate, Journal, JournalState, Lane, Rename
from embedbroker.storage.journal._segments import COMPACTING
from embedbroker.testing._disk import SimulatedDisk
from tests.embedbroker.storage.journal_model import NOW, SMALL, ModelState, RecordedJournal, StoredMessage
from tests.embedbroker.storage.journal_traffic import replaced_by
from tests.embedbroker.storage.journal_workload import Flow, Workload
from tests.embedbroker.storage.twin_disk import TwinDisk

# What a crash has to interrupt, and what a recovery has to find, before the cases count as a matrix.
MOMENTS = (
    *("records not synced", "sectors not synced", "open transaction", "prepared transaction"),
    *("segment switch", "segment prepared", "reused segment", "compaction", "replaced segments left", "recovery"),
    *("torn batch cut", "killed with the system alive"),
)


def crash(disk: SimulatedDisk, random: Random, hits: Counter[str]) -> None:
    unsynced = disk.has_unsynced_sectors
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
    journal, statistics = recorded.journal, recorded.journal.statistics()
    names = recorded.file_names()
    hits["records not synced"] += journal.point() != journal.reached
    hits["open transaction"] += bool(state.transactions)
    hits["decision"] += bool(state.outcomes)
    for (_, (fact, *_)), point in ((call, point) for call, point in recorded.history if call[0] == "note"):
        hits["commit set"] += isinstance(fact, CommitSet)
        hits["commit set not synced"] += isinstance(fact, CommitSet) and point > journal.reached
        hits["marker removed"] += isinstance(fact, FencingTokenRemoved)
    hits["set not settled"] += bool(statistics.unsettled_commit_sets)
    hits["cursor"] += bool(state.cursors)
    hits["divert"] += bool(state.diverts)
    moves = [point for (name, _), point in recorded.history if name == "move_message"]
    hits["move on its way"] += any(point > journal.reached for point in moves)
    hits["settings"] += bool(state.settings)
    count_changes(recorded, hits)
    hits["ids cleared"] += sum([name == "clear_duplicate_ids" for (name, _), _ in recorded.history])
    hits["prepared transaction"] += bool(state.prepared)
    writing = recorded.under_way.get(Lane.JOURNAL)
    hits["segment switch"] += writing is not None and any(
        isinstance(operation, Allocate | Rename) for operation in writing[0].operations
    )
    hits["segment prepared"] += statistics.is_preparing
    hits["reused segment"] += bool(statistics.segments) and statistics.segments[-1].is_reused
    hits["compaction"] += COMPACTING in names
    hits["merged segment"] += any(segment.is_merged for segment in statistics.segments)
    hits["replaced segments left"] += any(
        segment.is_merged and any(name in names for name in replaced_by(segment.name))
        for segment in statistics.segments
    )


def count_changes(recorded: RecordedJournal, hits: Counter[str]) -> None:
    """What a crash finds of changes that management made: recorded and safe, or on their way to the disk."""
    for (name, (first, *others)), point in recorded.history:
        safe = "safe" if point <= recorded.journal.reached else "on its way"
        match first:
            case QueueDefinition() if first.paused:
                hits[f"pause of a queue {safe}"] += 1
            case QueueDefinition() if first.exclusive or first.filter or first.group_buckets != -1:
                hits[f"update of a queue {safe}"] += 1
            case AddressDefinition() if first.paused:
                hits[f"pause of an address {safe}"] += 1
            case SettingsDefinition():
                hits[f"settings of kind {first.kind} {safe}"] += 1
            case StoredMessage() if first.deliver_at:
                hits[f"scheduled message {safe}"] += 1
            case _ if name == "update_delivery_count" and others[-1]:
                hits[f"delayed redelivery {safe}"] += 1


@frozen
class Manner:
    """How a directory is used: by which program, with how many calls in a life, and in how many lives.

    With `looks` the journal looks for work in the background at each tick, and not only once in a while.
    """

    workload: type[Workload] = Workload
    calls: tuple[int, ...] = (5, 40, 130, 340)
    lives: int = 5
    looks: bool = False


SHORT = Manner()
FLOWING = Manner(Flow, (600, 1500, 2500), 2, looks=True)


def live(
    seed: int,
    disk: SimulatedDisk,
    manner: Manner = SHORT,
    *,
    decides: bool = False,
    marks: bool = False,
    reads: bool = False,
    diverts: bool = False,
    manages: bool = False,
    clears: bool = False,
    moves: bool = False,
) -> Counter[str]:
    """One directory through several lives; returns how often interesting moments were hit."""
    random = Random(seed)
    previous: RecordedJournal | None = None
    hits = Counter(dict.fromkeys(MOMENTS, 0))
    for _ in range(manner.lives):
        journal, state = next_life(seed, disk, previous, random, hits)
        previous = recorded = RecordedJournal(disk, SMALL, state, journal=journal)
        workload = manner.workload.on(random, state)
        workload.decides, workload.marks, workload.reads = decides, marks, reads
        workload.diverts, workload.manages, workload.clears = diverts, manages, clears
        workload.moves = moves
        use(recorded, workload, random.choice(manner.calls), looks=manner.looks)
        assert journal.state is JournalState.READY, (seed, journal.failure)
        assert not any("compaction found damage" in note for note in journal.notes), (seed, journal.notes)
        if random.random() < 0.2:
            recorded.close()
        count_moment(recorded, workload.state, hits)
        crash(disk, random, hits)
    next_life(seed, disk, previous, random, hits)
    return hits


def flow(seed: int) -> Counter[str]:
    """One case in which messages flow; every fourth with all that is rare."""
    rare = not seed % 4
    return live(seed, SimulatedDisk(), FLOWING, decides=rare, marks=rare, reads=rare)


def next_life(
    seed: int, disk: SimulatedDisk, previous: RecordedJournal | None, random: Random, hits: Counter[str]
) -> tuple[Journal, ModelState]:
    """What is recovered, checked against what the life before confirmed."""
    journal = recover_with_crashes(disk, random, hits)
    assert journal.state is JournalState.READY, (seed, journal.failure)
    hits["torn batch cut"] += any("is cut" in note for note in journal.notes)
    assert journal.recovered is not None
    try:
        return journal, previous.check_recovered(journal.recovered) if previous else ModelState()
    except AssertionError as error:
        error.add_note(f"seed {seed}")
        raise


def use(recorded: RecordedJournal, workload: Workload, calls: int, *, looks: bool) -> None:
    """Calls, and between them whatever the disk gets done."""
    random, journal = workload.random, recorded.journal
    held: Lane | None = None
    for _ in range(calls):
        name, arguments = workload.call()
        recorded.call(name, *arguments)
        if random.random() < 0.2:
            journal.on_tick(NOW)
            if looks:
                journal.background.choose(NOW.wall_ms, at_leisure=True)
        if random.random() < 0.04:
            held = random.choice((None, None, *Lane))  # one lane gets slow for a while
        for _ in range(random.choice((0, 0, 0, 1, 3, 9, 30))):
            if not recorded.step(random, held):
                break


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.embedbroker.storage.journal_lives", description=__doc__)
    parser.add_argument("--cases", type=int, default=1_000, help="(default: %(default)s)")
    parser.add_argument("--first-seed", type=int, default=0, help="(default: %(default)s)")
    arguments = parser.parse_args()
    failed, begin = 0, time.perf_counter()
    for done in range(arguments.cases):
        seed = arguments.first_seed + done
        try:
            flow(seed)
        except AssertionError as error:
            failed += 1
            sys.stdout.write(f"\rseed {seed}: {error}\n")
        if sys.stderr.isatty() or not done % 100:
            rate = (done + 1) / (time.perf_counter() - begin)
            sys.stderr.write(f"\r{done + 1}/{arguments.cases} cases, {failed} failed, {rate:.1f} a second  ")
    sys.stdout.write(f"\r{arguments.cases} cases from {arguments.first_seed}, {failed} failed\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
