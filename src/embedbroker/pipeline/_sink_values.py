"""Conversion of one value of a row for a message; a ValueError states why it fails.

Responsible for single values. Does not depend on rows, frames or brokers.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from struct import pack

from attrs import frozen

from embedclient.model import (
    Properties,
    PropertyType,
    PropertyValue,
    Queue,
    RoutingType,
    Topic,
    TypedValue,
    parse_destination,
)

from ._property_columns import NOT_IN_MAPS

__all__ = ["Target", "group_sequence", "message_id", "priority", "properties", "reply_to", "target_of"]

_ROUTING = {"anycast": RoutingType.ANYCAST, "multicast": RoutingType.MULTICAST}
# Properties that brokers write themselves, and those that no longer hold for a body that was read. Under any other type
# it is a property of the sender. Rows may come without types.
_NOT_SENT = {
    "_AMQ_LARGE_COMPRESSED": ("", "boolean"),
    "_AMQ_LARGE_SIZE": ("", "int", "long"),
    "_AMQ_TEMPORARY": ("", "string"),
}
_NOT_SENT_PREFIXES = ("_AMQ_ROUTE_TO", "_AMQ_ACK_ROUTE_TO", "__AMQ_CID")
_BY_NAME = {kind.name.lower(): kind for kind in PropertyType}


@frozen
class Target:
    """Hold the destination of a message."""

    address: str
    routing_type: RoutingType

    def __str__(self) -> str:
        kind = "queue" if self.routing_type is RoutingType.ANYCAST else "topic"
        return f"{kind}://{self.address}"


def target_of(text: str | None, routing: str | None = None) -> Target:
    """Return the target of `queue://name`, `topic://name`, or a name alone: a queue, unless `routing` is MULTICAST."""
    if not text:
        raise ValueError("it is null or empty, and the row has no other destination: set the option 'queue' or 'topic'")
    kind = _ROUTING.get((routing or "anycast").lower())
    if kind is None:
        raise ValueError(f"the routing type is ANYCAST or MULTICAST, not {routing!r}")
    found = parse_destination(text, Queue if kind is RoutingType.ANYCAST else Topic)
    if not isinstance(found, Queue | Topic) or not found.name:
        raise ValueError(f"{text!r} is neither a queue nor a topic")
    return Target(found.name, found.routing_type)


def priority(value: int) -> int:
    """Return a priority, checked to be from 0 to 9."""
    if not 0 <= value <= 9:
        raise ValueError(f"a priority is from 0 to 9, not {value}")
    return value


def group_sequence(value: int) -> int:
    """Return a group sequence, checked to fit into 32 bits."""
    if not -(2**31) <= value < 2**31:
        raise ValueError(f"a group sequence is from {-(2**31)} to {2**31 - 1}, not {value}")
    return value


def message_id(text: str) -> bytes:
    """Return the bytes of `ID:<uuid>`."""
    try:
        found = bytes.fromhex(text.removeprefix("ID:").replace("-", ""))
    except ValueError:
        found = b""
    if len(found) != 16 or not text.startswith("ID:"):
        raise ValueError(f"a message id is ID: and a UUID, not {text!r}")
    return found


def reply_to(text: str) -> str:
    """Return a destination in the form of JMS, `queue://name`."""
    return str(parse_destination(text))


def properties(
    values: Sequence[tuple[str, str | None]], types: Mapping[str, str | None], entries: dict[str, TypedValue]
) -> None:
    """Add the properties of a row; without a type a value is a string.

    Properties that brokers write themselves are left out, so that rows from a source can be written.
    """
    for name, text in values:
        given = (types.get(name) or "").lower()
        if given in _NOT_SENT.get(name, ()) or name.startswith(_NOT_SENT_PREFIXES):
            continue
        type_name = given or ("null" if text is None else "string")
        if type_name in NOT_IN_MAPS.get(name, ()):
            raise ValueError(
                f"the property {name!r} of type {type_name} must be given in its column, not in 'properties'"
            )
        if not name:
            raise ValueError("a property without a name")
        try:
            entries[name] = _typed(text, type_name)
        except (ValueError, TypeError) as error:
            raise ValueError(f"the property {name!r}: {error}") from None


def _typed(text: str | None, type_name: str) -> TypedValue:
    kind = _BY_NAME.get(type_name)
    if kind is None:
        raise ValueError(f"there is no type {type_name!r}; there are {', '.join(sorted(_BY_NAME))}")
    if text is None:
        return TypedValue(None, PropertyType.NULL)
    checked = Properties()
    checked.set("value", _READERS[kind](text), kind)  # raises for a value that does not fit
    return TypedValue(checked["value"], kind)


def _nothing(text: str) -> None:
    raise ValueError(f"a null is no text, and {text!r} is one")


def _truth(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(f"{text!r} is neither true nor false")
    return text.lower() == "true"


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{text!r} is no whole number") from None


def _real(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{text!r} is no number") from None


def _single(text: str) -> float:
    value = _real(text)
    try:
        pack(">f", value)
    except OverflowError:
        raise ValueError(f"{text!r} does not fit FLOAT") from None
    return value


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise ValueError(f"{text!r} is not in base64, as bytes are written") from None


_READERS: dict[PropertyType, Callable[[str], PropertyValue]] = {
    PropertyType.NULL: _nothing,
    PropertyType.BOOLEAN: _truth,
    PropertyType.BYTE: _whole,
    PropertyType.SHORT: _whole,
    PropertyType.INT: _whole,
    PropertyType.LONG: _whole,
    PropertyType.FLOAT: _single,
    PropertyType.DOUBLE: _real,
    PropertyType.BYTES: _bytes,
    PropertyType.STRING: str,
    PropertyType.CHAR: str,
}
