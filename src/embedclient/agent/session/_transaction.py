"""Transactions on the client: the work of the open one, the order of endings, and their packets (core-protocol 7.2,
7.7, 8).

Responsible for the order of endings and of their packets, and for the effect of a reconnect in the middle. Does not
depend on consumers' buffers and credits; it only requests their rollback.

A commit must never travel in the form without correlation id, which expects no reply. An Artemis broker answers that
form too, and the reply would release whichever call is made next.

History of the fault that the turns and the marks of `Transaction` avoid:

1. A rollback sends SESS_STOP and waits for the reply before it sends SESS_ROLLBACK. Its caller gives up, after a
   time-out or by cancellation; the rollback continues.
2. The caller starts the next transaction and commits it: SESS_COMMIT is in front of SESS_ROLLBACK, and carries the work
   that was to be undone.
3. With their order kept, the rollback also undoes the work done since 1, and the commit would succeed without it.
"""

from collections import deque
from typing import Final, TypeVar

from embedclient.errors import ErrorCode, JMSException, exception_for
from embedclient.wire.core import NullResponse, SessionCommit, SessionRollback

from .._call import Call, DueCallbacks, Steps, failed_call, run_sequence, settled, wait
from ._channel import SessionChannel
from ._delivery_flow import DeliveryFlow

T = TypeVar("T")

INTERRUPTED: Final = (ErrorCode.UNBLOCKED, ErrorCode.CONNECTION_TIMEDOUT)
# Errors of an ending that never left: it waited for a connection that did not come in time, or never came.
UNSENT: Final = (*INTERRUPTED, ErrorCode.NOT_CONNECTED)
ENDINGS_MAX: Final = 1_000
"""Maximum number of endings of one session that wait for their turn without a waiting caller."""


class Transaction:
    """A session's current transaction. Each piece of work gets a number, so that an ending can name its last piece.

    `work` is the number of the last piece. All up to `_ended` is committed or rolled back; all up to `_doomed` can only
    be rolled back.
    """

    __slots__ = ("_channel", "_doomed", "_due", "_ended", "_flow", "_gives_way", "_turns", "work")

    def __init__(self, channel: SessionChannel, flow: DeliveryFlow, due: DueCallbacks) -> None:
        self._channel = channel
        self._flow = flow
        self.work = 0
        self._ended = 0
        self._doomed: int | None = None
        self._due = due
        # The ending in progress and those that wait for it, in order.
        self._turns: deque[Call[None]] = deque()
        # The session is about to close. Its close waits for its turn, and has the effect of a rollback.
        self._gives_way = False

    @property
    def open(self) -> bool:
        """Return True if there is work that no answer has settled."""
        return self.work > self._ended

    @property
    def rollback_only(self) -> bool:
        return self._doomed is not None

    def doom(self, up_to: int) -> None:
        """Forbid the commit of all work up to this number."""
        self._doomed = up_to if self._doomed is None else max(self._doomed, up_to)

    def committed(self, up_to: int) -> None:
        """Record that the broker has committed all work up to this number. Later work stays open."""
        self._ended = max(self._ended, up_to)

    def rolled_back(self, requested: int, up_to: int) -> None:
        """Record a rollback of all work up to `up_to`. Its request came when `asked` was the number of the last work.

        The program has no notice of the work between the two numbers: the next commit must report it.
        """
        self._ended = max(self._ended, up_to)
        if up_to > requested:
            self.doom(up_to)
        elif self._doomed is not None and self._doomed <= requested:
            self._doomed = None

    # --- verbs ---

    def commit(self) -> Call[None]:
        """Commit sends and acknowledgements. Raise 111 or 115 if a reconnect intervened."""
        return self.run(self._commit_steps(self.work), withdrawable=True)

    def rollback(self, *, last_message_as_delivered: bool = False) -> Call[None]:
        """Roll back sends and acknowledgements. All unacknowledged messages are delivered again.

        From now on no commit includes that work, whatever the outcome of the call; this holds for a commit that waits
        already.
        """
        requested = self.work
        self.doom(requested)
        self._channel.fail_waiting(SessionCommit, rolled_back(JMSException("a rollback was asked for")))
        return self.run(self.rollback_steps(last_message_as_delivered, requested))

    def give_way(self) -> None:
        """Undo nothing from now on: the session is about to close, which has the effect of a rollback."""
        self._gives_way = True

    def close(self, steps: Steps[None]) -> Call[None]:
        """Run the close of the session directly after the ending in progress."""
        return self.run(steps, urgent=True)

    def _commit_steps(self, requested: int) -> Steps[None]:
        """Commit. Raise 111 for a transaction whose work was lost, 115 for a commit whose reply was lost.

        `asked`: the number of the last work when the commit was requested. While the commit waits for its turn, later
        work gets in front of it. The commit must not include half of another transaction; in that case nothing is
        committed.
        """
        self._flow.flush_acknowledgements()
        was_open = self._channel.closed_error is None
        try:
            if was_open and (self.rollback_only or self.work > requested):
                raise rolled_back()
            # Work done from now on is behind the commit, even where that has to wait.
            call = self._channel.request(SessionCommit(), NullResponse)
            error = yield from settled(call)
            if error is not None:
                never_left = was_open and not call.sent and error.error_code in UNSENT
                raise rolled_back(error) if never_left else error
        except JMSException as error:
            code = error.error_code
            if code not in INTERRUPTED and code != ErrorCode.TRANSACTION_ROLLED_BACK:
                raise
            try:
                yield from self.rollback_steps(False, requested)
            except JMSException:
                pass  # work that could not be undone stays doomed
            if code in INTERRUPTED:
                text = "the connection was lost during the commit: the transaction is committed or rolled back"
                unknown = exception_for(ErrorCode.TRANSACTION_OUTCOME_UNKNOWN, text)
                unknown.linked_exception = error
                raise unknown from error
            raise
        self.committed(requested)

    def rollback_steps(self, last_message_as_delivered: bool, requested: int) -> Steps[None]:
        """Stop deliveries, forget what will come again, roll back and resume.

        `asked`: the number of the last work when the rollback was requested.

        History of a reconnect in the middle, which is why a suspended session is rebuilt without SESS_START:

        1. The client sends SESS_STOP; the connection is lost, the session is rebuilt and, being started, delivers.
        2. SESS_ROLLBACK returns those deliveries to their queues, and the broker delivers them again at once.
        3. When the reply arrives, the client cannot distinguish which of the two deliveries is in the buffer.

        History of a stop whose reply exceeds the call time-out, which is why the buffer is emptied again at the end:

        1. SESS_STOP times out behind a delivery; the rollback waits, and the session is reattached.
        2. The broker repeats the delivery and the reply, then rolls back; the delivery has gone back with all others.
        3. Nothing new has come since, because the session does not deliver before the SESS_START that follows here.

        History of a stop that times out while it waits for a connection, which is why it leaves all the same (see
        `SendQueue`):

        1. SESS_STOP is given up, SESS_ROLLBACK waits; the session is reattached in time for that, and still delivers.
        2. The broker delivers again what it has rolled back; its answer waits for the disk, and comes behind that.
        3. The buffer is emptied, and the next acknowledgement includes messages that the program never received.

        History of a rollback whose answer exceeds the time-out, which is why the buffer is emptied once more then, too:

        1. SESS_STOP times out behind a delivery, as before; the session is reattached, and SESS_ROLLBACK leaves.
        2. It times out. The delivery that the broker has repeated meanwhile has gone back, or will when it is repeated.

        History of a rollback that never left, after which the session is made again and not reattached:

        1. The connection is lost; the buffer is emptied, and SESS_ROLLBACK times out while it waits for a new one.
        2. The session is reattached. For the broker its consumers hold what they have forgotten here.
        3. No rollback happens before the next ending, and a program that waits for a message has nothing to end.
        """
        self.doom(requested)
        error = self._undone_by_close()
        if error is not None:
            raise error
        consumers = self._flow.open_consumers()
        yield from self._flow.suspend()
        for consumer in consumers:
            consumer.roll_back()
        up_to = self.work
        error, never_left = self._undone_by_close(), False
        if error is None:
            call = self._channel.request(SessionRollback(last_message_as_delivered), NullResponse)
            error = yield from settled(call)
            never_left = error is not None and not call.sent and error.error_code in UNSENT
            if call.sent:
                for consumer in consumers:
                    consumer.roll_back()
        self._flow.go_on()
        if error is not None and never_left:
            self._flow.give_up(error)
        # A release by a rebuild means rolled back: the broker has dropped the old session with its transaction.
        if error is not None and (error.error_code != ErrorCode.UNBLOCKED or self._channel.closed_error is not None):
            raise error  # the work to be undone is doomed: no commit includes it
        self.rolled_back(requested, up_to)

    def _undone_by_close(self) -> JMSException | None:
        """Return the error of a closing session."""
        return self._channel.closed_failure() if self._gives_way else None

    # --- turns ---

    def run(self, steps: Steps[T], *, urgent: bool = False, withdrawable: bool = False) -> Call[T]:
        """Run an ending in its turn: after all earlier endings or, if `urgent`, directly after the one in progress."""
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


def rolled_back(cause: JMSException | None = None) -> JMSException:
    """Return the error of a transaction lost with its session, or whose commit was never sent because of `cause`."""
    reason = "work of it was lost with a connection, or it began while the one before it was still ending"
    if cause is not None:
        reason = f"the commit was not sent: {cause}"
    error = exception_for(ErrorCode.TRANSACTION_ROLLED_BACK, f"the transaction was rolled back because {reason}")
    error.linked_exception = cause
    return error


def given_back() -> JMSException:
    """Return the error of a message acknowledged alone: the same kind as for one acknowledged with all others."""
    text = "nothing was acknowledged: the message went back when its session was recovered or lost; it will come again"
    return exception_for(ErrorCode.TRANSACTION_ROLLED_BACK, text)
