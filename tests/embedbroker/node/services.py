"""Asking a node on a stage for its services, as a scripted peer does it.

Responsible for requests as messages and replies as JSON. Refuses to check anything itself.
"""

from __future__ import annotations

import json
from typing import Any

from attrs import Factory, define

from embedclient.model import Properties, PropertyType
from embedclient.wire.core import (
    CoreMessage,
    CreateQueueV2,
    MessageType,
    SessionConsumerFlowCredit,
    SessionCreateConsumer,
    SessionReceiveMessage,
    SessionSend,
    SessionStart,
    decode_text,
    encode_text,
)

from .scripted import Peer

__all__ = ["REPLIES", "Asker", "request_of"]

REPLIES = "replies"
_CONSUMER = 77


def request_of(text: str | None, *, reply_to: str | None = REPLIES, correlation_id: str = "1") -> CoreMessage:
    """A request as JMS clients send it; without a text it is a message of another type."""
    properties = Properties()
    if reply_to is not None:
        properties.set("JMSReplyTo", f"temp-queue://{reply_to}", PropertyType.STRING)
    properties.set("JMSCorrelationID", correlation_id, PropertyType.STRING)
    kind = MessageType.TEXT if text is not None else MessageType.BYTES
    return CoreMessage.build(
        type=kind,
        address="embedbroker.services",
        durable=False,
        properties=properties,
        body=encode_text(text) if text is not None else b"{}",
    )


@define(eq=False)
class Asker:
    """Send requests over one peer, start its session, and listen on a temporary queue."""

    peer: Peer
    replies: str = REPLIES
    # By correlation id: status, and the object or bytes of the reply.
    answers: dict[str, tuple[str, Any]] = Factory(dict)
    _asked: int = 0

    def __attrs_post_init__(self) -> None:
        name = self.replies
        self.peer.send(
            CreateQueueV2(name, name, None, False, True, True, False, 1),
            SessionCreateConsumer(_CONSUMER, name, None, False, False),
            SessionConsumerFlowCredit(_CONSUMER, -1),
            SessionStart(),
        )
        self.peer.stage.settle_disk()
        self.peer.clear()

    def put(self, operation: str, **fields: object) -> str:
        """Send a request; returns its correlation id."""
        return self.put_text(json.dumps({"operation": operation, **fields}))

    def put_text(self, text: str | None) -> str:
        self._asked += 1
        correlation_id = str(self._asked)
        request = request_of(text, reply_to=self.replies, correlation_id=correlation_id)
        self.peer.send(SessionSend(request, False, -1))
        return correlation_id

    def ask(self, operation: str, **fields: object) -> tuple[str, Any]:
        """Send a request and return status and body of its reply, which must be there at once."""
        return self.answer(self.put(operation, **fields))

    def ask_text(self, text: str | None) -> tuple[str, Any]:
        return self.answer(self.put_text(text))

    def answer(self, correlation_id: str) -> tuple[str, Any]:
        """The reply to a request, which must have come."""
        self.hear()
        return self.answers.pop(correlation_id)

    def hear(self) -> None:
        """Take in what came."""
        for packet in self.peer.clear():
            if isinstance(packet, SessionReceiveMessage) and packet.consumer_id == _CONSUMER:
                message = packet.message
                status = message.property("embedbroker_status")
                assert isinstance(status, str)
                text = decode_text(message.body) if message.type == MessageType.TEXT else None
                body = json.loads(text) if text is not None else bytes(message.body)
                self.answers[str(message.property("JMSCorrelationID"))] = status, body
