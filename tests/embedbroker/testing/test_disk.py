"""The simulated disk forgets as much as a real one may, and not more."""

from __future__ import annotations

from random import Random

import pytest

from embedbroker.storage import (
    SECTOR_BYTES,
    Allocate,
    DiskFault,
    FaultKind,
    ListFiles,
    Read,
    Rename,
    Sync,
    SyncDirectory,
    WriteAt,
)
from embedbroker.testing._disk import SimulatedDisk

SECTORS = 8
OLD, NEW = b"o" * SECTOR_BYTES * SECTORS, b"n" * SECTOR_BYTES * SECTORS


def synced_file() -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.run((WriteAt("a", 0, (OLD,)), Sync("a"), SyncDirectory()))
    return disk


def content(disk: SimulatedDisk, name: str = "a") -> bytes:
    (data,) = disk.run((Read(name, 0, 1 << 20),))
    assert isinstance(data, bytes)
    return data


def kept_sectors(data: bytes) -> str:
    return "".join(
        "o" if sector == OLD[:SECTOR_BYTES] else "n" if sector == NEW[:SECTOR_BYTES] else "torn"
        for sector in (data[start : start + SECTOR_BYTES] for start in range(0, len(data), SECTOR_BYTES))
    )


def test_synced_bytes_survive_every_crash() -> None:
    for seed in range(50):
        disk = synced_file()
        disk.crash(Random(seed))
        assert content(disk) == OLD


def test_without_what_was_not_synced_the_disk_is_as_it_was() -> None:
    disk = synced_file()
    disk.run((WriteAt("a", 3 * SECTOR_BYTES, (NEW,)), WriteAt("new", 0, (NEW,)), Rename("a", "b")))
    disk.lose_unsynced()
    assert disk.run((ListFiles(),)) == (("a",),)
    assert content(disk) == OLD
    disk.run((WriteAt("a", 0, (NEW,)), Sync("a"), Rename("a", "b"), SyncDirectory()))
    disk.lose_unsynced()
    assert content(disk, "b") == NEW


def test_unsynced_sectors_are_lost_in_any_combination_and_may_tear() -> None:
    seen = set()
    for seed in range(300):
        disk = synced_file()
        disk.run((WriteAt("a", 0, (NEW,)),))
        disk.crash(Random(seed))
        seen.add(kept_sectors(content(disk)))
    assert {"o" * SECTORS, "n" * SECTORS} <= seen
    assert any("on" in kept and "no" in kept for kept in seen)
    assert any("torn" in kept for kept in seen)
    assert len(seen) > 100


def test_a_killed_broker_loses_nothing_that_was_written() -> None:
    disk = synced_file()
    disk.run((WriteAt("a", 0, (NEW,)),))
    assert content(disk) == NEW


def test_names_that_were_not_synced_are_lost_from_the_last_one_on() -> None:
    seen = set()
    for seed in range(100):
        disk = SimulatedDisk()
        disk.run((WriteAt("a", 0, (b"1",)), Sync("a"), SyncDirectory(), Rename("a", "b"), WriteAt("c", 0, (b"2",))))
        disk.crash(Random(seed))
        seen.add(disk.run((ListFiles(),))[0])
    assert seen == {("a",), ("b",), ("b", "c")}


def test_a_file_that_grew_without_sync_may_have_either_size() -> None:
    seen = set()
    for seed in range(50):
        disk = synced_file()
        disk.run((Allocate("a", 2 * len(OLD)),))
        disk.crash(Random(seed))
        assert content(disk)[: len(OLD)] == OLD
        seen.add(len(content(disk)))
    assert seen == {len(OLD), 2 * len(OLD)}


def test_what_a_failed_sync_gave_up_is_lost_even_if_a_later_sync_succeeds() -> None:
    disk = synced_file()
    disk.run((WriteAt("a", 0, (NEW,)),))
    disk.fail_at(disk.operations)
    with pytest.raises(DiskFault):
        disk.run((Sync("a"),))
    disk.run((Sync("a"),))
    assert content(disk) == NEW
    disk.crash(Random(1), tear=False)
    assert content(disk) == OLD


def test_bytes_written_again_after_a_failed_sync_are_safe_with_the_next_one() -> None:
    disk = synced_file()
    disk.run((WriteAt("a", 0, (NEW,)),))
    disk.fail_at(disk.operations)
    with pytest.raises(DiskFault):
        disk.run((Sync("a"),))
    disk.run((WriteAt("a", 0, (NEW,)), Sync("a")))
    disk.crash(Random(1))
    assert content(disk) == NEW


def test_a_full_disk_refuses_what_does_not_fit_and_nothing_else() -> None:
    disk = SimulatedDisk(capacity_bytes=1000)
    disk.run((Allocate("a", 900),))
    for operation in (Allocate("b", 200), WriteAt("a", 950, (bytes(100),))):
        with pytest.raises(DiskFault) as raised:
            disk.run((operation,))
        assert raised.value.kind is FaultKind.FULL
    disk.run((WriteAt("a", 0, (bytes(1000),)),))


def test_the_same_seed_gives_the_same_crash() -> None:
    def crashed(seed: int) -> bytes:
        disk = synced_file()
        disk.run((WriteAt("a", 100, (NEW[:2000],)), WriteAt("b", 0, (NEW,))))
        disk.crash(Random(seed))
        return content(disk)

    assert [crashed(seed) for seed in range(20)] == [crashed(seed) for seed in range(20)]


def test_a_copy_goes_its_own_way() -> None:
    disk = synced_file()
    disk.run((WriteAt("a", 0, (NEW,)), WriteAt("b", 0, (b"1",))))
    twin = disk.copy()
    twin.run((Sync("a"), SyncDirectory(), WriteAt("b", 0, (b"2",))))
    twin.crash(Random(0))
    assert content(twin) == NEW
    assert content(disk, "b") == b"1"
    disk.crash(Random(0), tear=False)


def test_a_disk_holds_what_a_power_cut_would_leave() -> None:
    disk = synced_file()
    assert disk.holds("a", 0, OLD) and not disk.holds("a", 0, NEW)
    disk.run((WriteAt("a", SECTOR_BYTES, (NEW[:SECTOR_BYTES],)),))
    assert not disk.holds("a", SECTOR_BYTES, NEW[:SECTOR_BYTES]) and disk.holds("a", 0, OLD[:SECTOR_BYTES])
    disk.run((Sync("a"),))
    assert disk.holds("a", SECTOR_BYTES, NEW[:SECTOR_BYTES])


def test_a_disk_does_not_hold_what_a_failed_sync_gave_up() -> None:
    disk = synced_file()
    disk.run((WriteAt("a", 0, (NEW,)),))
    disk.fail_at(disk.operations)
    with pytest.raises(DiskFault):
        disk.run((Sync("a"),))
    disk.run((Sync("a"),))
    assert not disk.holds("a", 0, NEW)
