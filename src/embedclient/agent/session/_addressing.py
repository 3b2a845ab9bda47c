"""Requests about addresses and queues, one packet each.

Responsible for choosing the packet of the version and reading the answers of all versions. Does not depend on consumers
or on the order of requests.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define

from embedclient.model import RoutingType
from embedclient.wire.core import (
    CreateAddress,
    DeleteQueue,
    NullResponse,
    Packet,
    SessionBindingQuery,
    SessionQueueQuery,
)

from .._call import DONE, Call, DueCallbacks, Steps, run_sequence, wait
from ._channel import SessionChannel
from ._queue_state import (
    ADDRESS_ANSWERS,
    QUEUE_ANSWERS,
    VERSION_WITH_ADDRESSING,
    AddressState,
    QueueAttributes,
    QueueState,
    address_state,
    create_queue_packet,
    create_shared_queue_packet,
    queue_state,
)


@define(eq=False)
class Addressing:
    """A broker's addresses and queues, queried through one session."""

    _channel: SessionChannel
    _due: DueCallbacks

    def send_request(self, packet: Packet) -> Call[None]:
        """Send a request whose reply only confirms completion."""

        def steps() -> Steps[None]:
            yield from wait(self._channel.request(packet, NullResponse))

        return run_sequence(steps(), self._due)

    def query_queue(self, name: str) -> Call[QueueState]:
        """Return the broker's state of a queue, or the state that it would have if it existed."""

        def steps() -> Steps[QueueState]:
            return queue_state((yield from wait(self._channel.request(SessionQueueQuery(name), *QUEUE_ANSWERS))))

        return run_sequence(steps(), self._due)

    def query_address(self, address: str) -> Call[AddressState]:
        """Return the broker's state of an address and of the queues bound to it."""

        def steps() -> Steps[AddressState]:
            return address_state(
                (yield from wait(self._channel.request(SessionBindingQuery(address), *ADDRESS_ANSWERS)))
            )

        return run_sequence(steps(), self._due)

    def create_address(
        self, address: str, routing_types: Sequence[RoutingType], *, auto_created: bool = False
    ) -> Call[None]:
        """Create an address. Brokers before version 129 have none, their queues are enough."""
        if 0 < self._channel.version < VERSION_WITH_ADDRESSING:
            return DONE
        return self.send_request(CreateAddress(address, tuple(int(kind) for kind in routing_types), True, auto_created))

    def create_queue(
        self,
        address: str,
        queue: str,
        routing_type: int,
        attributes: QueueAttributes | None = None,
        *,
        durable: bool = True,
        temporary: bool = False,
        auto_created: bool = False,
        filter: str | None = None,
    ) -> Call[None]:
        """Create a queue. Fail with QUEUE_EXISTS if it exists. A routing type of -1 leaves the choice to the broker."""
        packet = create_queue_packet(
            self._channel.version,
            address,
            queue,
            routing_type,
            attributes or QueueAttributes(),
            filter=filter,
            durable=durable,
            temporary=temporary,
            auto_created=auto_created,
        )
        return self.send_request(packet)

    def post_temporary_queue(self, address: str, queue: str, routing_type: int, *, filter: str) -> None:
        """Create a temporary queue without an answer. If it is refused, requests behind this one find no queue."""
        packet = create_queue_packet(
            self._channel.version,
            address,
            queue,
            routing_type,
            QueueAttributes(),
            filter=filter,
            durable=False,
            temporary=True,
            auto_created=False,
            requires_response=False,
        )
        self._channel.post_in_turn(packet)

    def create_shared_queue(
        self,
        address: str,
        queue: str,
        routing_type: int,
        attributes: QueueAttributes | None = None,
        *,
        durable: bool = True,
        filter: str | None = None,
    ) -> Call[None]:
        """Ensure that the queue of a shared subscription exists. Fail if it has another filter or address."""
        packet = create_shared_queue_packet(
            self._channel.version,
            address,
            queue,
            routing_type,
            attributes or QueueAttributes(),
            filter=filter,
            durable=durable,
        )
        return self.send_request(packet)

    def delete_queue(self, name: str) -> Call[None]:
        return self.send_request(DeleteQueue(name))
