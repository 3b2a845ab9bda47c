"""A divert: it takes messages of one address, or copies of them, and has them sent to other addresses."""

from __future__ import annotations

from embedbroker.config import Transformer, forwarding_addresses
from embedclient.errors import ErrorCode, RemoteProtocolError
from embedclient.model import Origin, PropertyValue, RoutingType, summary

from .._definitions import DivertDefinition
from .._refusal import Refused
from ..message._message import Message
from ..selector._selector import Selector

__all__ = ["Divert", "DivertedMessage"]

_TYPES = {"ANYCAST": int(RoutingType.ANYCAST), "MULTICAST": int(RoutingType.MULTICAST)}


class DivertedMessage:
    """Give a transformer the copy that a divert makes. Made by the broker.

    Attributes:
        address: Address that the copy goes to; may be set.
        original_address: Address that the message was sent to.
        durable: Whether the message survives a restart.
        priority: Priority, 0 to 9.
        expiration: Wall time in Unix milliseconds after which it is expired; 0 for never.
        timestamp: Wall time of sending in Unix milliseconds; 0 if the sender gave none.
    """

    def __init__(self, message: Message, address: str) -> None:
        self._message = message
        self._changes: dict[str, PropertyValue] = {}
        self._removed: dict[str, None] = {}
        self.address = address
        self.original_address = message.address
        self.durable = message.durable
        self.priority = message.priority
        self.expiration = message.expiration
        self.timestamp = message.timestamp

    def __repr__(self) -> str:
        return summary(self, f"of {self.original_address} for {self.address}")

    def property(self, name: str) -> PropertyValue:
        """Return a property as a selector reads it, None when it is missing.

        Args:
            name: Name of the property.
        """
        if name in self._changes:
            return self._changes[name]
        return None if name in self._removed else self._message.property(name)

    def set_property(self, name: str, value: PropertyValue) -> None:
        """Add or replace a property.

        Args:
            name: Name of the property.
            value: A bool, an int of 64 bits, a float, a str, bytes or None.
        """
        self._changes[name] = value
        self._removed.pop(name, None)

    def remove_property(self, name: str) -> None:
        """Remove a property. Ignored for one that is missing.

        Args:
            name: Name of the property.
        """
        self._changes.pop(name, None)
        self._removed[name] = None

    def changed(self) -> tuple[dict[str, PropertyValue], list[str]]:
        """Return the properties that were set, and the names of those that were removed."""
        return self._changes, list(self._removed)


class Divert:
    """Hold one divert.

    Args:
        definition: Definition, the value of its record.
        selector: Filter; None takes every message.
        transformer: Changes each copy; None changes nothing.
    """

    __slots__ = ("definition", "diverted_count", "filter", "forwarding", "name", "routing_name", "transformer")

    def __init__(
        self, definition: DivertDefinition, selector: Selector | None, transformer: Transformer | None
    ) -> None:
        self.definition = definition
        self.name = definition.name
        self.routing_name = definition.routing_name
        self.filter = selector
        self.transformer = transformer
        self.forwarding = tuple(forwarding_addresses(definition.forwarding_address))
        # Messages that it took, since the start.
        self.diverted_count = 0

    def copy(self, message: Message, address: str, routing_type: int | None) -> tuple[Message, int | None] | Refused:
        """Return the copy for one forwarding address, without id, and its routing type; or why it fails.

        ``routing_type`` is that of the message.
        """
        wanted = self.definition.routing_type
        kind = routing_type if wanted == "PASS" else _TYPES.get(wanted)
        changes: dict[str, PropertyValue] = dict(self.definition.properties)
        removals: list[str] = []
        origin = Origin(message.address, self.name, message.message_id)
        try:
            copy = message.annotate(origin, address)
            if message.expiration:
                copy = copy.with_expiration(message.expiration)
            if self.transformer is None:
                return copy.with_changes(address, kind, changes, removals), kind
        except RemoteProtocolError as error:
            return Refused(ErrorCode.INTERNAL_ERROR, f"divert {self.name!r} cannot copy a message: {error}")
        try:
            diverted = DivertedMessage(copy.with_changes(address, kind, changes), address)
            diverted.original_address = message.address
            self.transformer(diverted)
            set_by_it, removed = diverted.changed()
            return copy.with_changes(diverted.address, kind, changes | set_by_it, removals + removed), kind
        except BaseException as error:
            # The transformer belongs to the application: an error of it must end this send alone.
            if not isinstance(error, Exception):
                raise
            return Refused(
                ErrorCode.INTERNAL_ERROR,
                f"the transformer of divert {self.name!r} failed: {type(error).__name__}: {error}",
            )
