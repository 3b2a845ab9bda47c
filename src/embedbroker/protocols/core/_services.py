"""Requests to the broker's services: a message to the reserved address in, a reply message out.

Responsible for the form of requests and replies as messages, and for room for the reply. Does not depend on the
contents of requests and replies.
"""

from __future__ import annotations

import json

from embedbroker.kernel import Kernel, Refused, Session
from embedbroker.management import STATUS_PROPERTY, Answer, Registry
from embedclient.errors import ErrorCode, RemoteProtocolError
from embedclient.model import Properties, PropertyType
from embedclient.wire.core import CoreMessage, MessageType, decode_text, encode_text

__all__ = ["RequestServer"]

_REPLY_TO, _CORRELATION_ID = "JMSReplyTo", "JMSCorrelationID"
# While messages take all the memory there is, requests are served out of the margin: they are what makes room.
_REPLY_ROOM_BYTES = 64 * 1024
_NO_ROOM = Answer("full", {"text": "the broker is full: there is no room for the reply"})


class RequestServer:
    """Serve the requests to the services of a broker."""

    __slots__ = ("_kernel", "_registry")

    def __init__(self, kernel: Kernel, registry: Registry) -> None:
        self._kernel = kernel
        self._registry = registry

    def serve(self, request: CoreMessage, session: Session) -> Refused | None:
        """Carry out a request and send the reply to the queue it names; a request without one is refused."""
        kernel = self._kernel
        reply_to = request.property(_REPLY_TO)
        if not isinstance(reply_to, str) or not reply_to:
            return Refused(
                ErrorCode.ILLEGAL_STATE,
                f"request to {request.address!r} has no {_REPLY_TO}, so the reply cannot be delivered",
            )
        if not kernel.memory.has_room(_REPLY_ROOM_BYTES):
            return Refused(ErrorCode.ADDRESS_FULL, "the broker is full: there is no room for a reply")
        # JMS clients write temp-queue://NAME, core clients the name alone.
        queue_name = reply_to.rpartition("://")[2]
        refused = session.admit_send(queue_name)
        if refused is not None:
            return refused
        correlation_id = request.property(_CORRELATION_ID)

        def respond(answer: Answer) -> None:
            reply = _message(answer, queue_name, correlation_id)
            if reply.memory_size > _REPLY_ROOM_BYTES and not kernel.memory.has_room(reply.memory_size):
                reply = _message(_NO_ROOM, queue_name, correlation_id)
            kernel.router.reply(reply, promises=answer.promises)

        self._registry.request(session, _text_of(request), respond)
        return None


def _text_of(request: CoreMessage) -> str | None:
    if request.type != MessageType.TEXT:
        return None
    try:
        return decode_text(request.body)
    except RemoteProtocolError:
        return None


def _message(answer: Answer, queue_name: str, correlation_id: object) -> CoreMessage:
    properties = Properties()
    properties.set(STATUS_PROPERTY, answer.status, PropertyType.STRING)
    if isinstance(correlation_id, str):
        properties.set(_CORRELATION_ID, correlation_id, PropertyType.STRING)
    if isinstance(answer.body, bytes | bytearray):
        kind, body = MessageType.BYTES, answer.body
    else:
        text = json.dumps(answer.body, ensure_ascii=False, separators=(",", ":"))
        kind, body = MessageType.TEXT, encode_text(text)
    return CoreMessage.build(type=kind, address=queue_name, durable=False, priority=4, properties=properties, body=body)
