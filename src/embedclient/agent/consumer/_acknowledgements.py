"""The acknowledgements of one consumer: their packets, and when each leaves (core-protocol 7.7).

Responsible for batches, for acknowledging each alone once priorities are mixed, and for deliveries that need no
acknowledgement any more. Does not depend on the buffer. The session and its user decide when to acknowledge.

Acknowledgements overtake requests that wait in the session's channel, except in a transaction. History of the fault
that this avoids:

1. The connection is lost. A commit waits for the next one; its caller does not.
2. The program receives another message. Its acknowledgement goes into the resend cache, in front of the commit.
3. The session is reattached; the commit includes that message, and the rollback that follows brings nothing back.
"""

from collections.abc import Callable, Sequence

from embedclient.wire.core import (
    NullResponse,
    SessionAcknowledge,
    SessionExpire,
    SessionIndividualAcknowledge,
    encode_acknowledge,
)

from .._call import DONE, Call, DueCallbacks, Steps, run_sequence, wait
from ..session._channel import SessionChannel
from ._prefetch import Delivery


class Acknowledgements:
    """A consumer's acknowledgements, due and sent. `closed`: no more are sent."""

    __slots__ = (
        "_batch_size",
        "_blocks",
        "_channel",
        "_consumer_id",
        "_due",
        "_in_turn",
        "_on_work",
        "_pending",
        "_pending_bytes",
        "_rebuilt_from",
        "closed",
        "individual",
        "required",
        "valid_from",
    )

    def __init__(
        self,
        consumer_id: int,
        channel: SessionChannel,
        due: DueCallbacks,
        *,
        required: bool,
        batch_size: int,
        blocks: bool,
        on_work: Callable[[bool], None] | None,
    ) -> None:
        """Call `on_work` for every acknowledgement.

        Its argument: the acknowledgement is too late, its delivery was lost.
        """
        self.closed = False
        # Whether the broker waits for acknowledgements of its deliveries.
        self.required = required
        # The order in which messages are given out may differ from their arrival.
        self.individual = False
        # Deliveries before this one need none any more: it was sent, or they went back.
        self.valid_from = 0
        # Deliveries before this one came in a session that the broker forgot.
        self._rebuilt_from = 0
        self._consumer_id = consumer_id
        self._channel = channel
        self._due = due
        self._batch_size = batch_size
        self._blocks = blocks
        self._on_work = on_work
        # Behind a waiting commit, and behind other acknowledgements: of two, the first has no effect when it comes
        # second.
        self._in_turn = on_work is not None or blocks
        self._pending: Delivery | None = None
        self._pending_bytes = 0

    def make_individual(self) -> None:
        """Acknowledge each message alone from now on: "up to this one" would include messages not yet given out."""
        if not self.individual:
            self.flush()
        self.individual = True

    def acknowledge(self, delivery: Delivery) -> Call[None]:
        """Acknowledge this delivery and all before it, in batches. Acknowledge it alone once priorities are mixed.

        Without a batch size an acknowledgement leaves with the next output. The packet is cumulative, so only the last
        of those that would leave together is made.
        """
        if not self._has_effect(delivery):
            return DONE
        if self.individual:
            return self._acknowledge_alone(delivery.message.message_id)
        pending = self._pending
        if pending is None or delivery.sequence > pending.sequence:
            self._pending = delivery
        if self._batch_size:
            self._pending_bytes += delivery.message.encoded_size
            if self._pending_bytes < self._batch_size:
                return DONE
        elif not self._blocks:
            if pending is None:
                self._due.add(self._flush_if_open)
            return DONE
        return self._acknowledge_up_to(self._pending or delivery, self._blocks)

    def acknowledge_individually(self, delivery: Delivery) -> Call[None]:
        """Acknowledge this delivery only."""
        if not self._has_effect(delivery):
            return DONE
        return self._acknowledge_alone(delivery.message.message_id)

    def acknowledge_received(
        self, delivery: Delivery, in_order: Delivery | None, message_ids: Sequence[int]
    ) -> Call[None]:
        """Acknowledge this delivery with others that its program received, although priorities are mixed.

        `in_order` and all before it were given out in the order of their arrival; the others are named one by one.
        """
        if not self._has_effect(delivery):
            return DONE
        calls = []
        if in_order is not None and in_order.sequence >= self.valid_from:
            calls.append(self._acknowledge_up_to(in_order, self._blocks))
        calls += [self._acknowledge_alone(message_id) for message_id in message_ids]
        return self._all_of(calls) if self._blocks else DONE

    def expire(self, message_id: int) -> None:
        """Report a message that was too old to be given out."""
        if self.required:
            self._channel.post(SessionExpire(self._consumer_id, message_id))

    def _all_of(self, calls: Sequence[Call[None]]) -> Call[None]:
        def steps() -> Steps[None]:
            for call in calls:
                yield from wait(call)

        return run_sequence(steps(), self._due)

    def _acknowledge_alone(self, message_id: int) -> Call[None]:
        if self._blocks:
            return self._answered(SessionIndividualAcknowledge(self._consumer_id, message_id, True))
        self._post(message_id, individual=True)
        return DONE

    def _has_effect(self, delivery: Delivery) -> bool:
        """Return True if the acknowledgement can reach the broker.

        In a transaction it counts as work, lost if it cannot.
        """
        if not self.required:
            return False
        if self._on_work is not None:
            # A closed consumer's unacknowledged messages are back in the queue.
            unknown = self.closed and delivery.sequence >= self.valid_from
            self._on_work(unknown or delivery.sequence < self._rebuilt_from)
        return delivery.sequence >= self.valid_from

    def gave_back(self, delivery: Delivery) -> bool:
        """Return True if the delivery is going to come again: the broker forgot its session, or rolled it back."""
        return self.required and delivery.sequence < self.valid_from

    def flush(self) -> None:
        """Send the acknowledgement of the batch, without waiting."""
        if self._pending is not None:
            self._acknowledge_up_to(self._pending, False)

    def _flush_if_open(self) -> None:
        if not self.closed:
            self.flush()

    def _acknowledge_up_to(self, delivery: Delivery, blocking: bool) -> Call[None]:
        self._pending = None
        self._pending_bytes = 0
        # A second cumulative acknowledgement of the same message would include all of the broker's deliveries.
        self.valid_from = delivery.sequence + 1
        if blocking:
            return self._answered(SessionAcknowledge(self._consumer_id, delivery.message.message_id, True))
        self._post(delivery.message.message_id, individual=False)
        return DONE

    def _post(self, message_id: int, *, individual: bool) -> None:
        channel = self._channel
        if self._in_turn and channel.backlog:
            kind = SessionIndividualAcknowledge if individual else SessionAcknowledge
            channel.post_in_turn(kind(self._consumer_id, message_id, False))
        elif channel.closed_error is None:
            channel.post_frame(encode_acknowledge(channel.channel_id, self._consumer_id, message_id, False, individual))

    def _answered(self, packet: SessionAcknowledge | SessionIndividualAcknowledge) -> Call[None]:
        def steps() -> Steps[None]:
            yield from wait(self._channel.request(packet, NullResponse))

        return run_sequence(steps(), self._due)

    def go_back(self, before: int) -> None:
        """Mark the deliveries before this one as coming again, except those acknowledged by now."""
        self.flush()
        self.valid_from = before

    def rebuild(self, before: int) -> None:
        """Mark the deliveries before this one as belonging to a session that the broker has forgotten."""
        self._pending = None
        self._pending_bytes = 0
        self.valid_from = self._rebuilt_from = before
