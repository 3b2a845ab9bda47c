"""One session: its consumers and producers, the handling of the broker's packets, and the rebuild.

Responsible for dispatching the packets of the session's channel, for creating and ending consumers and producers, and
for the close. Also responsible for the packets that make the session again on a broker that forgot it (core-protocol
7.3). Does not depend on the time of a reconnect or on how replies find their requests.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Final

from embedclient.errors import ConnectionClosedException, ErrorCode, JMSException
from embedclient.wire.core import (
    FRAME_HEADER_SIZE,
    RECEIVE_TRAILER,
    RECEIVE_TRAILER_SIZE,
    CreateProducer,
    DisconnectConsumer,
    MessageReader,
    NullResponse,
    Packet,
    PacketsConfirmed,
    SessionAcknowledge,
    SessionClose,
    SessionCommit,
    SessionConsumerClose,
    SessionConsumerFlowCredit,
    SessionCreateConsumer,
    SessionIndividualAcknowledge,
    SessionProducerCredits,
    SessionProducerCreditsFail,
    SessionReceiveContinuation,
    SessionReceiveLarge,
    SessionRequestProducerCredits,
    decode_packet,
    message_raw,
)

from .._call import DONE, Call, DueCallbacks, Steps, failed_call, run_sequence, settled
from .._settings import LocatorSettings, SessionFlags, SessionMode
from .._statistics import SessionStatistics
from .._timers import Timers
from ..consumer._consumer import Consumer
from ..consumer._prefetch import Delivery
from ..producer._credits import CreditTable
from ..producer._producer import VERSION_WITH_PRODUCERS, Producer
from ._addressing import Addressing
from ._channel import SessionChannel, unblocked
from ._delivery_flow import DeliveryFlow
from ._destinations import Destinations
from ._metadata import Metadata
from ._queue_state import QUEUE_ANSWERS, QueueState, consumer_window, create_again_packet, queue_state
from ._transaction import Transaction, given_back, rolled_back

if TYPE_CHECKING:
    from ._xa import Branches

_SESS_RECEIVE_MSG: Final = 75
_NULL_RESPONSE: Final = 21
_PACKETS_CONFIRMED: Final = 22


class SessionPhase(Enum):
    """A session's progress to its end."""

    OPEN = "open"
    #: A close was requested; it happens when the ending in progress is over.
    CLOSING = "closing"
    CLOSED = "closed"

    # By identity: that of `Enum` is a call in Python for each look at a table of states.
    __hash__ = object.__hash__


#: A connection may be lost for good at any time, which closes its sessions.
TRANSITIONS: Final[dict[SessionPhase, tuple[SessionPhase, ...]]] = {
    SessionPhase.OPEN: (SessionPhase.CLOSING, SessionPhase.CLOSED),
    SessionPhase.CLOSING: (SessionPhase.CLOSING, SessionPhase.CLOSED),
    SessionPhase.CLOSED: (SessionPhase.CLOSED,),
}


class Session:
    """An agent's session. Create it with `Agent.create_session`."""

    def __init__(
        self,
        name: str,
        channel: SessionChannel,
        flags: SessionFlags,
        settings: LocatorSettings,
        due: DueCallbacks,
        timers: Timers,
        *,
        username: str | None,
        password: str | None,
        new_name: Callable[[], str],
        on_closed: Callable[[Session], None],
    ) -> None:
        self.name = name
        self.channel = channel
        self.flags = flags
        self.username = username
        self.password = password
        self.phase = SessionPhase.OPEN
        # How many times the broker forgot it. An earlier delivery belongs to a session that is gone.
        self.rebuilds = 0
        # How many of those came before its last `resume`.
        self._rebuilds_resumed = 0
        self.on_close_in_doubt: Callable[[], None] | None = None  # called before it ends as in _recovery
        self.consumers: dict[int, Consumer] = {}
        self.producers: dict[int, Producer] = {}
        self.new_name = new_name
        self._settings = settings
        self._due = due
        self._timers = timers
        self._on_closed = on_closed
        self._acknowledges_on_receipt = flags.mode not in (SessionMode.INDIVIDUAL, SessionMode.PRE)
        self._commits_acks = flags.auto_commit_acks
        self._read_message = MessageReader().read
        self._next_consumer_id = 0
        self._next_producer_id = 1
        window = settings.producer_window_size
        self.metadata = Metadata(channel, due)
        self.addressing = Addressing(channel, due)
        self.destinations = Destinations(self.addressing, self, new_name, due)
        self.flow = DeliveryFlow(channel, self.addressing, self.consumers)
        self.transaction = Transaction(channel, self.flow, due)
        self.xa = self._new_branches() if flags.xa else None
        self._credits = None if window < 0 else CreditTable(window, self._request_credits)

    def _new_branches(self) -> Branches:
        # Loaded here, because few programs have XA sessions.
        from ._xa import Branches

        return Branches(self.transaction, self.channel, self.flow, self._due)

    # --- what it is ---

    def _enter(self, phase: SessionPhase) -> None:
        assert phase in TRANSITIONS[self.phase], f"{self.phase} -> {phase}"
        self.phase = phase

    @property
    def closed(self) -> bool:
        return self.phase is SessionPhase.CLOSED

    @property
    def over(self) -> bool:
        """Return True if it is closed, or is being closed."""
        return self.phase is not SessionPhase.OPEN

    @property
    def rebuilt(self) -> bool:
        """Return True if it was made again since it was last resumed, perhaps on a connection that broke since."""
        return self.rebuilds > self._rebuilds_resumed

    @property
    def channel_id(self) -> int:
        return self.channel.channel_id

    @property
    def mode(self) -> SessionMode | None:
        """Return the acknowledge mode it was made for, None for a session with explicit flags."""
        return self.flags.mode

    @property
    def auto_commit_sends(self) -> bool:
        return self.flags.auto_commit_sends

    @property
    def auto_commit_acks(self) -> bool:
        return self.flags.auto_commit_acks

    @property
    def closed_error(self) -> JMSException | None:
        """Return why it is closed, None while it is open."""
        return self.channel.closed_error

    @property
    def rollback_only(self) -> bool:
        """Return True if a commit can only report that the work is lost."""
        return self.transaction.rollback_only

    def statistics(self) -> SessionStatistics:
        """Return the current figures."""
        return SessionStatistics(
            name=self.name,
            consumers=len(self.consumers),
            producers=len(self.producers),
            rebuilds=self.rebuilds,
            credits={} if self._credits is None else self._credits.balances(),
            branches=() if self.xa is None else self.xa.remembered,
        )

    # --- packets from the broker ---

    def receive(self, buffer: bytes | bytearray, start: int, end: int, packet_type: int) -> int:
        """Handle one frame of this session's channel; return the end of the last one that was handled with it.

        Raise RemoteProtocolError.
        """
        channel = self.channel
        if packet_type == _SESS_RECEIVE_MSG:
            trailer = end - RECEIVE_TRAILER_SIZE
            consumer_id, delivery_count = RECEIVE_TRAILER.unpack_from(buffer, trailer)
            consumer = self.consumers.get(consumer_id)
            # A closed consumer's messages may still be in transit; the broker has them back by now.
            if consumer is not None:
                raw = message_raw(buffer, start + FRAME_HEADER_SIZE, trailer, channel.version)
                consumer.on_message(self._read_message(raw), delivery_count, end - start)
        elif packet_type != _NULL_RESPONSE or not (run_end := channel.on_answers(buffer, start, end)):
            self._on_packet(decode_packet(buffer, start, end, channel.version, from_client=False), end - start)
        elif run_end > end:
            return run_end
        if channel.numbered and packet_type != _PACKETS_CONFIRMED:
            channel.count_received(end - start)
        return end

    def _on_packet(self, packet: Packet, frame_size: int) -> None:
        match packet:
            case PacketsConfirmed():
                self.channel.on_confirmed(packet)
            case SessionProducerCredits() | SessionProducerCreditsFail():
                self._on_credits(packet)
            case SessionReceiveLarge():
                consumer = self.consumers.get(packet.consumer_id)
                if consumer is not None:
                    consumer.on_large_message(
                        packet.message, packet.delivery_count, packet.large_message_size, frame_size
                    )
            case SessionReceiveContinuation():
                consumer = self.consumers.get(packet.consumer_id)
                if consumer is not None and not self.channel.speaking and consumer.receives_large:
                    self.channel.doubt()
                elif consumer is not None:
                    consumer.on_continuation(packet.chunk, packet.continues, frame_size)
            case DisconnectConsumer():
                consumer = self.consumers.get(packet.consumer_id)
                if consumer is not None:
                    consumer.on_disconnected(ConnectionClosedException("the broker closed the consumer"))
            case _:
                self.channel.on_reply(packet)

    def _on_credits(self, packet: SessionProducerCredits | SessionProducerCreditsFail) -> None:
        if self._credits is None:
            return
        if isinstance(packet, SessionProducerCredits):
            self._credits.on_granted(packet.address, packet.credits)
        else:
            self._credits.on_refused(packet.address, packet.credits)
        self.channel.pump()

    def _request_credits(self, credits: int, address: str) -> None:
        self.channel.post(SessionRequestProducerCredits(credits, address))

    # --- start and stop ---

    def start(self) -> Call[None]:
        """Start deliveries."""
        if self.closed:
            return failed_call(self.channel.closed_failure())
        self.flow.start()
        return DONE

    def stop(self) -> Call[None]:
        """Stop deliveries. Consumers give out no message from now on."""
        return failed_call(self.channel.closed_failure()) if self.closed else self.flow.stop()

    # --- consumers and producers ---

    def create_consumer(
        self,
        queue: str,
        *,
        filter: str | None = None,
        browse_only: bool = False,
        priority: int = 0,
        window: int | None = None,
    ) -> Call[Consumer]:
        """Open a consumer on an existing queue. `window`, in bytes, replaces the consumer window of the settings."""
        consumer_id = self._next_consumer_id
        self._next_consumer_id += 1

        def steps() -> Steps[Consumer]:
            request = SessionCreateConsumer(consumer_id, queue, filter, browse_only, True, priority)
            call = self.channel.request(request, *QUEUE_ANSWERS)
            error = yield from settled(call)
            if error is not None and call.sent and error.error_code == ErrorCode.CONNECTION_TIMEDOUT:
                # In a session that is reattached the broker has it, or will have it when that is sent again.
                self.channel.request(SessionConsumerClose(consumer_id), NullResponse)
            state = queue_state(call.value())
            if self.closed:
                raise self.channel.closed_failure()
            bytes_max = consumer_window(self._settings, state) if window is None else window
            consumer = self._add_consumer(consumer_id, queue, state, bytes_max, filter, browse_only, priority)
            consumer.open_window()
            return consumer

        return run_sequence(steps(), self._due)

    def open_consumer(self, queue: str, window: int) -> tuple[Consumer, Call[Packet]]:
        """Open a consumer that takes deliveries before the broker has answered. Return it, and the call for the answer.

        For a session that is never made again: only an answer has what that needs of a queue.
        """
        consumer_id = self._next_consumer_id
        self._next_consumer_id += 1
        state = QueueState(
            exists=True,
            durable=False,
            temporary=False,
            consumer_count=0,
            message_count=0,
            filter=None,
            address=None,
            name=queue,
        )
        consumer = self._add_consumer(consumer_id, queue, state, window, None, False, 0)
        answer = self.channel.request(SessionCreateConsumer(consumer_id, queue, None, False, True, 0), *QUEUE_ANSWERS)
        self.channel.post_in_turn(SessionConsumerFlowCredit(consumer_id, window))
        return consumer, answer

    def _add_consumer(
        self,
        consumer_id: int,
        queue: str,
        state: QueueState,
        window: int,
        filter: str | None,
        browse_only: bool,
        priority: int,
    ) -> Consumer:
        consumer = self.consumers[consumer_id] = Consumer(
            consumer_id,
            queue,
            state,
            self.channel,
            self._due,
            self._timers,
            self.flags,
            window=window,
            filter=filter,
            browse_only=browse_only,
            priority=priority,
            blocks_on_acknowledge=self._settings.block_on_acknowledge,
            loaded_bytes_max=self._settings.max_large_message_body_size,
            max_rate=self._settings.consumer_max_rate,
            on_work=None if self._commits_acks else self._on_acknowledgement,
            on_end=self._on_consumer_end,
        )
        self.flow.admit(consumer)
        return consumer

    def _on_consumer_end(self, consumer: Consumer) -> None:
        del self.consumers[consumer.consumer_id]

    def create_producer(self, address: str | None) -> Producer:
        """Open a producer for one address, or for any (None). Nothing waits for a reply."""
        producer_id = self._next_producer_id
        self._next_producer_id += 1
        channel = self.channel
        producer = Producer(
            producer_id,
            address,
            channel,
            self._due,
            self._credits,
            self._settings,
            self.flags,
            on_work=self._on_work if not self.flags.auto_commit_sends else None,
            on_end=self._on_producer_end,
        )
        self.producers[producer_id] = producer
        if channel.version >= VERSION_WITH_PRODUCERS:
            channel.post(CreateProducer(producer_id, address))
        return producer

    def _on_producer_end(self, producer: Producer) -> None:
        del self.producers[producer.producer_id]

    def _on_work(self) -> None:
        self.transaction.work += 1

    def _on_acknowledgement(self, too_late: bool) -> None:
        self.transaction.work += 1
        if self.xa is not None:
            self.xa.on_acknowledgement()
        if too_late:
            # Its message comes again: a commit must not report it as consumed.
            self._lose_work()

    def on_message_dropped(self, error: JMSException) -> None:
        """Doom the transaction of a message that does not leave, because its sender may not look at the call."""
        if self.flags.auto_commit_sends:
            return
        self._lose_work()
        # It would have been in front of those that wait.
        self.channel.fail_waiting(SessionCommit, rolled_back(error))

    def _lose_work(self) -> None:
        self.transaction.doom(self.transaction.work)
        if self.xa is not None:
            self.xa.on_work_lost()

    # --- transactions and acknowledgement by mode ---

    def commit(self) -> Call[None]:
        """Commit sends and acknowledgements. Raise 111 or 115 if a reconnect intervened."""
        return self.transaction.commit()

    def rollback(self, *, last_message_as_delivered: bool = False) -> Call[None]:
        """Roll back sends and acknowledgements. All unacknowledged messages are delivered again.

        From now on no commit includes that work, whatever the outcome of the call.
        """
        return self.transaction.rollback(last_message_as_delivered=last_message_as_delivered)

    def consumed(self, delivery: Delivery) -> Call[None]:
        """Apply the session's mode to a message that is handed to the program."""
        if not self._acknowledges_on_receipt:
            return DONE
        return delivery.acknowledgements.acknowledge(delivery)

    def acknowledge(self, delivery: Delivery) -> Call[None]:
        """Apply the session's mode to a message that the program acknowledges itself."""
        mode = self.flags.mode
        if mode is SessionMode.INDIVIDUAL:
            if delivery.acknowledgements.gave_back(delivery):
                return failed_call(given_back())
            delivery.acknowledgements.acknowledge_individually(delivery)
        return self.commit() if mode in (SessionMode.CLIENT, SessionMode.INDIVIDUAL) else DONE

    # --- end and rebuild ---

    def close(self) -> Call[None]:
        """Close consumers, producers and the session. Never fail for a connection that is gone."""
        if self.closed:
            return DONE
        self._enter(SessionPhase.CLOSING)
        self.transaction.give_way()
        self.flow.flush_acknowledgements()
        self.channel.abandon_backlog(self.channel.closed_failure())
        return self.transaction.close(self._close_steps())

    def leave(self) -> None:
        """Let the broker close the session, in front of the end of the connection. The answer is not awaited."""
        if not self.closed and self.channel.speaking:
            self.channel.post(SessionClose())

    def _close_steps(self) -> Steps[None]:
        for consumer in self.flow.open_consumers():
            if consumer.owns_queue:
                yield from settled(consumer.close())
        if self.closed:
            return
        self._enter(SessionPhase.CLOSED)
        call = self.channel.request(SessionClose(), NullResponse)
        self._end_children()
        yield from settled(call)
        if not call.sent and self.channel.speaking:
            # The wait for sessions that come back behind it has ended. The broker has this one on a live connection,
            # and would send its consumers messages without a receiver. The answer goes to a channel without receiver.
            self.channel.post(SessionClose())
        self.channel.close(self.channel.closed_failure())
        self._on_closed(self)

    def _end_children(self) -> None:
        error = self.channel.closed_failure()
        for consumer in self.flow.open_consumers():
            consumer.end(error)
        for producer in list(self.producers.values()):
            producer.end(error)

    def end(self, error: JMSException, cause: JMSException) -> None:
        """End the session: the connection is gone for good, and no packet can reach the broker any more."""
        self._enter(SessionPhase.CLOSED)
        self.channel.close(error, cause)
        self._end_children()

    def rebuild(self, name: str, cause: JMSException) -> None:
        """Make everything again in the new session `name`, which exists on the broker by now.

        Calls in flight are released; an open transaction is lost and can only be rolled back.
        """
        self.name = name
        self.rebuilds += 1
        channel = self.channel
        if self.transaction.open and self.flags.transactional:
            self.transaction.doom(self.transaction.work)
            # A commit that waits would commit the half of the transaction that was sent after the rebuild.
            channel.fail_waiting(SessionCommit, rolled_back())
        # Waiting entries that refer to the old session. An acknowledgement sent in the new one would include all
        # earlier deliveries of the broker there, seen or not. A closed consumer is not made again.
        for kind in (SessionAcknowledge, SessionIndividualAcknowledge, SessionConsumerClose):
            channel.fail_waiting(kind, unblocked(cause))
        if self.xa is not None:
            self.xa.on_session_lost()
        channel.restart(cause)
        if channel.closed_error is not None:
            return  # the close that was in flight has ended with the old session
        for consumer in self.flow.open_consumers():
            state = consumer.queue_state
            if not state.durable or state.auto_created:
                channel.post_rebuilding(create_again_packet(channel.version, consumer.queue, state))
        for consumer in self.flow.open_consumers():
            consumer.rebuild(self.flow.started)
        for packet in [] if self.xa is None else self.xa.rebuilding_packets():
            channel.post_rebuilding(packet)
        self.flow.rebuild()
        channel.resume()

    def resume(self) -> None:
        """Let waiting entries leave again: the reconnect is complete."""
        rebuilt, self._rebuilds_resumed = self.rebuilt, self.rebuilds
        self.metadata.resume()
        if rebuilt and self._credits is not None:
            self._credits.restart()
        if rebuilt:
            self.flow.resume()
        self.channel.open()
