"""What a configuration value may be, said in a sentence that names the field and the value.

Validators for attrs, whose own ones put the reason into a tuple with the attribute and the type. Refuses to know which
fields there are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import Attribute

__all__ = ["Check", "instance", "named", "optional", "path", "text", "whole"]

Check = Callable[[object, "Attribute[Any]", object], None]


def whole(least: int, most: int | None = None) -> Check:
    """An int in a range. A bool is none, although Python's are."""

    def check(_: object, attribute: Attribute[Any], value: object) -> None:
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"{attribute.name} must be an int, not {value!r}")
        if value < least or (most is not None and value > most):
            range_text = f"{least} or more" if most is None else f"from {least} to {most}"
            raise ValueError(f"{attribute.name} must be {range_text}, not {value}")

    return check


def instance(kind: type, article: str = "a") -> Check:
    """A value of a class."""

    def check(_: object, attribute: Attribute[Any], value: object) -> None:
        if not isinstance(value, kind):
            raise TypeError(f"{attribute.name} must be {article} {kind.__name__}, not {value!r}")

    return check


text = instance(str)


def named(instance: object, attribute: Attribute[Any], value: object) -> None:
    """A text that something is called by. It is written on wires and into files, so UTF-8 must have it."""
    text(instance, attribute, value)
    if not value:
        raise ValueError(f"{attribute.name} must not be empty")
    try:
        str(value).encode()
    except UnicodeEncodeError:
        raise ValueError(f"{attribute.name} must be Unicode text, not {value!r}") from None


def path(instance: object, attribute: Attribute[Any], value: object) -> None:
    """The path of a file or a directory. An empty one would mean the directory that the process happens to be in."""
    text(instance, attribute, value)
    if not value or "\0" in str(value):
        raise ValueError(f"{attribute.name} must be a path, not {value!r}")


def optional(check: Check) -> Check:
    """The same, or None."""

    def check_unless_none(instance: object, attribute: Attribute[Any], value: object) -> None:
        if value is not None:
            check(instance, attribute, value)

    return check_unless_none
