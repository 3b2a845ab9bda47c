"""Markers: the answer to a consumer that requests everything that can be delivered now.

Responsible for a forced delivery of CORE and for credit that AMQP drains. Does not depend on why a message cannot be
delivered.
"""

from __future__ import annotations

from ._consumer import Consumer

__all__ = ["Markers", "send_marker"]


class Markers:
    """Hold consumers whose marker is sent behind everything that can be delivered. Browsers are not among them."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: dict[Consumer, None] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, consumer: Consumer) -> None:
        """Send the marker of a consumer with `send_all`."""
        self._waiting[consumer] = None

    def forget(self, consumer: Consumer) -> None:
        """Send no marker to a consumer that was removed."""
        self._waiting.pop(consumer, None)

    def send_all(self, *, messages_wait: bool) -> None:
        """Send the markers, except where a message waits only because the peer does not keep up."""
        for consumer in list(self._waiting):
            if consumer.backpressure.is_shut and messages_wait:
                consumer.backpressure.wait(consumer)
            else:
                del self._waiting[consumer]
                send_marker(consumer)


def send_marker(consumer: Consumer) -> None:
    """Answer the last request for a marker; see `Credit.on_marker`, too."""
    sequence, consumer.marker = consumer.marker, None
    assert sequence is not None
    consumer.credit.on_marker()
    consumer.port.deliver_marker(consumer, sequence)
