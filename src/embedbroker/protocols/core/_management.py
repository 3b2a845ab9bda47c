"""Requests to the management address: refused with a text while there is no management to carry them out.

Responsible for the refusal, and for its second form. Tools do not wait for the send of a request, so no EXCEPTION can
reach them. They wait for a reply message, and get one which reports that the operation failed (core-protocol 6.3). Does
not depend on the contents of the request.
"""

from __future__ import annotations

from embedbroker.kernel import InternalBinding, Kernel, Permission, Refused, Session
from embedclient.errors import ErrorCode
from embedclient.model import Properties, PropertyType, uuid_text
from embedclient.wire.core import CoreMessage, MessageType, encode_text

__all__ = ["MANAGEMENT_ADDRESS", "management_binding"]

MANAGEMENT_ADDRESS = "activemq.management"
_TEXT = "management is not supported by this broker yet"
_REPLY_TO, _CORRELATION_ID = "JMSReplyTo", "JMSCorrelationID"


def management_binding(kernel: Kernel) -> InternalBinding:
    """Return the binding of the management address. Queues may have its name: nothing is reserved for them yet."""

    def refuse(request: CoreMessage, session: Session, sender_waits: bool) -> Refused:
        return _refuse_request(kernel, request, session, sender_waits=sender_waits)

    return InternalBinding(MANAGEMENT_ADDRESS, refuse, Permission.MANAGE, is_reserved=False)


def _refuse_request(kernel: Kernel, request: CoreMessage, session: Session, *, sender_waits: bool) -> Refused:
    """Refuse a request. If its sender does not wait, send the refusal to its reply address while there is room."""
    reply_to = request.property(_REPLY_TO)
    memory = kernel.memory
    has_room = memory.used_bytes < memory.limit_bytes
    if not sender_waits and has_room and isinstance(reply_to, str) and reply_to:
        # JMS clients write temp-queue://NAME, core clients the name alone.
        address = reply_to.rpartition("://")[2]
        if session.admit_send(address) is None:
            kernel.router.send(_failure(request, address), None, None)
    return Refused(ErrorCode.NOT_IMPLEMTNED_EXCEPTION, _TEXT)


def _failure(request: CoreMessage, address: str) -> CoreMessage:
    properties = Properties()
    properties.set("_AMQ_OperationSucceeded", False, PropertyType.BOOLEAN)
    correlation_id = request.property(_CORRELATION_ID)
    if correlation_id is None and request.user_id is not None:
        correlation_id = uuid_text(request.user_id)
    if isinstance(correlation_id, str):
        properties.set(_CORRELATION_ID, correlation_id, PropertyType.STRING)
    return CoreMessage.build(
        type=MessageType.TEXT,
        address=address,
        durable=False,
        priority=0,
        properties=properties,
        body=encode_text(f'["{_TEXT}"]'),
    )
