"""How much memory a broker gives to messages when its configuration does not say: half of what the process may use."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest

from embedbroker import EmbeddedBroker
from embedbroker.runtime import _memory_limit
from embedbroker.runtime._embedded import life_of

MIB = 1024 * 1024
PAGE_BYTES = 4096
UNLIMITED = resource.RLIM_INFINITY


def pretend(
    monkeypatch: pytest.MonkeyPatch, directory: Path, physical: int, groups: tuple[str | None, str | None], space: int
) -> None:
    """A machine with so much memory, files of a control group with these texts, and an address space limit."""
    numbers = {"SC_PHYS_PAGES": physical // PAGE_BYTES, "SC_PAGE_SIZE": PAGE_BYTES}
    monkeypatch.setattr(os, "sysconf", numbers.__getitem__)
    real = resource.getrlimit
    limits = {resource.RLIMIT_AS: (space, UNLIMITED)}
    monkeypatch.setattr(resource, "getrlimit", lambda which: limits.get(which) or real(which))
    for name, text in zip(("second", "first"), groups, strict=True):
        if text is not None:
            (directory / name).write_text(text, encoding="ascii")
    monkeypatch.setattr(_memory_limit, "CGROUP_FILES", (str(directory / "second"), str(directory / "first")))


@pytest.mark.parametrize(
    ("physical", "groups", "space", "half"),
    [
        (800 * MIB, (None, None), UNLIMITED, 400 * MIB),
        (800 * MIB, ("max\n", None), UNLIMITED, 400 * MIB),
        (800 * MIB, (f"{600 * MIB}\n", None), UNLIMITED, 300 * MIB),
        # The first kind of control groups writes "no limit" as a number beyond all memory.
        (800 * MIB, (None, f"{2**63 - PAGE_BYTES}\n"), UNLIMITED, 400 * MIB),
        (800 * MIB, (None, f"{500 * MIB}\n"), UNLIMITED, 250 * MIB),
        (800 * MIB, (None, None), 300 * MIB, 150 * MIB),
        (800 * MIB, (f"{200 * MIB}\n", None), 300 * MIB, 100 * MIB),
        (100 * MIB, (f"{200 * MIB}\n", f"{250 * MIB}\n"), 300 * MIB, 50 * MIB),
    ],
    ids=["physical", "no-group", "group", "old-no-group", "old-group", "address-space", "smallest", "smaller-machine"],
)
async def test_the_default_is_half_of_the_smallest_limit(
    physical: int,
    groups: tuple[str | None, str | None],
    space: int,
    half: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pretend(monkeypatch, tmp_path, physical, groups, space)
    async with EmbeddedBroker() as broker:
        assert life_of(broker).host.node.kernel.memory.limit_bytes == half


async def test_a_configured_limit_is_taken_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, tmp_path, 100 * MIB, (None, None), UNLIMITED)
    async with EmbeddedBroker(global_max_size_bytes=90 * MIB) as broker:
        assert life_of(broker).host.node.kernel.memory.limit_bytes == 90 * MIB


def test_where_the_system_does_not_tell_it_is_a_gibibyte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, tmp_path, 100 * MIB, (None, None), UNLIMITED)

    def unknown(name: str) -> int:
        raise ValueError(name)

    monkeypatch.setattr(os, "sysconf", unknown)
    assert _memory_limit.usable_memory_bytes() == 1024 * MIB
