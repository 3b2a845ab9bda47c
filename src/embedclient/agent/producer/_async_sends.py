"""Sends in flight without a blocked caller, by their correlation ids (core-protocol 4.4, 7.8).

Responsible for the ids, and for which answer or confirmation ends which send. Does not depend on the transport of
frames.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeAlias

from embedclient.engine.core import PeerCount
from embedclient.errors import JMSException, exception_for
from embedclient.wire.core import ExceptionResponse


class Receipt(Protocol):
    """Takes the outcome of a send. A `Call` is one; a sender of many messages has a smaller object."""

    def succeed(self, result: None, /) -> None:
        """Note that the broker has confirmed the message."""

    def fail(self, error: JMSException, /) -> None:
        """Note that the broker has refused the message, or that its answer will not come."""


AsyncSend: TypeAlias = tuple[Receipt | None, int]
"""A send in flight without a blocked caller: its receipt, unless no caller waits at all, and its number."""


class AsyncSends:
    """The asynchronous sends of one session, the oldest first."""

    __slots__ = ("_in_flight", "_next_id", "_on_refused", "_peer_count")

    def __init__(self, peer_count: PeerCount, on_refused: Callable[[JMSException], None] | None) -> None:
        # Called for a rejected send that has no call.
        self._on_refused = on_refused
        self._peer_count = peer_count
        self._in_flight: dict[int, AsyncSend] = {}
        self._next_id = 1

    def add(self, receipt: Receipt | None, number: int) -> int:
        """Add the send that leaves as packet `number`. Return its correlation id."""
        correlation_id = self._next_id
        self._next_id = correlation_id + 1
        self._in_flight[correlation_id] = receipt, number
        return correlation_id

    def add_run(self, receipts: Sequence[Receipt], count: int, number: int) -> int:
        """Add sends that leave as packets from ``number`` on, with the first of the receipts. Return the first id."""
        first = self._next_id
        self._next_id = first + count
        self._in_flight.update(
            zip(range(first, first + count), zip(receipts, range(number, number + count), strict=False), strict=False)
        )
        return first

    @property
    def oldest_number(self) -> int | None:
        """Return the number of the oldest send that has no answer, or None."""
        for _receipt, number in self._in_flight.values():
            return number
        return None

    def on_confirmed(self, correlation_id: int) -> None:
        """End the send that the broker has answered. Drop an answer to no send."""
        send = self._in_flight.pop(correlation_id, None)
        if send is not None:
            receipt, number = send
            self._peer_count.on_reply(number)
            if receipt is not None:
                receipt.succeed(None)

    def on_confirmed_run(self, correlation_ids: Iterable[int]) -> None:
        """End the sends that the broker has answered, as `on_confirmed` does with each."""
        pop, newest = self._in_flight.pop, -1
        for correlation_id in correlation_ids:
            send = pop(correlation_id, None)
            if send is not None:
                receipt, number = send
                newest = max(newest, number)
                if receipt is not None:
                    receipt.succeed(None)
        self._peer_count.on_reply(newest)

    def on_exception(self, packet: ExceptionResponse) -> None:
        """End the send that the broker has refused. Drop an answer to no send."""
        correlation_id = packet.correlation_id
        assert correlation_id is not None
        send = self._in_flight.pop(correlation_id, None)
        if send is None:
            return
        receipt, number = send
        self._peer_count.on_exception(number)
        error = exception_for(packet.code, packet.message or "")
        if receipt is not None:
            receipt.fail(error)
        elif self._on_refused is not None:
            self._on_refused(error)

    def complete_to(self, number: int) -> None:
        """Complete all sends up to packet `number`: a send without answer gets nothing but this confirmation."""
        while self._in_flight:
            correlation_id = next(iter(self._in_flight))
            if self._in_flight[correlation_id][1] > number:
                return
            receipt, _number = self._in_flight.pop(correlation_id)
            if receipt is not None:
                receipt.succeed(None)

    def forget(self) -> list[AsyncSend]:
        """Remove and return all sends, for a peer that has forgotten the session. The caller ends them."""
        sends, self._in_flight = self._in_flight, {}
        return list(sends.values())
