"""List queues."""

from __future__ import annotations

import re
from collections.abc import Iterator

from embedbroker.kernel import Queue, Session

from ._request import OK, Answer, Request, Service

__all__ = ["SERVICES"]

_ROUTING_TYPES = ("multicast", "anycast")


def _list(session: Session, request: Request) -> None:
    """List the queues that the session may view and whose names fit a pattern.

    In the pattern, ``*`` and ``#`` stand for any text.
    """
    pieces = re.split(r"[*#]+", request.text("pattern"))
    names = session.addresses.queue_names()
    found: list[dict[str, object]] = []

    def look() -> Iterator[None]:
        for name in names:
            queue = session.addresses.find_viewable_queue(name) if _fits(name, pieces) else None
            if queue is not None:
                found.append(_described(queue))
            yield
        request.respond(Answer(OK, {"queues": found}))

    request.deferred.add(look())


def _fits(name: str, pieces: list[str]) -> bool:
    """Return True if a name consists of these pieces, in order, with any text between them.

    Takes linear time for every pattern.
    """
    first, *middle = pieces
    if not middle:
        return name == first
    last = middle.pop()
    end = len(name) - len(last)
    if not name.startswith(first) or not name.endswith(last) or end < len(first):
        return False
    at = len(first)
    for piece in middle:
        found = name.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return True


def _described(queue: Queue) -> dict[str, object]:
    first, last = queue.backlog.bounds() or (None, None)
    return {
        "name": queue.name,
        "address": queue.definition.address,
        "routing": _ROUTING_TYPES[queue.definition.routing_type],
        "messages": queue.message_count,
        "first": first,
        "last": last,
    }


SERVICES = (Service("queue.list", _list, required=("pattern",)),)
