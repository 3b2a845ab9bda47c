"""One connection to a broker: bytes in and out, and what concerns the connection as a whole.

Responsible for the opening sequence (core-protocol 1.5), for passing frames to their channel, for gathering frames into
one write, and for calls on the session channel (1). `ConnectionState` of the engine holds versions, pings and the time
to live. Does not depend on sessions, on whether and where to reconnect, or on any socket.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from embedclient.engine.core import CHANNEL_PING, CHANNEL_SESSION, AnyDisconnect, ConnectionState, Role
from embedclient.errors import ErrorCode, JMSException, ProtocolError, RemoteProtocolError, exception_for
from embedclient.model import IN_VM_CONNECTOR_FACTORY, Instant, TransportConfiguration
from embedclient.wire.core import (
    CheckForFailover,
    CheckForFailoverReply,
    CreateSessionResponse,
    ExceptionResponse,
    Packet,
    Ping,
    SubscribeTopologyV2,
)

from ._call import Call, DueCallbacks
from ._deadlines import Deadlines
from ._settings import LocatorSettings

FrameReceiver = Callable[[bytes | bytearray, int, int, int], int | None]
"""Called with buffer, start and end of one frame and its packet type.

It may return the end of the last frame that it has handled.
"""


class ConnectionOwner(Protocol):
    """Receive the events of a connection. The owner must close a failed connection at once."""

    def on_first_output(self) -> None:
        """Handle the first waiting output after an empty buffer."""

    def on_subscribed(self, connection: "Connection") -> None:
        """Handle the end of the opening sequence on this side."""

    def on_topology(self, connection: "Connection", packet: Packet) -> None:
        """Handle a packet of the ping channel that is neither a ping nor the end."""

    def on_ping_due(self) -> None:
        """Act before a ping leaves."""

    def on_failed(self, connection: "Connection", error: JMSException, disconnect: Packet | None) -> None:
        """Handle a connection that is of no use any more, by this DISCONNECT if there is one."""


class ChannelCall:
    """A request on channel 1 that waits for its turn or for its reply."""

    __slots__ = ("call", "expected", "issued", "packet")

    def __init__(self, packet: Packet, expected: type[Packet], call: Call[Packet]) -> None:
        self.packet = packet
        self.expected = expected
        self.call = call
        self.issued = False


class Connection:
    """A connection from the dial to its end. `number` identifies it to the driver."""

    def __init__(
        self,
        number: int,
        configuration: TransportConfiguration,
        settings: LocatorSettings,
        due: DueCallbacks,
        deadlines: Deadlines,
        owner: ConnectionOwner,
    ) -> None:
        self.number = number
        self.configuration = configuration
        self.closed = False
        self.opened = False
        self.state = ConnectionState(
            Role.INITIATOR,
            settings.client_version,
            ttl_ms=settings.connection_ttl_ms,
            ping_period_ms=settings.ping_period_ms,
            frame_size_bytes_max=settings.frame_size_bytes_max,
        )
        self.receivers: dict[int, FrameReceiver] = {}
        self._owner = owner
        self.drain_waiters: list[Call[None]] = []
        self._until_end: dict[Call[None], None] = {}
        self._settings = settings
        self._due = due
        self._deadlines = deadlines
        self._out: list[bytes | bytearray] = []
        self.out_bytes = 0
        #: How many times the gathered output was taken.
        self.takes = 0
        self._unwritten_bytes = 0
        # Maximum number of bytes in the buffer: the high-water mark less the bytes not yet written.
        self.out_bytes_max = settings.send_high_water_bytes
        self._calls: deque[ChannelCall] = deque()
        self._topology_call: Call[None] | None = None

    # --- opening ---

    def open(self, node_id: str | None, now: Instant) -> None:
        """Begin the conversation. On a reconnect `node_id` names the broker that the sessions lived on."""
        self.opened = True
        self.write(self.state.open(now, handshake=self.configuration.factory != IN_VM_CONNECTOR_FACTORY))
        if node_id is None:
            self._subscribe()
            return
        check = self.request(CheckForFailover(node_id), CheckForFailoverReply)
        check.when_done(lambda: self._on_failover_check(check))

    def _on_failover_check(self, check: Call[Packet]) -> None:
        if self.closed:
            return
        if check.error is not None:
            self.fail(check.error)
            return
        reply = check.result
        assert isinstance(reply, CheckForFailoverReply)
        if reply.ok_to_failover:
            self._subscribe()
        else:
            self.fail(exception_for(ErrorCode.NOT_CONNECTED, "the broker does not take over the lost node's sessions"))

    def _subscribe(self) -> None:
        self.send_packet(SubscribeTopologyV2(False, self._settings.client_version), CHANNEL_PING)
        self._owner.on_subscribed(self)

    def await_topology(self) -> None:
        """Fail the connection unless the first topology packets end within the call time-out."""
        self._topology_call = Call(self._due)
        self.bound(self._topology_call)

    def on_topology_complete(self) -> None:
        if self._topology_call is not None:
            self._topology_call.succeed(None)

    # --- sending ---

    def write(self, data: bytes | bytearray) -> None:
        if not self._out:
            self._owner.on_first_output()
        self._out.append(data)
        self.out_bytes += len(data)

    def write_run(self, pieces: Sequence[bytes | bytearray], size: int) -> None:
        """Send whole frames of ``size`` bytes in all, given in pieces, which must not change."""
        if not self._out:
            self._owner.on_first_output()
        self._out += pieces
        self.out_bytes += size

    def write_parts(self, parts: tuple[bytes, bytes | bytearray, bytes]) -> None:
        """Send one frame given in parts, which must not change before outputs are taken."""
        if not self._out:
            self._owner.on_first_output()
        self._out += parts
        header, message, trailer = parts
        self.out_bytes += len(header) + len(message) + len(trailer)

    def send_packet(self, packet: Packet, channel_id: int) -> None:
        self.write(self.state.send(packet, channel_id))

    @property
    def version(self) -> int:
        """Return the version that both sides understand, 0 while the broker's is unknown."""
        return self.state.version

    @property
    def server_version(self) -> int:
        """Return the broker's version as recorded from topology or session creation, 0 while unknown."""
        return self.state.peer_version

    @property
    def congested(self) -> bool:
        """Return True if more bytes wait for the socket than the high-water mark allows."""
        return self.out_bytes > self.out_bytes_max

    def take(self) -> bytes:
        """Return the bytes to send since the last take."""
        data = b"".join(self._out)
        self._out.clear()
        self.out_bytes = 0
        self.takes += 1
        self._unwritten_bytes += len(data)
        self.out_bytes_max = self._settings.send_high_water_bytes - self._unwritten_bytes
        return data

    def on_written(self, count: int) -> None:
        self._unwritten_bytes -= count
        assert self._unwritten_bytes >= 0
        self.out_bytes_max = self._settings.send_high_water_bytes - self._unwritten_bytes
        if self.drain_waiters and not self.congested:
            waiters, self.drain_waiters = self.drain_waiters, []
            for call in waiters:
                call.succeed(None)

    # --- calls on channel 1 ---

    def request(self, packet: Packet, expected: type[Packet]) -> Call[Packet]:
        """Send a request on channel 1, and wait for the expected packet.

        Requests leave one at a time. Those for new sessions leave together: a broker answers in their order.
        """
        call: Call[Packet] = Call(self._due)
        if self.closed:
            call.fail(exception_for(ErrorCode.UNBLOCKED, "the connection was lost"))
            return call
        entry = ChannelCall(packet, expected, call)
        if not self._calls or (
            self._calls[-1].issued and self._calls[-1].expected is expected is CreateSessionResponse
        ):
            self._issue(entry)
        self._calls.append(entry)
        return call

    def _issue(self, entry: ChannelCall) -> None:
        entry.issued = True
        self.send_packet(entry.packet, CHANNEL_SESSION)
        self._deadlines.start(entry.call, self._on_call_timeout)

    def _issue_next_call(self) -> None:
        if self._calls and not self._calls[0].issued and not self.closed:
            self._issue(self._calls[0])

    def _on_call_timeout(self) -> None:
        head = self._calls.popleft()
        milliseconds = self._settings.call_timeout_ms
        text = f"no reply to {type(head.packet).__name__} within {milliseconds} ms"
        error = exception_for(ErrorCode.CONNECTION_TIMEDOUT, text)
        head.call.fail(error)
        self.fail(error)

    def _on_session_channel(self, packet: Packet) -> None:
        if not self._calls:
            return
        head = self._calls[0]
        if not isinstance(packet, (head.expected, ExceptionResponse)):
            return
        self._calls.popleft()
        self._deadlines.stop(head.call)
        # Replies complete their call before the next request leaves: packets of the answered session leave first.
        if isinstance(packet, ExceptionResponse):
            head.call.fail(exception_for(packet.code, packet.message or ""))
        else:
            head.call.succeed(packet)
        self._issue_next_call()

    # --- receiving ---

    def on_bytes(self, data: bytes | bytearray, now: Instant) -> None:
        """Handle one read of any size. A peer's mistake fails this connection only."""
        try:
            self._handle_frames(data, now)
        except RemoteProtocolError as error:
            self.fail(_broken_by_peer(error))

    def _handle_frames(self, data: bytes | bytearray, now: Instant) -> None:
        state = self.state
        buffer, headers = state.receive(data, now)
        receivers = self.receivers
        start = handled_to = 0
        for length, packet_type, channel_id in headers:
            end = start + 4 + length
            if end <= handled_to:
                # An answer that was handled with the one before it.
                start = end
                continue
            receive = receivers.get(channel_id)
            if receive is not None:
                handled_to = receive(buffer, start, end, packet_type) or 0
            elif channel_id == CHANNEL_PING:
                self._on_ping_channel(state.read(buffer, start, end))
            elif channel_id == CHANNEL_SESSION:
                self._on_session_channel(state.read(buffer, start, end))
            # A packet for any other channel belongs to a session that is closed: dropped, as both sides do.
            if self.closed:
                return
            start = end

    def _on_ping_channel(self, packet: Packet) -> None:
        if isinstance(packet, AnyDisconnect):
            self.fail(exception_for(ErrorCode.DISCONNECTED, "the broker ended the connection"), packet)
        elif not isinstance(packet, Ping):
            self._owner.on_topology(self, packet)

    # --- time and end ---

    def on_ping_due(self, now: Instant) -> None:
        """Ping. Fail the connection when nothing came for a TTL, checked along with the pings."""
        state = self.state
        if state.check_silence(now):
            text = f"nothing received from the broker for {self._settings.connection_ttl_ms} ms"
            self.fail(exception_for(ErrorCode.CONNECTION_TIMEDOUT, text))
            return
        self._owner.on_ping_due()
        self.write(state.ping(now))

    def bound(self, call: Call[None]) -> None:
        """Tie a call that waits on another channel to this connection and to the call time-out."""
        self.end_with(call)
        error = exception_for(ErrorCode.CONNECTION_TIMEDOUT, "the broker did not answer in time")
        self._deadlines.start(call, lambda: self.fail(error))
        call.when_done(lambda: self._deadlines.stop(call))

    def end_with(self, call: Call[None]) -> None:
        """Fail a call when this connection ends, unless it is done before."""
        self._until_end[call] = None
        call.when_done(lambda: self._until_end.pop(call, None))

    def close(self) -> None:
        """End the connection on this side. Release callers in the middle of a call on channel 1."""
        self.closed = True
        self.state.close()
        self.receivers.clear()
        calls, self._calls = self._calls, deque()
        for entry in calls:
            self._deadlines.stop(entry.call)
            entry.call.fail(exception_for(ErrorCode.UNBLOCKED, "the connection was lost"))
        bound, self._until_end = self._until_end, {}
        for until_end in bound:
            until_end.fail(exception_for(ErrorCode.UNBLOCKED, "the connection was lost"))
        waiters, self.drain_waiters = self.drain_waiters, []
        for call in waiters:
            call.succeed(None)

    def fail(self, error: JMSException, disconnect: Packet | None = None) -> None:
        """End a connection that is of no use any more; its owner decides what follows."""
        if not self.closed:
            self._owner.on_failed(self, error, disconnect)
            assert self.closed


def _broken_by_peer(error: ProtocolError) -> JMSException:
    failure = exception_for(ErrorCode.NOT_CONNECTED, f"the broker sent what the protocol does not allow: {error}")
    failure.linked_exception = error
    return failure
