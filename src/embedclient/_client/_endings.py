"""How the transactions of one session end, when their callers may be cancelled meanwhile.

1. A commit, or an acknowledgement that is one, is on its way; its caller is cancelled. Nobody hears how it ends.
2. The program goes on and commits again. If the first one was lost, that success would hide it.
So whoever commits next learns first how the one before him ended. Both layers of the client use it. Refuses to know
what a commit covers, and the order of endings: that is the agent's.
"""

from __future__ import annotations

from collections.abc import Callable

from embedclient.agent import Call
from embedclient.errors import JMSException, TransactionOutcomeUnknownException

from ._closing import settle_closing, settle_or_hurry
from ._edge import Edge


class Endings:
    """The commits and rollbacks of one session. `timeout_s` is how long one in doubt is waited for."""

    __slots__ = ("_commit", "_edge", "_rollback", "_timeout_s")

    def __init__(self, edge: Edge, timeout_s: float) -> None:
        self._edge = edge
        self._timeout_s = timeout_s
        # The last one of each kind that nobody waits for, and that was under way then.
        self._commit: Call[None] | None = None
        self._rollback: Call[None] | None = None

    async def commit(self, ask: Callable[[], Call[None]]) -> None:
        """Make a request that commits, and wait for it. Raises TransactionOutcomeUnknownException for one before it."""
        await self._learn_outcome()
        call = ask()
        if call.done and call.error is None:
            self._edge.flush_soon()
            return
        try:
            await self._edge.wait(call)
        except JMSException:
            raise
        except BaseException:
            # A cancellation may arrive behind the answer, and hide it.
            if not call.done or (call.error is not None and not call.withdrawn):
                self._commit = call
            raise

    async def roll_back(self, ask: Callable[[], Call[None]]) -> None:
        """Make a request that rolls back, and wait for it.

        The request is made even for a caller that is cancelled already: rolling back is what it does then.
        """
        call = ask()
        try:
            await self._edge.wait(call)
        finally:
            if not call.done:
                self._rollback = call

    async def roll_back_in_time(self, call: Call[None]) -> None:
        """Wait for a rollback, not cancelled, and no longer than closing may take. `begin` waits for the rest."""
        if not await settle_closing(self._edge, call):
            self._rollback = call

    async def begin(self) -> None:
        """Wait for what nobody waited for, so that it cannot take along what is done from now on.

        Raises TransactionOutcomeUnknownException for a commit. A rollback that failed leaves the session to the agent,
        which lets no commit bring what was to be undone.
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
            # A caller that is cancelled learns nothing: the next one does.
            self._commit = call
            await self._edge.pause()
            self._commit = None
            raise TransactionOutcomeUnknownException(
                "the outcome of a commit or an acknowledgement that was cancelled is unknown",
                linked_exception=call.error,
            )
