"""The life of an agent's connection: first attempts, loss, return, giving up.

Responsible for which connector is tried when, for the effect of a broken connection on the sessions, and for notifying
listeners. Does not depend on the step contract, on how sessions are created or rebuilt, or on which servers may have
them.

`_enter` is the only place where the phase changes. `_attempts` exists only while connectors are tried, `ready` only
while a caller may wait for their outcome.
"""

from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import Final

from attrs import define, evolve

from embedclient.engine import CloseConnection, Dial, SendBytes, TransportOutput
from embedclient.errors import ConnectionClosedException, ErrorCode, JMSException, exception_for
from embedclient.model import Instant, TransportConfiguration
from embedclient.wire.core import (
    CheckForFailover,
    CheckForFailoverReply,
    Disconnect,
    DisconnectReason,
    DisconnectV2,
    DisconnectV3,
    Packet,
)

from ._call import Call, DueCallbacks, Steps, done_call, failed_call, run_sequence, wait
from ._connect_attempts import Attempt, first_attempts, reconnect_attempts
from ._connection import Connection
from ._deadlines import Deadlines
from ._notifications import ConnectionFailed, FailoverCompleted, FailoverFailed, FailureDetected, Notification
from ._policies import LoadBalancingPolicy
from ._servers import SessionServers
from ._session_recovery import recover_sessions
from ._settings import LocatorSettings
from ._timers import Timers
from ._topology import TOPOLOGY_PACKETS, Topology, distinct_servers, same_server
from .session._session import Session

CANDIDATES_MAX: Final = 100
"""Maximum number of nodes in one query to a broker."""

_REDIRECTS = (DisconnectReason.REDIRECT, DisconnectReason.REDIRECT_ON_CRITICAL_ERROR)


class AgentState(Enum):
    """The agent's phase."""

    IDLE = "idle"
    CONNECTING = "connecting"
    CONNECTED = "connected"
    RECONNECTING = "reconnecting"
    CLOSED = "closed"


@define(eq=False)
class Attempts:
    """A series of connection attempts: the next one, its reason, and the error when none is left."""

    remaining: Iterator[Attempt]
    cause: JMSException
    pause: Call[None] | None = None
    scale_down_target: str | None = None
    #: Where the last broker has redirected; taken before all that remain. A broker may redirect any number of times.
    redirect: TransportConfiguration | None = None


class Reconnection:
    """An agent's connection, through all its losses. `sessions` is shared with the agent."""

    def __init__(
        self,
        settings: LocatorSettings,
        connectors: Sequence[TransportConfiguration],
        topology: Topology,
        policy: LoadBalancingPolicy,
        due: DueCallbacks,
        deadlines: Deadlines,
        timers: Timers,
        *,
        emit: Callable[[TransportOutput], None],
        signal: Callable[[], None],
        notify: Callable[[Notification], None],
    ) -> None:
        self.state = AgentState.IDLE
        # Set when the sessions are being closed: a connection that is lost now is not made again.
        self.closing = False
        self.sessions: list[Session] = []
        self.topology = topology
        self.pair = SessionServers(connectors, topology, settings.ha)
        self.connection: Connection | None = None
        self.closed_error: JMSException = ConnectionClosedException("the session factory is closed")
        # Done when the agent is connected again; failed when it never will be.
        self.ready: Call[None] | None = None
        # Done when the first connection takes requests, before its topology is known; failed when there will be none.
        self.opened: Call[None] | None = None
        self._settings = settings
        self._connectors = list(connectors)
        self._policy = policy
        self._due = due
        self._deadlines = deadlines
        self._timers = timers
        self._emit = emit
        self._signal = signal
        self._notify = notify
        self._connection_count = 0
        # The version recorded by the last connection; the next one uses it from its first packet on.
        self._server_version = 0
        self._attempts: Attempts | None = None
        # The nodes that the present broker has announced.
        self._announced: dict[str, None] = {}

    def connect(self, attempts: int | None = None, balanced: bool = True) -> Call[None]:
        """Open the first connection, with so many attempts for each connector; None leaves it to the settings.

        The call is done when the broker has announced its topology. `balanced`: other nodes of the topology come first.
        """
        if self.state is AgentState.CLOSED:
            return failed_call(self.closed_error)
        if self.state is AgentState.CONNECTED:
            return done_call(None)
        if self.state is AgentState.IDLE:
            self._enter(AgentState.CONNECTING)
            cause = exception_for(ErrorCode.NOT_CONNECTED, "no broker could be reached")
            self._attempts = Attempts(self._first_attempts(attempts, balanced), cause)
            self.ready, self.opened = Call(self._due), Call(self._due)
            self._try_next()
        # Every caller gets a separate call, because each may follow or ignore it.
        return run_sequence(self.until_ready(), self._due)

    def _first_attempts(self, number: int | None, balanced: bool) -> Iterator[Attempt]:
        settings, topology = self._settings, self.topology
        if number is not None:
            settings = evolve(settings, initial_connect_attempts=number)
        members = self._members if balanced and settings.use_topology_for_load_balancing else list
        if settings.ha:
            named = distinct_servers(self._connectors)
            return first_attempts(settings, named, self._policy, topology.other_server, members)
        return first_attempts(settings, self._connectors, self._policy, members=members)

    def _members(self) -> list[TransportConfiguration]:
        """Return the nodes among which a first connection is balanced, by the user's connectors where they lead there.

        The user's connector may hold more about the route than the broker's.
        """
        return [
            next((named for named in self._connectors if same_server(named, member)), member)
            for member in self.topology.members(former=self._settings.ha)
        ]

    def until_ready(self) -> Steps[None]:
        ready = self.ready
        assert ready is not None
        yield from wait(ready)

    def until_opened(self) -> Steps[None]:
        """Wait until the first connection takes requests. Raise the reason if there will be none."""
        opened = self.opened
        if opened is not None:
            yield from wait(opened)

    def _enter(self, state: AgentState) -> None:
        assert self.state is not AgentState.CLOSED
        self.state = state
        if state is AgentState.CONNECTED:
            self.topology.report(self, self._announced)
        else:
            self.topology.end_report(self)

    def _try_next(self) -> None:
        """Start the next attempt, after its pause. Give up when no attempt is left."""
        attempts = self._attempts
        assert attempts is not None
        redirect, attempts.redirect = attempts.redirect, None
        attempt = Attempt(0.0, redirect) if redirect is not None else next(attempts.remaining, None)
        if attempt is None:
            self._give_up(attempts)
        elif attempt.pause_s > 0:
            pause = attempts.pause = self._timers.after(attempt.pause_s)
            pause.when_done(lambda: None if pause.error is not None else self._dial(attempt.connector))
        else:
            self._dial(attempt.connector)

    def _dial(self, connector: TransportConfiguration) -> None:
        self._connection_count += 1
        connector = connector.with_local_tls(self._connectors)
        connection = Connection(self._connection_count, connector, self._settings, self._due, self._deadlines, self)
        self.connection = connection
        self._announced = {}
        self._emit(Dial(connection.number, connector, self._settings.connect_timeout_s(connector)))

    def on_dialed(self, connection: Connection, now: Instant) -> None:
        """Begin the opening sequence: the connection is open."""
        if self.state is AgentState.RECONNECTING:
            connection.state.learn_version(self._server_version)
            # The question is whether the broker acts for the node of the sessions: without sessions it is omitted.
            connection.open(self.pair.node_id if self.sessions else None, now)
        else:
            connection.open(None, now)
            connection.await_topology()
            if self.opened is not None:
                self.opened.succeed(None)

    def on_topology(self, connection: Connection, packet: Packet) -> None:
        if not isinstance(packet, TOPOLOGY_PACKETS):
            return
        if self.topology.on_packet(packet, connection.configuration, self._settings.ha):
            if packet.exit:
                self._announced.pop(packet.node_id, None)
            else:
                self._announced[packet.node_id] = None
            if self.state is AgentState.CONNECTED:
                self.pair.on_news(self._announced)
        if not packet.exit and packet.last:
            self.topology.forget_former(self._announced)
            connection.on_topology_complete()
            if self.state is AgentState.CONNECTING:
                self._become_connected(connection)

    def _become_connected(self, connection: Connection) -> None:
        self._enter(AgentState.CONNECTED)
        self._attempts = None
        self.pair.on_connected(connection.configuration)
        self.pair.on_news(self._announced)
        self._identify(connection)
        ready, self.ready, self.opened = self.ready, None, None
        if ready is not None:
            ready.succeed(None)

    def _identify(self, connection: Connection) -> None:
        """Query which of the nodes the broker acts for, where that is needed and not known otherwise."""
        candidates = list(self.pair.candidates)[:CANDIDATES_MAX]
        requests = {
            node_id: connection.request(CheckForFailover(node_id), CheckForFailoverReply) for node_id in candidates
        }
        replies = list(requests.values())

        def conclude() -> None:
            if connection is self.connection and all(reply.done and reply.error is None for reply in replies):
                taken_over = [node_id for node_id, reply in requests.items() if _is_ok(reply.result)]
                self.pair.on_answers(taken_over)

        if replies:
            replies[-1].when_done(conclude)

    def on_first_output(self) -> None:
        self._signal()

    def on_ping_due(self) -> None:
        """Send due confirmations, with each ping."""
        for session in self.sessions:
            session.channel.flush_confirmation()

    def on_failed(self, connection: Connection, error: JMSException, disconnect: Packet | None) -> None:
        assert connection is self.connection
        connected = self.state is AgentState.CONNECTED
        self._server_version = connection.server_version or self._server_version
        self.connection = None
        attempts = self._attempts
        if self.opened is not None and self.opened.done:
            # Requests that fail with the connection wait for the next one.
            self.opened = Call(self._due)
        if connected:
            self._enter(AgentState.RECONNECTING)
            self.ready = Call(self._due)
            for session in self.sessions:
                session.channel.detach()
        connection.close()
        self._emit(CloseConnection(connection.number, str(error)))
        if connected:
            self._begin_recovery(error, disconnect)
        elif attempts is not None:
            if self.state is AgentState.CONNECTING:
                attempts.cause = error
                # An early request may be answered before the topology comes.
                attempts.redirect = _redirect_in(disconnect)
            for session in self.sessions:
                session.channel.detach()
            self._try_next()

    def _begin_recovery(self, error: JMSException, disconnect: Packet | None) -> None:
        target = None
        redirect = _redirect_in(disconnect)
        place: TransportConfiguration | None = None
        if isinstance(disconnect, DisconnectV3):
            target, place = disconnect.target_node_id, disconnect.connector
            if disconnect.reason in _REDIRECTS:
                error = exception_for(ErrorCode.ROUTING_EXCEPTION, "the broker redirects to another one")
        elif isinstance(disconnect, DisconnectV2):
            target = disconnect.scale_down_node_id
        silent = error.error_code == ErrorCode.CONNECTION_TIMEDOUT
        node_id = disconnect.node_id if isinstance(disconnect, (Disconnect, DisconnectV2, DisconnectV3)) else None
        self.pair.on_lost(
            away=silent or (disconnect is not None and redirect is None),
            heir=target,
            place=place,
            node_id=node_id or None,
        )
        self._notify(FailureDetected(error))
        self._attempts = Attempts(self._recovery_attempts(redirect), error, scale_down_target=target)
        self._try_next()

    def _recovery_attempts(self, redirect: TransportConfiguration | None) -> Iterator[Attempt]:
        if self.closing:
            return
        if redirect is not None:
            yield Attempt(0.0, redirect)
        fallback = self._connectors if self._settings.ha else []
        yield from reconnect_attempts(
            self._settings, self.pair.servers, self._everywhere, self._policy, lambda: fallback
        )

    def _everywhere(self) -> list[TransportConfiguration]:
        learnt = self.topology.connectors() if self._settings.use_topology_for_load_balancing else []
        return learnt or self._connectors

    def on_subscribed(self, connection: Connection) -> None:
        """Bring the sessions to a new connection. They do not wait for its topology."""
        if self.state is not AgentState.RECONNECTING:
            return
        attempts = self._attempts
        assert attempts is not None
        recovery = run_sequence(
            recover_sessions(
                connection,
                list(self.sessions),
                self._settings,
                attempts.cause,
                self._due,
                self._timers.after,
            ),
            self._due,
        )
        recovery.when_done(lambda: self._on_recovered(connection, recovery))

    def _on_recovered(self, connection: Connection, recovery: Call[None]) -> None:
        if connection.closed:
            return
        if recovery.error is not None:
            connection.fail(recovery.error)
            return
        attempts = self._attempts
        assert attempts is not None
        sessions = [session for session in self.sessions if session.channel.closed_error is None]
        # Listeners are notified before all further actions of the sessions.
        self._notify(FailoverCompleted(not any(session.rebuilt for session in sessions)))
        self._notify(ConnectionFailed(attempts.cause, True, attempts.scale_down_target))
        for session in sessions:
            session.resume()
        self._become_connected(connection)

    def _give_up(self, attempts: Attempts) -> None:
        """Handle the end of all attempts: a first connection failed, or the sessions are lost for good."""
        error = attempts.cause
        self._attempts = None
        ready, self.ready = self.ready, None
        opened, self.opened = self.opened, None
        reconnecting = self.state is AgentState.RECONNECTING
        # A factory without connection starts afresh with its next session.
        self._enter(AgentState.IDLE)
        if reconnecting:
            self._end_sessions(exception_for(ErrorCode.NOT_CONNECTED, f"the connection was lost: {error}"), error)
            if self._settings.reconnects:
                self._notify(FailoverFailed(error))
            self._notify(ConnectionFailed(error, False, attempts.scale_down_target))
        for waiting in (opened, ready):
            if waiting is not None:
                waiting.fail(error)

    def _end_sessions(self, error: JMSException, cause: JMSException) -> None:
        sessions, self.sessions = self.sessions, []
        for session in sessions:
            session.end(error, cause)

    def end(self, reason: str) -> None:
        """End everything at once. Bytes in the output still leave."""
        if self.state is AgentState.CLOSED:
            return
        error = self.closed_error
        attempts, self._attempts = self._attempts, None
        if attempts is not None and attempts.pause is not None:
            attempts.pause.fail(error)
        self._enter(AgentState.CLOSED)
        connection, self.connection = self.connection, None
        if connection is not None:
            if connection.opened and connection.out_bytes:
                self._emit(SendBytes(connection.number, connection.take()))
            connection.close()
            self._emit(CloseConnection(connection.number, reason))
        self._end_sessions(error, error)
        ready, self.ready = self.ready, None
        opened, self.opened = self.opened, None
        for waiting in (opened, ready):
            if waiting is not None:
                waiting.fail(error)


def _redirect_in(disconnect: Packet | None) -> TransportConfiguration | None:
    """Return the place of the broker to which another one redirects; None if it does not."""
    if isinstance(disconnect, DisconnectV3) and disconnect.reason in _REDIRECTS:
        return disconnect.connector
    return None


def _is_ok(packet: Packet) -> bool:
    assert isinstance(packet, CheckForFailoverReply), packet
    return packet.ok_to_failover
