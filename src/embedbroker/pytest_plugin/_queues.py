"""The contents of a broker's queues, for assertions and for the reports of those that fail.

Responsible for browsing through a separate connection, and for one line per message. Refuses to take anything.
"""

from __future__ import annotations

from collections.abc import Mapping

import trio

from embedbroker.runtime import QueueInfo
from embedclient import ConnectionFactory, JMSException, Message, Queue

__all__ = ["browse", "describe_message", "describe_queue", "destination_of", "dump", "matches"]

_SHOWN_MAX = 20
_BODY_CHARACTERS_MAX = 200
_PATIENCE_S = 5.0


def destination_of(queue: QueueInfo) -> Queue:
    """Return the destination with which a client names a queue."""
    return Queue(queue.name if queue.name == queue.address else f"{queue.address}::{queue.name}")


def describe_queue(queue: QueueInfo) -> str:
    """Return one line about a queue."""
    figures = f"{queue.message_count} messages, {queue.delivering_count} in delivery, {queue.consumer_count} consumers"
    return f"queue {queue.name}: {figures}"


async def browse(url: str, destination: Queue, limit: int) -> list[Message]:
    """Return the first messages that wait in a queue."""
    found: list[Message] = []
    async with (
        ConnectionFactory(url).connect() as connection,
        connection.session() as session,
        session.create_browser(destination) as browser,
    ):
        while len(found) < limit and (message := await browser.next_message()) is not None:
            found.append(message)
    return found


async def dump(url: str, queues: list[QueueInfo]) -> str:
    """Return one line for each queue and each of its first messages."""
    lines = []
    idle = [queue.name for queue in queues if not queue.message_count and not queue.consumer_count]
    for queue in queues:
        if queue.name in idle:
            continue
        lines.append(describe_queue(queue))
        if queue.message_count > queue.delivering_count:
            lines += [f"  {line}" for line in await _lines_of(url, queue)]
    if idle:
        lines.append(f"empty: {', '.join(idle)}")
    return "\n".join(lines) or "no queues"


async def _lines_of(url: str, queue: QueueInfo) -> list[str]:
    messages: list[Message] = []
    try:
        with trio.move_on_after(_PATIENCE_S) as scope:
            messages = await browse(url, destination_of(queue), _SHOWN_MAX)
    except JMSException as error:
        return [f"cannot be browsed: {error}"]
    if scope.cancelled_caught:
        return [f"cannot be browsed: no answer within {_PATIENCE_S:g} s"]
    lines = [describe_message(message) for message in messages]
    more = queue.message_count - queue.delivering_count - len(messages)
    return [*lines, f"and {more} more"] if more > 0 and len(messages) >= _SHOWN_MAX else lines


def describe_message(message: Message) -> str:
    """Return one line about a message."""
    body = repr(getattr(message, "body", None))
    if len(body) > _BODY_CHARACTERS_MAX:
        body = f"{body[:_BODY_CHARACTERS_MAX]}... ({len(body)} characters)"
    parts = [type(message).__name__, body, f"id={message.message_id}"]
    properties = dict(message.properties.items())
    if properties:
        parts.append(f"properties={properties!r}")
    if message.redelivered:
        parts.append("redelivered")
    return " ".join(parts)


def matches(message: Message, body: object, properties: Mapping[str, object]) -> bool:
    """Return True if a message has this body, unless that is ``...``, and at least these properties."""
    if body is not ... and getattr(message, "body", None) != body:
        return False
    found = dict(message.properties.items())
    return all(name in found and found[name] == value for name, value in properties.items())
