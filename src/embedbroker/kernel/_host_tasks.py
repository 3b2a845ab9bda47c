"""Tasks that a broker cannot carry out without input and output: its host does, and answers.

Responsible for the kinds of tasks, as plain values. Does not depend on how a host carries them out.
"""

from __future__ import annotations

from enum import Enum

from attrs import field, frozen

__all__ = ["HostTask", "TaskKind"]


class TaskKind(Enum):
    """List what a host can be requested to do. The argument of a task depends on its kind."""

    LIST_USERS = "list users"
    """Answer with roles by user, from the files of users. Argument: the name of a user, or None for all."""
    CHANGE_USERS = "change users"
    """Change the files of users, read them again, and answer when the users are in force. Argument: `UserChange`."""
    COMPUTE = "compute"
    """Run something that takes milliseconds, and answer with its result. Argument: a function."""
    MEASURE_DISK = "measure the disk"
    """Answer with the part of the disk of the journal that is in use, 0.0 to 1.0; 0.0 without a directory."""
    LOOK_AT_ACCEPTOR = "look at the acceptor"
    """Answer whether the broker accepts connections over its network."""
    START_ACCEPTOR = "start the acceptor"
    """Accept connections again; answer with the port, or 0 if they were accepted already."""
    STOP_ACCEPTOR = "stop the acceptor"
    """Accept no more connections, and close those that were accepted; answer with the port, or 0 if it was stopped."""
    RELOAD_ACCEPTOR = "reload the acceptor"
    """Read the files of TLS again, for connections from then on."""
    RELOAD_CONFIGURATION = "reload the configuration"
    """Adopt the configuration file if it changed."""
    FAIL_OVER = "stop for a backup"
    """Answer, then stop the broker in an orderly way, so that a backup takes over whatever the policy."""


@frozen
class HostTask:
    """Request a task of the host; answered by TaskDone with the same number."""

    number: int
    kind: TaskKind
    argument: object = field(default=None, repr=False)
