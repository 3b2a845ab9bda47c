"""Checks of configuration values: those shared with clients, and those of names and paths.

Does not depend on the fields that exist.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from attrs import Attribute

from embedclient.model import Check, instance, number, optional, whole

__all__ = ["Check", "as_path", "instance", "named", "number", "optional", "path", "text", "whole"]

text = instance(str)


def named(instance: object, attribute: Attribute[Any], value: object) -> None:
    """Check a name. It is written on wires and into files, so it must be encodable as UTF-8."""
    text(instance, attribute, value)
    if not value:
        raise ValueError(f"{attribute.name} must not be empty")
    try:
        str(value).encode()
    except UnicodeEncodeError:
        raise ValueError(f"{attribute.name} must be Unicode text, not {value!r}") from None


@runtime_checkable
class PathLike(Protocol):
    """Describe what `os` calls path-like; only its text is needed here."""

    def __fspath__(self) -> str: ...


def as_path(value: str | PathLike | None) -> str | None:
    """Return the text of a path of any type; any other value is left to the check `path`."""
    # Looked at first: the check of a protocol takes longer than that of all other fields together.
    if value is None or type(value) is str:
        return value
    return value.__fspath__() if isinstance(value, PathLike) else value


# attrs copies it to the constructors of other modules, which do not import the names in its text.
as_path.__annotations__["value"] = str | PathLike | None


def path(instance: object, attribute: Attribute[Any], value: object) -> None:
    """Check the path of a file or a directory. An empty one would mean the current directory of the process."""
    text(instance, attribute, value)
    if not value or "\0" in str(value):
        raise ValueError(f"{attribute.name} must be a path, not {value!r}")


def as_tuple(value: object) -> Any:
    """Return a list as a tuple; any other value is left to a check."""
    return tuple(value) if isinstance(value, list) else value


def prefixes(instance: object, attribute: Attribute[Any], value: object) -> None:
    """Check prefixes of addresses."""
    if not isinstance(value, tuple) or not all(isinstance(prefix, str) for prefix in value):
        raise TypeError(f"{attribute.name} must be a list of prefixes of addresses, not {value!r}")
    if not all(value):
        raise ValueError(f"{attribute.name}: an empty prefix would be that of all addresses")
