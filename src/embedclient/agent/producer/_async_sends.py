"""Sends in flight without a blocked caller, by their correlation ids (core-protocol 4.4, 7.8).

Responsible for the ids, and for which answer or confirmation ends which send. Does not depend on the transport of
frames.
"""

from collections.abc import Callable

from embedclient.engine.core import PeerCount
from embedclient.errors import JMSException, exception_for
from embedclient.wire.core import ExceptionResponse, NullResponse

from .._call import Call


class AsyncSend:
    """A send in flight without a blocked caller. It has a `call` unless no caller waits at all."""

    __slots__ = ("call", "number")

    def __init__(self, call: Call[None] | None, number: int) -> None:
        self.call = call
        self.number = number


class AsyncSends:
    """The asynchronous sends of one session, the oldest first."""

    __slots__ = ("_in_flight", "_next_id", "_on_refused", "_peer_count")

    def __init__(self, peer_count: PeerCount, on_refused: Callable[[JMSException], None] | None) -> None:
        # Called for a rejected send that has no call.
        self._on_refused = on_refused
        self._peer_count = peer_count
        self._in_flight: dict[int, AsyncSend] = {}
        self._next_id = 1

    def add(self, call: Call[None] | None, number: int) -> int:
        """Add the send that leaves as packet `number`. Return its correlation id."""
        correlation_id = self._next_id
        self._next_id = correlation_id + 1
        self._in_flight[correlation_id] = AsyncSend(call, number)
        return correlation_id

    @property
    def oldest_number(self) -> int | None:
        """Return the number of the oldest send that has no answer, or None."""
        for send in self._in_flight.values():
            return send.number
        return None

    def on_reply(self, packet: NullResponse | ExceptionResponse) -> None:
        """End the send that the packet answers. Drop a packet that answers no send."""
        correlation_id = packet.correlation_id
        assert correlation_id is not None
        send = self._in_flight.pop(correlation_id, None)
        if send is None:
            return
        if isinstance(packet, NullResponse):
            self._peer_count.on_reply(send.number)
            if send.call is not None:
                send.call.succeed(None)
            return
        self._peer_count.on_exception(send.number)
        error = exception_for(packet.code, packet.message or "")
        if send.call is not None:
            send.call.fail(error)
        elif self._on_refused is not None:
            self._on_refused(error)

    def complete_to(self, number: int) -> None:
        """Complete all sends up to packet `number`: a send without answer gets nothing but this confirmation."""
        while self._in_flight:
            correlation_id = next(iter(self._in_flight))
            if self._in_flight[correlation_id].number > number:
                return
            call = self._in_flight.pop(correlation_id).call
            if call is not None:
                call.succeed(None)

    def forget(self) -> list[AsyncSend]:
        """Remove and return all sends, for a peer that has forgotten the session. The caller ends their calls."""
        sends, self._in_flight = self._in_flight, {}
        return list(sends.values())
