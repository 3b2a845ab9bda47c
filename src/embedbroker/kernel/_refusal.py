"""The kernel's answer to a client's mistake: a value that names the error and what ends because of it."""

from __future__ import annotations

from enum import Enum

from attrs import frozen

__all__ = ["Refused", "Scope"]


class Scope(Enum):
    """Define what ends because of a refusal for which no answer is awaited; with an answer, nothing ends."""

    NOTHING = "nothing"
    LINK = "link"
    SESSION = "session"
    CONNECTION = "connection"


@frozen
class Refused:
    """State that a request was not carried out and left no trace. ``code`` is an ``embedclient.errors.ErrorCode``."""

    code: int
    text: str
    scope: Scope = Scope.NOTHING
