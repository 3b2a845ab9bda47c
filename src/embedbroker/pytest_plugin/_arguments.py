"""What tests hand to fixtures, looked at before it is used: a wrong value would end a wait with an error of Python's
own, or be waited for in vain.

Refuses to know whose arguments these are.
"""

from __future__ import annotations

from collections.abc import Collection

from embedbroker import Role

__all__ = ["check_broker", "check_count", "check_queue", "check_roles", "check_seconds"]

# Settings of a broker that a test has nothing to say about, and what it has in their place.
_OF_THE_TEST = {
    "host": "where it listens is its URL",
    "port": "where it listens is its URL",
    "data_directory": "it has a disk of its own, and keeps durable messages over crash and restart",
}


def check_seconds(what: str, value: object) -> None:
    """Raises TypeError or ValueError for what is no time that may pass."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{what} is a number of seconds, not {value!r}")
    if not value >= 0:
        raise ValueError(f"{what} is zero seconds or more, not {value!r}")


def check_count(what: str, value: object) -> None:
    """Raises TypeError or ValueError for what is no number of things."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{what} is an int, not {value!r}")
    if value < 0:
        raise ValueError(f"{what} is zero or more, not {value}")


def check_broker(name: object, settings: Collection[str]) -> None:
    """Raises TypeError for what a factory cannot make."""
    if not isinstance(name, str):
        raise TypeError(f"a broker is named by a str, not a {type(name).__name__}; its settings are keywords")
    for setting in settings:
        # An audit log is written to real files in any case, and wants to know where those of the journal are.
        if setting in _OF_THE_TEST and not (setting == "data_directory" and "audit_directory" in settings):
            raise TypeError(f"a broker of a test takes no {setting}: {_OF_THE_TEST[setting]}")


def check_queue(name: object) -> None:
    """Raises TypeError for what is no name."""
    if not isinstance(name, str):
        raise TypeError(f"a queue is named by a str, not {name!r}")


def check_roles(roles: tuple[object, ...]) -> None:
    """Raises TypeError for what no broker could ever be."""
    if not roles or not all(isinstance(role, Role) for role in roles):
        raise TypeError(f"wait_for_role takes one Role or several, not {roles!r}")
