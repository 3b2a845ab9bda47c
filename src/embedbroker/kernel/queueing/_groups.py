"""Message groups of one queue: which consumer gets the messages of a group.

Responsible for the assignment of groups to consumers. Does not depend on turns and credit, see `Dispatcher`.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from embedclient.errors import RemoteProtocolError

from ..message._message import Message

__all__ = ["MessageGroups"]

ConsumerT = TypeVar("ConsumerT")


class MessageGroups(Generic[ConsumerT]):
    """Hold the consumer of each group that has one.

    ``is_certain`` is False after a restart, until a message of a group is found: the journal does not record whether
    there is one.
    """

    __slots__ = ("holders", "is_certain")

    def __init__(self, *, is_certain: bool) -> None:
        self.holders: dict[str, ConsumerT] = {}
        self.is_certain = is_certain

    def key_of(self, message: Message) -> str | None:
        """Return the id of the group of a message; None for a message without a group."""
        try:
            key = message.group_id
        except RemoteProtocolError:
            return None
        if not isinstance(key, str):
            return None
        self.is_certain = True
        return key

    def assign(self, key: str, message: Message, consumer: ConsumerT) -> None:
        """Assign a group to the consumer that gets this message of it, or end the assignment with the message."""
        if message.closes_group:
            self.holders.pop(key, None)
        else:
            self.holders[key] = consumer

    def forget(self, consumer: ConsumerT) -> bool:
        """End the assignments of a consumer that is gone; return True if it had any."""
        ended = [key for key, holder in self.holders.items() if holder is consumer]
        for key in ended:
            del self.holders[key]
        return bool(ended)
