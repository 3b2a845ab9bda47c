"""One CORE connection on the broker: channels 0 and 1, and the frames of its sessions.

Responsible for topology, for opening and reattaching sessions, and for the end of the connection. `ConnectionState` of
the engine holds versions, pings and the time to live. Does not depend on session requests, sockets and clocks.

A connection may be lost while one of its sessions has a confirmation window. Then everything is kept until the time to
live is over, for a client that comes back (core-protocol 7.3).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from embedbroker.kernel import ANONYMOUS, Principal, Refused, Session, TemporaryQueues, name_in_text
from embedclient.engine.core import CHANNEL_PING, CHANNEL_SESSION, CHANNEL_USER_FIRST, ConnectionState, Role
from embedclient.errors import ErrorCode, RemoteProtocolError
from embedclient.model import Instant, TransportConfiguration
from embedclient.wire.core import (
    CheckForFailover,
    CheckForFailoverReply,
    ClusterTopology,
    ClusterTopologyV2,
    ClusterTopologyV4,
    CreateSession,
    CreateSessionResponse,
    CreateSessionV2,
    ExceptionResponse,
    Packet,
    PacketType,
    Ping,
    ReattachSession,
    ReattachSessionResponse,
    SubscribeTopology,
    SubscribeTopologyV2,
)

from .._port import ConnectionPort
from ._large_delivery import chunk_size
from ._requests import handle_request
from ._session import SERVER_VERSION, CoreService, CoreSession

__all__ = ["CoreConnection"]

_BROKER_CHANNELS = (2, 3)
# Key under which JMS clients attach their client id to a session.
_CLIENT_ID = "jms-client-id"
# A lost connection keeps its sessions for its time to live, which the client chose, but never longer than this.
_LOST_SECONDS_MAX = 24 * 3600.0


class CoreConnection:
    """Handle a connection and its sessions by channel id."""

    __slots__ = (
        "_arrived",
        "_client_id",
        "_has_dropped",
        "_is_blocked",
        "_log",
        "_refused_reattachments",
        "backpressure",
        "cluster",
        "created_ms",
        "has_identified_itself",
        "link",
        "lost",
        "prefixes",
        "service",
        "sessions",
        "state",
        "temporary_queues",
    )

    def __init__(self, service: CoreService, link: ConnectionPort, log: Callable[[str], None]) -> None:
        config = service.kernel.config
        self.service = service
        self.link = link
        #: Those of the acceptor at which the peer connected; None without any.
        self.cluster = service.cluster_at(link.acceptor)
        self.prefixes = service.prefixes_at(link.acceptor)
        self.backpressure = service.kernel.schedule.make_backpressure()
        link.on_slow = self.backpressure.shut
        link.on_relieved = self.backpressure.open
        self._log = log
        self.state = ConnectionState(
            Role.ACCEPTOR,
            SERVER_VERSION,
            ttl_ms=config.connection_ttl_ms,
            frame_size_bytes_max=config.frame_size_bytes_max,
        )
        self.state.open(service.now)
        self.sessions: dict[int, CoreSession] = {}
        self.temporary_queues = TemporaryQueues()
        # Sessions with a refused reattachment that their client has not created again yet.
        self._refused_reattachments = 0
        self._has_dropped = False
        # True while nothing that arrives is handled: the disk stores a large message. What came since waits, first the
        # frames of the read that was interrupted.
        self._is_blocked = False
        self._arrived: deque[tuple[bytes | bytearray, list[tuple[int, int, int]], int] | bytes] = deque()
        # A request arrived for which a handler exists.
        self.has_identified_itself = False
        self._client_id: str | None = None
        # The socket is gone, sessions wait for a reattachment.
        self.lost = False
        self.created_ms = service.now.wall_ms
        service.kernel.clients.add_connection(self)

    @property
    def version(self) -> int:
        """Return the protocol version that both ends use, 0 while the peer's is unknown."""
        return self.state.version

    @property
    def name(self) -> str:
        """Return the address of the peer, for the operator."""
        return self.link.peer

    @property
    def connection_id(self) -> str:
        """Return the id of the connection for management, in the form of Artemis."""
        return f"{self.link.id:08x}"

    @property
    def peer(self) -> str:
        """Return the address of the peer."""
        return self.link.peer

    @property
    def certificate_subject(self) -> str | None:
        """Return the subject of the client's TLS certificate; None without one."""
        return self.link.certificate_subject

    @property
    def protocol(self) -> str:
        """Return the name of the protocol."""
        return "CORE"

    @property
    def client_id(self) -> str | None:
        """Return the client id that a client attached to a session, or with which it created one."""
        for session in self.sessions.values():
            client_id = session.metadata.get(_CLIENT_ID)
            if client_id is not None:
                return client_id
        return self._client_id

    def close_by_management(self) -> None:
        """Close the connection without a notice to the client, as Artemis does: it may reconnect."""
        if self.lost:
            self.abandon()
        else:
            self.fail("closed by management")

    def close_session(self, name: str) -> bool:
        """Close one session without a notice to the client, as Artemis does; return False without such a session."""
        for session in list(self.sessions.values()):
            if session.name == name:
                session.close(failed=True)
                return True
        return False

    def log(self, text: str) -> None:
        """Log one line for the operator, with the name of the peer."""
        self._log(f"{self.link.peer}: {text}")

    def inform(self, text: str) -> None:
        """Like `log`, for an ordinary event."""
        self.service.kernel.inform(f"{self.link.peer}: {text}")

    # -- frames in -----------------------------------------------------------------------------------------------

    def receive(self, data: bytes, now: Instant) -> None:
        """Handle the data of one read. Malformed bytes end only this connection."""
        if self._is_blocked:
            self._arrived.append(data)
            return
        try:
            self._handle(*self.state.receive(data, now))
        except RemoteProtocolError as error:
            self.fail(f"protocol error: {error}")

    def _handle(self, buffer: bytes | bytearray, headers: list[tuple[int, int, int]], start: int = 0) -> None:
        sessions = self.sessions
        handled_to, first = 0, start
        for length, packet_type, channel_id in headers:
            end = start + 4 + length
            if end <= handled_to:
                # An acknowledgement that was settled with the one before it.
                start = end
                continue
            session = sessions.get(channel_id)
            if session is not None:
                handled_to = session.on_frame(packet_type, buffer, start, end)
                if handled_to <= 0:
                    if handled_to < 0:
                        self._arrived.appendleft((buffer, _behind(headers, start - first), start))
                        break
                    handle_request(session, packet_type, buffer, start, end)
                    if self._is_blocked:
                        self._arrived.appendleft((buffer, _behind(headers, end - first), end))
                        break
            elif channel_id in _BROKER_CHANNELS and self.cluster is not None:
                self.has_identified_itself = True
                self.cluster.on_frame(self, channel_id, packet_type, buffer, start, end)
            elif channel_id < CHANNEL_USER_FIRST:
                self._on_packet(channel_id, self.state.read(buffer, start, end))
            else:
                self._drop(packet_type, channel_id)
            start = end
            if not self.link.alive:
                break

    def block(self) -> None:
        """Handle nothing more of what arrives, until `unblock`: the disk stores a large message of this client."""
        self._is_blocked = True
        self.link.pause_reading()

    def unblock(self) -> None:
        """Handle what arrived since `block`, and read on."""
        self._is_blocked = False
        now, arrived = self.service.now, self._arrived
        self.state.last_received = now.monotonic
        try:
            while arrived and not self._is_blocked and self.link.alive:
                waiting = arrived.popleft()
                self._handle(*(self.state.receive(waiting, now) if isinstance(waiting, bytes) else waiting))
        except RemoteProtocolError as error:
            self.fail(f"protocol error: {error}")
        if not self._is_blocked:
            self.link.resume_reading()

    def _on_packet(self, channel_id: int, packet: Packet) -> None:
        self.has_identified_itself = True
        match packet:
            case Ping():
                self.link.write(self.state.answer(packet))
            case _ if self.service.waits and not self._may_wait_here(packet):
                # Without a line in the log: clients retry repeatedly.
                self.link.close("the broker is not live")
                self.abandon()
            case SubscribeTopology() | SubscribeTopologyV2():
                self._send_topology()
            case CreateSession() | CreateSessionV2():
                self._client_id = packet.client_id if isinstance(packet, CreateSessionV2) else None
                self._create_session(packet)
            case ReattachSession():
                self._reattach(packet)
            case CheckForFailover():
                is_ok = not self.service.waits and self.service.acts_for(packet.node_id)
                self.send(CheckForFailoverReply(is_ok), CHANNEL_SESSION)
            case _:
                # Artemis drops session packets on channels below 10 as it drops those for unknown channels (captured).
                # But a packet that only brokers exchange shows that this peer is not a client.
                if packet.TYPE in _BROKER_ONLY:
                    raise RemoteProtocolError(f"{PacketType(packet.TYPE).name} on channel {channel_id} is not served")
                self._drop(packet.TYPE, channel_id)

    def _may_wait_here(self, packet: Packet) -> bool:
        """Return True if a broker that is not live accepts a packet: from brokers, which identify themselves first."""
        cluster = self.cluster
        return isinstance(packet, Ping | CheckForFailover) or (cluster is not None and cluster.is_broker(self))

    def _drop(self, packet_type: int, channel_id: int) -> None:
        """Ignore a frame without a recipient, as Artemis does, and log that once."""
        if not self._has_dropped:
            self._has_dropped = True
            self.log(f"a packet of type {packet_type} for channel {channel_id} was dropped: no session is open there")

    def send(self, packet: Packet, channel_id: int) -> None:
        """Send a packet that belongs to no session."""
        self.link.write(self.state.send(packet, channel_id))

    def write_pieces(self, pieces: Sequence[bytes | bytearray]) -> None:
        """Send whole frames that are already encoded."""
        self.link.write_pieces(pieces)

    def _send_topology(self) -> None:
        """Send the topology.

        A broker without a cluster is one node without connectors: the client takes the one it used.
        """
        if self.cluster is not None:
            self.cluster.subscribe(self)
            return
        version = self.version
        event, node_id = self.service.now.wall_ms, self.service.node_id
        if version >= 131:
            packet: Packet = ClusterTopologyV4(False, node_id, event, None, None, True, None, None, SERVER_VERSION)
        elif version >= 122:
            packet = ClusterTopologyV2(False, node_id, event, None, None, True)
        else:
            packet = ClusterTopology(False, node_id, None, None, True)
        self.send(packet, CHANNEL_PING)

    # -- sessions ------------------------------------------------------------------------------------------------

    def _refuse_version(self, version: int) -> None:
        oldest = self.service.kernel.config.client_version_min
        advice = "upgrade the broker"
        if version < oldest:
            advice = "upgrade the client, or lower client_version_min of the broker"
        self._refuse(
            ErrorCode.INCOMPATIBLE_CLIENT_SERVER_VERSIONS,
            f"client version {version} is not served, only {oldest} to {SERVER_VERSION}; {advice}",
        )

    def _create_session(self, packet: CreateSession | CreateSessionV2) -> None:
        service = self.service
        if not service.kernel.config.client_version_min <= packet.version <= SERVER_VERSION:
            self._refuse_version(packet.version)
            return
        if not service.started:
            self._refuse(ErrorCode.SESSION_CREATION_REJECTED, "the broker is starting")
            return
        if packet.session_channel_id < CHANNEL_USER_FIRST:
            raise RemoteProtocolError(f"a session on reserved channel {packet.session_channel_id}")
        limit = service.kernel.config.sessions_per_connection_max
        if len(self.sessions) >= limit and packet.session_channel_id not in self.sessions:
            # Not 112, which clients take for a broker that starts: they would retry for ever.
            self._refuse(ErrorCode.ILLEGAL_STATE, f"the connection has {limit} sessions, sessions_per_connection_max")
            return
        principal = self._log_in(packet)
        if principal is None:
            # It begins again when the hash of the password is computed.
            return
        principal = principal if isinstance(principal, Refused) else service.session_type.refusal(self) or principal
        if isinstance(principal, Refused):
            self._refuse(principal.code, principal.text)
            return
        if not self.state.peer_version:
            self.state.learn_version(packet.version)
        kernel_session = Session(
            service.kernel,
            packet.name,
            # Work of an XA session outside a branch takes effect at once.
            auto_commit_sends=packet.auto_commit_sends or packet.xa,
            auto_commit_acknowledges=packet.auto_commit_acks or packet.xa,
            pre_acknowledge=packet.pre_acknowledge,
            backpressure=self.backpressure,
            principal=principal,
            connection=self,
            user=packet.username,
        )
        window = max(packet.window_size, -1)
        session = service.session_type(service, self, packet.name, packet.session_channel_id, window, kernel_session)
        session.username = packet.username
        session.chunk_bytes = chunk_size(packet.min_large_message_size)
        if service.security is not None:
            session.username = principal.user
            service.security.add_session(kernel_session, self.link.id)
        session.default_address = packet.default_address or ""
        if self._refused_reattachments:
            # Clients create it again before any other request; sessions after that are new on both ends.
            self._refused_reattachments -= 1
            session.rebuilt = True
        self._take_over(packet.session_channel_id)
        self.sessions[packet.session_channel_id] = session
        namesake = service.sessions.get(packet.name)
        if namesake is not None and namesake.can_come_back:
            namesake.give_up_reattachment("another session has its name")
        service.sessions[packet.name] = session
        self.send(CreateSessionResponse(SERVER_VERSION), CHANNEL_SESSION)

    def forget_session(self, channel_id: int, session: object) -> None:
        """Forget a session that is over, unless its channel belongs to another one by now."""
        if self.sessions.get(channel_id) is session:
            del self.sessions[channel_id]

    def _log_in(self, packet: CreateSession | CreateSessionV2) -> Principal | Refused | None:
        """Return the user of a new session, or why it is refused; None if that takes longer than this step."""
        service, user, password = self.service, packet.username, packet.password
        if service.security is None:
            if self.cluster is not None and self.cluster.refuses_login(user, password):
                text = f"AMQ229099: Unable to authenticate cluster user: {name_in_text(user)}"
                return Refused(ErrorCode.CLUSTER_SECURITY_EXCEPTION, text)
            return ANONYMOUS
        principal = service.security.log_in_later(
            user,
            password,
            self.link.peer,
            service.now.monotonic,
            self.link.certificate_subject,
            lambda: self._create_session(packet) if self.link.alive else None,
        )
        if principal is None or isinstance(principal, Refused):
            return principal
        return service.security.refuses_session(principal, self.link.id) or principal

    def _take_over(self, channel_id: int) -> None:
        """End the session that a channel had before: no frame can reach it any more."""
        displaced = self.sessions.get(channel_id)
        if displaced is not None:
            displaced.close(failed=True)

    def _refuse(self, code: int, text: str) -> None:
        self.send(ExceptionResponse(code, text), CHANNEL_SESSION)

    def _reattach(self, packet: ReattachSession) -> None:
        session = self.service.sessions.get(packet.name)
        if session is not None and not session.can_come_back:
            # The client creates it again: what it left is returned first, so that nothing is delivered twice at once.
            session.close(failed=True)
            session = None
        elif session is not None and self.version and self.version != session.version:
            # What is kept for its client is encoded in another version: this is not that client.
            session = None
        elif session is not None and session.connection.link.id > self.link.id:
            # A client gave this connection up, and has its session over a later one. This is its earlier request. If it
            # took the session, the session would wait for ever at an abandoned connection.
            session = None
        if session is None:
            self._refused_reattachments += 1
            self.send(ReattachSessionResponse(-1, False), CHANNEL_SESSION)
            return
        if self.sessions.get(session.channel_id) is not session:
            self._take_over(session.channel_id)
        previous = session.connection
        if not self.state.peer_version:
            self.state.learn_version(session.version)
        self.sessions[session.channel_id] = session
        session.reattach(self, packet.last_confirmed_command_id)
        if previous is not self:
            previous.abandon_if_unused()
        response = ReattachSessionResponse(session.channel.last_confirmed, True)
        frame = self.state.send(response, CHANNEL_SESSION)
        # What is reported as processed must survive a crash: the answer waits behind the records.
        session.reply_on_connection(frame)

    # -- time ----------------------------------------------------------------------------------------------------

    def check(self, now: Instant) -> None:
        """Run the periodic check.

        Confirm what is owed, and close the connection of a peer that was silent for too long.
        """
        if self._is_blocked and not self.lost:
            # The peer is not read: its silence means nothing.
            self.state.last_received = now.monotonic
        if self.state.is_silent(now):
            if self.lost:
                self.log("no reattachment within the time to live")
                self.abandon()
            else:
                self.fail(f"nothing was received for {self.state.time_to_live:g} s")
            return
        if self.lost:
            if not self._is_awaited:
                self.abandon()
            return
        for session in list(self.sessions.values()):
            session.flush_confirmations()

    # -- the end -------------------------------------------------------------------------------------------------

    def disconnect(self, target_node_id: str | None = None, connector: TransportConfiguration | None = None) -> None:
        """Notify the client of an orderly stop of the broker.

        Args:
            target_node_id: Node that gets the messages of this broker; None if none does.
            connector: Place of that node, if it is in no cluster with this one.
        """
        self._flush_confirmations()
        self.link.write(self.state.disconnect(self.service.node_id, target_node_id, connector))
        self.link.close("the broker stops")

    @property
    def is_of_bridge(self) -> bool:
        """Return True if a bridge of another member sends over this connection: it is logged in as the cluster user."""
        cluster_user = self.service.kernel.config.cluster_user
        return any(session.username == cluster_user for session in self.sessions.values())

    def part(self) -> None:
        """Close without notice at an orderly stop of the broker, with all confirmations sent."""
        self._flush_confirmations()
        self.link.close("the broker stops")

    def _flush_confirmations(self) -> None:
        for session in list(self.sessions.values()):
            session.flush_confirmations()

    def fail(self, reason: str) -> None:
        """End the connection because of an action or an omission of the peer."""
        if not self.link.alive:
            return
        self.log(f"connection closed: {reason}")
        self.link.close(reason)
        self.abandon()

    def closed(self) -> None:
        """Handle the loss of the peer's socket."""
        if self.state.pending_size:
            self.log(f"connection lost in the middle of a frame, of which {self.state.pending_size} bytes came")
        self.link.alive = False
        self.state.drop_pending()
        self._arrived.clear()
        self._leave_cluster()
        if self._is_awaited and self.state.time_to_live is not None:
            self.lost = True
            self.state.time_to_live = min(self.state.time_to_live, _LOST_SECONDS_MAX)
            self.backpressure.shut()
        else:
            self.abandon()

    @property
    def _is_awaited(self) -> bool:
        """Return True if a client may come back for one of the sessions."""
        return any(session.can_come_back and session.channel.window > 0 for session in self.sessions.values())

    def _leave_cluster(self) -> None:
        if self.cluster is not None:
            self.cluster.forget(self)

    def abandon_if_unused(self) -> None:
        """Forget the connection if it has no session left."""
        if not self.sessions:
            self.abandon()

    def abandon(self) -> None:
        """Forget all sessions as failed, with the temporary queues of this connection."""
        self.lost = False
        self._leave_cluster()
        for session in list(self.sessions.values()):
            session.close(failed=True)
        for queue in self.temporary_queues:
            self.service.kernel.teardown.delete_queue(queue)
        self.service.kernel.clients.remove_connection(self)


def _behind(headers: list[tuple[int, int, int]], size: int) -> list[tuple[int, int, int]]:
    """Return the headers of the frames behind the first ``size`` bytes."""
    for index, (length, _packet_type, _channel_id) in enumerate(headers):
        if size <= 0:
            return headers[index:]
        size -= 4 + length
    return []


_BROKER_ONLY = frozenset(
    int(packet_type)
    for packet_type in PacketType
    if packet_type.name.startswith(
        ("REPLICATION", "BACKUP", "CLUSTER_CONNECT", "NODE_ANNOUNCE", "QUORUM", "FEDERATION")
    )
)
