"""The XA requests of a CORE session (core-protocol 4.9).

Responsible for translating each into a verb of the kernel's session, and its result into the answer that a transaction
manager's client waits for. Does not depend on the states of a branch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from embedbroker.kernel import Refused, XaRefused
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


def _answer(session: CoreSession, refused: XaRefused | Refused | None, *, durable: bool = False) -> None:
    """Answer a request; ``durable`` holds back an answer that promises something about a branch that must survive."""
    if isinstance(refused, Refused):
        session.refuse(refused, None)
    elif refused is not None:
        session.reply(SessionXaResponse(True, refused.code, refused.text or None), durable=durable)
    else:
        session.reply(SessionXaResponse(False, XaCode.XA_OK), durable=durable)


def _start(session: CoreSession, packet: SessionXaStart) -> None:
    _answer(session, session.kernel_session.xa_resource.start(packet.xid))


def _join(session: CoreSession, packet: SessionXaJoin) -> None:
    _answer(session, session.kernel_session.xa_resource.join(packet.xid))


def _suspend(session: CoreSession, _packet: SessionXaSuspend) -> None:
    _answer(session, session.kernel_session.xa_resource.suspend())


def _resume(session: CoreSession, packet: SessionXaResume) -> None:
    _answer(session, session.kernel_session.xa_resource.resume(packet.xid))


def _end(session: CoreSession, packet: SessionXaEnd) -> None:
    _answer(session, session.kernel_session.xa_resource.end(packet.xid))


def _failed(session: CoreSession, packet: SessionXaFailed) -> None:
    session.kernel_session.xa_resource.fail(packet.xid)


def _prepare(session: CoreSession, packet: SessionXaPrepare) -> None:
    _answer(session, session.kernel_session.xa_resource.prepare(packet.xid), durable=True)


def _commit(session: CoreSession, packet: SessionXaCommit) -> None:
    refused = session.kernel_session.xa_resource.commit(packet.xid, one_phase=packet.one_phase)
    _answer(session, refused, durable=True)


def _rollback(session: CoreSession, packet: SessionXaRollback) -> None:
    session.end_large()
    _answer(session, session.kernel_session.xa_resource.rollback(packet.xid), durable=True)


def _forget(session: CoreSession, packet: SessionXaForget) -> None:
    _answer(session, session.kernel_session.xa_resource.forget(packet.xid), durable=True)


def _in_doubt(session: CoreSession, _packet: SessionXaInDoubtXids) -> None:
    # Durable: a manager that was informed of a branch must find it again after any failure here.
    session.reply(SessionXaInDoubtXidsResponse(tuple(session.kernel_session.xa_resource.recover())))


def _set_timeout(session: CoreSession, packet: SessionXaSetTimeout) -> None:
    session.kernel_session.xa_resource.set_timeout(packet.timeout_seconds)
    session.reply(SessionXaSetTimeoutResponse(True), durable=False)


def _get_timeout(session: CoreSession, _packet: SessionXaGetTimeout) -> None:
    session.reply(SessionXaGetTimeoutResponse(session.kernel_session.xa_resource.get_timeout()), durable=False)


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
