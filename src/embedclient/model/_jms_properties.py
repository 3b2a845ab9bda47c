"""The properties of a JMS message, seen through JMS names.

Responsible for which names may be set, which are shown, and which represent names of the broker. Does not depend on
headers: they live in the same store under reserved names and are never shown here.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Final, Protocol

from ..errors import MessageFormatException
from ._jms_conversion import MISSING, inferred
from ._properties import Properties, PropertyType, PropertyValue, TypedValue

__all__ = ["DELIVERY_COUNT", "MessageProperties", "PropertyStore", "is_header_name", "lookup"]

DELIVERY_COUNT: Final = "JMSXDeliveryCount"
_GROUP_SEQUENCE: Final = "JMSXGroupSeq"

_BROKER_NAMES: Final = {
    "JMSXGroupID": "_AMQ_GROUP_ID",
    _GROUP_SEQUENCE: "_AMQ_GROUP_SEQUENCE",
    "JMSXUserID": "_AMQ_VALIDATED_USER",
}
_JMS_NAMES: Final = {broker: jms for jms, broker in _BROKER_NAMES.items()}
ROUTING_TYPE: Final = "_AMQ_ROUTING_TYPE"
TEMPORARY_ADDRESS: Final = "_AMQ_TEMPORARY"
"""The property with the address of a send to a temporary destination; Artemis ignores it."""
_HIDDEN_PREFIXES: Final = ("__AMQ_CID", "_AMQ_ROUTE_TO", TEMPORARY_ADDRESS)
_RESERVED: Final = frozenset(["NULL", "TRUE", "FALSE", "NOT", "AND", "OR", "BETWEEN", "LIKE", "IN", "IS", "ESCAPE"])


def is_header_name(name: str) -> bool:
    """Return True if the name belongs to a header: reserved by JMS, and kept when properties are cleared."""
    return (name.startswith("JMS") and not name.startswith(("JMSX", "JMS_"))) or name == ROUTING_TYPE


def _is_shown(name: str) -> bool:
    return not is_header_name(name) and not name.startswith(_HIDDEN_PREFIXES)


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not name.replace("$", "_").isidentifier():
        raise MessageFormatException(f"{name!r} cannot name a property: it is no identifier")
    if name.upper() in _RESERVED:
        raise MessageFormatException(f"{name!r} cannot name a property: it is a word of selectors")
    if is_header_name(name) or name.startswith("JMS_ACTIVEMQ"):
        raise MessageFormatException(f"{name!r} cannot name a property: it is reserved")


class PropertyStore(Protocol):
    """The part of a message that this view uses."""

    delivery_count: int

    def stored(self) -> Properties:
        """Return everything the message carries, for reading."""

    def stored_for_writing(self) -> Properties:
        """Return the same for writing. Raise MessageNotWriteableException while properties are read-only."""


def lookup(store: PropertyStore, name: str) -> TypedValue:
    """Return a property by its JMS name, hidden names included."""
    if name == DELIVERY_COUNT and store.delivery_count:
        return TypedValue(store.delivery_count, PropertyType.INT)
    properties = store.stored()
    name = _BROKER_NAMES.get(name, name)
    return TypedValue(properties[name], properties.type_of(name)) if name in properties else MISSING


class MessageProperties(MutableMapping[str, PropertyValue]):
    """Properties by JMS name. Reading gives plain values; setting one infers its type, and ``set`` names it.

    A received message's properties are read-only until ``clear_properties()``.

    Made by a message: `JMSMessage.properties`.
    """

    __slots__ = ("_store",)

    def __init__(self, store: PropertyStore) -> None:
        self._store = store

    def __getitem__(self, name: str) -> PropertyValue:
        if name not in self:
            raise KeyError(name)
        return lookup(self._store, name).value

    def __contains__(self, name: object) -> bool:
        if name == DELIVERY_COUNT:
            return self._store.delivery_count > 0
        if not isinstance(name, str) or name in _JMS_NAMES:
            return False
        return _is_shown(name) and _BROKER_NAMES.get(name, name) in self._store.stored()

    def __iter__(self) -> Iterator[str]:
        yield from [_JMS_NAMES.get(name, name) for name in self._store.stored() if _is_shown(name)]
        if self._store.delivery_count:
            yield DELIVERY_COUNT

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __setitem__(self, name: str, value: PropertyValue) -> None:
        found = inferred(value)
        self.set(name, found.value, found.type)

    def set(self, name: str, value: PropertyValue, kind: PropertyType) -> None:
        """Set a property with an explicit type; the value must fit the type already.

        Args:
            name: name of the property: an identifier that is no word of selectors and not reserved.
            value: a value that fits ``kind``.
            kind: type of the property on the wire.

        Raises:
            MessageFormatException: the name is not allowed.
            MessageNotWriteableException: the message was received; call ``clear_properties()`` first.
        """
        properties = self._store.stored_for_writing()
        _check_name(name)
        if name == DELIVERY_COUNT:
            return  # Counted by the broker. Programs that copy all properties of a message set it, too.
        if name == _GROUP_SEQUENCE:
            value, kind = _group_sequence(value), PropertyType.INT
        elif name in _BROKER_NAMES and value is not None:
            value, kind = str(value), PropertyType.STRING
        properties.set(_BROKER_NAMES.get(name, name), value, kind)

    def __delitem__(self, name: str) -> None:
        properties = self._store.stored_for_writing()
        if name not in self or name == DELIVERY_COUNT:
            raise KeyError(name)
        del properties[_BROKER_NAMES.get(name, name)]

    def __repr__(self) -> str:
        return f"MessageProperties({dict(self)!r})"


def _group_sequence(value: PropertyValue) -> int:
    try:
        number = int(value) if isinstance(value, int | str) else None
    except ValueError:
        number = None
    if number is None or not -0x8000_0000 <= number <= 0x7FFF_FFFF:
        raise MessageFormatException(f"{_GROUP_SEQUENCE} needs an int, not {value!r}")
    return number
