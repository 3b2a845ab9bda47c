"""Everything a node can ask its host to do, as a closed union."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

from attrs import frozen

from embedclient.model import TransportConfiguration

if TYPE_CHECKING:
    from embedbroker.storage import DiskWork

__all__ = ["BranchDecided", "CloseConnection", "Dial", "Level", "Notice", "Output", "Ready", "SendBytes", "Stopped"]


@frozen
class Dial:
    """Open a connection; answered by Dialed or DialFailed, or by nothing after a CloseConnection for it.

    ``connection`` is below zero, and is not used again.
    """

    connection: int
    connector: TransportConfiguration
    timeout_s: float


@frozen
class SendBytes:
    """Write to a peer; at most one per connection and step."""

    connection: int
    data: bytes


@frozen
class CloseConnection:
    """Close a connection after its SendBytes of this step; no PeerClosed follows."""

    connection: int
    reason: str


class Level(Enum):
    """How much a notice matters."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@frozen
class Notice:
    """One line for the operator."""

    level: Level
    text: str


@frozen
class BranchDecided:
    """The answer to a DecideBranch, once it is durable. ``found`` False: no such branch was prepared."""

    request: int
    found: bool


@frozen
class Ready:
    """The journal was read; connections are served from now on."""


@frozen
class Stopped:
    """Nothing more will come out of this node. ``failure`` says why when it was not asked to stop."""

    failure: str | None


# As text: a node without a journal does not load what a disk is.
Output: TypeAlias = "Dial | SendBytes | CloseConnection | DiskWork | Notice | BranchDecided | Ready | Stopped"
