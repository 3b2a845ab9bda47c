"""Transactions on this side: what is in the open one, whose turn it is to end it, and the packets that do so
(core-protocol 7.2, 7.7, 8).

Responsible for the order of endings and of their packets, and for what a reconnect in the middle means. Refuses to know
consumers' buffers and credits beyond asking for them to be rolled back.

A commit never travels in the form without correlation id that nobody waits for: an Artemis broker answers that form
too, and its reply would release whichever call is made next.

History of the fault that the turns and the marks of `Transaction` avoid:

1. A rollback says SESS_STOP and waits for the reply before it says SESS_ROLLBACK. Its caller gives up, after a time-out
   or because he is cancelled; the rollback takes its course.
2. He goes on with the next transaction and commits it: SESS_COMMIT is in front of SESS_ROLLBACK, and carries the work
   that was to be undone.
3. With their order kept, the rollback takes along what he has done since 1, and his commit would succeed without it.
"""

from collections import deque
from typing import TYPE_CHECKING, Final, TypeVar

from embedclient.errors import ErrorCode, JMSException, exception_for
from embedclient.wire.core import NullResponse, SessionCommit, SessionRollback

from .._call import Call, DueCallbacks, Steps, failed_call, run_sequence, settled, wait

if TYPE_CHECKING:
    from ._session import Session

T = TypeVar("T")

INTERRUPTED: Final = (ErrorCode.UNBLOCKED, ErrorCode.CONNECTION_TIMEDOUT)
# Of an ending that never left: it waited for a connection that did not come, in time or at all.
UNSENT: Final = (*INTERRUPTED, ErrorCode.NOT_CONNECTED)
ENDINGS_MAX: Final = 1_000
"""So many endings of one session, that nobody waits for, may wait for their turn."""


class Transaction:
    """The transaction a session is in. Work is numbered as it is asked for, so that an ending can say how far it goes.

    `work` is the number of the last piece. All up to `_ended` is committed or rolled back; all up to `_doomed` can only
    be rolled back.
    """

    __slots__ = ("_doomed", "_due", "_ended", "_turns", "work")

    def __init__(self, due: DueCallbacks) -> None:
        self.work = 0
        self._ended = 0
        self._doomed: int | None = None
        self._due = due
        # Of the ending under way and of those that wait for it, in order.
        self._turns: deque[Call[None]] = deque()

    @property
    def open(self) -> bool:
        """Whether there is work that no answer has settled."""
        return self.work > self._ended

    @property
    def rollback_only(self) -> bool:
        return self._doomed is not None

    def doom(self, up_to: int) -> None:
        """All work up to this number must not be committed any more."""
        self._doomed = up_to if self._doomed is None else max(self._doomed, up_to)

    def committed(self, up_to: int) -> None:
        """The broker has committed all work up to this number; what was done since is open."""
        self._ended = max(self._ended, up_to)

    def rolled_back(self, asked: int, up_to: int) -> None:
        """All work up to the number `up_to` is undone, by a rollback that was `asked` for when there was less of it.

        Nobody was told of what it took beyond that: the next commit has to say it.
        """
        self._ended = max(self._ended, up_to)
        if up_to > asked:
            self.doom(up_to)
        elif self._doomed is not None and self._doomed <= asked:
            self._doomed = None

    def run(self, steps: Steps[T], *, urgent: bool = False, withdrawable: bool = False) -> Call[T]:
        """Runs an ending in its turn: when those before it are over, or if `urgent` when the one under way is."""
        turn: Call[None] = Call(self._due)
        turns = self._turns
        if len(turns) >= ENDINGS_MAX and not urgent:
            return failed_call(JMSException(f"{len(turns)} commits and rollbacks are waiting already"))
        if urgent and turns:
            turns.insert(1, turn)
        else:
            turns.append(turn)
        if turns[0] is turn:
            turn.succeed(None)
        outcome = run_sequence(_in_turn(turn, steps), self._due)
        if withdrawable and not turn.done:
            outcome.withdraw_with(lambda: self._withdraw(turn))
        outcome.when_done(lambda: self._pass_on(turn))
        return outcome

    def _withdraw(self, turn: Call[None]) -> bool:
        if turn.done:
            return False
        self._turns.remove(turn)
        turn.fail(JMSException("the request was withdrawn"))
        return True

    def _pass_on(self, turn: Call[None]) -> None:
        turns = self._turns
        if turns and turns[0] is turn:
            turns.popleft()
            if turns:
                turns[0].succeed(None)


def _in_turn(turn: Call[None], steps: Steps[T]) -> Steps[T]:
    yield from wait(turn)
    return (yield from steps)


def commit_steps(session: "Session", asked: int) -> Steps[None]:
    """Commits; raises 111 for a transaction whose work was lost, 115 for a commit whose reply was lost.

    `asked`: the number of the last work when the commit was asked for. While it waits for its turn, what is done behind
    it gets in front of it; it must not take the half of another transaction along, so that nothing is committed then.
    """
    session.flush_acknowledgements()
    transaction = session.transaction
    was_open = session.closed_error is None
    try:
        if was_open and (transaction.rollback_only or transaction.work > asked):
            raise rolled_back()
        # What is done from now on is behind the commit, even where that has to wait.
        call = session.channel.request(SessionCommit(), NullResponse)
        error = yield from settled(call)
        if error is not None:
            never_left = was_open and not call.sent and error.error_code in UNSENT
            raise rolled_back(error) if never_left else error
    except JMSException as error:
        code = error.error_code
        if code not in INTERRUPTED and code != ErrorCode.TRANSACTION_ROLLED_BACK:
            raise
        try:
            yield from rollback_steps(session, False, asked)
        except JMSException:
            pass  # what could not be undone stays doomed
        if code in INTERRUPTED:
            text = "the connection was lost during the commit: the transaction is committed or rolled back"
            unknown = exception_for(ErrorCode.TRANSACTION_OUTCOME_UNKNOWN, text)
            unknown.linked_exception = error
            raise unknown from error
        raise
    transaction.committed(asked)


def rolled_back(cause: JMSException | None = None) -> JMSException:
    """For a transaction that was lost with its session, or whose commit was never sent because of `cause`."""
    reason = "work of it was lost with a connection, or it began while the one before it was still ending"
    if cause is not None:
        reason = f"the commit was not sent: {cause}"
    error = exception_for(ErrorCode.TRANSACTION_ROLLED_BACK, f"the transaction was rolled back because {reason}")
    error.linked_exception = cause
    return error


def given_back() -> JMSException:
    """For a message acknowledged alone, the same kind of error as for one that is acknowledged with all others."""
    text = "nothing was acknowledged: the message went back when its session was recovered or lost; it will come again"
    return exception_for(ErrorCode.TRANSACTION_ROLLED_BACK, text)


def rollback_steps(session: "Session", last_message_as_delivered: bool, asked: int) -> Steps[None]:
    """Stops deliveries, forgets what will come again, rolls back and goes on.

    `asked`: the number of the last work when the rollback was asked for.

    History of a reconnect in the middle, which is why a suspended session is rebuilt without SESS_START:

    1. The client sends SESS_STOP; the connection is lost, the session is rebuilt and, being started, delivers.
    2. SESS_ROLLBACK returns those deliveries to their queues, and the broker delivers them again at once.
    3. When the reply arrives, nobody here can tell which of the two deliveries is in the buffer.

    And of a stop whose reply takes longer than a call may, which is why the buffer is emptied once more at the end:

    1. SESS_STOP times out behind a delivery; the rollback waits, and the session is reattached.
    2. The broker repeats the delivery and the reply, then rolls back; the delivery has gone back with all others.
    3. Nothing new has come since, because the session does not deliver before the SESS_START that follows here.

    And of a stop that waits for a connection longer than it may, which is why it leaves all the same (see Backlog):

    1. SESS_STOP is given up, SESS_ROLLBACK waits; the session is reattached in time for that, and still delivers.
    2. The broker delivers again what it has rolled back; its answer waits for the disk, and comes behind that.
    3. The buffer is emptied, and the next acknowledgement takes what nobody has seen.

    And of a rollback whose answer takes longer than a call may, which is why it is emptied once more then, too:

    1. SESS_STOP times out behind a delivery, as before; the session is reattached, and SESS_ROLLBACK leaves.
    2. It times out. The delivery that the broker has repeated meanwhile has gone back, or will when it is repeated.

    And of a rollback that never left, after which the session is made again and not reattached:

    1. The connection is lost; the buffer is emptied, and SESS_ROLLBACK waits for a new one longer than it may.
    2. The session is reattached. For the broker its consumers hold what they have forgotten here.
    3. Nobody rolls that back before the next ending, and who waits for a message has nothing to end.
    """
    transaction = session.transaction
    transaction.doom(asked)
    error = _undone_by_close(session)
    if error is not None:
        raise error
    consumers = session.open_consumers()
    yield from session.flow.suspend()
    for consumer in consumers:
        consumer.roll_back()
    up_to = transaction.work
    error, never_left = _undone_by_close(session), False
    if error is None:
        call = session.channel.request(SessionRollback(last_message_as_delivered), NullResponse)
        error = yield from settled(call)
        never_left = error is not None and not call.sent and error.error_code in UNSENT
        if call.sent:
            for consumer in consumers:
                consumer.roll_back()
    session.flow.go_on()
    if error is not None and never_left:
        session.give_up(error)
    # Released by a rebuild means rolled back: the broker has dropped the old session with its transaction.
    if error is not None and (error.error_code != ErrorCode.UNBLOCKED or session.closed_error is not None):
        raise error  # what was meant to be taken back is doomed: no commit brings it
    transaction.rolled_back(asked, up_to)


def _undone_by_close(session: "Session") -> JMSException | None:
    """The close waits for its turn, and does what a rollback would do."""
    return session.closed_failure() if session.closing else None
