"""Long disk work as a generator: it yields requests and is resumed with the answers.

Responsible for the protocol between such work (recovery, preparing segments, compaction, inspection) and its runner.
Does not depend on the subject of the work.

A step yields a tuple of operations and receives their results, or a durability point and receives () once that is
reached. The work between two yields is bounded by one slice, so that the caller can put other work in between.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

from ._disk import Disk, DiskOperation, Read

__all__ = ["Corruption", "Request", "Steps", "read", "run_steps"]

Request = tuple[DiskOperation, ...] | int
T = TypeVar("T")
Steps = Generator[Request, tuple[object, ...], T]


class Corruption(Exception):
    """Synced data is damaged or missing. To continue would lose messages silently."""

    def __init__(self, file: str, offset: int, text: str) -> None:
        super().__init__(f"{file} at offset {offset}: {text}")
        self.file = file
        self.offset = offset
        self.text = text


def read(file: str, offset: int, length: int) -> Steps[bytes]:
    """Read one stretch of a file."""
    (data,) = yield (Read(file, offset, length),)
    assert isinstance(data, bytes)
    return data


def run_steps(steps: Steps[T], disk: Disk) -> T:
    """Run work that needs no durability points to its end, at once: for tools that read a stopped journal.

    Raises:
        DiskFault: an operation failed.
        Corruption: the work found damage.
    """
    try:
        request = next(steps)
        while True:
            assert isinstance(request, tuple)
            request = steps.send(disk.run(request))
    except StopIteration as stop:
        result: T = stop.value
        return result
