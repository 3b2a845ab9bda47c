"""A simulated transaction manager: it keeps its decisions through every crash but its own, and carries all of them out.

Responsible for the second phase, for what a failure left undecided, and for noticing that the broker lost a branch that
it had promised to keep. What is not known to be prepared is rolled back, so nothing ends in doubt.
"""

from __future__ import annotations

from collections.abc import Generator
from random import Random
from typing import Any

from attrs import define, field

from embedbroker.testing._scene import Moment, Scene
from embedbroker.testing._scripts import Steps
from embedclient.agent import Call, Session
from embedclient.errors import XAException
from embedclient.model import XaCode, XaFlag, Xid

from .xa_operator_checker import HEURISTIC, XaOperatorChecker

__all__ = ["TransactionManager"]

_SHORT_TIMEOUT_S = 1
#: So long after its time a branch is gone for certain.
_OVERDUE_S = 0.3

Answer = Generator[Call[XaCode], Any, XaCode]


@define(eq=False)
class TransactionManager:
    """The branches of one user, one at a time; their names are those in the ledger.

    ``subscription`` is what its user consumes, if it does.
    """

    scene: Scene
    name: str
    subscription: str | None = None
    #: The branch its user works in, if any.
    current: Xid | None = field(default=None, init=False)
    #: For what users of branches choose; nothing else is drawn from it.
    random: Random = field(init=False)
    #: A session works in the current branch, and has to end that.
    _is_worked_in: bool = field(default=False, init=False)
    #: The session whose branches may take a second only.
    _hurried: Session | None = field(default=None, init=False)
    #: Prepared, and to be committed: name of the transaction.
    _decided: dict[Xid, str] = field(factory=dict, init=False)
    #: Those whose commit was asked for before: they may be gone.
    _asked: set[Xid] = field(factory=set, init=False)
    #: Branches whose progress is unknown.
    _abandoned: dict[Xid, None] = field(factory=dict, init=False)
    #: What operators did instead.
    _operator_checker: XaOperatorChecker = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.random = Random(f"xa {self.scene.world.seed} {self.name}")
        self._operator_checker = XaOperatorChecker(self.scene, self.name, self.subscription)

    def chance(self, probability: float) -> bool:
        """True with the given probability."""
        return bool(probability) and self.random.random() < probability

    @property
    def has_unfinished(self) -> bool:
        """Whether a branch of an earlier session has to be finished."""
        return bool(self._decided or self._abandoned or self._operator_checker.has_unforgotten)

    # Working in a branch

    def begin(self, session: Session, transaction: str, *, hurried: bool = False) -> Steps:
        """Begins a branch; one that is ``hurried`` may take a second only."""
        assert session.xa is not None, "only an XA session works in branches"
        self.current = Xid(7, b"", transaction.encode())
        if hurried or self._hurried is session:
            yield session.xa.set_timeout(_SHORT_TIMEOUT_S if hurried else 0)
            self._hurried = session if hurried else None
        yield session.xa.start(self.current)
        self._is_worked_in = True

    def join(self, session: Session) -> Steps:
        """Another session works in the current branch, too."""
        yield self._start(session, XaFlag.TMJOIN)
        self._is_worked_in = True
        self.scene.hit(Moment.BRANCH_JOINED)

    def leave(self, session: Session) -> Steps:
        """A session ends its work in the current branch."""
        assert self.current is not None and session.xa is not None, "only a branch is left"
        yield session.xa.end(self.current)
        self._is_worked_in = False

    def pause(self, session: Session, duration_s: float) -> Steps:
        """The work in the current branch rests for a while."""
        assert self.current is not None and session.xa is not None, "only a branch is suspended"
        yield session.xa.end(self.current, XaFlag.TMSUSPEND)
        yield duration_s
        yield self._start(session, XaFlag.TMRESUME)
        self.scene.hit(Moment.BRANCH_RESUMED)

    def dawdle(self, session: Session) -> Steps:
        """Waits until the current branch, which is hurried, has had its time; then it must be rolled back."""
        scene = self.scene
        frozen = self._times_frozen
        yield _SHORT_TIMEOUT_S + _OVERDUE_S + self.random.random()
        try:
            yield from self.leave(session)
        except XAException as error:
            if error.error_code != XaCode.XA_RBTIMEOUT:
                raise
            scene.hit(Moment.BRANCH_TIMED_OUT)
            self.current = None
            self._is_worked_in = False
            return
        if self._times_frozen == frozen:
            scene.fail(f"{self.name}: the branch {self.current} outlives its time")
        # A machine that stood still may not have looked yet.
        yield from self.undo(session)

    @property
    def _times_frozen(self) -> int:
        return self.scene.hits[Moment.FROZEN_LIVE] + self.scene.hits[Moment.FROZEN_WAITER]

    def _start(self, session: Session, flag: XaFlag) -> Call[XaCode]:
        assert self.current is not None and session.xa is not None, "only a branch that was begun is gone on with"
        return session.xa.start(self.current, flag)

    # Ending it

    def prepare(self, session: Session, transaction: str) -> Steps:
        """Ends the current branch and prepares it; from then on it is committed whatever happens."""
        yield from self.end(session)
        xid = self.current
        assert xid is not None and session.xa is not None, "only a branch is prepared"
        yield session.xa.prepare(xid)
        self.scene.hit(Moment.BRANCH_PREPARED)
        self.current = None
        self._decided[xid] = transaction

    def undo(self, session: Session) -> Steps:
        """Ends the current branch and rolls it back."""
        yield from self.end(session)
        assert self.current is not None and session.xa is not None, "only a branch is rolled back"
        yield session.xa.rollback(self.current)
        self.current = None

    def commit_at_once(self, session: Session) -> Generator[Call[XaCode], Any, bool]:
        """Commits the current branch, which is ended, in one phase. False: it was certainly rolled back.

        Raises XAException if the outcome is unknown.
        """
        assert self.current is not None and session.xa is not None, "only a branch is committed"
        try:
            yield session.xa.commit(self.current, True)
        except XAException as error:
            if not (XaCode(error.error_code).rolled_back or error.error_code == XaCode.XAER_NOTA):
                raise
            self.current = None
            return False
        self.scene.hit(Moment.COMMITTED_IN_ONE_PHASE)
        self.current = None
        return True

    def end(self, session: Session) -> Steps:
        """End all work in the current branch."""
        if self._is_worked_in:
            yield from self.leave(session)

    def give_up(self) -> None:
        """The session is gone with what was under way in it."""
        self._is_worked_in = False
        if self.current is not None:
            self._abandoned[self.current] = None
            self.current = None

    # The second phase

    def recover(self, session: Session) -> Steps:
        """Finishes every branch of earlier sessions."""
        if not self.has_unfinished:
            return
        assert session.xa is not None, "only an XA session recovers"
        found = yield session.xa.recover()
        yield from self._operator_checker.finish(session, found)
        for xid in list(self._abandoned):
            self.scene.operate(self.name, "rolls back what is left of", xid.global_transaction_id.decode())
            code = yield from self._answered(session, xid, commit=False)
            ruling = self._operator_checker.take(xid)
            del self._abandoned[xid]
            if code in HEURISTIC:
                yield from self._operator_checker.hear(session, xid, code, ruling)
            elif ruling is not None and ruling.known:
                self._operator_checker.complain(xid, code)
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
            code = yield from self._answered(session, xid, commit=True)
            ruling = self._operator_checker.take(xid)
            del self._decided[xid]
            self._asked.discard(xid)
            if code in HEURISTIC:
                if ruling is not None and not ruling.known:
                    self._conclude(transaction, commit=ruling.commit)
                yield from self._operator_checker.hear(session, xid, code, ruling)
                continue
            if ruling is not None and ruling.known:
                self._operator_checker.complain(xid, code)
            if code == XaCode.XAER_NOTA and not known:
                self.scene.fail(f"{self.name}: the prepared branch {transaction} is not known any more")
            if ruling is not None and not ruling.commit:
                # A life that did not survive may have given back what was taken.
                self.scene.ledger.transaction_in_doubt(transaction, shown_in_vain=True)
            else:
                self._conclude(transaction, commit=True)

    def _answered(self, session: Session, xid: Xid, *, commit: bool) -> Answer:
        """Request a decision; the code states what became of the branch, or that it is unknown."""
        assert session.xa is not None, "only an XA session decides"
        try:
            yield session.xa.commit(xid, False) if commit else session.xa.rollback(xid)
        except XAException as error:
            if error.error_code != XaCode.XAER_NOTA and error.error_code not in HEURISTIC:
                raise
            return XaCode(error.error_code)
        return XaCode.XA_OK

    def _conclude(self, transaction: str, *, commit: bool) -> None:
        ledger = self.scene.ledger
        if commit:
            self.scene.judge(ledger.committed(transaction, self.scene.world.now), self.name, transaction)
        else:
            ledger.rolled_back(transaction)

    # Decisions of operators

    def may_be_decided(self, xid: Xid, *, commit: bool) -> bool:
        """Return True if an operator may do that: none has yet, and it is not against what this manager gave up."""
        if xid in self._operator_checker:
            return False
        return xid in self._decided or (xid in self._abandoned and not commit)

    def on_operator(self, xid: Xid, *, commit: bool) -> None:
        """An operator decides in the broker."""
        self._operator_checker.ask(xid, commit=commit)

    def on_decided(self, xid: Xid, *, found: bool) -> None:
        """Note the broker's answer: it is done, or there is nothing to decide any more."""
        ruling = self._operator_checker.answer(xid, found=found)
        if ruling is not None and xid in self._decided:
            self._conclude(self._decided[xid], commit=ruling.commit)
