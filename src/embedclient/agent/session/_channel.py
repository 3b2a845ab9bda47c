"""The ordered conversation of one session with its broker: what may leave, what waits, and which reply belongs to which
request.

Responsible for the resend cache and both counters of the session's channel, one blocking call at a time, and
correlation ids (core-protocol 4.4). Also responsible for holding requests back while credits or the connection are
missing. Does not depend on consumers, transactions or the meaning of requests.

`Phase` decides what may leave. Requests and sends wait in the backlog until the channel is OPEN. It opens when all
sessions of the connection are back.

Packets that need no reply leave earlier: as soon as their own session is back (RESUMED). Its consumers get messages
already, and their credits and acknowledgements must not be lost. Before that these packets go into the resend cache
only. A reattachment sends them from there; a rebuilt session drops them with the cache, because they refer to
deliveries that no longer exist.
"""

from collections.abc import Callable, Sequence
from enum import Enum
from itertools import chain
from typing import Final

from embedclient.engine.core import Channel, PeerCount
from embedclient.errors import ConnectionClosedException, ErrorCode, JMSException, exception_for
from embedclient.wire.core import (
    ANSWER_BODY,
    ANSWER_RUN,
    ANSWER_SIZE,
    FRAME_HEADER_SIZE,
    CoreMessage,
    ExceptionResponse,
    NullResponse,
    Packet,
    PacketsConfirmed,
    SessionCommit,
    SessionSendLarge,
    encode_packet,
    encode_send,
)

from .._call import DONE, Call, DueCallbacks, failed_call
from .._connection import Connection
from .._deadlines import Deadlines
from .._rate import RateLimit
from .._settings import LocatorSettings
from .._timers import Timers
from ..producer._async_sends import AsyncSends, Receipt
from ._requests import LargeSend, Request, Send, is_counted
from ._send_queue import SendQueue

VERSION_WITH_CORRELATION: Final = 130
VERSION_WITH_COMMIT_CORRELATION: Final = 132
_FIRST_BLOCKING_ID: Final = -2


class Phase(Enum):
    """A channel's progress from one connection to the next."""

    #: No connection.
    DETACHED = "detached"
    #: On a connection. Frames are received; only packets that reattach or rebuild the session may leave.
    LISTENING = "listening"
    #: The broker has the session again; other sessions of the connection are not back yet.
    RESUMED = "resumed"
    #: Everything may leave.
    OPEN = "open"
    #: The session has ended.
    CLOSED = "closed"

    # By identity: that of `Enum` is a call in Python for each look at a table of states.
    __hash__ = object.__hash__


#: A connection may be lost before the session is back, and a session that cannot be reattached attaches once more.
TRANSITIONS: Final[dict[Phase, tuple[Phase, ...]]] = {
    Phase.DETACHED: (Phase.DETACHED, Phase.LISTENING, Phase.CLOSED),
    Phase.LISTENING: (Phase.LISTENING, Phase.RESUMED, Phase.OPEN, Phase.DETACHED, Phase.CLOSED),
    Phase.RESUMED: (Phase.OPEN, Phase.DETACHED, Phase.CLOSED),
    Phase.OPEN: (Phase.DETACHED, Phase.CLOSED),
    Phase.CLOSED: (),
}


class SessionChannel:
    """A session's channel. It survives reconnects and ends with the session.

    `phase` changes in `_enter` only. `locked` and `speaking` follow from it: they are read for each message.
    """

    def __init__(
        self,
        channel_id: int,
        settings: LocatorSettings,
        due: DueCallbacks,
        deadlines: Deadlines,
        failover_deadlines: Deadlines,
        timers: Timers,
        on_send_refused: Callable[[JMSException], None] | None = None,
        on_message_dropped: Callable[[JMSException], None] | None = None,
    ) -> None:
        self.channel_id = channel_id
        self.version = 0
        self.connection: Connection | None = None
        self.phase = Phase.DETACHED
        # phase is not OPEN
        self.locked = True
        # phase is RESUMED or OPEN
        self.speaking = False
        self.closed_error: JMSException | None = None
        window = settings.confirmation_window_size
        self.numbered = window >= 0
        self._channel = Channel(channel_id, window, settings.resend_bytes_max)
        self._peer_count = PeerCount()
        self._settings = settings
        self._due = due
        self._deadlines = deadlines
        self._timers = timers
        self.backlog = SendQueue(
            failover_deadlines, settings.call_failover_timeout_ms, settings.pending_requests_max, on_message_dropped
        )
        self._pumping = False
        self._in_flight: Request | None = None
        # The session has to be made again, for one of four reasons: its count is in doubt; its state here differs from
        # the broker's; the broker has a request in flight, has had time for it twice, and does not answer; or it
        # repeats chunks of a large message.
        self._given_up = False
        self.async_sends = AsyncSends(self._peer_count, on_send_refused)
        self._next_blocking_id = _FIRST_BLOCKING_ID

    # --- connection ---

    def _enter(self, phase: Phase) -> None:
        assert phase in TRANSITIONS[self.phase], f"{self.phase} -> {phase}"
        self.phase = phase
        self.locked = phase is not Phase.OPEN
        self.speaking = phase in (Phase.RESUMED, Phase.OPEN)

    def attach(self, connection: Connection, version: int) -> None:
        """Move the session to a connection. At first it only receives."""
        self._enter(Phase.LISTENING)
        self.connection = connection
        self.version = version

    def detach(self) -> None:
        """Leave a lost connection. Waiting entries begin to wait for the failover."""
        if self.phase is Phase.CLOSED:
            return
        was_open = self.phase is Phase.OPEN
        self._look_what_left()
        self.connection = None
        self._enter(Phase.DETACHED)
        if was_open:
            self.backlog.lock()

    def _look_what_left(self) -> None:
        """Mark the request in flight as unsent if its connection ended in the step in which it got the request."""
        if self._in_flight is not None and self.connection is not None:
            self._in_flight.lose(self.connection)

    def resume(self) -> None:
        """Let packets without reply leave: the broker has the session again."""
        self._enter(Phase.RESUMED)

    def open(self) -> None:
        """Let all waiting entries leave: all sessions are back."""
        self._enter(Phase.OPEN)
        self.backlog.unlock()
        self.pump()

    def closed_failure(self) -> JMSException:
        """Return why the session is closed, or will be."""
        return self.closed_error or ConnectionClosedException("the session is closed")

    @property
    def last_received(self) -> int:
        """Return the command id of the last packet processed here, for REATTACH_SESSION."""
        return self._channel.last_confirmed

    def replay(self, command_id: int) -> bool:
        """Send again the packets that the peer has not processed. `command_id` is the last one that the peer has named.

        Return False if the peer's count leaves open which packets those are (see PeerCount). Nothing is sent then and
        the session must be rebuilt, because a second cumulative acknowledgement or an omitted send would lose messages.
        Return False, too, if the peer does not answer a request: entries behind it would wait forever. After the first
        False the result stays False until `restart`, because the session may have been closed since.
        """
        assert self.connection is not None
        if self._given_up:
            return False
        channel = self._channel
        unanswered = channel.next_command_id
        if self._in_flight is not None:
            unanswered = self._in_flight.number
        if self.version >= VERSION_WITH_CORRELATION:
            oldest = self.async_sends.oldest_number
            if oldest is not None:
                unanswered = min(unanswered, oldest)
        low, high = self._peer_count.certain_range(channel.unwrapped(command_id), unanswered)
        if low != high:
            self._given_up = True
            return False
        for frame in channel.replay_after(low):
            self.connection.write(frame)
        self._complete_confirmed(low)
        self.resume()
        request = self._in_flight
        if request is not None:
            request.repeat(self.connection)
        if request is not None and request.call.done:
            # Its caller has gone; the requests behind it still wait for the reply.
            self._deadlines.start(request, lambda: self._on_silence(request))
        return True

    def doubt(self) -> None:
        """Have the session made again in the reconnect that is in progress: its broker repeats chunks of a body.

        History of the fault that this avoids, in an Artemis broker (2.44):

        1. It reads each chunk of a large message into the same array, and keeps the packets of the last chunks for a
           reattachment. They share the array.
        2. The connection is lost in the middle of a large message, and the session is reattached.
        3. The repeated packets carry the bytes of the last chunk that was read. The body is corrupt.
        """
        self._given_up = True

    def give_up(self, cause: JMSException) -> None:
        """Have the session made again, in a reconnect that begins now unless one is in progress."""
        self._given_up = True
        if self.connection is not None:
            self.connection.fail(cause)

    def restart(self, cause: JMSException) -> None:
        """Start numbers again for a peer that has forgotten the session. Release calls in flight with UNBLOCKED."""
        request, self._in_flight = self._in_flight, None
        self._given_up = False
        self._restart_large(cause)
        sends = self.async_sends.forget()
        if request is not None:
            self._deadlines.stop(request)
            if isinstance(request.packet, SessionCommit):
                # Its caller receives whether it may have happened. For all other purposes it counts as sent.
                request.call.sent &= not request.is_unsent
            request.call.fail(unblocked(cause))
        for receipt, _number in sends:
            if receipt is not None:
                receipt.fail(unblocked(cause))
        # Last: a sequence that continued just now may have posted packets for the old session.
        self._channel.reset()
        self._peer_count.reset()

    def _restart_large(self, cause: JMSException) -> None:
        """Begin a large message again that the broker has in part only. Fail it if its body cannot be read again."""
        first = self.backlog[0] if self.backlog else None
        if not isinstance(first, LargeSend) or not first.started or first.restart() or self.closed_error is not None:
            return
        text = (
            "the message was not sent: the connection was lost in the middle, and the body can be read once only; "
            f"send it again with a new body: {cause}"
        )
        error = exception_for(ErrorCode.LARGE_MESSAGE_INTERRUPTED, text)
        error.linked_exception = cause
        self.fail_send(first, error)

    def fail_send(self, send: Send, error: JMSException) -> None:
        """Fail a message that has not left, or not as a whole."""
        if self.backlog.withdraw(send):
            self.backlog.drop(send, error)
            self.pump()

    def abort_upload(self, call: Call[None], error: JMSException) -> None:
        """Fail the large message of this call, unless its last chunk has left."""
        for entry in self.backlog:
            if entry.call is call:
                assert isinstance(entry, LargeSend)
                self.fail_send(entry, error)
                return

    def close(self, error: JMSException, cause: JMSException | None = None) -> None:
        """Close the channel. Fail waiting entries with `error`; release calls in flight because of `cause`."""
        if self.closed_error is not None:
            return
        self.closed_error = error
        self._enter(Phase.CLOSED)
        self._look_what_left()
        self.connection = None
        self.restart(cause or error)
        self.backlog.fail_all(error)

    def abandon_backlog(self, error: JMSException) -> None:
        """Fail entries that have not left yet. Calls in flight continue, and packets that need no reply still leave."""
        for entry in list(self.backlog):
            if isinstance(entry, Request) and entry.packet is not None and not entry.expected:
                self.post(entry.packet)
        self.backlog.fail_all(error)

    def fail_waiting(self, packet_type: type[Packet], error: JMSException) -> None:
        """Fail requests of one kind that have not left yet."""
        self.backlog.fail_kind(packet_type, error)

    # --- packets that need no reply ---

    def post(self, packet: Packet, *, counted: bool = True) -> None:
        """Send a packet at once, in front of waiting entries.

        `counted` is False for the few packets without a number.
        """
        if self.closed_error is None:
            self.post_frame(encode_packet(packet, self.channel_id, self.version), counted=counted)

    def post_frame(self, frame: bytes, *, counted: bool = True) -> None:
        if counted and self.numbered:
            self._channel.sent(frame)
        if self.speaking:
            assert self.connection is not None
            self.connection.write(frame)

    def post_in_turn(self, packet: Packet) -> None:
        """Send a packet behind all waiting entries."""
        if self.backlog and self.closed_error is None:
            # Not limited by the number of waiting entries: a refusal would have no receiver.
            self.backlog.append(Request(Call(self._due), packet, ()))
        else:
            self.post(packet)

    def post_rebuilding(self, packet: Packet) -> None:
        """Send a packet that rebuilds the session, before the session may send others.

        History of the fault that this avoids (recorded as `reattach-after-recreate-lost-send`):

        1. The broker is restarted; the session is rebuilt with CREATE_QUEUE, CREATE_CONSUMER, FLOWTOKEN and START.
        2. An Artemis broker counts those four packets: its last command id is 3. A client that keeps them out of its
           cache continues with number 0.
        3. The client sends message A as its number 0 and gets the reply, then message B as its number 1; B's frame is
           lost with the connection.
        4. REATTACH_SESSION_RESPONSE names 4. The client drops its numbers 0 to 4 as processed: B is never sent again.

        Here the rebuilding packets are numbered and cached like all others, so both sides count the same packets.
        """
        assert self.connection is not None
        frame = encode_packet(packet, self.channel_id, self.version)
        self._channel.sent(frame)
        self.connection.write(frame)

    # --- requests and sends ---

    @property
    def clear(self) -> bool:
        """Return True if a non-blocking send may leave at once: nothing is in front of it."""
        return not self.locked and not self.backlog and not (self.numbered and self._channel.over_limit)

    def request(self, packet: Packet, *expected: type[Packet]) -> Call[Packet]:
        """Send a request and wait for one of the expected packets. EXCEPTION fails the call."""
        if self.closed_error is not None:
            return failed_call(self.closed_error)
        call: Call[Packet] = Call(self._due)
        self._admit(Request(call, packet, expected))
        return call

    def send(self, entry: Send) -> Call[None]:
        """Send a message as soon as all earlier entries have left and credits are available."""
        if self.closed_error is not None:
            entry.call.fail(self.closed_error)
        else:
            self._admit(entry)
        return entry.call

    def send_at_once(self, message: CoreMessage, sender_id: int) -> Call[None]:
        """Send a message on the fast path: the channel is `clear`, credits are taken, no caller waits for a reply."""
        connection = self.connection
        assert connection is not None
        if self.numbered:
            self._send_numbered(connection, message, sender_id, None)
        else:
            connection.write_parts(encode_send(message.raw, self.channel_id, self.version, False, 0, sender_id))
        if connection.out_bytes <= connection.out_bytes_max:
            return DONE
        call: Call[None] = Call(self._due)
        connection.drain_waiters.append(call)
        return call

    def send_confirmed_at_once(self, message: CoreMessage, sender_id: int) -> Call[None]:
        """Send a message as `send_at_once`, on a numbered channel. The call is done when the broker has answered."""
        assert self.connection is not None
        call: Call[None] = Call(self._due)
        self._send_numbered(self.connection, message, sender_id, call)
        return call

    def send_run(self, messages: Sequence[bytes | bytearray], sender_id: int, receipts: Sequence[Receipt]) -> None:
        """Send messages as `send_confirmed_at_once`, given by their bytes. Their receipts get the outcomes."""
        connection, channel, version = self.connection, self._channel, self.version
        assert connection is not None
        channel_id, answered = self.channel_id, version >= VERSION_WITH_CORRELATION
        first = self.async_sends.add_run(receipts, len(messages), channel.next_command_id)
        frames = [
            encode_send(raw, channel_id, version, answered, correlation_id, sender_id)
            for correlation_id, raw in enumerate(messages, first)
        ]
        pieces = list(chain.from_iterable(frames))
        size = sum(map(len, pieces))
        channel.sent_run(frames, size)
        connection.write_run(pieces, size)

    def _admit(self, entry: Request | Send) -> None:
        backlog = self.backlog
        if not backlog.admits(entry):
            error = exception_for(ErrorCode.GENERIC_EXCEPTION, f"{len(backlog)} requests are waiting already")
            backlog.drop(entry, error)
            return
        backlog.append(entry)
        if len(backlog) == 1:
            self.pump()
        if not entry.call.done and backlog and backlog[-1] is entry:
            entry.call.withdraw_with(lambda: self._withdraw(entry))
            if self.locked:
                backlog.wait_for_failover(entry)

    def _withdraw(self, entry: Request | Send) -> bool:
        withdrawn = self.backlog.withdraw(entry)
        if withdrawn:
            self.pump()
        return withdrawn

    def pump(self) -> None:
        """Send the entries that may leave, in order."""
        if self._pumping:
            return
        self._pumping = True
        backlog = self.backlog
        try:
            while backlog and not self.locked:
                entry = backlog[0]
                if not (self._issue_request(entry) if isinstance(entry, Request) else self._issue_send(entry)):
                    return
                entry.call.withdraw_with(None)
                # A follower of the call may close the session, which empties the backlog.
                if backlog and backlog[0] is entry:
                    backlog.popleft()
        finally:
            self._pumping = False

    def _issue_request(self, request: Request) -> bool:
        packet = request.packet
        assert packet is not None
        if not request.expected:
            self.post(packet)
            return True
        if self._in_flight is not None:
            return False
        correlation_id = self._take_blocking_id()
        if isinstance(packet, SessionCommit) and self.version >= VERSION_WITH_COMMIT_CORRELATION:
            request.correlation_id = correlation_id
            packet = SessionCommit(correlation_id)
        self._in_flight = request
        request.call.sent = True
        if self.connection is not None:
            request.give(self.connection)
        request.number = self._channel.next_command_id
        self._deadlines.start(request, lambda: self._on_timeout(request))
        self.post_frame(encode_packet(packet, self.channel_id, self.version), counted=is_counted(packet))
        return True

    def _issue_send(self, send: Send) -> bool:
        if send.__class__ is LargeSend:
            return self._issue_large(send)
        if send.blocking and self._in_flight is not None:
            return False
        if self._channel.over_limit:
            # The broker has more to confirm than this side keeps; it confirms in its periodic check at the latest.
            return False
        if send.rate is not None and not self._passes_rate(send, send.rate):
            return False
        try:
            if send.credits is not None and not send.credits.take(send.message.encoded_size):
                return False
        except JMSException as error:
            self.backlog.drop(send, error)
            return True
        connection = self.connection
        assert connection is not None
        if send.blocking:
            self._send_blocking(connection, send)
        elif self.numbered:
            self._send_numbered(connection, send.message, send.sender_id, send.call if send.confirmed else None)
        else:
            connection.write_parts(send.frame(self.channel_id, self.version, False, 0))
        if not send.blocking and not (send.confirmed and self.numbered):
            if send.confirmed or not connection.congested:
                send.call.succeed(None)
            else:
                connection.drain_waiters.append(send.call)
        return True

    def _passes_rate(self, send: Send, rate: RateLimit) -> bool:
        if not self._timers.current:
            # Counted from the last step, a second may be over that has only begun.
            self._due.add(self.pump)
            return False
        if not rate.take(self._timers.now):
            rate.wake(self._timers, self.pump)
            return False
        # Counted once, even if it must wait for credits now.
        send.rate = None
        return True

    def _issue_large(self, send: LargeSend) -> bool:
        """Send what may leave of a large message (core-protocol 4.7). Return True when no more of it follows."""
        connection = self.connection
        assert connection is not None
        if send.rate is not None and not self._passes_rate(send, send.rate):
            return False
        while not self._channel.over_limit and not send.call.done:
            if connection.congested:
                drained: Call[None] = Call(self._due)
                drained.when_done(self.pump)
                connection.drain_waiters.append(drained)
                return False
            try:
                if not send.may_continue():
                    return False
            except JMSException as error:
                self.backlog.drop(send, error)
                return True
            if not send.started:
                send.started = True
                self.post(SessionSendLarge(send.message))
                send.charge(len(send.message.header))
                continue
            chunk = send.body.peek()
            if chunk is None or (chunk[1] and send.blocking and self._in_flight is not None):
                return False
            send.chunk = chunk
            send.body.pop()
            self._send_chunk(connection, send)
            if chunk[1]:
                return True
        return send.call.done

    def _send_chunk(self, connection: Connection, send: LargeSend) -> None:
        """Send one chunk. With a confirmation window, every chunk is answered."""
        last = send.chunk[1]
        if last and send.blocking:
            self._send_blocking(connection, send)
            send.charge(send.sent_bytes)
            return
        correlation_id = 0
        if self.numbered:
            answer = self._answer_to_chunk(send, last) if send.confirmed or not last else None
            correlation_id = self.async_sends.add(answer, self._channel.next_command_id)
        answered = correlation_id > 0 and self.version >= VERSION_WITH_CORRELATION
        frame, _, _ = send.frame(self.channel_id, self.version, answered, correlation_id)
        self.post_frame(frame)
        send.charge(send.sent_bytes)
        if last and not (send.confirmed and self.numbered):
            self._complete_unanswered(connection, send)

    def _answer_to_chunk(self, send: LargeSend, last: bool) -> Call[None]:
        """Return the call for the answer to the present chunk."""
        answer: Call[None] = Call(self._due)
        life = send.lives

        def follow() -> None:
            if answer.error is None:
                if last:
                    send.call.succeed(None)
            elif last:
                send.call.fail(answer.error)
            elif life == send.lives:
                self.fail_send(send, answer.error)

        answer.when_done(follow)
        return answer

    def _complete_unanswered(self, connection: Connection, send: Send) -> None:
        """End the call of a send that gets no answer."""
        if send.confirmed or not connection.congested:
            send.call.succeed(None)
        else:
            connection.drain_waiters.append(send.call)

    def _send_blocking(self, connection: Connection, send: Send) -> None:
        reply: Call[Packet] = Call(self._due)
        request = Request(reply, None, (NullResponse,), self._channel.next_command_id)
        correlation_id = self._take_blocking_id()
        if self.version >= VERSION_WITH_CORRELATION:
            request.correlation_id = correlation_id
        self._in_flight = request
        request.give(connection)
        self._deadlines.start(request, lambda: self._on_timeout(request))
        call = send.call
        reply.when_done(lambda: call.succeed(None) if reply.error is None else call.fail(reply.error))
        parts = send.frame(self.channel_id, self.version, True, correlation_id)
        if self.numbered:
            frame = b"".join(parts)
            self._channel.sent(frame)
            connection.write(frame)
        else:
            connection.write_parts(parts)

    def _send_numbered(
        self, connection: Connection, message: CoreMessage, sender_id: int, receipt: Receipt | None
    ) -> None:
        """Send a message with a number. With a confirmation window, every send is answered and kept until confirmed."""
        channel, version = self._channel, self.version
        correlation_id = self.async_sends.add(receipt, channel.next_command_id)
        answered = version >= VERSION_WITH_CORRELATION
        frame = b"".join(encode_send(message.raw, self.channel_id, version, answered, correlation_id, sender_id))
        channel.sent(frame)
        connection.write(frame)

    def _take_blocking_id(self) -> int:
        """Return the next number of a blocking call. Calls whose packet has no field for it take one, too."""
        correlation_id = self._next_blocking_id
        self._next_blocking_id = correlation_id - 1
        return correlation_id

    def _on_timeout(self, request: Request) -> None:
        """Handle a call without reply: its connection cannot be trusted (core-protocol 7.2)."""
        error = self._no_reply(request)
        # The reply may still come after a reattachment: the request keeps its place, only its caller continues.
        request.call.fail(error)
        if self.connection is not None:
            self.connection.fail(error)

    def _on_silence(self, request: Request) -> None:
        """Handle a reply missing even after a reattachment: only a session made again releases the next requests."""
        self.give_up(self._no_reply(request))

    def _no_reply(self, request: Request) -> JMSException:
        name = "a send" if request.packet is None else type(request.packet).__name__
        milliseconds = self._settings.call_timeout_ms
        return exception_for(ErrorCode.CONNECTION_TIMEDOUT, f"no reply to {name} within {milliseconds} ms")

    # --- replies ---

    def on_answers(self, buffer: bytes | bytearray, start: int, end: int) -> int:
        """Handle a NULL_RESPONSE to an asynchronous send, with all that follow it, without objects for packets.

        Return the end of the last one; those of several are counted. Return 0 for any other NULL_RESPONSE.
        """
        if end - start != ANSWER_SIZE or self.version < VERSION_WITH_CORRELATION:
            return 0
        correlation_id = ANSWER_BODY.unpack_from(buffer, start + FRAME_HEADER_SIZE)[0]
        if correlation_id <= 0:
            return 0
        head = buffer[start : start + FRAME_HEADER_SIZE]
        if not buffer.startswith(head, end):
            self.async_sends.on_confirmed(correlation_id)
            return end
        size = len(buffer) - start
        correlation_ids: list[int] = []
        for beginning, following in ANSWER_RUN.iter_unpack(
            memoryview(buffer)[start : start + size - size % ANSWER_SIZE]
        ):
            if beginning != head or following <= 0:
                break
            correlation_ids.append(following)
        count = len(correlation_ids)
        self.async_sends.on_confirmed_run(correlation_ids)
        if count > 1 and self.numbered:
            due = self._channel.received_run(count, count * ANSWER_SIZE)
            if due is not None:
                self._confirm(due)
        return start + count * ANSWER_SIZE

    def on_reply(self, packet: Packet) -> None:
        """Deliver a reply to its request. Drop a reply without a request.

        A reply with correlation id -1 can belong only to a call whose packet carries none. Without that rule the reply
        to one request may release the caller of another. (An Artemis broker answers a commit without correlation id,
        and that reply arrives in front of the next one.)
        """
        if isinstance(packet, (NullResponse, ExceptionResponse)) and (packet.correlation_id or -1) > 0:
            if isinstance(packet, ExceptionResponse):
                self.async_sends.on_exception(packet)
            else:
                assert packet.correlation_id is not None
                self.async_sends.on_confirmed(packet.correlation_id)
            return
        request = self._in_flight
        if request is None:
            return
        if isinstance(packet, ExceptionResponse):
            if request.correlation_id and packet.correlation_id not in (None, -1, request.correlation_id):
                return
            self._release(request)
            self._peer_count.on_exception(request.number)
            request.call.fail(exception_for(packet.code, packet.message or ""))
        elif isinstance(packet, request.expected):
            if isinstance(packet, NullResponse) and packet.correlation_id != (request.correlation_id or -1):
                return
            self._release(request)
            self._peer_count.on_reply(request.number)
            request.call.succeed(packet)
        self.pump()

    def _release(self, request: Request) -> None:
        self._in_flight = None
        self._deadlines.stop(request)

    def count_received(self, size: int) -> None:
        """Count one processed numbered packet of `size` bytes. Confirm when the window is reached."""
        due = self._channel.received(size)
        if due is not None:
            self._confirm(due)

    def flush_confirmation(self) -> None:
        """Send the confirmation that is due; called with each ping."""
        if self.speaking:
            due = self._channel.flush()
            if due is not None:
                self._confirm(due)

    def _confirm(self, command_id: int) -> None:
        # Not in phase LISTENING: REATTACH_SESSION has carried the count, or the handler of this packet closed the
        # session.
        if self.speaking:
            assert self.connection is not None
            self.connection.send_packet(PacketsConfirmed(command_id), self.channel_id)

    def on_confirmed(self, packet: PacketsConfirmed) -> None:
        """Drop confirmed packets from the cache, as far as the peer's count is certain."""
        channel = self._channel
        newest_sent = channel.next_command_id - 1
        certain = self._peer_count.on_confirmed(channel.unwrapped(packet.command_id), newest_sent)
        certain = min(certain, newest_sent)
        channel.on_confirmed(certain)
        self._complete_confirmed(certain)
        self.pump()

    def _complete_confirmed(self, certain: int) -> None:
        """Complete the sends up to `certain`.

        Before version 130 asynchronous sends get confirmations only; later each gets a reply.
        """
        if self.version < VERSION_WITH_CORRELATION:
            self.async_sends.complete_to(certain)


def unblocked(cause: JMSException) -> JMSException:
    error = exception_for(ErrorCode.UNBLOCKED, f"the call was released because the connection was lost: {cause}")
    error.linked_exception = cause
    return error
