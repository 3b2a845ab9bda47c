"""The scope of what a trio program opens without a block: a connection, or a broker.

Responsible for the task that has the scope, and for the failure that ends it. Does not depend on what is opened.
"""

from __future__ import annotations

import logging
import signal
from contextlib import AbstractAsyncContextManager
from contextvars import copy_context
from typing import Generic, TypeVar

import outcome
import trio

from embedclient.errors import BrokerFailed, IllegalStateException
from embedclient.model import Place, WarnsWhenDeleted

T = TypeVar("T")
_log = logging.getLogger("embedclient")


class TrioBackgroundScope(Generic[T]):
    """A system task that is inside a block until `leave`.

    A caller without a nursery cannot have tasks. A system task must not fail, because trio would end the whole run. So
    its failure is kept for `enter` and `leave`.
    """

    def __init__(self, block: AbstractAsyncContextManager[T], place: Place, what: str, task_name: str) -> None:
        self._block = block
        self._place = place
        self._what = what
        self._task_name = task_name
        self._scope = trio.CancelScope()
        self._entered = trio.Event()
        self._leaving = trio.Event()
        self._ended = trio.Event()
        self._value: outcome.Value[T] | None = None
        self._failure: BaseException | None = None
        self._is_forgotten = False

    async def enter(self) -> T:
        """Return the value of the block when it is entered. A cancellation ends the block."""
        trio.lowlevel.spawn_system_task(self._run, name=self._task_name, context=copy_context())
        try:
            await self._entered.wait()
        except BaseException:  # a cancellation and Ctrl-C, too, must not leave the block entered
            self._leaving.set()
            self._scope.cancel()
            with trio.CancelScope(shield=True):
                await self._ended.wait()
            raise
        if self._value is None or self._ended.is_set():
            raise self._take_failure() or IllegalStateException("the trio run has ended")
        return self._value.value

    def leave_soon(self) -> None:
        """Begin to leave the block, and return at once."""
        self._leaving.set()

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
        failure = _without_cancellation(result.error) if isinstance(result, outcome.Error) else None
        if failure is not None:
            self._keep(failure)
        self._ended.set()
        self._entered.set()
        # A broker that failed has reported that: it was not forgotten only.
        if self._is_forgotten and not isinstance(self._failure, BrokerFailed):
            WarnsWhenDeleted(self._place, f"a {self._what}")
        if self._failure is None:
            result.unwrap()  # raises a cancellation

    def _keep(self, failure: BaseException) -> None:
        self._failure = failure
        if isinstance(failure, KeyboardInterrupt):  # it belongs to the program's main task
            signal.raise_signal(signal.SIGINT)
        elif self._value is not None and not isinstance(failure, BrokerFailed):
            _log.error("the %s that was opened in %s broke down", self._what, self._place, exc_info=failure)

    async def _stay(self) -> None:
        with self._scope:
            async with self._block as value:
                self._value = outcome.Value(value)
                self._entered.set()
                try:
                    await self._leaving.wait()
                except trio.Cancelled:
                    self._is_forgotten = not self._leaving.is_set()
                    raise


def _without_cancellation(error: BaseException) -> BaseException | None:
    """Return what is beside a cancellation: a nursery of the block has both in one group. None: nothing."""
    if isinstance(error, BaseExceptionGroup):
        return error.split(trio.Cancelled)[1]
    return None if isinstance(error, trio.Cancelled) else error
