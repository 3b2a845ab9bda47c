"""`Management`: attributes and operations of a running broker, for the program that owns it.

Responsible for typed calls and for their errors. The same registry answers management messages; see the guide. The
owner may do everything: no permission is checked.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from attrs import frozen

from embedclient.errors import IllegalStateException, JMSException

if TYPE_CHECKING:
    from ._host import Host

__all__ = ["AddressInfo", "Management", "QueueInfo"]


@frozen
class QueueInfo:
    """Figures of a queue at one moment.

    Attributes:
        name: Name of the queue.
        address: Address that it is bound to.
        routing_type: ``ANYCAST`` or ``MULTICAST``.
        durable: Whether it survives a restart.
        message_count: Messages that wait or are in delivery.
        delivering_count: Messages in delivery.
        consumer_count: Consumers, without browsers.
        messages_added: Messages added since the start of the broker.
        messages_acknowledged: Messages acknowledged since then.
    """

    name: str
    address: str
    routing_type: str
    durable: bool
    message_count: int
    delivering_count: int
    consumer_count: int
    messages_added: int
    messages_acknowledged: int


@frozen
class AddressInfo:
    """Figures of an address at one moment.

    Attributes:
        name: Name of the address.
        routing_types: ``ANYCAST``, ``MULTICAST`` or both.
        queue_count: Queues that are bound to it.
        message_count: Messages in its queues.
        routed_message_count: Messages that a queue took, since the start of the broker.
        unrouted_message_count: Messages that no queue took, since then.
    """

    name: str
    routing_types: tuple[str, ...]
    queue_count: int
    message_count: int
    routed_message_count: int
    unrouted_message_count: int


class Management:
    """Read and change a running broker; `EmbeddedBroker.management` returns it.

    `get` and `invoke` reach every attribute and operation of the guide's tables. The other methods are typed forms of
    the common ones. All of them raise `JMSException` with the broker's text if a call fails, and
    `IllegalStateException` if the broker is not live or ends before the answer.
    """

    def __init__(self, host: Callable[[], Host]) -> None:
        self._host = host

    async def get(self, resource: str, attribute: str) -> Any:
        """Return an attribute as a value of JSON.

        Args:
            resource: ``broker``, ``address.NAME`` or ``queue.NAME``.
            attribute: Name of the attribute, such as ``MessageCount``.
        """
        return self._result(await self._host().manage(resource, attribute=attribute))

    async def invoke(self, resource: str, operation: str, *arguments: object) -> Any:
        """Run an operation, and return its result as a value of JSON.

        Args:
            resource: ``broker``, ``address.NAME`` or ``queue.NAME``.
            operation: Name of the operation, such as ``removeAllMessages``.
            arguments: Texts, numbers, booleans or None, in the order of the operation's parameters.
        """
        return self._result(await self._host().manage(resource, operation=operation, arguments=arguments))

    @staticmethod
    def _result(answer: tuple[object, str | None] | None) -> Any:
        if answer is None:
            raise IllegalStateException("the broker ended before it answered the management call")
        value, failure = answer
        if failure is not None:
            raise JMSException(failure)
        return value

    # -- queues --------------------------------------------------------------------------------------------------

    async def queue_names(self) -> list[str]:
        """Return the names of all queues, in order."""
        names: list[str] = await self.get("broker", "QueueNames")
        return names

    async def queues(self) -> list[QueueInfo]:
        """Return the figures of all queues, in order of their names."""
        return [
            QueueInfo(
                name=row["name"],
                address=row["address"],
                routing_type=row["routingType"],
                durable=row["durable"] == "true",
                message_count=int(row["messageCount"]),
                delivering_count=int(row["deliveringCount"]),
                consumer_count=int(row["consumerCount"]),
                messages_added=int(row["messagesAdded"]),
                messages_acknowledged=int(row["messagesAcked"]),
            )
            for row in await self._rows("listQueues")
        ]

    async def message_count(self, queue: str) -> int:
        """Return the number of messages that wait in a queue or are in delivery."""
        count: int = await self.get(f"queue.{queue}", "MessageCount")
        return count

    async def create_queue(
        self,
        name: str,
        *,
        address: str | None = None,
        routing_type: str = "ANYCAST",
        filter: str | None = None,
        durable: bool = True,
        max_consumers: int = -1,
    ) -> None:
        """Create a queue, and its address if it does not exist.

        Args:
            name: Name of the queue.
            address: Address that it is bound to; None takes the name of the queue.
            routing_type: ``ANYCAST`` or ``MULTICAST``.
            filter: Selector for the messages that it takes; None takes all.
            durable: Whether it survives a restart.
            max_consumers: Maximum number of consumers; -1 sets no limit.
        """
        configuration: dict[str, object] = {
            "name": name,
            "address": address if address is not None else name,
            "routing-type": routing_type,
            "durable": durable,
            "max-consumers": max_consumers,
        }
        if filter is not None:
            configuration["filter-string"] = filter
        await self.invoke("broker", "createQueue", json.dumps(configuration))

    async def delete_queue(self, name: str, *, closes_consumers: bool = False) -> None:
        """Delete a queue with its messages. A queue with consumers is refused unless ``closes_consumers``."""
        await self.invoke("broker", "destroyQueue", name, closes_consumers)

    async def purge_queue(self, name: str) -> int:
        """Remove the messages that wait in a queue, and return how many there were. Those in delivery stay."""
        removed: int = await self.invoke(f"queue.{name}", "removeAllMessages")
        return removed

    # -- addresses -----------------------------------------------------------------------------------------------

    async def addresses(self) -> list[AddressInfo]:
        """Return the figures of all addresses, in order of their creation."""
        return [
            AddressInfo(
                name=row["name"],
                routing_types=tuple(json.loads(row["routingTypes"])),
                queue_count=int(row["queueCount"]),
                message_count=int(row["messageCount"]),
                routed_message_count=int(row["routedMessageCount"]),
                unrouted_message_count=int(row["unroutedMessageCount"]),
            )
            for row in await self._rows("listAddresses")
        ]

    async def create_address(self, name: str, *routing_types: str) -> None:
        """Create an address.

        Args:
            name: Name of the address.
            routing_types: ``ANYCAST``, ``MULTICAST`` or both.
        """
        await self.invoke("broker", "createAddress", name, ",".join(routing_types))

    async def delete_address(self, name: str, *, deletes_queues: bool = False) -> None:
        """Delete an address. One with queues is refused unless ``deletes_queues``."""
        await self.invoke("broker", "deleteAddress", name, deletes_queues)

    async def _rows(self, operation: str) -> list[dict[str, str]]:
        page: dict[str, list[dict[str, str]]] = json.loads(await self.invoke("broker", operation, "", -1, -1))
        return page["data"]
