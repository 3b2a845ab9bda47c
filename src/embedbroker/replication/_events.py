"""The values between the two halves of replication: one moves bytes, one decides which broker is active.

Responsible for the states and endings of the two ends of a stream, and for the seam to the connection below. Contains
no behaviour.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, IntEnum
from typing import Protocol

from attrs import frozen

from embedclient.engine.core import ChannelReceiver

__all__ = [
    "STREAM_CHANNEL",
    "STREAM_FORMAT",
    "Ending",
    "EndingKind",
    "PrimaryStatus",
    "Refusal",
    "ReplicaOwner",
    "ReplicaState",
    "ReplicatorOwner",
    "ReplicatorState",
    "StreamConnection",
    "other_format",
]

# The channel of all packets except the registration.
STREAM_CHANNEL = 2

#: The format of all packets that follow a registration. Another one is refused.
STREAM_FORMAT = 2


class StreamConnection(Protocol):
    """A connection between two brokers of a cluster, opened by either, after cluster user and password were right."""

    #: Takes the frames of the stream channel.
    receiver: ChannelReceiver | None

    @property
    def name(self) -> str:
        """Return where the peer is, for the operator."""

    def write_pieces(self, pieces: Sequence[bytes | bytearray]) -> None:
        """Send whole frames; on a connection that is gone they go nowhere."""

    def fail(self, reason: str) -> None:
        """End the connection; the receiver is informed in here or in a later step."""


class ReplicatorState(Enum):
    """What a primary's journal waits for.

    ALONE and COPYING: its own disk. HANDING_OVER and SYNCHRONISED: its own disk and the backup's. HELD: a backup that
    may believe itself in sync is lost, and nothing more is confirmed until `go_on_alone`.
    """

    ALONE = "alone"
    COPYING = "copying"
    HANDING_OVER = "handing over"
    SYNCHRONISED = "synchronised"
    HELD = "held"


class ReplicaState(Enum):
    """The stages of a backup beside one primary. Only IN_SYNC may take over."""

    JOINING = "joining"
    COPYING = "copying"
    IN_SYNC = "in sync"
    OVER = "over"


class Refusal(IntEnum):
    """Why a primary does not accept a backup; the first three as Artemis numbers them."""

    NOT_READY = 0
    AUTHENTICATION = 1
    ALREADY_REPLICATING = 2
    OTHER_FORMAT = 3
    OTHER_NODE = 4


class EndingKind(Enum):
    """Why a backup's stream is over.

    LOST: the connection went away. FAIL_OVER: the primary ended in order, and this one must take over. STOP_CALLED: the
    connection went away after an orderly stop had begun. REFUSED: the primary does not accept it. BROKEN: one of the
    two ends could not go on (a disk that failed, bytes that make no sense). CLOSED: this side ended it.
    """

    LOST = "lost"
    FAIL_OVER = "fail over"
    STOP_CALLED = "stop called"
    REFUSED = "refused"
    BROKEN = "broken"
    CLOSED = "closed"


@frozen
class Ending:
    """The end of a backup's stream.

    Args:
        kind: Why the stream is over.
        text: The reason, for the operator.
        in_sync: Whether the files hold everything that the primary ever confirmed up to now.
        refusal: Why the primary did not accept the backup; set with REFUSED.
        disk_failed: Whether the disk failed, and could not even record that. What it shows may not be there, so this
            broker must not use the directory again, and must stop.
    """

    kind: EndingKind
    text: str
    in_sync: bool
    refusal: Refusal | None = None
    disk_failed: bool = False


@frozen
class PrimaryStatus:
    """The facts that a primary sends to a backup: the node and the journal of the copy.

    Args:
        node_id: The node id.
        journal_identity: The identity of the journal.
        epoch: The epoch of the primary.
        allows_fail_back: Whether the primary gives way to a backup in sync that is configured as primary.
    """

    node_id: str
    journal_identity: int
    epoch: int
    allows_fail_back: bool


def other_format(theirs: int) -> str:
    """Return the text for the operator of two brokers with different formats."""
    return (
        f"the other broker speaks format {theirs} of replication, and this one {STREAM_FORMAT}: install the same"
        " version on both"
    )


class ReplicatorOwner(Protocol):
    """The active broker of a `Replicator`."""

    def may_hand_over(self) -> bool:
        """Return True if a backup that has everything may be in sync now; called whenever there may be work."""

    def on_synchronised(self) -> None:
        """Handle that a backup is in sync."""

    def on_lost(self, reason: str, held: bool) -> None:
        """Handle the loss of a backup that was not dismissed. ``held``: the replicator is in the state HELD."""


class ReplicaOwner(Protocol):
    """The backup of a `Replica`."""

    def on_accepted(self, status: PrimaryStatus) -> None:
        """Handle that the node of the copy is known."""

    def on_segment(self, generation: int) -> None:
        """Handle that a segment has batches on disk: the newest one before IN_SYNC, and then each new one."""

    def on_in_sync(self, status: PrimaryStatus) -> None:
        """Handle that this backup may take over."""

    def on_over(self, ending: Ending, status: PrimaryStatus | None) -> None:
        """Handle the end of the attempt, once, when the files are at rest. ``status``: None before `on_accepted`."""
