"""The double of an Artemis broker with branches: it forgets unprepared ones with their session, keeps prepared ones."""

from __future__ import annotations

from embedclient.model import XaCode, Xid
from embedclient.wire.core import (
    NullResponse,
    Packet,
    SessionRollback,
    SessionXaCommit,
    SessionXaEnd,
    SessionXaFailed,
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
from tests.embedclient.agent.artemis_double import ArtemisDouble, DoubleSession

OK = SessionXaResponse(False, XaCode.XA_OK)


def refused(code: XaCode) -> SessionXaResponse:
    return SessionXaResponse(True, code, "refused")


class XaDouble(ArtemisDouble):
    """`work` is the branch that each session works in, `idle` the ones that were left and not prepared."""

    def __init__(self) -> None:
        super().__init__()
        self.work: dict[str, Xid] = {}
        self.idle: dict[Xid, str] = {}
        self.prepared: list[Xid] = []
        self.committed: list[Xid] = []
        self.rolled_back: list[Xid] = []

    def _handle(self, session: DoubleSession, packet: Packet) -> Packet | None:
        match packet:
            case SessionXaStart(xid):
                self._leave(session)
                self.work[session.name] = xid
                return OK
            case SessionXaJoin(xid) | SessionXaResume(xid):
                if xid not in self.idle:
                    return refused(XaCode.XAER_NOTA)
                self.work[session.name] = xid
                del self.idle[xid]
                return OK
            case SessionXaEnd() | SessionXaSuspend():
                if session.name not in self.work:
                    return refused(XaCode.XAER_NOTA)
                self.idle[self.work.pop(session.name)] = session.name
                return OK
            case SessionXaFailed(xid):
                self.work[session.name] = xid
            case SessionRollback():
                if session.name in self.work:
                    # As Artemis does: what the session leaves stays behind as an empty branch.
                    self.idle[self.work.pop(session.name)] = session.name
                return NullResponse(-1)
            case SessionXaSetTimeout():
                return SessionXaSetTimeoutResponse(True)
            case SessionXaInDoubtXids():
                return SessionXaInDoubtXidsResponse(tuple(self.prepared))
            case SessionXaPrepare(xid) | SessionXaCommit(xid, _) | SessionXaRollback(xid):
                return self._decide(packet, xid)
            case _:
                return super()._handle(session, packet)
        return None

    def _decide(self, packet: Packet, xid: Xid) -> SessionXaResponse:
        if xid in self.work.values():
            return refused(XaCode.XAER_PROTO)
        if xid not in self.idle and xid not in self.prepared:
            return refused(XaCode.XAER_NOTA)
        if isinstance(packet, SessionXaPrepare):
            self.idle.pop(xid, None)
            self.prepared = [*(other for other in self.prepared if other != xid), xid]
            return OK
        (self.committed if isinstance(packet, SessionXaCommit) else self.rolled_back).append(xid)
        self.idle.pop(xid, None)
        self.prepared = [other for other in self.prepared if other != xid]
        return OK

    def _leave(self, session: DoubleSession) -> None:
        self.work.pop(session.name, None)

    def _close(self, session: DoubleSession) -> None:
        super()._close(session)
        self._leave(session)
        self.idle = {xid: name for xid, name in self.idle.items() if name != session.name}
