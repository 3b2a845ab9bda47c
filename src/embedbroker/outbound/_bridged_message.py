"""The message that a bridge sends: a copy with an id for duplicate detection, and perhaps changed by a transformer.

Responsible for everything in which the copy differs from the message in the queue. Does not depend on its transport.
"""

from __future__ import annotations

from typing import Final

from embedbroker.config import BridgeConfig, BridgeRoutingType
from embedbroker.kernel import DivertedMessage, Message, split_fqqn
from embedclient.agent import CoreMessage
from embedclient.errors import RemoteProtocolError
from embedclient.model import PropertyType, PropertyValue, RoutingType, TypedValue

__all__ = ["BridgedMessage", "NotForwarded", "forwarded"]

_BRIDGE_DUPLICATE_ID: Final = "_AMQ_BRIDGE_DUP"
_ROUTING_TYPE: Final = "_AMQ_ROUTING_TYPE"
_TYPES: Final = {
    BridgeRoutingType.ANYCAST: int(RoutingType.ANYCAST),
    BridgeRoutingType.MULTICAST: int(RoutingType.MULTICAST),
}


class NotForwarded(Exception):
    """A message cannot be sent by the bridge: it stays in its queue. The text is the reason."""


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


def forwarded(message: Message, config: BridgeConfig, node: bytes) -> CoreMessage:
    """Return the copy of a message that a bridge sends; of a large message, its headers and properties.

    Args:
        message: Message of the queue.
        config: Bridge.
        node: The 16 bytes of this broker's node id: with the id of the message, they identify it everywhere.

    Raises:
        NotForwarded: Its properties are malformed, or its transformer failed.
    """
    original = message.to_core()
    assert isinstance(original, CoreMessage), original
    address = config.forwarding_address or split_fqqn(original.address)[0]
    try:
        if _only_adds_id(config) and original.property(_BRIDGE_DUPLICATE_ID) is None:
            # The other properties stay bytes: to decode them and encode them again costs several times that.
            return original.with_bytes_behind(address, _BRIDGE_DUPLICATE_ID, _id_of(node, message))
    except RemoteProtocolError as error:
        raise NotForwarded(f"it cannot be copied: {error}") from None
    changes: dict[str, PropertyValue | TypedValue] = {**config.properties}
    removals: list[str] = []
    if config.use_duplicate_detection:
        changes[_BRIDGE_DUPLICATE_ID] = _id_of(node, message)
    if config.routing_type in _TYPES:
        changes[_ROUTING_TYPE] = TypedValue(_TYPES[config.routing_type], PropertyType.BYTE)
    elif config.routing_type is BridgeRoutingType.STRIP:
        removals.append(_ROUTING_TYPE)
    try:
        if config.transformer is None:
            return original.copy_for(address, changes=changes, removals=removals, expiration=original.expiration)
        return _transformed(original, config, address, changes, removals)
    except RemoteProtocolError as error:
        raise NotForwarded(f"it cannot be copied: {error}") from None


def _id_of(node: bytes, message: Message) -> bytes:
    return node + message.message_id.to_bytes(8, "big")


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
) -> CoreMessage:
    assert config.transformer is not None
    copy = original.copy_for(address, changes=changes, removals=removals, expiration=original.expiration)
    bridged = BridgedMessage(copy, address)
    bridged.original_address = original.address
    try:
        config.transformer(bridged)
        set_by_it, removed = bridged.changed()
        return copy.copy_for(bridged.address, changes=set_by_it, removals=removed, expiration=copy.expiration)
    except BaseException as error:
        # The transformer belongs to the application: an error of it must keep back this message alone.
        if not isinstance(error, Exception):
            raise
        raise NotForwarded(f"the transformer failed: {type(error).__name__}: {error}") from None
