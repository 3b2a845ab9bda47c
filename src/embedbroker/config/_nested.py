"""Values of a configuration inside another one, given as mappings.

Responsible for errors that name a value by its path, such as ``address_settings['#'].max_size_bytes``. Does not show a
mapping, because one of its values may be a password.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import NOTHING, fields

from embedclient.model import did_you_mean

__all__ = ["listed", "named_values"]

T = TypeVar("T")


def named_values(kind: type[Any], value: object, place: str) -> object:
    """Return a mapping whose entries may be mappings with an object of the class for each of them.

    What is neither an object of the class nor a mapping stays, for the checks of the setting.
    """
    if not isinstance(value, Mapping):
        return value
    return {name: _made(kind, entry, f"{place}[{name!r}]") for name, entry in value.items()}


def listed(kind: type[Any], value: object, place: str) -> object:
    """Do for the entries of a list what `named_values` does for those of a mapping."""
    if not isinstance(value, list | tuple):
        return value
    return [_made(kind, entry, f"{place}[{number}]") for number, entry in enumerate(value)]


def _made(kind: type[T], value: object, place: str) -> object:
    if not isinstance(value, Mapping):
        return value
    known = {field.alias: field for field in fields(kind) if field.init}  # type: ignore[arg-type]  # attrs
    for name in value:
        if name not in known:
            hint = did_you_mean(str(name), [str(each) for each in known])
            raise TypeError(f"{place}.{name}: {kind.__name__} has no such value{hint}")
    for name, field in known.items():
        if field.default is NOTHING and name not in value:
            raise TypeError(f"{place}: {kind.__name__} needs {name!r}")
    try:
        return kind(**value)
    except (TypeError, ValueError) as error:
        text = str(error)
        is_named = text.partition(" ")[0].partition("[")[0].partition(".")[0] in known
        error_type = TypeError if isinstance(error, TypeError) else ValueError
        raise error_type(f"{place}{'.' if is_named else ': '}{text}") from None
