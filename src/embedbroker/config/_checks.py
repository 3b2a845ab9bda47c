"""What a configuration value may be: the checks that clients have, too, and those of names and paths.

Refuses to know which fields there are.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from attrs import Attribute

from embedclient.model import Check, instance, number, optional, whole

__all__ = ["Check", "as_path", "instance", "named", "number", "optional", "path", "text", "whole"]

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


@runtime_checkable
class PathLike(Protocol):
    """What `os` calls path-like; nothing of it is needed here but its text."""

    def __fspath__(self) -> str: ...


def as_path(value: str | PathLike | None) -> str | None:
    """The text of a path, whatever says it; anything else is left to `path`."""
    return value.__fspath__() if isinstance(value, PathLike) else value


def path(instance: object, attribute: Attribute[Any], value: object) -> None:
    """The path of a file or a directory. An empty one would mean the directory that the process happens to be in."""
    text(instance, attribute, value)
    if not value or "\0" in str(value):
        raise ValueError(f"{attribute.name} must be a path, not {value!r}")
