"""A naive model of diverts and wildcard addresses: which queues hold a message, and what its copies carry.

It walks all topics and diverts for each message. It shares no code with the broker.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from attrs import define, field, frozen

__all__ = ["ModelDivert", "RoutingModel"]

_WORD, _WORDS = "*", "#"


@frozen
class ModelDivert:
    """One divert. ``color`` is its filter; ``tag`` is the value of the property ``via`` that it adds to each copy."""

    name: str
    address: str
    forwarding: tuple[str, ...]
    exclusive: bool = False
    color: str | None = None
    tag: str | None = None


class _Bound(Protocol):
    """An address with its queues: name -> color they take, None for all."""

    address: str
    subscriptions: dict[str, str | None]
    listeners: dict[str, str | None]


@frozen
class _Copy:
    """What a message carries in a queue. The divert is the last one that it passed, empty for a message as sent."""

    original_address: str = ""
    divert: str = ""
    tag: str = ""


class _PropertyReader(Protocol):
    def property(self, name: str) -> object: ...


@define(eq=False)
class RoutingModel:
    """The bindings of one scenario. No message may come to one queue twice: its copies share a ledger key."""

    diverts: Sequence[ModelDivert]
    topics: Sequence[_Bound] = field(factory=tuple)
    #: The ledger's destination of all addresses: a queue may hold messages that were sent to any of them.
    account: str = "routed"

    def reached(self, address: str, color: str) -> Mapping[str, _Copy]:
        """Return the queues that must hold a message, and what it carries there."""
        found: dict[str, _Copy] = {}
        for queue, copy in self._walk(address, color, _Copy()):
            assert queue not in found, f"the plan routes a message of {address} to {queue} twice"
            found[queue] = copy
        return found

    def complaint(self, queue: str, message: _PropertyReader) -> str | None:
        """Return what is wrong with the properties of a message in a queue, None if nothing is."""
        color = message.property("color")
        carried = _Copy(
            str(message.property("_AMQ_ORIG_ADDRESS") or ""),
            str(message.property("_AMQ_ORIG_QUEUE") or ""),
            str(message.property("via") or ""),
        )
        allowed = [self.reached(topic.address, str(color)).get(queue) for topic in self.topics]
        return None if carried in allowed else f"carries {carried}, and {[each for each in allowed if each]} are right"

    def _walk(self, address: str, color: str, copy: _Copy) -> Iterator[tuple[str, _Copy]]:
        taking = [each for each in self.diverts if _takes(each.address, address) and each.color in (None, color)]
        exclusive = [each for each in taking if each.exclusive]
        if not exclusive:
            for topic in self.topics:
                if _takes(topic.address, address):
                    for name, taken in (*topic.subscriptions.items(), *topic.listeners.items()):
                        if taken in (None, color):
                            yield name, copy
        for divert in exclusive or taking:
            for forwarding in divert.forwarding:
                yield from self._walk(forwarding, color, _Copy(address, divert.name, divert.tag or copy.tag))


def _takes(pattern: str, address: str) -> bool:
    """Return True if a binding of one address takes messages of another. One with wildcards has only its own."""
    words = address.split(".")
    if _WORD in words or _WORDS in words:
        return pattern == address
    return _match(pattern.split("."), words)


def _match(pattern: list[str], words: list[str]) -> bool:
    if not pattern:
        return not words
    if pattern[0] == _WORDS:
        return any(_match(pattern[1:], words[count:]) for count in range(len(words) + 1))
    return bool(words) and pattern[0] in (_WORD, words[0]) and _match(pattern[1:], words[1:])
