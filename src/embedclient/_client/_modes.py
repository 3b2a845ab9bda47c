"""The acknowledge modes of JMS. Does not depend on their effects, which the agent implements."""

from __future__ import annotations

from enum import IntEnum

from embedclient.agent import SessionMode


class AcknowledgeMode(IntEnum):
    """How and when received messages are acknowledged."""

    AUTO = 1
    """The client acknowledges each message when `receive` returns it, or after its listener returned."""
    CLIENT = 2
    """`message.acknowledge()` acknowledges everything the session has received."""
    DUPS_OK = 3
    """Like AUTO, in batches. After a failure some messages may come twice."""
    PRE = 100
    """The broker acknowledges each message before it sends it."""
    INDIVIDUAL = 101
    """`message.acknowledge()` acknowledges that message alone."""


def session_mode_of(name: str, value: object) -> SessionMode:
    """Return the mode for the value of the argument `name`. Raises ValueError, which lists the modes."""
    try:
        return SessionMode(value)  # type: ignore[arg-type]  # the value of a program may have any type
    except ValueError:
        allowed = ", ".join(f"{mode.name} ({mode.value})" for mode in SessionMode)
        raise ValueError(f"{name} must be one of {allowed}, not {value!r}") from None
