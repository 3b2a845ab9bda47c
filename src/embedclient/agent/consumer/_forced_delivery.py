"""Forced deliveries of one consumer: its broker sends all available messages, and then a mark (core-protocol 7.6).

Responsible for when the mark counts: not before the messages in front of it can be taken. Does not depend on the
buffer.

History of the fault that `hold` avoids:

1. A program waits for the mark, to learn whether there is more. The connection is lost; its session is made again, and
   repeats the request.
2. Messages and mark arrive while other sessions of the connection are still being made: no message is given out yet.
3. The program receives the mark, finds no message, and takes that for the end of the queue.

History of the fault that a repeated request avoids: during a rollback, of a branch too, the mark comes at once, because
its broker delivers nothing. Messages that come again, or came in front of the mark and were forgotten, come behind the
start that follows.
"""

from collections.abc import Callable

from embedclient.errors import JMSException
from embedclient.wire.core import SessionForceConsumerDelivery

from .._call import Call, DueCallbacks
from ..session._channel import SessionChannel


class ForcedDelivery:
    """A consumer's forced deliveries. `on_mark` is called when a program's call is done."""

    __slots__ = ("_again", "_arrived", "_call", "_channel", "_consumer_id", "_count", "_due", "_held", "_on_mark")

    def __init__(
        self, consumer_id: int, channel: SessionChannel, due: DueCallbacks, on_mark: Callable[[], None]
    ) -> None:
        self._consumer_id = consumer_id
        self._channel = channel
        self._due = due
        self._on_mark = on_mark
        self._call: Call[None] | None = None
        self._count = 0
        self._held = False
        # The mark has come while it was held.
        self._arrived = False
        # The mark that comes, or has come, carries no information.
        self._again = False

    def request_all(self) -> Call[None]:
        """Request all messages that can be delivered now. The call is done when the broker has no more."""
        if self._call is None:
            self._call = Call(self._due)
            self._request()
        return self._call

    def _request(self) -> None:
        self._arrived = False
        sequence = self._count
        self._count = sequence + 1
        self._channel.post(SessionForceConsumerDelivery(self._consumer_id, sequence))

    def rebuild(self, started: bool) -> None:
        """Request again in a session that is made again. The mark is held until the reconnect is complete."""
        self._held = True
        self._arrived = False
        if self._call is not None or (started and self._count):
            self._channel.post_rebuilding(SessionForceConsumerDelivery(self._consumer_id, self._count - 1))

    def on_arrived(self, sequence: int) -> None:
        """Handle a mark. Ignore marks of earlier requests, which a rebuilt session repeats."""
        if self._call is not None and sequence == self._count - 1:
            if self._held:
                self._arrived = True
            else:
                self._succeed()

    @property
    def is_requested(self) -> bool:
        """Return True if a program waits for the mark."""
        return self._call is not None

    def end_with_message(self) -> None:
        """End the wait for the mark as if it had come: a large message in front of it is whole.

        The broker sends the mark in the middle of a large message. That one carries no information.
        """
        if self._call is not None:
            self.on_arrived(self._count - 1)

    def hold(self, *, again: bool = False) -> None:
        """Hold a mark that comes from now on until `release`.

        With `again` it carries no information and is requested again.
        """
        self._held = True
        self._again = self._again or again

    def release(self) -> None:
        """Release a held mark: the messages in front of it may be taken."""
        self._held = False
        if self._call is not None:
            if self._again:
                self._request()
            elif self._arrived:
                self._succeed()
        self._again = False

    def _succeed(self) -> None:
        call, self._call = self._call, None
        self._arrived = False
        assert call is not None
        call.succeed(None)
        self._on_mark()

    def fail(self, error: JMSException) -> None:
        """Fail the call: the consumer is closed."""
        call, self._call = self._call, None
        if call is not None:
            call.fail(error)
