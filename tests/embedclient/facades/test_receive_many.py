"""Messages that stay encoded, received many at a time, through every facade."""

from __future__ import annotations

from embedclient.wire.core import CoreMessage
from tests.embedclient.facades.conftest import Client


def bodies(received: list[tuple[bytearray, int]]) -> list[tuple[bytes, int]]:
    return [(bytes(CoreMessage.parse(raw).body), count) for raw, count in received]


async def test_many_messages_are_received_in_order_and_acknowledged_together(client: Client, url: str) -> None:
    async with client.server_locator(url).create_session_factory() as factory, factory.create_session() as session:
        await session.create_queue("q")
        messages = [CoreMessage.build(address="q", body=str(number).encode()).raw for number in range(1_000)]
        assert await session.create_producer("q").send_encoded(messages, confirmed=True) == []
        await session.start()
        async with session.create_consumer("q") as consumer:
            found = await consumer.receive_encoded(10)
            while len(found) < 600:
                found += await consumer.receive_encoded(600 - len(found))
            assert bodies(found) == [(str(number).encode(), 1) for number in range(600)]
            await consumer.acknowledge_received()
        assert (await session.query_queue("q")).message_count == 400


async def test_bytes_end_a_call_and_one_message_counts_whatever_its_size(client: Client, url: str) -> None:
    async with client.server_locator(url).create_session_factory() as factory, factory.create_session() as session:
        await session.create_queue("q")
        messages = [CoreMessage.build(address="q", body=bytes(2_000)).raw for _ in range(3)]
        await session.create_producer("q").send_encoded(messages, confirmed=True)
        await session.start()
        async with session.create_consumer("q", browse_only=True) as browser:
            assert [len(await browser.receive_encoded(bytes_max=1)) for _ in range(4)] == [1, 1, 1, 0]


async def test_an_empty_queue_gives_nothing_and_nothing_is_acknowledged(client: Client, url: str) -> None:
    async with client.server_locator(url).create_session_factory() as factory, factory.create_session() as session:
        await session.create_queue("q")
        await session.start()
        async with session.create_consumer("q") as consumer:
            assert await consumer.receive_encoded() == []
            assert await consumer.receive_encoded(timeout=0.01) == []
            await consumer.acknowledge_received()
