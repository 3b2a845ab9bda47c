"""Messages that stay encoded, received many at a time, through every facade."""

from __future__ import annotations

from embedclient import ClientMessage
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


async def test_what_was_received_is_acknowledged_whatever_its_priority(client: Client, url: str) -> None:
    async with (
        client.server_locator(url).create_session_factory() as factory,
        factory.create_session(auto_commit_acks=False) as session,
    ):
        await session.create_queue("q")
        messages = [CoreMessage.build(address="q", body=str(n).encode(), priority=5).raw for n in range(20)]
        await session.create_producer("q").send_encoded(messages, confirmed=True)
        await session.start()
        async with session.create_consumer("q") as consumer:
            found = await consumer.receive_encoded(10)
            while len(found) < 10:
                found += await consumer.receive_encoded(10 - len(found))
            await consumer.acknowledge_received()
            await session.commit()
            assert (await session.query_queue("q")).message_count == 10
            last = None
            while (message := await consumer.receive_nowait()) is not None:
                last = message
            assert last is not None
            await last.acknowledge()
            await session.commit()
        assert (await session.query_queue("q")).message_count == 0


async def test_an_acknowledgement_covers_what_was_received_before_it_and_nothing_else(client: Client, url: str) -> None:
    """1 and 2 are received before a message of another priority comes; 8 and 6 overtake 3."""
    async with (
        client.server_locator(url).create_session_factory() as factory,
        factory.create_session(auto_commit_acks=False) as session,
    ):
        await session.create_queue("q")
        producer = session.create_producer("q")
        await session.start()
        async with session.create_consumer("q") as consumer:

            async def send(*priorities: tuple[str, int]) -> None:
                raws = [CoreMessage.build(address="q", body=text.encode(), priority=p).raw for text, p in priorities]
                await producer.send_encoded(raws, confirmed=True)

            async def receive(text: str) -> ClientMessage:
                message = await consumer.receive(timeout=60)
                assert message is not None and message.body == text.encode()
                return message

            await send(("1", 4), ("2", 4))
            await receive("1")
            await receive("2")
            await send(("3", 4), ("8", 8), ("6", 6))
            await session.query_queue("q")  # by now they are there
            await receive("8")
            sixth = await receive("6")
            await receive("3")
            await sixth.acknowledge()
            await session.commit()
            assert (await session.query_queue("q")).message_count == 1
        async with session.create_consumer("q") as consumer:
            await receive("3")


async def test_what_came_again_after_a_rollback_is_acknowledged_once(client: Client, url: str) -> None:
    async with (
        client.server_locator(url).create_session_factory() as factory,
        factory.create_session(auto_commit_acks=False) as session,
    ):
        await session.create_queue("q")
        messages = [CoreMessage.build(address="q", body=str(n).encode(), priority=9 - n).raw for n in range(3)]
        await session.create_producer("q").send_encoded(messages, confirmed=True)
        await session.start()
        async with session.create_consumer("q") as consumer:
            found: list[tuple[bytearray, int]] = []
            while len(found) < 3:
                found += await consumer.receive_encoded(3 - len(found))
            await session.rollback()
            first, second = [await consumer.receive(timeout=60) for _ in range(2)]
            assert first is not None and second is not None
            assert (first.body, second.body) == (b"0", b"1")
            await first.acknowledge_individually()
            await second.acknowledge()
            await session.commit()  # the broker refuses one with a second acknowledgement of the same message
            assert (await session.query_queue("q")).message_count == 1
