"""The answers of a lock store or a lock manager, and the roles of hosted backups, as inputs of a node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

from embedbroker.config import Role

if TYPE_CHECKING:
    from embedbroker.locks import LockFault

__all__ = ["BackupChanged", "LockDone", "LockFailed"]


@frozen
class LockDone:
    """The lock store did all operations of a batch."""

    batch: int
    results: tuple[object, ...]


@frozen
class LockFailed:
    """The lock store could not do an operation of a batch; later ones of the batch were not tried."""

    batch: int
    fault: LockFault


@frozen
class BackupChanged:
    """The role of a hosted backup from now on. STOPPED ends it: ``failure`` is the reason if no stop was requested."""

    index: int
    role: Role
    failure: str | None = None
