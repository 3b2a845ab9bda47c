"""The XA verbs of one client session, named as those of `javax.transaction.xa.XAResource`."""

from __future__ import annotations

from embedclient.model import Xid

from .._refusal import Refused
from ._branch import BranchWorker, XaRefused
from ._branches import XaBranches

__all__ = ["XaResource"]


class XaResource:
    """Carry out the XA verbs of a session, which require no permission, as in Artemis.

    Args:
        session: The session that works in branches.
        branches: The branches of the broker.
        timeout_ms: The broker's time-out of a branch.
    """

    __slots__ = ("_branches", "_session", "_timeout_ms")

    def __init__(self, session: BranchWorker, branches: XaBranches, timeout_ms: int) -> None:
        self._session = session
        self._branches = branches
        self._timeout_ms = timeout_ms

    def start(self, xid: Xid) -> XaRefused | None:
        """Begin a branch and work in it; roll back what the session was working in."""
        return self._branches.start(self._session, xid)

    def join(self, xid: Xid) -> XaRefused | None:
        """Work in a branch that was begun elsewhere."""
        return self._branches.join(self._session, xid)

    def suspend(self) -> XaRefused | None:
        """Work in no branch for a while."""
        return self._branches.suspend(self._session)

    def resume(self, xid: Xid) -> XaRefused | None:
        """Work in a suspended branch again."""
        return self._branches.resume(self._session, xid)

    def end(self, xid: Xid) -> XaRefused | None:
        """End work in a branch."""
        return self._branches.end(self._session, xid)

    def fail(self, xid: Xid) -> None:
        """Allow only a rollback of a branch, whose client lost the broker while it worked in it."""
        self._branches.mark_failed(self._session, xid)

    def prepare(self, xid: Xid) -> XaRefused | None:
        """Prepare a branch: from now on it can be committed, whatever happens."""
        return self._branches.prepare(self._session, xid)

    def commit(self, xid: Xid, *, one_phase: bool) -> XaRefused | Refused | None:
        """Commit a prepared branch, or in one phase a branch that is not prepared."""
        return self._branches.commit(self._session, xid, one_phase=one_phase)

    def rollback(self, xid: Xid) -> XaRefused | None:
        """Undo a branch, and take back what the consumers of the session hold."""
        return self._branches.rollback(self._session, xid)

    def forget(self, xid: Xid) -> XaRefused | None:
        """Forget the decision of an operator that the transaction manager has received."""
        return self._branches.forget(self._session, xid)

    def decide(self, xid: Xid, *, commit: bool) -> bool:
        """Decide a prepared branch in place of its transaction manager; return False if there is no such branch."""
        return self._branches.decide(xid, commit=commit)

    def recover(self) -> list[Xid]:
        """Return what a transaction manager must decide or forget; the next answer waits until that is recorded."""
        self._branches.let_record(self._session)
        return self._branches.in_doubt()

    def set_timeout(self, seconds: int) -> None:
        """Set the time-out of current and later branches in seconds; 0 restores the broker's time-out."""
        self._branches.set_timeout(self._session, seconds)

    def get_timeout(self) -> int:
        """Return the broker's time-out in seconds, also where the session set another, as Artemis does (captured)."""
        return self._timeout_ms // 1000
