"""The branches of an XA session: what each request means for them, and what a lost connection means for both.

Responsible for the states of branches on this side, and for how a request ends (core-protocol 4.9, 7.2, 7.3). What
differs between requests is data, a row of `Operation` each. Refuses to know consumers' buffers and when a reconnect
happens.

A branch whose session was lost in a reconnect has to be rolled back, even where the broker would let it go on: an
Artemis broker prepares what is left of such a branch, which is nothing, and says that all is well.
"""

from typing import TYPE_CHECKING, Final, TypeVar

from attrs import frozen

from embedclient.errors import ErrorCode, JMSException, XAException
from embedclient.model import XaCode, XaFlag, Xid
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
    SessionXaPrepare,
    SessionXaResponse,
    SessionXaRollback,
    SessionXaSetTimeout,
    SessionXaSetTimeoutResponse,
    SessionXaSuspend,
)

from .._call import Call, DueCallbacks, Steps, done_call, failed_call, run_sequence, settled
from ._channel import SessionChannel
from ._transaction import INTERRUPTED, rollback_steps
from ._xa_operations import (
    AFTER_LOSS,
    COMMIT,
    COMMIT_ONE_PHASE,
    END,
    ENDS,
    FORGET,
    HEURISTIC,
    LEFT,
    LEFT_BEHIND,
    OF_A_LOST_SESSION,
    PREPARE,
    QUESTION,
    ROLLBACK,
    SCANS,
    STARTS,
    SUSPEND,
    BranchState,
    Operation,
    code_of,
    failure,
    invalid,
    refusal,
)

if TYPE_CHECKING:
    from ._session import Session

BRANCHES_MAX: Final = 10_000
"""So many branches that the session has left, and that it has not heard of since, are kept in mind."""

P = TypeVar("P", bound=Packet)
T = TypeVar("T")


@frozen
class _Asked:
    """A request that has no answer yet. `sent`: an earlier attempt of it was."""

    operation: Operation
    xid: Xid
    sent: bool


class Branches:
    """The XA requests of one session, `Session.xa`."""

    def __init__(self, session: "Session", channel: SessionChannel, due: DueCallbacks) -> None:
        self._session = session
        self._channel = channel
        self._due = due
        self._states: dict[Xid, BranchState] = {}
        self._under_way: dict[Call[Packet], _Asked] = {}
        self._timeout_s: int | None = None

    # --- requests ---

    def start(self, xid: Xid, flags: int = XaFlag.TMNOFLAGS) -> Call[XaCode]:
        """The session works in the branch from now on; TMJOIN: one that exists, TMRESUME: a suspended one."""
        if flags not in STARTS:
            return failed_call(invalid("start", flags, STARTS))
        operation, packet = STARTS[flags]
        return self._in_turn(self._ask(operation, xid, packet(xid)))

    def end(self, xid: Xid, flags: int = XaFlag.TMSUCCESS) -> Call[XaCode]:
        """The session leaves the branch. Raises XAER_RMFAIL for one whose work was lost with a connection."""
        if flags not in ENDS:
            return failed_call(invalid("end", flags, ENDS))
        operation = ENDS[flags]
        if operation is SUSPEND and self._states.get(xid) not in (BranchState.ACTIVE, *OF_A_LOST_SESSION):
            # The packet names no branch: the broker would suspend whichever the session works in.
            return failed_call(failure(XaCode.XAER_PROTO, "the session does not work in this branch"))
        packet = SessionXaSuspend() if operation is SUSPEND else SessionXaEnd(xid, flags == XaFlag.TMFAIL)
        return self._in_turn(self._end_steps(operation, xid, packet, self._session.transaction.work))

    def _end_steps(self, operation: Operation, xid: Xid, packet: Packet, asked: int) -> Steps[XaCode]:
        self._session.flush_acknowledgements()
        if self._session.transaction.work > asked:
            # Done while the end waited for its turn, it is in the branch by now, where it does not belong.
            self.on_work_lost()
        try:
            return (yield from self._ask(operation, xid, packet))
        except XAException:
            if self._states.get(xid) is BranchState.FAILED:
                # The session works in it still, or will when it is there again.
                session = self._session
                yield from settled(self._run(rollback_steps(session, False, session.transaction.work)))
                self._states[xid] = BranchState.LOST
            raise

    def prepare(self, xid: Xid) -> Call[XaCode]:
        """First phase: XA_OK, or XA_RDONLY for a branch that is finished because it did nothing."""
        return self._in_turn(self._ask(PREPARE, xid, SessionXaPrepare(xid)))

    def commit(self, xid: Xid, one_phase: bool) -> Call[XaCode]:
        """Second phase, or both at once."""
        operation = COMMIT_ONE_PHASE if one_phase else COMMIT
        return self._in_turn(self._ask(operation, xid, SessionXaCommit(xid, one_phase)))

    def rollback(self, xid: Xid) -> Call[XaCode]:
        """Undoes the branch; what the session received and did not commit is delivered again."""

        def steps() -> Steps[XaCode]:
            rollback = self._run(self._rollback_steps(xid))
            error = yield from settled(rollback)
            if error is not None and error.error_code in HEURISTIC:
                # Everything goes back for certain, with the work of the branch that the session may work in by now.
                self.on_work_lost()
                yield from settled(self._run(rollback_steps(self._session, False, self._session.transaction.work)))
            return rollback.value()

        return self._in_turn(steps())

    def _rollback_steps(self, xid: Xid) -> Steps[XaCode]:
        session = self._session
        consumers = session.open_consumers()
        yield from session.flow.suspend()
        session.flush_acknowledgements()
        given_back = False
        try:
            code = yield from self._ask(ROLLBACK, xid, SessionXaRollback(xid))
            given_back = True
        except XAException as error:
            # A broker that does not know the branch gives back what the session received all the same.
            given_back = error.error_code == XaCode.XAER_NOTA
            raise
        finally:
            if given_back:
                for consumer in consumers:
                    consumer.roll_back()
            session.flow.go_on()
        return code

    def forget(self, xid: Xid) -> Call[XaCode]:
        """Drops the broker's memory of a branch that was finished by an operator."""
        return self._in_turn(self._ask(FORGET, xid, SessionXaForget(xid)))

    def recover(self, flags: int = XaFlag.TMSTARTRSCAN) -> Call[list[Xid]]:
        """The prepared branches that the broker knows, all at the start of the scan."""
        if flags & ~SCANS:
            return failed_call(invalid("recover", flags, [SCANS]))
        if not flags & XaFlag.TMSTARTRSCAN:
            return done_call([])

        def steps() -> Steps[list[Xid]]:
            return list((yield from self._question(SessionXaInDoubtXids(), SessionXaInDoubtXidsResponse)).xids)

        return self._run(steps())

    def set_timeout(self, seconds: int) -> Call[bool]:
        """How long branches that this session starts may take. True when the broker takes it."""
        if seconds < 0:
            return failed_call(failure(XaCode.XAER_INVAL, f"a timeout of {seconds} seconds"))

        def steps() -> Steps[bool]:
            answer = yield from self._question(SessionXaSetTimeout(seconds), SessionXaSetTimeoutResponse)
            if answer.ok:
                self._timeout_s = seconds
            return answer.ok

        return self._run(steps())

    def get_timeout(self) -> Call[int]:
        """The broker's timeout of branches, in seconds."""

        def steps() -> Steps[int]:
            return (yield from self._question(SessionXaGetTimeout(), SessionXaGetTimeoutResponse)).timeout_seconds

        return self._run(steps())

    # --- one request after the other ---

    def _run(self, steps: Steps[T]) -> Call[T]:
        return run_sequence(steps, self._due)

    def _in_turn(self, steps: Steps[T]) -> Call[T]:
        # One that its caller has left alone takes its course first: the next one builds on what it makes of a branch.
        return self._session.transaction.run(steps)

    def _ask(self, operation: Operation, xid: Xid, packet: Packet) -> Steps[XaCode]:
        sent = False
        attempts = operation.attempts
        while True:
            if operation.lost is not None and self._is_lost(xid):
                text = "work of it was lost with a connection, or is mixed with what followed its end"
                raise (yield from self._failing(operation, xid, operation.lost, text, sent=False))
            call = self._channel.request(packet, SessionXaResponse)
            self._under_way[call] = _Asked(operation, xid, sent)
            error = yield from settled(call)
            del self._under_way[call]
            if error is None:
                answer = call.result
                assert isinstance(answer, SessionXaResponse)
                return self._concluded(operation, xid, answer, sent)
            if call.sent and error.error_code not in INTERRUPTED:
                raise refusal(operation, error)
            sent = sent or call.sent
            attempts -= 1
            if operation.lost is not None and self._is_lost(xid):
                continue
            if not call.sent or not attempts:
                break
        code = operation.cut_off if sent else operation.unsent
        if operation.decides and sent:
            # Nobody here can say what has become of it; from now on the broker is asked.
            self._states.pop(xid, None)
        if operation.gives_back and sent and error.error_code == ErrorCode.CONNECTION_TIMEDOUT:
            # Nor whose the messages are that its consumers hold, in a session that may still be reattached.
            self._session.give_up(error)
        text = "the connection was lost before the answer came" if sent else "there was no connection to send it on"
        raise (yield from self._failing(operation, xid, code, text, sent=sent, cause=error)) from error

    def _concluded(self, operation: Operation, xid: Xid, answer: SessionXaResponse, sent: bool) -> XaCode:
        """What an answer means, and what it makes of the branch. Raises XAException."""
        states = self._states
        code = code_of(answer.code)
        gone = code is XaCode.XAER_NOTA and (sent or self._is_lost(xid))
        if gone:
            code = operation.gone
        if answer.error and code is not XaCode.XA_OK:
            if code.rolled_back or code is XaCode.XAER_NOTA:
                states.pop(xid, None)
            raise failure(code, answer.message or f"the broker refused the {operation.name} of the branch")
        if operation.after is BranchState.ACTIVE:
            for other, state in list(states.items()):
                if state in LEFT_BEHIND:
                    self._become(other, LEFT_BEHIND[state])
        self._become(xid, operation.after)
        return code

    def _failing(
        self,
        operation: Operation,
        xid: Xid,
        code: XaCode,
        text: str,
        *,
        sent: bool,
        cause: JMSException | None = None,
    ) -> Steps[XAException]:
        """The error with this code. One that says "rolled back" is made true: nobody else will roll the branch back."""
        if code.rolled_back:
            error = None
            if sent:
                error = yield from settled(self._run(self._rollback_steps(xid)))
            else:
                # What was never sent cannot have made the branch permanent: nobody has to wait for its end.
                self.rollback(xid)
            if error is not None and error.error_code != XaCode.XAER_NOTA:
                code = XaCode.XAER_RMFAIL
        return failure(code, f"{operation.name} of the branch failed: {text}", cause)

    def _question(self, packet: Packet, expected: type[P]) -> Steps[P]:
        attempts = QUESTION.attempts
        while True:
            call = self._channel.request(packet, expected)
            error = yield from settled(call)
            if error is None:
                answer = call.result
                assert isinstance(answer, expected)
                return answer
            if call.sent and error.error_code not in INTERRUPTED:
                raise refusal(QUESTION, error)
            attempts -= 1
            if not call.sent or not attempts:
                raise failure(QUESTION.cut_off, f"the question was not answered: {error}", error) from error

    def _become(self, xid: Xid, state: BranchState | None) -> None:
        self._states.pop(xid, None)  # so that the oldest is the first one
        if state is not None:
            self._states[xid] = state
            if len(self._states) > BRANCHES_MAX:
                self._forget_oldest()

    def _forget_oldest(self) -> None:
        """Another session may have decided a branch that was ended here, and nobody tells this one."""
        for xid, state in self._states.items():
            if state in LEFT:
                del self._states[xid]
                return

    def _is_lost(self, xid: Xid) -> bool:
        return self._states.get(xid) in OF_A_LOST_SESSION

    # --- loss of the session ---

    def on_session_lost(self) -> None:
        """The broker has forgotten the session: its branches are lost, but for those about to be decided."""
        asked = self._under_way
        doubtful = {each.xid for call, each in asked.items() if each.operation.decides and (call.sent or each.sent)}
        for xid, state in self._states.items():
            if not (state is BranchState.ENDED and xid in doubtful):
                self._states[xid] = AFTER_LOSS[state]
        self._cancel_lost()

    def _cancel_lost(self) -> None:
        for call, each in list(self._under_way.items()):
            if each.operation.lost is not None and self._is_lost(each.xid):
                call.cancel()  # True for what waits; it must not reach the broker that would let it pass

    # --- loss of work ---

    def on_work_lost(self) -> None:
        """The branch that the session works in is without something that was done in it, or would be with too much."""
        for xid, state in self._states.items():
            if state is BranchState.ACTIVE:
                self._states[xid] = BranchState.FAILED
        self._cancel_lost()

    def on_acknowledgement(self) -> None:
        """In front of an end that waits it would belong to a branch that the program has left, behind it to none.

        A broker makes what belongs to none final at once. So the branch is lost, and all of it comes again.
        """
        for call, each in self._under_way.items():
            if each.operation in (END, SUSPEND) and not call.sent:
                self.on_work_lost()
                return

    def rebuilding_packets(self) -> list[Packet]:
        """What the new session has to know before it is started (core-protocol 7.3)."""
        packets: list[Packet] = []
        if self._timeout_s is not None:
            packets.append(SessionXaSetTimeout(self._timeout_s))
        packets += [SessionXaFailed(xid) for xid, state in self._states.items() if state is BranchState.FAILED]
        return packets
