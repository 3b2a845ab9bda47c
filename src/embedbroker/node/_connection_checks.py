"""When the connections of a node are checked: time to live, handshake time-outs, peers that do not read."""

from __future__ import annotations

from embedbroker.config import BrokerConfig
from embedclient.model import Instant

from ._admission import Admission
from ._connections import Connections
from ._current_step import CurrentStep
from ._node_state import NodeStateMachine
from ._part import Part

__all__ = ["ConnectionChecks"]


class ConnectionChecks(Part):
    """One check per interval, from `begin` to `end`, while the node accepts connections."""

    timed_only = True

    def __init__(
        self, config: BrokerConfig, connections: Connections, admission: Admission, machine: NodeStateMachine
    ) -> None:
        self._interval_s = config.connection_check_interval_ms / 1000
        self._connections = connections
        self._admission = admission
        self._machine = machine
        self._due: float | None = None

    def begin(self, now: Instant) -> None:
        """Check for the first time after one interval."""
        self._due = now.monotonic + self._interval_s

    def end(self) -> None:
        """Check no more."""
        self._due = None

    def run(self, step: CurrentStep) -> None:
        now = step.now
        if self._due is not None and now.monotonic >= self._due and self._admission.lets_in(self._machine.state):
            self._connections.check(now)
            self._due = now.monotonic + self._interval_s

    def next_deadline(self, now: Instant) -> float | None:
        return self._due
