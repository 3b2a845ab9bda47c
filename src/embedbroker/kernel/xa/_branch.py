"""One XA transaction branch: the work of one resource manager in a transaction that a manager elsewhere decides.

Responsible for the state of a branch and the sessions that work in it, as data, and for the refusals of requests to it.
Changes nothing; the table of branches does.
"""

from __future__ import annotations

from enum import Enum
from struct import Struct
from typing import Protocol

from attrs import frozen

from embedclient.model import XaCode, Xid

from ..transactions._transaction import Transaction

__all__ = [
    "XID_PART_BYTES_MAX",
    "Branch",
    "BranchState",
    "BranchWorker",
    "XaRefused",
    "xid_bytes",
    "xid_of",
]

XID_PART_BYTES_MAX = 64
"""Bytes of a global transaction id, and of a branch qualifier, in X/Open's specification."""

_XID = Struct("<iBB")


def xid_bytes(xid: Xid) -> bytes:
    """Return the form in which records carry it.

    Format id, lengths of global transaction id and branch qualifier, both.
    """
    parts = xid.global_transaction_id, xid.branch_qualifier
    return _XID.pack(xid.format_id, *map(len, parts)) + b"".join(parts)


def xid_of(data: bytes) -> Xid:
    """Return the inverse of `xid_bytes`.

    Raises:
        ValueError: The bytes are not such a form.
    """
    if len(data) < _XID.size:
        raise ValueError("a branch id cut short")
    format_id, global_size, qualifier_size = _XID.unpack_from(data)
    end = _XID.size + global_size
    if len(data) != end + qualifier_size:
        raise ValueError("a branch id with wrong sizes")
    return Xid(format_id, data[end:], data[_XID.size : end])


@frozen
class XaRefused:
    """State that a request concerning a branch failed.

    The outcome that a transaction manager receives, and the reason.
    """

    code: XaCode
    text: str


class BranchWorker(Protocol):
    """Provide what branches need of a session that works in one of them.

    ``left_xid`` is the branch that it worked in last. ``xa_timeout`` is in seconds, None for the broker's time-out.
    ``unfinished`` counts what its next answer must wait for.
    """

    transaction: Transaction | None
    left_xid: Xid | None
    xa_timeout: int | None
    unfinished: int

    @property
    def branch(self) -> Branch | None:
        """Return the branch that the session works in."""

    def enter(self, branch: Branch, transaction: Transaction) -> None:
        """Assign all later work of the session to a branch."""

    def leave(self) -> Transaction:
        """Leave the branch; return the transaction that gathered the work of the session."""

    def return_held(self) -> None:
        """Take back what the consumers of the session hold."""


class BranchState(Enum):
    """Define the state of a branch.

    An ended one is idle: it waits for prepare, for one-phase commit or for rollback.
    """

    WORKED_IN = "worked in"
    SUSPENDED = "suspended"
    IDLE = "idle"
    PREPARED = "prepared"
    # Rolled back or committed, or never in the table: sessions may still be attached to it.
    OVER = "over"


class Branch:
    """Hold one branch. ``deadline`` is when it is rolled back unless it is prepared by then, in monotonic seconds.

    ``verdict`` is what a transaction manager receives when the branch can only be rolled back.
    """

    __slots__ = (
        "begun",
        "deadline",
        "is_over",
        "is_prepared",
        "is_recorded",
        "left_by",
        "suspensions",
        "transaction",
        "verdict",
        "workers",
        "xid",
    )

    def __init__(self, xid: Xid, transaction: Transaction, begun: float, deadline: float) -> None:
        self.xid = xid
        self.transaction = transaction
        self.begun = begun
        self.deadline = deadline
        self.verdict = XaCode.XA_RBROLLBACK
        # Sessions whose sends and acknowledgements belong to it now.
        self.workers: dict[BranchWorker, None] = {}
        # The session that worked in it last.
        self.left_by: BranchWorker | None = None
        # Sessions that suspended their work in it. Any session may resume it.
        self.suspensions = 0
        self.is_prepared = False
        # True once the journal has the prepare record: that comes behind those of what was acknowledged in the branch.
        self.is_recorded = False
        self.is_over = False

    @property
    def state(self) -> BranchState:
        if self.is_over:
            return BranchState.OVER
        if self.is_prepared:
            return BranchState.PREPARED
        if self.workers:
            return BranchState.WORKED_IN
        return BranchState.SUSPENDED if self.suspensions else BranchState.IDLE
