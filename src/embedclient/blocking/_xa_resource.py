"""The XA requests of one session, for threads and scripts. Generated from the async classes: change those.

Each method is one call through the portal to the async method of the same name, which documents errors in full.
"""

from __future__ import annotations

from embedclient import _client
from embedclient.model import XaCode, XaFlag, Xid

from ._portal import Portal


class XAResource:
    """The requests that a transaction manager sends through a session, as in JTA.

    Made by a session: see `XASession.xa_resource` and `ClientSession.xa_resource`.

    Every request raises `XAException` with an `XaCode` if it fails.

    A branch whose session was lost with its connection can only be rolled back: `end` and `prepare` of it fail with
    `XAER_RMFAIL`, `commit` in one phase with `XA_RBCOMMFAIL`. A prepared branch survives the loss of connections and
    restarts of brokers.

    Source: Jakarta Messaging 3.1, section 11.3.5.
    """

    def __init__(self, portal: Portal, inner: _client.XAResource) -> None:
        self._portal = portal
        self._inner = inner

    def __repr__(self) -> str:
        return repr(self._inner)

    def start(self, xid: Xid, flags: XaFlag = XaFlag.TMNOFLAGS) -> None:
        """Assign later work of the session to the branch.

        Args:
            xid: the branch.
            flags: `TMNOFLAGS` begins a branch. `TMJOIN` joins one that another session has begun. `TMRESUME` continues
                one that was suspended.
        """
        self._portal.call(self._inner.start, xid, flags)

    def end(self, xid: Xid, flags: XaFlag = XaFlag.TMSUCCESS) -> None:
        """End the assignment of the session's work to the branch.

        Args:
            xid: the branch.
            flags: `TMSUCCESS`, or `TMFAIL` to mark the branch for rollback, or `TMSUSPEND` to suspend it until it is
                resumed.
        """
        self._portal.call(self._inner.end, xid, flags)

    def prepare(self, xid: Xid) -> XaCode:
        """Store the branch until it is committed or rolled back.

        Return `XA_OK`, or `XA_RDONLY` if nothing is left to commit.

        Args:
            xid: the branch.
        """
        return self._portal.call(self._inner.prepare, xid)

    def commit(self, xid: Xid, one_phase: bool = False) -> None:
        """Commit the branch.

        If the connection is lost before the answer arrives, a prepared branch may or may not be committed. The error is
        then `XA_RETRY`: commit it again. In one phase the error is `XAER_RMFAIL`. A commit that was not sent is
        reported by `XA_RETRY` as well, and by `XA_RBCOMMFAIL` in one phase.

        Args:
            xid: the branch.
            one_phase: commit a branch that is not prepared.
        """
        self._portal.call(self._inner.commit, xid, one_phase)

    def rollback(self, xid: Xid) -> None:
        """Roll the branch back. The broker delivers the messages that the branch has received again.

        Args:
            xid: the branch.
        """
        self._portal.call(self._inner.rollback, xid)

    def forget(self, xid: Xid) -> None:
        """Remove from the broker a branch that an operator has committed or rolled back.

        Args:
            xid: the branch.
        """
        self._portal.call(self._inner.forget, xid)

    def recover(self, flags: XaFlag = XaFlag.TMSTARTRSCAN) -> list[Xid]:
        """Return the prepared branches of the broker.

        Args:
            flags: `TMSTARTRSCAN` returns all of them; a scan that continues returns none.
        """
        return self._portal.call(self._inner.recover, flags)

    def set_transaction_timeout(self, seconds: int) -> bool:
        """Set how long branches of this session may last from `start` to `prepare`.

        Return False if the broker ignores the time-out.

        Args:
            seconds: the time-out.
        """
        return self._portal.call(self._inner.set_transaction_timeout, seconds)

    def get_transaction_timeout(self) -> int:
        """Return the broker's time-out of branches, in seconds. Artemis returns its own, whatever was set."""
        return self._portal.call(self._inner.get_transaction_timeout)

    def is_same_rm(self, other: XAResource) -> bool:
        """Return True if both belong to the same broker, so that each can join branches of the other.

        Args:
            other: the XA resource of another session.
        """
        return self._portal.call_now(self._inner.is_same_rm, other._inner)
