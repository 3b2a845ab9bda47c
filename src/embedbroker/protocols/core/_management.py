"""Management messages: a request to the management address in, a reply message out (core-protocol 6.3).

Responsible for the form of requests and replies as messages, and for room for the reply. Does not depend on attributes
and operations, which are `embedbroker.management`'s.
"""

from __future__ import annotations

import json
from base64 import b64decode

from embedbroker.kernel import Kernel, Refused, Session, name_in_text
from embedbroker.management import Failure, Letter, Registry, Success
from embedclient.errors import ErrorCode, RemoteProtocolError
from embedclient.model import Instant, Properties, PropertyType, PropertyValue, uuid_text
from embedclient.wire.core import CoreMessage, MessageType, decode_text, encode_text

__all__ = ["ManagementServer", "compose"]

_REPLY_TO, _CORRELATION_ID = "JMSReplyTo", "JMSCorrelationID"
_RESOURCE, _ATTRIBUTE, _OPERATION = "_AMQ_ResourceName", "_AMQ_Attribute", "_AMQ_OperationName"
_SUCCEEDED = "_AMQ_OperationSucceeded"
# While messages take all the memory there is, replies are stored out of the margin: requests are what makes room.
_REPLY_ROOM_BYTES = 64 * 1024
_SHOWN_MAX = 200


class ManagementServer:
    """Serve the management messages to a broker."""

    __slots__ = ("_kernel", "_registry")

    def __init__(self, kernel: Kernel, registry: Registry) -> None:
        self._kernel = kernel
        self._registry = registry

    def serve(self, request: CoreMessage, session: Session) -> Refused | None:
        """Carry out a request and send the reply to the address that it names, if any."""
        return _Request(self._kernel, self._registry, request, session).carry_out()


class _Request:
    """Carry out one request, and send the reply to the address that it names."""

    __slots__ = ("_kernel", "_registry", "_reply_to", "_request", "_session")

    def __init__(self, kernel: Kernel, registry: Registry, request: CoreMessage, session: Session) -> None:
        self._kernel = kernel
        self._registry = registry
        self._request = request
        self._session = session
        reply_to = request.property(_REPLY_TO)
        # JMS clients write temp-queue://NAME, core clients the name alone. None: the answer is dropped.
        self._reply_to = reply_to.rpartition("://")[2] if isinstance(reply_to, str) and reply_to else None

    def carry_out(self) -> Refused | None:
        """Call the registry; return why the message is refused, which does not depend on its call."""
        if self._reply_to is not None:
            if not self._has_room:
                return Refused(ErrorCode.ADDRESS_FULL, "the broker is full: there is no room for a reply")
            refused = self._session.admit_send(self._reply_to)
            if refused is not None:
                return refused
        resource = _text(self._request.property(_RESOURCE))
        operation = _text(self._request.property(_OPERATION))
        attribute = _text(self._request.property(_ATTRIBUTE))
        registry = self._registry
        if operation is not None:
            try:
                arguments = _arguments_of(self._request)
            except ValueError as error:
                self._fail(f"{resource}.{operation[:_SHOWN_MAX]}", str(error))
                return None
            registry.invoke(self._session, str(resource), operation, arguments, self._respond)
        elif attribute is not None:
            registry.read(self._session, str(resource), attribute, self._respond)
        else:
            self._send(None, None, promises=False)
        return None

    @property
    def _has_room(self) -> bool:
        """Return True if a small reply may be stored. A full broker stores it in the margin, if that is large."""
        memory = self._kernel.memory
        return memory.used_bytes < memory.limit_bytes or memory.has_room(_REPLY_ROOM_BYTES)

    def _respond(self, outcome: Success | Failure) -> None:
        name = _text(self._request.property(_OPERATION)) or _text(self._request.property(_ATTRIBUTE))
        label = f"{_text(self._request.property(_RESOURCE))}.{name}"[:_SHOWN_MAX]
        if isinstance(outcome, Failure):
            self._fail(label, outcome.text)
            return
        text = None if outcome.value is None else _json([outcome.value])
        if not self._fits(text):
            self._fail(label, "the result is too large for a reply: request it in pages, or with a filter")
        else:
            self._send(True, text, promises=outcome.changes)

    def _fits(self, text: str | None) -> bool:
        size = 2 * len(text or "") + 1024
        kernel = self._kernel
        if size <= _REPLY_ROOM_BYTES:
            return True
        return size <= kernel.config.frame_size_bytes_max and kernel.memory.has_room(size)

    def _fail(self, label: str, text: str) -> None:
        shown = name_in_text(" ".join(text[:_SHOWN_MAX].split()))
        self._kernel.inform(f"management request {label!r} of session {self._session.name} failed: {shown}")
        self._send(False, _json([text]), promises=False)

    def _send(self, succeeded: bool | None, text: str | None, *, promises: bool) -> None:
        if self._reply_to is None:
            return
        properties = Properties()
        properties.set(_REPLY_TO, self._request.property(_REPLY_TO), PropertyType.STRING)
        if succeeded is not None:
            properties.set(_SUCCEEDED, succeeded, PropertyType.BOOLEAN)
        correlation_id = self._request.property(_CORRELATION_ID)
        if isinstance(correlation_id, bytes):
            properties.set(_CORRELATION_ID, correlation_id, PropertyType.BYTES)
        else:
            properties.set(_CORRELATION_ID, self._correlation_text(correlation_id), PropertyType.STRING)
        reply = CoreMessage.build(
            type=MessageType.TEXT,
            address=self._reply_to,
            durable=False,
            priority=0,
            properties=properties,
            body=encode_text(text),
        )
        self._kernel.router.reply(reply, promises=promises)

    def _correlation_text(self, correlation_id: PropertyValue) -> str:
        """Return the id of the request, else its message id; without either Artemis sends the text ``null``."""
        if isinstance(correlation_id, str):
            return correlation_id
        user_id = self._request.user_id
        return "null" if user_id is None else uuid_text(user_id)


def compose(letter: Letter, now: Instant, user_id: bytes | None) -> CoreMessage:
    """Return the message that a management call describes, without id.

    Raises:
        ValueError: The body is not Base64, or a header is not possible.
    """
    properties = Properties()
    for name, value in letter.headers.items():
        if value is not None:
            properties.set(name, value if isinstance(value, str) else _json(value), PropertyType.STRING)
    if letter.type == MessageType.TEXT:
        body: bytes | bytearray = encode_text(letter.body)
    else:
        try:
            body = b64decode(letter.body or "", validate=True)
        except ValueError as error:
            raise ValueError(f"the body of a message of type {letter.type} must be Base64: {error}") from None
    return CoreMessage.build(
        type=letter.type,
        address=letter.address,
        durable=letter.is_durable,
        # As Artemis sends them.
        priority=0,
        timestamp=now.wall_ms,
        user_id=user_id,
        properties=properties,
        body=body,
    )


def _text(value: PropertyValue) -> str | None:
    return value if value is None or isinstance(value, str) else str(value)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _arguments_of(request: CoreMessage) -> list[object]:
    """Return the arguments in the body of a request; a body without a text has none.

    Raises:
        ValueError: The body is not a JSON array.
    """
    try:
        text = decode_text(request.body)
    except RemoteProtocolError as error:
        raise ValueError(f"the body of the request is no text: {error}") from None
    if text is None:
        return []
    try:
        arguments = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the body of the request is not JSON: {error}") from None
    if not isinstance(arguments, list):
        raise ValueError("the body of the request must be a JSON array with the arguments")
    return arguments
