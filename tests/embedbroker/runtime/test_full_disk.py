"""A file system that is really full: the broker goes on in the segment there is, then it stops and loses nothing."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from embedbroker.runtime._disk import FileDisk
from embedbroker.storage import Allocate, DiskFault, FaultKind, Stat

from .full_disk_program import BODY, SEGMENT_BYTES

ROOT = Path(__file__).parents[3]


def run(folder: Path, how: str) -> dict[str, object]:
    command = [sys.executable, "-m", "tests.embedbroker.runtime.full_disk_program", str(folder), how]
    if how == "tmpfs":
        command = ["unshare", "--user", "--map-root-user", "--mount", *command]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


def may_mount(folder: Path) -> bool:
    """Return True if this process may mount a separate file system: not in every container."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    try:
        tried = subprocess.run(["unshare", "--user", "--map-root-user", "--mount", *mount], capture_output=True)
    except FileNotFoundError:
        return False
    return tried.returncode == 0


def test_the_broker_goes_on_until_its_segment_is_full_and_starts_again_when_there_is_space(tmp_path: Path) -> None:
    how = "tmpfs" if may_mount(tmp_path) else "limit"
    found = run(tmp_path, how)
    confirmed, lines = found["confirmed"], found["lines"]
    assert isinstance(confirmed, int) and isinstance(lines, list)
    segments = 2 if how == "tmpfs" else 1
    assert confirmed * len(BODY) > 0.6 * segments * SEGMENT_BYTES, "the segments were used up"
    warned_at, warning = next(line for line in lines if "background" in line[1])
    assert warned_at < confirmed - 0.2 * SEGMENT_BYTES / len(BODY), "the broker stopped when it could have gone on"
    if how == "tmpfs":
        assert "goes on until segment-0000000002.journal is full" in warning
        assert "No space left" in str(found["reason"])
    assert found["error"], "the client was told"
    assert found["received"] in (confirmed, confirmed + 1), "the send that failed is in doubt"


def test_an_allocation_that_fails_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ext4 gives what it has before it reports that it is full."""

    def ext4(descriptor: int, offset: int, length: int) -> None:
        os.ftruncate(descriptor, length // 2)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    disk = FileDisk(tmp_path)
    disk.run((Allocate("small", 4096),))
    monkeypatch.setattr(os, "posix_fallocate", ext4)
    for file, before in (("small", 4096), ("new", 0)):
        with pytest.raises(DiskFault) as raised:
            disk.run((Allocate(file, 1 << 20),))
        assert raised.value.kind is FaultKind.FULL
        assert disk.run((Stat(file),)) == (before,)
    disk.close()
