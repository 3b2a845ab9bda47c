"""The XA requests of one session, for a transaction manager.

Responsible for waiting on the agent's answers. Refuses to know what the requests mean: branches are the agent's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from embedclient.agent import Call
from embedclient.agent import Session as AgentSession
from embedclient.errors import IllegalStateException
from embedclient.model import XaCode, XaFlag, Xid

from ._edge import Edge
from ._inbox import OneTask

if TYPE_CHECKING:
    from embedclient.agent import Branches

T = TypeVar("T")


class XAResource:
    """What a transaction manager asks of a session, as in JTA. Every method raises `XAException` with an `XaCode`.

    A branch whose session was lost with its connection can only be rolled back: `end` and `prepare` of it fail with
    `XAER_RMFAIL`, `commit` in one phase with `XA_RBCOMMFAIL`. What was prepared outlives connections and brokers.
    """

    def __init__(self, edge: Edge, agent_session: AgentSession, one_task: OneTask) -> None:
        self._edge = edge
        self._agent_session = agent_session
        self._one_task = one_task

    async def start(self, xid: Xid, flags: XaFlag = XaFlag.TMNOFLAGS) -> None:
        """Work of the session belongs to the branch from now on.

        `TMJOIN`: a branch that another session has begun. `TMRESUME`: one that was suspended.
        """
        await self._request(lambda branches: branches.start(xid, flags))

    async def end(self, xid: Xid, flags: XaFlag = XaFlag.TMSUCCESS) -> None:
        """Work of the session no longer belongs to the branch.

        `TMFAIL`: and it shall be rolled back. `TMSUSPEND`: until it is resumed.
        """
        await self._request(lambda branches: branches.end(xid, flags))

    async def prepare(self, xid: Xid) -> XaCode:
        """Make the branch last until it is committed or rolled back: `XA_OK`, or `XA_RDONLY` if it is finished."""
        return await self._request(lambda branches: branches.prepare(xid))

    async def commit(self, xid: Xid, one_phase: bool = False) -> None:
        """Make the work of the branch final. In one phase it need not be prepared.

        When the connection is lost before the answer comes, a prepared branch may be committed or not, and the error
        is `XA_RETRY`: commit it again. In one phase the error is then `XAER_RMFAIL`. A commit that was not sent is
        told by `XA_RETRY` as well, and by `XA_RBCOMMFAIL` in one phase.
        """
        await self._request(lambda branches: branches.commit(xid, one_phase))

    async def rollback(self, xid: Xid) -> None:
        """Undo the work of the branch; messages the session has received come again."""
        await self._request(lambda branches: branches.rollback(xid))

    async def forget(self, xid: Xid) -> None:
        """Let the broker forget a branch that an operator has committed or rolled back."""
        await self._request(lambda branches: branches.forget(xid))

    async def recover(self, flags: XaFlag = XaFlag.TMSTARTRSCAN) -> list[Xid]:
        """The prepared branches that the broker knows. `TMSTARTRSCAN` gives them all, a scan that goes on nothing."""
        return await self._request(lambda branches: branches.recover(flags))

    async def set_transaction_timeout(self, seconds: int) -> bool:
        """How long branches of this session may last from `start` to `prepare`. False if the broker does not care."""
        return await self._request(lambda branches: branches.set_timeout(seconds))

    async def get_transaction_timeout(self) -> int:
        """The broker's time-out of branches, in seconds. An Artemis broker tells its own, whatever was set."""
        return await self._request(lambda branches: branches.get_timeout())

    def is_same_rm(self, other: XAResource) -> bool:
        """Whether both belong to the same broker, so that one can join branches of the other."""
        node_id = self._edge.agent.node_id
        return self._edge is other._edge or (node_id is not None and node_id == other._edge.agent.node_id)

    async def _request(self, ask: Callable[[Branches], Call[T]]) -> T:
        branches = self._agent_session.xa
        assert branches is not None
        with self._one_task:
            await self._edge.pause()
            return await self._edge.wait(ask(branches))


def xa_resource_of(edge: Edge, agent_session: AgentSession, one_task: OneTask) -> XAResource:
    """The resource of a session that has one."""
    if agent_session.xa is None:
        raise IllegalStateException("the session was not made for XA transactions")
    return XAResource(edge, agent_session, one_task)
