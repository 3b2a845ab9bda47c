"""Validators of settings, whose errors are sentences that name the setting and the value.

For attrs, whose validators put the reason into a tuple with the attribute and the type. Does not depend on the set of
settings.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attrs import Attribute

__all__ = ["Check", "instance", "number", "optional", "whole"]

Check = Callable[[object, "Attribute[Any]", object], None]


def whole(least: int, most: int | None = None) -> Check:
    """Return a check for an int in a range. A bool does not count as an int, although Python's do."""

    def check(_: object, attribute: Attribute[Any], value: object) -> None:
        if value.__class__ is not int and (isinstance(value, bool) or not isinstance(value, int)):
            raise TypeError(f"{attribute.name} must be an int, not {value!r}")
        if value < least or (most is not None and value > most):
            range_text = f"{least} or more" if most is None else f"from {least} to {most}"
            raise ValueError(f"{attribute.name} must be {range_text}, not {value}")

    return check


def number(least: float) -> Check:
    """Return a check for an int or a float, and a finite one."""

    def check(_: object, attribute: Attribute[Any], value: object) -> None:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TypeError(f"{attribute.name} must be a number, not {value!r}")
        if not least <= value < float("inf"):
            raise ValueError(f"{attribute.name} must be {least:g} or more, not {value!r}")

    return check


def instance(kind: type, article: str = "a") -> Check:
    """Return a check for a value of a class."""

    def check(_: object, attribute: Attribute[Any], value: object) -> None:
        if value.__class__ is not kind and not isinstance(value, kind):
            members = f" ({', '.join(kind.__members__)})" if issubclass(kind, Enum) else ""
            raise TypeError(f"{attribute.name} must be {article} {kind.__name__}{members}, not {value!r}")

    return check


def optional(check: Check) -> Check:
    """Return a check for the same, or None."""

    def check_unless_none(instance: object, attribute: Attribute[Any], value: object) -> None:
        if value is not None:
            check(instance, attribute, value)

    return check_unless_none
