"""The journal as a set of files: which belong to it, and what of a directory is whole after a power cut."""

from __future__ import annotations

from hashlib import sha256
from random import Random

import pytest

from embedbroker.storage import (
    DiskFault,
    FileInventory,
    JournalState,
    Sync,
    WriteAt,
    belongs,
    copied_bytes,
    is_history,
    take_inventory,
)
from embedbroker.storage._steps import run_steps
from embedbroker.testing._disk import SimulatedDisk
from tests.embedbroker.storage.journal_model import SMALL, RecordedJournal
from tests.embedbroker.storage.journal_workload import Workload


def written(calls: int = 300, seed: int = 1) -> RecordedJournal:
    """A journal that is not closed."""
    recorded = RecordedJournal(SimulatedDisk())
    recorded.open()
    recorded.settle()
    workload = Workload.on(Random(seed), recorded.start)
    for _ in range(calls):
        name, arguments = workload.call()
        recorded.call(name, *arguments)
        recorded.step()
    recorded.settle()
    assert recorded.journal.state is JournalState.READY
    return recorded


def content(disk: SimulatedDisk, name: str) -> bytes:
    return disk.content(name)


@pytest.mark.parametrize(
    ("name", "ours", "history"),
    [
        ("segment-0000000001.journal", True, True),
        ("segment-0000000001-0000000007.journal", True, True),
        ("spare-0000000009.journal", True, False),
        ("compacting.journal", True, False),
        ("torn-0000000001-2.copy", False, False),
        ("unfinished.copy", False, False),
        ("oldreplica.1.segment-0000000001.journal", False, False),
        ("server.lock", False, False),
        ("../segment-0000000001.journal", False, False),
        ("segment-0000000001.journal\n", False, False),
        ("", False, False),
    ],
)
def test_names_of_a_journal(name: str, ours: bool, history: bool) -> None:
    assert (belongs(name), is_history(name)) == (ours, history)


def test_everything_a_journal_writes_belongs_to_it() -> None:
    recorded = written()
    assert [name for name in recorded.disk.names if not belongs(name)] == []


def test_of_a_spare_only_the_head_is_copied() -> None:
    assert copied_bytes("spare-0000000009.journal", 16 * 1024) == 4096
    assert copied_bytes("spare-0000000009.journal", 100) == 100
    assert copied_bytes("segment-0000000009.journal", 16 * 1024) == 16 * 1024


def test_a_survey_finds_each_file_up_to_its_last_batch() -> None:
    recorded = written()
    holdings = run_steps(take_inventory(SMALL), recorded.disk)
    statistics = recorded.journal.statistics()
    segments = {segment.name: segment.end for segment in statistics.segments}
    if statistics.prepared is not None:
        segments[statistics.prepared] = 4096
    assert {name: size for name, size, _ in holdings.files} == segments
    assert holdings.newest == statistics.segments[-1].name
    assert holdings.identity == SMALL.identity
    for name, size, digest in holdings.files:
        assert digest == sha256(content(recorded.disk, name)[:size]).digest()


def test_a_survey_of_an_empty_directory_finds_nothing() -> None:
    assert run_steps(take_inventory(SMALL), SimulatedDisk()) == FileInventory(0, "", ())


def test_a_survey_does_not_change_what_files_say() -> None:
    disk = written().disk
    before = disk.contents()
    run_steps(take_inventory(SMALL, is_unfinished=True), disk)
    assert disk.contents() == before


def not_on_the_disk(holdings: FileInventory, disk: SimulatedDisk) -> list[str]:
    """Of what is held, the files that a power cut changes."""
    after = disk.copy()
    after.lose_unsynced()
    return [name for name, size, digest in holdings.files if sha256(content(after, name)[:size]).digest() != digest]


def sync_failed(disk: SimulatedDisk, name: str) -> None:
    """What can be read of a file is not on the disk, and no sync changes that."""
    data = content(disk, name)
    disk.run((WriteAt(name, 0, (bytes(len(data)),)), Sync(name), WriteAt(name, 0, (data,))))
    disk.fail_at(disk.operations)
    with pytest.raises(DiskFault):
        disk.run((Sync(name),))


def test_what_a_survey_finds_in_the_newest_segment_is_on_the_disk_although_a_sync_failed() -> None:
    recorded = written()
    newest = recorded.journal.statistics().segments[-1].name
    sync_failed(recorded.disk, newest)
    assert not_on_the_disk(run_steps(take_inventory(SMALL), recorded.disk), recorded.disk) == []


def test_what_a_survey_finds_in_an_unfinished_copy_is_on_the_disk_although_syncs_failed() -> None:
    recorded = written()
    segments = recorded.journal.statistics().segments
    assert len(segments) > 2
    for segment in segments:
        sync_failed(recorded.disk, segment.name)
    assert not_on_the_disk(run_steps(take_inventory(SMALL, is_unfinished=True), recorded.disk), recorded.disk) == []


def test_a_survey_stops_at_damage_and_leaves_out_what_is_no_segment() -> None:
    recorded = written()
    segments = recorded.journal.statistics().segments
    first, last = segments[0].name, segments[-1].name
    recorded.disk.flip(last, 4096 + 70, 1)
    recorded.disk.run((WriteAt("segment-0000099999.journal", 0, (bytes(4096),)),))
    holdings = run_steps(take_inventory(SMALL), recorded.disk)
    sizes = {name: size for name, size, _ in holdings.files}
    assert sizes[last] == 4096
    assert sizes[first] > 4096
    assert "segment-0000099999.journal" not in sizes
    assert holdings.newest != last


def test_what_a_power_cut_leaves_is_surveyed_as_the_beginning_of_what_was_written() -> None:
    for seed in range(30):
        recorded = written(150, seed)
        whole = recorded.disk.contents()
        disk = recorded.disk.copy()
        disk.crash(Random(seed))
        for name, size, digest in run_steps(take_inventory(SMALL), disk).files:
            assert digest == sha256(whole[name][:size]).digest()
