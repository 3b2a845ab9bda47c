"""Packets of distributed transactions.

Responsible for the XA requests of a session and their answers. Does not depend on the states of a branch.
"""

from __future__ import annotations

from ...model import Xid
from ._packet_table import Packet, flag, i32, omittable_i64, optional_string, xid, xids
from ._packet_type import PacketType


class SessionXaStart(Packet):
    """Begin a branch."""

    TYPE = PacketType.SESS_XA_START
    xid: Xid = xid()


class SessionXaJoin(Packet):
    """Join a branch that was begun elsewhere."""

    TYPE = PacketType.SESS_XA_JOIN
    xid: Xid = xid()


class SessionXaResume(Packet):
    """Resume a suspended branch."""

    TYPE = PacketType.SESS_XA_RESUME
    xid: Xid = xid()


class SessionXaEnd(Packet):
    """Detach the branch from the session."""

    TYPE = PacketType.SESS_XA_END
    xid: Xid = xid()
    failed: bool = flag(default=False)


class SessionXaSuspend(Packet):
    """Detach the current branch until it is resumed."""

    TYPE = PacketType.SESS_XA_SUSPEND


class SessionXaPrepare(Packet):
    """Prepare a branch: the first phase."""

    TYPE = PacketType.SESS_XA_PREPARE
    xid: Xid = xid()


class SessionXaCommit(Packet):
    """Commit a branch: the second phase, or both at once."""

    TYPE = PacketType.SESS_XA_COMMIT
    xid: Xid = xid()
    one_phase: bool = flag(default=False)


class SessionXaRollback(Packet):
    """Undo a branch."""

    TYPE = PacketType.SESS_XA_ROLLBACK
    xid: Xid = xid()


class SessionXaForget(Packet):
    """Forget a heuristically finished branch."""

    TYPE = PacketType.SESS_XA_FORGET
    xid: Xid = xid()


class SessionXaFailed(Packet):
    """Report, after failover, that the branch can only be rolled back."""

    TYPE = PacketType.SESS_XA_FAILED
    xid: Xid = xid()


class SessionXaInDoubtXids(Packet):
    """Request the prepared branches."""

    TYPE = PacketType.SESS_XA_INDOUBT_XIDS


class SessionXaInDoubtXidsResponse(Packet):
    """Return the prepared branches."""

    TYPE = PacketType.SESS_XA_INDOUBT_XIDS_RESP
    xids: tuple[Xid, ...] = xids()


class SessionXaSetTimeout(Packet):
    """Set the transaction timeout."""

    TYPE = PacketType.SESS_XA_SET_TIMEOUT
    timeout_seconds: int = i32()


class SessionXaSetTimeoutResponse(Packet):
    """Report whether the timeout was accepted."""

    TYPE = PacketType.SESS_XA_SET_TIMEOUT_RESP
    ok: bool = flag()


class SessionXaGetTimeout(Packet):
    """Request the transaction timeout."""

    TYPE = PacketType.SESS_XA_GET_TIMEOUT


class SessionXaGetTimeoutResponse(Packet):
    """Return the transaction timeout."""

    TYPE = PacketType.SESS_XA_GET_TIMEOUT_RESP
    timeout_seconds: int = i32()


class SessionXaResponse(Packet):
    """Return a ``model.XaCode``; ``error`` is set for codes that are failures."""

    TYPE = PacketType.SESS_XA_RESP
    error: bool = flag()
    code: int = i32()
    message: str | None = optional_string(default=None)
    correlation_id: int | None = omittable_i64(default=None, since=130, tail=True)


PACKETS: tuple[type[Packet], ...] = (
    SessionXaStart,
    SessionXaJoin,
    SessionXaResume,
    SessionXaEnd,
    SessionXaSuspend,
    SessionXaPrepare,
    SessionXaCommit,
    SessionXaRollback,
    SessionXaForget,
    SessionXaFailed,
    SessionXaInDoubtXids,
    SessionXaInDoubtXidsResponse,
    SessionXaSetTimeout,
    SessionXaSetTimeoutResponse,
    SessionXaGetTimeout,
    SessionXaGetTimeoutResponse,
    SessionXaResponse,
)
