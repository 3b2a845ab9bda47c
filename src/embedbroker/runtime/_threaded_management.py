"""`ThreadedManagement`: the blocking counterpart of `Management`. Adds no behaviour."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from ._management import AddressInfo, Management, QueueInfo

__all__ = ["ThreadedManagement"]

T = TypeVar("T")


class _Run(Protocol):
    def __call__(self, function: Callable[[], Awaitable[T]], /) -> T: ...


class ThreadedManagement:
    """Do what `Management` does, and block. Methods, arguments and errors are the same."""

    def __init__(self, management: Management, run: _Run) -> None:
        self._management = management
        self._run = run

    def get(self, resource: str, attribute: str) -> Any:
        """Return an attribute as a value of JSON."""
        return self._run(lambda: self._management.get(resource, attribute))

    def invoke(self, resource: str, operation: str, *arguments: object) -> Any:
        """Run an operation, and return its result as a value of JSON."""
        return self._run(lambda: self._management.invoke(resource, operation, *arguments))

    def queue_names(self) -> list[str]:
        """Return the names of all queues, in order."""
        return self._run(lambda: self._management.queue_names())

    def queues(self) -> list[QueueInfo]:
        """Return the figures of all queues, in order of their names."""
        return self._run(lambda: self._management.queues())

    def message_count(self, queue: str) -> int:
        """Return the number of messages that wait in a queue or are in delivery."""
        return self._run(lambda: self._management.message_count(queue))

    def create_queue(
        self,
        name: str,
        *,
        address: str | None = None,
        routing_type: str = "ANYCAST",
        filter: str | None = None,
        durable: bool = True,
        max_consumers: int = -1,
    ) -> None:
        """Create a queue, and its address if it does not exist."""
        self._run(
            lambda: self._management.create_queue(
                name,
                address=address,
                routing_type=routing_type,
                filter=filter,
                durable=durable,
                max_consumers=max_consumers,
            )
        )

    def delete_queue(self, name: str, *, closes_consumers: bool = False) -> None:
        """Delete a queue with its messages. A queue with consumers is refused unless ``closes_consumers``."""
        self._run(lambda: self._management.delete_queue(name, closes_consumers=closes_consumers))

    def purge_queue(self, name: str) -> int:
        """Remove the messages that wait in a queue, and return how many there were. Those in delivery stay."""
        return self._run(lambda: self._management.purge_queue(name))

    def addresses(self) -> list[AddressInfo]:
        """Return the figures of all addresses, in order of their creation."""
        return self._run(lambda: self._management.addresses())

    def create_address(self, name: str, *routing_types: str) -> None:
        """Create an address."""
        self._run(lambda: self._management.create_address(name, *routing_types))

    def delete_address(self, name: str, *, deletes_queues: bool = False) -> None:
        """Delete an address. One with queues is refused unless ``deletes_queues``."""
        self._run(lambda: self._management.delete_address(name, deletes_queues=deletes_queues))
