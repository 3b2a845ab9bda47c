"""Sends in flight that nobody blocks for, by their correlation ids (core-protocol 4.4, 7.8).

Responsible for the ids, and for which answer or confirmation ends which send. Refuses to know how the frames travel.
"""

from collections.abc import Callable

from embedclient.engine.core import PeerCount
from embedclient.errors import JMSException, exception_for
from embedclient.wire.core import ExceptionResponse, NullResponse

from .._call import Call


class AsyncSend:
    """A send in flight that nobody blocks for; `call` is None when nobody waits at all."""

    __slots__ = ("call", "number")

    def __init__(self, call: Call[None] | None, number: int) -> None:
        self.call = call
        self.number = number


class AsyncSends:
    """The asynchronous sends of one session, the oldest first."""

    __slots__ = ("_in_flight", "_next_id", "_on_refused", "_peer_count")

    def __init__(self, peer_count: PeerCount, on_refused: Callable[[JMSException], None] | None) -> None:
        # Called for a refused send that has no call of its own.
        self._on_refused = on_refused
        self._peer_count = peer_count
        self._in_flight: dict[int, AsyncSend] = {}
        self._next_id = 1

    def add(self, call: Call[None] | None, number: int) -> int:
        """Takes in the send that leaves as packet `number`; returns its correlation id."""
        correlation_id = self._next_id
        self._next_id = correlation_id + 1
        self._in_flight[correlation_id] = AsyncSend(call, number)
        return correlation_id

    @property
    def oldest_number(self) -> int | None:
        """The number of the oldest send that has no answer, None without one."""
        for send in self._in_flight.values():
            return send.number
        return None

    def on_reply(self, packet: NullResponse | ExceptionResponse) -> None:
        """Ends the send that the packet answers; what belongs to nobody is dropped."""
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
        """Everything up to packet `number` was confirmed, which is all that a send without answer ever hears."""
        while self._in_flight:
            correlation_id = next(iter(self._in_flight))
            if self._in_flight[correlation_id].number > number:
                return
            call = self._in_flight.pop(correlation_id).call
            if call is not None:
                call.succeed(None)

    def forget(self) -> list[AsyncSend]:
        """Gives up all of them, for a peer that has forgotten the session; the caller tells whoever waits."""
        sends, self._in_flight = self._in_flight, {}
        return list(sends.values())
