"""The message that a bridge sends: a copy with an id for duplicate detection, and perhaps changed by a transformer.

Responsible for everything in which the copy differs from the message in the queue. Does not depend on its transport.
"""

from __future__ import annotations

from typing import Final, Protocol

from embedbroker.config import BridgeConfig, BridgeRoutingType
from embedbroker.kernel import DivertedMessage, Message, Outcome, split_fqqn
from embedclient.agent import CoreMessage
from embedclient.errors import RemoteProtocolError
from embedclient.model import PropertyType, PropertyValue, RoutingType, TypedValue
from embedclient.wire.core import ROUTE_TO, MessageType, RouteWriter, decode_text, encode_text

__all__ = [
    "BRIDGE_DUPLICATE_ID",
    "AddressForwarding",
    "BridgedMessage",
    "Forwarding",
    "NodeForwarding",
    "NotForwarded",
    "bridge_id",
]

BRIDGE_DUPLICATE_ID: Final = "_AMQ_BRIDGE_DUP"
_BRIDGE_DUPLICATE_ID_TEXT: Final = BRIDGE_DUPLICATE_ID.encode("utf-16-le")
_MESSAGE_ID_BYTES: Final = 8
_ROUTING_TYPE: Final = "_AMQ_ROUTING_TYPE"
_TYPES: Final = {
    BridgeRoutingType.ANYCAST: int(RoutingType.ANYCAST),
    BridgeRoutingType.MULTICAST: int(RoutingType.MULTICAST),
}


class NotForwarded(Exception):
    """A message cannot be sent by the bridge. The text is the reason."""


class Forwarding(Protocol):
    """Make the messages that a bridge sends.

    Attributes:
        left_behind: What becomes of a message that cannot be forwarded.
    """

    left_behind: Outcome

    def forwarded(self, message: Message) -> CoreMessage:
        """Return the copy of a message that the bridge sends; of a large message, its headers and properties.

        Raises:
            NotForwarded: It cannot be sent.
        """

    def encoded(self, message: Message) -> tuple[str, bytes | bytearray]:
        """Return the address and the bytes of that copy.

        Raises:
            NotForwarded: It cannot be sent.
        """


class BridgedMessage(DivertedMessage):
    """Give a transformer the copy that a bridge sends. Made by the broker.

    Attributes:
        address: Address of the other broker that the copy goes to; may be set.
        original_address: Address that the message was sent to.
        durable: Whether the message survives a restart.
        priority: Priority, 0 to 9.
        expiration: Wall time in Unix milliseconds after which it is expired; 0 for never.
        timestamp: Wall time of sending in Unix milliseconds; 0 if the sender gave none.
    """

    def __init__(self, message: CoreMessage, address: str, *, is_large: bool) -> None:
        super().__init__(message, address)
        self._core = message
        self._is_large = is_large
        self._body: bytes | None = None

    @property
    def body(self) -> str | bytes | None:
        """Return the body: the text of a text message, the encoded bytes of any other; may be set, in the same type.

        Raises:
            ValueError: It is that of a large message, which is never in memory, or it is malformed.
        """
        self._require_small()
        data = bytes(self._core.body) if self._body is None else self._body
        if self._core.type != MessageType.TEXT:
            return data
        try:
            return decode_text(data)
        except RemoteProtocolError as error:
            raise ValueError(f"the body is malformed: {error}") from None

    @body.setter
    def body(self, value: str | bytes | None) -> None:
        self._require_small()
        if self._core.type == MessageType.TEXT:
            if not isinstance(value, str | None):
                raise TypeError(f"the body of a text message is a str or None, not {type(value).__name__}")
            self._body = encode_text(value)
        elif isinstance(value, bytes):
            self._body = value
        else:
            raise TypeError(f"the body of a message without text is bytes, not {type(value).__name__}")

    def _require_small(self) -> None:
        if self._is_large:
            raise ValueError("the body of a large message is sent in chunks: a transformer has its properties only")

    @property
    def changed_body(self) -> bytes | None:
        """Return the encoded body that was set; None for none."""
        return self._body


class AddressForwarding:
    """Send messages to an address of the other broker, or to their own one there, as a `BridgeConfig` defines it.

    Args:
        config: Bridge.
        node: The 16 bytes of this broker's node id: with the id of the message, they identify it everywhere.
    """

    #: For this consumer alone: others may take the message.
    left_behind = Outcome.UNDELIVERABLE_HERE

    def __init__(self, config: BridgeConfig, node: bytes) -> None:
        self._config = config
        self._node = node

    def forwarded(self, message: Message) -> CoreMessage:
        """Return the copy of a message.

        Raises:
            NotForwarded: Its properties are malformed, or its transformer failed.
        """
        config, node = self._config, self._node
        original = message.to_core()
        assert isinstance(original, CoreMessage), original
        address = config.forwarding_address or split_fqqn(original.address)[0]
        try:
            if _only_adds_id(config) and original.property(BRIDGE_DUPLICATE_ID) is None:
                # The other properties stay bytes: to decode them and encode them again costs several times that.
                return original.with_bytes_behind(address, BRIDGE_DUPLICATE_ID, bridge_id(node, message))
        except RemoteProtocolError as error:
            raise NotForwarded(f"it cannot be copied: {error}") from None
        changes: dict[str, PropertyValue | TypedValue] = {**config.properties}
        removals: list[str] = []
        if config.use_duplicate_detection:
            changes[BRIDGE_DUPLICATE_ID] = bridge_id(node, message)
        if config.routing_type in _TYPES:
            changes[_ROUTING_TYPE] = TypedValue(_TYPES[config.routing_type], PropertyType.BYTE)
        elif config.routing_type is BridgeRoutingType.STRIP:
            removals.append(_ROUTING_TYPE)
        try:
            if config.transformer is None:
                return original.copy_for(address, changes=changes, removals=removals, expiration=original.expiration)
            is_large = bool(message.body_number)
            return _transformed(original, config, address, changes, removals, is_large=is_large)
        except RemoteProtocolError as error:
            raise NotForwarded(f"it cannot be copied: {error}") from None

    def encoded(self, message: Message) -> tuple[str, bytes | bytearray]:
        """Return the address and the bytes of the copy of a message.

        Raises:
            NotForwarded: Its properties are malformed, or its transformer failed.
        """
        copy = self.forwarded(message)
        return copy.address, copy.raw


class NodeForwarding:
    """Send messages of a store-and-forward queue to the queues of a member of the cluster that routing has chosen.

    Args:
        queue: Name of the store-and-forward queue.
        node: The 16 bytes of this broker's node id.
        detects_duplicates: Whether copies carry an id for duplicate detection.
    """

    #: Routing alone puts messages into the queue: one without chosen queues is from a client, and goes nowhere else.
    left_behind = Outcome.REJECTED

    def __init__(self, queue: str, node: bytes, *, detects_duplicates: bool) -> None:
        self._queue = queue
        self._node = node
        self._detects_duplicates = detects_duplicates
        self._writer = RouteWriter(queue, BRIDGE_DUPLICATE_ID, len(node) + _MESSAGE_ID_BYTES)

    def encoded(self, message: Message) -> tuple[str, bytes | bytearray]:
        """Return the address and the bytes of the copy of a message.

        Raises:
            NotForwarded: No queues were chosen for it, or its properties are malformed.
        """
        if self._detects_duplicates and isinstance(message, CoreMessage):
            address = message.address
            try:
                if "::" not in address:
                    raw = self._writer.write(
                        message, self._node + message.message_id.to_bytes(_MESSAGE_ID_BYTES, "big")
                    )
                    # A message that a member had which has scaled down keeps its id.
                    if raw is not None:
                        return address, raw
            except RemoteProtocolError as error:
                raise NotForwarded(f"it cannot be copied: {error}") from None
        copy = self.forwarded(message)
        return copy.address, copy.raw

    def forwarded(self, message: Message) -> CoreMessage:
        """Return the copy of a message, with the ids of the chosen queues under the name that the other broker reads.

        Raises:
            NotForwarded: No queues were chosen for it, or its properties are malformed.
        """
        original = message.to_core()
        assert isinstance(original, CoreMessage), original
        address = original.address
        if "::" in address:
            address = split_fqqn(address)[0]
        unique = bridge_id(self._node, message) if self._detects_duplicates else None
        try:
            copy = None
            # A message that a member had which has scaled down keeps its id.
            if original.raw.find(_BRIDGE_DUPLICATE_ID_TEXT, original.properties_at) < 0:
                copy = original.on_route(address, self._queue, BRIDGE_DUPLICATE_ID, unique)
            return self._decoded(original, address, unique) if copy is None else copy
        except RemoteProtocolError as error:
            raise NotForwarded(f"it cannot be copied: {error}") from None

    def _decoded(self, original: CoreMessage, address: str, unique: bytes | None) -> CoreMessage:
        """Return the copy of a message whose route is not its last property: it has been changed since.

        Raises:
            NotForwarded: It has no route.
        """
        chosen = original.route_in(self._queue)
        if chosen is None:
            raise NotForwarded("it was not routed to a queue of another broker: do not send to this queue")
        removals = [name for name in original.properties if name.startswith(ROUTE_TO)]
        changes: dict[str, PropertyValue | TypedValue] = {ROUTE_TO: chosen}
        if unique is not None and original.property(BRIDGE_DUPLICATE_ID) is None:
            changes[BRIDGE_DUPLICATE_ID] = unique
        return original.copy_for(address, changes=changes, removals=removals, expiration=original.expiration)


def bridge_id(node: bytes, message: Message) -> bytes:
    """Return the id of a message of this broker for duplicate detection."""
    return node + message.message_id.to_bytes(_MESSAGE_ID_BYTES, "big")


def _only_adds_id(config: BridgeConfig) -> bool:
    """Return True if a copy differs from its message in the address and the id for duplicate detection alone."""
    passes = config.routing_type is BridgeRoutingType.PASS and config.transformer is None
    return passes and config.use_duplicate_detection and not config.properties


def _transformed(
    original: CoreMessage,
    config: BridgeConfig,
    address: str,
    changes: dict[str, PropertyValue | TypedValue],
    removals: list[str],
    *,
    is_large: bool,
) -> CoreMessage:
    assert config.transformer is not None
    copy = original.copy_for(address, changes=changes, removals=removals, expiration=original.expiration)
    bridged = BridgedMessage(copy, address, is_large=is_large)
    bridged.original_address = original.address
    try:
        config.transformer(bridged)
        set_by_it, removed = bridged.changed()
        if bridged.changed_body is not None:
            copy = copy.with_body(bridged.changed_body)
        return copy.copy_for(bridged.address, changes=set_by_it, removals=removed, expiration=copy.expiration)
    except BaseException as error:
        # The transformer belongs to the application: an error of it must keep back this message alone.
        if not isinstance(error, Exception):
            raise
        raise NotForwarded(f"the transformer failed: {type(error).__name__}: {error}") from None
