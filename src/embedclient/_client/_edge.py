"""The event loop as the client needs it, in one small port: waiting, pausing, spawning, and a clock.

The client's classes are written once, over this port; trio and asyncio each implement it. Does not depend on either.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Protocol, TypeVar

from embedclient.agent import Agent, Call
from embedclient.model import Entropy, Instant, Place

from ._time_budget import TimeBudget

if TYPE_CHECKING:
    from ._broker_search import BrokerSearch

T = TypeVar("T")

READ_BYTES_MAX = 262_144
"""One read, one step of the agent, one write: the unit in which bytes move."""

FLUSH_BYTES = 65_536
"""Output of this many bytes is written at once instead of once per scheduler pass."""

PAUSES_PER_SWITCH = 128
"""One of this many pauses lets other tasks run; the rest only check for a cancellation."""


class Signal(Protocol):
    """Wake one waiting task. If no task waits when the signal is set, the next wait returns at once."""

    def set(self) -> None: ...

    async def wait(self, timeout_s: float | None = None) -> bool:
        """Return True when set, False after the time-out. Either way the signal is clear afterwards."""


class SpawnedTask(Protocol):
    """A task of the connection's scope."""

    def cancel(self) -> None: ...

    async def finished(self) -> None:
        """Wait until it has ended."""


class Edge(Protocol):
    """One agent and the event loop that drives it."""

    agent: Agent
    #: The time that all closing of this connection may take together.
    close_budget: TimeBudget
    #: The time that closing may wait for all running listeners together.
    listener_budget: TimeBudget

    def now(self) -> Instant: ...

    def flush_soon(self) -> None:
        """Write the agent's output: at once from `FLUSH_BYTES` on, else once per scheduler pass."""

    async def pause(self) -> None:
        """Check for a cancellation, and once in `PAUSES_PER_SWITCH` calls let other tasks run.

        It must not be called between taking a message and returning it.
        """

    async def wait(self, call: Call[T]) -> T:
        """Write the output, wait for the call's end, return its result or raise its error.

        A cancelled wait cancels the call if it is not sent yet; a request that is sent is completed by the broker.
        """

    async def settle(self, call: Call[T], timeout_s: float) -> bool:
        """Wait for the call's end with any outcome, at most `timeout_s` seconds. For clean-up: not cancelled.

        Return True if it ended. The task's next wait raises a cancellation that came meanwhile.
        """

    async def raise_cancellation(self) -> None:
        """Raise a cancellation that came during `settle`, if the event loop raises each one at a single wait only.

        A block that limits the time of the caller must not end before: the next wait is outside of it.
        """

    async def settle_unless_cancelled(self, call: Call[T], timeout_s: float) -> bool:
        """Wait as `settle` does, but end early when the task is cancelled; the next wait raises the cancellation."""

    async def within(self, timeout_s: float, work: Callable[[], Awaitable[T]]) -> T | None:
        """Return the result of the work; cancel it after the time-out, and return None."""

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Run work that may block, such as that of a file, in a thread. A cancellation waits for its end.

        Raises:
            ThreadShortage: the operating system starts no thread; the work is not run later either.
        """

    def signal(self) -> Signal: ...

    def spawn(self, work: Callable[[], Awaitable[None]]) -> SpawnedTask:
        """Run `work` in a task of the connection's scope, which ends with the connection."""

    def owns_this_task(self) -> bool:
        """Return True if the calling task belongs to the connection's scope: it must not wait for the scope's end."""


class BackgroundScope(Protocol):
    """A scope that a background task has entered, and leaves on demand."""

    async def leave(self) -> None:
        """End the scope and wait for that, although cancelled. Raise what broke the scope; a second call does not."""

    def leave_soon(self) -> None:
        """Request the end of the scope, without a wait."""


class Loop(Protocol):
    """The event loop's part in opening a connection: it creates the edge, and provides time and randomness."""

    entropy: Entropy

    def open_edge(self, agent: Agent, close_timeout_s: float) -> AbstractAsyncContextManager[Edge]:
        """Return the scope of one agent's tasks; its orderly close takes at most `close_timeout_s` seconds."""

    async def enter(self, manager: AbstractAsyncContextManager[T], place: Place) -> tuple[T, BackgroundScope]:
        """Enter a scope in a background task of the event loop, for callers that have no scope for it.

        A scope that the program does not leave ends with the event loop, and gives a ResourceWarning with the place.
        A cancelled call leaves no scope behind.
        """

    def now(self) -> float:
        """Return the seconds of the event loop's clock."""

    def current_run(self) -> object:
        """Return an object that is the same one during this run of the event loop: another run has another clock."""

    async def sleep(self, seconds: float) -> None:
        """Pause the calling task."""

    async def search(self, search: BrokerSearch) -> None:
        """Pass the datagrams of the search's group to it until it has found a broker or its time is over.

        Raises:
            IllegalStateException: the program does not run this event loop.
            OSError: the group cannot be joined; the text names it and what to do.
        """
