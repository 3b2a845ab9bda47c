"""`artemis transfer` with our broker as the source, as the target, and as both."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import uuid4

import pytest

from embedclient import BytesMessage, MapMessage, Message, Queue, StreamMessage, TextMessage, Topic
from embedclient.blocking import ConnectionFactory
from tests.interop.artemis import ArtemisBroker, command_line
from tests.interop.brokers import BrokerUnderTest

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120)]

LARGE = "x" * 300_000


@pytest.fixture(params=["ours to artemis", "artemis to ours", "ours to ours"])
def urls(request: pytest.FixtureRequest, broker: BrokerUnderTest, artemis: ArtemisBroker) -> tuple[str, str]:
    """The source and the target."""
    places = {"ours": broker.url, "artemis": artemis.url}
    source, target = request.param.split(" to ")
    return places[source], places[target]


@pytest.fixture
def queues() -> tuple[str, str]:
    """Names of the source and the target."""
    word = uuid4().hex[:8]
    return f"from-{word}", f"to-{word}"


def send(url: str, queue: str, messages: Sequence[Message]) -> None:
    with ConnectionFactory(url).connect() as connection, connection.session() as session:
        producer = session.create_producer(Queue(queue))
        for message in messages:
            producer.send(message)


def received(url: str, queue: str) -> list[Message]:
    found = []
    with (
        ConnectionFactory(url).connect() as connection,
        connection.session() as session,
        session.create_consumer(Queue(queue)) as consumer,
    ):
        while (message := consumer.receive_nowait()) is not None:
            found.append(message)
    return found


def bodies(url: str, queue: str) -> list[object]:
    return [message.body for message in received(url, queue)]


def transfer(urls: tuple[str, str], queues: tuple[str, str], *options: str | int) -> int:
    """Return the number of messages that the command reports."""
    places = ("--source-url", urls[0], "--target-url", urls[1], "--target-queue", queues[1])
    source = () if "--source-topic" in options else ("--source-queue", queues[0])
    lines = command_line("transfer", *places, *source, "--receive-timeout", 1000, *options)
    (total,) = (line for line in lines if line.startswith("Transferred a total of "))
    return int(total.split()[4])


def texts(count: int) -> list[Message]:
    return [TextMessage(str(number), properties={"number": number}) for number in range(count)]


def test_every_kind_of_message_arrives_as_it_was(urls: tuple[str, str], queues: tuple[str, str]) -> None:
    properties: dict[str, str | int | float] = {"region": "EU", "size": 3, "fresh": True, "price": 3.5}
    sent = [
        TextMessage("tea", properties=properties, correlation_id="c-1", type="order", reply_to=Queue("replies")),
        BytesMessage(b"\x00\xff"),
        MapMessage({"a": 1, "b": "two", "c": b"three"}),
        StreamMessage([1, "two", None]),
        TextMessage(LARGE, properties=properties),
    ]
    send(urls[0], queues[0], sent)
    assert transfer(urls, queues) == len(sent)
    assert received(urls[0], queues[0]) == []
    found = received(urls[1], queues[1])
    assert [type(message) for message in found] == [type(message) for message in sent]
    assert [message.body for message in found] == [message.body for message in sent]
    first = found[0]
    assert (first.correlation_id, first.type, first.reply_to) == ("c-1", "order", Queue("replies"))
    for message in (first, found[4]):
        assert {name: message.properties[name] for name in properties} == properties


def test_a_copy_leaves_the_messages_and_a_filter_chooses(urls: tuple[str, str], queues: tuple[str, str]) -> None:
    send(urls[0], queues[0], texts(10))
    assert transfer(urls, queues, "--copy", "--source-filter", "number >= 7") == 3
    assert bodies(urls[1], queues[1]) == ["7", "8", "9"]
    assert bodies(urls[0], queues[0]) == [str(number) for number in range(10)]


def test_so_many_messages_go_in_several_transactions(urls: tuple[str, str], queues: tuple[str, str]) -> None:
    send(urls[0], queues[0], texts(30))
    assert transfer(urls, queues, "--message-count", 25, "--commit-interval", 4) == 25
    assert bodies(urls[1], queues[1]) == [str(number) for number in range(25)]
    assert bodies(urls[0], queues[0]) == [str(number) for number in range(25, 30)]


def test_a_shared_durable_subscription_is_emptied(urls: tuple[str, str], queues: tuple[str, str]) -> None:
    # The name of a subscription is that of its queue.
    topic, name = Topic(queues[0]), f"sub-{queues[0]}"
    with ConnectionFactory(urls[0]).connect() as connection, connection.session() as session:
        session.create_shared_durable_consumer(topic, name).close()
        producer = session.create_producer(topic)
        for message in texts(5):
            producer.send(message)
    options = ("--source-topic", queues[0], "--shared-durable-subscription", name)
    assert transfer(urls, queues, *options) == 5
    assert bodies(urls[1], queues[1]) == ["0", "1", "2", "3", "4"]
