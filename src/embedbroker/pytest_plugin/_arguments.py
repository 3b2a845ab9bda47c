"""Checks of arguments that tests pass to fixtures.

A wrong value would otherwise end a wait with an internal error of Python, or cause a wait that cannot end. Does not
depend on which fixture the arguments are for.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from embedbroker import Role

__all__ = [
    "check_broker",
    "check_count",
    "check_groups",
    "check_node",
    "check_queue",
    "check_roles",
    "check_seconds",
    "check_share",
]

# Settings of a broker that a test cannot choose, and what it has in their place.
_OF_THE_TEST = {
    "host": "where it listens is its URL",
    "port": "where it listens is its URL",
    "data_directory": "each broker gets a separate disk, and keeps durable messages over crash and restart",
}


def check_seconds(what: str, value: object) -> None:
    """Check a time in seconds.

    Raises:
        TypeError: it is not a number.
        ValueError: it is negative or NaN.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{what} is a number of seconds, not {value!r}")
    if not value >= 0:
        raise ValueError(f"{what} is zero seconds or more, not {value!r}")


def check_share(what: str, value: object) -> None:
    """Check a share of a whole.

    Raises:
        TypeError: it is not a number.
        ValueError: it is not between 0 and 1.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{what} is a share from 0 to 1, not {value!r}")
    if not 0 <= value <= 1:
        raise ValueError(f"{what} is a share from 0 to 1, not {value!r}")


def check_count(what: str, value: object) -> None:
    """Check a number of things.

    Raises:
        TypeError: it is not an int.
        ValueError: it is negative.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{what} is an int, not {value!r}")
    if value < 0:
        raise ValueError(f"{what} is zero or more, not {value}")


def check_broker(name: object, settings: Collection[str]) -> None:
    """Check the name and the settings of a broker.

    Raises:
        TypeError: the name is no str, or a setting is one that a test cannot choose.
    """
    if not isinstance(name, str):
        raise TypeError(f"a broker is named by a str, not a {type(name).__name__}; its settings are keywords")
    for setting in settings:
        # An audit log is written to real files in any case, and must have the place of the journal's files.
        if setting in _OF_THE_TEST and not (setting == "data_directory" and "audit_directory" in settings):
            raise TypeError(f"a broker of a test takes no {setting}: {_OF_THE_TEST[setting]}")


def check_queue(name: object) -> None:
    """Check the name of a queue.

    Raises:
        TypeError: it is not a str.
    """
    if not isinstance(name, str):
        raise TypeError(f"a queue is named by a str, not {name!r}")


def check_roles(roles: tuple[object, ...]) -> None:
    """Check the roles to wait for.

    Raises:
        TypeError: there are none, or one is not a `Role`.
    """
    if not roles or not all(isinstance(role, Role) for role in roles):
        raise TypeError(f"wait_for_role takes one Role or several, not {roles!r}")


def check_node(index: object, count: int) -> None:
    """Check the index of a node of a cluster.

    Raises:
        TypeError: it is not an int.
        ValueError: there is no such node.
    """
    if isinstance(index, bool) or not isinstance(index, int):
        raise TypeError(f"a node of a cluster is an index, an int, not {index!r}")
    if not 0 <= index < count:
        raise ValueError(f"nodes of this cluster are 0 to {count - 1}, not {index}")


def check_groups(groups: tuple[Sequence[object], ...], count: int, *, at_least: int) -> None:
    """Check groups of nodes of a cluster.

    Raises:
        TypeError: a group is no list of ints.
        ValueError: there are too few groups, or no such node, or a node is in two of them.
    """
    if len(groups) < at_least:
        raise ValueError(f"{at_least} groups of nodes or more are needed, as in ([0, 1], [2]), not {len(groups)}")
    seen: list[object] = []
    for group in groups:
        if not isinstance(group, list | tuple | range):
            raise TypeError(f"a group of nodes is a list of indexes, as in ([0, 1], [2]), not {group!r}")
        for index in group:
            check_node(index, count)
            if index in seen:
                raise ValueError(f"node {index} is in these groups twice")
            seen.append(index)
