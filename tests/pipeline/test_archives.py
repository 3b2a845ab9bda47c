"""Archives as people make them: added to, with links, damaged and cut short. What is left out would not be missed."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from embedbroker.pipeline._archives import member_bytes, members

Entries = Sequence[tuple[str, bytes | str]]


def tar_of(path: Path, entries: Entries, *, hard: bool = True, mode: str = "") -> Path:
    """Files with their content, and links with what they lead to."""
    with tarfile.open(path, f"w{mode}") as archive:  # type: ignore[call-overload]  # it wants literals
        for name, content in entries:
            entry = tarfile.TarInfo(name)
            if isinstance(content, str):
                entry.type, entry.linkname = tarfile.LNKTYPE if hard else tarfile.SYMTYPE, content
                archive.addfile(entry)
            else:
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
    return path


def zip_of(path: Path, entries: Entries) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in entries:
            archive.writestr(name, content)
    return path


def read(path: Path) -> dict[str, tuple[bytes, bytes]]:
    """First bytes and whole content by name; each name once."""
    found = list(members(path, lambda name: name.startswith("s"), 2))
    assert len({name for name, _ in found}) == len(found)
    return {name: (head, member_bytes(str(path), name)) for name, head in found}


@pytest.mark.parametrize("make", [tar_of, pytest.param(zip_of, marks=pytest.mark.filterwarnings("ignore:Duplicate"))])
def test_of_members_of_one_name_the_last_one_counts(make: Callable[[Path, Entries], Path], tmp_path: Path) -> None:
    """As in an archive to which a directory was added a second time."""
    entries = [("./a/s1", b"old"), ("a/s2", b"only"), ("a/s1", b"older"), ("a//s1", b"newest")]
    assert read(make(tmp_path / "x", entries)) == {"a//s1": (b"ne", b"newest"), "a/s2": (b"on", b"only")}


def test_links_stand_for_what_they_lead_to(tmp_path: Path) -> None:
    """As in backups of several days whose equal files are one."""
    path = tar_of(tmp_path / "hard", [("mon/s1", b"one"), ("mon/other", b"two"), ("tue/s1", "mon/s1"),
                                      ("tue/s2", "mon/other")])  # fmt: skip
    one, two = (b"on", b"one"), (b"tw", b"two")
    assert read(path) == {"mon/s1": one, "tue/s1": one, "tue/s2": two}
    path = tar_of(tmp_path / "soft", [("tue/s1", "../mon/s1"), ("mon/s1", b"one")], hard=False)
    assert read(path) == {"tue/s1": one, "mon/s1": one}


@pytest.mark.parametrize("hard", [True, False])
def test_a_link_to_what_is_elsewhere_is_refused(hard: bool, tmp_path: Path) -> None:
    path = tar_of(tmp_path / "x", [("s1", b"one"), ("s2", "/away/s2")], hard=hard)
    with pytest.raises(ValueError, match="s2 is a link to /away/s2, which is not there"):
        read(path)


def test_a_tar_that_ends_between_two_members_is_cut_short(tmp_path: Path) -> None:
    path = tar_of(tmp_path / "x", [("s1", bytes(512)), ("s2", bytes(512))])
    path.write_bytes(path.read_bytes()[:1024])
    with pytest.raises(ValueError, match="x is cut short: its end is missing"):
        read(path)


@pytest.mark.parametrize("mode", ["", ":gz"])
def test_a_tar_with_damage_between_two_members_is_refused(mode: str, tmp_path: Path) -> None:
    path = tar_of(tmp_path / "x", [("s1", bytes(512)), ("s2", bytes(512))])
    data = bytearray(path.read_bytes())
    data[1024 + 10] ^= 1
    path.write_bytes(data)
    if mode:
        path.write_bytes(gzip.compress(data))
    with pytest.raises(ValueError, match="x is damaged: at 1024 is neither a member nor the end"):
        read(path)


@pytest.mark.parametrize("mode", [":gz", ":xz"])
def test_damage_to_compressed_bytes_is_refused_by_name(mode: str, tmp_path: Path) -> None:
    path = tar_of(tmp_path / "x", [(f"s{number}", b"%09d" % number * 5000) for number in range(20)], mode=mode)
    data = bytearray(path.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 40] = bytes(40)
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"x is (damaged|neither)"):
        read(path)
