"""The XA requests of one session, for a transaction manager.

Responsible for waiting on the agent's answers. Does not depend on the meaning of the requests: the agent holds the
branches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from embedclient.agent import Call
from embedclient.agent import Session as AgentSession
from embedclient.errors import IllegalStateException
from embedclient.model import XaCode, XaFlag, Xid, summary

from ._edge import Edge
from ._inbox import OneTask

if TYPE_CHECKING:
    from embedclient.agent import Branches

T = TypeVar("T")


class XAResource:
    """The requests that a transaction manager sends through a session, as in JTA.

    Made by a session: see `XASession.xa_resource` and `ClientSession.xa_resource`.

    Every request raises `XAException` with an `XaCode` if it fails.

    A branch whose session was lost with its connection can only be rolled back: `end` and `prepare` of it fail with
    `XAER_RMFAIL`, `commit` in one phase with `XA_RBCOMMFAIL`. A prepared branch survives the loss of connections and
    restarts of brokers.

    Source: Jakarta Messaging 3.1, section 11.3.5.
    """

    def __init__(self, edge: Edge, agent_session: AgentSession, one_task: OneTask) -> None:
        self._edge = edge
        self._agent_session = agent_session
        self._one_task = one_task

    def __repr__(self) -> str:
        return summary(self, f"of session {self._agent_session.name}")

    async def start(self, xid: Xid, flags: XaFlag = XaFlag.TMNOFLAGS) -> None:
        """Assign later work of the session to the branch.

        Args:
            xid: the branch.
            flags: `TMNOFLAGS` begins a branch. `TMJOIN` joins one that another session has begun. `TMRESUME` continues
                one that was suspended.
        """
        await self._request(lambda branches: branches.start(xid, flags))

    async def end(self, xid: Xid, flags: XaFlag = XaFlag.TMSUCCESS) -> None:
        """End the assignment of the session's work to the branch.

        Args:
            xid: the branch.
            flags: `TMSUCCESS`, or `TMFAIL` to mark the branch for rollback, or `TMSUSPEND` to suspend it until it is
                resumed.
        """
        await self._request(lambda branches: branches.end(xid, flags))

    async def prepare(self, xid: Xid) -> XaCode:
        """Store the branch until it is committed or rolled back.

        Return `XA_OK`, or `XA_RDONLY` if nothing is left to commit.

        Args:
            xid: the branch.
        """
        return await self._request(lambda branches: branches.prepare(xid))

    async def commit(self, xid: Xid, one_phase: bool = False) -> None:
        """Commit the branch.

        If the connection is lost before the answer arrives, a prepared branch may or may not be committed. The error is
        then `XA_RETRY`: commit it again. In one phase the error is `XAER_RMFAIL`. A commit that was not sent is
        reported by `XA_RETRY` as well, and by `XA_RBCOMMFAIL` in one phase.

        Args:
            xid: the branch.
            one_phase: commit a branch that is not prepared.
        """
        await self._request(lambda branches: branches.commit(xid, one_phase))

    async def rollback(self, xid: Xid) -> None:
        """Roll the branch back. The broker delivers the messages that the branch has received again.

        Args:
            xid: the branch.
        """
        await self._request(lambda branches: branches.rollback(xid))

    async def forget(self, xid: Xid) -> None:
        """Remove from the broker a branch that an operator has committed or rolled back.

        Args:
            xid: the branch.
        """
        await self._request(lambda branches: branches.forget(xid))

    async def recover(self, flags: XaFlag = XaFlag.TMSTARTRSCAN) -> list[Xid]:
        """Return the prepared branches of the broker.

        Args:
            flags: `TMSTARTRSCAN` returns all of them; a scan that continues returns none.
        """
        return await self._request(lambda branches: branches.recover(flags))

    async def set_transaction_timeout(self, seconds: int) -> bool:
        """Set how long branches of this session may last from `start` to `prepare`.

        Return False if the broker ignores the time-out.

        Args:
            seconds: the time-out.
        """
        return await self._request(lambda branches: branches.set_timeout(seconds))

    async def get_transaction_timeout(self) -> int:
        """Return the broker's time-out of branches, in seconds. Artemis returns its own, whatever was set."""
        return await self._request(lambda branches: branches.get_timeout())

    def is_same_rm(self, other: XAResource) -> bool:
        """Return True if both belong to the same broker, so that each can join branches of the other.

        Args:
            other: the XA resource of another session.
        """
        node_id = self._edge.agent.node_id
        return self._edge is other._edge or (node_id is not None and node_id == other._edge.agent.node_id)

    async def _request(self, send_request: Callable[[Branches], Call[T]]) -> T:
        branches = self._agent_session.xa
        assert branches is not None
        with self._one_task:
            await self._edge.pause()
            return await self._edge.wait(send_request(branches))


def xa_resource_of(edge: Edge, agent_session: AgentSession, one_task: OneTask) -> XAResource:
    """Return the XA resource of a session. Raises IllegalStateException if the session has none."""
    if agent_session.xa is None:
        raise IllegalStateException("the session was not made for XA transactions")
    return XAResource(edge, agent_session, one_task)
