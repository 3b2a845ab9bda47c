"""A simulated transaction manager: it keeps its decisions through every crash but its own, and carries all of them out.

Responsible for the second phase, for what a failure left undecided, and for noticing that the broker lost a branch that
it had promised to keep. What is not known to be prepared is rolled back, so nothing ends in doubt.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from attrs import define, field

from embedbroker.testing._scene import Moment, Scene
from embedbroker.testing._scripts import Steps
from embedclient.agent import Call, Session
from embedclient.errors import XAException
from embedclient.model import XaCode, Xid

__all__ = ["TransactionManager"]


@define(eq=False)
class TransactionManager:
    """The branches of one user, one at a time; their names are those that the ledger knows."""

    scene: Scene
    name: str
    #: The branch its user works in, if any.
    current: Xid | None = field(default=None, init=False)
    #: Prepared, and to be committed: name of the transaction.
    _decided: dict[Xid, str] = field(factory=dict, init=False)
    #: Those whose commit was asked for before: they may be gone.
    _asked: set[Xid] = field(factory=set, init=False)
    #: Of which nobody knows how far they came.
    _abandoned: dict[Xid, None] = field(factory=dict, init=False)

    @property
    def has_unfinished(self) -> bool:
        """Whether a branch of an earlier session has to be finished."""
        return bool(self._decided or self._abandoned)

    def begin(self, session: Session, transaction: str) -> Steps:
        """Begins a branch."""
        assert session.xa is not None, "only an XA session works in branches"
        self.current = Xid(7, b"", transaction.encode())
        yield session.xa.start(self.current)

    def prepare(self, session: Session, transaction: str) -> Steps:
        """Ends the current branch and prepares it; from then on it is committed whatever happens."""
        xid = self.current
        assert xid is not None and session.xa is not None, "only a branch is prepared"
        yield session.xa.end(xid)
        yield session.xa.prepare(xid)
        self.scene.hit(Moment.BRANCH_PREPARED)
        self.current = None
        self._decided[xid] = transaction

    def undo(self, session: Session) -> Steps:
        """Ends the current branch and rolls it back."""
        xid = self.current
        assert xid is not None and session.xa is not None, "only a branch is rolled back"
        yield session.xa.end(xid)
        yield session.xa.rollback(xid)
        self.current = None

    def give_up(self) -> None:
        """The session is gone with what was under way in it."""
        if self.current is not None:
            self._abandoned[self.current] = None
            self.current = None

    def recover(self, session: Session) -> Steps:
        """Finishes every branch of earlier sessions."""
        if not self.has_unfinished:
            return
        assert session.xa is not None, "only an XA session recovers"
        found = yield session.xa.recover()
        for xid in list(self._abandoned):
            self.scene.operate(self.name, "rolls back what is left of", xid.global_transaction_id.decode())
            yield from self._answered(session, xid, commit=False)
            del self._abandoned[xid]
        for xid in list(self._decided):
            if xid not in found and xid not in self._asked:
                self.scene.fail(f"{self.name}: the prepared branch {self._decided[xid]} is lost")
            self.scene.hit(Moment.BRANCH_RECOVERED)
            yield from self.commit(session)

    def commit(self, session: Session) -> Steps:
        """The second phase of what is decided."""
        for xid, transaction in list(self._decided.items()):
            self.scene.operate(self.name, "commits", transaction)
            known = xid in self._asked
            self._asked.add(xid)
            if not (yield from self._answered(session, xid, commit=True)) and not known:
                self.scene.fail(f"{self.name}: the prepared branch {transaction} is not known any more")
            del self._decided[xid]
            self._asked.discard(xid)
            finding = self.scene.ledger.committed(transaction, self.scene.world.now)
            self.scene.judge(finding, self.name, transaction)

    def _answered(self, session: Session, xid: Xid, *, commit: bool) -> Generator[Call[XaCode], Any, bool]:
        """Asks for a decision; False when the branch is not known."""
        assert session.xa is not None, "only an XA session decides"
        try:
            yield session.xa.commit(xid, False) if commit else session.xa.rollback(xid)
        except XAException as error:
            if error.error_code != XaCode.XAER_NOTA:
                raise
            return False
        return True
