"""Management requests to a node on a stage, as a scripted peer sends them."""

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

from .scripted import Peer, Stage

__all__ = ["REPLIES", "Manager", "manager_of", "request_of"]

REPLIES = "replies"
_CONSUMER = 77


def request_of(
    resource: str | None,
    *,
    attribute: str | None = None,
    operation: str | None = None,
    body: str | None = None,
    reply_to: str | None = REPLIES,
    correlation_id: str | None = None,
    user_id: bytes | None = None,
) -> CoreMessage:
    """A request as Artemis' command line sends it."""
    properties = Properties()
    for name, value in {
        "_AMQ_ResourceName": resource,
        "_AMQ_Attribute": attribute,
        "_AMQ_OperationName": operation,
        "JMSReplyTo": reply_to,
        "JMSCorrelationID": correlation_id,
    }.items():
        if value is not None:
            properties.set(name, value, PropertyType.STRING)
    return CoreMessage.build(
        type=MessageType.DEFAULT,
        address="activemq.management",
        durable=False,
        properties=properties,
        body=b"" if body is None else encode_text(body),
        user_id=user_id,
    )


@define(eq=False)
class Manager:
    """Sends requests over one peer, whose session it starts, and reads the replies from a temporary queue."""

    peer: Peer
    replies: list[CoreMessage] = Factory(list)

    def __attrs_post_init__(self) -> None:
        self.peer.send(
            CreateQueueV2(REPLIES, REPLIES, None, False, True, True, False, 1),
            SessionCreateConsumer(_CONSUMER, REPLIES, None, False, False),
            SessionConsumerFlowCredit(_CONSUMER, -1),
            SessionStart(),
        )
        self.peer.stage.settle_disk()
        self.peer.clear()

    def send(self, request: CoreMessage) -> CoreMessage:
        """Send a request and return its reply, which must come without further input."""
        self.peer.send(SessionSend(request, False, -1))
        self.peer.stage.settle_disk()
        self.peer.stage.run()
        self.peer.stage.settle_disk()
        for packet in self.peer.clear():
            if isinstance(packet, SessionReceiveMessage) and packet.consumer_id == _CONSUMER:
                self.replies.append(packet.message)
        return self.replies.pop()

    def read(self, resource: str, attribute: str) -> Any:
        return _result(self.send(request_of(resource, attribute=attribute)))

    def call(self, resource: str, operation: str, *arguments: object) -> Any:
        body = json.dumps(arguments) if arguments else None
        return _result(self.send(request_of(resource, operation=operation, body=body)))

    def failure(self, resource: str | None, **request: str | None) -> str:
        """The text of a request that must fail."""
        reply = self.send(request_of(resource, **request))  # type: ignore[arg-type]  # names of arguments
        assert reply.property("_AMQ_OperationSucceeded") is False, decode_text(reply.body)
        (text,) = json.loads(decode_text(reply.body) or "")
        assert isinstance(text, str)
        return text


def _result(reply: CoreMessage) -> Any:
    text = decode_text(reply.body)
    assert reply.property("_AMQ_OperationSucceeded") is True, text
    if text is None:
        return None
    (value,) = json.loads(text)
    return value


def manager_of(stage: Stage) -> Manager:
    """Return a manager on a new connection and session."""
    return Manager(stage.connect().open_session())
