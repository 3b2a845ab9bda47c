"""The states of a claim, the events between them, lines for the operator, and the name of its broker.

Responsible for the table, which is all that may move a claim. Does not choose the event.
"""

from __future__ import annotations

from enum import Enum

from attrs import frozen

from embedbroker.config import HAPolicy, PrimaryOnly, ReplicationPrimary, SharedStorePrimary

__all__ = ["CLAIM_TRANSITIONS", "ClaimEvent", "ClaimState", "LogEntry", "called"]


class ClaimState(Enum):
    """The states of one broker start."""

    NEW = "new"
    #: The store has not answered yet.
    REQUESTING = "requesting"
    #: Another broker is active, or has the right to be.
    QUEUED = "queued"
    #: Another broker is live, or has the right to be.
    WAITING = "waiting"
    #: The live lock is here; the record that names this broker is being written.
    CLAIMING = "claiming"
    #: The record that names the active node is being written.
    GRANTED = "granted"
    #: The record that names the live node is being written.
    SETTLING = "settling"
    LIVE = "live"
    #: The record of an orderly stop is being written.
    LEAVING = "leaving"
    OVER = "over"

    # By identity: that of `Enum` is a call in Python for each look at a table of states.
    __hash__ = object.__hash__


class ClaimEvent(Enum):
    """What leads from one state to the next."""

    STARTED = "started"
    #: This broker is next for the live lock.
    NEXT = "next in line"
    #: Another backup is next.
    BEHIND = "behind another backup"
    LOCKED = "live lock taken"
    #: The record is written, and the live lock is held for sure.
    RECORDED = "recorded"
    RECOVERED = "journal recovered"
    JOURNAL_CLOSED = "journal closed"
    FAILED = "failed"
    ENDED = "ended"

    # By identity: that of `Enum` is a call in Python for each look at a table of states.
    __hash__ = object.__hash__


_WAITS: dict[ClaimEvent, ClaimState] = {
    ClaimEvent.NEXT: ClaimState.WAITING,
    ClaimEvent.BEHIND: ClaimState.QUEUED,
    ClaimEvent.LOCKED: ClaimState.CLAIMING,
}
_ENDS = {ClaimEvent.FAILED: ClaimState.OVER, ClaimEvent.ENDED: ClaimState.OVER}
_HOLDS = {ClaimEvent.JOURNAL_CLOSED: ClaimState.LEAVING, **_ENDS}

CLAIM_TRANSITIONS: dict[ClaimState, dict[ClaimEvent, ClaimState]] = {
    ClaimState.NEW: {ClaimEvent.STARTED: ClaimState.REQUESTING, **_ENDS},
    ClaimState.REQUESTING: {**_WAITS, **_ENDS},
    ClaimState.QUEUED: {**_WAITS, **_ENDS},
    ClaimState.WAITING: {**_WAITS, **_ENDS},
    # A backup that cannot write the record for want of room gives the lock back.
    ClaimState.CLAIMING: {
        ClaimEvent.RECORDED: ClaimState.GRANTED,
        ClaimEvent.NEXT: ClaimState.WAITING,
        ClaimEvent.BEHIND: ClaimState.QUEUED,
        **_HOLDS,
    },
    ClaimState.GRANTED: {ClaimEvent.RECOVERED: ClaimState.SETTLING, **_HOLDS},
    ClaimState.SETTLING: {ClaimEvent.RECORDED: ClaimState.LIVE, **_HOLDS},
    ClaimState.LIVE: _HOLDS,
    ClaimState.LEAVING: {ClaimEvent.RECORDED: ClaimState.OVER, **_ENDS},
    ClaimState.OVER: {},
}


def called(policy: HAPolicy, name: str) -> str:
    """Return the name of a broker for others of its group: its configured kind, and its name."""
    match policy:
        case PrimaryOnly():
            kind = "broker"
        case SharedStorePrimary() | ReplicationPrimary():
            kind = "primary"
        case _:
            kind = "backup"
    return f"{kind} {name!r}"


@frozen
class LogEntry:
    """One line for the operator."""

    warning: bool
    text: str
