"""Processor time and memory of a process, read from /proc. Does not depend on what the process does."""

from __future__ import annotations

import os
import threading
import time
from bisect import bisect_left
from pathlib import Path

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def cpu_seconds(pid: int) -> float:
    """Return the user and system time of all threads since the process began."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND


def resident_bytes(pid: int) -> int:
    """Return the memory of the process that is in RAM now."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES


def family(pid: int) -> list[int]:
    """Return the process and its descendants, as far as they live."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        children.setdefault(int(fields[1]), []).append(int(path.parent.name))
    found = [pid]
    for each in found:
        found += children.get(each, [])
    return found


def family_cpu_seconds(pid: int) -> float:
    """Return the processor time of a process and its descendants, those that ended and were waited for included."""
    total = 0
    for each in family(pid):
        try:
            fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        total += sum(map(int, fields[11:15]))
    return total / TICKS_PER_SECOND


class CpuRecord:
    """Sample a process's processor time four times a second while it is open. It interpolates any moment in between."""

    PERIOD_S = 0.25

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._times: list[float] = []
        self._seconds: list[float] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> CpuRecord:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def at(self, wall_seconds: float) -> float:
        """Return the processor seconds used until then, interpolated."""
        index = min(max(bisect_left(self._times, wall_seconds), 1), len(self._times) - 1)
        (left, right), (low, high) = self._times[index - 1 : index + 1], self._seconds[index - 1 : index + 1]
        share = min(max((wall_seconds - left) / (right - left), 0.0), 1.0)
        return low + (high - low) * share

    def _sample(self) -> None:
        while not self._stop.is_set():
            self._times.append(time.time())
            self._seconds.append(cpu_seconds(self._pid))
            self._stop.wait(self.PERIOD_S)
