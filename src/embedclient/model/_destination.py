"""Destinations: queues and topics as values, and the text forms that name them.

Responsible for ``queue://a`` and its siblings, fully qualified names (``address::queue``), attributes behind a question
mark, and the queue names of subscriptions. Does not depend on the existence of a destination.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, ClassVar, Self, TypeVar

from attrs import evolve, field, frozen

from ..errors import IllegalStateException
from ._checks import instance
from ._message import RoutingType

__all__ = [
    "Destination",
    "Queue",
    "TemporaryQueue",
    "TemporaryTopic",
    "Topic",
    "deletable",
    "fully_qualified_name",
    "parse_destination",
    "split_attributes",
    "split_fully_qualified_name",
    "subscription_queue_name",
]

_SEPARATOR = "::"
T = TypeVar("T", bound="TemporaryQueue | TemporaryTopic")
# Of any destination: a constructor's types are resolved before its own class exists.
Delete = Callable[[Any], Awaitable[None]]


def split_attributes(name: str) -> tuple[str, dict[str, str]]:
    """Split ``name?key=value&key=value`` into the name and its attributes."""
    name, _, query = name.partition("?")
    pairs = (item.partition("=") for item in query.split("&") if item)
    return name, {key: value for key, _, value in pairs}


def split_fully_qualified_name(name: str) -> tuple[str | None, str]:
    """Return the parts of ``address::queue``. Return (None, name) for a name without ``::``."""
    address, separator, queue = name.partition(_SEPARATOR)
    return (address, queue) if separator else (None, name)


def fully_qualified_name(address: str, queue: str) -> str:
    """Return ``address::queue``."""
    return f"{address}{_SEPARATOR}{queue}"


@frozen
class Queue:
    """A queue.

    Args:
        name: its name. It may be fully qualified and may carry attributes, as in ``a::q?max-consumers=1``.

    Raises:
        TypeError: the name is no str.
    """

    name: str = field(validator=instance(str))

    routing_type: ClassVar[RoutingType] = RoutingType.ANYCAST
    is_temporary: ClassVar[bool] = False

    @property
    def address(self) -> str:
        """Return the address, without queue and attributes."""
        plain = split_attributes(self.name)[0]
        address, queue = split_fully_qualified_name(plain)
        return queue if address is None else address

    @property
    def message_address(self) -> str:
        """Return the address of messages to it: with the queue, where the name gives one."""
        return split_attributes(self.name)[0]

    @property
    def queue_name(self) -> str:
        """Return the name of the core queue, without attributes."""
        return split_fully_qualified_name(split_attributes(self.name)[0])[1]

    @property
    def attributes(self) -> dict[str, str]:
        """Return the queue attributes given in the name."""
        return split_attributes(self.name)[1]

    def __str__(self) -> str:
        return f"queue://{self.name}"


@frozen
class Topic:
    """A topic.

    Args:
        name: its name. It may be fully qualified and may carry attributes.

    Raises:
        TypeError: the name is no str.
    """

    name: str = field(validator=instance(str))

    routing_type: ClassVar[RoutingType] = RoutingType.MULTICAST
    is_temporary: ClassVar[bool] = False

    @property
    def address(self) -> str:
        """Return the address, without queue and attributes."""
        plain = split_attributes(self.name)[0]
        address, queue = split_fully_qualified_name(plain)
        return queue if address is None else address

    @property
    def message_address(self) -> str:
        """Return the address of messages to it: with the queue, where the name gives one."""
        return split_attributes(self.name)[0]

    @property
    def attributes(self) -> dict[str, str]:
        """Return the attributes given in the name."""
        return split_attributes(self.name)[1]

    def __str__(self) -> str:
        return f"topic://{self.name}"


@frozen
class TemporaryQueue:
    """A queue that lives as long as the connection that created it. Made by `Session.create_temporary_queue`.

    Address and queue have the same name.

    Args:
        name: the name that the client chose.
    """

    name: str
    _delete: Delete | None = field(default=None, eq=False, repr=False, kw_only=True)

    routing_type: ClassVar[RoutingType] = RoutingType.ANYCAST
    is_temporary: ClassVar[bool] = True

    @property
    def address(self) -> str:
        """Return the address messages are sent to."""
        return self.name

    @property
    def message_address(self) -> str:
        """Return the address of messages to it."""
        return self.name

    @property
    def queue_name(self) -> str:
        """Return the name of the core queue."""
        return self.name

    def delete(self) -> Awaitable[None]:
        """Delete the queue with its messages before its connection ends. In a blocking program the call waits.

        Raises:
            IllegalStateException: the queue has consumers, another connection made it, or this is a copy.
        """
        return _delete(self, self._delete)

    def __reduce__(self) -> tuple[type[Self], tuple[str]]:
        # A copy names the destination; the connection, which deletes it, is not copied.
        return type(self), (self.name,)

    def __str__(self) -> str:
        return f"temp-queue://{self.name}"


@frozen
class TemporaryTopic:
    """A topic that lives as long as the connection that created it. Made by `Session.create_temporary_topic`.

    Args:
        name: the name that the client chose.
    """

    name: str
    _delete: Delete | None = field(default=None, eq=False, repr=False, kw_only=True)

    routing_type: ClassVar[RoutingType] = RoutingType.MULTICAST
    is_temporary: ClassVar[bool] = True

    @property
    def address(self) -> str:
        """Return the address messages are sent to."""
        return self.name

    @property
    def message_address(self) -> str:
        """Return the address of messages to it."""
        return self.name

    def delete(self) -> Awaitable[None]:
        """Delete the topic with its messages before its connection ends. In a blocking program the call waits.

        Raises:
            IllegalStateException: the topic has consumers, another connection made it, or this is a copy.
        """
        return _delete(self, self._delete)

    def __reduce__(self) -> tuple[type[Self], tuple[str]]:
        # A copy names the destination; the connection, which deletes it, is not copied.
        return type(self), (self.name,)

    def __str__(self) -> str:
        return f"temp-topic://{self.name}"


Destination = Queue | Topic | TemporaryQueue | TemporaryTopic


def deletable(destination: T, delete: Delete) -> T:
    """Return the same temporary destination, with what its `delete` does."""
    return evolve(destination, delete=delete)


def _delete(destination: TemporaryQueue | TemporaryTopic, delete: Delete | None) -> Awaitable[None]:
    if delete is None:
        raise IllegalStateException(f"{destination} is deleted by the connection that made it, and by no other")
    return delete(destination)


_BY_PREFIX: dict[str, type[Queue] | type[Topic] | type[TemporaryQueue] | type[TemporaryTopic]] = {
    "queue://": Queue,
    "topic://": Topic,
    "temp-queue://": TemporaryQueue,
    "temp-topic://": TemporaryTopic,
}


def parse_destination(text: str, default: type[Queue] | type[Topic] = Queue) -> Destination:
    """Read the text form that ``str()`` of a destination gives. Text without a prefix becomes a ``default``."""
    prefix, separator, name = text.partition("://")
    kind = _BY_PREFIX.get(prefix + separator)
    return default(text) if kind is None else kind(name)


def _escape(part: str) -> str:
    return part.replace("\\", "\\\\").replace(".", "\\.")


def subscription_queue_name(client_id: str | None, name: str, *, durable: bool) -> str:
    """Return the queue name of a named subscription.

    Durable subscriptions are ``client.name``, shared non-durable ones ``nonDurable.client.name``; without a client id
    its part is omitted. Unshared non-durable subscriptions have random names and do not come here.
    """
    parts = [] if durable else ["nonDurable"]
    if client_id is not None:
        parts.append(_escape(client_id))
    parts.append(_escape(name))
    return ".".join(parts)
