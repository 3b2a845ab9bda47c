"""The states of a node, the events that lead from one to the next, and what each state is to the node's group.

Responsible for refusing a transition that is not in the table. Does not depend on why a node changes: `Lifecycle` does.
"""

from __future__ import annotations

from enum import Enum

from embedbroker.config import Role

__all__ = ["BEFORE", "ROLES", "SERVING", "TRANSITIONS", "NodeEvent", "NodeState", "NodeStateMachine"]


class NodeState(Enum):
    """How far a node has come, from construction to its end."""

    NEW = "new"
    WAITING = "waiting"
    RECOVERING = "recovering"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"

    # By identity: that of `Enum` is a call in Python for each look at a table of states.
    __hash__ = object.__hash__


class NodeEvent(Enum):
    """What moves a node from one state to the next."""

    WAIT_AS_BACKUP = "wait as backup"
    ACTIVATE = "activate"
    SERVE = "serve"
    STOP = "stop"
    END = "end"
    FAIL = "fail"

    # By identity: that of `Enum` is a call in Python for each look at a table of states.
    __hash__ = object.__hash__


#: A node waits as backup at most once. A failure ends it from every state but the last.
TRANSITIONS: dict[NodeState, dict[NodeEvent, NodeState]] = {
    NodeState.NEW: {
        NodeEvent.WAIT_AS_BACKUP: NodeState.WAITING,
        NodeEvent.ACTIVATE: NodeState.RECOVERING,
        NodeEvent.STOP: NodeState.STOPPING,
        NodeEvent.FAIL: NodeState.STOPPED,
    },
    NodeState.WAITING: {
        NodeEvent.ACTIVATE: NodeState.RECOVERING,
        NodeEvent.STOP: NodeState.STOPPING,
        NodeEvent.FAIL: NodeState.STOPPED,
    },
    NodeState.RECOVERING: {
        NodeEvent.SERVE: NodeState.RUNNING,
        NodeEvent.STOP: NodeState.STOPPING,
        NodeEvent.FAIL: NodeState.STOPPED,
    },
    NodeState.RUNNING: {
        NodeEvent.STOP: NodeState.STOPPING,
        NodeEvent.FAIL: NodeState.STOPPED,
    },
    NodeState.STOPPING: {
        NodeEvent.END: NodeState.STOPPED,
        NodeEvent.FAIL: NodeState.STOPPED,
    },
    NodeState.STOPPED: {},
}

#: States of a node that is not live yet.
BEFORE = NodeState.NEW, NodeState.WAITING
#: States in which a node accepts clients.
SERVING = NodeState.RUNNING, NodeState.RECOVERING

ROLES = {
    NodeState.NEW: Role.BACKUP,
    NodeState.WAITING: Role.BACKUP,
    NodeState.RECOVERING: Role.ACTIVATING,
    NodeState.RUNNING: Role.LIVE,
    NodeState.STOPPING: Role.LIVE,
    NodeState.STOPPED: Role.STOPPED,
}


class NodeStateMachine:
    """The ``state`` of one node. Read it anywhere; change it with `move` only.

    ``ended`` contains the last state from the moment the node enters it, until the end was reported.
    """

    __slots__ = ("ended", "state")

    def __init__(self) -> None:
        self.state = NodeState.NEW
        self.ended: list[NodeState] = []

    def move(self, event: NodeEvent) -> None:
        """Go to the state that follows from ``event``; any other event is an error of the node itself."""
        following = TRANSITIONS[self.state].get(event)
        assert following is not None, f"a node that is {self.state.value} must not {event.value}"
        self.state = following
        if not TRANSITIONS[following]:
            self.ended.append(following)
