"""The reports of an activation, and the order to host a backup, as outputs of a node."""

from __future__ import annotations

from attrs import frozen

from embedbroker.config import Role

__all__ = ["RoleChanged", "StartBackup"]


@frozen
class RoleChanged:
    """The role of the broker in its group from now on. Ready comes with LIVE, Stopped reports the rest.

    ``in_sync``: it has a backup that is a whole copy, or is one. A change of that alone is reported with the same role.
    """

    role: Role
    in_sync: bool = False


@frozen
class StartBackup:
    """The host must start a backup of another broker in this process, and report its roles as BackupChanged.

    ``index`` is the place of the backup at this broker, from 0. The directories are those of the other broker; None
    without a shared store, and for a broker in memory.
    """

    index: int
    node_id: str
    data_directory: str | None
    lock_directory: str | None
    bodies_directory: str | None
