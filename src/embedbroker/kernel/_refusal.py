"""What the kernel answers to a client's mistake: a value that names the error and what dies of it."""

from __future__ import annotations

from enum import Enum

from attrs import frozen

__all__ = ["Refused", "Scope"]


class Scope(Enum):
    """What ends because of a refusal that nobody waits for; with an answer, nothing does."""

    NOTHING = "nothing"
    LINK = "link"
    SESSION = "session"
    CONNECTION = "connection"


@frozen
class Refused:
    """A request was not carried out and left no trace. ``code`` is an ``embedclient.errors.ErrorCode``."""

    code: int
    text: str
    scope: Scope = Scope.NOTHING
