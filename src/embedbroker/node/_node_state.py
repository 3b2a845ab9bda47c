"""How far the life of a node has come, and what that makes it to its group.

It says which states there are; the node alone goes from one to the next.
"""

from __future__ import annotations

from enum import Enum

from embedbroker.config import Role

__all__ = ["BEFORE", "ROLES", "SERVING", "NodeState"]


class NodeState(Enum):
    """The life of a node."""

    NEW = "new"
    WAITING = "waiting"
    RECOVERING = "recovering"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"


#: It is not live, and may become so; it reads its journal or serves clients.
BEFORE = NodeState.NEW, NodeState.WAITING
SERVING = NodeState.RUNNING, NodeState.RECOVERING

ROLES = {
    NodeState.NEW: Role.BACKUP,
    NodeState.WAITING: Role.BACKUP,
    NodeState.RECOVERING: Role.ACTIVATING,
    NodeState.RUNNING: Role.LIVE,
    NodeState.STOPPING: Role.LIVE,
    NodeState.STOPPED: Role.STOPPED,
}
