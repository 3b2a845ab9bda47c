"""XA branches of a drill's client, in sequence: the work of a transaction manager, reduced to one resource.

Responsible for the end of each branch: it repeats the request until the broker has confirmed commit or rollback, across
connections and brokers. Does not depend on the work that is done in a branch.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress

import trio
from attrs import define

from embedclient import XaCode, XaFlag, XAResource, Xid
from embedclient.errors import JMSException, XAException

from ._stage import Stage
from ._transaction import Outcome

__all__ = ["FORMAT_ID", "Branches"]

#: The format id that distinguishes the drill's branches from those of other programs.
FORMAT_ID = 0x6472696C
_ATTEMPTS_MAX = 1_000
_PAUSE_S = 0.02
# The broker may have executed the request or not, or was not reachable: the request must be repeated.
_UNSETTLED = (XaCode.XA_RETRY, XaCode.XAER_RMFAIL)


@define(eq=False)
class _Left:
    transaction: str
    xid: Xid
    prepared: bool = False


class Branches:
    """Run the branches of one client."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._left: _Left | None = None

    @property
    def unfinished(self) -> bool:
        """True if a branch is left whose session ended before the branch was settled."""
        return self._left is not None

    async def run(
        self, resource: XAResource, transaction: str, work: Callable[[Callable[[], None]], Awaitable[None]]
    ) -> Outcome:
        """Do ``work`` in a branch, and end the branch in two phases.

        ``work`` calls its argument after each piece of work.
        """
        stage = self._stage
        worked_once = False

        def worked() -> None:
            nonlocal worked_once
            worked_once = True
            stage.open_transactions.add(transaction)
            stage.look()

        xid = Xid(FORMAT_ID, b"drill", f"{transaction} {stage.plan.seed}".encode()[:64])
        self._left = _Left(transaction, xid)
        try:
            await resource.start(xid)
            await work(worked)
            await resource.end(xid)
        except JMSException:
            stage.open_transactions.discard(transaction)
            with suppress(JMSException):
                # A branch that is still associated with its session cannot be rolled back there.
                await resource.end(xid, XaFlag.TMFAIL)
            return await self.finish(resource)
        finally:
            stage.open_transactions.discard(transaction)
        stage.requested_commits += worked_once
        try:
            if await self._prepare(resource) is XaCode.XA_RDONLY:
                return self._over(Outcome.COMMITTED)
            return await self.finish(resource)
        finally:
            stage.requested_commits -= worked_once

    async def _prepare(self, resource: XAResource) -> XaCode | None:
        """Prepare the branch.

        A prepare that fails leaves a branch that must be rolled back, whether it was executed or not.
        """
        left = self._left
        assert left is not None
        try:
            code = await resource.prepare(left.xid)
        except JMSException:
            return None
        left.prepared = code is XaCode.XA_OK
        return code

    async def finish(self, resource: XAResource) -> Outcome:
        """Commit the branch if it is prepared, otherwise roll it back; the result goes to the ledger."""
        stage, left = self._stage, self._left
        assert left is not None
        stage.prepared_branches += left.prepared
        stage.look()
        try:
            await self._settle(resource, left)
        finally:
            stage.prepared_branches -= left.prepared
        return self._over(Outcome.COMMITTED if left.prepared else Outcome.ROLLED_BACK)

    def _over(self, outcome: Outcome) -> Outcome:
        ledger, left = self._stage.ledger, self._left
        assert left is not None
        self._left = None
        if outcome is Outcome.COMMITTED:
            ledger.committed(left.transaction, self._stage.run.now())
        else:
            ledger.rolled_back(left.transaction)
        return outcome

    async def _settle(self, resource: XAResource, left: _Left) -> None:
        for _ in range(_ATTEMPTS_MAX):
            try:
                if left.prepared:
                    await resource.commit(left.xid)
                else:
                    await resource.rollback(left.xid)
            except XAException as error:
                code = XaCode(error.error_code)
                if code is XaCode.XAER_NOTA or (code.rolled_back and not left.prepared):
                    return  # an earlier request did it; a branch that never existed needs nothing
                if code not in _UNSETTLED:
                    self._stage.run.fail(f"branch of {left.transaction}: {code.name}: {error}")
                await trio.sleep(_PAUSE_S)
            else:
                return
        self._stage.run.fail(f"branch of {left.transaction}: the broker settles it neither way")
        await trio.lowlevel.checkpoint()
