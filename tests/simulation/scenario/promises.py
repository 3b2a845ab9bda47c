"""What a client promises for a call that a lost connection interrupts (docs/guide/failover.md): which errors there are.

Responsible for the kind of error. The ledger decides what each of them means for the messages: one that was rolled
back must not come, one in doubt may.
"""

from __future__ import annotations

from embedbroker.testing._scene import Scene
from embedclient.errors import ErrorCode, JMSException

__all__ = ["check_commit", "check_send"]

# Not connected: the client has given up, and its sessions are closed.
_COMMIT_ENDS = frozenset(
    {
        ErrorCode.TRANSACTION_ROLLED_BACK,
        ErrorCode.TRANSACTION_OUTCOME_UNKNOWN,
        ErrorCode.DUPLICATE_ID_REJECTED,
        ErrorCode.NOT_CONNECTED,
    }
)
_SEND_ENDS = frozenset(
    {
        ErrorCode.UNBLOCKED,
        ErrorCode.CONNECTION_TIMEDOUT,
        ErrorCode.NOT_CONNECTED,
        ErrorCode.ADDRESS_FULL,
        # The disk cannot store the body of a large message.
        ErrorCode.IO_ERROR,
    }
)


def check_commit(scene: Scene, user: str, error: JMSException, sent: int, *, alone: bool = True) -> None:
    """A commit of a local transaction has failed; ``sent`` is how often it was handed to a connection.

    ``alone`` False: those before it on its session, which were open when it was asked for, may have been counted, too.
    """
    code = error.error_code
    if code not in _COMMIT_ENDS:
        scene.fail(f"{user}: a commit ends with error {code}: {error}")
    elif code == ErrorCode.TRANSACTION_OUTCOME_UNKNOWN and not sent:
        scene.fail(f"{user}: the outcome of a commit is called unknown, and nothing was sent: {error}")
    elif code == ErrorCode.TRANSACTION_ROLLED_BACK and error.linked_exception is not None and sent and alone:
        # A broker that answers so names no cause.
        scene.fail(f"{user}: a commit is called rolled back, and it was sent: {error}")


def check_send(scene: Scene, user: str, error: JMSException) -> None:
    """A send outside of transactions has failed."""
    if error.error_code not in _SEND_ENDS:
        scene.fail(f"{user}: a send ends with error {error.error_code}: {error}")
