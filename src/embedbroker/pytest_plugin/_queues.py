"""The contents of a broker's queues, for assertions and for the reports of those that fail.

Responsible for browsing through a separate connection, and for one line per message. Refuses to take anything.
"""

from __future__ import annotations

from collections.abc import Mapping

import trio
from attrs import frozen

from embedbroker.kernel import Queue as KernelQueue
from embedclient import ConnectionFactory, JMSException, Message, Queue

__all__ = ["QueueState", "browse", "describe_message", "dump", "matches"]

_SHOWN_MAX = 20
_BODY_CHARACTERS_MAX = 200
_PATIENCE_S = 5.0


@frozen
class QueueState:
    """The state of one queue: ``count`` messages, of which ``delivering`` are with consumers and unacknowledged."""

    name: str
    address: str
    count: int
    delivering: int
    consumers: int

    @classmethod
    def of(cls, queue: KernelQueue) -> QueueState:
        return cls(
            queue.name,
            queue.definition.address,
            queue.message_count,
            queue.delivering_count,
            queue.consumer_count,
        )

    @property
    def destination(self) -> Queue:
        """The destination with which a client names it."""
        return Queue(self.name if self.name == self.address else f"{self.address}::{self.name}")

    def __str__(self) -> str:
        return f"queue {self.name}: {self.count} messages, {self.delivering} in delivery, {self.consumers} consumers"


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


async def dump(url: str, states: list[QueueState]) -> str:
    """Return one line for each queue and each of its first messages."""
    lines = []
    idle = [state.name for state in states if not state.count and not state.consumers]
    for state in states:
        if state.name in idle:
            continue
        lines.append(str(state))
        if state.count > state.delivering:
            lines += [f"  {line}" for line in await _lines_of(url, state)]
    if idle:
        lines.append(f"empty: {', '.join(idle)}")
    return "\n".join(lines) or "no queues"


async def _lines_of(url: str, state: QueueState) -> list[str]:
    messages: list[Message] = []
    try:
        with trio.move_on_after(_PATIENCE_S) as scope:
            messages = await browse(url, state.destination, _SHOWN_MAX)
    except JMSException as error:
        return [f"cannot be browsed: {error}"]
    if scope.cancelled_caught:
        return [f"cannot be browsed: no answer within {_PATIENCE_S:g} s"]
    lines = [describe_message(message) for message in messages]
    more = state.count - state.delivering - len(messages)
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
