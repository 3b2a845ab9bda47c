"""Queues of a broker, filled and looked at over TCP as any client does it."""

from __future__ import annotations

from collections.abc import Iterable

from embedclient.blocking import ServerLocator
from embedclient.model import Properties, RoutingType
from embedclient.wire.core import CoreMessage, MessageType, encode_text

__all__ = ["create", "fill", "left_in", "numbered", "properties_of"]


def create(url: str, *queues: str) -> None:
    """Make anycast queues."""
    with ServerLocator(url).create_session_factory() as factory, factory.create_session() as session:
        for queue in queues:
            session.create_queue(queue)


def fill(url: str, address: str, messages: Iterable[CoreMessage], *, multicast: bool = False) -> None:
    """Send messages and wait until the broker has them."""
    with ServerLocator(url).create_session_factory() as factory, factory.create_session() as session:
        if not session.query_address(address).exists:
            if multicast:
                session.create_address(address, [RoutingType.MULTICAST])
            else:
                session.create_queue(address)
        refused = session.create_producer(address).send_encoded([message.raw for message in messages], confirmed=True)
        assert refused == []


def numbered(address: str, numbers: Iterable[int], *, size: int = 0) -> list[CoreMessage]:
    """Messages whose bodies are numbers, filled up with spaces."""
    return [
        CoreMessage.build(type=MessageType.BYTES, address=address, body=str(number).ljust(size).encode())
        for number in numbers
    ]


def text_message(address: str, text: str, **values: str | int | bool) -> CoreMessage:
    """A text message with properties."""
    return CoreMessage.build(
        type=MessageType.TEXT, address=address, properties=properties_of(**values), body=encode_text(text)
    )


def properties_of(**values: str | int | bool) -> Properties:
    """Properties of these names."""
    found = Properties()
    found.update(values)
    return found


def left_in(url: str, queue: str) -> list[bytes]:
    """The bodies that are in a queue, in order; they stay there."""
    with ServerLocator(url).create_session_factory() as factory, factory.create_session() as session:
        if not session.query_queue(queue).exists:
            return []
        session.start()
        consumer = session.create_consumer(queue, browse_only=True)
        found: list[bytes] = []
        while received := consumer.receive_encoded():
            found += [bytes(CoreMessage.parse(raw).body).strip() for raw, _ in received]
        return found
