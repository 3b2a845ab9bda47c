"""The XA requests of one session, for threads and scripts. Generated from the async classes: change those.

Each method is one call through the portal to the async method of the same name, which documents errors in full.
"""

from __future__ import annotations

from embedclient import _client
from embedclient.model import XaCode, XaFlag, Xid

from ._portal import Portal


class XAResource:
    """What a transaction manager asks of a session, as in JTA. Every method raises `XAException` with an `XaCode`.

    A branch whose session was lost with its connection can only be rolled back: `end` and `prepare` of it fail with
    `XAER_RMFAIL`, `commit` in one phase with `XA_RBCOMMFAIL`. What was prepared outlives connections and brokers.
    """

    def __init__(self, portal: Portal, inner: _client.XAResource) -> None:
        self._portal = portal
        self._inner = inner

    def start(self, xid: Xid, flags: XaFlag = XaFlag.TMNOFLAGS) -> None:
        """Work of the session belongs to the branch from now on.

        `TMJOIN`: a branch that another session has begun. `TMRESUME`: one that was suspended.
        """
        self._portal.call(self._inner.start, xid, flags)

    def end(self, xid: Xid, flags: XaFlag = XaFlag.TMSUCCESS) -> None:
        """Work of the session no longer belongs to the branch.

        `TMFAIL`: and it shall be rolled back. `TMSUSPEND`: until it is resumed.
        """
        self._portal.call(self._inner.end, xid, flags)

    def prepare(self, xid: Xid) -> XaCode:
        """Make the branch last until it is committed or rolled back: `XA_OK`, or `XA_RDONLY` if it is finished."""
        return self._portal.call(self._inner.prepare, xid)

    def commit(self, xid: Xid, one_phase: bool = False) -> None:
        """Make the work of the branch final. In one phase it need not be prepared.

        When the connection is lost before the answer comes, a prepared branch may be committed or not, and the error
        is `XA_RETRY`: commit it again. In one phase the error is then `XAER_RMFAIL`. A commit that was not sent is
        told by `XA_RETRY` as well, and by `XA_RBCOMMFAIL` in one phase.
        """
        self._portal.call(self._inner.commit, xid, one_phase)

    def rollback(self, xid: Xid) -> None:
        """Undo the work of the branch; messages the session has received come again."""
        self._portal.call(self._inner.rollback, xid)

    def forget(self, xid: Xid) -> None:
        """Let the broker forget a branch that an operator has committed or rolled back."""
        self._portal.call(self._inner.forget, xid)

    def recover(self, flags: XaFlag = XaFlag.TMSTARTRSCAN) -> list[Xid]:
        """The prepared branches that the broker knows. `TMSTARTRSCAN` gives them all, a scan that goes on nothing."""
        return self._portal.call(self._inner.recover, flags)

    def set_transaction_timeout(self, seconds: int) -> bool:
        """How long branches of this session may last from `start` to `prepare`. False if the broker does not care."""
        return self._portal.call(self._inner.set_transaction_timeout, seconds)

    def get_transaction_timeout(self) -> int:
        """The broker's time-out of branches, in seconds. An Artemis broker tells its own, whatever was set."""
        return self._portal.call(self._inner.get_transaction_timeout)

    def is_same_rm(self, other: XAResource) -> bool:
        """Whether both belong to the same broker, so that one can join branches of the other."""
        return self._portal.call_now(self._inner.is_same_rm, other._inner)
