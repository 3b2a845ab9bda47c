"""From elements to the fields of configuration values.

Responsible for the path of one text: reader, then the field's check, then the value. Also responsible for errors that
name the element in place of the field. Does not depend on which element becomes which field.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import AttrsInstance, fields_dict

from embedclient.model import describe_name

from ._document import Element
from ._findings import Findings
from ._values import Reader, WrongValue

__all__ = ["Fields", "attribute_of", "built", "named_once", "required_attribute", "store", "value_of", "values_of"]

T = TypeVar("T")
A = TypeVar("A", bound=AttrsInstance)
# Name of an element or attribute -> field of a configuration value, and how the text is read.
Fields = Mapping[str, tuple[str, Reader]]


def value_of(element: Element, reader: Reader, findings: Findings) -> object:
    """Return the value of an element's text; None, which no reader returns, when it is wrong."""
    return _read(element.place, element.text, reader, findings, shows_text="password" not in element.name)


def attribute_of(element: Element, name: str, reader: Reader, findings: Findings) -> object:
    """Return the value of an attribute; None when it is not there or wrong."""
    found = element.attribute(name)
    return None if found is None else _read(element.attribute_place(name), found, reader, findings)


def required_attribute(element: Element, name: str, findings: Findings) -> str | None:
    """Return the text of a required attribute."""
    found = element.attribute(name)
    if found is None or not found.strip():
        findings.refuse(element.place, f"has no {name}: write <{element.name} {name}='...'>")
        return None
    return found.strip()


def _read(place: str, text: str | None, reader: Reader, findings: Findings, *, shows_text: bool = True) -> object:
    try:
        return reader(text)
    except WrongValue as error:
        reason = str(error)
        findings.refuse(place, reason if shows_text else reason.partition(", not ")[0])
        return None


def values_of(element: Element, names: Fields, kind: type[AttrsInstance], findings: Findings) -> dict[str, Any]:
    """Return the fields of a class that the children of an element set.

    Two names of one field must not stand together.
    """
    values: dict[str, Any] = {}
    source: dict[str, str] = {}
    for name, (field, reader) in names.items():
        child = element.take(name)
        if child is None:
            continue
        if field in source:
            findings.refuse(child.place, f"is the same as {source[field]}, which stands there, too")
            continue
        source[field] = name
        store(values, field, value_of(child, reader, findings), kind, child.place, findings)
    return values


def store(
    values: dict[str, Any], field: str, value: object, kind: type[AttrsInstance], place: str, findings: Findings
) -> None:
    """Keep a value that passes the field's check."""
    if value is None:
        return
    attribute = fields_dict(kind)[field]
    try:
        if attribute.validator is not None:
            attribute.validator(None, attribute, value)
    except (TypeError, ValueError) as error:
        findings.refuse(place, str(error).removeprefix(f"{field} "))
    else:
        values[field] = value


def built(kind: type[A], values: dict[str, Any], place: str, findings: Findings) -> A | None:
    """Return the configuration value; None when its parts do not fit together."""
    try:
        return kind(**values)
    except (TypeError, ValueError) as error:
        findings.refuse(place, str(error))
        return None


def named_once(found: dict[str, T], name: str, value: T, place: str, findings: Findings) -> None:
    """Keep a value under a name that may be used once."""
    if name in found:
        findings.refuse(place, f"there are two of the name {describe_name(name)!r}")
    else:
        found[name] = value
