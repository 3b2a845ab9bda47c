"""How a task waits and is cancelled, on trio. Does not depend on the subject of the wait."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio


class TrioSignal:
    """A Signal for trio."""

    __slots__ = ("_set", "_task")

    def __init__(self) -> None:
        self._set = False
        self._task: trio.lowlevel.Task | None = None

    def set(self) -> None:
        if self._task is not None:
            trio.lowlevel.reschedule(self._task)
            self._task = None
        else:
            self._set = True

    async def wait(self, timeout_s: float | None = None) -> bool:
        if self._set:
            await trio.lowlevel.checkpoint()
            self._set = False
            return True
        if timeout_s is None:
            await self._park()
            return True
        with trio.move_on_after(timeout_s):
            await self._park()
            return True
        return False

    async def _park(self) -> None:
        assert self._task is None, "one task waits for a signal at a time"
        self._task = trio.lowlevel.current_task()

        def abort(_: Callable[[], None]) -> trio.lowlevel.Abort:
            self._task = None
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)
        self._set = False


class TrioTask:
    """A SpawnedTask for trio."""

    def __init__(self) -> None:
        self._scope = trio.CancelScope()
        self._done = trio.Event()

    async def run(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            with self._scope:
                await work()
        finally:
            self._done.set()

    def cancel(self) -> None:
        self._scope.cancel()

    async def finished(self) -> None:
        await self._done.wait()
