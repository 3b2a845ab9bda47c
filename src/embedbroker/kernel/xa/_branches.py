"""Hold all XA branches of a broker, and carry out verbs of transaction managers and sessions (core-protocol 4.9).

Responsible for the sessions that work in each branch, for refusals, for time-outs, and for decisions of operators. Does
not depend on the effects of a branch: its work is a `Transaction`, which carries itself out.

A branch can be rolled back while a session works in it, by a time-out or by a transaction manager elsewhere. The
session is not notified. Its later work is gathered in a separate transaction that cannot commit, and is dropped when it
ends.

History of the fault that `let_record` avoids:

1. A session prepares a branch that has taken many messages; the record waits behind those, as deferred work.
2. An operator commits the branch, or no decision arrives. Another session queries the branch and is answered at once.
3. The broker crashes before the records. It rolls the branch back, although a transaction manager was informed that the
   branch is prepared, or committed.
"""

from __future__ import annotations

from collections.abc import Callable

from embedbroker.config import BrokerConfig
from embedclient.errors import ErrorCode
from embedclient.model import XaCode, Xid

from .._clock import Clock
from .._deferred import DeferredWork
from .._facts import HeuristicOutcome
from .._refusal import Refused
from .._store import Store
from ..transactions._transaction import Transaction, Transactions
from ._branch import XID_PART_BYTES_MAX, Branch, BranchState, BranchWorker, XaRefused, xid_bytes

__all__ = ["XaBranches"]

# A rollback costs about as much as 64 messages.
_TIMEOUTS_PER_RUN = 50
_NEVER = float("inf")


class XaBranches:
    """Hold branches by id, and the decisions that transaction managers must still learn."""

    __slots__ = (
        "_branches",
        "_checked",
        "_clock",
        "_config",
        "_deferred",
        "_earliest",
        "_log",
        "_outcomes",
        "_store",
        "_transactions",
        "_unrecorded",
        "unprepared",
    )

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        store: Store,
        deferred: DeferredWork,
        transactions: Transactions,
        log: Callable[[str], None],
    ) -> None:
        self._config = config
        self._clock = clock
        self._store = store
        self._deferred = deferred
        self._transactions = transactions
        self._log = log
        self._branches: dict[Xid, Branch] = {}
        self._outcomes: dict[Xid, HeuristicOutcome] = {}
        # Count of records per branch that wait behind what was acknowledged in it; only branches with waiting records.
        self._unrecorded: dict[Xid, int] = {}
        # Branches that may time out; no deadline is before the earliest.
        self.unprepared: dict[Branch, None] = {}
        self._earliest = _NEVER
        self._checked = 0.0

    # -- working in a branch -------------------------------------------------------------------------------------

    def start(self, session: BranchWorker, xid: Xid) -> XaRefused | None:
        """Begin a branch for a session; roll back what the session was working in."""
        if max(len(xid.global_transaction_id), len(xid.branch_qualifier)) > XID_PART_BYTES_MAX:
            return XaRefused(XaCode.XAER_INVAL, f"a part of the branch id is longer than {XID_PART_BYTES_MAX} bytes")
        self._give_up_work(session)
        if xid in self._branches or xid in self._outcomes:
            # As in Artemis, the session counts as attached: it must start another branch before any other work.
            stray = self._make(session, xid)
            stray.is_over = True
            self._attach(session, stray, self._transactions.begin_failed("its start was refused"))
            return XaRefused(XaCode.XAER_DUPID, f"{name_of(xid)} exists already")
        limit = self._config.xa_branches_max
        if len(self._branches) + len(self._outcomes) >= limit:
            return XaRefused(XaCode.XAER_RMERR, f"there are {limit} branches, xa_branches_max")
        branch = self._make(session, xid)
        self._enter(branch)
        self._attach(session, branch, branch.transaction)
        return None

    def join(self, session: BranchWorker, xid: Xid) -> XaRefused | None:
        """Attach a session to a branch that was begun elsewhere."""
        branch = self._branches.get(xid)
        if branch is None:
            return _unknown(xid)
        if session.branch is not None:
            return _busy(session.branch)
        if branch.is_prepared or branch.suspensions:
            return _wrong_state(branch)
        self._attach(session, branch, branch.transaction)
        return None

    def suspend(self, session: BranchWorker) -> XaRefused | None:
        """Detach a session from its branch for a while."""
        branch = session.branch
        if branch is None:
            return XaRefused(XaCode.XAER_PROTO, "the session works in no branch")
        self._detach(session)
        if branch.is_over:
            return _over(branch)
        branch.suspensions += 1
        return None

    def resume(self, session: BranchWorker, xid: Xid) -> XaRefused | None:
        """Attach a session to its suspended work again."""
        if session.branch is not None:
            return _busy(session.branch)
        branch = self._branches.get(xid)
        if branch is None:
            return _unknown(xid)
        if not branch.suspensions:
            return _wrong_state(branch)
        branch.suspensions -= 1
        self._attach(session, branch, branch.transaction)
        return None

    def end(self, session: BranchWorker, xid: Xid) -> XaRefused | None:
        """Detach a session from its branch for good; a branch that is suspended or was ended before is accepted."""
        branch = session.branch
        if branch is not None and branch.xid == xid:
            self._detach(session)
            return _over(branch) if branch.is_over else None
        branch = self._branches.get(xid)
        if branch is None:
            return _unknown(xid)
        if branch.is_prepared or branch.workers:
            return _wrong_state(branch)
        branch.suspensions = max(branch.suspensions - 1, 0)
        return None

    def mark_failed(self, session: BranchWorker, xid: Xid) -> None:
        """Mark a branch as failed.

        Its client lost the broker while it worked in it, so what is here must not be committed.

        Does not affect a prepared branch: the client was informed that it is prepared, and its transaction manager
        decides it.
        """
        branch = self._branches.get(xid)
        if branch is None:
            if self.start(session, xid) is not None:
                return
            branch = self._branches[xid]
        if branch.is_prepared:
            return
        # Not the usual verdict: the branch that the client means no longer exists here.
        branch.verdict = XaCode.XAER_NOTA
        branch.transaction.fail("its client lost the broker while it worked in it")
        if session.branch is None:
            self._attach(session, branch, branch.transaction)

    def undo_work(self, session: BranchWorker) -> None:
        """Mark the branch of a session as rollback-only, because the session was rolled back while it worked in it."""
        branch = session.branch
        assert branch is not None
        if not branch.is_over:
            branch.transaction.rollback()
            branch.transaction = self._transactions.begin_failed("a session that worked in it was rolled back")
            for worker in branch.workers:
                worker.transaction = branch.transaction
        self._detach(session)

    def on_closed(self, session: BranchWorker, *, failed: bool) -> None:
        """Release the branches of a closed session; after a lost connection, undo its current and unprepared work.

        After an orderly end, branches wait for another session, or for their time-out.
        """
        branch, left = session.branch, self._branches.get(session.left_xid) if session.left_xid else None
        if branch is not None:
            self._detach(session)
            if failed and not branch.is_over:
                self._undo(branch, XaCode.XA_RBROLLBACK, "a session that worked in it lost its connection")
        if not failed or left is None or left.left_by is not session:
            return
        if left.state in (BranchState.IDLE, BranchState.SUSPENDED):
            self._undo(left, XaCode.XA_RBROLLBACK, "")

    def set_timeout(self, session: BranchWorker, seconds: int) -> None:
        """Set the time-out of the session's current and later branches in seconds; 0 restores the broker's time-out."""
        session.xa_timeout = seconds if seconds > 0 else None
        branch = session.branch
        if branch is not None:
            branch.deadline = branch.begun + self._timeout_of(session)
            self._earliest = min(self._earliest, branch.deadline)

    # -- deciding ------------------------------------------------------------------------------------------------

    def prepare(self, session: BranchWorker, xid: Xid) -> XaRefused | None:
        """Prepare a branch: from now on it can be committed, whatever happens."""
        branch = self._idle(session, xid)
        if not isinstance(branch, Branch):
            return branch if branch is not None else _unknown(xid)
        if branch.is_prepared:
            self.let_record(session, xid)
            return None
        if not branch.transaction.hold():
            return self._roll_back_failed(branch)
        self.unprepared.pop(branch, None)
        branch.is_prepared = True
        branch.left_by = None
        transaction = branch.transaction
        transaction.prepare()

        def record() -> None:
            branch.is_recorded = transaction.record_prepared(xid_bytes(xid))

        self._when_settled(branch, record, session)
        return None

    def commit(self, session: BranchWorker, xid: Xid, *, one_phase: bool) -> XaRefused | Refused | None:
        """Commit a prepared branch, or in one phase a branch that is not prepared."""
        branch = self._idle(session, xid)
        if not isinstance(branch, Branch):
            return branch if branch is not None else self._gone(xid, session)
        if branch.is_prepared is one_phase:
            phases = "one phase" if one_phase else "two phases"
            text = f"{name_of(xid)} is {branch.state.value}: it cannot be committed in {phases}"
            return Refused(ErrorCode.ILLEGAL_STATE, text)
        if one_phase and not branch.transaction.hold():
            return self._roll_back_failed(branch)
        self._leave(branch)
        self._when_settled(branch, branch.transaction.commit, session)
        return None

    def rollback(self, session: BranchWorker, xid: Xid) -> XaRefused | None:
        """Undo a branch; clients have discarded what they were sent, so that returns to its queues, too."""
        busy = self._busy_with(session, xid)
        if busy is not None:
            return busy
        branch = self._branches.get(xid)
        if branch is None:
            session.return_held()
            return self._gone(xid, session)
        if branch.state is BranchState.SUSPENDED:
            return _wrong_state(branch)
        session.return_held()
        self._undo(branch, XaCode.XA_RBROLLBACK, "its transaction manager rolled it back meanwhile")
        return None

    def in_doubt(self) -> list[Xid]:
        """Return what a transaction manager must decide or forget: prepared branches, and those decided here."""
        return [*(xid for xid, branch in self._branches.items() if branch.is_prepared), *self._outcomes]

    def forget(self, session: BranchWorker, xid: Xid) -> XaRefused | None:
        """Forget a decision made here that the transaction manager has received."""
        outcome = self._outcomes.pop(xid, None)
        if outcome is None:
            return XaRefused(XaCode.XAER_NOTA, "")
        if xid in self._unrecorded:
            self._deferred.add_action(lambda: self._store.remove_outcome(outcome.transaction_id))
            self.let_record(session, xid)
        else:
            self._store.remove_outcome(outcome.transaction_id)
        return None

    def let_record(self, session: BranchWorker, xid: Xid | None = None) -> None:
        """Delay the session's next answer until decisions of a branch, or of all branches, are recorded."""
        if not self._unrecorded or (xid is not None and xid not in self._unrecorded):
            return
        session.unfinished += 1

        def recorded() -> None:
            session.unfinished -= 1

        self._deferred.add_action(recorded)

    # -- together with others --------------------------------------------------------------------------------------

    def find(self, xid: Xid) -> Branch | None:
        """Return a branch that is not decided."""
        return self._branches.get(xid)

    def why_gone(self, xid: Xid) -> str:
        """Return what became of a branch that is not here."""
        return self._gone(xid).text

    def claim(self, branch: Branch) -> Transaction:
        """Take a prepared branch out of the table: from now on no other caller can decide it."""
        assert branch.state is BranchState.PREPARED, branch.state
        self._leave(branch)
        return branch.transaction

    def undo(self, xid: Xid, reason: str) -> None:
        """Roll back a branch in any state, if it is here.

        Sessions that work in it receive the verdict when they end it.
        """
        branch = self._branches.get(xid)
        if branch is not None:
            self._undo(branch, XaCode.XA_RBROLLBACK, reason)

    # -- without a transaction manager ---------------------------------------------------------------------------

    def prepared(self) -> list[Branch]:
        """Return the branches that wait for a decision, oldest first."""
        return [branch for branch in self._branches.values() if branch.is_prepared]

    def transactions(self) -> list[Transaction]:
        """Return the work of all branches that are not decided."""
        return [branch.transaction for branch in self._branches.values()]

    def outcomes(self) -> list[HeuristicOutcome]:
        """Return what was decided here and not forgotten yet, oldest first."""
        return list(self._outcomes.values())

    def decide(self, xid: Xid, *, commit: bool) -> bool:
        """Commit or roll back a prepared branch for an operator; return False if no prepared branch has this id."""
        branch = self._branches.get(xid)
        if branch is None or not branch.is_prepared:
            return False
        transaction = branch.transaction
        outcome = HeuristicOutcome(transaction.id, xid, commit)
        self._leave(branch)
        self._outcomes[xid] = outcome

        def carry_out() -> None:
            # First of the two: alone it has no effect, and the branch is in doubt again after a crash between them.
            self._store.add_outcome(outcome)
            if commit:
                transaction.commit()
            else:
                transaction.rollback()

        self._when_settled(branch, carry_out, None)
        return True

    def restore(self, xid: Xid, transaction: Transaction) -> None:
        """Restore a prepared branch after a restart."""
        branch = Branch(xid, transaction, self._clock.monotonic, _NEVER)
        branch.is_prepared = branch.is_recorded = True
        self._branches[xid] = branch
        transaction.restore_prepared()

    def restore_outcome(self, outcome: HeuristicOutcome) -> None:
        """Restore a decision made here.

        Must run after the branches: a branch that is still prepared was not decided.
        """
        if outcome.xid in self._branches:
            self._store.remove_outcome(outcome.transaction_id)
        else:
            self._outcomes[outcome.xid] = outcome

    # -- time ----------------------------------------------------------------------------------------------------

    def next_deadline(self) -> float | None:
        """Return when `run` has work to do, in monotonic seconds."""
        if not self.unprepared:
            return None
        return max(self._earliest, self._checked + self._config.transaction_timeout_scan_period_ms / 1000)

    def run(self, now: float) -> None:
        """Roll back each branch that was not prepared before its deadline."""
        due = self.next_deadline()
        if due is None or now < due:
            return
        late = [branch for branch in self.unprepared if branch.deadline <= now]
        for branch in late[:_TIMEOUTS_PER_RUN]:
            self._log(f"{name_of(branch.xid)} is rolled back: it was not prepared in time")
            self._undo(branch, XaCode.XA_RBTIMEOUT, "it was not prepared in time")
        self._earliest = min((branch.deadline for branch in self.unprepared), default=_NEVER)
        if len(late) <= _TIMEOUTS_PER_RUN:
            self._checked = now

    def _timeout_of(self, session: BranchWorker) -> float:
        seconds = session.xa_timeout
        return self._config.transaction_timeout_ms / 1000 if seconds is None else float(seconds)

    # -- parts ---------------------------------------------------------------------------------------------------

    def _make(self, session: BranchWorker, xid: Xid) -> Branch:
        now = self._clock.monotonic
        return Branch(xid, self._transactions.begin(), now, now + self._timeout_of(session))

    def _enter(self, branch: Branch) -> None:
        self._branches[branch.xid] = branch
        self.unprepared[branch] = None
        self._earliest = min(self._earliest, branch.deadline)

    def _leave(self, branch: Branch) -> None:
        """Remove a decided branch from the table."""
        del self._branches[branch.xid]
        self.unprepared.pop(branch, None)
        branch.is_over = True

    def _attach(self, session: BranchWorker, branch: Branch, transaction: Transaction) -> None:
        self._give_up_work(session)
        session.enter(branch, transaction)
        branch.workers[session] = None

    def _detach(self, session: BranchWorker) -> None:
        branch = session.branch
        assert branch is not None
        transaction = session.leave()
        session.left_xid = branch.xid
        branch.left_by = session
        del branch.workers[session]
        if branch.is_over:
            transaction.rollback()

    def _give_up_work(self, session: BranchWorker) -> None:
        """Undo what a session was doing before it turned to a branch."""
        branch, transaction = session.branch, session.transaction
        if branch is not None:
            self._detach(session)
            if not branch.is_over:
                self._undo(branch, XaCode.XA_RBROLLBACK, "a session left it for another one")
        elif transaction is not None:
            session.transaction = None
            transaction.rollback()

    def _undo(self, branch: Branch, verdict: XaCode, reason: str) -> None:
        """Roll a branch back; sessions that still work in it receive the verdict when they end it."""
        self._leave(branch)
        branch.verdict = verdict
        branch.transaction.rollback()
        for session in branch.workers:
            session.transaction = self._transactions.begin_failed(reason)

    def _roll_back_failed(self, branch: Branch) -> XaRefused:
        reason = branch.transaction.failure
        self._undo(branch, branch.verdict, "")
        return XaRefused(branch.verdict, f"{name_of(branch.xid)} was rolled back: {reason}")

    def _idle(self, session: BranchWorker, xid: Xid) -> Branch | XaRefused | None:
        """Return the branch to be decided, if no session works in it any more."""
        busy = self._busy_with(session, xid)
        if busy is not None:
            return busy
        branch = self._branches.get(xid)
        if branch is not None and branch.state in (BranchState.WORKED_IN, BranchState.SUSPENDED):
            return _wrong_state(branch)
        return branch

    def _busy_with(self, session: BranchWorker, xid: Xid) -> XaRefused | None:
        """Return a refusal if a session must end its work in a branch before the branch is decided.

        A client may not be able to end work that it lost: its call was under way when that happened.
        """
        branch = session.branch
        if branch is None or branch.xid != xid:
            return None
        if branch.verdict is not XaCode.XAER_NOTA:
            return _busy(branch)
        self._detach(session)
        return None

    def _gone(self, xid: Xid, session: BranchWorker | None = None) -> XaRefused:
        """Return why the branch to be decided is not there: it was decided here, or its id is unknown."""
        if session is not None:
            self.let_record(session, xid)
        outcome = self._outcomes.get(xid)
        if outcome is None:
            return _unknown(xid)
        return XaRefused(outcome.code, f"{name_of(xid)} was decided by an operator")

    def _when_settled(self, branch: Branch, action: Callable[[], None], session: BranchWorker | None) -> None:
        """Run an action behind what was acknowledged in the branch, of which there may be much."""
        transaction = branch.transaction
        if not transaction.unsettled:
            action()
            return
        unrecorded, xid = self._unrecorded, branch.xid
        unrecorded[xid] = unrecorded.get(xid, 0) + 1
        if session is not None:
            session.unfinished += 1

        def act() -> None:
            action()
            left = unrecorded.pop(xid) - 1
            if left:
                unrecorded[xid] = left
            if session is not None:
                session.unfinished -= 1

        transaction.when_settled(act)


def name_of(xid: Xid) -> str:
    """Return the name of a branch in logs and answers."""
    return f"XA branch {xid.format_id}:{xid.global_transaction_id.hex()}:{xid.branch_qualifier.hex()}"


def _unknown(xid: Xid) -> XaRefused:
    return XaRefused(XaCode.XAER_NOTA, f"{name_of(xid)} is not known")


def _busy(branch: Branch) -> XaRefused:
    return XaRefused(XaCode.XAER_PROTO, f"the session works in {name_of(branch.xid)}")


def _wrong_state(branch: Branch) -> XaRefused:
    return XaRefused(XaCode.XAER_PROTO, f"{name_of(branch.xid)} is {branch.state.value}")


def _over(branch: Branch) -> XaRefused:
    return XaRefused(branch.verdict, f"{name_of(branch.xid)} was rolled back before it was ended")
