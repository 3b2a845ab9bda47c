"""The requests of a CORE session: queues, queries, consumers, transactions, metadata, producers' credits.

Responsible for translating each packet into kernel calls and each result into the reply its client waits for. Does not
depend on deliveries, sends and acknowledgements, which `CoreSession` handles.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from embedbroker.config import AddressFullPolicy
from embedbroker.kernel import Consumer, Kernel, Outcome, Queue, QueueRequest, Refused, split_fqqn
from embedclient.errors import ErrorCode, RemoteProtocolError
from embedclient.model import describe_name
from embedclient.wire.core import (
    CreateAddress,
    CreateProducer,
    CreateQueue,
    CreateQueueV2,
    CreateSharedQueue,
    CreateSharedQueueV2,
    DeleteQueue,
    NullResponse,
    Packet,
    PacketType,
    RemoveProducer,
    SessionAddMetadata,
    SessionAddMetadataV2,
    SessionBindingQuery,
    SessionClose,
    SessionCommit,
    SessionConsumerClose,
    SessionCreateConsumer,
    SessionExpire,
    SessionForceConsumerDelivery,
    SessionProducerCredits,
    SessionProducerCreditsFail,
    SessionQueueQuery,
    SessionRequestProducerCredits,
    SessionRollback,
    SessionSendContinuation,
    SessionSendLarge,
    SessionStart,
    SessionStop,
    SessionUniqueAddMetadata,
    decode_packet,
    encode_packet,
)

from ._old_names import MODERN_NAMES_SINCE, plain_name, plain_packet, stated_routing_type
from ._session import CoreSession
from ._views import address_response, queue_response

__all__ = ["handle_request"]

Handler: TypeAlias = Callable[[CoreSession, Any], None]

_ANYCAST, _MULTICAST = 1, 0
_METADATA_MAX = 100
# A client has one or two requests under way for each address it sends to.
_WAITING_CREDITS_MAX = 10_000


def handle_request(session: CoreSession, packet_type: int, buffer: bytes | bytearray, start: int, end: int) -> None:
    """Carry out the request in one frame, answer it, and count it for its confirmation.

    Raises:
        RemoteProtocolError: The frame is malformed, or a client must not send this packet here.
    """
    packet = decode_packet(buffer, start, end, session.version, True)
    if session.version < MODERN_NAMES_SINCE:
        packet = plain_packet(packet)
    elif session.prefixes is not None:
        packet = session.prefixes.plain_packet(packet)
    handler = HANDLERS.get(type(packet)) or _xa_handler(packet)
    if handler is None:
        raise RemoteProtocolError(f"{PacketType(packet.TYPE).name} on a session channel")
    handler(session, packet)
    upload = session.upload
    if upload is not None and upload.is_ending:
        # Counted when its body is stored: a confirmation promises the message.
        upload.frame_size = end - start
        return
    session.count_request(packet_type, buffer, start, end)


def _xa_handler(packet: Packet) -> Handler | None:
    """Return the handler of an XA packet. Few clients use XA, so its packets are loaded with the first."""
    if not PacketType(packet.TYPE).name.startswith("SESS_XA_"):
        return None
    from ._xa import XA_HANDLERS

    return XA_HANDLERS.get(type(packet))


def _done(session: CoreSession, refused: object, wants_reply: bool, *, durable: bool = True) -> None:
    if isinstance(refused, Refused):
        if wants_reply:
            session.refuse(refused, None)
        else:
            session.connection.log(f"a request was refused: {refused.text}")
    elif wants_reply:
        session.reply(NullResponse(-1), durable=durable)


# -- addresses and queues ---------------------------------------------------------------------------------------------


def _create_address(session: CoreSession, packet: CreateAddress) -> None:
    result = session.kernel_session.addresses.create_address(
        packet.address,
        anycast=_ANYCAST in packet.routing_types,
        multicast=_MULTICAST in packet.routing_types,
        auto_created=packet.auto_created,
    )
    _done(session, result, packet.requires_response)


def _stored_name(session: CoreSession, name: str) -> str:
    if session.version < MODERN_NAMES_SINCE:
        return plain_name(name)
    prefixes = session.prefixes
    return name if prefixes is None else prefixes.split(name)[0]


def _routing_type(value: int) -> int | None:
    return value if value in (_ANYCAST, _MULTICAST) else None


def _unsupported_attributes(packet: CreateQueueV2 | CreateSharedQueueV2) -> Refused | None:
    """Refuse queue kinds that do not exist yet, rather than create another kind."""
    wanted = {
        "last-value": packet.last_value,
        "last-value-key": packet.last_value_key,
        "non-destructive": packet.non_destructive,
        "consumers-before-dispatch": packet.consumers_before_dispatch,
        "delay-before-dispatch": packet.delay_before_dispatch not in (None, -1),
        "ring-size": packet.ring_size not in (None, -1),
    }
    names = [name for name, value in wanted.items() if value]
    if not names:
        return None
    return Refused(
        ErrorCode.NOT_IMPLEMTNED_EXCEPTION,
        f"queue {packet.queue_name!r}: {', '.join(names)} is not supported by this broker yet",
    )


def _create(session: CoreSession, request: QueueRequest, wants_reply: bool) -> None:
    result = session.kernel_session.addresses.create_queue(request)
    # A request without an answer may find a queue of this name that is there to stay.
    if isinstance(result, Queue) and request.temporary and result.definition.temporary:
        session.connection.temporary_queues.add(result)
    _done(session, result, wants_reply)


def _create_queue(session: CoreSession, packet: CreateQueue) -> None:
    anycast = stated_routing_type(packet.address) == _ANYCAST
    request = QueueRequest(
        _stored_name(session, packet.address),
        _stored_name(session, packet.queue_name),
        filter=packet.filter,
        durable=packet.durable,
        temporary=packet.temporary,
        routing_type=_ANYCAST if anycast else _MULTICAST,
        ignore_if_exists=not packet.requires_response,
        user=session.username,
    )
    _create(session, request, packet.requires_response)


def _modern_request(
    session: CoreSession,
    packet: CreateQueueV2 | CreateSharedQueueV2,
    *,
    temporary: bool = False,
    auto_created: bool = False,
    ignore_if_exists: bool = False,
    shared: bool = False,
) -> QueueRequest:
    """Return what both kinds of packets request, with what only one of them has."""
    return QueueRequest(
        packet.address,
        packet.queue_name,
        filter=packet.filter,
        durable=packet.durable,
        routing_type=_routing_type(packet.routing_type),
        max_consumers=packet.max_consumers,
        purge_on_no_consumers=packet.purge_on_no_consumers,
        exclusive=packet.exclusive,
        group_buckets=packet.group_buckets,
        group_rebalance=packet.group_rebalance,
        group_rebalance_pause_dispatch=packet.group_rebalance_pause_dispatch,
        group_first_key=packet.group_first_key,
        enabled=packet.enabled,
        auto_delete=packet.auto_delete,
        auto_delete_delay=packet.auto_delete_delay,
        auto_delete_message_count=packet.auto_delete_message_count,
        user=session.username,
        temporary=temporary,
        auto_created=auto_created,
        ignore_if_exists=ignore_if_exists,
        shared=shared,
    )


def _create_queue_v2(session: CoreSession, packet: CreateQueueV2) -> None:
    unsupported = _unsupported_attributes(packet)
    if unsupported is not None:
        _done(session, unsupported, packet.requires_response)
        return
    request = _modern_request(
        session,
        packet,
        temporary=packet.temporary,
        auto_created=packet.auto_created,
        # Rebuilding a session after a failover names queues that may have survived; no answer is awaited.
        ignore_if_exists=not packet.requires_response,
    )
    _create(session, request, packet.requires_response)


def _create_shared_queue(session: CoreSession, packet: CreateSharedQueue) -> None:
    request = QueueRequest(
        packet.address,
        packet.queue_name,
        filter=packet.filter,
        durable=packet.durable,
        routing_type=_MULTICAST,
        shared=True,
        user=session.username,
    )
    _create(session, request, packet.requires_response)


def _create_shared_queue_v2(session: CoreSession, packet: CreateSharedQueueV2) -> None:
    unsupported = _unsupported_attributes(packet)
    if unsupported is not None:
        _done(session, unsupported, packet.requires_response)
        return
    _create(session, _modern_request(session, packet, shared=True), packet.requires_response)


def _delete_queue(session: CoreSession, packet: DeleteQueue) -> None:
    _done(session, session.kernel_session.addresses.delete_queue(packet.queue_name), True)


def _query_queue(session: CoreSession, packet: SessionQueueQuery) -> None:
    view = session.kernel_session.addresses.query_queue(packet.queue_name)
    session.reply(queue_response(view, session.version), durable=False)


def _query_address(session: CoreSession, packet: SessionBindingQuery) -> None:
    view = session.kernel_session.addresses.query_address(_stored_name(session, packet.address))
    session.reply(address_response(view, packet.address, session.version), durable=False)


# -- consumers --------------------------------------------------------------------------------------------------------


def _create_consumer(session: CoreSession, packet: SessionCreateConsumer) -> None:
    result = session.kernel_session.create_consumer(
        packet.consumer_id,
        packet.queue_name,
        packet.filter,
        session,
        browse=packet.browse_only,
        priority=packet.priority,
    )
    if isinstance(result, Consumer):
        if packet.requires_response:
            view = session.kernel_session.addresses.query_queue(result.queue.name)
            session.reply(queue_response(view, session.version, to_query=False), durable=False)
        return
    _done(session, result, packet.requires_response)
    if not packet.requires_response:
        # A client that rebuilds its session waits for no answer, so it would wait for messages for ever:
        # 1. The broker was restarted; another client took the only place at a queue with a maximum of consumers.
        # 2. The client creates its session and its consumer again, and assumes that the consumer exists.
        session.disconnect_consumer(packet.consumer_id)


def _close_consumer(session: CoreSession, packet: SessionConsumerClose) -> None:
    session.kernel_session.close_consumer(packet.consumer_id)
    session.end_large(closed_only=True)
    session.reply(NullResponse(-1), durable=False)


def _force_delivery(session: CoreSession, packet: SessionForceConsumerDelivery) -> None:
    consumer = session.kernel_session.consumers.get(packet.consumer_id)
    if consumer is not None:
        consumer.queue.force_delivery(consumer, packet.sequence)


def _expire(session: CoreSession, packet: SessionExpire) -> None:
    # Without an answer: a message that the consumer no longer holds does not concern it.
    session.kernel_session.settle(packet.consumer_id, packet.message_id, Outcome.EXPIRED)


# -- session ----------------------------------------------------------------------------------------------------------


def _start(session: CoreSession, _packet: SessionStart) -> None:
    session.kernel_session.start()


def _stop(session: CoreSession, _packet: SessionStop) -> None:
    session.kernel_session.stop()
    session.reply(NullResponse(-1), durable=False)


def _close(session: CoreSession, _packet: SessionClose) -> None:
    session.flush_confirmations()
    session.close(failed=False)
    session.reply(NullResponse(-1))


def _commit(session: CoreSession, packet: SessionCommit) -> None:
    """Commit, and answer a client that waits.

    From version 132 on no client waits for a commit without correlation id (CLIENT_ACKNOWLEDGE). Artemis answers it
    nevertheless, and the answer can release the client's next call early:

    1. The client sends SESS_COMMIT, not blocking, and SESS_CONSUMER_CLOSE, blocking.
    2. The NULL_RESPONSE to the commit, correlation -1, releases the call that waits for a NULL_RESPONSE with -1.
    3. The same happens to SESS_CLOSE: the socket is closed before the consumer and the session are.
    """
    refused = session.kernel_session.commit()
    if packet.correlation_id is None and session.version >= 132:
        if refused is not None:
            session.connection.log(f"a commit without a waiting caller was refused: {refused.text}")
    elif refused is not None:
        session.refuse(refused, packet.correlation_id)
    else:
        session.reply(NullResponse(-1 if packet.correlation_id is None else packet.correlation_id))


def _rollback(session: CoreSession, packet: SessionRollback) -> None:
    session.end_large()
    session.kernel_session.rollback(last_delivered=packet.consider_last_message_as_delivered)
    session.reply(NullResponse(-1), durable=False)


def _set_metadata(session: CoreSession, key: str, value: str) -> Refused | None:
    if len(session.metadata) >= _METADATA_MAX and key not in session.metadata:
        return Refused(ErrorCode.ILLEGAL_STATE, f"a session may carry {_METADATA_MAX} metadata entries at most")
    carried = sum(len(name) + len(text) for name, text in session.metadata.items() if name != key)
    limit = session.service.kernel.config.session_metadata_bytes_max
    # Two bytes a character, as on the wire.
    if 2 * (carried + len(key) + len(value)) > limit:
        return Refused(
            ErrorCode.ILLEGAL_STATE, f"a session may carry {limit} bytes of metadata, session_metadata_bytes_max"
        )
    session.service.carry_metadata(session, key, value)
    return None


def _add_metadata(session: CoreSession, packet: SessionAddMetadata) -> None:
    _done(session, _set_metadata(session, packet.key, packet.value), True, durable=False)


def _add_metadata_v2(session: CoreSession, packet: SessionAddMetadataV2) -> None:
    _done(session, _set_metadata(session, packet.key, packet.value), packet.requires_response, durable=False)


def _unique_add_metadata(session: CoreSession, packet: SessionUniqueAddMetadata) -> None:
    if session.service.holds_metadata(packet.key, packet.value, session):
        result: Refused | None = Refused(
            ErrorCode.DUPLICATE_METADATA, f"metadata {packet.key}={packet.value} is in use by another session"
        )
    else:
        result = _set_metadata(session, packet.key, packet.value)
    _done(session, result, True, durable=False)


# -- producers --------------------------------------------------------------------------------------------------------


def _request_credits(session: CoreSession, packet: SessionRequestProducerCredits) -> None:
    kernel = session.service.kernel
    name = _stored_name(session, packet.address)
    address, _queue = split_fqqn(name)
    settings = kernel.settings.of(address)
    limit = -1 if settings.max_size_bytes is None else settings.max_size_bytes

    def grant() -> None:
        session.kernel_session.reservation.grant(name, packet.credits)
        granted = SessionProducerCredits(packet.credits, packet.address)
        session.transmit(encode_packet(granted, session.channel_id, session.version), granted.TYPE)

    if session.kernel_session.takes_requests(name):
        # Requests to the broker itself take no room, and are what makes room: a purge, or a resumed queue.
        granted = SessionProducerCredits(packet.credits, packet.address)
        session.transmit(encode_packet(granted, session.channel_id, session.version), granted.TYPE)
        return
    is_blocked = kernel.memory.is_blocked(address)
    if not is_blocked and not kernel.memory.is_full(address, limit):
        grant()
        return
    if is_blocked or settings.address_full_policy is AddressFullPolicy.FAIL:
        failed = SessionProducerCreditsFail(packet.credits, packet.address)
        session.transmit(encode_packet(failed, session.channel_id, session.version), failed.TYPE)
    kernel.log_full(address, partial(_full_line, kernel, address, limit, settings.address_full_policy))
    if kernel.memory.waiting_of(session) >= _WAITING_CREDITS_MAX:
        session.connection.fail(f"session {session.name} has {_WAITING_CREDITS_MAX} requests for credit that wait")
        return
    kernel.memory.wait(session, address, limit, grant)


def _full_line(kernel: Kernel, address: str, limit: int, policy: AddressFullPolicy | None) -> str:
    """Return a line for the operator about an address at which a producer gets no credit."""
    memory, name = kernel.memory, describe_name(address)
    wait = "are refused" if policy is AddressFullPolicy.FAIL else "wait"
    if memory.is_blocked(address):
        return f"producers to address {name!r} wait: management has blocked it; unblock it"
    if memory.used_bytes >= memory.limit_bytes:
        return (
            f"producers to address {name!r} {wait}: the messages of all addresses take {memory.used_bytes} bytes, and"
            f" {memory.limit_bytes} is the limit; consume messages, or raise global_max_size_bytes"
        )
    return (
        f"producers to address {name!r} {wait}: its messages take {memory.address_bytes(address)} bytes, and"
        f" max_size_bytes is {limit}; consume messages from its queues, or raise max_size_bytes"
    )


def _create_producer(session: CoreSession, packet: CreateProducer) -> None:
    """Keep a producer for the management view only."""
    session.kernel_session.add_producer(packet.producer_id, packet.address)


def _remove_producer(session: CoreSession, packet: RemoveProducer) -> None:
    session.kernel_session.remove_producer(packet.producer_id)


def _large(session: CoreSession, packet: SessionSendLarge) -> None:
    session.begin_upload(packet.message)


def _large_chunk(session: CoreSession, packet: SessionSendContinuation) -> None:
    if session.upload is not None:
        session.upload.on_chunk(packet)
    elif packet.requires_response:
        refused = Refused(ErrorCode.ILLEGAL_STATE, "a chunk came without a large message before it")
        session.refuse(refused, packet.correlation_id)


HANDLERS: dict[type[Packet], Handler] = {
    CreateAddress: _create_address,
    CreateProducer: _create_producer,
    CreateQueue: _create_queue,
    CreateQueueV2: _create_queue_v2,
    CreateSharedQueue: _create_shared_queue,
    CreateSharedQueueV2: _create_shared_queue_v2,
    DeleteQueue: _delete_queue,
    RemoveProducer: _remove_producer,
    SessionAddMetadata: _add_metadata,
    SessionAddMetadataV2: _add_metadata_v2,
    SessionBindingQuery: _query_address,
    SessionClose: _close,
    SessionCommit: _commit,
    SessionConsumerClose: _close_consumer,
    SessionCreateConsumer: _create_consumer,
    SessionExpire: _expire,
    SessionForceConsumerDelivery: _force_delivery,
    SessionQueueQuery: _query_queue,
    SessionRequestProducerCredits: _request_credits,
    SessionRollback: _rollback,
    SessionSendContinuation: _large_chunk,
    SessionSendLarge: _large,
    SessionStart: _start,
    SessionStop: _stop,
    SessionUniqueAddMetadata: _unique_add_metadata,
}
