"""Requests at the broker that gets the messages of this one: sessions, queues, and its management.

Responsible for their order and for their answers. Each request is work that pauses at its calls. Does not depend on
connections, and on what is sent.
"""

from __future__ import annotations

import json
from collections.abc import Generator
from typing import Any, Final, TypeAlias, TypeVar

from embedbroker.kernel import QueueDefinition
from embedclient.agent import Agent, Call, Consumer, CoreMessage, Producer, QueueAttributes, Session
from embedclient.errors import ErrorCode, JMSException, RemoteProtocolError
from embedclient.model import Instant, Properties, RoutingType
from embedclient.wire.core import decode_text, encode_text

__all__ = ["RemoteBroker", "RequestRefused", "Work", "awaited"]

T = TypeVar("T")

Work: TypeAlias = "Generator[Call[Any] | None, None, T]"
"""Work in portions: it pauses at a call until that is done, and at None until its next turn."""

_RESOURCE: Final = "_AMQ_ResourceName"
_ATTRIBUTE: Final = "_AMQ_Attribute"
_OPERATION: Final = "_AMQ_OperationName"
_SUCCEEDED: Final = "_AMQ_OperationSucceeded"
_REPLY_TO: Final = "JMSReplyTo"
_MANAGEMENT_ADDRESS: Final = "activemq.management"
_UNSPECIFIED: Final = -1
# Replies do not expire.
_NO_TIME: Final = Instant(0.0, 0)


def awaited(call: Call[T]) -> Work[T]:
    """Wait for a call, and return its result.

    Raises:
        JMSException: It failed.
    """
    if not call.done:
        yield call
    return call.value()


class RequestRefused(JMSException):
    """The management of the other broker refuses a request."""


class _Arrival:
    """Turn the readiness of a consumer into a call that is done."""

    def __init__(self) -> None:
        self._next: Call[None] = Call(None)

    def __call__(self, consumer: Consumer) -> None:
        self._next.succeed(None)

    def await_next(self) -> Call[None]:
        """Return a call that is done when a message has arrived from now on."""
        self._next = Call(None)
        return self._next


class RemoteBroker:
    """The other broker, once there is a session. ``producer`` sends to any address.

    Args:
        agent: Client that is connected to it.
        user: Name of the login there.
        password: Password of the login.
    """

    def __init__(self, agent: Agent, user: str, password: str | None) -> None:
        self._agent = agent
        self._user = user
        self._password = password
        #: True once `open` is done.
        self.is_open = False
        self._session: Session
        self.producer: Producer
        self._replies: Consumer
        self._reply_queue = ""
        self._arrival = _Arrival()
        # Ids of its queues by name.
        self._queue_ids: dict[str, int] = {}

    @property
    def node_id(self) -> str | None:
        """Return the id of its node, None where that is not known."""
        node_id = self._agent.node_id
        nodes = self._agent.topology.nodes
        return next(iter(nodes)) if node_id is None and len(nodes) == 1 else node_id

    def open(self) -> Work[None]:
        """Open a session, and a queue for the replies of its management.

        Raises:
            JMSException: It cannot be reached, or refuses the login.
        """
        self._session = yield from self.open_session()
        self.producer = self._session.create_producer(None)
        self._reply_queue = f"{_MANAGEMENT_ADDRESS}.{self._session.new_name()}"
        creation = self._session.addressing.create_queue(
            self._reply_queue, self._reply_queue, _UNSPECIFIED, durable=False, temporary=True
        )
        yield from awaited(creation)
        self._replies = yield from awaited(self._session.create_consumer(self._reply_queue))
        self._replies.on_ready = self._arrival
        yield from awaited(self._session.start())
        self.is_open = True

    def open_session(self, *, xa: bool = False) -> Work[Session]:
        """Open one more session.

        Raises:
            JMSException: It is refused.
        """
        return (
            yield from awaited(
                self._agent.create_session(username=self._user, password=self._password, pre_acknowledge=True, xa=xa)
            )
        )

    # -- queues --------------------------------------------------------------------------------------------------

    def queue_id(self, definition: QueueDefinition) -> Work[int]:
        """Return the id of the queue of this name there. It is created unless it exists.

        Raises:
            JMSException: It cannot be created, or belongs to another address there.
        """
        known = self._queue_ids.get(definition.name)
        if known is not None:
            return known
        state = yield from awaited(self._session.addressing.query_queue(definition.name))
        if not state.exists:
            creation = self._session.addressing.create_queue(
                definition.address,
                definition.name,
                definition.routing_type,
                _attributes(definition),
                durable=definition.durable,
                auto_created=definition.auto_created,
                filter=definition.filter,
            )
            if not creation.done:
                yield creation
            if creation.error is not None and creation.error.error_code != ErrorCode.QUEUE_EXISTS:
                raise creation.error
        elif state.address not in (None, definition.address):
            raise JMSException(
                f"queue {definition.name!r} is of address {state.address!r} there, and of {definition.address!r} here"
            )
        answer = yield from self.manage(f"queue.{definition.name}", attribute="ID")
        if not isinstance(answer, int):
            raise JMSException(f"the id of queue {definition.name!r} there is {answer!r}, which is no number")
        self._queue_ids[definition.name] = answer
        return answer

    def ensure_address(self, name: str, *, anycast: bool) -> Work[None]:
        """Create an address there unless it exists.

        Raises:
            JMSException: It cannot be created.
        """
        state = yield from awaited(self._session.addressing.query_address(name))
        if not state.exists:
            kind = RoutingType.ANYCAST if anycast else RoutingType.MULTICAST
            yield from awaited(self._session.addressing.create_address(name, [kind]))

    # -- management ----------------------------------------------------------------------------------------------

    def manage(
        self,
        resource: str,
        *,
        attribute: str | None = None,
        operation: str | None = None,
        arguments: list[object] | None = None,
    ) -> Work[object]:
        """Read an attribute or call an operation, and return the answer.

        Raises:
            RequestRefused: The other broker refuses the request.
            JMSException: It was not answered.
        """
        properties = Properties({_REPLY_TO: self._reply_queue, _RESOURCE: resource})
        if attribute is not None:
            properties[_ATTRIBUTE] = attribute
        if operation is not None:
            properties[_OPERATION] = operation
        body = encode_text(None if arguments is None else json.dumps(arguments, separators=(",", ":")))
        request = CoreMessage.build(address=_MANAGEMENT_ADDRESS, durable=False, properties=properties, body=body)
        yield from awaited(self.producer.send_confirmed(request))
        while (delivery := self._replies.next(_NO_TIME)) is None:
            if self._replies.closed:
                raise self._replies.closed_error or JMSException("the session there is closed")
            yield self._arrival.await_next()
        reply = delivery.message
        answer = _first_of(reply.body)
        if reply.property(_SUCCEEDED) is False:
            raise RequestRefused(f"{resource} {operation or attribute} failed there: {answer}")
        return answer


def _attributes(definition: QueueDefinition) -> QueueAttributes:
    return QueueAttributes(
        max_consumers=definition.max_consumers,
        purge_on_no_consumers=definition.purge_on_no_consumers,
        exclusive=definition.exclusive,
        group_rebalance=definition.group_rebalance,
        group_rebalance_pause_dispatch=definition.group_rebalance_pause_dispatch,
        group_buckets=definition.group_buckets,
        group_first_key=definition.group_first_key,
        auto_delete=definition.auto_delete,
        auto_delete_delay_ms=definition.auto_delete_delay,
        auto_delete_message_count=definition.auto_delete_message_count,
        enabled=definition.enabled,
    )


def _first_of(body: memoryview) -> object:
    """Return the first value in the JSON array of a reply; None without one.

    Raises:
        JMSException: The reply cannot be read.
    """
    try:
        text = decode_text(body)
        values = json.loads(text) if text else []
    except (RemoteProtocolError, ValueError) as error:
        raise JMSException(f"the reply of the management there cannot be read: {error}") from None
    return values[0] if isinstance(values, list) and values else None
