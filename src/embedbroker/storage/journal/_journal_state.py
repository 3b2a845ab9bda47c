"""The life of a journal, as others see it."""

from __future__ import annotations

from enum import Enum

__all__ = ["JournalState"]


class JournalState(Enum):
    """RECOVERING and READY are the only states in which the disk is asked for anything but the last seal."""

    NEW = "new"
    RECOVERING = "recovering"
    READY = "ready"
    FAILED = "failed"
    CLOSING = "closing"
    CLOSED = "closed"
