"""XA requests as data: states of a branch, the effect of each request on it, and the code of each failure.

Responsible for the tables and for making errors of their codes. Does not depend on sessions or the order of packets.
"""

from collections.abc import Collection
from enum import Enum
from typing import Final

from attrs import frozen

from embedclient.errors import ErrorCode, JMSException, XAException
from embedclient.model import XaCode, XaFlag
from embedclient.wire.core import SessionXaJoin, SessionXaResume, SessionXaStart


class BranchState(Enum):
    """The state of a branch on the client. Prepared and finished branches are the broker's and are not kept."""

    ACTIVE = "the session works in it"
    SUSPENDED = "it was left, to be resumed"
    ENDED = "its work is done, and not prepared"
    FAILED = "the session works in it, but was lost meanwhile: work goes on into a branch that can only be rolled back"
    LOST = "the session was lost after it had left the branch"


# The effect of a lost session on each state.
AFTER_LOSS: Final = {
    BranchState.ACTIVE: BranchState.FAILED,
    BranchState.FAILED: BranchState.FAILED,
    BranchState.SUSPENDED: BranchState.LOST,
    BranchState.ENDED: BranchState.LOST,
    BranchState.LOST: BranchState.LOST,
}
# The new state of the session's branch when the session starts another one; the broker rolls it back.
LEFT_BEHIND: Final = {BranchState.ACTIVE: None, BranchState.FAILED: BranchState.LOST}
# The session has no part in the branch any more.
LEFT: Final = (BranchState.ENDED, BranchState.LOST)
OF_A_LOST_SESSION: Final = (BranchState.FAILED, BranchState.LOST)


@frozen
class Operation:
    """One row: a request, its effect on a branch, and the code of each failure."""

    name: str
    after: BranchState | None = None
    """State of the branch after success; None: not kept any more."""
    attempts: int = 1
    """Maximum number of sends when connections break; more than 1 only for requests that may be repeated."""
    decides: bool = False
    """Its effect may have happened when its answer is lost with the session: the branch is not marked as lost."""
    gives_back: bool = False
    """With it the broker takes back the messages of the session's consumers."""
    lost: XaCode | None = None
    """The code for a branch of a lost session, instead of a query to the broker."""
    unsent: XaCode = XaCode.XAER_RMFAIL
    """Nothing of it left this side."""
    cut_off: XaCode = XaCode.XAER_RMFAIL
    """It was sent, and no answer came."""
    refused: XaCode = XaCode.XAER_RMERR
    """The broker answered with an error that has no XA code."""
    gone: XaCode = XaCode.XAER_NOTA
    """The meaning of a branch missing at the broker: of a lost session, or after an answer was lost."""


START: Final = Operation("start", after=BranchState.ACTIVE, attempts=2)
REJOIN: Final = Operation("start", after=BranchState.ACTIVE, attempts=2, lost=XaCode.XAER_RMFAIL)
SUSPEND: Final = Operation("end", after=BranchState.SUSPENDED, attempts=2, lost=XaCode.XAER_RMFAIL)
END: Final = Operation("end", after=BranchState.ENDED, attempts=2, lost=XaCode.XAER_RMFAIL)
PREPARE: Final = Operation(
    "prepare",
    attempts=2,
    decides=True,
    lost=XaCode.XAER_RMFAIL,
    unsent=XaCode.XA_RBCOMMFAIL,
    cut_off=XaCode.XA_RBCOMMFAIL,
    gone=XaCode.XA_RBCOMMFAIL,
)
COMMIT: Final = Operation(
    "commit", decides=True, unsent=XaCode.XA_RETRY, cut_off=XaCode.XA_RETRY, refused=XaCode.XA_RETRY
)
COMMIT_ONE_PHASE: Final = Operation("commit", decides=True, lost=XaCode.XA_RBCOMMFAIL, unsent=XaCode.XA_RBCOMMFAIL)
ROLLBACK: Final = Operation("rollback", attempts=2, gives_back=True, gone=XaCode.XA_OK)
FORGET: Final = Operation("forget")
QUESTION: Final = Operation("question", attempts=2)

STARTS: Final[dict[int, tuple[Operation, type[SessionXaStart | SessionXaJoin | SessionXaResume]]]] = {
    XaFlag.TMNOFLAGS: (START, SessionXaStart),
    XaFlag.TMJOIN: (REJOIN, SessionXaJoin),
    XaFlag.TMRESUME: (REJOIN, SessionXaResume),
}
ENDS: Final[dict[int, Operation]] = {XaFlag.TMSUCCESS: END, XaFlag.TMFAIL: END, XaFlag.TMSUSPEND: SUSPEND}
SCANS: Final = XaFlag.TMSTARTRSCAN | XaFlag.TMENDRSCAN

# For a branch that was decided without its transaction manager. Some brokers give messages back with its rollback, some
# do not.
HEURISTIC: Final = (XaCode.XA_HEURMIX, XaCode.XA_HEURRB, XaCode.XA_HEURCOM, XaCode.XA_HEURHAZ)

# Errors inside the broker, answered with EXCEPTION: the branch has been rolled back.
_REFUSALS: Final[dict[int, XaCode]] = {
    ErrorCode.ILLEGAL_STATE: XaCode.XAER_PROTO,
    ErrorCode.TRANSACTION_ROLLED_BACK: XaCode.XA_RBROLLBACK,
    ErrorCode.TRANSACTION_TIMEOUT: XaCode.XA_RBTIMEOUT,
    ErrorCode.DUPLICATE_ID_REJECTED: XaCode.XA_RBROLLBACK,
    ErrorCode.ADDRESS_FULL: XaCode.XA_RBROLLBACK,
    ErrorCode.SECURITY_EXCEPTION: XaCode.XA_RBROLLBACK,
}


def code_of(number: int) -> XaCode:
    """Return the XA code of a number. A number outside the standard is an error of the broker."""
    try:
        return XaCode(number)
    except ValueError:
        return XaCode.XAER_RMERR


def failure(code: XaCode, text: str, cause: JMSException | None = None) -> XAException:
    return XAException(f"{code.name}: {text}", code=code, linked_exception=cause)


def refusal(operation: Operation, error: JMSException) -> XAException:
    """Return the error for an answer that is no XA code."""
    code = _REFUSALS.get(error.error_code, operation.refused)
    if operation is COMMIT and code.rolled_back:
        code = operation.refused  # a prepared branch is not rolled back by itself
    return failure(code, f"the broker refused the {operation.name}: {error}", error)


def invalid(request: str, flags: int, allowed: Collection[int]) -> XAException:
    names = ", ".join(str(XaFlag(flag).name) for flag in allowed)
    return failure(XaCode.XAER_INVAL, f"{request} takes {names}, not {flags:#x}")
