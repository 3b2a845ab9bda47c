"""What the client needs of an event loop, as one small port: waiting, pausing, spawning, and a clock.

The client's classes are written once, over this port; trio and asyncio each implement it. Refuses to know either.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeVar

from embedclient.agent import Agent, Call
from embedclient.model import Entropy, Instant

from ._time_budget import TimeBudget

T = TypeVar("T")

READ_BYTES_MAX = 262_144
"""One read, one step of the agent, one write: the unit in which bytes move."""

FLUSH_BYTES = 65_536
"""Output beyond this is written at once instead of once per scheduler pass."""

PAUSES_PER_SWITCH = 128
"""Every so many pauses one lets the other tasks run; the rest only look for a cancellation."""


class Signal(Protocol):
    """Wakes one waiting task. Setting it while nobody waits makes the next wait return at once."""

    def set(self) -> None: ...

    async def wait(self, timeout_s: float | None = None) -> bool:
        """Return True when set, False after the time-out. Either way the signal is clear afterwards."""


class SpawnedTask(Protocol):
    """A task of the connection's scope."""

    def cancel(self) -> None: ...

    async def finished(self) -> None:
        """Wait until it has ended."""


class Edge(Protocol):
    """One agent, driven by an event loop."""

    agent: Agent
    #: What all closing of this connection may take together.
    close_budget: TimeBudget
    #: What closing may wait for running listeners, together.
    listener_budget: TimeBudget

    def now(self) -> Instant: ...

    def flush_soon(self) -> None:
        """Write what requests have put into the agent's output: now if it is much, else once per scheduler pass."""

    async def pause(self) -> None:
        """Let a cancellation in, and now and then the other tasks. Never called between taking and handing over."""

    async def wait(self, call: Call[T]) -> T:
        """Write the output, wait for the call's end, return its result or raise its error.

        A cancelled wait cancels the call if it has not left yet; what is on the wire takes its course.
        """

    async def settle(self, call: Call[T], timeout_s: float) -> bool:
        """Wait for the call's end, whatever it is, but not longer; True if it ended. For clean-up: not cancelled."""

    async def settle_unless_cancelled(self, call: Call[T], timeout_s: float) -> bool:
        """Wait as `settle` does, but end early when the task is cancelled; the next wait raises the cancellation."""

    def signal(self) -> Signal: ...

    def spawn(self, work: Callable[[], Awaitable[None]]) -> SpawnedTask:
        """Run `work` in a task of the connection's scope, which outlives no connection."""


class Loop(Protocol):
    """The event loop's side of opening a connection: where an edge comes from, and its sources of time and chance."""

    entropy: Entropy

    def open_edge(self, agent: Agent, close_timeout_s: float) -> AbstractAsyncContextManager[Edge]:
        """The scope of one agent's tasks; its orderly close takes no longer than that."""
