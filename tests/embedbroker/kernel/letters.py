"""Real CORE messages for kernel tests, made in one line."""

from __future__ import annotations

from embedbroker.kernel import StoredMessage
from embedclient.model import Properties, PropertyType, PropertyValue, RoutingType
from embedclient.wire.core import CoreMessage

__all__ = ["letter", "text_of"]


def letter(
    text: str = "",
    address: str = "orders",
    *,
    durable: bool = False,
    priority: int = 4,
    expiration: int = 0,
    routing_type: RoutingType | None = None,
    **properties: PropertyValue,
) -> CoreMessage:
    """A message whose body is ``text``."""
    carried = Properties()
    if routing_type is not None:
        carried.set("_AMQ_ROUTING_TYPE", int(routing_type), PropertyType.BYTE)
    for name, value in properties.items():
        carried[name] = value
    return CoreMessage.build(
        address=address,
        durable=durable,
        priority=priority,
        expiration=expiration,
        timestamp=1_700_000_000_000,
        user_id=bytes(range(16)),
        properties=carried,
        body=text.encode(),
    )


def text_of(message: object) -> str:
    """The body of a message that `letter` made, or that was copied from one, or of one in another encoding."""
    assert isinstance(message, CoreMessage | StoredMessage)
    core = message.to_core()
    assert isinstance(core, CoreMessage)
    return bytes(core.body).decode()
