"""Moves inputs into one agent and its outputs out, for any event loop.

Responsible for the order of actions around `Agent.step`: deliver outputs, report what the transport took, re-arm the
timer, write once per scheduler pass. Does not depend on sockets, tasks or the rules of the protocol.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, assert_never

from embedclient.agent import (
    Agent,
    CloseConnection,
    Dial,
    Input,
    Output,
    SendBytes,
    Tick,
    Written,
)
from embedclient.model import Instant

from ._edge import FLUSH_BYTES


class Wire(Protocol):
    """One dialled byte pipe."""

    def write(self, data: bytes) -> int:
        """Take all bytes; return how many the transport took at once. The rest is reported with `on_written`."""

    def finish(self) -> None:
        """Close the pipe when all written data has left."""

    def close(self, reason: str) -> None:
        """Close the pipe at once."""


class Driver(Protocol):
    """The operations of the event loop that the pump needs."""

    def now(self) -> Instant: ...

    def dial(self, order: Dial) -> None: ...

    def stop_dialing(self, connection: int) -> None: ...

    def arm_timer(self, deadline: float) -> None: ...

    def schedule_flush(self) -> None: ...


class Pump:
    """The part of an edge that does not depend on the event loop.

    Every method is synchronous, so a cancellation never falls inside a step.
    """

    __slots__ = ("_armed_at", "_driver", "_flush_scheduled", "_output_waits", "_wires", "agent")

    def __init__(self, agent: Agent, driver: Driver) -> None:
        self.agent = agent
        self._driver = driver
        self._wires: dict[int, Wire] = {}
        self._output_waits = False
        self._flush_scheduled = False
        self._armed_at: float | None = None
        agent.on_output = self._on_output

    def step(self, event: Input) -> None:
        now = self._driver.now()
        self._deliver(self.agent.step(event, now), now)

    def flush(self) -> None:
        """Write everything that requests have produced."""
        self._flush_scheduled = False
        if self._output_waits:
            self._output_waits = False
            now = self._driver.now()
            self._deliver(self.agent.take_outputs(now), now)

    def flush_soon(self) -> None:
        if not self._output_waits:
            return
        if self.agent.pending_bytes >= FLUSH_BYTES:
            self.flush()
        elif not self._flush_scheduled:
            self._flush_scheduled = True
            self._driver.schedule_flush()

    def on_timer(self) -> None:
        self._armed_at = None
        self.step(Tick())

    def connected(self, connection: int, wire: Wire) -> None:
        self._wires[connection] = wire

    def disconnected(self, connection: int) -> bool:
        """Remove a pipe. Return False if the agent had closed it already."""
        return self._wires.pop(connection, None) is not None

    def close_all(self, reason: str) -> None:
        """Close every pipe at once, without a step of the agent."""
        for wire in list(self._wires.values()):
            wire.close(reason)
        self._wires.clear()

    def _on_output(self) -> None:
        self._output_waits = True

    def _deliver(self, outputs: Sequence[Output], now: Instant) -> None:
        while outputs:
            written: list[Written] = []
            for output in outputs:
                match output:
                    case SendBytes(connection, data):
                        wire = self._wires.get(connection)
                        if wire is not None and (taken := wire.write(data)):
                            written.append(Written(connection, taken))
                    case Dial():
                        self._driver.dial(output)
                    case CloseConnection(connection):
                        self._driver.stop_dialing(connection)
                        closing = self._wires.pop(connection, None)
                        if closing is not None:
                            closing.finish()
                    case _:
                        assert_never(output)
            outputs = [more for event in written for more in self.agent.step(event, now)]
        self._arm()

    def _arm(self) -> None:
        # The timer only moves to an earlier time here. A later deadline is applied when the old one passes. That costs
        # one harmless Tick instead of one system call per step.
        deadline = self.agent.next_deadline()
        if deadline is not None and (self._armed_at is None or deadline < self._armed_at):
            self._armed_at = deadline
            self._driver.arm_timer(deadline)
