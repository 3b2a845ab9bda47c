"""Everything a node can request of its host, as a closed union."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

from attrs import frozen

from embedbroker.ha import RoleChanged, StartBackup
from embedbroker.kernel import HostTask, TaskKind
from embedclient.engine import (
    CloseConnection,
    Dial,
    JoinGroup,
    LeaveGroup,
    SendBytes,
    SendDatagram,
    TransportOutput,
)

if TYPE_CHECKING:
    from embedbroker.locks import LeaseWork, LockWork
    from embedbroker.security import PasswordCheck
    from embedbroker.storage import AuditWork, DiskWork

__all__ = [
    "BranchDecided",
    "CheckPassword",
    "CloseConnection",
    "Dial",
    "HostTask",
    "JoinGroup",
    "LeaveGroup",
    "LetBrokersIn",
    "Level",
    "Managed",
    "Notice",
    "Output",
    "PauseReading",
    "Ready",
    "ResumeReading",
    "RoleChanged",
    "SendBytes",
    "SendDatagram",
    "StartBackup",
    "StopListening",
    "Stopped",
    "TaskKind",
]


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
class PauseReading:
    """Read nothing more from a peer: what it sends waits for the disk. What arrives nevertheless is kept."""

    connection: int


@frozen
class ResumeReading:
    """Read from a peer again."""

    connection: int


@frozen
class BranchDecided:
    """The answer to a DecideBranch, once it is durable. ``found`` False: no such branch was prepared."""

    request: int
    found: bool


@frozen
class Managed:
    """The answer to a Manage, once its effect is durable: a value of JSON, or the text of a failure."""

    request: int
    value: object
    failure: str | None


@frozen
class CheckPassword:
    """The host must run the check in a thread, and answer with PasswordChecked."""

    check: PasswordCheck


@frozen
class Ready:
    """The journal was read; connections are served from now on."""


@frozen
class LetBrokersIn:
    """Listen already, though the broker is not live: other waiting brokers must find it. False: stop that."""

    wanted: bool


@frozen
class StopListening:
    """Accept no more connections; connected clients are notified next, and then it is over.

    A client that is notified tries the same place again at once. An Artemis client that is accepted there and closed
    again, before its first request is answered, does not notice. It waits for the answer as long as for any: 30 s.
    """


@frozen
class Stopped:
    """The node produces no further output. ``failure`` is the reason if no stop was requested.

    With ``restarts`` another node must wait in its place, as backup: it gave way to a primary; or, with a failure, the
    disk is full.
    """

    failure: str | None
    restarts: bool = False


# As text: a node without a journal does not load the definition of a disk.
Output: TypeAlias = (
    "TransportOutput | PauseReading | ResumeReading | AuditWork | DiskWork | LockWork | LeaseWork | Notice"
    " | BranchDecided | Managed | CheckPassword | HostTask | Ready"
    " | JoinGroup | LeaveGroup | SendDatagram | RoleChanged | StartBackup | LetBrokersIn | StopListening | Stopped"
)
