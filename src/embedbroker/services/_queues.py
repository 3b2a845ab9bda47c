"""Looking at queues."""

from __future__ import annotations

import re
from collections.abc import Iterator

from embedbroker.kernel import Kernel, Queue

from ._request import OK, Answer, Operation, Request

__all__ = ["OPERATIONS"]

_ROUTING_TYPES = ("multicast", "anycast")


def _list(kernel: Kernel, request: Request) -> None:
    """All queues whose names fit a pattern, in which ``*`` and ``#`` stand for any text."""
    pattern = re.compile(".*".join(map(re.escape, re.split(r"[*#]+", request.text("pattern")))), re.DOTALL)
    names = sorted(kernel.catalog.queues)
    found: list[dict[str, object]] = []

    def look() -> Iterator[None]:
        for name in names:
            queue = kernel.catalog.queues.get(name)
            if queue is not None and pattern.fullmatch(name):
                found.append(_described(queue))
            yield
        # Messages that wait are durable where they have to be, and so is all that this tells.
        request.respond(Answer(OK, {"queues": found}, promises=False))

    kernel.chores.add(look())


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


OPERATIONS = (Operation("queue.list", _list, required=("pattern",)),)
