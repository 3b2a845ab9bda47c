"""A small broker with the counting faults of Artemis (core-protocol 12.21, 12.22, 12.24), behind the step of a node.

It keeps sessions with a confirmation window over a lost connection, replays what was not confirmed, does not count
requests that it answers with EXCEPTION, counts the packets that rebuild a session, and answers every commit.
"""

from __future__ import annotations

from collections import deque

from embedbroker.node import Accepted, BytesReceived, Input, Output, PeerClosed, SendBytes
from embedclient.engine.core import Channel
from embedclient.errors import ErrorCode
from embedclient.model import Instant
from embedclient.wire.core import (
    HANDSHAKE,
    CheckForFailover,
    CheckForFailoverReply,
    ClusterTopologyV4,
    CoreMessage,
    CreateProducer,
    CreateQueueV2,
    CreateSession,
    CreateSessionResponse,
    CreateSessionV2,
    ExceptionResponse,
    FrameSplitter,
    NullResponse,
    Packet,
    PacketsConfirmed,
    Ping,
    ReattachSession,
    ReattachSessionResponse,
    SessionAcknowledge,
    SessionAddMetadataV2,
    SessionClose,
    SessionCommit,
    SessionConsumerClose,
    SessionConsumerFlowCredit,
    SessionCreateConsumer,
    SessionForceConsumerDelivery,
    SessionProducerCredits,
    SessionQueueQuery,
    SessionQueueQueryResponseV3,
    SessionReceiveMessage,
    SessionRequestProducerCredits,
    SessionSend,
    SessionStart,
    SubscribeTopologyV2,
    decode_packet,
    encode_packet,
    frame_spans,
    is_confirmed,
)

VERSION = 136


class DoubleSession:
    """One session: its counters, its consumers, what it delivered."""

    def __init__(self, name: str, channel_id: int, window: int) -> None:
        self.name = name
        self.channel_id = channel_id
        self.window = window
        self.channel = Channel(channel_id, window)
        self.connection: int | None = None
        self.credits: dict[int, int] = {}
        self.queues: dict[int, str] = {}
        self.delivered: dict[int, list[CoreMessage]] = {}
        self.started = False


class ArtemisDouble:
    """The broker. `queues` hold what was sent and not acknowledged; `received` every message in order of arrival."""

    def __init__(self, versions: range = range(121, VERSION + 1)) -> None:
        self.versions = versions
        self.queues: dict[str, deque[CoreMessage]] = {}
        self.received: list[CoreMessage] = []
        self.sessions: dict[str, DoubleSession] = {}
        self.counts_exceptions = False
        self.refused_text: str | None = None
        self.stray_reply = False
        self.seen: list[Packet] = []
        self._next_id = 1
        self._splitters: dict[int, FrameSplitter] = {}
        self._handshakes: set[int] = set()
        self._out: dict[int, list[bytes]] = {}

    def next_deadline(self) -> float | None:
        return None

    def forget_sessions(self) -> None:
        """As after a restart: unacknowledged messages are back in their queues."""
        for session in list(self.sessions.values()):
            self._close(session)

    def step(self, input: Input, now: Instant) -> list[Output]:
        self._out = {}
        match input:
            case Accepted(connection, _):
                self._splitters[connection] = FrameSplitter()
            case BytesReceived(connection, data):
                self._on_bytes(connection, data)
            case PeerClosed(connection, _):
                for session in list(self.sessions.values()):
                    if session.connection == connection:
                        session.connection = None
                        if session.window < 0:
                            self._close(session)
        return [SendBytes(connection, b"".join(frames)) for connection, frames in self._out.items()]

    def _send(self, connection: int, packet: Packet, channel_id: int) -> None:
        self._out.setdefault(connection, []).append(encode_packet(packet, channel_id, VERSION))

    def _say(self, session: DoubleSession, packet: Packet) -> None:
        frame = encode_packet(packet, session.channel_id, VERSION)
        if is_confirmed(packet.TYPE):
            session.channel.sent(frame)
        if session.connection is not None:
            self._out.setdefault(session.connection, []).append(frame)

    def _on_bytes(self, connection: int, data: bytes) -> None:
        if connection not in self._handshakes:
            assert data.startswith(HANDSHAKE)
            self._handshakes.add(connection)
            data = data[len(HANDSHAKE) :]
        buffer, headers = self._splitters[connection].feed(data)
        for (_length, _type, channel_id), (start, end) in zip(headers, frame_spans(headers), strict=True):
            packet = decode_packet(buffer, start, end, VERSION, from_client=True)
            self.seen.append(packet)
            session = next(
                (s for s in self.sessions.values() if s.channel_id == channel_id and s.connection == connection), None
            )
            if session is not None:
                self._on_session_packet(session, packet, end - start)
            else:
                self._on_packet(connection, packet)

    def _on_packet(self, connection: int, packet: Packet) -> None:
        match packet:
            case Ping():
                self._send(connection, packet, 0)
            case SubscribeTopologyV2():
                self._send(connection, ClusterTopologyV4(False, "node", 1, None, None, True, None, None, VERSION), 0)
            case CheckForFailover():
                self._send(connection, CheckForFailoverReply(True), 1)
            case CreateSession() | CreateSessionV2():
                if packet.version not in self.versions:
                    code = int(ErrorCode.INCOMPATIBLE_CLIENT_SERVER_VERSIONS)
                    self._send(connection, ExceptionResponse(code, "version"), 1)
                    return
                session = DoubleSession(packet.name, packet.session_channel_id, packet.window_size)
                session.connection = connection
                self.sessions[packet.name] = session
                self._send(connection, CreateSessionResponse(VERSION), 1)
            case ReattachSession():
                self._on_reattach(connection, packet)

    def _on_reattach(self, connection: int, packet: ReattachSession) -> None:
        session = self.sessions.get(packet.name)
        if session is None or session.window < 0:
            if session is not None:
                self._close(session)
            self._send(connection, ReattachSessionResponse(-1, False), 1)
            return
        session.connection = connection
        frames = self._out.setdefault(connection, [])
        frames += map(bytes, session.channel.replay_after(packet.last_confirmed_command_id))
        self._send(connection, ReattachSessionResponse(session.channel.last_confirmed, True), 1)

    def _on_session_packet(self, session: DoubleSession, packet: Packet, size: int) -> None:
        if isinstance(packet, PacketsConfirmed):
            session.channel.on_confirmed(packet.command_id)
            return
        reply = self._handle(session, packet)
        counted = is_confirmed(packet.TYPE, getattr(packet, "requires_response", True))
        if counted and (self.counts_exceptions or not isinstance(reply, ExceptionResponse)):
            due = session.channel.received(size)
            if due is not None:
                self._say(session, PacketsConfirmed(due))
        if reply is not None:
            self._say(session, reply)
        if isinstance(packet, SessionClose):
            self._close(session)
        self._deliver()

    def flush(self) -> list[Output]:
        """The periodic confirmation."""
        self._out = {}
        for session in self.sessions.values():
            due = session.channel.flush()
            if due is not None and session.connection is not None:
                self._say(session, PacketsConfirmed(due))
        return [SendBytes(connection, b"".join(frames)) for connection, frames in self._out.items()]

    def _handle(self, session: DoubleSession, packet: Packet) -> Packet | None:
        match packet:
            case SessionSend(message, requires_response, correlation_id, _):
                if self.refused_text is not None and self.refused_text.encode() in message.raw.replace(b"\0", b""):
                    return ExceptionResponse(int(ErrorCode.ADDRESS_FULL), "refused", correlation_id)
                message.assign_id(self._next_id)
                self._next_id += 1
                self.received.append(message)
                self.queues.setdefault(message.address, deque()).append(message)
                return NullResponse(correlation_id) if requires_response else None
            case SessionCreateConsumer():
                if packet.filter is not None:
                    return ExceptionResponse(int(ErrorCode.INVALID_FILTER_EXPRESSION), packet.filter)
                session.queues[packet.consumer_id] = packet.queue_name
                session.credits[packet.consumer_id] = 0
                session.delivered[packet.consumer_id] = []
                return self._state_of(packet.queue_name) if packet.requires_response else None
            case SessionQueueQuery():
                return self._state_of(packet.queue_name)
            case SessionConsumerFlowCredit():
                session.credits[packet.consumer_id] += packet.credits
            case SessionAcknowledge():
                self._acknowledge(session, packet)
            case SessionRequestProducerCredits():
                self._say(session, SessionProducerCredits(packet.credits, packet.address))
            case SessionStart():
                session.started = True
            case SessionCommit():
                if self.stray_reply:
                    self._say(session, NullResponse(-1))
                return NullResponse(-1 if packet.correlation_id is None else packet.correlation_id)
            case SessionConsumerClose():
                self._give_back(session, packet.consumer_id)
                return NullResponse(-1)
            case SessionAddMetadataV2():
                return NullResponse(-1) if packet.requires_response else None
            case SessionForceConsumerDelivery() | CreateProducer():
                pass
            case CreateQueueV2():
                return NullResponse(-1) if packet.requires_response else None
            case _:
                return NullResponse(-1)
        return None

    def _state_of(self, queue: str) -> SessionQueueQueryResponseV3:
        count = len(self.queues.get(queue, ()))
        return SessionQueueQueryResponseV3(
            True, True, False, 0, count, None, queue, queue, True, True, False, 1, -1, default_consumer_window_size=None
        )

    def _acknowledge(self, session: DoubleSession, packet: SessionAcknowledge) -> None:
        """Cumulative: an unknown message id takes everything, which is why acknowledging twice loses messages."""
        delivered = session.delivered[packet.consumer_id]
        while delivered:
            if delivered.pop(0).message_id == packet.message_id:
                return

    def _give_back(self, session: DoubleSession, consumer_id: int) -> None:
        queue = session.queues.pop(consumer_id, None)
        if queue is not None:
            self.queues.setdefault(queue, deque()).extendleft(reversed(session.delivered.pop(consumer_id)))

    def _close(self, session: DoubleSession) -> None:
        for consumer_id in list(session.queues):
            self._give_back(session, consumer_id)
        self.sessions.pop(session.name, None)

    def _deliver(self) -> None:
        for session in self.sessions.values():
            for consumer_id, queue in session.queues.items():
                waiting = self.queues.get(queue)
                while waiting and session.started and session.credits[consumer_id] > 0:
                    message = waiting.popleft()
                    session.delivered[consumer_id].append(message)
                    session.credits[consumer_id] -= len(message.raw) + 25
                    self._say(session, SessionReceiveMessage(message, consumer_id, 1))
