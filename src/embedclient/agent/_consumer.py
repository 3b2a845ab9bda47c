"""A consumer: its buffer and its acknowledgements.

Responsible for core-protocol 7.7 (batched and individual acknowledgement, expiry on this side, what a close or a
rollback gives back). Refuses to know session modes, for who acknowledges when is decided by the session and its user,
and how credits are counted.

Credits are packets without a reply and overtake requests that wait in the session's line. So do acknowledgements, but
not those of a transaction. History of the fault that this avoids:

1. The connection is lost. A commit waits for the next one; its caller does not.
2. The program receives another message. Its acknowledgement goes into the resend cache, in front of the commit.
3. The session is reattached; the commit takes that message along, and the rollback that follows brings nothing back.
"""

from collections.abc import Callable, Sequence
from typing import Final

from embedclient.agent._call import CONNECTION_ERRORS, DONE, Call, DueCallbacks, Steps, failed_call, run_sequence, wait
from embedclient.agent._consumer_credits import ConsumerCredits
from embedclient.agent._forced_delivery import ForcedDelivery
from embedclient.agent._large import LargeDelivery
from embedclient.agent._line import SessionLine
from embedclient.agent._prefetch import Delivery, Prefetch
from embedclient.agent._queue_state import QueueState
from embedclient.agent._rate import RateLimit, rate_limit
from embedclient.agent._settings import SessionFlags
from embedclient.agent._timers import Timers
from embedclient.errors import ConnectionClosedException, JMSException
from embedclient.model import Instant
from embedclient.wire.core import (
    CoreMessage,
    DeleteQueue,
    NullResponse,
    SessionAcknowledge,
    SessionConsumerClose,
    SessionCreateConsumer,
    SessionExpire,
    SessionIndividualAcknowledge,
    encode_acknowledge,
)

FORCED_DELIVERY_PROPERTY: Final = "_hornetq.forced.delivery.seq"
DEFAULT_PRIORITY: Final = 4


class Consumer:
    """One consumer of a session. Create it with `Session.create_consumer`."""

    __slots__ = (
        "_ack_batch_size",
        "_acknowledges",
        "_blocks_on_acknowledge",
        "_credits",
        "_due",
        "_forced",
        "_in_turn",
        "_individual",
        "_large",
        "_large_bytes_max",
        "_line",
        "_on_end",
        "_on_work",
        "_pending_ack",
        "_pending_ack_bytes",
        "_prefetch",
        "_rate",
        "_ready_due",
        "_rebuilt_from",
        "_sequence",
        "_stopped",
        "_timers",
        "_valid_from",
        "browse_only",
        "closed",
        "closed_error",
        "consumer_id",
        "filter",
        "on_ready",
        "owns_queue",
        "priority",
        "queue",
        "queue_state",
    )

    def __init__(
        self,
        consumer_id: int,
        queue: str,
        queue_state: QueueState,
        line: SessionLine,
        due: DueCallbacks,
        timers: Timers,
        flags: SessionFlags,
        *,
        window: int,
        filter: str | None,
        browse_only: bool,
        priority: int,
        blocks_on_acknowledge: bool,
        started: bool,
        large_bytes_max: int,
        max_rate: int,
        on_work: Callable[[bool], None] | None,
        on_end: Callable[["Consumer"], None],
    ) -> None:
        """`on_work` is told of every acknowledgement, and whether it comes too late: what it is for was lost."""
        self.consumer_id = consumer_id
        self.queue = queue
        self.queue_state = queue_state
        self.filter = filter
        self.browse_only = browse_only
        self.priority = priority
        self.owns_queue = False
        self.closed = False
        self.closed_error: JMSException | None = None
        self.on_ready: Callable[[Consumer], None] | None = None
        self._line = line
        self._due = due
        self._timers = timers
        self._rate = rate_limit(max_rate)
        self._on_work = on_work
        self._on_end = on_end
        self._acknowledges = not browse_only and not flags.pre_acknowledge
        self._ack_batch_size = flags.ack_batch_size
        self._blocks_on_acknowledge = blocks_on_acknowledge
        # Behind a commit that waits, and behind others: of two the first says nothing new when it comes second.
        self._in_turn = on_work is not None or blocks_on_acknowledge
        self._prefetch = Prefetch()
        self._large: LargeDelivery | None = None
        self._large_bytes_max = large_bytes_max
        self._ready_due = False
        # Browsers work in a session that was never started.
        self._stopped = not started and not browse_only
        self._sequence = 0
        # Deliveries before this one belong to a session that was rebuilt, or were rolled back.
        self._valid_from = 0
        # Deliveries before this one came in a session that the broker forgot.
        self._rebuilt_from = 0
        self._individual = False
        self._pending_ack: Delivery | None = None
        self._pending_ack_bytes = 0
        self._credits = ConsumerCredits(consumer_id, line, window)
        self._forced = ForcedDelivery(consumer_id, line, due, self._become_ready)

    # --- deliveries ---

    @property
    def acknowledges(self) -> bool:
        """Whether the broker waits for acknowledgements of what it delivers."""
        return self._acknowledges

    @property
    def mixes_priorities(self) -> bool:
        """Whether messages may be given out in another order than they came."""
        return self._individual

    @property
    def valid_from(self) -> int:
        """Deliveries before this one need no acknowledgement any more: it was sent, or they went back."""
        return self._valid_from

    @property
    def buffered(self) -> int:
        """How many messages `next` has at hand, expired ones included."""
        return len(self._prefetch)

    def on_message(self, message: CoreMessage, delivery_count: int, frame_size: int) -> None:
        """Takes in one delivery from the broker."""
        # Markers carry count 0. So may messages of browsers, whose deliveries do not count.
        if delivery_count == 0:
            marker = message.property(FORCED_DELIVERY_PROPERTY)
            if isinstance(marker, int):
                self._forced.on_arrived(marker)
                return
        sequence = self._sequence
        self._sequence = sequence + 1
        priority = message.priority
        if priority != DEFAULT_PRIORITY:
            # From now on the buffer may hand out messages in another order than the broker delivered them, so that "up
            # to this one" would acknowledge messages nobody has seen.
            if not self._individual:
                self.flush_acknowledgements()
            self._individual = True
        if self._credits.threshold == 0:
            frame_size = self._credits.cost_of_wanted(frame_size)
        self._prefetch.put(Delivery(message, delivery_count, self, frame_size, sequence), priority)
        if not self._ready_due and not self._stopped:
            self._become_ready()

    def on_large_message(self, message: CoreMessage, delivery_count: int, frame_size: int) -> None:
        """Takes in the headers of a large delivery."""
        self._large = LargeDelivery(message, delivery_count, frame_size, self._large_bytes_max)

    def on_continuation(self, chunk: bytes, continues: bool, frame_size: int) -> None:
        """Takes in one chunk. All but the last are paid for at once, or the broker would stop in the middle.

        Raises RemoteProtocolError for a body beyond the limit.
        """
        large = self._large
        if large is None:
            return
        large.add(chunk)
        if continues:
            self._credits.pay_for_chunk(large.frame_size)
            large.frame_size = frame_size
            return
        self._large = None
        self._credits.pay_for_chunk(large.frame_size)
        self.on_message(large.finish(), large.delivery_count, frame_size)

    def _become_ready(self) -> None:
        if not self._ready_due:
            self._ready_due = True
            self._due.add(self._tell_ready)

    def _tell_ready(self) -> None:
        self._ready_due = False
        if self.on_ready is not None:
            self.on_ready(self)

    def next(self, now: Instant) -> Delivery | None:
        """The next message that is not expired; None when there is none or the session is stopped."""
        prefetch = self._prefetch
        credits = self._credits
        while prefetch.highest >= 0 and not self._stopped and not self.closed:
            if self._rate is not None and not self._passes(self._rate, now):
                return None
            delivery = prefetch.take()
            consumed = credits.consumed_bytes + delivery.frame_size
            if consumed < credits.threshold:
                credits.consumed_bytes = consumed
            else:
                credits.give_back(delivery.frame_size)
            expiration = delivery.message.expiration
            if not expiration or expiration > now.wall_ms:
                credits.waiting = False
                return delivery
            self._expire(delivery)
            credits.want_again(prefetch.highest >= 0)
        return None

    def put_back(self, delivery: Delivery) -> None:
        """Undoes `next`, at once: the delivery is the next one again. Its credits have been returned already."""
        if not self.closed:
            delivery.frame_size = 0
            self._prefetch.put_back(delivery, delivery.message.priority)

    def _passes(self, rate: RateLimit, now: Instant) -> bool:
        if rate.take(now.monotonic):
            return True
        rate.wake(self._timers, self._become_ready)
        return False

    def _expire(self, delivery: Delivery) -> None:
        if self._acknowledges:
            self._line.post(SessionExpire(self.consumer_id, delivery.message.message_id))

    # --- credits ---

    def open_window(self) -> None:
        """Grants the first credits."""
        self._credits.open()

    def want(self) -> None:
        """A caller waits. With window 0 this asks the broker for one message, once."""
        if not self.closed:
            self._credits.want(self._prefetch.highest >= 0)

    def give_up(self) -> None:
        """The caller stopped waiting. With window 0 the broker must not send to nobody; what is underway is kept."""
        self._credits.give_up()

    # --- forced delivery ---

    def force_delivery(self) -> Call[None]:
        """Asks for everything that can be delivered now; done when the broker has nothing more."""
        if self.closed:
            return failed_call(self._closed_failure())
        return self._forced.ask()

    # --- acknowledgement ---

    def acknowledge(self, delivery: Delivery) -> Call[None]:
        """Acknowledges this delivery and all before it, in batches; this one alone once priorities are mixed.

        Without a batch size an acknowledgement leaves with the next output. The packet is cumulative, so of all that
        would leave together only the last one is made.
        """
        if not self._has_effect(delivery):
            return DONE
        if self._individual:
            return self._acknowledge_alone(delivery.message.message_id)
        pending = self._pending_ack
        if pending is None or delivery.sequence > pending.sequence:
            self._pending_ack = delivery
        if self._ack_batch_size:
            self._pending_ack_bytes += delivery.message.size
            if self._pending_ack_bytes < self._ack_batch_size:
                return DONE
        elif not self._blocks_on_acknowledge:
            if pending is None:
                self._due.add(self._flush_if_open)
            return DONE
        return self._acknowledge_up_to(self._pending_ack or delivery, self._blocks_on_acknowledge)

    def acknowledge_individually(self, delivery: Delivery) -> Call[None]:
        """Acknowledges this delivery only."""
        if not self._has_effect(delivery):
            return DONE
        return self._acknowledge_alone(delivery.message.message_id)

    def acknowledge_received(
        self, delivery: Delivery, in_order: Delivery | None, message_ids: Sequence[int]
    ) -> Call[None]:
        """Acknowledges this delivery with others that its program got, although priorities are mixed.

        `in_order` and all before it were given out in the order in which they came; of the others each is named.
        """
        if not self._has_effect(delivery):
            return DONE
        calls = []
        if in_order is not None and in_order.sequence >= self._valid_from:
            calls.append(self._acknowledge_up_to(in_order, self._blocks_on_acknowledge))
        calls += [self._acknowledge_alone(message_id) for message_id in message_ids]
        return self._all_of(calls) if self._blocks_on_acknowledge else DONE

    def _all_of(self, calls: Sequence[Call[None]]) -> Call[None]:
        def steps() -> Steps[None]:
            for call in calls:
                yield from wait(call)

        return run_sequence(steps(), self._due)

    def _acknowledge_alone(self, message_id: int) -> Call[None]:
        if self._blocks_on_acknowledge:
            return self._answered(SessionIndividualAcknowledge(self.consumer_id, message_id, True))
        self._post_acknowledgement(message_id, individual=True)
        return DONE

    def _has_effect(self, delivery: Delivery) -> bool:
        """Whether the broker can be told. In a transaction it is work either way, which is lost if it cannot."""
        if not self._acknowledges:
            return False
        if self._on_work is not None:
            # What a closed consumer had not acknowledged is back in its queue.
            unknown = self.closed and delivery.sequence >= self._valid_from
            self._on_work(unknown or delivery.sequence < self._rebuilt_from)
        return delivery.sequence >= self._valid_from

    def gave_back(self, delivery: Delivery) -> bool:
        """Whether the broker has it back, with a session it forgot or with a rollback: it is going to come again."""
        return self._acknowledges and delivery.sequence < self._valid_from

    def flush_acknowledgements(self) -> None:
        """Sends what the batch holds, without waiting."""
        if self._pending_ack is not None:
            self._acknowledge_up_to(self._pending_ack, False)

    def _flush_if_open(self) -> None:
        if not self.closed:
            self.flush_acknowledgements()

    def _acknowledge_up_to(self, delivery: Delivery, blocking: bool) -> Call[None]:
        self._pending_ack = None
        self._pending_ack_bytes = 0
        # A second cumulative acknowledgement of the same message would take everything the broker has delivered.
        self._valid_from = delivery.sequence + 1
        if blocking:
            return self._answered(SessionAcknowledge(self.consumer_id, delivery.message.message_id, True))
        self._post_acknowledgement(delivery.message.message_id, individual=False)
        return DONE

    def _post_acknowledgement(self, message_id: int, *, individual: bool) -> None:
        line = self._line
        if self._in_turn and line.backlog:
            kind = SessionIndividualAcknowledge if individual else SessionAcknowledge
            line.post_in_turn(kind(self.consumer_id, message_id, False))
        elif line.closed_error is None:
            line.post_frame(encode_acknowledge(line.channel_id, self.consumer_id, message_id, False, individual))

    def _answered(self, packet: SessionAcknowledge | SessionIndividualAcknowledge) -> Call[None]:
        def steps() -> Steps[None]:
            yield from wait(self._line.request(packet, NullResponse))

        return run_sequence(steps(), self._due)

    # --- stop, rollback, rebuild, close ---

    def stop(self) -> None:
        """Gives nothing out from now on; a browser goes on."""
        if not self.browse_only:
            self._stopped = True

    def start(self) -> None:
        """Gives out what is there."""
        self._stopped = False
        if self._prefetch.highest >= 0:
            self._become_ready()
        self._forced.release()

    def hold(self) -> None:
        """In a session that is going to be made again: what it holds is given to nobody."""
        self.stop()
        self._forced.hold()

    def release(self) -> None:
        """A reconnect or a rollback is over in a session that is stopped; a browser goes on."""
        if self.browse_only:
            self.start()
        else:
            self._forced.release()

    def roll_back(self) -> None:
        """The broker will deliver again what was not committed: forgets it and returns the credits it holds.

        Browsers keep their buffer, nothing of theirs comes back; so do consumers of pre-acknowledged messages.
        """
        self._forced.hold(again=True)
        if not self._acknowledges:
            return
        # Each on its own: with window 0 every message cost a credit beyond its size.
        for delivery in self._prefetch.clear():
            self._credits.give_back(delivery.frame_size)
        self.flush_acknowledgements()
        self._valid_from = self._sequence
        self._credits.want_again(self._prefetch.highest >= 0)

    def rebuild(self, started: bool) -> None:
        """Makes the consumer again in a rebuilt session (core-protocol 7.3); its queue exists again by now.

        What the broker delivers from now on is given out when the whole reconnect is complete and listeners have heard
        of it: they need to know that what they hold is going to come again.
        """
        self._forget_deliveries()
        self._stopped = True
        self._pending_ack = None
        self._pending_ack_bytes = 0
        self._valid_from = self._rebuilt_from = self._sequence
        line = self._line
        line.post_rebuilding(
            SessionCreateConsumer(self.consumer_id, self.queue, self.filter, self.browse_only, False, self.priority)
        )
        self._credits.rebuild()
        self._forced.rebuild(started)

    def _forget_deliveries(self) -> None:
        for _ in self._prefetch.clear():
            pass
        self._large = None

    def on_disconnected(self, error: JMSException) -> None:
        """The broker closed the consumer, because its queue was deleted or by management."""
        if not self.closed:
            # The broker may know the consumer until it is closed from here. If it does not, no commit of it succeeds.
            self.flush_acknowledgements()
            self._end(error)
            self._line.request(SessionConsumerClose(self.consumer_id), NullResponse)

    def close(self) -> Call[None]:
        """Closes it; unacknowledged messages go back to the queue. Never fails for a connection that is gone."""
        if self.closed:
            return DONE
        self.flush_acknowledgements()
        self._end(ConnectionClosedException("the consumer is closed"))
        return run_sequence(self._close_steps(), self._due)

    def _close_steps(self) -> Steps[None]:
        try:
            yield from wait(self._line.request(SessionConsumerClose(self.consumer_id), NullResponse))
            if self.owns_queue:
                yield from wait(self._line.request(DeleteQueue(self.queue), NullResponse))
        except JMSException as error:
            # With its session or connection the consumer is closed too.
            if error.error_code not in CONNECTION_ERRORS:
                raise

    def end(self, error: JMSException) -> None:
        """The session is closed."""
        if not self.closed:
            self._end(error)

    def _end(self, error: JMSException) -> None:
        self.closed = True
        self.closed_error = error
        self._forget_deliveries()
        self._on_end(self)
        self._forced.fail(error)
        self._become_ready()

    def _closed_failure(self) -> JMSException:
        return self.closed_error or ConnectionClosedException("the consumer is closed")
