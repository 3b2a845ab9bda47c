"""A tiny encoding for tests: a line ``name=value`` for each property, an empty line, and the body. All is UTF-8."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from embedbroker.kernel import RESIDENT, Body, Message, StoredMessage
from embedclient.errors import RemoteProtocolError
from embedclient.model import Origin, Properties, PropertyValue
from embedclient.wire.core import CoreMessage

__all__ = ["ENCODING", "LINES", "LinesCodec", "lines_message"]

ENCODING = 200


class LinesCodec:
    """The codec. Facts of brokers have names that begin with ``x_``."""

    encoding = ENCODING

    def fields(self, message: StoredMessage) -> dict[str, str]:
        """Everything but the body, decoded once per message."""
        if not isinstance(message.decoded, dict):
            head = bytes(message.content).partition(b"\n\n")[0].decode()
            pairs = [line.partition("=") for line in head.splitlines()]
            if not all(between for _, between, _ in pairs):
                raise RemoteProtocolError(f"line without '=' in {head!r}")
            message.decoded = {name: value for name, _, value in pairs}
        return message.decoded

    def user_id(self, message: StoredMessage) -> str | None:
        return self.fields(message).get("id")

    def group_id(self, message: StoredMessage) -> PropertyValue:
        return self.fields(message).get("group")

    def duplicate_id(self, message: StoredMessage) -> bytes | None:
        found = self.fields(message).get("x_once")
        return found.encode() if found is not None else None

    def is_to_temporary(self, message: StoredMessage) -> bool:
        return "x_temporary" in self.fields(message)

    def property(self, message: StoredMessage, name: str) -> PropertyValue:
        value = self.fields(message).get(name)
        return int(value) if value is not None and value.isdecimal() else value

    def annotated(self, message: StoredMessage, origin: Origin) -> bytes:
        facts: dict[str, object] = {"x_from": origin.address, "x_queue": origin.queue, "x_number": origin.message_id}
        if origin.expired_at_ms is not None:
            facts["x_expired"] = origin.expired_at_ms
        return encoded(self.fields(message) | {name: str(value) for name, value in facts.items()}, body_of(message))

    def changed(
        self,
        message: StoredMessage,
        routing_type: int | None,
        changes: Mapping[str, PropertyValue],
        removals: Collection[str],
    ) -> bytes:
        kept = {name: value for name, value in self.fields(message).items() if name not in (*removals, "x_type")}
        kept |= {name: str(value) for name, value in changes.items()}
        if routing_type is not None:
            kept["x_type"] = str(routing_type)
        return encoded(kept, body_of(message))

    def with_property(self, message: StoredMessage, name: str, value: PropertyValue) -> bytes:
        return encoded(self.fields(message) | {name: str(value)}, body_of(message))

    def with_route(self, message: StoredMessage, queue_name: str, queue_ids: bytes) -> bytes:
        return encoded(self.fields(message) | {f"x_route_{queue_name}": queue_ids.hex()}, body_of(message))

    def to_core(self, message: StoredMessage, body: bytes) -> CoreMessage:
        core = CoreMessage.build(
            address=message.address,
            durable=message.durable,
            priority=message.priority,
            timestamp=message.timestamp,
            expiration=message.expiration,
            properties=Properties(self.fields(message)),
            body=body_of(message),
        )
        core.assign_id(message.message_id)
        return core


LINES = LinesCodec()


def encoded(fields: dict[str, str], body: bytes) -> bytes:
    return "".join(f"{name}={value}\n" for name, value in fields.items()).encode() + b"\n" + body


def body_of(message: StoredMessage) -> bytes:
    return bytes(message.content).partition(b"\n\n")[2]


def lines_message(
    text: str = "",
    address: str = "orders",
    *,
    durable: bool = False,
    priority: int = 4,
    expiration: int = 0,
    body: Body = RESIDENT,
    **fields: str,
) -> Message:
    """A message whose body is ``text``; its head is never empty."""
    return StoredMessage(
        LINES,
        encoded({"id": "1", **fields}, text.encode()),
        address=address,
        durable=durable,
        priority=priority,
        expiration=expiration,
        timestamp=5,
        body=body,
    )
