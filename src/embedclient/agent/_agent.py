"""The sync client core of one session factory: one connection at a time, and the sessions on it.

Responsible for the step contract and for creating sessions (core-protocol 3.2, 4.3). Does not depend on packets of a
session, on the course of a connection over time, on sockets or on clocks.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar, assert_never

from embedclient.engine import (
    BytesReceived,
    Dialed,
    DialFailed,
    PeerClosed,
    SendBytes,
    Tick,
    TransportInput,
    TransportOutput,
    Written,
)
from embedclient.engine.core import CHANNEL_USER_FIRST
from embedclient.errors import ErrorCode, JMSException, exception_for
from embedclient.model import Entropy, Instant, TransportConfiguration, make_uuid, uuid_text
from embedclient.wire.core import CreateSessionResponse

from ._call import Call, DueCallbacks, Steps, run_sequence, settled, wait
from ._connection import Connection
from ._deadlines import Deadlines
from ._notifications import Notification, SendRefused
from ._policies import LoadBalancingPolicy
from ._reconnection import AgentState, Reconnection
from ._session_recovery import create_session_packet, with_client_id
from ._settings import VERSION_MIN, LocatorSettings, SessionFlags, SessionMode, flags_of_mode, flags_of_xa
from ._statistics import AgentStatistics
from ._timers import Timers
from ._topology import Topology
from .session._channel import SessionChannel
from .session._session import Session

T = TypeVar("T")

VERSION_WITH_CLIENT_ID = 131
# A request that was lost with its connection may leave again on the next one.
_RETURNING = (AgentState.CONNECTING, AgentState.RECONNECTING)


class Agent:
    """A session factory's sync core. Drive it with `step`, `take_outputs` and `next_deadline`."""

    def __init__(
        self,
        settings: LocatorSettings,
        connectors: Sequence[TransportConfiguration],
        policy: LoadBalancingPolicy,
        entropy: Entropy,
        topology: Topology | None = None,
    ) -> None:
        """Make an agent. `topology` is shared with other agents of the same cluster; None: it has a separate one."""
        assert connectors
        self.settings = settings
        self.on_output: Callable[[], None] | None = None
        self.on_notification: Callable[[Notification], None] | None = None
        self._entropy = entropy
        self._now = Instant(0.0, 0)
        self._outputs: list[TransportOutput] = []
        self._stepping = False
        self._signalled = False
        self._due = DueCallbacks(self._signal)
        self._deadlines = Deadlines(settings.call_timeout_ms)
        self._failover_deadlines = Deadlines(settings.call_failover_timeout_ms, self._signal)
        self._timers = Timers(self._signal)
        self._reconnection = Reconnection(
            settings,
            connectors,
            Topology() if topology is None else topology,
            policy,
            self._due,
            self._deadlines,
            self._timers,
            emit=self._emit,
            signal=self._signal,
            notify=self._notify,
        )
        self._next_channel_id = CHANNEL_USER_FIRST
        self._offered_version = settings.client_version

    # --- what it is ---

    @property
    def state(self) -> AgentState:
        return self._reconnection.state

    @property
    def connected(self) -> bool:
        """Return True if there is a connection, on which all sessions live."""
        return self.state is AgentState.CONNECTED

    @property
    def sessions(self) -> list[Session]:
        """Return the open sessions. The list must not be changed."""
        return self._reconnection.sessions

    @property
    def topology(self) -> Topology:
        return self._reconnection.topology

    @property
    def connector(self) -> TransportConfiguration | None:
        """Return the connector of the present or last connection, None before the first one."""
        return self._reconnection.pair.current

    @property
    def node_id(self) -> str | None:
        """Return the id of the broker's node, None before it is known."""
        return self._reconnection.pair.node_id

    @property
    def server_version(self) -> int:
        """Return the version that the broker announced, 0 before that."""
        connection = self._reconnection.connection
        return 0 if connection is None else connection.server_version

    def statistics(self) -> AgentStatistics:
        """Return the current figures."""
        return AgentStatistics(
            sessions=tuple([session.statistics() for session in self.sessions]),
            pending_bytes=self.pending_bytes,
            calls=self._deadlines.count + self._failover_deadlines.count,
        )

    # --- step contract ---

    def step(self, input: TransportInput, now: Instant) -> list[TransportOutput]:
        """Handle one input and return all outputs."""
        assert not self._stepping
        self._begin(now)
        try:
            self._handle(input, now)
            return self._collect(now)
        finally:
            self._stepping = self._timers.current = False

    def take_outputs(self, now: Instant) -> list[TransportOutput]:
        """Return the outputs of requests made outside `step`. Their time-outs run from `now`."""
        assert not self._stepping
        self._begin(now)
        try:
            return self._collect(now)
        finally:
            self._stepping = self._timers.current = False

    def _begin(self, now: Instant) -> None:
        self._stepping = self._timers.current = True
        self._now = now
        self._timers.now = now.monotonic

    def next_deadline(self) -> float | None:
        """Return when `Tick` is due, in seconds of the monotonic clock; None for never."""
        connection = self._reconnection.connection
        earliest = None if connection is None else connection.state.next_ping
        # After each read, and then few agents wait for an answer or pause.
        if self._deadlines.expiry_of or self._failover_deadlines.expiry_of or self._timers.heap:
            for due in (self._deadlines.next(), self._failover_deadlines.next(), self._timers.next()):
                if due is not None and (earliest is None or due < earliest):
                    earliest = due
        return earliest

    @property
    def pending_bytes(self) -> int:
        """Return the number of bytes that wait for `take_outputs`."""
        return 0 if self._reconnection.connection is None else self._reconnection.connection.out_bytes

    def _handle(self, input: TransportInput, now: Instant) -> None:
        connection = self._reconnection.connection
        match input:
            case BytesReceived(number, data):
                if connection is not None and connection.number == number:
                    connection.on_bytes(data, now)
            case Written(number, count):
                if connection is not None and connection.number == number:
                    connection.on_written(count)
            case Dialed(number):
                if connection is not None and connection.number == number:
                    self._reconnection.on_dialed(connection, now)
            case DialFailed(number, reason) | PeerClosed(number, reason):
                if connection is not None and connection.number == number:
                    connection.fail(exception_for(ErrorCode.NOT_CONNECTED, reason))
            case Tick():
                pass
            case _:
                assert_never(input)
        self._on_time(now)

    def _on_time(self, now: Instant) -> None:
        # Each read comes here, and few find a wait or a pause.
        if self._deadlines.expiry_of:
            self._deadlines.expire(now)
        if self._failover_deadlines.expiry_of:
            self._failover_deadlines.expire(now)
        if self._timers.heap:
            self._timers.expire()
        connection = self._reconnection.connection
        if connection is not None:
            ping_due = connection.state.next_ping
            if ping_due is not None and now.monotonic >= ping_due:
                connection.on_ping_due(now)

    def _collect(self, now: Instant) -> list[TransportOutput]:
        self._due.run()
        if self._deadlines.unstamped:
            self._deadlines.stamp(now)
        if self._failover_deadlines.unstamped:
            self._failover_deadlines.stamp(now)
        self._signalled = False
        outputs, self._outputs = self._outputs, []
        connection = self._reconnection.connection
        if connection is not None and connection.out_bytes:
            outputs.append(SendBytes(connection.number, connection.take()))
        return outputs

    def _signal(self) -> None:
        if not self._stepping and not self._signalled and self.on_output is not None:
            self._signalled = True
            self.on_output()

    def _emit(self, output: TransportOutput) -> None:
        self._outputs.append(output)
        self._signal()

    def _notify(self, notification: Notification) -> None:
        def report() -> None:
            if self.on_notification is not None:
                self.on_notification(notification)

        self._due.add(report)

    # --- requests ---

    def connect(self, attempts: int | None = None, *, balanced: bool = True) -> Call[None]:
        """Open the first connection. The call is done when the broker has announced its topology.

        Args:
            attempts: Attempts for each connector; None is as many as the settings allow.
            balanced: other agents of this topology are connected, and the nodes that they have learned of come first.
        """
        return self._reconnection.connect(attempts, balanced)

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
        early: bool = False,
    ) -> Call[Session]:
        """Open a session with explicit flags. Connect first if necessary.

        Args:
            xa: work in XA branches. Both commit flags are off then.
            auto_commit_sends: sends take effect without a commit.
            auto_commit_acks: acknowledgements take effect without a commit.
            pre_acknowledge: the broker acknowledges before it sends; None for the value of the settings.
            ack_batch_size: bytes of messages for one acknowledgement, at least 0; None for the value of the settings.
            early: request it together with the first packets of a first connection, before the topology is known. A
                session with a client id waits, because its request depends on the version of the broker.
        """
        settings = self.settings
        flags = SessionFlags(
            auto_commit_sends=auto_commit_sends and not xa,
            auto_commit_acks=auto_commit_acks and not xa,
            pre_acknowledge=settings.pre_acknowledge if pre_acknowledge is None else pre_acknowledge,
            ack_batch_size=settings.ack_batch_size if ack_batch_size is None else ack_batch_size,
            xa=xa,
        )
        early = early and client_id is None
        return run_sequence(self._create_session_steps(flags, username, password, client_id, early=early), self._due)

    def create_session_for(
        self,
        mode: SessionMode,
        *,
        username: str | None = None,
        password: str | None = None,
        client_id: str | None = None,
        xa: bool = False,
    ) -> Call[Session]:
        """Open a session with the flags of an acknowledge mode, or of XA transactions."""
        assert not xa or mode is SessionMode.TRANSACTED
        flags = flags_of_xa(self.settings) if xa else flags_of_mode(mode, self.settings)
        return run_sequence(self._create_session_steps(flags, username, password, client_id), self._due)

    def _create_session_steps(
        self,
        flags: SessionFlags,
        username: str | None,
        password: str | None,
        client_id: str | None,
        *,
        early: bool = False,
    ) -> Steps[Session]:
        channel_id = self._next_channel_id
        self._next_channel_id += 1
        while True:
            yield from self._connected_steps(early=early)
            # A new name for each try: a broker whose answer was lost may have the session of the last one.
            name = self._new_name()
            connection = self._reconnection.connection
            assert connection is not None
            offered = self._offered_version
            packet = create_session_packet(name, channel_id, offered, username, password, flags, self.settings)
            newer = min(connection.server_version, offered) >= VERSION_WITH_CLIENT_ID
            request = connection.request(with_client_id(packet, client_id) if newer else packet, CreateSessionResponse)
            error = yield from settled(request)
            if error is not None:
                self._consider_retry(error, offered)
                continue
            yield from self._connected_steps()
            if connection is self._reconnection.connection:
                break
        answer = request.result
        assert isinstance(answer, CreateSessionResponse)
        connection.state.learn_version(min(answer.server_version, offered))
        return self._open_session(connection, name, channel_id, flags, username, password)

    def _consider_retry(self, error: JMSException, offered: int) -> None:
        """Return if the request is worth another try. Raise the error otherwise."""
        code = error.error_code
        if code == ErrorCode.INCOMPATIBLE_CLIENT_SERVER_VERSIONS and offered > VERSION_MIN:
            # Other requests may have been refused before, for the same version.
            self._offered_version = min(self._offered_version, offered - 1)
        elif code != ErrorCode.UNBLOCKED or self.state not in _RETURNING:
            raise error

    def _connected_steps(self, *, early: bool = False) -> Steps[None]:
        """Wait until the agent is connected. Raise the reason if it cannot be, or after the failover time-out.

        With `early` it is enough that a first connection takes requests.
        """
        while self.state is not AgentState.CONNECTED:
            if self.state is not AgentState.RECONNECTING:
                connecting = self.connect()
                if early and not connecting.done:
                    yield from self._reconnection.until_opened()
                    return
                yield from wait(connecting)
                continue
            waiting = run_sequence(self._reconnection.until_ready(), self._due)
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
        channel = SessionChannel(
            channel_id,
            self.settings,
            self._due,
            self._deadlines,
            self._failover_deadlines,
            self._timers,
            on_send_refused=lambda error: self._notify(SendRefused(error)),
            # The session has this channel, and exists before anything is sent.
            on_message_dropped=lambda error: session.on_message_dropped(error),
        )
        session = Session(
            name,
            channel,
            flags,
            self.settings,
            self._due,
            self._timers,
            username=username,
            password=password,
            new_name=self._new_name,
            on_closed=self._on_session_closed,
        )
        channel.attach(connection, connection.version)
        connection.receivers[channel_id] = session.receive
        channel.open()
        self.sessions.append(session)
        return session

    def _new_name(self) -> str:
        return uuid_text(make_uuid(self._entropy, self._now))

    def _on_session_closed(self, session: Session) -> None:
        if session in self.sessions:
            self.sessions.remove(session)
        if self._reconnection.connection is not None:
            self._reconnection.connection.receivers.pop(session.channel_id, None)

    # --- end ---

    def while_connected(self, call: Call[T]) -> Call[None]:
        """Return a call that is done when `call` is, or as soon as there is no connection."""
        bounded: Call[None] = Call(self._due)
        connection = self._reconnection.connection
        if connection is None or not self.connected:
            bounded.succeed(None)
        else:
            connection.end_with(bounded)
            call.when_done(lambda: bounded.succeed(None))
        return bounded

    def close(self) -> Call[None]:
        """Close the sessions, then the connection. Never fail; a connection that breaks meanwhile ends the close."""
        self._reconnection.closing = True
        return run_sequence(self._close_steps(), self._due)

    def _close_steps(self) -> Steps[None]:
        if self.state is AgentState.CONNECTED:
            for call in [session.close() for session in self.sessions]:
                yield from settled(call)
        self.abort("closed by this side")

    def abort(self, reason: str, *, closes_sessions: bool = False) -> None:
        """End everything at once. The broker gets only the bytes that wait in the output.

        Args:
            reason: Why, for the log.
            closes_sessions: Let the broker close the sessions, too. Otherwise it may keep them for a reattachment.
        """
        if closes_sessions:
            for session in self.sessions:
                session.leave()
        self._reconnection.end(reason)
