"""Everything that can happen to a node, as a closed union. One value per read or write, never one per message."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

from attrs import frozen

from embedbroker.ha import BackupChanged, LockDone, LockFailed
from embedclient.engine import (
    BytesReceived,
    DatagramReceived,
    Dialed,
    DialFailed,
    GroupFailed,
    PeerClosed,
    Tick,
    TransportInput,
    Written,
)
from embedclient.model import TransportConfiguration, Xid

if TYPE_CHECKING:
    from collections.abc import Mapping

    from embedbroker.config import (
        AddressConfiguration,
        AddressSettings,
        DivertConfiguration,
        GuestLogin,
        SecuritySetting,
        User,
    )
    from embedbroker.storage import DiskFault

__all__ = [
    "OF_TRAFFIC",
    "Accepted",
    "AuditFailed",
    "BackupChanged",
    "BytesReceived",
    "CertificateReceived",
    "Command",
    "CommandKind",
    "DatagramReceived",
    "DecideBranch",
    "DialFailed",
    "Dialed",
    "DiskDone",
    "DiskFailed",
    "GroupFailed",
    "Input",
    "LockDone",
    "LockFailed",
    "MakeRoom",
    "Manage",
    "PasswordChecked",
    "PeerClosed",
    "ReloadConfiguration",
    "ReplaceUsers",
    "ScaleDownTo",
    "TaskDone",
    "Tick",
    "Written",
]


@frozen
class Accepted:
    """A peer connected. ``connection`` is a number chosen by the host, larger than any that it used before.

    ``acceptor`` is the index of the place where it connected, in `BrokerConfig.listens_at`.
    """

    connection: int
    peer: str
    acceptor: int = 0


@frozen
class CertificateReceived:
    """TLS has verified the certificate of a peer; comes before its first bytes.

    ``subject`` is the certificate's subject as text.
    """

    connection: int
    subject: str


@frozen
class ReplaceUsers:
    """Users and guest login are these from now on; sessions keep their users and roles."""

    users: tuple[User, ...]
    guest: GuestLogin | None


@frozen
class PasswordChecked:
    """The answer to a CheckPassword with that number: whether the password is right."""

    number: int
    matches: bool


@frozen
class MakeRoom:
    """The host has no room for a peer that waits: a connection that sent no request may be closed for it."""


@frozen
class DiskDone:
    """All operations of a disk batch succeeded."""

    batch: int
    results: tuple[object, ...]


@frozen
class DiskFailed:
    """An operation of a disk batch failed; later ones of the batch were not tried."""

    batch: int
    fault: DiskFault


class CommandKind(Enum):
    """The requests of the host. FAIL_OVER is an orderly stop after which a backup takes over, whatever the policy."""

    START = "start"
    STOP = "stop"
    FAIL_OVER = "fail over"


@frozen
class Command:
    """A request of the host."""

    kind: CommandKind


@frozen
class DecideBranch:
    """Commit or roll back a prepared XA branch in place of its transaction manager; answered by BranchDecided."""

    request: int
    xid: Xid
    commit: bool


@frozen
class Manage:
    """A management call of the broker's owner: read an attribute, or run an operation; answered by Managed."""

    request: int
    resource: str
    attribute: str | None
    operation: str | None
    arguments: tuple[object, ...] = ()


@frozen
class ReloadConfiguration:
    """Adopt parts of a configuration that has changed; answered by Managed, whose failure names refusals.

    None keeps a part. ``security_settings`` are those in force: `BrokerConfig.permissions`.
    """

    request: int
    address_settings: Mapping[str, AddressSettings] | None = None
    security_settings: Mapping[str, SecuritySetting] | None = None
    diverts: Mapping[str, DivertConfiguration] | None = None
    addresses: Mapping[str, AddressConfiguration] | None = None


@frozen
class ScaleDownTo:
    """Move everything to another broker, then stop; answered by Managed with the number of messages that moved.

    ``connector`` None leaves the choice to the configuration. Without a target the broker goes on.
    """

    request: int
    connector: TransportConfiguration | None = None


@frozen
class TaskDone:
    """The answer to a HostTask with that number: its value, or the text of a failure."""

    number: int
    value: object
    failure: str | None


@frozen
class AuditFailed:
    """The disk of the audit log failed to do the requested work."""

    text: str


Input: TypeAlias = (
    TransportInput
    | Accepted
    | CertificateReceived
    | ReplaceUsers
    | PasswordChecked
    | MakeRoom
    | DiskDone
    | DiskFailed
    | LockDone
    | LockFailed
    | Command
    | DecideBranch
    | Manage
    | ReloadConfiguration
    | ScaleDownTo
    | TaskDone
    | AuditFailed
    | DatagramReceived
    | GroupFailed
    | BackupChanged
)

# The inputs that come with each message. In a broker that serves, these steps check no timed work before the moment
# that the host was given. A Tick comes for it, unless one of these inputs is first.
OF_TRAFFIC = (BytesReceived, DiskDone, Written)
