"""The JMS operations on destinations, as sequences of queries and creations (core-protocol 8).

Responsible for their order, for the creation of missing destinations where the broker allows it, and for the JMS
conditions on subscriptions. Does not depend on the syntax of names: texts of destinations are parsed elsewhere.
"""

from typing import TYPE_CHECKING, Final

from attrs import evolve

from embedclient.errors import (
    ErrorCode,
    IllegalStateException,
    InvalidDestinationException,
    JMSException,
    exception_for,
)
from embedclient.model import RoutingType

from .._call import Call, Steps, settled, wait
from ..consumer._consumer import Consumer
from ._queue_state import AddressState, QueueAttributes

if TYPE_CHECKING:
    from ._session import Session

TEMPORARY_TOPIC_FILTER: Final = "_AMQX=-1"
"""Filter of the queue that represents a temporary topic: no message ever matches."""

ROUTING_TYPE_UNSPECIFIED: Final = -1


def _defaults(attributes: QueueAttributes, state: AddressState) -> QueueAttributes:
    """Fill in the two attributes that are not nullable on the wire from the broker's answer, unless given."""
    max_consumers = attributes.max_consumers
    purge = attributes.purge_on_no_consumers
    return evolve(
        attributes,
        max_consumers=state.default_max_consumers if max_consumers is None else max_consumers,
        purge_on_no_consumers=state.default_purge_on_no_consumers if purge is None else purge,
    )


def _known_address(
    session: "Session", address: str, routing_type: RoutingType, *, temporary: bool = False
) -> Steps[AddressState]:
    """Query an address and create it if it is missing. Raise an error where creation is not allowed."""
    state = yield from wait(session.query_address(address))
    if temporary:
        if not _has_temporary(state):
            yield from _create_temporary_again(session, address, routing_type)
    elif not state.exists:
        if state.auto_create_addresses is False:
            text = f"address {address!r} does not exist and is not created automatically"
            raise InvalidDestinationException(text, code=ErrorCode.ADDRESS_DOES_NOT_EXIST)
        yield from wait(session.create_address(address, [routing_type], auto_created=True))
    return state


def _create_missing_queue(
    session: "Session", address: str, queue: str, routing_type: RoutingType, attributes: QueueAttributes
) -> Steps[None]:
    creation = session.create_queue(address, queue, routing_type, attributes, auto_created=True)
    error = yield from settled(creation)
    # Another client may have created it since the query.
    if error is not None and error.error_code != ErrorCode.QUEUE_EXISTS:
        raise error


def _has_temporary(state: AddressState) -> bool:
    """Return True if a temporary destination exists: queues and topics alike have a queue as long as they exist."""
    return state.exists and bool(state.queue_names)


def _temporary_creation(session: "Session", address: str, routing_type: RoutingType) -> Call[None]:
    if routing_type is RoutingType.ANYCAST:
        return session.create_queue(address, address, RoutingType.ANYCAST, durable=False, temporary=True)
    return session.create_queue(
        address, address, ROUTING_TYPE_UNSPECIFIED, durable=False, temporary=True, filter=TEMPORARY_TOPIC_FILTER
    )


def _create_temporary_again(session: "Session", address: str, routing_type: RoutingType) -> Steps[None]:
    """Create a temporary destination of the connection again after a restart or a failover lost it."""
    error = yield from settled(_temporary_creation(session, address, routing_type))
    # Another session of the connection may have created it since the query.
    if error is not None and error.error_code != ErrorCode.QUEUE_EXISTS:
        raise error


def prepare_temporary(session: "Session", address: str, routing_type: RoutingType, *, own: bool) -> Steps[None]:
    """Ensure, for a producer, that a temporary destination exists.

    ``own`` means created by this connection; such a destination lives as long as the connection. One that a broker lost
    is created again. Others are not.
    """
    state = yield from wait(session.query_address(address))
    if _has_temporary(state):
        return
    if not own:
        text = (
            f"the temporary destination {address!r} does not exist: "
            "it was deleted, or the connection that made it has ended"
        )
        raise InvalidDestinationException(text, code=ErrorCode.QUEUE_DOES_NOT_EXIST)
    yield from _create_temporary_again(session, address, routing_type)


def _missing(queue: str) -> JMSException:
    text = f"queue {queue!r} does not exist and is not created automatically"
    return exception_for(ErrorCode.QUEUE_DOES_NOT_EXIST, text)


def prepare_destination(
    session: "Session", address: str, routing_type: RoutingType, attributes: QueueAttributes, queue: str | None
) -> Steps[None]:
    """Ensure, for a producer, that the address exists, and its queue for a queue or a fully qualified name."""
    known = yield from _known_address(session, address, routing_type)
    if routing_type is RoutingType.MULTICAST and queue is None:
        return
    name = queue or address
    state = yield from wait(session.query_queue(name))
    if not state.exists:
        if state.auto_create_queues is False or known.auto_create_queues is False:
            raise _missing(name)
        yield from _create_missing_queue(session, address, name, routing_type, _defaults(attributes, known))


def open_queue_consumer(
    session: "Session",
    address: str,
    queue: str,
    filter: str | None,
    browse_only: bool,
    attributes: QueueAttributes,
    priority: int,
    temporary: bool,
) -> Steps[Consumer]:
    """Open a consumer or browser of a queue. Create the queue if it is missing."""
    if temporary:
        yield from _known_address(session, address, RoutingType.ANYCAST, temporary=True)
    else:
        yield from _make_queue(session, address, queue, attributes)
    return (yield from wait(session.create_consumer(queue, filter=filter, browse_only=browse_only, priority=priority)))


def _make_queue(session: "Session", address: str, queue: str, attributes: QueueAttributes) -> Steps[None]:
    known = yield from wait(session.query_address(address))
    if queue in known.queue_names:
        yield from wait(session.query_queue(queue))
    elif known.auto_create_queues is False:
        raise _missing(queue)
    else:
        yield from _create_missing_queue(session, address, queue, RoutingType.ANYCAST, _defaults(attributes, known))


def open_topic_consumer(
    session: "Session",
    address: str,
    queue: str,
    filter: str | None,
    durable: bool,
    shared: bool,
    attributes: QueueAttributes,
    temporary: bool,
) -> Steps[Consumer]:
    """Open a subscriber. Its queue holds the filter; the close deletes only an unshared, non-durable queue."""
    known = yield from _known_address(session, address, RoutingType.MULTICAST, temporary=temporary)
    attributes = _defaults(attributes, known)
    if shared:
        yield from _share_subscription(session, address, queue, filter, durable, attributes)
    elif durable:
        yield from _take_subscription(session, address, queue, filter, attributes)
    else:
        creation = session.create_queue(
            address, queue, RoutingType.MULTICAST, attributes, durable=False, temporary=True, filter=filter
        )
        yield from wait(creation)
    own = not shared and not durable
    consumer = yield from wait(session.create_consumer(queue, filter=filter if own else None))
    consumer.owns_queue = own
    return consumer


def _share_subscription(
    session: "Session", address: str, queue: str, filter: str | None, durable: bool, attributes: QueueAttributes
) -> Steps[None]:
    state = yield from wait(session.query_queue(queue))
    if not state.exists or state.address != address or state.filter != filter:
        # The broker rejects a change of a shared subscription.
        creation = session.create_shared_queue(
            address, queue, RoutingType.MULTICAST, attributes, durable=durable, filter=filter
        )
        yield from wait(creation)


def _take_subscription(
    session: "Session", address: str, queue: str, filter: str | None, attributes: QueueAttributes
) -> Steps[None]:
    state = yield from wait(session.query_queue(queue))
    if state.exists:
        if state.consumer_count > 0:
            raise IllegalStateException(f"the durable subscription {queue!r} has an active subscriber already")
        if state.address == address and state.filter == filter:
            return
        # A different topic or selector means a different subscription (JMS 3.1, 8.3.3).
        yield from wait(session.delete_queue(queue))
    yield from wait(session.create_queue(address, queue, RoutingType.MULTICAST, attributes, filter=filter))


def unsubscribe(session: "Session", queue: str) -> Steps[None]:
    """Delete a durable subscription that has no consumer."""
    state = yield from wait(session.query_queue(queue))
    if not state.exists:
        raise exception_for(ErrorCode.QUEUE_DOES_NOT_EXIST, f"there is no subscription {queue!r}")
    if state.consumer_count > 0:
        raise IllegalStateException(f"the subscription {queue!r} has active subscribers")
    yield from wait(session.delete_queue(queue))


def create_temporary(session: "Session", routing_type: RoutingType) -> Steps[str]:
    """Create a temporary queue or topic under a new name. The result is that name."""
    name = session.new_name()
    yield from wait(_temporary_creation(session, name, routing_type))
    return name


def delete_temporary(session: "Session", address: str) -> Steps[None]:
    """Delete a temporary queue or topic that has no consumer."""
    known = yield from wait(session.query_address(address))
    state = yield from wait(session.query_queue(address))
    if not known.exists and not state.exists:
        raise InvalidDestinationException(
            f"there is no temporary destination {address!r}", code=ErrorCode.ADDRESS_DOES_NOT_EXIST
        )
    if state.consumer_count > 0 or any(name != address for name in known.queue_names):
        raise IllegalStateException(f"the temporary destination {address!r} has active consumers")
    yield from wait(session.delete_queue(address))
