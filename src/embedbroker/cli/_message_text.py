"""Messages as text: what `receive` and `browse` print, and what `send` reads.

Responsible for a form that a script can read back, and one for people. Does not depend on connections.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from embedclient import BytesMessage, DeliveryMode, MapMessage, Message, ObjectMessage, StreamMessage, TextMessage

__all__ = ["KINDS", "as_json_line", "as_text", "message_from", "property_from"]

Value = bool | int | float | str | bytes | None
KINDS = ("text", "bytes", "map", "stream")
_KIND_OF: Mapping[type[Message], str] = {
    TextMessage: "text",
    BytesMessage: "bytes",
    MapMessage: "map",
    StreamMessage: "stream",
    ObjectMessage: "object",
}


def property_from(text: str) -> tuple[str, Value]:
    """Return the property of ``name=value``.

    The value is a number, true, false or null where it looks like one, else a text.
    """
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise click.BadParameter(f"{text!r} is not name=value")
    try:
        read = json.loads(value)
    except (ValueError, RecursionError):
        return name, value
    return name, read if isinstance(read, bool | int | float | str | None) else value


def message_from(kind: str, body: str | bytes, properties: Mapping[str, Value]) -> Message:
    """Return a message of ``kind`` with a body from the command line or a file.

    Raises:
        click.BadParameter: the body does not fit the kind.
    """
    if kind == "bytes":
        return BytesMessage(_encoded(body), properties=properties)
    text = _decoded(_encoded(body))
    if kind == "text":
        return TextMessage(text, properties=properties)
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise click.BadParameter(f"the body of a {kind} message is JSON: {error}") from None
    if kind == "map":
        if not isinstance(values, dict) or not all(isinstance(value, Value) for value in values.values()):
            raise click.BadParameter("the body of a map message is a JSON object of plain values")
        return MapMessage(values, properties=properties)
    if not isinstance(values, list) or not all(isinstance(value, Value) for value in values):
        raise click.BadParameter("the body of a stream message is a JSON list of plain values")
    return StreamMessage(values, properties=properties)


def _encoded(body: str | bytes) -> bytes:
    """Return the body as bytes. Bytes of the command line that are no UTF-8 stand in its texts as surrogates."""
    return body if isinstance(body, bytes) else body.encode(errors="surrogateescape")


def _decoded(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError:
        raise click.BadParameter("the body is not UTF-8 text; send it with --type bytes") from None


def as_json_line(message: Message, saved: Path | None = None) -> str:
    """Return everything about a message, in one line. Bytes become ``{"base64": ...}``, and a saved body its file."""
    facts = {
        "id": message.message_id,
        "destination": None if message.destination is None else str(message.destination),
        "type": _kind(message),
        "body": message.body if saved is None else {"file": str(saved)},
        "properties": dict(message.properties),
        "durable": message.delivery_mode == DeliveryMode.PERSISTENT,
        "priority": message.priority,
        "timestamp": message.timestamp,
        "expiration": message.expiration,
        "redelivered": message.redelivered,
        "delivery_count": message.delivery_count,
        "correlation_id": message.correlation_id,
        "reply_to": None if message.reply_to is None else str(message.reply_to),
        "jms_type": message.type,
    }
    return json.dumps(facts, default=_plain)


def _kind(message: Message) -> str:
    return next((name for kind, name in _KIND_OF.items() if isinstance(message, kind)), "message")


def _plain(value: object) -> object:
    if isinstance(value, bytes | bytearray | memoryview):
        return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence):
        return list(value)
    return str(value)


def as_text(message: Message, *, with_headers: bool, saved: Path | None = None) -> str:
    """Return the body for a person, or the path of a saved one; headers stand before it as `name: value` lines."""
    body = message.body if saved is None else str(saved)
    if isinstance(body, bytes):
        shown = body.decode(errors="backslashreplace")
    elif body is None or isinstance(body, str):
        shown = body or ""
    else:
        shown = json.dumps(body, default=_plain)
    if not with_headers:
        return shown
    facts: dict[str, object] = {
        "id": message.message_id,
        "destination": message.destination,
        "type": _kind(message),
        "durable": message.delivery_mode == DeliveryMode.PERSISTENT,
        "priority": message.priority,
        "delivery count": message.delivery_count,
        **message.properties,
    }
    return "\n".join([*(f"{name}: {value}" for name, value in facts.items()), "", shown, ""])
