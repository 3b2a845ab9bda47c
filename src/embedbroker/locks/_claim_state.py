"""What is said of a claim: how far it has come, lines for the operator, and what its broker is called.

Responsible for these values. Refuses to know how a claim comes from one to the next.
"""

from __future__ import annotations

from enum import Enum

from attrs import frozen

from embedbroker.config import HAPolicy, PrimaryOnly, ReplicationPrimary, SharedStorePrimary

__all__ = ["ClaimState", "LogEntry", "called"]


class ClaimState(Enum):
    """How far a claim has come."""

    NEW = "new"
    #: The store has not answered yet.
    ASKING = "asking"
    #: Another backup is before this one.
    QUEUED = "queued"
    #: Another broker is live, or has the right to be.
    WAITING = "waiting"
    #: The live lock is here, and the record does not say yet whose it is.
    CLAIMING = "claiming"
    #: The journal may be read.
    GRANTED = "granted"
    #: The record is about to say which node is live.
    SETTLING = "settling"
    LIVE = "live"
    #: The record is about to say how this broker left.
    LEAVING = "leaving"
    OVER = "over"


def called(policy: HAPolicy, name: str) -> str:
    """How a broker is named to others of its group: what it was configured as, and its name."""
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
