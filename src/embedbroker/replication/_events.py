"""What both halves of replication say to each other: the one that moves bytes, and the one that decides who is live.

Responsible for the states and endings of the two ends of a stream, and for the seam to the connection below. Refuses to
do anything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum, IntEnum
from typing import Protocol

from attrs import frozen

__all__ = [
    "STREAM_CHANNEL",
    "STREAM_FORMAT",
    "Ending",
    "EndingKind",
    "FrameReceiver",
    "PrimaryStatus",
    "Refusal",
    "ReplicaState",
    "ReplicatorState",
    "StreamConnection",
    "other_format",
]

# Where everything but the registration travels.
STREAM_CHANNEL = 2

#: Of everything that follows a registration. Another one is refused.
STREAM_FORMAT = 2

#: Takes one frame of the stream channel: packet type, buffer, start, end.
FrameReceiver = Callable[[int, bytes | bytearray, int, int], None]


class StreamConnection(Protocol):
    """A connection between two brokers of a cluster, whoever opened it, after cluster user and password were right."""

    #: Who takes the frames of the stream channel, and who is told when the connection is gone, whoever ended it.
    on_frame: FrameReceiver | None
    on_gone: Callable[[], None] | None

    @property
    def name(self) -> str:
        """Where the peer is, for the operator."""

    def write_pieces(self, pieces: Sequence[bytes | bytearray]) -> None:
        """Send whole frames; on a connection that is gone they go nowhere."""

    def fail(self, reason: str) -> None:
        """End the connection; `on_gone` is called in here or in a later step."""


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
    """The way of a backup beside one primary. Only IN_SYNC may take over."""

    JOINING = "joining"
    COPYING = "copying"
    IN_SYNC = "in sync"
    OVER = "over"


class Refusal(IntEnum):
    """Why a primary does not take a backup; the first three as Artemis numbers them."""

    NOT_READY = 0
    AUTHENTICATION = 1
    ALREADY_REPLICATING = 2
    OTHER_FORMAT = 3
    OTHER_NODE = 4


class EndingKind(Enum):
    """Why a backup's stream is over.

    LOST: the connection went away. FAIL_OVER: the primary ended in order, and this one is to take over. STOP_CALLED:
    the connection went away after an orderly stop had begun. REFUSED: the primary does not take it. BROKEN: one of the
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
    """``in_sync``: the files hold everything that the primary ever confirmed up to now. ``refusal`` with REFUSED.

    ``disk_failed``: it failed so that not even that could be noted on it. What it shows may not be there, so this
    directory must not be used again by this broker: it has to stop.
    """

    kind: EndingKind
    text: str
    in_sync: bool
    refusal: Refusal | None = None
    disk_failed: bool = False


@frozen
class PrimaryStatus:
    """What a primary tells a backup of itself: whose copy it will be, and of what."""

    node_id: str
    journal_identity: int
    activation_sequence: int
    allows_fail_back: bool


def other_format(theirs: int) -> str:
    """What to tell the operator of two brokers that do not understand each other."""
    return (
        f"the other broker speaks format {theirs} of replication, and this one {STREAM_FORMAT}: install the same"
        " version on both"
    )
