"""Messages of a queue as JSON, and searches through them.

Responsible for the limits of what is shown: ``BROWSE_MAX`` messages of a queue, and ``VALUE_MAX`` characters of a
value, which are Artemis' defaults. Does not depend on operations.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeAlias

from embedbroker.kernel import Bookmark, Kernel, Message, Queue, Reference, Refused
from embedclient.model import uuid_text

from ._registry import ManagementRefused

__all__ = ["BROWSE_MAX", "VALUE_MAX", "Found", "first_message", "matcher", "message_map", "search", "shown"]

BROWSE_MAX = 200
"""Messages of a queue that a list or a filtered count examines."""

VALUE_MAX = 256
"""Characters of a value in a list; more are cut."""

Found: TypeAlias = Generator[None, None, list[Reference]]


def matcher(kernel: Kernel, filter_text: str | None) -> Callable[[Message], bool] | None:
    """Return the selector of a filter; None for no filter.

    Raises:
        ManagementRefused: The filter cannot be parsed.
    """
    selector = kernel.address_manager.selector(filter_text)
    if isinstance(selector, Refused):
        raise ManagementRefused(f"AMQ229020: Invalid filter: {selector.text}")
    return None if selector is None else selector.matches


def search(queue: Queue, matches: Callable[[Message], bool] | None, *, skip: int = 0, limit: int = BROWSE_MAX) -> Found:
    """Return the waiting messages that match among the next ``limit``, behind the first ``skip`` messages."""
    bookmark, found = Bookmark(), []
    for number in range(skip + limit):
        reference, _budget = queue.backlog.browse(bookmark, 1 << 30)
        if reference is None:
            break
        if number >= skip and (matches is None or matches(reference.message)):
            found.append(reference)
        yield
    return found


def first_message(queue: Queue) -> Message | None:
    """Return the message that would be delivered next."""
    reference, _budget = queue.backlog.browse(Bookmark(), 1 << 30)
    return None if reference is None else reference.message


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}, + {len(text) - limit} more"


def shown(value: object, limit: int = VALUE_MAX) -> object:
    """Return a value as lists show it: cut, and as JSON has it."""
    if isinstance(value, bytes | bytearray | memoryview):
        # Java prints bytes with a sign.
        return [byte - 256 if byte > 127 else byte for byte in bytes(value[:limit])]
    if isinstance(value, float) and value - value != 0:
        # JSON has no infinity.
        return str(value)
    return _cut(value, limit) if isinstance(value, str) else value


def message_map(message: Message, limit: int = VALUE_MAX) -> dict[str, object]:
    """Describe a message: headers and properties in one object, without the body.

    Args:
        message: The message.
        limit: Characters of a property that are shown.
    """
    user_id = message.user_id
    # Lists have the names of CORE for messages of every encoding.
    in_core = message.to_core()
    properties = getattr(in_core, "properties", None)
    return {
        "durable": message.durable,
        "address": message.address,
        **({name: shown(value, limit) for name, value in properties.items()} if properties is not None else {}),
        "messageID": message.message_id,
        "expiration": message.expiration,
        "type": getattr(in_core, "type", 0),
        "priority": message.priority,
        **({"userID": f"ID:{uuid_text(user_id)}" if isinstance(user_id, bytes) else user_id} if user_id else {}),
        "timestamp": message.timestamp,
        **({"largeMessage": True} if message.body_number else {}),
    }
