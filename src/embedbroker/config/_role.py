"""The role of a broker in its group at a moment, whatever part its policy defines."""

from __future__ import annotations

from enum import Enum

__all__ = ["Role"]


class Role(Enum):
    """Define the role of a broker in its live and backup group.

    A primary that waits because a backup is live is a backup, too.
    """

    #: It serves no clients, because another broker is live or has the right to be, and has not opened the journal.
    BACKUP = "backup"
    #: It has the right to be live and reads the journal.
    ACTIVATING = "activating"
    #: It serves clients.
    LIVE = "live"
    #: It was stopped, failed, or gave way and does not come back.
    STOPPED = "stopped"
