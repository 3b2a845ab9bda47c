"""The scope of one agent on trio: its tasks, its orderly end, and the exceptions that leave it.

Responsible for raising an exception of the user as the same object. Responsible for an end that is orderly within a
limit and complete in any case. Does not depend on the work of the tasks.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

import trio

from embedclient.agent import Agent
from embedclient.errors import IllegalStateException
from embedclient.model import Entropy, Place
from embedclient.transport import TrioBackgroundScope

from ._closing import settle_closing
from ._entropy import SystemEntropy
from ._trio_edge import TrioEdge

if TYPE_CHECKING:
    from embedclient.transport import Datagrams

    from ._broker_search import BrokerSearch

T = TypeVar("T")


@asynccontextmanager
async def open_trio_edge(agent: Agent, close_timeout_s: float) -> AsyncIterator[TrioEdge]:
    """Open the scope of one agent: its tasks end with the block, after an orderly close.

    An exception from the block leaves as the same object, never in a group.

    Args:
        agent: the agent to drive.
        close_timeout_s: seconds that the orderly close may take at most.

    Raises:
        IllegalStateException: the caller is not a task of a trio run.
    """
    _check_loop()
    failure: BaseException | None = None
    breakdown: BaseException | None = None
    try:
        async with trio.open_nursery() as spawned:
            # The edge's own tasks continue while a cancellation from outside ends the block: they read the broker's
            # answers to the orderly close.
            with trio.CancelScope(shield=True):
                # Shielded for one pass: a cancelled start() would wait for a task that no cancellation reaches.
                own = await spawned.start(_host_own_tasks)
            edge = TrioEdge(agent, spawned, own, close_timeout_s)
            own.start_soon(edge.run_timer)
            own.start_soon(edge.run_flusher)
            try:
                yield edge
            except BaseException as error:  # sys.exc_info() may be one that the caller handles
                failure = error
                raise
            finally:
                await settle_closing(edge, agent.close())
                agent.abort("closed")
                edge.pump.flush()
                edge.pump.close_all("closed")
                own.cancel_scope.cancel()
                spawned.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        breakdown = _breakdown(group, failure)
    # Raised outside the handler, since the group would else become the context of the user's exception.
    if breakdown is not None and (failure is None or _is_cancellation(failure)):
        raise breakdown
    if failure is not None:
        failure.__context__ = failure.__context__ or breakdown
        raise failure


def _check_loop() -> None:
    if not trio.lowlevel.in_trio_task():
        raise IllegalStateException(
            "this client needs trio: asyncio programs take embedclient.asyncio, others embedclient.blocking"
        )


async def _host_own_tasks(task_status: trio.TaskStatus[trio.Nursery]) -> None:
    with trio.CancelScope(shield=True):
        async with trio.open_nursery() as own:
            task_status.started(own)
            await trio.sleep_forever()


def _leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for part in error.exceptions for leaf in _leaves(part)]
    return [error]


def _is_cancellation(error: BaseException) -> bool:
    return all(isinstance(leaf, trio.Cancelled) for leaf in _leaves(error))


def _breakdown(group: BaseExceptionGroup[BaseException], failure: BaseException | None) -> BaseException | None:
    """Return the failure beside the user's exception: nearly always None, else a defect of the client."""
    known = [] if failure is None else _leaves(failure)
    for leaf in _leaves(group):
        if not any(leaf is other for other in known) and not isinstance(leaf, trio.Cancelled):
            return leaf
    return None


class TrioLoop:
    """A Loop for trio. Tests give a network of their own for ``datagrams``; None is UDP."""

    def __init__(self, datagrams: Datagrams | None = None) -> None:
        self.entropy: Entropy = SystemEntropy()
        self._datagrams = datagrams

    def open_edge(self, agent: Agent, close_timeout_s: float) -> AbstractAsyncContextManager[TrioEdge]:
        return open_trio_edge(agent, close_timeout_s)

    async def enter(self, manager: AbstractAsyncContextManager[T], place: Place) -> tuple[T, TrioBackgroundScope[T]]:
        _check_loop()
        scope = TrioBackgroundScope(manager, place, "connection", "embedclient connection")
        return await scope.enter(), scope

    def now(self) -> float:
        return trio.current_time()

    def current_run(self) -> object:
        return trio.lowlevel.current_trio_token()

    async def sleep(self, seconds: float) -> None:
        await trio.sleep(seconds)

    async def search(self, search: BrokerSearch) -> None:
        _check_loop()
        # Imported here, so that programs without discovery do not load it.
        from embedclient.transport import SystemDatagrams

        receiver = await (self._datagrams or SystemDatagrams(newest_first=True)).open_receiver(search.group)
        try:
            with trio.move_on_after(math.inf if search.timeout_s is None else search.timeout_s):
                while not search.on_datagram(await receiver.receive()):
                    pass
        finally:
            receiver.close()
