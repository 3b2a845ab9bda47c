"""Crashes, cuts and full disks at any moment of a replication: what was confirmed is where it has to be.

Each case is a history of one group: traffic on a primary, a backup that comes and goes, and at the end the primary's
crash. A backup that is in sync takes over, and what it recovers holds everything that was ever confirmed; the old
primary becomes its backup, with a directory that may have gone its own way.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from embedbroker.replication import EndingKind, ReplicaState, ReplicatorState
from embedbroker.storage import DiskFault, FaultKind, JournalState, Lane, Read, Rename
from embedbroker.storage.journal._segments import COMPACTING
from embedbroker.testing._disk import SimulatedDisk
from tests.embedbroker.replication.pair import Backup, Pair, Primary, opened
from tests.embedbroker.storage.journal_model import ModelState
from tests.embedbroker.storage.journal_workload import Workload

pytestmark = pytest.mark.search

CASES = 25
LIVES = 4

MOMENTS = (
    *("cut while joining", "cut while copying", "cut while handing over", "cut in sync"),
    *("backup crashed while copying", "backup crashed in sync", "primary crashed in sync", "primary crashed alone"),
    *("copied afresh", "caught up", "journal put aside", "compaction while copying", "segment switch while copying"),
    *("work withheld", "backup disk failed", "primary disk failed", "took over", "started again"),
)


class History:
    """One case."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.hits: Counter[str] = Counter(dict.fromkeys(MOMENTS, 0))
        self.pair = Pair.new(self.random)
        self.workload = Workload.on(self.random, ModelState())
        self.held: Lane | None = None
        self.held_there: Lane | None = None

    @property
    def state(self) -> ReplicatorState:
        return self.pair.primary.replicator.state

    def live(self) -> None:
        """Traffic, and whatever happens to the backup meanwhile."""
        random, pair = self.random, self.pair
        for _ in range(random.choice((20, 120, 400))):
            if pair.primary.journal.state is not JournalState.READY:
                self.hits["primary disk failed"] += 1
                return
            name, arguments = self.workload.call()
            pair.primary.recorded.call(name, *arguments)
            if random.random() < 0.05:
                self.held = random.choice((None, None, *Lane))
                self.held_there = random.choice((None, None, *Lane))
            self.happen()
            for _ in range(random.choice((0, 0, 1, 3, 9, 30))):
                pair.step(self.held, self.held_there)
                self.watch()

    def happen(self) -> None:
        random, pair = self.random, self.pair
        self.replace_failed_disk()
        if random.random() < 0.003:
            self.disturb()
        replica = pair.backup.replica
        if replica is None or replica.at_rest:
            if random.random() < 0.1:
                if pair.ends is not None:
                    pair.cut()
                pair.join()
        elif random.random() < (0.2 if self.state is ReplicatorState.HANDING_OVER else 0.012):
            self.hits[f"cut {'in sync' if pair.backup.in_sync else 'while ' + self.phase()}"] += 1
            pair.cut()
        elif random.random() < 0.008:
            self.hits[f"backup crashed {'in sync' if pair.backup.in_sync else 'while copying'}"] += 1
            self.crash_backup()
        elif random.random() < 0.004:
            self.hits["backup disk failed"] += 1
            pair.backup.disk.fail_at(pair.backup.disk.operations + random.randrange(4))

    def disturb(self) -> None:
        """An operation of the primary's disk fails: of the copy, in the background, or of the journal itself."""
        disk, random = self.pair.primary.disk, self.random
        disk.fail_at(disk.operations + random.randrange(6), random.choice((FaultKind.FULL, FaultKind.FAILED)))

    def replace_failed_disk(self) -> None:
        backup = self.pair.backup
        if backup.endings and backup.endings[-1].disk_failed:
            self.pair.backup = Backup(SimulatedDisk(), self.random, backup.saved_max)

    def phase(self) -> str:
        if self.state is ReplicatorState.HANDING_OVER:
            return "handing over"
        return "copying" if self.state is ReplicatorState.COPYING else "joining"

    def watch(self) -> None:
        figures = self.pair.primary.replicator.statistics()
        if figures.uncopied_files:
            self.hits["work withheld"] += bool(figures.withheld)
            operations = [each for work in figures.sent for each in work.operations]
            self.hits["segment switch while copying"] += any(isinstance(each, Rename) for each in operations)
            self.hits["compaction while copying"] += any(getattr(each, "file", "") == COMPACTING for each in operations)

    def crash_backup(self) -> None:
        """The power of the backup fails: its files are what they are, and it begins anew."""
        pair, random = self.pair, self.random
        was_in_sync = pair.backup.in_sync
        disk = pair.backup.disk
        for work, results in pair.backup.worker.under_way.values():
            left = work.operations[len(results) :]
            try:
                disk.run(left[: random.randrange(len(left) + 1)])
            except Exception:  # a fault that was to come
                pass
        disk.heal()
        disk.crash(random)
        if was_in_sync and self.state is ReplicatorState.SYNCHRONISED:
            pair.check(disk, crash=False)
        if pair.backup.replica is not None:
            pair.backup.replica.owner = None
        pair.backup = Backup(disk, random, pair.backup.saved_max)
        if pair.ends is not None:
            pair.ends[1].receiver = None
            pair.cut()

    def end(self) -> None:
        """The primary crashes. Which broker may be live next?"""
        pair, random = self.pair, self.random
        primary = pair.primary
        self.replace_failed_disk()
        backup = pair.backup
        backup.disk.heal()
        confirmed_by_both = self.state in (ReplicatorState.SYNCHRONISED, ReplicatorState.HANDING_OVER)
        self.hits["primary crashed in sync" if confirmed_by_both else "primary crashed alone"] += 1
        for work, results in primary.worker.under_way.values():
            left = work.operations[len(results) :]
            try:
                primary.disk.run(left[: random.randrange(len(left) + 1)])
            except DiskFault as fault:
                # A copy that was given up still reads a file that has another name by now.
                assert fault.kind is FaultKind.MISSING and all(isinstance(each, Read) for each in left)
        primary.disk.crash(random)
        own = pair.check(primary.disk, crash=False)
        takes_over = False
        if pair.ends is not None:
            # What was sent arrives in part.
            here, there = pair.ends
            here.receiver = None
            count = random.randrange(len(here.out) + 1)
            there.receive(bytes(here.out[:count]))
            if there.alive:
                there.break_off()
            pair.ends = None
        while backup.step():
            pass
        if backup.endings:
            last = backup.endings[-1]
            takes_over = confirmed_by_both and last.in_sync and last.kind is EndingKind.LOST
        if confirmed_by_both and self.state is ReplicatorState.SYNCHRONISED and backup.endings:
            assert backup.endings[-1].in_sync or backup.endings[-1].kind is not EndingKind.LOST
        if takes_over:
            self.hits["took over"] += 1
            state = pair.check(backup.disk, crash=random.random() < 0.5)
            self.begin(backup.disk, primary.disk, state)
        else:
            self.hits["started again"] += 1
            self.begin(primary.disk, backup.disk, own)

    def begin(self, disk: SimulatedDisk, other: SimulatedDisk, state: ModelState) -> None:
        """The next life of the group."""
        other.heal()
        disk.heal()
        names = [file for each in (disk, other) for file in each.names]
        self.hits["journal put aside"] += any(name.startswith("oldreplica.") for name in names)
        primary = Primary(disk, self.random, state, journal=opened(disk))
        self.pair = Pair(self.random, primary, Backup(other, self.random, self.random.choice((-1, 0, 1, 2))))
        self.workload = Workload.on(self.random, state)

    def run(self) -> Counter[str]:
        for _ in range(LIVES):
            self.live()
            self.pair.primary.disk.heal()
            if self.random.random() < 0.5 and self.pair.primary.journal.state is JournalState.READY:
                self.finish_synchronisation()
            self.count_copies()
            self.end()
        return self.hits

    def finish_synchronisation(self) -> None:
        """Nothing stands in the way: in the end the backup is in sync."""
        pair = self.pair
        while True:
            pair.backup.disk.heal()
            pair.settle()
            self.replace_failed_disk()
            if self.state is ReplicatorState.SYNCHRONISED:
                break
            assert pair.backup.replica is None or pair.backup.replica.at_rest
            if pair.ends is not None:
                pair.cut()
            pair.join()
        assert pair.backup.replica is not None and pair.backup.replica.state is ReplicaState.IN_SYNC
        assert pair.primary.journal.point() == pair.primary.journal.reached
        pair.check(pair.backup.disk)
        for _ in range(self.random.choice((0, 30))):
            name, arguments = self.workload.call()
            pair.primary.recorded.call(name, *arguments)
            pair.step()

    def count_copies(self) -> None:
        copies = [line for line in self.pair.primary.log if line.startswith("copying")]
        self.hits["copied afresh"] += sum(line.endswith("afresh") for line in copies)
        self.hits["caught up"] += sum(line.endswith("already") for line in copies)


@pytest.mark.parametrize("group", range(4))
def test_nothing_confirmed_is_missing_where_it_has_to_be(group: int) -> None:
    hits: Counter[str] = Counter()
    for seed in range(group * CASES, (group + 1) * CASES):
        try:
            hits += History(seed).run()
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
    assert min(hits[moment] for moment in MOMENTS) >= 1, hits


@pytest.mark.parametrize("seed", [20, 92, 145, 1070, 5116])
def test_histories_that_were_not_survived_once(seed: int) -> None:
    History(seed).run()
