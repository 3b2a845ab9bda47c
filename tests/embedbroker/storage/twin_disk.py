"""Real files under the simulated disk's crashes.

Responsible for doing every operation on both and comparing what they say, and for leaving the real directory after a
power cut as the simulated disk leaves one after a power cut: a test cannot cut the power of the machine it runs on.
Does not depend on what the files mean.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

from attrs import define, field

from embedbroker.runtime._disk import FileDisk
from embedbroker.storage import DiskOperation, ListFiles, Read, Sync, SyncDirectory, WriteAt
from embedbroker.testing._disk import SimulatedDisk

__all__ = ["TwinDisk"]

_FILE_BYTES_MAX = 1 << 30


@define(eq=False)
class TwinDisk(SimulatedDisk):
    """A simulated disk with a directory of real files beside it, empty at first."""

    directory: Path = field(kw_only=True)
    _real: FileDisk = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._real = FileDisk(self.directory)

    def run(self, operations: tuple[DiskOperation, ...]) -> tuple[object, ...]:
        """Do the operations on both; they must agree."""
        results = self._real.run(operations)
        assert results == SimulatedDisk.run(self, operations), operations
        return results

    def crash(self, random: Random, tear: bool = True) -> None:
        """Cut the power: the real files become what is left."""
        SimulatedDisk.crash(self, random, tear)
        self._real.close()
        for path in self.directory.iterdir():
            path.unlink()
        self._real = FileDisk(self.directory)
        (names,) = SimulatedDisk.run(self, (ListFiles(),))
        assert isinstance(names, tuple)
        for name in names:
            (data,) = SimulatedDisk.run(self, (Read(name, 0, _FILE_BYTES_MAX),))
            assert isinstance(data, bytes)
            self._real.run((WriteAt(name, 0, (data,)), Sync(name)))
        self._real.run((SyncDirectory(),))

    def kill(self) -> None:
        """The process that had the files open is gone, and the system goes on."""
        self._real.close()
        self._real = FileDisk(self.directory)

    def close(self) -> None:
        """Close the real files."""
        self._real.close()
