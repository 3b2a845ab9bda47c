"""The states of a journal."""

from __future__ import annotations

from enum import Enum

__all__ = ["JournalState"]


class JournalState(Enum):
    """The state of a journal. Only RECOVERING and READY request more of the disk than the last seal."""

    NEW = "new"
    RECOVERING = "recovering"
    READY = "ready"
    FAILED = "failed"
    CLOSING = "closing"
    CLOSED = "closed"
