"""The amount of memory that this process may use."""

from __future__ import annotations

import os

__all__ = ["usable_memory_bytes"]

CGROUP_FILES = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
_FALLBACK_BYTES = 1024 * 1024 * 1024


def usable_memory_bytes() -> int:
    """Return the smallest of physical memory, the control group's limit and the address space limit, in bytes."""
    limits = [_physical_bytes()]
    for path in CGROUP_FILES:
        try:
            with open(path, encoding="ascii") as file:
                text = file.read().strip()
        except OSError:
            continue
        if text.isdigit():
            limits.append(int(text))
    try:
        import resource
    except ImportError:  # not on Windows
        pass
    else:
        soft, _hard = resource.getrlimit(resource.RLIMIT_AS)
        if soft != resource.RLIM_INFINITY:
            limits.append(soft)
    return min(limits)


def _physical_bytes() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return _FALLBACK_BYTES
