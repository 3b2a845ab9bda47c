"""The XA requests of a CORE session (core-protocol 4.9).

Responsible for translating each into a call of the kernel's branches, and its result into the answer that a transaction
manager's client waits for. Does not depend on the states of a branch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from embedbroker.kernel import Refused, XaBranches, XaRefused
from embedclient.model import XaCode
from embedclient.wire.core import (
    Packet,
    SessionXaCommit,
    SessionXaEnd,
    SessionXaFailed,
    SessionXaForget,
    SessionXaGetTimeout,
    SessionXaGetTimeoutResponse,
    SessionXaInDoubtXids,
    SessionXaInDoubtXidsResponse,
    SessionXaJoin,
    SessionXaPrepare,
    SessionXaResponse,
    SessionXaResume,
    SessionXaRollback,
    SessionXaSetTimeout,
    SessionXaSetTimeoutResponse,
    SessionXaStart,
    SessionXaSuspend,
)

from ._session import CoreSession

__all__ = ["XA_HANDLERS"]


def _branches(session: CoreSession) -> XaBranches:
    return session.service.kernel.branches


def _answer(session: CoreSession, refused: XaRefused | Refused | None, *, durable: bool = False) -> None:
    """Answer a request; ``durable`` holds back an answer that promises something about a branch that must survive."""
    if isinstance(refused, Refused):
        session.refuse(refused, None)
    elif refused is not None:
        session.reply(SessionXaResponse(True, refused.code, refused.text or None), durable=durable)
    else:
        session.reply(SessionXaResponse(False, XaCode.XA_OK), durable=durable)


def _start(session: CoreSession, packet: SessionXaStart) -> None:
    _answer(session, _branches(session).start(session.kernel_session, packet.xid))


def _join(session: CoreSession, packet: SessionXaJoin) -> None:
    _answer(session, _branches(session).join(session.kernel_session, packet.xid))


def _suspend(session: CoreSession, _packet: SessionXaSuspend) -> None:
    _answer(session, _branches(session).suspend(session.kernel_session))


def _resume(session: CoreSession, packet: SessionXaResume) -> None:
    _answer(session, _branches(session).resume(session.kernel_session, packet.xid))


def _end(session: CoreSession, packet: SessionXaEnd) -> None:
    _answer(session, _branches(session).end(session.kernel_session, packet.xid))


def _failed(session: CoreSession, packet: SessionXaFailed) -> None:
    _branches(session).mark_failed(session.kernel_session, packet.xid)


def _prepare(session: CoreSession, packet: SessionXaPrepare) -> None:
    _answer(session, _branches(session).prepare(session.kernel_session, packet.xid), durable=True)


def _commit(session: CoreSession, packet: SessionXaCommit) -> None:
    refused = _branches(session).commit(session.kernel_session, packet.xid, one_phase=packet.one_phase)
    _answer(session, refused, durable=True)


def _rollback(session: CoreSession, packet: SessionXaRollback) -> None:
    _answer(session, _branches(session).rollback(session.kernel_session, packet.xid), durable=True)


def _forget(session: CoreSession, packet: SessionXaForget) -> None:
    _answer(session, _branches(session).forget(session.kernel_session, packet.xid), durable=True)


def _in_doubt(session: CoreSession, _packet: SessionXaInDoubtXids) -> None:
    # Durable: a manager that was informed of a branch must find it again after any failure here.
    branches = _branches(session)
    branches.let_record(session.kernel_session)
    session.reply(SessionXaInDoubtXidsResponse(tuple(branches.in_doubt())))


def _set_timeout(session: CoreSession, packet: SessionXaSetTimeout) -> None:
    _branches(session).set_timeout(session.kernel_session, packet.timeout_seconds)
    session.reply(SessionXaSetTimeoutResponse(True), durable=False)


def _get_timeout(session: CoreSession, _packet: SessionXaGetTimeout) -> None:
    """Return the broker's time-out, also where the session set another: Artemis' clients are used to it (captured)."""
    seconds = session.service.kernel.config.transaction_timeout_ms // 1000
    session.reply(SessionXaGetTimeoutResponse(seconds), durable=False)


XA_HANDLERS: dict[type[Packet], Callable[[CoreSession, Any], None]] = {
    SessionXaCommit: _commit,
    SessionXaEnd: _end,
    SessionXaFailed: _failed,
    SessionXaForget: _forget,
    SessionXaGetTimeout: _get_timeout,
    SessionXaInDoubtXids: _in_doubt,
    SessionXaJoin: _join,
    SessionXaPrepare: _prepare,
    SessionXaResume: _resume,
    SessionXaRollback: _rollback,
    SessionXaSetTimeout: _set_timeout,
    SessionXaStart: _start,
    SessionXaSuspend: _suspend,
}
