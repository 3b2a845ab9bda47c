"""Tables of states: which event leads from which state to which.

Responsible for the one rule of all tables: an event without an entry is an error in this broker. Does not depend on the
meaning of states and events.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TypeVar

__all__ = ["state_after"]

State = TypeVar("State", bound=Enum)
Event = TypeVar("Event", bound=Enum)


def state_after(table: Mapping[State, Mapping[Event, State]], state: State, event: Event) -> State:
    """Return the state that follows. The assertion stops the broker: an illegal move is a bug, not a fault."""
    row = table[state]
    assert event in row, f"no way out of {state} by {event}"
    return row[event]
