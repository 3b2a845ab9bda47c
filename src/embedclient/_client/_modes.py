"""The acknowledge modes of JMS. Refuses to know what they do: the agent does."""

from __future__ import annotations

from enum import IntEnum

from embedclient.agent import SessionMode


class AcknowledgeMode(IntEnum):
    """Who acknowledges received messages, and when."""

    AUTO = 1
    """Each message when `receive` returns it, or after its listener returned."""
    CLIENT = 2
    """`message.acknowledge()` acknowledges everything the session has received."""
    DUPS_OK = 3
    """Like AUTO, in batches. After a failure some messages may come twice."""
    PRE = 100
    """The broker itself, before it sends a message."""
    INDIVIDUAL = 101
    """`message.acknowledge()` acknowledges that message alone."""


def session_mode_of(name: str, value: object) -> SessionMode:
    """The mode that the argument `name` means. Raises ValueError, which says what it may be."""
    try:
        return SessionMode(value)  # type: ignore[arg-type]  # of whatever a program hands over
    except ValueError:
        allowed = ", ".join(f"{mode.name} ({mode.value})" for mode in SessionMode)
        raise ValueError(f"{name} must be one of {allowed}, not {value!r}") from None
