"""The client brain of one session factory: one connection at a time, the sessions on it, and its return after a loss.

Responsible for the step contract, for opening and losing connections, for creating sessions and for telling listeners.
Refuses to know packets of a session, sockets and clocks.

The agent is in one of the phases of `AgentState`; `_enter` is the only place where it changes. A phase that tries
connectors holds its attempts in `_attempts`, which is None otherwise.
"""

from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from functools import partial
from typing import assert_never

from attrs import define

from embedclient.agent._attempts import Attempt, first_attempts, reconnect_attempts
from embedclient.agent._call import Call, DueCallbacks, Steps, done_call, failed_call, run_sequence, settled, wait
from embedclient.agent._connection import CHANNEL_USER_FIRST, Connection
from embedclient.agent._deadlines import Deadlines
from embedclient.agent._inputs import BytesReceived, Dialed, DialFailed, Input, PeerClosed, Tick, Written
from embedclient.agent._line import SessionLine
from embedclient.agent._notifications import (
    ConnectionFailed,
    FailoverCompleted,
    FailoverFailed,
    FailureDetected,
    Notification,
    SendRefused,
)
from embedclient.agent._outputs import CloseConnection, Dial, Output, SendBytes
from embedclient.agent._policies import LoadBalancingPolicy
from embedclient.agent._recovery import create_session_packet, recover_sessions, with_client_id
from embedclient.agent._session import Session
from embedclient.agent._settings import VERSION_MIN, LocatorSettings, SessionFlags, SessionMode, flags_of_mode
from embedclient.agent._timers import Timers
from embedclient.agent._topology import TOPOLOGY_PACKETS, Topology
from embedclient.errors import ConnectionClosedException, ErrorCode, JMSException, exception_for
from embedclient.model import Entropy, Instant, TransportConfiguration, make_uuid, uuid_text
from embedclient.wire.core import (
    CreateSessionResponse,
    DisconnectReason,
    DisconnectV2,
    DisconnectV3,
    Packet,
)

VERSION_WITH_CLIENT_ID = 131


class AgentState(Enum):
    """Where the agent stands."""

    IDLE = "idle"
    CONNECTING = "connecting"
    CONNECTED = "connected"
    RECONNECTING = "reconnecting"
    CLOSED = "closed"


@define(eq=False)
class Attempts:
    """Trying connectors one after the other: what comes next, why, and what to say when nothing is left."""

    remaining: Iterator[Attempt]
    cause: JMSException
    pause: Call[None] | None = None
    scale_down_target: str | None = None


class Agent:
    """The brain of one session factory. Drive it with `step`, `take_outputs` and `next_deadline`."""

    def __init__(
        self,
        settings: LocatorSettings,
        connectors: Sequence[TransportConfiguration],
        policy: LoadBalancingPolicy,
        entropy: Entropy,
    ) -> None:
        assert connectors
        self.settings = settings
        self.state = AgentState.IDLE
        self.sessions: list[Session] = []
        self.topology = Topology()
        self.connector: TransportConfiguration | None = None
        self.on_output: Callable[[], None] | None = None
        self.on_notification: Callable[[Notification], None] | None = None
        self._connectors = list(connectors)
        self._policy = policy
        self._entropy = entropy
        self._now = Instant(0.0, 0)
        self._outputs: list[Output] = []
        self._stepping = False
        self._signalled = False
        self._due = DueCallbacks()
        self._due.on_first = self._signal
        self._deadlines = Deadlines(settings.call_timeout_ms)
        self._failover_deadlines = Deadlines(settings.call_failover_timeout_ms)
        self._timers = Timers()
        self._connection: Connection | None = None
        self._connection_count = 0
        self._next_channel_id = CHANNEL_USER_FIRST
        self._offered_version = settings.client_version
        self._attempts: Attempts | None = None
        self._previous: TransportConfiguration | None = None
        self._first: TransportConfiguration | None = None
        self._closed_error: JMSException = ConnectionClosedException("the session factory is closed")
        # Done or failed when the agent is connected again or not any more.
        self._ready: Call[None] | None = None

    # --- step contract ---

    def step(self, input: Input, now: Instant) -> list[Output]:
        """Handles one input and returns everything there is to do."""
        assert not self._stepping
        self._stepping = True
        self._now = now
        try:
            self._handle(input, now)
            return self._collect(now)
        finally:
            self._stepping = False

    def take_outputs(self, now: Instant) -> list[Output]:
        """What requests made outside `step` gave to do; their time-outs run from `now`."""
        assert not self._stepping
        self._stepping = True
        self._now = now
        try:
            return self._collect(now)
        finally:
            self._stepping = False

    def next_deadline(self) -> float | None:
        """When `Tick` is due, in seconds of the monotonic clock."""
        candidates = [self._deadlines.next(), self._failover_deadlines.next(), self._timers.next()]
        if self._connection is not None:
            candidates.append(self._connection.next_deadline())
        return min((deadline for deadline in candidates if deadline is not None), default=None)

    @property
    def pending_bytes(self) -> int:
        """Bytes that wait for `take_outputs`."""
        return 0 if self._connection is None else self._connection.out_bytes

    def _handle(self, input: Input, now: Instant) -> None:
        connection = self._connection
        match input:
            case BytesReceived(number, data):
                if connection is not None and connection.number == number:
                    connection.on_bytes(data)
            case Written(number, count):
                if connection is not None and connection.number == number:
                    connection.on_written(count)
            case Dialed(number):
                if connection is not None and connection.number == number:
                    self._on_dialed(connection, now)
            case DialFailed(number, reason) | PeerClosed(number, reason):
                if connection is not None and connection.number == number:
                    connection.fail(exception_for(ErrorCode.NOT_CONNECTED, reason))
            case Tick():
                pass
            case _:
                assert_never(input)
        self._on_time(now)

    def _on_time(self, now: Instant) -> None:
        self._deadlines.expire(now)
        self._failover_deadlines.expire(now)
        self._timers.expire(now)
        if self._connection is not None:
            self._connection.on_time(now)

    def _collect(self, now: Instant) -> list[Output]:
        self._due.run()
        self._deadlines.stamp(now)
        self._failover_deadlines.stamp(now)
        self._signalled = False
        outputs, self._outputs = self._outputs, []
        connection = self._connection
        if connection is not None and connection.out_bytes:
            outputs.append(SendBytes(connection.number, connection.take()))
        return outputs

    def _signal(self) -> None:
        if not self._stepping and not self._signalled and self.on_output is not None:
            self._signalled = True
            self.on_output()

    def _emit(self, output: Output) -> None:
        self._outputs.append(output)
        self._signal()

    def _notify(self, notification: Notification) -> None:
        def tell() -> None:
            if self.on_notification is not None:
                self.on_notification(notification)

        self._due.add(tell)

    # --- connections ---

    @property
    def node_id(self) -> str | None:
        """Id of the broker's node, None before it is known."""
        node = None if self.connector is None else self.topology.node_of(self.connector)
        return None if node is None else node.node_id

    @property
    def server_version(self) -> int:
        """Version that the broker announced, 0 before that."""
        return 0 if self._connection is None else self._connection.server_version

    def connect(self) -> Call[None]:
        """Opens the first connection, as often as the settings allow; done when the broker has told its topology."""
        if self.state is AgentState.CLOSED:
            return failed_call(self._closed_error)
        if self.state is AgentState.CONNECTED:
            return done_call(None)
        if self.state is AgentState.IDLE:
            self._enter(AgentState.CONNECTING)
            cause = exception_for(ErrorCode.NOT_CONNECTED, "no broker could be reached")
            self._attempts = Attempts(first_attempts(self.settings, self._connectors, self._policy), cause)
            self._ready = Call(self._due)
            self._try_next()
        # Every caller gets a call of its own, because each may follow or ignore it.
        return run_sequence(self._until_ready(), self._due)

    def _until_ready(self) -> Steps[None]:
        ready = self._ready
        assert ready is not None
        yield from wait(ready)

    def _enter(self, state: AgentState) -> None:
        assert self.state is not AgentState.CLOSED
        self.state = state

    def _try_next(self) -> None:
        """Goes to the next attempt, after its pause; gives up when there is none."""
        attempts = self._attempts
        assert attempts is not None
        attempt = next(attempts.remaining, None)
        if attempt is None:
            self._give_up(attempts)
        elif attempt.pause_s > 0:
            pause = attempts.pause = self._timers.after(attempt.pause_s, self._now)
            pause.when_done(lambda: None if pause.error is not None else self._dial(attempt.connector))
        else:
            self._dial(attempt.connector)

    def _dial(self, connector: TransportConfiguration) -> None:
        self._connection_count += 1
        connection = Connection(self._connection_count, connector, self.settings, self._due, self._deadlines)
        connection.on_failed = self._on_connection_failed
        connection.on_topology = self._on_topology
        connection.on_first_output = self._signal
        connection.on_ping_sent = self._flush_confirmations
        self._connection = connection
        self._emit(Dial(connection.number, connector, self.settings.connect_timeout_s))

    def _on_dialed(self, connection: Connection, now: Instant) -> None:
        if self.state is AgentState.RECONNECTING:
            known = [session.line.version for session in self.sessions]
            connection.server_version = max(known, default=0)
            connection.on_subscribed = self._on_subscribed
            connection.open(self.node_id, now)
        else:
            connection.open(None, now)
            connection.await_topology()

    def _on_topology(self, connection: Connection, packet: Packet) -> None:
        if not isinstance(packet, TOPOLOGY_PACKETS):
            return
        self.topology.on_packet(packet, connection.configuration, self.settings.ha)
        if not packet.exit and packet.last:
            connection.on_topology_complete()
            if self.state is AgentState.CONNECTING:
                self._become_connected(connection)

    def _become_connected(self, connection: Connection) -> None:
        self._enter(AgentState.CONNECTED)
        self._attempts = None
        used = connection.configuration
        if self.connector is not used:
            self._previous = self.connector
            self.connector = used
        if self._first is None:
            self._first = used
        ready, self._ready = self._ready, None
        if ready is not None:
            ready.succeed(None)

    def _flush_confirmations(self) -> None:
        for session in self.sessions:
            session.line.flush_confirmation()

    def _on_connection_failed(self, connection: Connection, error: JMSException, disconnect: Packet | None) -> None:
        assert connection is self._connection
        connected = self.state is AgentState.CONNECTED
        self._connection = None
        attempts = self._attempts
        if connected:
            self._enter(AgentState.RECONNECTING)
            self._ready = Call(self._due)
            for session in self.sessions:
                session.line.lock()
        connection.close()
        self._emit(CloseConnection(connection.number, str(error)))
        if connected:
            self._begin_recovery(error, disconnect)
        elif attempts is not None:
            attempts.cause = error if self.state is AgentState.CONNECTING else attempts.cause
            for session in self.sessions:
                session.line.lock()
            self._try_next()

    def _begin_recovery(self, error: JMSException, disconnect: Packet | None) -> None:
        target = None
        redirect: TransportConfiguration | None = None
        if isinstance(disconnect, DisconnectV3):
            target = disconnect.target_node_id
            if disconnect.reason in (DisconnectReason.REDIRECT, DisconnectReason.REDIRECT_ON_CRITICAL_ERROR):
                redirect = disconnect.connector
                error = exception_for(ErrorCode.ROUTING_EXCEPTION, "the broker redirects to another one")
        elif isinstance(disconnect, DisconnectV2):
            target = disconnect.scale_down_node_id
        self._notify(FailureDetected(error))
        self._attempts = Attempts(self._recovery_attempts(redirect), error, scale_down_target=target)
        self._try_next()

    def _recovery_attempts(self, redirect: TransportConfiguration | None) -> Iterator[Attempt]:
        if redirect is not None:
            yield Attempt(0.0, redirect)
        yield from reconnect_attempts(self.settings, self._near, self._everywhere, self._policy)

    def _near(self) -> list[TransportConfiguration]:
        assert self.connector is not None
        node = self.topology.node_of(self.connector)
        backup = None if node is None else node.backup
        return [used for used in (self.connector, backup, self._previous, self._first) if used is not None]

    def _everywhere(self) -> list[TransportConfiguration]:
        learnt = self.topology.connectors() if self.settings.use_topology_for_load_balancing else []
        return learnt or self._connectors

    def _on_subscribed(self, connection: Connection) -> None:
        """The new connection is ready for the sessions; it does not wait for the topology."""
        attempts = self._attempts
        assert attempts is not None
        recovery = run_sequence(
            recover_sessions(
                connection,
                list(self.sessions),
                self.settings,
                attempts.cause,
                self._due,
                lambda seconds: self._timers.after(seconds, self._now),
            ),
            self._due,
        )
        recovery.when_done(lambda: self._on_recovered(connection, recovery))

    def _on_recovered(self, connection: Connection, recovery: Call[set[Session]]) -> None:
        if connection.closed:
            return
        if recovery.error is not None:
            connection.fail(recovery.error)
            return
        attempts = self._attempts
        assert attempts is not None
        rebuilt = recovery.result
        for session in list(self.sessions):
            if session.line.closed_error is None:
                session.resume(session in rebuilt)
        self._notify(FailoverCompleted(not rebuilt))
        self._notify(ConnectionFailed(attempts.cause, True, attempts.scale_down_target))
        self._become_connected(connection)

    def _give_up(self, attempts: Attempts) -> None:
        """No attempt is left: a first connection failed, or the sessions are lost for good."""
        error = attempts.cause
        self._attempts = None
        ready, self._ready = self._ready, None
        reconnecting = self.state is AgentState.RECONNECTING
        # A factory without connection starts afresh with its next session.
        self._enter(AgentState.IDLE)
        if reconnecting:
            self._end_sessions(exception_for(ErrorCode.NOT_CONNECTED, f"the connection was lost: {error}"), error)
            if self.settings.reconnects:
                self._notify(FailoverFailed(error))
            self._notify(ConnectionFailed(error, False, attempts.scale_down_target))
        if ready is not None:
            ready.fail(error)

    def _end_sessions(self, error: JMSException, cause: JMSException) -> None:
        sessions, self.sessions = self.sessions, []
        for session in sessions:
            session.end(error, cause)

    # --- sessions ---

    def create_session(
        self,
        *,
        username: str | None = None,
        password: str | None = None,
        xa: bool = False,
        auto_commit_sends: bool = True,
        auto_commit_acks: bool = True,
        pre_acknowledge: bool | None = None,
        ack_batch_size: int | None = None,
        client_id: str | None = None,
    ) -> Call[Session]:
        """Opens a session with flags of its own; connects first if necessary."""
        settings = self.settings
        flags = SessionFlags(
            auto_commit_sends=auto_commit_sends,
            auto_commit_acks=auto_commit_acks,
            pre_acknowledge=settings.pre_acknowledge if pre_acknowledge is None else pre_acknowledge,
            ack_batch_size=settings.ack_batch_size if ack_batch_size is None else ack_batch_size,
            xa=xa,
        )
        return run_sequence(self._create_session_steps(flags, username, password, client_id), self._due)

    def create_session_for(
        self,
        mode: SessionMode,
        *,
        username: str | None = None,
        password: str | None = None,
        client_id: str | None = None,
    ) -> Call[Session]:
        """Opens a session with the flags of an acknowledge mode."""
        flags = flags_of_mode(mode, self.settings)
        return run_sequence(self._create_session_steps(flags, username, password, client_id), self._due)

    def _create_session_steps(
        self, flags: SessionFlags, username: str | None, password: str | None, client_id: str | None
    ) -> Steps[Session]:
        channel_id = self._next_channel_id
        self._next_channel_id += 1
        name = self._new_name()
        while True:
            yield from self._connected_steps()
            connection = self._connection
            assert connection is not None
            packet = create_session_packet(
                name, channel_id, self._offered_version, username, password, flags, self.settings
            )
            newer = connection.server_version >= VERSION_WITH_CLIENT_ID
            request = connection.request(with_client_id(packet, client_id) if newer else packet, CreateSessionResponse)
            error = yield from settled(request)
            if error is None:
                break
            self._consider_retry(error)
        answer = request.result
        assert isinstance(answer, CreateSessionResponse)
        connection.server_version = min(answer.server_version, self._offered_version)
        return self._open_session(connection, name, channel_id, flags, username, password)

    def _consider_retry(self, error: JMSException) -> None:
        """Returns when the request is worth another try. Raises the error otherwise."""
        code = error.error_code
        if code == ErrorCode.INCOMPATIBLE_CLIENT_SERVER_VERSIONS and self._offered_version > VERSION_MIN:
            self._offered_version -= 1
        elif code != ErrorCode.UNBLOCKED or self.state is not AgentState.RECONNECTING:
            raise error

    def _connected_steps(self) -> Steps[None]:
        """Waits until the agent is connected; raises why it is not, or after the failover time-out."""
        while self.state is not AgentState.CONNECTED:
            if self.state is not AgentState.RECONNECTING:
                yield from wait(self.connect())
                continue
            waiting = run_sequence(self._until_ready(), self._due)
            milliseconds = self.settings.call_failover_timeout_ms
            late = exception_for(ErrorCode.CONNECTION_TIMEDOUT, f"no connection came back within {milliseconds} ms")
            self._failover_deadlines.start(waiting, partial(waiting.fail, late))
            try:
                yield from wait(waiting)
            finally:
                self._failover_deadlines.stop(waiting)

    def _open_session(
        self,
        connection: Connection,
        name: str,
        channel_id: int,
        flags: SessionFlags,
        username: str | None,
        password: str | None,
    ) -> Session:
        line = SessionLine(channel_id, self.settings, self._due, self._deadlines, self._failover_deadlines)
        line.on_send_refused = lambda error: self._notify(SendRefused(error))
        session = Session(
            name,
            line,
            flags,
            self.settings,
            self._due,
            username=username,
            password=password,
            new_name=self._new_name,
            on_closed=self._on_session_closed,
        )
        line.attach(connection, connection.version)
        connection.receivers[channel_id] = session.receive
        line.unlock()
        self.sessions.append(session)
        return session

    def _new_name(self) -> str:
        return uuid_text(make_uuid(self._entropy, self._now))

    def _on_session_closed(self, session: Session) -> None:
        if session in self.sessions:
            self.sessions.remove(session)
        if self._connection is not None:
            self._connection.receivers.pop(session.channel_id, None)

    # --- end ---

    def close(self) -> Call[None]:
        """Closes the sessions, then the connection. Never fails."""
        return run_sequence(self._close_steps(), self._due)

    def _close_steps(self) -> Steps[None]:
        if self.state is AgentState.CONNECTED:
            for call in [session.close() for session in self.sessions]:
                yield from settled(call)
        self.abort("closed by this side")

    def abort(self, reason: str) -> None:
        """Ends everything at once, without a word to the broker beyond what is waiting in the output."""
        if self.state is AgentState.CLOSED:
            return
        error = self._closed_error
        attempts, self._attempts = self._attempts, None
        if attempts is not None and attempts.pause is not None:
            attempts.pause.fail(error)
        self._enter(AgentState.CLOSED)
        connection, self._connection = self._connection, None
        if connection is not None:
            if connection.opened and connection.out_bytes:
                self._emit(SendBytes(connection.number, connection.take()))
            connection.close()
            self._emit(CloseConnection(connection.number, reason))
        self._end_sessions(error, error)
        ready, self._ready = self._ready, None
        if ready is not None:
            ready.fail(error)
