"""The answers of a lock store or a lock manager, as inputs of a node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

if TYPE_CHECKING:
    from embedbroker.locks import LockFault

__all__ = ["LockDone", "LockFailed"]


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
