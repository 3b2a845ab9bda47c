"""Destinations in the forms that users pass, and the data that the core layer needs of them.

Responsible for text forms, queue attributes behind a question mark, and the consumer priority among them. Sends no
request to the broker.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import fields_dict, frozen

from embedclient.agent import QueueAttributes
from embedclient.errors import InvalidDestinationException
from embedclient.model import (
    Destination,
    Queue,
    TemporaryQueue,
    TemporaryTopic,
    Topic,
    did_you_mean,
    parse_destination,
    split_attributes,
    split_fully_qualified_name,
)

from ._url_parameters import read_boolean, read_integer

_CONSUMER_PRIORITY = "consumer-priority"
# These decide which request the client sends and are not attributes of a queue.
_DECIDED_ELSEWHERE = ("routing-type", "durable", "filter-string")
_FIELDS = {name.removesuffix("_ms").replace("_", "-"): field for name, field in fields_dict(QueueAttributes).items()}


@frozen
class ResolvedDestination:
    """A destination's address, the queue of a fully qualified name, and the attributes for its creation."""

    address: str
    queue: str | None
    attributes: QueueAttributes
    consumer_priority: int


def as_destination(destination: Destination | str) -> Destination:
    """Return a destination. Text becomes one: `queue://a`, `topic://a`, and without a prefix a queue."""
    if isinstance(destination, str):
        destination = parse_destination(destination)
    if not isinstance(destination, Queue | Topic | TemporaryQueue | TemporaryTopic):
        raise InvalidDestinationException(f"{destination!r} is not a destination")
    if not destination.name:
        raise InvalidDestinationException("a destination needs a name")
    if not all(split_attributes(destination.name)[0].split("::")):
        raise InvalidDestinationException(f"{destination.name!r} lacks a name before or behind its '::' or '?'")
    return destination


def as_topic(topic: Topic | TemporaryTopic | str) -> Topic | TemporaryTopic:
    """Return a topic. Text without a prefix names a topic here."""
    if isinstance(topic, str) and "://" not in topic:
        topic = Topic(topic)
    target = as_destination(topic)
    if not isinstance(target, Topic | TemporaryTopic):
        raise InvalidDestinationException(f"only topics have subscriptions, not {target}")
    return target


def place_of(destination: Destination) -> ResolvedDestination:
    name, texts = split_attributes(destination.name)
    address, queue = split_fully_qualified_name(name)
    priority = texts.pop(_CONSUMER_PRIORITY, "0")
    return ResolvedDestination(
        address or queue,
        queue if address is not None else None,
        _attributes(texts, destination.name),
        int(_read(_CONSUMER_PRIORITY, priority, "int", destination.name) or 0),
    )


def _attributes(texts: Mapping[str, str], where: str) -> QueueAttributes:
    values: dict[str, bool | int | str | None] = {}
    for key, text in texts.items():
        if key in _FIELDS:
            values[_FIELDS[key].name] = _read(key, text, str(_FIELDS[key].type), where)
        elif key not in _DECIDED_ELSEWHERE:
            meant = did_you_mean(key, [*_FIELDS, _CONSUMER_PRIORITY])
            raise InvalidDestinationException(f"unknown queue attribute {key!r} in destination {where!r}{meant}")
    return QueueAttributes(**values)  # type: ignore[arg-type]  # each value was read as its field's type


def _read(key: str, text: str, kind: str, where: str) -> bool | int | str:
    try:
        if "bool" in kind:
            return read_boolean(text)
        return read_integer(text) if "int" in kind else text
    except ValueError as error:
        raise InvalidDestinationException(
            f"queue attribute {key!r} in destination {where!r} is {text!r}: {error}"
        ) from None
