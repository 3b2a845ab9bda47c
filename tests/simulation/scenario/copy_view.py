"""What a replicating broker holds about copies: its stream to a backup, the copy that it is, and its record.

Responsible for looking at them from outside, for faults that wait for their moment and for checkers. Refuses to change
anything.
"""

from __future__ import annotations

from attrs import frozen

from embedbroker.testing._node_host import NodeHost

__all__ = ["CopyState", "Stream", "copy_state_of", "stream_of"]


@frozen
class Stream:
    """From a live broker to its backup. ``state`` is what the journal waits for."""

    state: str
    catches_up: bool
    fails_back: bool
    #: Where the backup is, and whether it has something to answer.
    to: str
    owes: bool

    @property
    def is_copying(self) -> bool:
        """Whether the backup is on its way to being in sync."""
        return self.state in ("copying", "handing over")

    @property
    def is_alone(self) -> bool:
        """Whether this broker confirms what no other has."""
        return self.state in ("alone", "copying")

    @property
    def is_in_sync(self) -> bool:
        return self.state == "synchronised"

    @property
    def is_held(self) -> bool:
        """Whether nothing may be confirmed, because a backup is lost that may take over."""
        return self.state == "held"


@frozen
class CopyState:
    """Whose copy the files of a broker are, and how new: what it may be live with."""

    node_id: str
    epoch: int
    in_sync: bool


def stream_of(host: NodeHost) -> Stream | None:
    """Of a broker that is live, or about to be."""
    replica_disk = host.node.replica_disk if host.node is not None else None
    replicator = replica_disk.replicator if replica_disk is not None else None
    if replicator is None:
        return None
    registration = replicator.registration
    return Stream(
        replicator.state.value,
        replicator.catches_up,
        registration is not None and registration.wants_fail_back,
        registration.connector.name if registration is not None else "",
        replicator.is_owed,
    )


def copy_state_of(host: NodeHost) -> CopyState | None:
    """Of a broker that runs and replicates."""
    replica_disk = host.node.replica_disk if host.node is not None else None
    if replica_disk is None:
        return None
    record = replica_disk.record_file.record
    return CopyState(record.node_id or "", record.epoch, record.in_sync)
