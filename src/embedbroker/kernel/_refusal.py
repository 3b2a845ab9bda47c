"""The kernel's answer to a client's mistake: a value that names the error and what ends because of it."""

from __future__ import annotations

from enum import Enum

from attrs import frozen

__all__ = ["Refused", "Scope", "name_in_text"]

_NAME_MAX = 200


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


def name_in_text(name: str | None) -> str:
    """Return a client's name in the form for a text: bounded, on one line; ``null`` for None, as Artemis writes it."""
    if name is None:
        return "null"
    if len(name) > _NAME_MAX:
        name = name[:_NAME_MAX] + "..."
    return name if name.isprintable() else repr(name)[1:-1]
