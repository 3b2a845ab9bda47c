"""The branches of an XA session: the effect of each request on them, and of a lost connection on requests and branches.

Responsible for the states of branches on the client, and for how a request ends (core-protocol 4.9, 7.2, 7.3). The
differences between requests are data, one row of `Operation` each. Does not depend on consumers' buffers or on the time
of a reconnect.

A branch whose session was lost in a reconnect must be rolled back, even where the broker would let it continue. An
Artemis broker prepares the rest of such a branch, which is nothing, and returns success.
"""

from typing import Final, TypeVar

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
from ._delivery_flow import DeliveryFlow
from ._transaction import INTERRUPTED, Transaction
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

BRANCHES_MAX: Final = 10_000
"""Maximum number of remembered branches that the session has left and whose outcome it has not received."""

P = TypeVar("P", bound=Packet)
T = TypeVar("T")


@frozen
class _PendingRequest:
    """A request that has no answer yet. `sent`: an earlier attempt was sent."""

    operation: Operation
    xid: Xid
    sent: bool


class Branches:
    """The XA requests of one session, `Session.xa`."""

    def __init__(
        self, transaction: Transaction, channel: SessionChannel, flow: DeliveryFlow, due: DueCallbacks
    ) -> None:
        self._transaction = transaction
        self._flow = flow
        self._channel = channel
        self._due = due
        self._states: dict[Xid, BranchState] = {}
        self._under_way: dict[Call[Packet], _PendingRequest] = {}
        self._timeout_s: int | None = None

    @property
    def remembered(self) -> tuple[Xid, ...]:
        """Return the branches whose state is remembered, oldest first."""
        return tuple(self._states)

    # --- requests ---

    def start(self, xid: Xid, flags: int = XaFlag.TMNOFLAGS) -> Call[XaCode]:
        """Start work of the session in the branch. TMJOIN: an existing branch, TMRESUME: a suspended one."""
        if flags not in STARTS:
            return failed_call(invalid("start", flags, STARTS))
        operation, packet = STARTS[flags]
        return self._in_turn(self._request(operation, xid, packet(xid)))

    def end(self, xid: Xid, flags: int = XaFlag.TMSUCCESS) -> Call[XaCode]:
        """End work of the session in the branch. Raise XAER_RMFAIL if its work was lost with a connection."""
        if flags not in ENDS:
            return failed_call(invalid("end", flags, ENDS))
        operation = ENDS[flags]
        if operation is SUSPEND and self._states.get(xid) not in (BranchState.ACTIVE, *OF_A_LOST_SESSION):
            # The packet names no branch: the broker would suspend the session's current branch, whichever it is.
            return failed_call(failure(XaCode.XAER_PROTO, "the session does not work in this branch"))
        packet = SessionXaSuspend() if operation is SUSPEND else SessionXaEnd(xid, flags == XaFlag.TMFAIL)
        return self._in_turn(self._end_steps(operation, xid, packet, self._transaction.work))

    def _end_steps(self, operation: Operation, xid: Xid, packet: Packet, requested: int) -> Steps[XaCode]:
        self._flow.flush_acknowledgements()
        if self._transaction.work > requested:
            # Work done while the end waited for its turn is in the branch by now, where it does not belong.
            self.on_work_lost()
        try:
            return (yield from self._request(operation, xid, packet))
        except XAException:
            if self._states.get(xid) is BranchState.FAILED:
                # The session still works in the branch, or will after the reconnect.
                transaction = self._transaction
                yield from settled(self._run(transaction.rollback_steps(False, transaction.work)))
                self._states[xid] = BranchState.LOST
            raise

    def prepare(self, xid: Xid) -> Call[XaCode]:
        """Run the first phase. Return XA_OK, or XA_RDONLY for a branch that is finished because it did nothing."""
        return self._in_turn(self._request(PREPARE, xid, SessionXaPrepare(xid)))

    def commit(self, xid: Xid, one_phase: bool) -> Call[XaCode]:
        """Run the second phase, or both phases at once if `one_phase`."""
        operation = COMMIT_ONE_PHASE if one_phase else COMMIT
        return self._in_turn(self._request(operation, xid, SessionXaCommit(xid, one_phase)))

    def rollback(self, xid: Xid) -> Call[XaCode]:
        """Undo the branch. Messages that the session received and did not commit are delivered again."""

        def steps() -> Steps[XaCode]:
            rollback = self._run(self._rollback_steps(xid))
            error = yield from settled(rollback)
            if error is not None and error.error_code in HEURISTIC:
                # Everything certainly goes back, with the work of the branch that the session may have entered by now.
                self.on_work_lost()
                transaction = self._transaction
                yield from settled(self._run(transaction.rollback_steps(False, transaction.work)))
            return rollback.value()

        return self._in_turn(steps())

    def _rollback_steps(self, xid: Xid) -> Steps[XaCode]:
        flow = self._flow
        consumers = flow.open_consumers()
        yield from flow.suspend()
        flow.flush_acknowledgements()
        given_back = False
        try:
            code = yield from self._request(ROLLBACK, xid, SessionXaRollback(xid))
            given_back = True
        except XAException as error:
            # A broker without this branch still returns the session's received messages to their queues.
            given_back = error.error_code == XaCode.XAER_NOTA
            raise
        finally:
            if given_back:
                for consumer in consumers:
                    consumer.roll_back()
            flow.go_on()
        return code

    def forget(self, xid: Xid) -> Call[XaCode]:
        """Drop the broker's memory of a branch that was finished by an operator."""
        return self._in_turn(self._request(FORGET, xid, SessionXaForget(xid)))

    def recover(self, flags: int = XaFlag.TMSTARTRSCAN) -> Call[list[Xid]]:
        """Return the prepared branches of the broker, all at the start of the scan."""
        if flags & ~SCANS:
            return failed_call(invalid("recover", flags, [SCANS]))
        if not flags & XaFlag.TMSTARTRSCAN:
            return done_call([])

        def steps() -> Steps[list[Xid]]:
            return list((yield from self._question(SessionXaInDoubtXids(), SessionXaInDoubtXidsResponse)).xids)

        return self._run(steps())

    def set_timeout(self, seconds: int) -> Call[bool]:
        """Set the timeout of branches that this session starts, in seconds.

        The result is True if the broker accepts it.
        """
        if seconds < 0:
            return failed_call(failure(XaCode.XAER_INVAL, f"a timeout of {seconds} seconds"))

        def steps() -> Steps[bool]:
            answer = yield from self._question(SessionXaSetTimeout(seconds), SessionXaSetTimeoutResponse)
            if answer.ok:
                self._timeout_s = seconds
            return answer.ok

        return self._run(steps())

    def get_timeout(self) -> Call[int]:
        """Return the broker's timeout of branches, in seconds."""

        def steps() -> Steps[int]:
            return (yield from self._question(SessionXaGetTimeout(), SessionXaGetTimeoutResponse)).timeout_seconds

        return self._run(steps())

    # --- one request after the other ---

    def _run(self, steps: Steps[T]) -> Call[T]:
        return run_sequence(steps, self._due)

    def _in_turn(self, steps: Steps[T]) -> Call[T]:
        # A request abandoned by its caller runs to its end first: the next request depends on the resulting branch
        # state.
        return self._transaction.run(steps)

    def _request(self, operation: Operation, xid: Xid, packet: Packet) -> Steps[XaCode]:
        sent = False
        attempts = operation.attempts
        while True:
            if operation.lost is not None and self._is_lost(xid):
                text = "work of it was lost with a connection, or is mixed with what followed its end"
                raise (yield from self._failing(operation, xid, operation.lost, text, sent=False))
            call = self._channel.request(packet, SessionXaResponse)
            self._under_way[call] = _PendingRequest(operation, xid, sent)
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
            # The branch's outcome is not known here; from now on the broker is queried.
            self._states.pop(xid, None)
        if operation.gives_back and sent and error.error_code == ErrorCode.CONNECTION_TIMEDOUT:
            # Nor is the owner known of messages that its consumers hold, in a session that may still be reattached.
            self._flow.give_up(error)
        text = "the connection was lost before the answer came" if sent else "there was no connection to send it on"
        raise (yield from self._failing(operation, xid, code, text, sent=sent, cause=error)) from error

    def _concluded(self, operation: Operation, xid: Xid, answer: SessionXaResponse, sent: bool) -> XaCode:
        """Apply an answer to the branch and return its code. Raise XAException for a failure."""
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
        """Return the error with this code. For a "rolled back" code, roll the branch back: no other component does."""
        if code.rolled_back:
            error = None
            if sent:
                error = yield from settled(self._run(self._rollback_steps(xid)))
            else:
                # A request that was never sent cannot have made the branch permanent: its end need not be awaited.
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
        self._states.pop(xid, None)  # so that the oldest comes first
        if state is not None:
            self._states[xid] = state
            if len(self._states) > BRANCHES_MAX:
                self._forget_oldest()

    def _forget_oldest(self) -> None:
        """Forget the oldest ended branches. Another session may have decided them without notice to this one."""
        for xid, state in self._states.items():
            if state in LEFT:
                del self._states[xid]
                return

    def _is_lost(self, xid: Xid) -> bool:
        return self._states.get(xid) in OF_A_LOST_SESSION

    # --- loss of the session ---

    def on_session_lost(self) -> None:
        """Mark the branches as lost, except those about to be decided: the broker has forgotten the session."""
        requested = self._under_way
        doubtful = {each.xid for call, each in requested.items() if each.operation.decides and (call.sent or each.sent)}
        for xid, state in self._states.items():
            if not (state is BranchState.ENDED and xid in doubtful):
                self._states[xid] = AFTER_LOSS[state]
        self._cancel_lost()

    def _cancel_lost(self) -> None:
        for call, each in list(self._under_way.items()):
            if each.operation.lost is not None and self._is_lost(each.xid):
                call.cancel()  # succeeds for a waiting call, which must not reach the broker: that would accept it

    # --- loss of work ---

    def on_work_lost(self) -> None:
        """Mark the session's current branch as lost: work done in it is missing, or foreign work would be included."""
        for xid, state in self._states.items():
            if state is BranchState.ACTIVE:
                self._states[xid] = BranchState.FAILED
        self._cancel_lost()

    def on_acknowledgement(self) -> None:
        """Handle an acknowledgement while an end waits.

        In front of the end it would belong to a branch that the program has left, behind the end to no branch. A broker
        makes an acknowledgement without a branch final at once. So the branch is lost, and all its messages come again.
        """
        for call, each in self._under_way.items():
            if each.operation in (END, SUSPEND) and not call.sent:
                self.on_work_lost()
                return

    def rebuilding_packets(self) -> list[Packet]:
        """Return the packets that the new session needs before it is started (core-protocol 7.3)."""
        packets: list[Packet] = []
        if self._timeout_s is not None:
            packets.append(SessionXaSetTimeout(self._timeout_s))
        packets += [SessionXaFailed(xid) for xid, state in self._states.items() if state is BranchState.FAILED]
        return packets
