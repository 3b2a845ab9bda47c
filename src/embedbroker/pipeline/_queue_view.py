"""One browse of a queue, from its beginning to its end: each message that is shown is there once.

Responsible for detecting that a browse began again: the client reconnects, and the broker shows the queue to the new
session from its beginning. Does not hide that, because messages may have been passed on already.
"""

from __future__ import annotations

from collections.abc import Iterator

from embedclient.blocking import ClientSession
from embedclient.errors import ConnectionLostException
from embedclient.wire.core import CoreMessage

__all__ = ["queue_view"]

ROWS_PER_READ, BYTES_PER_READ = 10_000, 4 << 20


def queue_view(session: ClientSession, queue: str, *, selector: str | None = None) -> Iterator[list[CoreMessage]]:
    """Yield the messages of an existing queue, some at a time; they stay in it.

    Raises:
        ConnectionLostException: the client reconnected in the middle, so the browse must begin again.
        JMSException: the broker refused, or is not there any more.
    """
    name = session.name
    with session.create_consumer(queue, filter=selector, browse_only=True) as consumer:
        while True:
            received = consumer.receive_encoded(ROWS_PER_READ, bytes_max=BYTES_PER_READ)
            # At the end, too: the last of these reads may be that of another session, with nothing in between.
            if session.name != name:
                raise ConnectionLostException(f"the connection was lost while queue {queue!r} was shown: begin again")
            if not received:
                return
            yield [CoreMessage.parse(raw) for raw, _ in received]
