"""Where copies of poison arrive, whatever the original was sent to: without a Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from embedbroker import AddressSettings, BrokerConfig, EmbeddedBroker, ThreadedBroker
from embedbroker.pipeline._dead_letters import DeadLetters
from embedbroker.pipeline._frames import pack_block
from embedbroker.pipeline._options import SourceOptions
from embedbroker.pipeline._rows import Poison
from embedclient.blocking import ServerLocator
from embedclient.errors import InvalidDestinationException
from embedclient.model import Properties, PropertyType, RoutingType
from embedclient.wire.core import CoreMessage, MessageType
from tests.pipeline.queues import left_in


def send(broker: ThreadedBroker, routing: RoutingType | None, address: str, *, times: int = 1) -> None:
    """A copy of a poison message goes to the dead letter address, as often as tasks find it."""
    properties = Properties()
    if routing is not None:
        properties.set("_AMQ_ROUTING_TYPE", int(routing), PropertyType.BYTE)
    message = CoreMessage.build(type=MessageType.BYTES, address="orders", body=b"poison", properties=properties)
    block = pack_block([(7, 1, message)])
    values = {"format": "text", "onParseError": "dead-letter", "deadLetterAddress": address}
    options = SourceOptions.parse({"url": broker.url, "queue": "orders", **values})
    for _ in range(times):
        with DeadLetters(options) as letters:
            letters.send("orders", block, [Poison(block.places()[0], "it is poison")])


@pytest.mark.parametrize("address", ["DLQ", "made.for.it"])
@pytest.mark.parametrize("routing", [None, RoutingType.ANYCAST, RoutingType.MULTICAST])
def test_a_copy_arrives_once_whatever_the_original_was_sent_to(
    broker: ThreadedBroker, routing: RoutingType | None, address: str
) -> None:
    send(broker, routing, address, times=2)
    assert left_in(broker.url, address) == [b"poison"]


def test_a_copy_goes_to_what_is_bound_to_the_address(broker: ThreadedBroker) -> None:
    with ServerLocator(broker.url).create_session_factory() as factory, factory.create_session() as session:
        session.create_queue("letters", "letters.of.orders")
        session.create_queue("news.of.letters", "reader", RoutingType.MULTICAST)
    send(broker, RoutingType.MULTICAST, "letters")
    send(broker, RoutingType.ANYCAST, "news.of.letters")
    assert left_in(broker.url, "letters.of.orders") == left_in(broker.url, "reader") == [b"poison"]
    assert left_in(broker.url, "letters") == left_in(broker.url, "news.of.letters") == []


def test_malformed_properties_are_bytes_in_the_copy(broker: ThreadedBroker) -> None:
    whole = CoreMessage.build(
        type=MessageType.BYTES, address="orders", body=b"poison", properties=Properties({"abc": 1}), durable=True
    )
    raw = bytearray(whole.raw)
    raw[whole.properties_at + 5 + 3] -= 1
    block = pack_block([(7, 1, CoreMessage.parse(raw))])
    options = SourceOptions.parse({"url": broker.url, "queue": "orders", "onParseError": "dead-letter"})
    with DeadLetters(options) as letters:
        letters.send("orders", block, [Poison(block.places()[0], "malformed properties")])
    with ServerLocator(broker.url).create_session_factory() as factory, factory.create_session() as session:
        session.start()
        ((found, _),) = session.create_consumer("DLQ").receive_encoded()
    copy = CoreMessage.parse(found)
    assert (copy.type, bytes(copy.body), copy.durable) == (MessageType.BYTES, b"poison", True)
    assert copy.properties["embedbroker_properties"] == bytes(raw[whole.properties_at :])
    assert copy.properties["_AMQ_ORIG_QUEUE"] == "orders"


def test_an_address_where_nothing_is_made_by_itself_is_an_error(tmp_path: Path) -> None:
    settings = {"#": AddressSettings(auto_create_addresses=False, auto_create_queues=False)}
    config = BrokerConfig(data_directory=str(tmp_path), address_settings=settings)
    with EmbeddedBroker.in_thread(config) as broker, pytest.raises(InvalidDestinationException, match="letters"):
        send(broker, None, "letters")
