"""Requests about destinations of the JMS layer, made through one session.

Responsible for their defaults. Does not depend on the sequences behind them.
"""

from typing import TYPE_CHECKING, Final

from attrs import define

from embedclient.model import RoutingType

from .._call import Call, DueCallbacks, run_sequence
from ..consumer._consumer import Consumer
from ._destinations import (
    create_temporary,
    delete_temporary,
    open_queue_consumer,
    open_topic_consumer,
    prepare_destination,
    prepare_temporary,
    unsubscribe,
)
from ._queue_state import QueueAttributes

if TYPE_CHECKING:
    from ._session import Session

_NO_ATTRIBUTES: Final = QueueAttributes()


@define(eq=False)
class DestinationRequests:
    """A broker's destinations, looked up and created through one session."""

    _session: "Session"
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
        return run_sequence(prepare_destination(self._session, address, routing_type, attributes, queue), self._due)

    def prepare_temporary(self, address: str, routing_type: RoutingType, *, own: bool) -> Call[None]:
        """Ensure, for a producer, a temporary destination. Fail with InvalidDestinationException where it is gone.

        One created by this connection (``own``) is created again.
        """
        return run_sequence(prepare_temporary(self._session, address, routing_type, own=own), self._due)

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
        steps = open_queue_consumer(
            self._session, address, queue or address, filter, browse_only, attributes, priority, temporary
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
        steps = open_topic_consumer(
            self._session, address, queue or self._session.new_name(), filter, durable, shared, attributes, temporary
        )
        return run_sequence(steps, self._due)

    def unsubscribe(self, queue: str) -> Call[None]:
        """Delete a durable subscription that has no subscriber."""
        return run_sequence(unsubscribe(self._session, queue), self._due)

    def create_temporary_queue(self) -> Call[str]:
        """Create a queue that lives as long as the connection. The result is its name."""
        return run_sequence(create_temporary(self._session, RoutingType.ANYCAST), self._due)

    def create_temporary_topic(self) -> Call[str]:
        """Create a topic that lives as long as the connection. The result is its address."""
        return run_sequence(create_temporary(self._session, RoutingType.MULTICAST), self._due)

    def delete_temporary(self, address: str) -> Call[None]:
        """Delete a temporary queue or topic without consumers."""
        return run_sequence(delete_temporary(self._session, address), self._due)
