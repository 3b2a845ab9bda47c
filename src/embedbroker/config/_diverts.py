"""Diverts that a broker has from its start, as frozen values.

Responsible for the fields of a divert and for what is wrong with them. Does not depend on the grammar of filters and on
routing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, TypeAlias

from attrs import Attribute, field, frozen

from ._checks import instance, named, optional, text
from ._nested import named_values

__all__ = [
    "DivertConfiguration",
    "DivertRoutingType",
    "Transformer",
    "as_diverts",
    "as_properties",
    "forwarding_addresses",
]

Transformer: TypeAlias = Callable[[Any], None]
"""Change a `DivertedMessage` before it is routed."""


class DivertRoutingType(Enum):
    """Define the routing type of the copy that a divert makes."""

    #: The copy has none: queues of both types take it.
    STRIP = "STRIP"
    #: The copy has that of the message.
    PASS = "PASS"  # not a password
    #: The copy is for anycast queues.
    ANYCAST = "ANYCAST"
    #: The copy is for multicast queues.
    MULTICAST = "MULTICAST"


def forwarding_addresses(forwarding_address: str) -> list[str]:
    """Return the names in a list with commas."""
    return [name.strip() for name in forwarding_address.split(",")]


def _forwarding(config: DivertConfiguration, attribute: Attribute[str], value: object) -> None:
    text(config, attribute, value)
    if "" in forwarding_addresses(str(value)):
        raise ValueError(f"forwarding_address must name an address, or several with commas, not {value!r}")


def as_properties(value: object) -> dict[str, str]:
    """Return properties that are added to messages."""
    if not isinstance(value, Mapping):
        raise TypeError(f"properties must map names to texts, not be {value!r}")
    for name, each in value.items():
        if not isinstance(name, str) or not isinstance(each, str):
            raise TypeError(f"properties must map names to texts, not {name!r} to {each!r}")
    return dict(value)


def _transformer(config: DivertConfiguration, _attribute: Attribute[Transformer | None], value: object) -> None:
    if value is not None and not callable(value):
        raise TypeError(f"transformer must be a callable that takes a DivertedMessage, not {value!r}")


@frozen
class DivertConfiguration:
    """Define a divert: messages to an address, or copies of them, are sent to another address.

    Attributes:
        address: Address whose messages are diverted; one with wildcards stands for all that match.
        forwarding_address: Address that gets them; several names with commas get one copy each.
        routing_name: Diverts of one address with the same routing name take turns; None: the name of the divert.
        exclusive: Whether a message that is diverted does not go to the queues of its address.
        filter: A selector: the divert takes the messages that it matches.
        routing_type: Routing type of the copy.
        properties: Properties added to the copy, as text.
        transformer: Changes the copy. A divert with a transformer is not stored: the configuration must contain it at
            each start.
    """

    address: str = field(validator=named)
    forwarding_address: str = field(validator=_forwarding)
    routing_name: str | None = field(default=None, validator=optional(named))
    exclusive: bool = field(default=False, validator=instance(bool))
    filter: str | None = field(default=None, validator=optional(text))
    routing_type: DivertRoutingType = field(default=DivertRoutingType.STRIP, validator=instance(DivertRoutingType))
    properties: dict[str, str] = field(factory=dict, converter=as_properties)
    transformer: Transformer | None = field(default=None, validator=_transformer)

    def __attrs_post_init__(self) -> None:
        if self.address in forwarding_addresses(self.forwarding_address):
            raise ValueError(
                f"forwarding_address {self.forwarding_address!r} contains {self.address!r}, the address of the divert: "
                "each message would be diverted for ever; name another address"
            )


def as_diverts(value: object) -> dict[str, DivertConfiguration]:
    """Return diverts by name."""
    value = named_values(DivertConfiguration, value, "diverts")
    if not isinstance(value, Mapping):
        raise TypeError(f"diverts must map names to DivertConfigurations, not be {value!r}")
    for name, divert in value.items():
        if not isinstance(name, str) or not isinstance(divert, DivertConfiguration):
            raise TypeError(f"diverts must map names to DivertConfigurations, not {name!r} to {divert!r}")
        if not name:
            raise ValueError("the name of a divert must not be empty")
    return dict(value)
