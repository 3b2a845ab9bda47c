"""One CORE session on the broker: frames of its channel in, deliveries and replies out.

Responsible for the hot lane (sends, acknowledgements, credits, deliveries without an object per packet), for replies
that wait for durability in order, and for confirmation numbering. Does not depend on routing and settlement, which are
the kernel's, nor on requests, which `handle_request` of `_requests` translates.

`CoreService` holds what all sessions share: reattachment and metadata need the sessions of a broker by their names.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from attrs import define

from embedbroker.kernel import (
    ANONYMOUS,
    Body,
    Consumer,
    HostTask,
    InternalBinding,
    Kernel,
    Permission,
    Principal,
    Queue,
    Reference,
    Refused,
    RoutingUndecided,
    Scope,
    Session,
    StoredMessage,
    sender_of,
)
from embedclient.engine.core import Channel
from embedclient.errors import ErrorCode
from embedclient.model import Entropy, Instant, Properties, PropertyType, TypedValue, make_uuid
from embedclient.wire.core import (
    ACKNOWLEDGE_BODY,
    ACKNOWLEDGE_RUN,
    CREDIT_BODY,
    FRAME_HEADER,
    RECEIVE_TRAILER,
    SEND_TRAILER,
    CoreMessage,
    DirectedCoreMessage,
    DisconnectConsumer,
    ExceptionResponse,
    NullResponse,
    Packet,
    PacketsConfirmed,
    PacketType,
    SessionReceiveLarge,
    SessionSendContinuation,
    decode_packet,
    encode_null_response,
    encode_packet,
    encode_receive,
    is_confirmed,
    known_address,
    message_raw,
    send_trailer,
)

from .._large_codec import header_of, large_message
from ._address_prefixes import AddressPrefixes
from ._bridge_run import may_begin, read_run
from ._interfaces import Cluster, Gate, ReplicaView, SessionConnection
from ._large_delivery import LargeDelivery, chunk_size
from ._message_traits import (
    MessageTraits,
    acknowledged_queues,
    from_bridge,
    queues_of_others,
    route_ids,
    traits_of,
    with_bridge_id,
)
from ._notifications import NotificationWatch, compose_notification
from ._old_names import MODERN_NAMES_SINCE, old_message, plain_message, stated_routing_type
from ._resend import KEPT_PACKET_OVERHEAD_BYTES, ResendAccount
from ._upload import Upload

if TYPE_CHECKING:
    from embedbroker.management import Departure, Letter, QueueEvent, Registry
    from embedbroker.security import SecurityManager

    from .._port import ConnectionPort
    from ._management import ManagementServer
    from ._services import RequestServer

__all__ = ["SERVER_VERSION", "SERVICES_ADDRESS", "CoreService", "CoreSession"]

SERVER_VERSION = 136
"""The protocol level the broker announces (core-protocol 3.1)."""

SERVICES_ADDRESS = "embedbroker.services"
"""The address of requests to the broker itself. Another broker has no address of this name."""

_SEND = int(PacketType.SESS_SEND)
_RECEIVE = int(PacketType.SESS_RECEIVE_MSG)
_ACKNOWLEDGE = int(PacketType.SESS_ACKNOWLEDGE)
_INDIVIDUAL_ACKNOWLEDGE = int(PacketType.SESS_INDIVIDUAL_ACKNOWLEDGE)
_FLOWTOKEN = int(PacketType.SESS_FLOWTOKEN)
_PACKETS_CONFIRMED = int(PacketType.PACKETS_CONFIRMED)
_HEADER_SIZE = FRAME_HEADER.size
_RUN_STEP = ACKNOWLEDGE_RUN.size
_RUN_HEAD = _HEADER_SIZE + 8  # and the consumer
_RECEIVE_EXTRA = _HEADER_SIZE + RECEIVE_TRAILER.size
_NULL_RESPONSE = int(PacketType.NULL_RESPONSE)

_LARGE_SIZE = "_AMQ_LARGE_SIZE"
# Version from which on a send carries a correlation id.
_CORRELATES_SINCE = 130
# Version from which on the broker can close a consumer.
_DISCONNECTS_SINCE = 124
_VALIDATED_USER = "_AMQ_VALIDATED_USER"
_FORCED_DELIVERY = "_hornetq.forced.delivery.seq"
# Durability point of work that is not recorded yet.
_UNRECORDED = 1 << 63
_ALL_QUEUES: frozenset[int] = frozenset()


@define(eq=False)
class _HeldReply:
    point: int
    frame: bytes
    #: For an answer on channel 1: the requesting connection. What the session's own channel carries moves with the
    #: session.
    link: ConnectionPort | None = None


@define(eq=False)
class _HeldRun:
    """Answers to several sends; see `_HeldReply`."""

    point: int
    frames: list[bytes]


@define(eq=False)
class _HeldDelivery:
    point: int
    pieces: Sequence[bytes | bytearray]
    #: The connection on which it is counted already.
    link: ConnectionPort


class CoreService:
    """Hold what all CORE connections and sessions of a broker share: kernel, identity, gate, sessions by name."""

    __slots__ = (
        "_acceptors",
        "_management",
        "_management_server",
        "_notifications",
        "_prefixes",
        "_request_server",
        "clusters",
        "departure",
        "entropy",
        "gate",
        "host_tasks",
        "kernel",
        "metadata",
        "node_id",
        "now",
        "queue_snapshots",
        "replica",
        "resend",
        "security",
        "session_type",
        "sessions",
        "started",
        "started_at",
        "waits",
    )

    def __init__(self, kernel: Kernel, gate: Gate, entropy: Entropy, node_id: str, resend: ResendAccount) -> None:
        self.kernel = kernel
        self.gate = gate
        self.entropy = entropy
        self.resend = resend
        self.node_id = node_id
        # Few brokers get requests: what serves them is loaded with the first.
        self._request_server: RequestServer | None = None
        self._management: Registry | None = None
        self._management_server: ManagementServer | None = None
        # Tasks of management for the host, taken at the end of the step.
        self.host_tasks: list[HostTask] = []
        # Snapshots of queues that management is yet to send, by the queue that gets them.
        self.queue_snapshots: dict[Queue, deque[QueueEvent]] = {}
        self._notifications = NotificationWatch(kernel)
        self.now = Instant(0.0, 0)
        # When clients were served first.
        self.started_at = self.now
        #: The class of sessions: tests have one that lets requests fail.
        self.session_type = CoreSession
        self.sessions: dict[str, CoreSession] = {}
        # How many sessions carry a pair. JMS clients check for each connection whether its client id is in use.
        self.metadata: dict[tuple[str, str], int] = {}
        # False while the journal is read: sessions are refused with "starting", so that clients retry.
        self.started = False
        # True while other brokers are admitted, and clients are not: they would wait here for a broker that may never
        # be live.
        self.waits = False
        config = kernel.config
        self._acceptors = config.listens_at
        # None for an acceptor without prefixes.
        self._prefixes = [
            AddressPrefixes(each.anycast_prefixes, each.multicast_prefixes)
            if each.anycast_prefixes or each.multicast_prefixes
            else None
            for each in self._acceptors
        ]
        # By the names of the cluster connections, the default one first.
        self.clusters: dict[str, Cluster] = {}
        # None until the node is composed.
        self.departure: Departure | None = None
        # None on a broker that does not replicate.
        self.replica: ReplicaView | None = None
        # None on a broker that admits every client.
        self.security: SecurityManager | None = None
        management = InternalBinding(kernel.config.management_address, self._manage, Permission.MANAGE)
        kernel.address_manager.bind_internal(management)
        kernel.address_manager.bind_internal(InternalBinding(SERVICES_ADDRESS, self._serve))

    def connect_security(self, security: SecurityManager | None) -> None:
        """Require logins; None admits every client."""
        self.security = security
        if security is not None:
            security.connect(self.kernel)

    def begin(self) -> None:
        """Serve clients from now on."""
        self.started = True
        self.started_at = self.now
        self._notifications.begin(self.node_id)

    @property
    def is_in_sync(self) -> bool:
        """Return True if another broker has a copy up to the last record."""
        return self.replica is not None and self.replica.is_in_sync

    @property
    def activation_sequence(self) -> int:
        """Return the activation sequence of the data of a replicating broker; -1 for others."""
        return -1 if self.replica is None else self.replica.activation_sequence

    def cluster_at(self, acceptor: int) -> Cluster | None:
        """Return the cluster of an acceptor; None without a cluster connection."""
        named = self.clusters.get(self._acceptors[acceptor].cluster_connection or "")
        return named or next(iter(self.clusters.values()), None)

    def prefixes_at(self, acceptor: int) -> AddressPrefixes | None:
        """Return the prefixes of an acceptor; None without any."""
        return self._prefixes[acceptor]

    def acts_for(self, node_id: str | None) -> bool:
        """Return True if the sessions of a node may go on here, after a failover or a scale-down."""
        return not self.clusters or any(cluster.acts_for(node_id) for cluster in self.clusters.values())

    def places(self) -> list[tuple[str, str | None, str | None]]:
        """Return node id, place of the active broker and place of the backup of each member of a cluster."""
        return list(dict.fromkeys(place for cluster in self.clusters.values() for place in cluster.places()))

    def log_in(self, user: str, password: str | None, peer: str) -> Principal | Refused:
        """Return the principal of a user that a management call names; without security every user is admitted."""
        if self.security is None:
            return ANONYMOUS
        return self.security.log_in(user, password, peer, self.now.monotonic)

    def compose(self, letter: Letter) -> CoreMessage:
        """Return a message of management, without id.

        Raises:
            ValueError: The body is not Base64, or a header is not possible; the text names it.
        """
        from ._management import compose

        return compose(letter, self.now, make_uuid(self.entropy, self.now) if letter.has_user_id else None)

    def compose_notification(
        self, address: str, properties: Properties, timestamp_ms: int, *, is_durable: bool
    ) -> CoreMessage:
        """Return a message of the form of notifications, without id; with a timestamp of 0 it states no time."""
        return compose_notification(address, properties, timestamp_ms, is_durable=is_durable)

    @property
    def management(self) -> Registry:
        """Return the registry of management, which is loaded with the first request."""
        if self._management is None:
            from embedbroker.management import CONTROLS, SERVICES, Registry

            self._management = Registry(self, CONTROLS, SERVICES)
        return self._management

    def _manage(self, request: CoreMessage, session: Session, _sender_waits: bool) -> Refused | None:
        if self._management_server is None:
            from ._management import ManagementServer

            self._management_server = ManagementServer(self.kernel, self.management)
        return self._management_server.serve(request, session)

    def _serve(self, request: CoreMessage, session: Session, _sender_waits: bool) -> Refused | None:
        if self._request_server is None:
            from ._services import RequestServer

            self._request_server = RequestServer(self.kernel, self.management)
        return self._request_server.serve(request, session)

    def holds_metadata(self, key: str, value: str, requester: CoreSession) -> bool:
        """Return True if another session carries this pair."""
        return self.metadata.get((key, value), 0) > (requester.metadata.get(key) == value)

    def carry_metadata(self, session: CoreSession, key: str, value: str) -> None:
        """Record that a session carries this pair from now on, instead of its earlier value under the key."""
        self._forget_pair(key, session.metadata.get(key))
        session.metadata[key] = value
        self.metadata[key, value] = self.metadata.get((key, value), 0) + 1

    def forget_metadata(self, session: CoreSession) -> None:
        """Forget the metadata of a session that is over."""
        for key, value in session.metadata.items():
            self._forget_pair(key, value)
        session.metadata.clear()

    def _forget_pair(self, key: str, value: str | None) -> None:
        if value is None:
            return
        count = self.metadata.pop((key, value)) - 1
        if count:
            self.metadata[key, value] = count


class CoreSession:
    """Handle a session and its channel. It outlives its connection while a reattachment is possible (7.3)."""

    __slots__ = (
        "_arrival",
        "_deliveries_held",
        "_has_plain_names",
        "_held",
        "_known_address",
        "_looks_at_user",
        "_trailer",
        "channel",
        "channel_id",
        "chunk_bytes",
        "connection",
        "default_address",
        "kept_bytes",
        "kernel_session",
        "large",
        "metadata",
        "name",
        "prefixes",
        "rebuilt",
        "service",
        "upload",
        "username",
        "version",
        "windowed",
    )

    def __init__(
        self,
        service: CoreService,
        connection: SessionConnection,
        name: str,
        channel_id: int,
        window: int,
        kernel_session: Session,
    ) -> None:
        self.service = service
        self.connection = connection
        self.name = name
        self.channel_id = channel_id
        self.channel = Channel(channel_id, window)
        # Bytes kept for a reattachment, as counted in the broker's account.
        self.kept_bytes = 0
        self.windowed = window != -1
        self.kernel_session = kernel_session
        #: Those of the connection over which it was created.
        self.prefixes = connection.prefixes
        self.version = min(connection.version, SERVER_VERSION)
        self._trailer = send_trailer(self.version)
        self._has_plain_names = self.version >= MODERN_NAMES_SINCE and connection.prefixes is None
        self.default_address = ""
        # Address of the last message, and the traits of its kind.
        self._known_address = known_address("")
        self._arrival = MessageTraits()
        self.username: str | None = None
        config = service.kernel.config
        self._looks_at_user = config.populate_validated_user or config.reject_empty_validated_user
        self.metadata = kernel_session.metadata
        # True for a session created right after a refused reattachment. From here on the two ends may count differently
        # (pitfall 12.22). So a later reattachment is refused too, and the client builds the session again instead of
        # losing packets.
        self.rebuilt = False
        # The large message that its client is sending.
        self.upload: Upload | None = None
        # Large messages that its consumers are receiving, as an ordered set; and the size of their chunks.
        self.large: dict[LargeDelivery, None] = {}
        self.chunk_bytes = chunk_size(0)
        # Replies that wait for durability, in order; later replies of this channel wait behind them.
        self._held: deque[_HeldReply | _HeldRun | _HeldDelivery] = deque()
        # Held deliveries whose count is not on disk yet. A reply behind them, such as that to a stop, implies their
        # arrival.
        self._deliveries_held = 0

    @classmethod
    def refusal(cls, connection: SessionConnection) -> Refused | None:
        """Return why no session is created for a connection; only a subclass of tests has a reason."""
        return None

    # -- frames in -----------------------------------------------------------------------------------------------

    def on_frame(self, packet_type: int, buffer: bytes | bytearray, start: int, end: int) -> int:
        """Handle one frame of this channel; return its end, or the end of the last frame that was handled with it.

        Return 0 if the frame is a request, which is left to `handle_request`; -1 if the connection is blocked, and the
        frame must be handled when it is not.

        Raises:
            RemoteProtocolError: The frame is malformed or not allowed here.
        """
        if packet_type == _SEND:
            try:
                run_end = self._on_send(buffer, start, end)
            except RoutingUndecided as undecided:
                self._wait_for(undecided)
                return -1
            if run_end:
                return run_end
        elif packet_type == _ACKNOWLEDGE and end - start >= _HEADER_SIZE + 17:
            if not self.windowed and len(buffer) - end >= end - start == _RUN_STEP:
                run_end = self._settle_run(buffer, start)
                if run_end:
                    return run_end
            key, message_id, wants_reply = ACKNOWLEDGE_BODY.unpack_from(buffer, start + _HEADER_SIZE)
            refused = self.kernel_session.settle(key, message_id, through=True)
            if wants_reply or refused is not None:
                self._on_settled(refused, wants_reply)
        elif packet_type == _FLOWTOKEN and end - start >= _HEADER_SIZE + 12:
            key, amount = CREDIT_BODY.unpack_from(buffer, start + _HEADER_SIZE)
            consumer = self.kernel_session.consumers.get(key)
            if consumer is not None:
                consumer.add_credit(amount)
        elif packet_type == _INDIVIDUAL_ACKNOWLEDGE and end - start >= _HEADER_SIZE + 17:
            key, message_id, wants_reply = ACKNOWLEDGE_BODY.unpack_from(buffer, start + _HEADER_SIZE)
            refused = self.kernel_session.settle(key, message_id)
            if wants_reply or refused is not None:
                self._on_settled(refused, wants_reply)
        elif packet_type == _PACKETS_CONFIRMED:
            packet = decode_packet(buffer, start, end, self.version, True)
            assert isinstance(packet, PacketsConfirmed)
            self.channel.on_confirmed(packet.command_id)
            self._count_kept()
            return end
        else:
            return 0
        if self.windowed:
            self._confirm(self.channel.received(end - start))
        return end

    def count_request(self, packet_type: int, buffer: bytes | bytearray, start: int, end: int) -> None:
        """Count the frame of a request that was handled, and confirm it when the window is reached.

        Metadata is counted only when it requests an answer, as its last byte shows. After a reattachment a client
        repeats it without requesting one.
        """
        if self.windowed and is_confirmed(packet_type, buffer[end - 1] != 0):
            self._confirm(self.channel.received(end - start))

    def _on_send(self, buffer: bytes | bytearray, start: int, end: int) -> int:
        """Handle a send. Return 0, or the end of the last one of a run that was handled and counted."""
        trailer_at = end - self._trailer.size
        stated: int | None = None
        if self._has_plain_names:
            known = self._known_address
            message = CoreMessage.parse(bytearray(buffer[start + _HEADER_SIZE : trailer_at]), known)
            if message.address is not known[1]:
                self._known_address = known_address(message.address)
        else:
            message = CoreMessage.parse(message_raw(buffer, start + _HEADER_SIZE, trailer_at, self.version))
            message, stated = self.plain(message)
        # Only an answer repeats the rest of the trailer, and most sends request none.
        wants_reply = buffer[trailer_at] != 0
        if not message.address or not self.default_address:
            message = self.with_address(message)
        refused: Refused | None = None
        if self._looks_at_user:
            message, refused = self._look_at_user(message)
        arrival = self._arrival
        properties_at = message.properties_at
        if not arrival.covers(message.raw, properties_at):
            arrival = self._arrival = traits_of(message)
        id_at, queue_ids = arrival.duplicate_id_at, _ALL_QUEUES
        duplicate_id = bytes(message.raw[properties_at:][id_at]) if id_at is not None else None
        if arrival.has_extras:
            message = self._directed(arrival, message)
            if arrival.is_bridged:
                if arrival.is_acknowledged or arrival.is_for_others:
                    self._on_moved(
                        message, duplicate_id, refused, wants_reply, self._correlation_id(buffer, trailer_at)
                    )
                    return 0
                if wants_reply and may_begin(buffer, end) and self._takes_runs(arrival):
                    run_end = self._on_run(buffer, start)
                    if run_end:
                        return run_end
                message, duplicate_id, queue_ids = from_bridge(message, duplicate_id, arrival)
                self.kernel.late_bindings.check(message, queue_ids, sender_of(duplicate_id))
            if arrival.has_group and refused is None and not queue_ids:
                queue_ids = self._queues_of_group(message, arrival.routing_type)
        if refused is None:
            refused = self.kernel_session.send(
                message,
                arrival.routing_type if stated is None else stated,
                duplicate_id,
                sender_waits=wants_reply,
                queue_ids=queue_ids,
            )
        if refused is not None:
            self._refuse_send(message, refused, wants_reply, self._correlation_id(buffer, trailer_at))
        elif wants_reply:
            # In a transaction the commit promises. A duplicate waits for the message that it repeats.
            durable = (message.durable or id_at is not None) and self.kernel_session.auto_commit_sends
            correlation_id = self._correlation_id(buffer, trailer_at)
            frame = encode_null_response(
                self.channel_id, self.version, correlation_id if correlation_id is not None else -1
            )
            self._answer(frame, _NULL_RESPONSE, durable=durable)
        return 0

    def plain(self, message: CoreMessage) -> tuple[CoreMessage, int | None]:
        """Return a sent message with its plain address, and the routing type that a prefix of its address states."""
        if self.version < MODERN_NAMES_SINCE:
            return plain_message(message), stated_routing_type(message.address)
        prefixes = self.prefixes
        return (message, None) if prefixes is None else prefixes.plain_message(message)

    def _takes_runs(self, arrival: MessageTraits) -> bool:
        """Return True if messages of this kind may be taken several at once."""
        is_alone = arrival.has_group or arrival.scheduled_ms or self._looks_at_user
        has_ids = arrival.bridge_entries and arrival.route_to_at is not None and arrival.duplicate_id_at is not None
        return bool(has_ids) and not is_alone and self._trailer is SEND_TRAILER

    def _on_run(self, buffer: bytes | bytearray, start: int) -> int:
        """Handle the sends of a bridge that begin there and are alike; return the end of the last one, 0 for none.

        All are routed and recorded together, and so are their answers. What one message alone needs is left to
        `kernel_session.send`.
        """
        run, session = read_run(buffer, start, self._arrival, self._known_address, self._trailer), self.kernel_session
        if not run.messages:
            return 0
        queue_ids, routing_type = route_ids(run.route), self._arrival.routing_type
        self.kernel.late_bindings.check(run.messages[0], queue_ids, sender_of(run.duplicate_ids[0]))
        messages, correlation_ids = run.messages, run.correlation_ids
        if len(messages) > 1 and session.send_run(messages, run.duplicate_ids, queue_ids):
            answers = [encode_null_response(self.channel_id, self.version, each) for each in correlation_ids]
            self._answer_run(answers)
        else:
            for message, duplicate_id, number in zip(messages, run.duplicate_ids, correlation_ids, strict=True):
                refused = session.send(message, routing_type, duplicate_id, sender_waits=True, queue_ids=queue_ids)
                if refused is not None:
                    self._refuse_send(message, refused, True, number)
                else:
                    frame = encode_null_response(self.channel_id, self.version, number)
                    self._answer(frame, _NULL_RESPONSE, durable=session.auto_commit_sends)
        if self.windowed:
            self._confirm(self.channel.received_run(len(messages), run.end - start))
        return run.end

    def _on_moved(
        self,
        message: CoreMessage,
        duplicate_id: bytes | None,
        refused: Refused | None,
        wants_reply: bool,
        correlation_id: int | None,
    ) -> None:
        """Handle a message of a broker that scales down, which is not for all queues that take it."""
        refused = refused or self._take_moved(message, duplicate_id, None)
        if refused is not None:
            self._refuse_send(message, refused, wants_reply, correlation_id)
        elif wants_reply:
            frame = encode_null_response(
                self.channel_id, self.version, -1 if correlation_id is None else correlation_id
            )
            self._answer(frame, _NULL_RESPONSE, durable=self.kernel_session.auto_commit_sends)

    def _take_moved(self, message: CoreMessage, duplicate_id: bytes | None, body: Body | None) -> Refused | None:
        """Place a message of a broker that scales down: one that its branch has acknowledged, or for a third broker."""
        acknowledged_ids, (remote_ids, node_id) = acknowledged_queues(message), queues_of_others(message)
        plain, duplicate_id, _queue_ids = from_bridge(message, duplicate_id)
        if not acknowledged_ids:
            plain = with_bridge_id(plain, duplicate_id)
            if duplicate_id is not None:
                # It keeps its id for the third broker. Here another one counts, which no broker before this one has
                # brought into force: the message may come over several that scale down, and their ids come first.
                duplicate_id += self.service.node_id.encode()
        taken: CoreMessage | StoredMessage = plain if body is None else large_message(plain, body)
        if acknowledged_ids:
            return self.kernel_session.adopt(taken, acknowledged_ids)
        routing_type = traits_of(message).routing_type
        return self.kernel_session.send_on(taken, routing_type, remote_ids, node_id, duplicate_id)

    def _queues_of_group(self, message: CoreMessage, routing_type: int | None) -> frozenset[int]:
        return self.kernel_session.addresses.prepare_group(message, routing_type, self.kernel.cluster_groups)

    def _wait_for(self, undecided: RoutingUndecided) -> None:
        """Handle nothing more of the connection until the queue of a message in the cluster is known."""
        self.connection.block()
        undecided.wait(self.connection.unblock)

    def with_address(self, message: CoreMessage) -> CoreMessage:
        """Return a sent message with the default address if it has none; the first address becomes the default."""
        if message.address:
            if not self.default_address:
                self.default_address = message.address
        elif self.default_address:
            return message.copy_for(self.default_address, changes={}, removals=(), expiration=message.expiration)
        return message

    # -- large messages ------------------------------------------------------------------------------------------

    def begin_upload(self, header: CoreMessage) -> None:
        """Begin to take a large message; one that its client did not end is given up."""
        if self.upload is not None:
            self.upload.abandon()
        self.upload = Upload(self, header)

    def send_large(
        self, header: CoreMessage, body: Body, routing_type: int | None, announced_size: int
    ) -> Refused | None:
        """Send a large message whose body is stored; return why it was refused.

        A ``routing_type`` of None is that of the properties; ``announced_size`` is -1 if the client named none.

        Raises:
            RoutingUndecided: The message must wait, and is then sent anew.
        """
        message, refused = header, None
        if announced_size >= 0:
            # Clients return it as the length of the body, which may be compressed.
            changes = {_LARGE_SIZE: TypedValue(announced_size, PropertyType.LONG)}
            message = message.copy_for(message.address, changes=changes, removals=(), expiration=message.expiration)
        if self._looks_at_user:
            message, refused = self._look_at_user(message)
        arrival = traits_of(message)
        if refused is not None:
            return refused
        if arrival.has_extras:
            message = self._directed(arrival, message)
        duplicate_id, queue_ids = message.duplicate_id, _ALL_QUEUES
        if arrival.is_bridged:
            if arrival.is_acknowledged or arrival.is_for_others:
                return self._take_moved(message, duplicate_id, body)
            message, duplicate_id, queue_ids = from_bridge(message, duplicate_id)
            self.kernel.late_bindings.check(message, queue_ids, sender_of(duplicate_id))
        routing_type = arrival.routing_type if routing_type is None else routing_type
        if arrival.has_group and not queue_ids:
            queue_ids = self._queues_of_group(message, routing_type)
        large = large_message(message, body)
        return self.kernel_session.send(large, routing_type, duplicate_id, queue_ids=queue_ids)

    def end_upload(
        self, header: CoreMessage, packet: SessionSendContinuation, refused: Refused | None, frame_size: int
    ) -> None:
        """Answer the last chunk of an upload, and count its frame unless ``frame_size`` is 0: it was counted."""
        self.upload = None
        correlation_id = packet.correlation_id if self.version >= _CORRELATES_SINCE else None
        if refused is not None:
            self._refuse_send(header, refused, packet.requires_response, correlation_id)
        elif packet.requires_response:
            frame = encode_null_response(
                self.channel_id, self.version, -1 if correlation_id is None else correlation_id
            )
            has_id = header.duplicate_id is not None or traits_of(header).is_bridged
            durable = (header.durable or has_id) and self.kernel_session.auto_commit_sends
            self._answer(frame, _NULL_RESPONSE, durable=durable)
        if frame_size and self.windowed:
            self._confirm(self.channel.received(frame_size))

    def answer_chunk(self, packet: SessionSendContinuation) -> None:
        """Answer a chunk that is not the last one."""
        correlation_id = packet.correlation_id if self.version >= _CORRELATES_SINCE else -1
        self._answer(encode_null_response(self.channel_id, self.version, correlation_id), _NULL_RESPONSE, durable=False)

    @property
    def kernel(self) -> Kernel:
        """Return the kernel of the broker."""
        return self.service.kernel

    @property
    def holds_deliveries(self) -> bool:
        """Return True if deliveries wait for their counts to be on disk."""
        return self._deliveries_held > 0

    def write_parts(self, parts: Sequence[bytes | bytearray]) -> int:
        """Send the parts of one frame, and keep it for a reattachment if the session has a window; return its size."""
        if self.windowed:
            self._keep(*parts)
        return self.connection.link.write_pieces(parts)

    def write_chunk(self, head: bytes, chunk: memoryview, trailer: bytes) -> int:
        """Send the frame of a chunk; return its size."""
        if self.windowed:
            # A copy: what is kept must not keep the whole portion that was read.
            return self.write_parts((head, bytes(chunk), trailer))
        return self.connection.link.write_pieces((head, chunk, trailer))

    def _large_header(self, consumer: Consumer, reference: Reference, message: StoredMessage) -> bytes:
        """Return the first frame of a large delivery, whose chunks follow in later steps."""
        header = header_of(message)
        if self._uses_old_names:
            header = old_message(header, consumer.queue.definition.routing_type)
        packet = SessionReceiveLarge(consumer.key, reference.delivery_count, message.body.size, header)
        return encode_packet(packet, self.channel_id, self.version)

    def _begin_large(self, consumer: Consumer, message: StoredMessage) -> None:
        delivery = LargeDelivery(self, consumer, message)
        self.large[delivery] = None
        delivery.begin()

    def end_large(self, *, closed_only: bool = False) -> None:
        """End the large deliveries under way: what consumers hold was taken back, or some of them are closed."""
        for delivery in list(self.large):
            if delivery.consumer.closed or not closed_only:
                delivery.end()

    def break_off(self, consumer: Consumer, message: StoredMessage, why: str, *, is_damaged: bool) -> None:
        """Have the client close a consumer in the middle of a body that cannot be delivered.

        No frame takes back what was sent. The client discards it when it closes the consumer; others go on. Until then,
        acknowledgements that are on their way count.
        """
        number, queue = message.body.number, consumer.queue
        text = f"the body {number} of message {message.message_id} in queue {queue.name!r} {why}"
        if self.kernel.large_bodies.note_damage(number):
            self.connection.log(f"{text}; its consumer is closed: check the disk, and put the file back from a copy")
        self.kernel_session.give_up(consumer, message.message_id, is_damaged=is_damaged)
        if self.version < _DISCONNECTS_SINCE:
            self.connection.fail(text)
        else:
            self.disconnect_consumer(consumer.key)

    def forget_large(self, delivery: object) -> None:
        """Forget a large delivery that is over."""
        self.large.pop(delivery, None)  # type: ignore[call-overload]  # the session made it

    def advance_large(self) -> None:
        """Continue the large deliveries that waited."""
        for delivery in list(self.large):
            delivery.advance()

    def _look_at_user(self, message: CoreMessage) -> tuple[CoreMessage, Refused | None]:
        """Write the user of the session into a message, and refuse one without a user, where that is configured."""
        config = self.service.kernel.config
        if config.populate_validated_user:
            user = self.username
            message = message.copy_for(
                message.address,
                changes={_VALIDATED_USER: user} if user else {},
                # A sender without a name must not choose one.
                removals=() if user else (_VALIDATED_USER,),
                expiration=message.expiration,
            )
        if not config.reject_empty_validated_user or message.property(_VALIDATED_USER):
            return message, None
        if self.kernel_session.takes_requests(message.address):
            return message, None
        # The permission first, as in Artemis.
        refused = self.kernel_session.admit_send(message.address)
        if refused is None:
            refused = Refused(ErrorCode.ILLEGAL_STATE, "AMQ229225: Validated User is not set")
        self.kernel_session.fail_transaction(refused.text)
        return message, refused

    def _correlation_id(self, buffer: bytes | bytearray, trailer_at: int) -> int | None:
        """Return the correlation id that the answer to a send repeats; None for versions without it."""
        _wants_reply, *numbers = self._trailer.unpack_from(buffer, trailer_at)
        return numbers[0] if numbers else None

    def _refuse_send(
        self, message: CoreMessage, refused: Refused, wants_reply: bool, correlation_id: int | None
    ) -> None:
        if wants_reply:
            self.refuse(refused, correlation_id)
            return
        text = f"a message to {message.address!r} was refused: {refused.text}"
        if refused.scope is not Scope.CONNECTION:
            if refused.code == ErrorCode.QUEUE_DOES_NOT_EXIST:
                # A temporary destination is gone: its consumer left before the reply came, which is ordinary.
                self.connection.inform(text)
            else:
                self.connection.log(text)
        elif self.kernel_session.auto_commit_sends:
            # No answer is awaited: only the loss of the connection informs the client.
            self.connection.fail(text)
        # In a transaction the commit reports it.

    def _directed(self, arrival: MessageTraits, message: CoreMessage) -> CoreMessage:
        """Return the message as a directed one if it has a group, or a time that is still to come."""
        if arrival.scheduled_ms > self.service.now.wall_ms:
            return message.directed(arrival.scheduled_ms, arrival.group_at)
        return message.directed(0, arrival.group_at) if arrival.has_group else message

    def _settle_run(self, buffer: bytes | bytearray, start: int) -> int:
        """Settle the acknowledgements of one consumer that begin here and request no answer; return 0 for one or none.

        Consumers that acknowledge each message send many of them in one write. Where sessions have a window, each is
        counted separately.
        """
        size = len(buffer) - start
        frames = memoryview(buffer)[start : start + size - size % _RUN_STEP]
        head = bytes(frames[:_RUN_HEAD])
        message_ids: list[int] = []
        for beginning, message_id, wants_reply in ACKNOWLEDGE_RUN.iter_unpack(frames):
            if beginning != head or wants_reply:
                break
            message_ids.append(message_id)
        if len(message_ids) < 2:
            return 0
        key, _message_id, _wants_reply = ACKNOWLEDGE_BODY.unpack_from(buffer, start + _HEADER_SIZE)
        for refused in self.kernel_session.settle_run(key, message_ids):
            self._on_settled(refused, wants_reply=False)
        return start + len(message_ids) * _RUN_STEP

    def _on_settled(self, refused: Refused | None, wants_reply: bool) -> None:
        if refused is None:
            if wants_reply:
                self.reply(NullResponse(-1), durable=self.kernel_session.auto_commit_acknowledges)
        elif wants_reply:
            self.refuse(refused, None)
        else:
            self.connection.log(f"an acknowledgement was refused: {refused.text}")

    # -- replies -------------------------------------------------------------------------------------------------

    def reply(self, packet: Packet, *, durable: bool = True) -> None:
        """Answer a request once everything it made durable is durable, and behind the answers before it.

        ``durable`` False means that the answer promises nothing that must be on disk.
        """
        self._answer(encode_packet(packet, self.channel_id, self.version), packet.TYPE, durable=durable)

    def _answer(self, frame: bytes, packet_type: int, *, durable: bool) -> None:
        store = self.service.kernel.store
        if not durable:
            point = 0
        elif self.kernel_session.unfinished:
            point = _UNRECORDED
        else:
            point = store.point()
        if not self._held and point <= store.reached:
            self.transmit(frame, packet_type)
        else:
            self._hold(_HeldReply(point, frame))

    def _answer_run(self, frames: list[bytes]) -> None:
        """Answer sends, as `_answer` does with each, once what they made durable is durable."""
        point, store = self._point(), self.service.kernel.store
        if not self._held and point <= store.reached:
            self._transmit_run(frames)
        else:
            self._hold(_HeldRun(point, frames))

    def _transmit_run(self, frames: list[bytes]) -> None:
        if self.windowed:
            self.channel.sent_run([(frame,) for frame in frames], sum(map(len, frames)))
            self._count_kept()
        self.connection.link.write_pieces(frames)

    def _point(self) -> int:
        return _UNRECORDED if self.kernel_session.unfinished else self.service.kernel.store.point()

    def _hold(self, reply: _HeldReply | _HeldRun) -> None:
        limit = self.service.kernel.config.held_replies_max
        if len(self._held) >= limit and len(self._held) - self._deliveries_held >= limit:
            self.connection.fail(f"{limit} replies of session {self.name} wait for the disk, held_replies_max")
            return
        if reply.point == _UNRECORDED:
            self.service.kernel.deferred.add_action(lambda: self._recorded(reply))
        elif not self._held:
            self.service.gate.hold(self)
        self._held.append(reply)

    def _recorded(self, reply: _HeldReply | _HeldRun) -> None:
        """Mark a reply as recorded: everything that was requested before it has its records now."""
        store = self.service.kernel.store
        reply.point = store.point()
        if self.release(store.reached) and self._held[0].point != _UNRECORDED:
            self.service.gate.hold(self)

    def refuse(self, refused: Refused, correlation_id: int | None) -> None:
        """Answer a request with EXCEPTION."""
        # To clients that send an unconfirmed message again, a duplicate promises that the first one was accepted.
        promises = refused.code == ErrorCode.DUPLICATE_ID_REJECTED
        self.reply(ExceptionResponse(refused.code, refused.text, correlation_id), durable=promises)

    def reply_on_connection(self, frame: bytes) -> None:
        """Send a frame of channel 1 once everything processed so far is durable.

        It goes to the requesting connection, or is dropped. Suppose it went to the session's current connection:

        1. A client reattaches a session whose replies wait for the disk; the connection is lost before the answer.
        2. It reattaches the session over the next connection, which is sent both answers.
        3. Answers carry no name. The client takes the second answer for that of its next session, and for a count of
           what arrived there. The count is too low, so it sends again what has arrived, and consumers get it twice.
        """
        point = self._point()
        link = self.connection.link
        if not self._held and point <= self.service.kernel.store.reached:
            link.write(frame)
        else:
            self._hold(_HeldReply(point, frame, link))

    def release(self, reached: int) -> bool:
        """Send the replies and deliveries that became durable; return True if any is still held."""
        held = self._held
        while held and held[0].point <= reached:
            reply = held.popleft()
            if isinstance(reply, _HeldRun):
                self._transmit_run(reply.frames)
            elif reply.link is not None:
                self._send_held(reply)
            elif self.windowed:
                packet_type = reply.frame[4]
                self.transmit(reply.frame, packet_type if packet_type < 128 else packet_type - 256)
            else:
                self.connection.link.write(reply.frame)
        if self.large and not self._deliveries_held:
            self.advance_large()
        return bool(held)

    def _send_held(self, held: _HeldReply | _HeldDelivery) -> None:
        """Send what is not an answer on the session's own channel."""
        if isinstance(held, _HeldReply):
            assert held.link is not None
            held.link.write(held.frame)
            return
        self._deliveries_held -= 1
        if self.windowed:
            self._keep(*held.pieces)
        link = self.connection.link
        if held.link is link:
            link.write_reserved(held.pieces)
        else:
            link.write_pieces(held.pieces)

    def transmit(self, frame: bytes, packet_type: int) -> None:
        """Send a frame now, and keep it for a reattachment if the session has a window."""
        if self.windowed and is_confirmed(packet_type):
            self._keep(frame)
        self.connection.link.write(frame)

    def _keep(self, *frame: bytes | bytearray) -> None:
        self.channel.sent(*frame)
        self._count_kept()

    def _count_kept(self) -> None:
        channel = self.channel
        kept = channel.sent_bytes_cached + channel.kept_count * KEPT_PACKET_OVERHEAD_BYTES
        if kept != self.kept_bytes:
            self.service.resend.count(self, kept, self.service.sessions.values())

    @property
    def can_come_back(self) -> bool:
        """Return True if a client that lost its connection may be reattached."""
        is_storing = self.upload is not None and self.upload.is_ending
        return self.windowed and self.channel.keeps and not self.rebuilt and not is_storing

    def give_up_reattachment(self, reason: str) -> None:
        """Drop what is kept for a reattachment: a client that comes back must create its session again."""
        self.connection.log(f"session {self.name} cannot be reattached any more: {reason}")
        self.channel.stop_keeping()
        self._count_kept()

    def _confirm(self, command_id: int | None) -> None:
        if command_id is not None:
            self.reply(PacketsConfirmed(command_id))

    def flush_confirmations(self) -> None:
        """Confirm what was processed although the window is not reached."""
        if self.windowed:
            self._confirm(self.channel.flush())

    # -- deliveries (ConsumerPort) -------------------------------------------------------------------------------

    def deliver(self, consumer: Consumer, reference: Reference) -> int:
        """Send one message; return the size of the whole frame as its charge."""
        message = reference.message
        if self.windowed or self.version < 129:
            return self._deliver_slowly(consumer, reference)
        # Not of a subclass that a protocol may add; the first kind is the common one.
        if type(message) is not CoreMessage and type(message) is not DirectedCoreMessage:
            return self._deliver_slowly(consumer, reference)
        raw = message.raw
        link = self.connection.link
        out = link.out
        if not out:
            link.dirty.append(link)
        size = len(raw) + _RECEIVE_EXTRA
        out.append(FRAME_HEADER.pack(size - 4, _RECEIVE, self.channel_id))
        out.append(raw)
        out.append(RECEIVE_TRAILER.pack(consumer.key, reference.delivery_count))
        link.room -= size
        if link.room < 0 and not link.slow:
            link.become_slow()
        return size

    def _deliver_slowly(self, consumer: Consumer, reference: Reference) -> int:
        return self.write_parts(self._encoded(consumer, reference))

    def _encoded(self, consumer: Consumer, reference: Reference) -> Sequence[bytes | bytearray]:
        """Return the frame of a delivery. A large one is under way from now on."""
        if reference.message.body_number:
            large = reference.message
            assert isinstance(large, StoredMessage)
            frame = self._large_header(consumer, reference, large)
            self._begin_large(consumer, large)
            return (frame,)
        message = reference.message.to_core()
        assert isinstance(message, CoreMessage)
        if self._uses_old_names:
            message = old_message(message, consumer.queue.definition.routing_type)
        return encode_receive(message.raw, self.channel_id, self.version, consumer.key, reference.delivery_count)

    def deliver_behind(self, point: int, consumer: Consumer, reference: Reference) -> int:
        """Send one message once that point is durable, and behind those that were handed over before it.

        For the kernel the message is sent. Code that takes it back, or closes the consumer, must treat it like a
        message on the network. An answer to that stands behind the message here, too.
        """
        if not self._deliveries_held and point <= self.service.kernel.store.reached:
            return self.deliver(consumer, reference)
        parts = self._encoded(consumer, reference)
        size = sum(map(len, parts))
        link = self.connection.link
        if not self._held:
            self.service.gate.hold(self)
        self._held.append(_HeldDelivery(point, parts, link))
        self._deliveries_held += 1
        link.reserve(size)
        return size

    @property
    def _uses_old_names(self) -> bool:
        return self.version < MODERN_NAMES_SINCE and "jms-session" in self.metadata

    def deliver_marker(self, consumer: Consumer, sequence: int) -> None:
        """Answer a forced delivery (7.6); markers cost no credit."""
        properties = Properties()
        properties.set(_FORCED_DELIVERY, sequence, PropertyType.LONG)
        marker = CoreMessage.build(
            address=consumer.queue.name, durable=False, priority=0, body=bytes(4), properties=properties
        )
        marker.assign_id(self.service.kernel.ids.take())
        if self._uses_old_names:
            marker = old_message(marker, consumer.queue.definition.routing_type)
        parts = encode_receive(marker.raw, self.channel_id, self.version, consumer.key, 0)
        self._transmit_behind(b"".join(parts), _RECEIVE)

    def _transmit_behind(self, frame: bytes, packet_type: int) -> None:
        """Send a frame that refers to the deliveries before it."""
        if self._deliveries_held:
            self._held.append(_HeldReply(0, frame))
        else:
            self.transmit(frame, packet_type)

    def closed_by_broker(self, consumer: Consumer) -> None:
        """Notify the client that a queue was deleted under its consumer."""
        self.kernel_session.consumers.pop(consumer.key, None)
        self.end_large(closed_only=True)
        self.disconnect_consumer(consumer.key)

    def disconnect_consumer(self, consumer_id: int) -> None:
        """Notify the client that a consumer it depends on does not exist."""
        if self.version >= _DISCONNECTS_SINCE:
            packet = DisconnectConsumer(consumer_id)
            self._transmit_behind(encode_packet(packet, self.channel_id, self.version), packet.TYPE)

    # -- life ----------------------------------------------------------------------------------------------------

    def reattach(self, connection: SessionConnection, last_confirmed_command_id: int) -> None:
        """Continue over another connection; send again what the client has not processed."""
        previous = self.connection
        if previous is not connection:
            previous.forget_session(self.channel_id, self)
            connection.temporary_queues.take_over(previous.temporary_queues)
        self.connection = connection
        pieces = self.channel.replay_after(last_confirmed_command_id)
        self._count_kept()
        connection.link.write_pieces(pieces)
        if self.service.security is not None:
            self.service.security.move_session(self.kernel_session, connection.link.id)
        self.kernel_session.move(connection.backpressure, connection)
        self.advance_large()

    def close(self, *, failed: bool) -> None:
        """End the session."""
        if self.service.sessions.get(self.name) is self:
            del self.service.sessions[self.name]
        self.service.forget_metadata(self)
        if self.service.security is not None:
            self.service.security.remove_session(self.kernel_session)
        if self.upload is not None:
            self.upload.abandon()
            self.upload = None
        self.kernel_session.close(failed=failed)
        self.end_large()
        self.service.kernel.memory.forget(self)
        self.channel.stop_keeping()
        self._count_kept()
        self.connection.forget_session(self.channel_id, self)
