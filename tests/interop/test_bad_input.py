"""Wrong input that Artemis accepts in silence: both brokers do the same with it."""

from __future__ import annotations

from uuid import uuid4

import pytest
import trio

from embedbroker import EmbeddedBroker
from embedclient import RoutingType, ServerLocator
from embedclient.model import PropertyType
from tests.interop.artemis import ArtemisBroker

pytestmark = [pytest.mark.interop, pytest.mark.timeout(90)]


async def arrives(url: str, value: object, kind: PropertyType) -> bool:
    """Return True if a message with this schedule is delivered in front of one without, which is sent after it."""
    queue = f"schedule-{uuid4().hex[:8]}"
    async with (
        ServerLocator(url).create_session_factory() as factory,
        factory.create_session(username="admin", password="admin") as session,
    ):
        await session.create_queue(queue, queue, routing_type=RoutingType.ANYCAST)
        producer = session.create_producer(queue)
        message = session.create_message(b"scheduled", durable=True)
        message.properties.set("_AMQ_SCHED_DELIVERY", value, kind)  # type: ignore[arg-type]  # values of property types
        await producer.send(message)
        await producer.send(session.create_message(b"plain", durable=True))
        await session.start()
        consumer = await session.create_consumer(queue)
        with trio.fail_after(20):
            first = await consumer.receive()
        assert first is not None
        return bytes(first.body) == b"scheduled"


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        ("soon", PropertyType.STRING, True),
        (True, PropertyType.BOOLEAN, True),
        (-5, PropertyType.LONG, True),
        (float("nan"), PropertyType.DOUBLE, True),
        (1e30, PropertyType.DOUBLE, False),
    ],
)
async def test_an_invalid_schedule_has_the_same_effect(
    value: object, kind: PropertyType, expected: bool, artemis: ArtemisBroker
) -> None:
    async with EmbeddedBroker() as broker:
        found = [await arrives(url, value, kind) for url in (broker.url, artemis.url)]
    assert found == [expected, expected]
