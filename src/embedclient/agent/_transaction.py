"""Commit and rollback as sequences of packets (core-protocol 7.2, 7.7, 8).

Responsible for their order and for what a reconnect in the middle means. Refuses to know consumers' buffers and credits
beyond asking for them to be rolled back.

A commit never travels in the form without correlation id that nobody waits for: an Artemis broker answers that form
too, and its reply would release whichever call is made next.
"""

from typing import TYPE_CHECKING, Final

from embedclient.agent._call import Steps, settled
from embedclient.errors import ErrorCode, JMSException, exception_for
from embedclient.wire.core import NullResponse, SessionCommit, SessionRollback

if TYPE_CHECKING:
    from embedclient.agent._session import Session

INTERRUPTED: Final = (ErrorCode.UNBLOCKED, ErrorCode.CONNECTION_TIMEDOUT)
# Of a commit that never left: it waited for a connection that did not come, in time or at all.
UNSENT: Final = (*INTERRUPTED, ErrorCode.NOT_CONNECTED)


def commit_steps(session: "Session") -> Steps[None]:
    """Commits; raises 111 for a transaction whose work was lost, 115 for a commit whose reply was lost."""
    session.flush_acknowledgements()
    was_open = session.closed_error is None
    try:
        if session.rollback_only and was_open:
            raise rolled_back()
        call = session.line.request(SessionCommit(), NullResponse)
        error = yield from settled(call)
        if error is not None:
            never_left = was_open and not call.sent and error.error_code in UNSENT
            raise rolled_back(error) if never_left else error
    except JMSException as error:
        code = error.error_code
        if code not in INTERRUPTED and code != ErrorCode.TRANSACTION_ROLLED_BACK:
            raise
        yield from settled(session.rollback())
        if code in INTERRUPTED:
            text = "the connection was lost during the commit: the transaction is committed or rolled back"
            unknown = exception_for(ErrorCode.TRANSACTION_OUTCOME_UNKNOWN, text)
            unknown.linked_exception = error
            raise unknown from error
        raise
    session.work_done = False


def rolled_back(cause: JMSException | None = None) -> JMSException:
    """For a transaction that was lost with its session, or whose commit was never sent because of `cause`."""
    reason = "its session was lost in a reconnect" if cause is None else f"the commit was not sent: {cause}"
    error = exception_for(ErrorCode.TRANSACTION_ROLLED_BACK, f"the transaction was rolled back because {reason}")
    error.linked_exception = cause
    return error


def given_back() -> JMSException:
    """For a message acknowledged alone, the same kind of error as for one that is acknowledged with all others."""
    text = "nothing was acknowledged: the message went back when its session was recovered or lost; it will come again"
    return exception_for(ErrorCode.TRANSACTION_ROLLED_BACK, text)


def rollback_steps(session: "Session", last_message_as_delivered: bool) -> Steps[None]:
    """Stops deliveries, forgets what will come again, rolls back and goes on.

    History of a reconnect in the middle, which is why a suspended session is rebuilt without SESS_START:

    1. The client sends SESS_STOP; the connection is lost, the session is rebuilt and, being started, delivers.
    2. SESS_ROLLBACK returns those deliveries to their queues, and the broker delivers them again at once.
    3. When the reply arrives, nobody here can tell which of the two deliveries is in the buffer.

    And of a stop whose reply takes longer than a call may, which is why the buffer is emptied once more at the end:

    1. SESS_STOP times out behind a delivery; the rollback waits, and the session is reattached.
    2. The broker repeats the delivery and the reply, then rolls back; the delivery has gone back with all others.
    3. Nothing new has come since, because the session does not deliver before the SESS_START that follows here.
    """
    consumers = session.open_consumers()
    yield from session.flow.suspend()
    for consumer in consumers:
        consumer.roll_back()
    error = yield from settled(session.line.request(SessionRollback(last_message_as_delivered), NullResponse))
    if error is None:
        for consumer in consumers:
            consumer.roll_back()
    session.flow.go_on()
    # Released by a rebuild means rolled back: the broker has dropped the old session with its transaction.
    if error is not None and (error.error_code != ErrorCode.UNBLOCKED or session.closed_error is not None):
        session.rollback_only = True  # a commit must not bring what was meant to be taken back
        raise error
    session.rollback_only = False
    session.work_done = False
