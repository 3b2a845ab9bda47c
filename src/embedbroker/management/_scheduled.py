"""The part of the control ``queue`` about scheduled messages: sizes, lists, and early delivery.

Responsible for examining them in portions, so that a long schedule does not stop the broker. Does not depend on how a
queue keeps them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from heapq import heappush, heappushpop

from embedbroker.kernel import Message, Permission, Queue, Reference

from ._messages import BROWSE_MAX, matcher, message_map
from ._registry import Attribute, Call, Kind, Operation, Parameter, Work, done
from ._rows import RESULT_CHARS_MAX, Rows

__all__ = ["SCHEDULED_ATTRIBUTES", "SCHEDULED_OPERATIONS"]


def _entries(queue: Queue) -> list[tuple[int, Reference]]:
    return [] if queue.scheduled is None else queue.scheduled.entries()


def _of(call: Call) -> Queue:
    return call.kernel.address_manager.queues[call.name]


def _size(call: Call, *, durable_only: bool = False) -> Work:
    size = 0
    for _due_ms, reference in _entries(_of(call)):
        if reference.message.durable or not durable_only:
            size += reference.message.encoded_size
        yield
    return size


def _durable_size(call: Call) -> object:
    return _size(call, durable_only=True) if _of(call).durable else 0


def _durable_count(call: Call) -> Work:
    count, queue = 0, _of(call)
    for _due_ms, reference in _entries(queue) if queue.durable else ():
        count += reference.message.durable
        yield
    return count


def _first(call: Call) -> Generator[None, None, list[Message]]:
    """Return the messages that are due first, in order of time."""
    queue = done(call.session.addresses.use_queue(call.name, Permission.BROWSE))
    # The latest one is on top of the heap. Positions differ, so references are never compared.
    found: list[tuple[int, int, Reference]] = []
    for due_ms, reference in _entries(queue):
        entry = (-due_ms, -reference.position, reference)
        if len(found) < BROWSE_MAX:
            heappush(found, entry)
        else:
            heappushpop(found, entry)
        yield
    return [reference.message for _due_ms, _position, reference in sorted(found, reverse=True)]


def _as_json(call: Call) -> Work:
    messages = yield from _first(call)
    rows = Rows()
    for message in messages:
        rows.add(message_map(message))
    return rows.text()


def _maps(call: Call) -> Work:
    text = yield from _as_json(call)
    assert isinstance(text, str)
    return json.loads(text)


def _peek(call: Call) -> Work:
    """Return the message that was sent first, as Artemis does, and not the one that is due first."""
    queue = done(call.session.addresses.use_queue(call.name, Permission.BROWSE))
    oldest: tuple[int, int, int] | None = None
    found: Message | None = None
    for due_ms, reference in _entries(queue):
        key = (reference.message.timestamp, due_ms, reference.position)
        if oldest is None or key < oldest:
            oldest, found = key, reference.message
        yield
    # Not cut, as in Artemis.
    shown = None if found is None else message_map(found, RESULT_CHARS_MAX)
    return json.dumps(shown, ensure_ascii=False, separators=(",", ":"))


def _deliver(call: Call, matches: Callable[[Reference], bool] | None) -> Work:
    queue = done(call.session.addresses.use_queue(call.name, Permission.CONSUME))
    # Nothing is delivered out of order meanwhile.
    queue.hold()
    try:
        for _due_ms, reference in _entries(queue):
            if matches is None or matches(reference):
                queue.release_early(reference)
            yield
    finally:
        queue.let_go()
    return None


def _deliver_matching(call: Call, filter_text: str | None) -> Work:
    matches = matcher(call.kernel, filter_text)
    return _deliver(call, None if matches is None else lambda reference: matches(reference.message))


def _deliver_one(call: Call, message_id: int | None) -> Work:
    return _deliver(call, lambda reference: reference.message.message_id == message_id)


SCHEDULED_ATTRIBUTES = (
    Attribute("ScheduledCount", "long", lambda call: _of(call).scheduled_count, "Messages for later delivery."),
    Attribute("ScheduledSize", "long", _size, "Their bytes."),
    Attribute("DurableScheduledCount", "long", _durable_count, "Those of them that survive a restart."),
    Attribute("DurableScheduledSize", "long", _durable_size, "The bytes of these."),
)

SCHEDULED_OPERATIONS = (
    Operation(
        "listScheduledMessages", (), "Map[]", _maps, "Messages for later delivery, in order of time, at most 200."
    ),
    Operation("listScheduledMessagesAsJSON", (), "String", _as_json, "The same as JSON."),
    Operation(
        "peekFirstScheduledMessageAsJSON",
        (),
        "String",
        _peek,
        "The one of them sent first, as JSON; the text null without one.",
    ),
    Operation(
        "deliverScheduledMessages",
        (Parameter("filter", Kind.TEXT),),
        "void",
        _deliver_matching,
        "Deliver what matches of them now. After a restart they wait again.",
        changes=True,
    ),
    Operation(
        "deliverScheduledMessage",
        (Parameter("messageID", Kind.LONG),),
        "void",
        _deliver_one,
        "Deliver one of them now.",
        changes=True,
    ),
)
