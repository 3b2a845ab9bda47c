"""What a broker is to its group at a moment, whatever part its policy gave it."""

from __future__ import annotations

from enum import Enum

__all__ = ["Role"]


class Role(Enum):
    """What a broker is to its live and backup group. A primary that waits because a backup is live is a backup, too."""

    #: It serves nobody, because another broker is live or has the right to be, and has not opened the journal.
    BACKUP = "backup"
    #: It has the right to be live and reads the journal.
    ACTIVATING = "activating"
    #: It serves clients.
    LIVE = "live"
    #: It was stopped, failed, or gave way and does not come back.
    STOPPED = "stopped"
