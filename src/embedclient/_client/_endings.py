"""How the transactions of one session end, when their callers may be cancelled meanwhile.

1. A commit, or an acknowledgement that commits, is under way, and its caller is cancelled. Its outcome is lost.
2. The program continues and commits again. If the first commit was lost, this success would hide the loss.
Therefore a commit first reports the outcome of the commit before it. Both layers of the client use this module. Does
not depend on the contents of a commit or on the order of endings: the agent holds both.
"""

from __future__ import annotations

from collections.abc import Callable

from embedclient.agent import Call
from embedclient.errors import JMSException, TransactionOutcomeUnknownException

from ._closing import settle_closing, settle_or_hurry
from ._edge import Edge


class Endings:
    """The commits and rollbacks of one session. `timeout_s` limits the wait for one that is in doubt, in seconds."""

    __slots__ = ("_commit", "_edge", "_rollback", "_timeout_s")

    def __init__(self, edge: Edge, timeout_s: float) -> None:
        self._edge = edge
        self._timeout_s = timeout_s
        # The last request of each kind whose caller stopped waiting while it was under way.
        self._commit: Call[None] | None = None
        self._rollback: Call[None] | None = None

    async def commit(self, send_request: Callable[[], Call[None]]) -> None:
        """Make a request that commits, and wait for it.

        Raises:
            TransactionOutcomeUnknownException: the outcome of an earlier, cancelled commit is unknown; nothing was
                requested.
        """
        await self._learn_outcome()
        call = send_request()
        if call.done and call.error is None:
            self._edge.flush_soon()
            return
        try:
            await self._edge.wait(call)
        except JMSException:
            raise
        except BaseException:
            # A cancellation may arrive after the answer, and hide it.
            if not call.done or (call.error is not None and not call.withdrawn):
                self._commit = call
            raise

    async def roll_back(self, send_request: Callable[[], Call[None]]) -> None:
        """Make a request that rolls back, and wait for it.

        The request is made even for a caller that is cancelled already, because a cancelled block ends with a rollback.
        """
        call = send_request()
        try:
            await self._edge.wait(call)
        finally:
            if not call.done:
                self._rollback = call

    async def roll_back_in_time(self, call: Call[None]) -> None:
        """Wait for a rollback, not cancelled, and no longer than closing may take. `begin` waits for the remainder."""
        try:
            await settle_closing(self._edge, call)
        finally:
            if not call.done:
                self._rollback = call

    async def begin(self) -> None:
        """Wait for the requests whose callers stopped waiting, so that they cannot include later work.

        Raises TransactionOutcomeUnknownException for a commit. After a rollback that failed, the agent lets no commit
        include the work that was to be rolled back.
        """
        await self._learn_outcome()
        if self._rollback is not None:
            try:
                await self._edge.wait(self._rollback)
            except JMSException:
                pass
            self._rollback = None

    async def _learn_outcome(self) -> None:
        call, self._commit = self._commit, None
        if call is None:
            return
        await settle_or_hurry(self._edge, call, self._timeout_s)
        if not call.done or call.error is not None:
            # A caller that is cancelled does not get the error; the next one does.
            self._commit = call
            await self._edge.pause()
            self._commit = None
            raise TransactionOutcomeUnknownException(
                "the outcome of a commit or an acknowledgement that was cancelled is unknown",
                linked_exception=call.error,
            )
