"""Figures of an agent and its sessions, for tests and tools.

Does not depend on the objects it describes: the values are frozen, and cost nothing until they are requested.
"""

from attrs import frozen

from embedclient.model import Xid

__all__ = ["AgentStatistics", "SessionStatistics"]


@frozen
class SessionStatistics:
    """Hold the figures of one session."""

    name: str
    consumers: int
    producers: int
    rebuilds: int
    """How many times the broker lost the session, and it was created again."""
    credits: dict[str, int]
    """Bytes that may be sent at once, by address. Empty if the settings limit no producer."""
    branches: tuple[Xid, ...]
    """XA branches whose state is remembered, oldest first."""


@frozen
class AgentStatistics:
    """Hold the figures of one agent."""

    sessions: tuple[SessionStatistics, ...]
    pending_bytes: int
    """Bytes that wait for `Agent.take_outputs`."""
    calls: int
    """Calls that have a time-out now."""
