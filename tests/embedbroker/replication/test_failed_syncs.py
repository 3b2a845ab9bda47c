"""A backup whose disk failed to sync, and whose process is started again without the machine: what it holds from before
is read from memory, and has to be on the disk when it is in sync."""

from __future__ import annotations

from random import Random

from embedbroker.storage import UNFINISHED_COPY
from embedbroker.testing._disk import SimulatedDisk
from tests.embedbroker.replication.pair import Backup, Pair
from tests.embedbroker.replication.test_pair import work


def copied_with_faults(pair: Pair, operation: int) -> SimulatedDisk:
    """A new backup, of which this operation fails, and the one that would have noted it."""
    disk = SimulatedDisk()
    for failing in (operation, operation + 1):
        disk.fail_at(failing)
    pair.backup = Backup(disk, pair.random)
    pair.join()
    pair.settle()
    pair.cut()
    disk.heal()
    return disk


def begin_again(pair: Pair) -> None:
    """Another process on the same disk; in the end the power is cut."""
    pair.backup = Backup(pair.backup.disk, pair.random)
    pair.synchronise()
    disk = pair.backup.disk
    disk.lose_unsynced()
    pair.check(disk, crash=False)


def test_a_copy_that_could_not_note_that_its_disk_failed_keeps_nothing_that_is_not_on_the_disk() -> None:
    pair = Pair.new(Random(3))
    work(pair, 150)
    pair.settle()
    unnoted = caught_up = operation = 0
    while True:
        disk = copied_with_faults(pair, operation)
        endings = pair.backup.endings
        if not any(ending.disk_failed for ending in endings) and disk.operations <= operation:
            break
        unnoted += UNFINISHED_COPY in disk.names and any(ending.disk_failed for ending in endings)
        lines = len(pair.primary.log)
        begin_again(pair)
        caught_up += any(line.endswith("already") for line in pair.primary.log[lines:])
        pair.cut()
        pair.settle()
        operation += 1
    assert unnoted > 10
    assert caught_up > 10


def test_a_backup_in_sync_that_could_not_note_that_its_disk_failed_keeps_nothing_that_is_not_on_the_disk() -> None:
    pair = Pair.new(Random(3))
    work(pair, 150)
    kept = 0
    for operation in range(20):
        pair.backup = Backup(SimulatedDisk(), pair.random)
        pair.synchronise()
        disk = pair.backup.disk
        for failing in (operation, operation + 1):
            disk.fail_at(disk.operations + failing)
        work(pair, 40)
        pair.settle()
        pair.cut()
        disk.heal()
        assert any(ending.disk_failed for ending in pair.backup.endings)
        kept += UNFINISHED_COPY not in disk.names
        begin_again(pair)
        pair.cut()
        pair.settle()
    assert kept > 10
