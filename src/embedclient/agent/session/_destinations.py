"""The JMS operations on destinations of one session, as sequences of queries and creations (core-protocol 8).

Responsible for their order, for the creation of missing destinations where the broker allows it, and for the JMS
conditions on subscriptions. Does not depend on the syntax of names: texts of destinations are parsed elsewhere.
"""

from collections.abc import Callable
from typing import Final, Protocol

from attrs import define, evolve

from embedclient.errors import (
    ErrorCode,
    IllegalStateException,
    InvalidDestinationException,
    JMSException,
    exception_for,
)
from embedclient.model import RoutingType

from .._call import Call, DueCallbacks, Steps, run_sequence, settled, wait
from ..consumer._consumer import Consumer
from ._addressing import Addressing
from ._queue_state import AddressState, QueueAttributes

TEMPORARY_TOPIC_FILTER: Final = "_AMQX=-1"
"""Filter of the queue that represents a temporary topic: no message ever matches."""

ROUTING_TYPE_UNSPECIFIED: Final = -1
_NO_ATTRIBUTES: Final = QueueAttributes()


class ConsumerOpener(Protocol):
    """Open consumers of one session."""

    def create_consumer(
        self, queue: str, *, filter: str | None = None, browse_only: bool = False, priority: int = 0
    ) -> Call[Consumer]:
        """Open a consumer on an existing queue."""


def _defaults(attributes: QueueAttributes, state: AddressState) -> QueueAttributes:
    """Fill in the two attributes that are not nullable on the wire from the broker's answer, unless given."""
    max_consumers = attributes.max_consumers
    purge = attributes.purge_on_no_consumers
    return evolve(
        attributes,
        max_consumers=state.default_max_consumers if max_consumers is None else max_consumers,
        purge_on_no_consumers=state.default_purge_on_no_consumers if purge is None else purge,
    )


def _has_temporary(state: AddressState) -> bool:
    """Return True if a temporary destination exists: queues and topics alike have a queue as long as they exist.

    A broker has no address for one that belongs to a client of another member, and names its queue all the same.
    """
    return bool(state.queue_names)


def _missing(queue: str) -> JMSException:
    text = f"queue {queue!r} does not exist and is not created automatically"
    return exception_for(ErrorCode.QUEUE_DOES_NOT_EXIST, text)


def _no_temporary(address: str) -> JMSException:
    text = f"there is no temporary destination {address!r}"
    return InvalidDestinationException(text, code=ErrorCode.ADDRESS_DOES_NOT_EXIST)


@define(eq=False)
class Destinations:
    """A broker's destinations, looked up and created through one session. `new_name` makes names of temporary ones."""

    _addressing: Addressing
    _opener: ConsumerOpener
    _new_name: Callable[[], str]
    _due: DueCallbacks

    def prepare_destination(
        self,
        address: str,
        routing_type: RoutingType,
        attributes: QueueAttributes = _NO_ATTRIBUTES,
        *,
        queue: str | None = None,
    ) -> Call[None]:
        """Create, for a producer, the address and, for a queue, the queue where they are missing."""
        return run_sequence(self._prepare_destination_steps(address, routing_type, attributes, queue), self._due)

    def prepare_temporary(self, address: str, routing_type: RoutingType, *, own: bool) -> Call[None]:
        """Ensure, for a producer, a temporary destination. Fail with InvalidDestinationException where it is gone.

        One created by this connection (``own``) is created again.
        """
        return run_sequence(self._prepare_temporary_steps(address, routing_type, own=own), self._due)

    def open_queue_consumer(
        self,
        address: str,
        *,
        queue: str | None = None,
        filter: str | None = None,
        browse_only: bool = False,
        attributes: QueueAttributes = _NO_ATTRIBUTES,
        priority: int = 0,
        temporary: bool = False,
    ) -> Call[Consumer]:
        """Open a consumer or browser of a queue. Create the queue where it is missing, as ``temporary`` if set."""
        steps = self._open_queue_consumer_steps(
            address, queue or address, filter, browse_only, attributes, priority, temporary
        )
        return run_sequence(steps, self._due)

    def open_topic_consumer(
        self,
        address: str,
        *,
        queue: str | None = None,
        durable: bool = False,
        shared: bool = False,
        filter: str | None = None,
        attributes: QueueAttributes = _NO_ATTRIBUTES,
        temporary: bool = False,
    ) -> Call[Consumer]:
        """Open a subscriber. `queue` names the subscription; an unshared non-durable one needs no name."""
        assert queue is not None or not (durable or shared)
        steps = self._open_topic_consumer_steps(
            address, queue or self._new_name(), filter, durable, shared, attributes, temporary
        )
        return run_sequence(steps, self._due)

    def unsubscribe(self, queue: str) -> Call[None]:
        """Delete a durable subscription that has no subscriber."""
        return run_sequence(self._unsubscribe_steps(queue), self._due)

    def create_temporary_queue(self) -> Call[str]:
        """Create a queue that lives as long as the connection. The result is its name."""
        return run_sequence(self._create_temporary_steps(RoutingType.ANYCAST), self._due)

    def create_temporary_topic(self) -> Call[str]:
        """Create a topic that lives as long as the connection. The result is its address."""
        return run_sequence(self._create_temporary_steps(RoutingType.MULTICAST), self._due)

    def delete_temporary(self, address: str) -> Call[None]:
        """Delete a temporary queue or topic without consumers."""
        return run_sequence(self._delete_temporary_steps(address), self._due)

    # --- sequences ---

    def _known_address(
        self, address: str, routing_type: RoutingType, *, temporary: bool = False
    ) -> Steps[AddressState]:
        """Query an address and create it if it is missing. Raise an error where creation is not allowed."""
        state = yield from wait(self._addressing.query_address(address))
        if temporary:
            if not _has_temporary(state):
                yield from self._create_temporary_again(address, routing_type)
        elif not state.exists:
            if state.auto_create_addresses is False:
                text = f"address {address!r} does not exist and is not created automatically"
                raise InvalidDestinationException(text, code=ErrorCode.ADDRESS_DOES_NOT_EXIST)
            yield from wait(self._addressing.create_address(address, [routing_type], auto_created=True))
        return state

    def _create_missing_queue(
        self, address: str, queue: str, routing_type: RoutingType, attributes: QueueAttributes
    ) -> Steps[None]:
        creation = self._addressing.create_queue(address, queue, routing_type, attributes, auto_created=True)
        error = yield from settled(creation)
        # Another client may have created it since the query.
        if error is not None and error.error_code != ErrorCode.QUEUE_EXISTS:
            raise error

    def _temporary_creation(self, address: str, routing_type: RoutingType) -> Call[None]:
        if routing_type is RoutingType.ANYCAST:
            return self._addressing.create_queue(address, address, RoutingType.ANYCAST, durable=False, temporary=True)
        return self._addressing.create_queue(
            address, address, ROUTING_TYPE_UNSPECIFIED, durable=False, temporary=True, filter=TEMPORARY_TOPIC_FILTER
        )

    def _create_temporary_again(self, address: str, routing_type: RoutingType) -> Steps[None]:
        """Create a temporary destination of the connection again after a restart or a failover lost it."""
        error = yield from settled(self._temporary_creation(address, routing_type))
        # Another session of the connection may have created it since the query.
        if error is not None and error.error_code != ErrorCode.QUEUE_EXISTS:
            raise error

    def _prepare_temporary_steps(self, address: str, routing_type: RoutingType, *, own: bool) -> Steps[None]:
        """Ensure, for a producer, that a temporary destination exists.

        ``own`` means created by this connection; such a destination lives as long as the connection. One that a broker
        lost is created again. Others are not.
        """
        state = yield from wait(self._addressing.query_address(address))
        if _has_temporary(state):
            return
        if not own:
            text = (
                f"the temporary destination {address!r} does not exist: "
                "it was deleted, or the connection that made it has ended"
            )
            raise InvalidDestinationException(text, code=ErrorCode.QUEUE_DOES_NOT_EXIST)
        yield from self._create_temporary_again(address, routing_type)

    def _prepare_destination_steps(
        self, address: str, routing_type: RoutingType, attributes: QueueAttributes, queue: str | None
    ) -> Steps[None]:
        """Ensure, for a producer, that the address exists, and its queue for a queue or a fully qualified name."""
        known = yield from self._known_address(address, routing_type)
        if routing_type is RoutingType.MULTICAST and queue is None:
            return
        name = queue or address
        state = yield from wait(self._addressing.query_queue(name))
        if not state.exists:
            if state.auto_create_queues is False or known.auto_create_queues is False:
                raise _missing(name)
            yield from self._create_missing_queue(address, name, routing_type, _defaults(attributes, known))

    def _open_queue_consumer_steps(
        self,
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
            yield from self._known_address(address, RoutingType.ANYCAST, temporary=True)
        else:
            yield from self._make_queue(address, queue, attributes)
        opening = self._opener.create_consumer(queue, filter=filter, browse_only=browse_only, priority=priority)
        return (yield from wait(opening))

    def _make_queue(self, address: str, queue: str, attributes: QueueAttributes) -> Steps[None]:
        known = yield from wait(self._addressing.query_address(address))
        if queue in known.queue_names:
            yield from wait(self._addressing.query_queue(queue))
        elif known.auto_create_queues is False:
            raise _missing(queue)
        else:
            yield from self._create_missing_queue(address, queue, RoutingType.ANYCAST, _defaults(attributes, known))

    def _open_topic_consumer_steps(
        self,
        address: str,
        queue: str,
        filter: str | None,
        durable: bool,
        shared: bool,
        attributes: QueueAttributes,
        temporary: bool,
    ) -> Steps[Consumer]:
        """Open a subscriber. Its queue holds the filter; the close deletes only an unshared, non-durable queue."""
        known = yield from self._known_address(address, RoutingType.MULTICAST, temporary=temporary)
        attributes = _defaults(attributes, known)
        if shared:
            yield from self._share_subscription(address, queue, filter, durable, attributes)
        elif durable:
            yield from self._take_subscription(address, queue, filter, attributes)
        else:
            creation = self._addressing.create_queue(
                address, queue, RoutingType.MULTICAST, attributes, durable=False, temporary=True, filter=filter
            )
            yield from wait(creation)
        own = not shared and not durable
        consumer = yield from wait(self._opener.create_consumer(queue, filter=filter if own else None))
        consumer.owns_queue = own
        return consumer

    def _share_subscription(
        self, address: str, queue: str, filter: str | None, durable: bool, attributes: QueueAttributes
    ) -> Steps[None]:
        state = yield from wait(self._addressing.query_queue(queue))
        if not state.exists or state.address != address or state.filter != filter:
            # The broker rejects a change of a shared subscription.
            creation = self._addressing.create_shared_queue(
                address, queue, RoutingType.MULTICAST, attributes, durable=durable, filter=filter
            )
            yield from wait(creation)

    def _take_subscription(
        self, address: str, queue: str, filter: str | None, attributes: QueueAttributes
    ) -> Steps[None]:
        state = yield from wait(self._addressing.query_queue(queue))
        if state.exists:
            if state.consumer_count > 0:
                raise IllegalStateException(f"the durable subscription {queue!r} has an active subscriber already")
            if state.address == address and state.filter == filter:
                return
            # A different topic or selector means a different subscription (JMS 3.1, 8.3.3).
            yield from wait(self._addressing.delete_queue(queue))
        yield from wait(self._addressing.create_queue(address, queue, RoutingType.MULTICAST, attributes, filter=filter))

    def _unsubscribe_steps(self, queue: str) -> Steps[None]:
        """Delete a durable subscription that has no consumer."""
        state = yield from wait(self._addressing.query_queue(queue))
        if not state.exists:
            raise exception_for(ErrorCode.QUEUE_DOES_NOT_EXIST, f"there is no subscription {queue!r}")
        if state.consumer_count > 0:
            raise IllegalStateException(f"the subscription {queue!r} has active subscribers")
        yield from wait(self._addressing.delete_queue(queue))

    def _create_temporary_steps(self, routing_type: RoutingType) -> Steps[str]:
        """Create a temporary queue or topic under a new name. The result is that name."""
        name = self._new_name()
        yield from wait(self._temporary_creation(name, routing_type))
        return name

    def _delete_temporary_steps(self, address: str) -> Steps[None]:
        """Delete a temporary queue or topic that has no consumer."""
        known = yield from wait(self._addressing.query_address(address))
        state = yield from wait(self._addressing.query_queue(address))
        if not known.exists and not state.exists:
            raise _no_temporary(address)
        if state.consumer_count > 0 or any(name != address for name in known.queue_names):
            raise IllegalStateException(f"the temporary destination {address!r} has active consumers")
        deletion = self._addressing.delete_queue(address)
        try:
            yield from wait(deletion)
        except InvalidDestinationException:
            # Another deletion was faster.
            raise _no_temporary(address) from None
