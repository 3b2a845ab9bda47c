"""The audit log of a simulated broker: files that survive the end of its process.

A crash of the simulation is a power cut for the journal; for the log it is a kill, after which everything written is
there. So everything that the journal still holds after it must be in the log.
"""

from __future__ import annotations

from attrs import Factory, define

from embedbroker.config import BrokerConfig
from embedbroker.storage import AuditLog, AuditWork, ListFiles, Read, Stat, scan_audit_directory

from ._disk import SimulatedDisk

__all__ = ["AuditFiles"]


@define(eq=False)
class AuditFiles:
    """The files of one broker, life after life.

    Writing takes no time, so a run is the same with the log and without.
    """

    retention_bytes: int
    segment_size_bytes: int
    disk: SimulatedDisk = Factory(SimulatedDisk)

    @classmethod
    def of(cls, config: BrokerConfig) -> AuditFiles:
        """Return files of the size that a broker of this configuration requires."""
        return cls(config.audit_retention, config.segment_size_bytes)

    def new_log(self) -> AuditLog:
        """Return the log of a life that begins."""
        place = scan_audit_directory(self.disk)
        sizes = {"retention_bytes": self.retention_bytes, "segment_size_bytes": self.segment_size_bytes}
        return AuditLog(place, **sizes)

    def write(self, work: AuditWork) -> None:
        """Do all of the work at once."""
        self.disk.run((*work.operations, *work.later))

    def files(self) -> dict[str, bytes]:
        """Return the files by name."""
        return contents(self.disk)


def contents(disk: SimulatedDisk) -> dict[str, bytes]:
    """Return all files of a disk."""
    (names,) = disk.run((ListFiles(),))
    assert isinstance(names, tuple)
    files = {}
    for name in names:
        (size,) = disk.run((Stat(name),))
        assert isinstance(size, int)
        (data,) = disk.run((Read(name, 0, size),))
        assert isinstance(data, bytes)
        files[name] = data
    return files
