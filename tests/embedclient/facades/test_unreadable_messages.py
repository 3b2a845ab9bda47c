"""Messages that JMS has no class for, and bodies asked for as something that is no type: nothing is lost by them."""

from __future__ import annotations

from typing import Any

import pytest

from embedclient import AcknowledgeMode, Message
from embedclient.errors import MessageFormatException
from tests.embedclient.facades.conftest import Client, connected

NO_JMS_TYPE = 99


async def send_unreadable(client: Client, url: str) -> None:
    async with client.server_locator(url).create_session_factory() as factory, factory.create_session() as session:
        await session.create_queue("q")
        await session.create_producer("q").send(session.create_message(b"odd", type=NO_JMS_TYPE))


async def test_a_listener_hears_the_next_message_behind_one_that_cannot_be_read(
    client: Client, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[object] = []
    done = client.event()

    def listen(message: Message) -> None:
        heard.append(message.body)
        done.set()

    await send_unreadable(client, url)
    async with connected(client, url) as connection, connection.session() as session, connection.session() as other:
        await other.create_producer("q").send("next")
        consumer = await session.create_consumer("q")
        consumer.set_message_listener(listen)
        await done.wait()
        async with other.create_browser("DLQ") as browser:
            with pytest.raises(MessageFormatException, match="type 99"):
                await browser.next_message()
    assert heard == ["next"]
    assert "type 99" in caplog.text


@pytest.mark.parametrize(
    ("mode", "refusals"), [(AcknowledgeMode.AUTO, 10), (AcknowledgeMode.DUPS_OK, 10), (AcknowledgeMode.CLIENT, 1)]
)
async def test_a_message_that_cannot_be_read_comes_until_it_is_dead_or_acknowledged(
    client: Client, url: str, mode: AcknowledgeMode, refusals: int
) -> None:
    await send_unreadable(client, url)
    async with connected(client, url) as connection, connection.session(acknowledge_mode=mode) as session:
        await session.create_producer("q").send("next")
        consumer = await session.create_consumer("q")
        for _ in range(refusals):
            with pytest.raises(MessageFormatException, match="type 99"):
                await consumer.receive(timeout=60)
        message = await consumer.receive(timeout=60)
        assert message is not None and (message.body, message.delivery_count) == ("next", 1)


async def test_a_worker_that_goes_on_does_not_acknowledge_a_message_that_cannot_be_read(
    client: Client, url: str
) -> None:
    await send_unreadable(client, url)
    async with connected(client, url) as connection:
        await connection.send("q", "next")
        async with connection.consume("q") as messages:
            for _ in range(10):
                with pytest.raises(MessageFormatException, match="type 99"):
                    await messages.receive(timeout=60)
            message = await messages.receive(timeout=60)
            assert message is not None and message.body == "next"
            await message.acknowledge()
        async with connection.consume("DLQ") as messages:
            with pytest.raises(MessageFormatException, match="type 99"):
                await messages.receive(timeout=60)


@pytest.mark.parametrize("kind", [list[str], "str"])
async def test_a_body_asked_for_as_no_type_stays_in_the_queue(client: Client, url: str, kind: Any) -> None:
    async with connected(client, url) as connection, connection.session() as session:
        await session.create_producer("q").send("x")
        consumer = await session.create_consumer("q")
        with pytest.raises(TypeError, match="isinstance"):
            await consumer.receive_body(kind, timeout=60)
        with pytest.raises(TypeError, match="isinstance"):
            await consumer.receive_body_nowait(kind)
        assert await consumer.receive_body(str, timeout=60) == "x"


async def test_a_body_may_be_asked_for_as_one_of_several_types(client: Client, url: str) -> None:
    either: Any = int | bytes
    async with connected(client, url) as connection, connection.session() as session:
        await session.create_producer("q").send("x")
        consumer = await session.create_consumer("q")
        with pytest.raises(MessageFormatException, match=r"str, not int \| bytes"):
            await consumer.receive_body(either, timeout=60)
        either = str | bytes
        assert await consumer.receive_body(either, timeout=60) == "x"


async def test_recovering_again_and_again_makes_no_dead_letter_of_a_message_nobody_saw(
    client: Client, url: str
) -> None:
    async with (
        connected(client, url) as connection,
        connection.session(acknowledge_mode=AcknowledgeMode.CLIENT) as session,
    ):
        consumer = await session.create_consumer("q")
        producer = session.create_producer("q")
        await producer.send("seen")
        await producer.send("waiting")
        for count in range(1, 11):
            message = await consumer.receive(timeout=60)
            assert message is not None and (message.body, message.delivery_count) == ("seen", count)
            await session.recover()
        message = await consumer.receive(timeout=60)
        assert message is not None and (message.body, message.redelivered) == ("waiting", False)
