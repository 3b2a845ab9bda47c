"""The broker's answers about queues and addresses, in one form for all versions.

Responsible for values only: the answers to queries, and the attributes of a queue at its creation. A value that an
older broker does not send becomes None. Does not depend on the time of queries.
"""

from operator import attrgetter
from typing import Any

from attrs import fields_dict, frozen

from embedclient.model import hints_at_names
from embedclient.wire.core import (
    CreateQueue,
    CreateQueueV2,
    CreateSharedQueue,
    CreateSharedQueueV2,
    Packet,
    SessionBindingQueryResponse,
    SessionBindingQueryResponseV2,
    SessionBindingQueryResponseV3,
    SessionBindingQueryResponseV4,
    SessionBindingQueryResponseV5,
    SessionQueueQueryResponse,
    SessionQueueQueryResponseV2,
    SessionQueueQueryResponseV3,
)

from .._settings import DEFAULT_CONSUMER_WINDOW_SIZE, LocatorSettings

VERSION_WITH_ADDRESSING = 129

QUEUE_ANSWERS: tuple[type[Packet], ...] = (
    SessionQueueQueryResponseV3,
    SessionQueueQueryResponseV2,
    SessionQueueQueryResponse,
)
ADDRESS_ANSWERS: tuple[type[Packet], ...] = (
    SessionBindingQueryResponseV5,
    SessionBindingQueryResponseV4,
    SessionBindingQueryResponseV3,
    SessionBindingQueryResponseV2,
    SessionBindingQueryResponse,
)


@hints_at_names
@frozen(kw_only=True)
class QueueAttributes:
    """Attributes of a queue at its creation. None leaves the choice to the broker's address settings.

    Args:
        max_consumers: maximum number of consumers; -1 sets no limit.
        purge_on_no_consumers: remove the messages when the last consumer leaves.
        exclusive: one consumer receives all messages.
        last_value: keep only the newest message of each value of the last-value property.
        last_value_key: name of that property, in place of ``_AMQ_LVQ_NAME``.
        non_destructive: acknowledged messages stay in the queue.
        consumers_before_dispatch: number of consumers before the first delivery.
        delay_before_dispatch_ms: how long to wait for them; -1 waits without a limit.
        group_rebalance: share groups out again when a consumer comes.
        group_rebalance_pause_dispatch: pause deliveries until messages in delivery are acknowledged, then share out.
        group_buckets: number of buckets that share out groups; -1 remembers each group by itself, 0 has no groups.
        group_first_key: name of a property that marks the first message of a group for its consumer.
        auto_delete: delete the queue when it has no consumer and no message.
        auto_delete_delay_ms: how long it must be unused before that.
        auto_delete_message_count: messages that may be left at that time; -1 allows any number.
        ring_size: maximum number of messages; the oldest one leaves. -1 sets no limit.
        enabled: messages are routed to the queue.
    """

    max_consumers: int | None = None
    purge_on_no_consumers: bool | None = None
    exclusive: bool | None = None
    last_value: bool | None = None
    last_value_key: str | None = None
    non_destructive: bool | None = None
    consumers_before_dispatch: int | None = None
    delay_before_dispatch_ms: int | None = None
    group_rebalance: bool | None = None
    group_rebalance_pause_dispatch: bool | None = None
    group_buckets: int | None = None
    group_first_key: str | None = None
    auto_delete: bool | None = None
    auto_delete_delay_ms: int | None = None
    auto_delete_message_count: int | None = None
    ring_size: int | None = None
    enabled: bool | None = None


@frozen(kw_only=True)
class QueueState:
    """The answer to a queue query, also given when a consumer is created.

    Args:
        exists: the queue exists.
        durable: the queue survives a restart of the broker.
        temporary: the queue ends with a connection.
        consumer_count: number of consumers.
        message_count: number of messages.
        filter: selector of the queue; None without one.
        address: address to which the queue is bound; None if the broker names none.
        name: name of the queue; None if the broker names none.
        auto_create_queues: the broker creates the queue when it is used; None if it does not report that.
        auto_created: the broker created the queue by itself.
        routing_type: number of a `RoutingType`; None if the broker does not report it.
        default_consumer_window_size: window in bytes for consumers without their own; None if the broker does not
            report it.
        attributes: further attributes; None for each that the broker does not report.
    """

    exists: bool
    durable: bool
    temporary: bool
    consumer_count: int
    message_count: int
    filter: str | None
    address: str | None
    name: str | None
    auto_create_queues: bool | None = None
    auto_created: bool = False
    routing_type: int | None = None
    default_consumer_window_size: int | None = None
    attributes: QueueAttributes = QueueAttributes()


@frozen(kw_only=True)
class AddressState:
    """The answer to a binding query.

    Args:
        exists: the address exists.
        queue_names: names of the queues that are bound to it.
        auto_create_queues: the broker creates queues of the address when they are used; None if it does not report
            that.
        auto_create_addresses: the broker creates the address when it is used; None if it does not report that.
        default_max_consumers: maximum number of consumers of new queues; -1 sets no limit.
        default_purge_on_no_consumers: new queues lose their messages when the last consumer leaves.
        supports_multicast: the address has the routing type MULTICAST; None if the broker does not report it.
        supports_anycast: the address has the routing type ANYCAST; None if the broker does not report it.
    """

    exists: bool
    queue_names: tuple[str, ...]
    auto_create_queues: bool | None = None
    auto_create_addresses: bool | None = None
    default_max_consumers: int = -1
    default_purge_on_no_consumers: bool = False
    supports_multicast: bool | None = None
    supports_anycast: bool | None = None


# By the names in packets.
_ATTRIBUTE_NAMES = tuple(fields_dict(QueueAttributes))
# The same in packets.
_SENT_NAMES = tuple(name.removesuffix("_ms") for name in _ATTRIBUTE_NAMES)
_attributes_of = attrgetter(*_ATTRIBUTE_NAMES)
_sent_attributes_of = attrgetter(*_SENT_NAMES)
_ADDRESS_STATE_NAMES = tuple(fields_dict(AddressState))


def queue_state(answer: Packet) -> QueueState:
    """Return a queue query answer of any version in one form."""
    assert isinstance(answer, (SessionQueueQueryResponse, SessionQueueQueryResponseV2, SessionQueueQueryResponseV3)), (
        answer
    )
    auto_create_queues: bool | None = None
    auto_created = False
    routing_type = window = None
    attributes = QueueAttributes()
    if not isinstance(answer, SessionQueueQueryResponse):
        auto_create_queues = answer.auto_create_queues
    if isinstance(answer, SessionQueueQueryResponseV3):
        auto_created = answer.auto_created
        routing_type = answer.routing_type
        window = answer.default_consumer_window_size
        attributes = QueueAttributes(**dict(zip(_ATTRIBUTE_NAMES, _sent_attributes_of(answer), strict=True)))
    return QueueState(
        exists=answer.exists,
        durable=answer.durable,
        temporary=answer.temporary,
        consumer_count=answer.consumer_count,
        message_count=answer.message_count,
        filter=answer.filter,
        address=answer.address,
        name=answer.name,
        auto_create_queues=auto_create_queues,
        auto_created=auto_created,
        routing_type=routing_type,
        default_consumer_window_size=window,
        attributes=attributes,
    )


def address_state(answer: Packet) -> AddressState:
    """Return a binding query answer of any version in one form."""
    assert isinstance(answer, ADDRESS_ANSWERS), answer
    return AddressState(**{name: getattr(answer, name) for name in _ADDRESS_STATE_NAMES if hasattr(answer, name)})


def create_queue_packet(
    version: int,
    address: str,
    queue: str,
    routing_type: int,
    attributes: QueueAttributes,
    *,
    filter: str | None,
    durable: bool,
    temporary: bool,
    auto_created: bool,
    requires_response: bool = True,
) -> Packet:
    """Return the packet that creates a queue, in the form of the version."""
    if 0 < version < VERSION_WITH_ADDRESSING:
        return CreateQueue(address, queue, filter, durable, temporary, requires_response)
    given = _given(attributes)
    return CreateQueueV2(
        address, queue, filter, durable, temporary, requires_response, auto_created, routing_type, **given
    )


def create_shared_queue_packet(
    version: int,
    address: str,
    queue: str,
    routing_type: int,
    attributes: QueueAttributes,
    *,
    filter: str | None,
    durable: bool,
) -> Packet:
    """Return the packet that ensures the queue of a shared subscription, in the form of the version."""
    if 0 < version < VERSION_WITH_ADDRESSING:
        return CreateSharedQueue(address, queue, filter, durable, True)
    given = _given(attributes)
    return CreateSharedQueueV2(address, queue, filter, durable, routing_type, True, **given)


def create_again_packet(version: int, queue: str, state: QueueState) -> Packet:
    """Return the packet that creates a queue again with its old state. It needs no answer: the queue may exist."""
    return create_queue_packet(
        version,
        state.address or queue,
        state.name or queue,
        -1 if state.routing_type is None else state.routing_type,
        state.attributes,
        filter=state.filter,
        durable=state.durable,
        temporary=state.temporary,
        auto_created=state.auto_created,
        requires_response=False,
    )


def consumer_window(settings: LocatorSettings, state: QueueState) -> int:
    """Return the window of the settings, or the broker's window for the queue if the settings have the default."""
    own = settings.consumer_window_size
    if own == DEFAULT_CONSUMER_WINDOW_SIZE and state.default_consumer_window_size is not None:
        return state.default_consumer_window_size
    return own


def _given(attributes: QueueAttributes) -> dict[str, Any]:
    """Return the attributes that are set, by the names in packets."""
    values = zip(_SENT_NAMES, _attributes_of(attributes), strict=True)
    return {name: value for name, value in values if value is not None}
