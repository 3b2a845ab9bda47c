"""The scope of a broker that a trio program starts without a block.

Responsible for the task that has the scope, and for the failure that ends it. Does not depend on what the broker does.
"""

from __future__ import annotations

import signal
from contextlib import AbstractAsyncContextManager
from contextvars import copy_context

import outcome
import trio

from embedclient.errors import BrokerFailed, IllegalStateException
from embedclient.model import Place, WarnsWhenDeleted

__all__ = ["BackgroundScope"]


class BackgroundScope:
    """A system task that is inside a block until `leave`.

    A caller without a nursery cannot have tasks. A system task must not fail, because trio would end the whole run. So
    its failure is kept for `enter` and `leave`.
    """

    def __init__(self, block: AbstractAsyncContextManager[object], place: Place) -> None:
        self._block = block
        self._place = place
        self._scope = trio.CancelScope()
        self._entered = trio.Event()
        self._leaving = trio.Event()
        self._ended = trio.Event()
        self._failure: BaseException | None = None
        self._is_forgotten = False

    async def enter(self) -> None:
        """Return when the block is entered. A cancellation ends the block."""
        trio.lowlevel.spawn_system_task(self._run, name="embedbroker", context=copy_context())
        try:
            await self._entered.wait()
        except BaseException:  # a cancellation and Ctrl-C, too, must not leave the block entered
            self._scope.cancel()
            with trio.CancelScope(shield=True):
                await self._ended.wait()
            raise
        if self._ended.is_set():
            raise self._take_failure() or IllegalStateException("the trio run has ended")

    async def leave(self) -> None:
        """Return when the block is left. Raise what ended it."""
        self._leaving.set()
        with trio.CancelScope(shield=True):
            await self._ended.wait()
        failure = self._take_failure()
        if failure is not None:
            raise failure

    @property
    def is_entered(self) -> bool:
        """Return True if the block was entered. It may have ended since then."""
        return self._entered.is_set()

    async def wait_ended(self) -> None:
        """Return when the block is left, and drop what ended it."""
        await self._ended.wait()
        self._take_failure()

    def _take_failure(self) -> BaseException | None:
        failure, self._failure = self._failure, None
        return failure

    async def _run(self) -> None:
        result = await outcome.acapture(self._stay)
        if isinstance(result, outcome.Error) and not isinstance(result.error, trio.Cancelled):
            self._failure = result.error
            if isinstance(result.error, KeyboardInterrupt):  # it belongs to the program's main task
                signal.raise_signal(signal.SIGINT)
        self._ended.set()
        self._entered.set()
        if self._is_forgotten and not isinstance(self._failure, BrokerFailed):
            WarnsWhenDeleted(self._place, "a broker")
        if self._failure is None:
            result.unwrap()  # raises a cancellation

    async def _stay(self) -> None:
        with self._scope:
            async with self._block:
                self._entered.set()
                try:
                    await self._leaving.wait()
                except trio.Cancelled:
                    self._is_forgotten = not self._leaving.is_set()
                    raise
