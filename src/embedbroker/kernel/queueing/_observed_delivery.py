"""A consumer's port while deliveries are observed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ._queue import Consumer, ConsumerPort
from ._reference import Reference

__all__ = ["ObservedDelivery"]


class ObservedDelivery:
    """Call observers before each delivery. Browsers have none: looking is no delivery."""

    __slots__ = ("_observers", "_port")

    def __init__(self, port: ConsumerPort, observers: Sequence[Callable[[Consumer, Reference], None]]) -> None:
        self._port = port
        self._observers = observers

    def deliver(self, consumer: Consumer, reference: Reference) -> int:
        for observe in self._observers:
            observe(consumer, reference)
        return self._port.deliver(consumer, reference)

    def deliver_behind(self, point: int, consumer: Consumer, reference: Reference) -> int:
        for observe in self._observers:
            observe(consumer, reference)
        return self._port.deliver_behind(point, consumer, reference)

    def deliver_marker(self, consumer: Consumer, sequence: int) -> None:
        self._port.deliver_marker(consumer, sequence)

    def closed_by_broker(self, consumer: Consumer) -> None:
        self._port.closed_by_broker(consumer)
