"""One suite for everything that is a disk: real files and their simulated twin."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from random import Random
from zlib import crc32

import pytest

from embedbroker.runtime._disk import FileDisk
from embedbroker.storage import (
    Allocate,
    Digest,
    Disk,
    DiskFault,
    FaultKind,
    ListFiles,
    Read,
    ReadChecked,
    Remove,
    Rename,
    Stat,
    Sync,
    SyncDirectory,
    Truncate,
    WriteAt,
    Zero,
)
from embedbroker.testing._disk import SimulatedDisk


@pytest.fixture(params=["files", "simulated"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Disk]:
    if request.param == "simulated":
        yield SimulatedDisk()
    else:
        real = FileDisk(tmp_path)
        yield real
        real.close()


def content(disk: Disk, file: str) -> bytes:
    (data,) = disk.run((Read(file, 0, 1 << 20),))
    assert isinstance(data, bytes)
    return data


def test_written_bytes_can_be_read_back(disk: Disk) -> None:
    assert disk.run((WriteAt("a", 0, (b"one", b"two")), Sync("a"), Read("a", 1, 4))) == (None, None, b"netw")


def test_a_write_behind_the_end_leaves_zeros_before_it(disk: Disk) -> None:
    disk.run((WriteAt("a", 3, (b"x",)),))
    assert content(disk, "a") == b"\0\0\0x"


def test_a_write_inside_changes_nothing_around_it(disk: Disk) -> None:
    disk.run((WriteAt("a", 0, (b"abcdef",)), WriteAt("a", 2, (b"XY",))))
    assert content(disk, "a") == b"abXYef"


def test_many_pieces_are_one_write(disk: Disk) -> None:
    pieces = tuple([bytes([number % 251]) * (number % 7) for number in range(3000)])
    disk.run((WriteAt("a", 5, pieces),))
    assert content(disk, "a") == bytes(5) + b"".join(pieces)


def test_zeros_are_written_over_what_was_there_and_behind_the_end(disk: Disk) -> None:
    assert disk.run((WriteAt("a", 0, (b"abcdef",)), Zero("a", 2, 3), Read("a", 0, 9))) == (None, None, b"ab\0\0\0f")
    disk.run((Zero("a", 5, 600_000), Zero("b", 0, 0)))
    assert content(disk, "a") == b"ab" + bytes(600_003)
    assert disk.run((Stat("b"),)) == (0,)


def test_an_empty_write_makes_the_file(disk: Disk) -> None:
    assert disk.run((WriteAt("a", 0, ()), Stat("a"))) == (None, 0)


def test_a_read_ends_with_the_file(disk: Disk) -> None:
    disk.run((WriteAt("a", 0, (b"abc",)),))
    assert disk.run((Read("a", 2, 10), Read("a", 3, 1), Read("a", 99, 1))) == (b"c", b"", b"")


def test_a_checked_read_continues_the_checksum_of_the_bytes_before(disk: Disk) -> None:
    data = bytes(range(256)) * 2_000
    disk.run((WriteAt("a", 0, (data,)),))
    before = crc32(data[:1000])
    assert disk.run((ReadChecked("a", 1000, 9_000, before),)) == ((data[1000:10_000], crc32(data[:10_000])),)
    assert disk.run((ReadChecked("a", len(data) - 1, 9),)) == ((data[-1:], crc32(data[-1:])),)
    assert disk.run((ReadChecked("a", 1 << 40, 9, before),)) == ((b"", before),)
    with pytest.raises(DiskFault) as caught:
        disk.run((ReadChecked("b", 0, 1),))
    assert caught.value.kind is FaultKind.MISSING


def test_a_digest_is_that_of_what_a_read_would_give(disk: Disk) -> None:
    data = bytes(range(256)) * 20_000
    disk.run((WriteAt("a", 0, (data,)),))
    parts = {(0, len(data)): data, (7, 1000): data[7:1007], (100, 1 << 40): data[100:], (1 << 40, 9): b""}
    found = disk.run(tuple([Digest("a", offset, length) for offset, length in parts]))
    assert found == tuple([sha256(part).digest() for part in parts.values()])
    with pytest.raises(DiskFault) as caught:
        disk.run((Digest("b", 0, 1),))
    assert caught.value.kind is FaultKind.MISSING


def test_names_are_listed_in_order(disk: Disk) -> None:
    disk.run((WriteAt("b", 0, (b"1",)), WriteAt("a", 0, (b"2",)), Allocate("c", 10)))
    assert disk.run((ListFiles(),)) == (("a", "b", "c"),)


def test_the_size_of_a_file_and_of_none(disk: Disk) -> None:
    disk.run((WriteAt("a", 0, (b"12345",)),))
    assert disk.run((Stat("a"), Stat("b"))) == (5, None)


def test_a_renamed_file_keeps_its_bytes(disk: Disk) -> None:
    disk.run((WriteAt("a", 0, (b"old",)), Rename("a", "b"), WriteAt("b", 3, (b"+",)), Sync("b")))
    assert disk.run((ListFiles(), Read("b", 0, 9), Stat("a"))) == (("b",), b"old+", None)


def test_a_rename_replaces_the_file_of_that_name(disk: Disk) -> None:
    disk.run((WriteAt("a", 0, (b"new",)), WriteAt("b", 0, (b"longer and old",)), Rename("a", "b"), SyncDirectory()))
    assert disk.run((ListFiles(), Read("b", 0, 99))) == (("b",), b"new")


def test_a_name_can_be_used_again_after_a_rename(disk: Disk) -> None:
    disk.run((WriteAt("a", 0, (b"first",)), Rename("a", "b"), WriteAt("a", 0, (b"2nd",)), Rename("b", "c")))
    assert (content(disk, "a"), content(disk, "c")) == (b"2nd", b"first")


def test_allocated_bytes_are_zero_and_never_shrink_a_file(disk: Disk) -> None:
    disk.run((WriteAt("a", 0, (b"abc",)), Allocate("a", 6), Allocate("a", 2), Sync("a")))
    assert content(disk, "a") == b"abc\0\0\0"


def test_truncated_bytes_are_gone(disk: Disk) -> None:
    disk.run((WriteAt("a", 0, (b"abcdef",)), Truncate("a", 2), Allocate("a", 4), Sync("a")))
    assert content(disk, "a") == b"ab\0\0"


def test_a_removed_file_is_gone_and_can_be_removed_again(disk: Disk) -> None:
    disk.run((WriteAt("a", 0, (b"abc",)), Remove("a"), Remove("a"), SyncDirectory()))
    assert disk.run((ListFiles(), Stat("a"))) == ((), None)


def test_a_file_made_again_after_its_removal_is_new(disk: Disk) -> None:
    disk.run((WriteAt("a", 0, (b"abc",)), Remove("a"), WriteAt("a", 1, (b"z",))))
    assert content(disk, "a") == b"\0z"


@pytest.mark.parametrize("operation", [Read("a", 0, 1), Sync("a"), Truncate("a", 0), Rename("a", "b")])
def test_a_missing_file_is_a_fault_that_names_it(disk: Disk, operation: Read | Sync | Truncate | Rename) -> None:
    with pytest.raises(DiskFault) as raised:
        disk.run((operation,))
    assert (raised.value.kind, raised.value.file) == (FaultKind.MISSING, "a")


def test_a_fault_ends_the_run(disk: Disk) -> None:
    with pytest.raises(DiskFault):
        disk.run((WriteAt("a", 0, (b"1",)), Read("missing", 0, 1), WriteAt("b", 0, (b"2",))))
    assert disk.run((ListFiles(),)) == (("a",),)


def test_more_files_than_stay_open(disk: Disk) -> None:
    names = [f"file-{number:02}" for number in range(40)]
    for name in names:
        disk.run((WriteAt(name, 0, (name.encode(),)),))
    for name in names:
        disk.run((Sync(name),))
    assert [content(disk, name) for name in names] == [name.encode() for name in names]


def test_random_operations_agree_with_a_plain_dictionary(disk: Disk) -> None:
    random = Random(4)
    files: dict[str, bytearray] = {}
    for step in range(400):
        name, other = random.choice("abcd"), random.choice("abcd")
        match random.randrange(5):
            case 0 | 1:
                offset, data = random.randrange(2000), bytes([step % 256]) * random.randrange(1, 900)
                disk.run((WriteAt(name, offset, (data,)),))
                file = files.setdefault(name, bytearray())
                file.extend(bytes(max(0, offset + len(data) - len(file))))
                file[offset : offset + len(data)] = data
            case 2 if name in files and name != other:
                disk.run((Rename(name, other),))
                files[other] = files.pop(name)
            case 3:
                disk.run((Remove(name),))
                files.pop(name, None)
            case _ if name in files:
                disk.run((Truncate(name, len(files[name]) // 2), Sync(name)))
                del files[name][len(files[name]) // 2 :]
        assert disk.run((ListFiles(),)) == (tuple(sorted(files)),)
    assert {name: content(disk, name) for name in files} == files
