"""A small broker that takes and delivers large messages as Artemis does, credits and repeated chunks included."""

from __future__ import annotations

from embedclient.agent.consumer._consumer import FORCED_DELIVERY_PROPERTY
from embedclient.errors import ErrorCode
from embedclient.model import Properties, PropertyType
from embedclient.wire.core import (
    CoreMessage,
    ExceptionResponse,
    NullResponse,
    Packet,
    SessionAcknowledge,
    SessionCommit,
    SessionConsumerFlowCredit,
    SessionForceConsumerDelivery,
    SessionReceiveContinuation,
    SessionReceiveLarge,
    SessionReceiveMessage,
    SessionRollback,
    SessionSend,
    SessionSendContinuation,
    SessionSendLarge,
    SessionStop,
    encode_packet,
)
from tests.embedclient.agent.artemis_double import VERSION, ArtemisDouble, DoubleSession


class Progress:
    """A large message on its way to a consumer."""

    def __init__(self, message: CoreMessage) -> None:
        self.message = message
        self.at = -1


class LargeDouble(ArtemisDouble):
    """`uploads` are the large messages that have not come whole; a body above `large_from` bytes is delivered so."""

    def __init__(self, *, large_from: int = 1000, chunk_bytes: int = 1000) -> None:
        super().__init__()
        self.large_from = large_from
        self.chunk_bytes = chunk_bytes
        self.uploads: dict[str, tuple[CoreMessage, bytearray]] = {}
        self.progress: dict[tuple[str, int], Progress] = {}
        # Until a commit: a rollback brings them again.
        self.acknowledged: dict[int, list[CoreMessage]] = {}
        self.refused_chunk = -1
        # Sizes that differ from those of the bodies.
        self.announced: int | None = None

    def _handle(self, session: DoubleSession, packet: Packet) -> Packet | None:
        match packet:
            case SessionSendLarge(message):
                self.uploads[session.name] = message, bytearray()
            case SessionSendContinuation():
                return self._on_chunk(session, packet)
            case SessionForceConsumerDelivery(consumer_id, sequence):
                self._deliver()
                # At once, in the middle of a large message, too.
                properties = Properties()
                properties.set(FORCED_DELIVERY_PROPERTY, sequence, PropertyType.LONG)
                mark = CoreMessage.build(address=session.queues[consumer_id], durable=False, properties=properties)
                self._say(session, SessionReceiveMessage(mark, consumer_id, 0))
            case SessionStop():
                session.started = False
                return NullResponse(-1)
            case SessionRollback():
                for consumer_id, queue in list(session.queues.items()):
                    session.delivered[consumer_id][:0] = self.acknowledged.pop(consumer_id, [])
                    self._give_back(session, consumer_id)
                    session.queues[consumer_id] = queue
                    session.delivered[consumer_id] = []
                return NullResponse(-1)
            case SessionConsumerFlowCredit(consumer_id, 0 | -1 as credits):
                session.credits[consumer_id] = -credits << 60
            case SessionCommit():
                self.acknowledged.clear()
                return super()._handle(session, packet)
            case _:
                return super()._handle(session, packet)
        return None

    def _on_chunk(self, session: DoubleSession, packet: SessionSendContinuation) -> Packet | None:
        message, body = self.uploads[session.name]
        if self.refused_chunk == 0:
            return ExceptionResponse(int(ErrorCode.IO_ERROR), "the disk is full", packet.correlation_id)
        self.refused_chunk -= 1
        body += packet.chunk
        if not packet.continues:
            del self.uploads[session.name]
            assert packet.body_size == len(body) or message.property("_AMQ_LARGE_COMPRESSED")
            whole = message.with_body(body)
            reply = SessionSend(whole, packet.requires_response, packet.correlation_id, packet.sender_id)
            return super()._handle(session, reply)
        return NullResponse(packet.correlation_id) if packet.requires_response else None

    def _acknowledge(self, session: DoubleSession, packet: SessionAcknowledge) -> None:
        before = list(session.delivered[packet.consumer_id])
        super()._acknowledge(session, packet)
        taken = before[: len(before) - len(session.delivered[packet.consumer_id])]
        self.acknowledged.setdefault(packet.consumer_id, []).extend(taken)

    def _give_back(self, session: DoubleSession, consumer_id: int) -> None:
        self.progress.pop((session.name, consumer_id), None)
        super()._give_back(session, consumer_id)

    def _close(self, session: DoubleSession) -> None:
        super()._close(session)
        self.uploads.pop(session.name, None)

    def _send_to(self, session: DoubleSession, consumer_id: int, packet: Packet) -> None:
        session.credits[consumer_id] -= len(encode_packet(packet, session.channel_id, VERSION))
        self._say(session, packet)

    def _deliver(self) -> None:
        for session in self.sessions.values():
            for consumer_id, queue in session.queues.items():
                while (
                    session.started
                    and session.credits[consumer_id] > 0
                    and self._deliver_one(session, consumer_id, queue)
                ):
                    pass

    def _deliver_one(self, session: DoubleSession, consumer_id: int, queue: str) -> bool:
        key = session.name, consumer_id
        progress = self.progress.get(key)
        if progress is None:
            waiting = self.queues.get(queue)
            if not waiting:
                return False
            message = waiting.popleft()
            session.delivered[consumer_id].append(message)
            if len(message.body) <= self.large_from:
                self._send_to(session, consumer_id, SessionReceiveMessage(message, consumer_id, 1))
                return True
            progress = self.progress[key] = Progress(message)
        message = progress.message
        size = len(message.body) if self.announced is None else self.announced
        if progress.at < 0:
            progress.at = 0
            header = CoreMessage.parse_header(message.header)
            self._send_to(session, consumer_id, SessionReceiveLarge(consumer_id, 1, size, header))
            return True
        end = progress.at + self.chunk_bytes
        chunk = bytes(message.body[progress.at : end])
        progress.at = end
        if end >= len(message.body):
            del self.progress[key]
        self._send_to(session, consumer_id, SessionReceiveContinuation(chunk, end < len(message.body), consumer_id))
        return True
