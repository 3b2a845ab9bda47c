"""A consumer: its buffer, and the handling of its deliveries.

Responsible for which messages are given out (in which order, at what rate, no expired ones), and for the effect of a
close, a rollback or a rebuild. Does not depend on session modes, on the counting of credits or on the form of
acknowledgements.
"""

from collections.abc import Callable
from typing import Final

from embedclient.errors import ConnectionClosedException, ErrorCode, JMSException, exception_for
from embedclient.model import Instant
from embedclient.wire.core import (
    CoreMessage,
    DeleteQueue,
    NullResponse,
    SessionConsumerClose,
    SessionCreateConsumer,
)

from .._call import CONNECTION_ERRORS, DONE, Call, DueCallbacks, Steps, failed_call, run_sequence, wait
from .._rate import rate_limit
from .._settings import SessionFlags
from .._timers import Timers
from ..session._channel import SessionChannel
from ..session._queue_state import QueueState
from ._acknowledgements import Acknowledgements
from ._credits import ConsumerCredits
from ._forced_delivery import ForcedDelivery
from ._large_message import BodyUse, LargeBody, LargeDelivery
from ._prefetch import Delivery, Prefetch

FORCED_DELIVERY_PROPERTY: Final = "_hornetq.forced.delivery.seq"
DEFAULT_PRIORITY: Final = 4


class Consumer:
    """A session's consumer. Create it with `Session.create_consumer`."""

    __slots__ = (
        "_arriving",
        "_channel",
        "_credits",
        "_due",
        "_forced",
        "_gated",
        "_given",
        "_large_count",
        "_loaded_bytes_max",
        "_on_end",
        "_prefetch",
        "_rate",
        "_ready_due",
        "_sequence",
        "_stopped",
        "_timers",
        "acknowledgements",
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
        channel: SessionChannel,
        due: DueCallbacks,
        timers: Timers,
        flags: SessionFlags,
        *,
        window: int,
        filter: str | None,
        browse_only: bool,
        priority: int,
        blocks_on_acknowledge: bool,
        loaded_bytes_max: int,
        max_rate: int,
        on_work: Callable[[bool], None] | None,
        on_end: Callable[["Consumer"], None],
    ) -> None:
        """Call `on_work` for every acknowledgement.

        Its argument: the acknowledgement is too late, its delivery was lost. Bodies of large messages up to
        `loaded_bytes_max` are loaded into memory; -1 is no limit.
        """
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
        self._channel = channel
        self._due = due
        self._timers = timers
        self._rate = rate_limit(max_rate)
        self._on_end = on_end
        self.acknowledgements = Acknowledgements(
            consumer_id,
            channel,
            due,
            required=not browse_only and not flags.pre_acknowledge,
            batch_size=flags.ack_batch_size,
            blocks=blocks_on_acknowledge,
            on_work=on_work,
        )
        self._prefetch = Prefetch()
        # The large message whose body is not complete yet. The broker sends one at a time to a consumer.
        self._arriving: LargeDelivery | None = None
        # The body of the message that the program received last, if it reads it in chunks.
        self._given: LargeBody | None = None
        # How many large messages are in the buffer.
        self._large_count = 0
        self._loaded_bytes_max = loaded_bytes_max
        # Whether `next` must look at the rate or at large messages: for few messages, so that the others cost nothing.
        self._gated = self._rate is not None
        self._ready_due = False
        # Browsers work in a session that was never started.
        self._stopped = not browse_only
        self._sequence = 0
        self._credits = ConsumerCredits(consumer_id, channel, window)
        self._forced = ForcedDelivery(consumer_id, channel, due, self._become_ready)

    # --- deliveries ---

    @property
    def acknowledges(self) -> bool:
        """Return True if the broker waits for acknowledgements of its deliveries."""
        return self.acknowledgements.required

    @property
    def mixes_priorities(self) -> bool:
        """Return True if the order in which messages are given out may differ from their arrival."""
        return self.acknowledgements.individual

    @property
    def valid_from(self) -> int:
        """Return the sequence below which deliveries need no acknowledgement: it was sent, or they went back."""
        return self.acknowledgements.valid_from

    @property
    def buffered(self) -> int:
        """Return the number of messages that `next` can return, expired ones included."""
        return len(self._prefetch)

    def on_message(self, message: CoreMessage, delivery_count: int, frame_size: int) -> None:
        """Add one delivery from the broker."""
        # Markers carry count 0. Messages of browsers may do so, too: their deliveries do not count.
        if delivery_count == 0:
            marker = message.property(FORCED_DELIVERY_PROPERTY)
            # A marker has its number only; a message that a browser shows may have a property of this name.
            if isinstance(marker, int) and not isinstance(marker, bool) and len(message.properties) == 1:
                if not self._large_count or self._is_first_whole():
                    self._forced.on_arrived(marker)
                return
        sequence = self._sequence
        self._sequence = sequence + 1
        priority = message.priority
        if priority != DEFAULT_PRIORITY:
            # From now on the buffer may give out messages in an order that differs from the broker's.
            self.acknowledgements.make_individual()
        if self._credits.threshold == 0:
            frame_size = self._credits.cost_of_wanted(frame_size)
        self._prefetch.put(Delivery(message, delivery_count, self.acknowledgements, frame_size, sequence), priority)
        if not self._ready_due and not self._stopped:
            self._become_ready()

    def on_large_message(self, message: CoreMessage, delivery_count: int, size: int, frame_size: int) -> None:
        """Add the headers of a large delivery, whose body of `size` bytes follows in chunks."""
        self._abandon_arriving(_delivered_again())
        sequence = self._sequence
        self._sequence = sequence + 1
        priority = message.priority
        if priority != DEFAULT_PRIORITY:
            self.acknowledgements.make_individual()
        if self._credits.threshold == 0:
            frame_size = self._credits.cost_of_wanted(frame_size)
        delivery = LargeDelivery(
            message,
            delivery_count,
            self.acknowledgements,
            frame_size,
            sequence,
            LargeBody(size, self._credits, self._due),
            self._credits,
            self._loaded_bytes_max,
        )
        self._arriving = delivery
        self._credits.is_pressed = len(self._prefetch) > 0
        self._large_count += 1
        self._gated = True
        self._prefetch.put(delivery, priority)
        if self._forced.is_requested and self._is_first_whole():
            self._forced.end_with_message()
        if not self._stopped:
            self._become_ready()

    def on_continuation(self, chunk: bytes, continues: bool, frame_size: int) -> None:
        """Add one chunk of the large delivery.

        Raise RemoteProtocolError for a body that is longer or shorter than announced.
        """
        delivery = self._arriving
        if delivery is None:
            self._credits.pay_for_abandoned(frame_size)
            return
        delivery.body.add(chunk, continues, frame_size)
        if continues:
            return
        self._arriving = None
        if delivery.body.use is BodyUse.LOADED:
            delivery.finish()
            self._forced.end_with_message()
            if not self._stopped:
                self._become_ready()

    @property
    def receives_large(self) -> bool:
        """Return True if a large message is wanted whose body is not complete."""
        arriving = self._arriving
        return arriving is not None and arriving.body.use is not BodyUse.DROPPED

    def _is_first_whole(self) -> bool:
        """Return True if the first message of the buffer can be given out, as soon as the session delivers.

        Begin to load the body of a large one: a program waits for it.
        """
        first = self._prefetch.first if self._prefetch.highest >= 0 else None
        return not isinstance(first, LargeDelivery) or not first.loads or first.load()

    def _give_out(self, delivery: LargeDelivery, now: Instant) -> None:
        """Handle that a large message leaves the buffer."""
        self._large_count -= 1
        delivery.pay_for_header()
        if delivery.is_expired(now):
            delivery.body.drop(JMSException("the message has expired"))
        elif not delivery.loads:
            delivery.body.use = BodyUse.READ
            self._given = delivery.body
        self._update_gate()

    def _drop_given(self) -> None:
        """Give up the rest of the body that the program did not read: it wants the next message."""
        given, self._given = self._given, None
        if given is not None and given.use is BodyUse.READ and not given.exhausted:
            given.drop(
                JMSException(
                    "the rest of the body was dropped, because the consumer received the next message; read it before"
                )
            )
        self._update_gate()

    def _abandon_arriving(self, error: JMSException) -> None:
        """Give up the large message whose delivery the broker has ended in the middle, if there is one."""
        arriving, self._arriving = self._arriving, None
        if arriving is None:
            return
        arriving.abandon(error)
        if self._prefetch.remove(arriving, arriving.message.priority):
            self._large_count -= 1
            self._update_gate()

    def _update_gate(self) -> None:
        self._gated = self._rate is not None or self._large_count > 0 or self._given is not None

    def _become_ready(self) -> None:
        if not self._ready_due:
            self._ready_due = True
            self._due.add(self._notify_ready)

    def _notify_ready(self) -> None:
        self._ready_due = False
        if self.on_ready is not None:
            self.on_ready(self)

    def next(self, now: Instant) -> Delivery | None:
        """Return the next message that is not expired. Return None if there is no message or the session is stopped."""
        prefetch = self._prefetch
        credits = self._credits
        while prefetch.highest >= 0 and not self._stopped and not self.closed:
            if self._gated and not self._passes(now):
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
            self.acknowledgements.expire(delivery.message.message_id)
            credits.want_again(prefetch.highest >= 0)
        if self._given is not None:
            self._drop_given()
        return None

    def put_back(self, delivery: Delivery) -> None:
        """Undo `next` at once: the delivery is the next one again. Its credits have been returned already."""
        if not self.closed:
            delivery.frame_size = 0
            self._prefetch.put_back(delivery, delivery.message.priority)
            if isinstance(delivery, LargeDelivery):
                self._large_count += 1
                if delivery.body is self._given:
                    self._given = None
                    delivery.body.use = BodyUse.HELD
                self._update_gate()

    def _passes(self, now: Instant) -> bool:
        """Return True if the first message of the buffer may be given out now."""
        if self._given is not None:
            self._drop_given()
        large: LargeDelivery | None = None
        if self._large_count:
            first = self._prefetch.first
            if isinstance(first, LargeDelivery):
                if first.loads and not first.is_expired(now) and not first.load():
                    return False
                large = first
        if self._rate is not None and not self._rate.take(now.monotonic):
            self._rate.wake(self._timers, self._become_ready)
            return False
        if large is not None:
            self._give_out(large, now)
        return True

    # --- credits ---

    def open_window(self) -> None:
        """Grant the first credits."""
        self._credits.open()

    def want(self) -> None:
        """Register a waiting caller. With window 0 this requests one message from the broker, once."""
        if not self.closed:
            self._credits.want(self._prefetch.highest >= 0)

    def give_up(self) -> None:
        """End the wait of a caller. With window 0 the broker must not send more; a message in transit is kept."""
        self._credits.give_up()

    # --- forced delivery ---

    def force_delivery(self) -> Call[None]:
        """Request all messages that can be delivered now. The call is done when the broker has no more."""
        if self.closed:
            return failed_call(self._closed_failure())
        return self._forced.request_all()

    # --- stop, rollback, rebuild, close ---

    def stop(self) -> None:
        """Stop giving out messages. A browser continues."""
        if not self.browse_only:
            self._stopped = True

    def start(self) -> None:
        """Give out the messages in the buffer."""
        self._stopped = False
        if self._prefetch.highest >= 0:
            self._become_ready()
        self._forced.release()

    def pause(self) -> None:
        """Begin a rollback: marks that come from now on carry no information. Ended by `start` or `release`."""
        self.stop()
        self._forced.hold(again=True)

    def hold(self) -> None:
        """Hold the messages of a session that is going to be made again: none is given out."""
        self.stop()
        self._forced.hold()

    def release(self) -> None:
        """End a reconnect or a rollback in a session that is stopped. A browser continues."""
        if self.browse_only:
            self.start()
        else:
            self._forced.release()

    def roll_back(self) -> None:
        """Forget the uncommitted messages, which the broker will deliver again, and return their credits.

        Browsers keep their buffer, because none of their messages comes again. Consumers of pre-acknowledged messages
        keep theirs, too.
        """
        error = _delivered_again()
        self._abandon_arriving(error)
        if not self.acknowledgements.required:
            return
        if self._given is not None:
            self._given.abandon(error)
        # One by one: with window 0 every message cost a credit beyond its size.
        for delivery in self._prefetch.clear():
            if isinstance(delivery, LargeDelivery):
                delivery.abandon(error)
            else:
                self._credits.give_back(delivery.frame_size)
        self._given = None
        self._large_count = 0
        self._update_gate()
        self.acknowledgements.go_back(self._sequence)
        self._credits.want_again(self._prefetch.highest >= 0)

    def rebuild(self, started: bool) -> None:
        """Make the consumer again in a rebuilt session (core-protocol 7.3). Its queue exists again by now.

        Deliveries from now on are given out only when the whole reconnect is complete and listeners have been notified.
        The program must learn first that the messages it holds are going to come again.
        """
        self._forget_deliveries(_delivered_again())
        self._stopped = True
        self.acknowledgements.rebuild(self._sequence)
        channel = self._channel
        channel.post_rebuilding(
            SessionCreateConsumer(self.consumer_id, self.queue, self.filter, self.browse_only, False, self.priority)
        )
        self._credits.rebuild()
        self._forced.rebuild(started)

    def _forget_deliveries(self, error: JMSException) -> None:
        for _ in self._prefetch.clear():
            pass
        for body in (self._given, None if self._arriving is None else self._arriving.body):
            if body is not None:
                body.forget(error)
        self._arriving = self._given = None
        self._large_count = 0
        self._update_gate()

    def on_disconnected(self, error: JMSException) -> None:
        """Handle a close of the consumer by the broker: its queue was deleted, or management closed it."""
        if not self.closed:
            # The broker may keep the consumer until it is closed from here. If it does not, no commit of it succeeds.
            self.acknowledgements.flush()
            self._end(error)
            self._channel.request(SessionConsumerClose(self.consumer_id), NullResponse)

    def close(self) -> Call[None]:
        """Close the consumer. Unacknowledged messages go back to the queue. Never fail for a lost connection."""
        if self.closed:
            return DONE
        self.acknowledgements.flush()
        self._end(ConnectionClosedException("the consumer is closed"))
        return run_sequence(self._close_steps(), self._due)

    def _close_steps(self) -> Steps[None]:
        try:
            yield from wait(self._channel.request(SessionConsumerClose(self.consumer_id), NullResponse))
            if self.owns_queue:
                yield from wait(self._channel.request(DeleteQueue(self.queue), NullResponse))
        except JMSException as error:
            # With its session or connection the consumer is closed too.
            if error.error_code not in CONNECTION_ERRORS:
                raise

    def end(self, error: JMSException) -> None:
        """End the consumer: its session is closed."""
        if not self.closed:
            self._end(error)

    def _end(self, error: JMSException) -> None:
        self.closed = self.acknowledgements.closed = True
        self.closed_error = error
        self._forget_deliveries(error)
        self._on_end(self)
        self._forced.fail(error)
        self._become_ready()

    def _closed_failure(self) -> JMSException:
        return self.closed_error or ConnectionClosedException("the consumer is closed")


def _delivered_again() -> JMSException:
    text = (
        "the delivery ended before the body was read; the broker delivers the message again, unless it is acknowledged"
    )
    return exception_for(ErrorCode.LARGE_MESSAGE_INTERRUPTED, text)
