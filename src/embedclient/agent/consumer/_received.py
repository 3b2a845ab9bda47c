"""The deliveries of one consumer to a program that chooses itself what to acknowledge.

Responsible for "this message and all received before it" when priorities are mixed. The program received messages in an
order that differs from the broker's, and each packet can only cover its own (core-protocol 7.7). Does not depend on
sessions or packets.

The JMS modes do not need it: there each message is acknowledged when it is handed over, or alone.
"""

from collections import OrderedDict
from collections.abc import Sequence

from .._call import DONE, Call
from ._consumer import Consumer
from ._prefetch import Delivery


class Received:
    """A consumer's deliveries that its program holds and did not acknowledge.

    While priorities are not mixed, only the last one is kept: an acknowledgement of it covers all. Then each is kept,
    by its ids only, until it is acknowledged or goes back.
    """

    __slots__ = ("_consumer", "_each", "_in_order", "_last", "_valid_from")

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._last: Delivery | None = None
        # The last one from before priorities were mixed: one acknowledgement covers all up to it.
        self._in_order: Delivery | None = None
        # Sequence and message id of later deliveries, in the order in which the program received them. Not a dict,
        # which gets slow at its front.
        self._each: OrderedDict[int, int] | None = None
        self._valid_from = 0

    def note(self, deliveries: Sequence[Delivery]) -> None:
        """Record deliveries to the program, at least one."""
        consumer = self._consumer
        if consumer.mixes_priorities:
            each = self._remembered()
            if consumer.acknowledges:
                for delivery in deliveries:
                    each[delivery.sequence] = delivery.message.message_id
        self._last = deliveries[-1]

    def acknowledge(self, delivery: Delivery) -> Call[None]:
        """Acknowledge this delivery and all that the program received before it."""
        consumer = self._consumer
        if not consumer.mixes_priorities:
            self._forget(delivery)
            return consumer.acknowledgements.acknowledge(delivery)
        each, in_order = self._remembered(), self._in_order
        message_ids: list[int] = []
        if delivery.sequence in each:
            self._in_order = None
            message_ids = _taken_through(each, delivery.sequence)
        elif in_order is not None and delivery.sequence <= in_order.sequence:
            in_order = delivery
        else:
            in_order = None
        self._forget(delivery)
        return consumer.acknowledgements.acknowledge_received(delivery, in_order, message_ids)

    def acknowledge_individually(self, delivery: Delivery) -> Call[None]:
        """Acknowledge this delivery only."""
        consumer = self._consumer
        if consumer.mixes_priorities:
            self._remembered().pop(delivery.sequence, None)
        self._forget(delivery)
        return consumer.acknowledgements.acknowledge_individually(delivery)

    def acknowledge_all(self) -> Call[None]:
        """Acknowledge everything that the program received."""
        last = self._last
        if last is None:
            return DONE
        if not self._consumer.mixes_priorities:
            return self.acknowledge(last)
        each, in_order = self._remembered(), self._in_order
        self._last = self._in_order = None
        message_ids = list(each.values())
        each.clear()
        return self._consumer.acknowledgements.acknowledge_received(last, in_order, message_ids)

    def _forget(self, delivery: Delivery) -> None:
        # The broker rejects a second acknowledgement of the same message.
        if delivery is self._in_order:
            self._in_order = None
        if delivery is self._last and not self._each:
            self._last = None

    def _remembered(self) -> OrderedDict[int, int]:
        """Return the recorded deliveries, without those that went back meanwhile."""
        each, valid_from = self._each, self._consumer.valid_from
        if each is None:
            self._in_order = self._last
            each = self._each = OrderedDict()
        elif valid_from != self._valid_from:
            for sequence in [sequence for sequence in each if sequence < valid_from]:
                del each[sequence]
        self._valid_from = valid_from
        return each


def _taken_through(each: OrderedDict[int, int], sequence: int) -> list[int]:
    """Remove this delivery and all in front of it. Return their message ids."""
    message_ids = []
    current = -1
    while current != sequence:
        current, message_id = each.popitem(last=False)
        message_ids.append(message_id)
    return message_ids
