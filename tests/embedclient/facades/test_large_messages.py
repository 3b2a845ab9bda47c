"""Large messages through the facades: bodies that are read while they are sent, and saved while they arrive."""

from __future__ import annotations

import io
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import cast

import pytest

from embedclient import BytesMessage, ClientMessage, MapMessage, ObjectMessage, Queue, Readable, TextMessage, errors
from embedclient.errors import BodyTooLargeException, IllegalStateException, JMSException, MessageFormatException
from embedclient.model import JMSMessage
from tests.embedclient.facades.conftest import Client, connected

MIB = 1 << 20
BODY = bytes(range(256)) * 4096 * 3
STREAMED = "maxLargeMessageBodySize=0"
QUEUE = Queue("large")


async def pieces(body: bytes) -> AsyncIterator[bytes]:
    for at in range(0, len(body), 50_000):
        yield body[at : at + 50_000]


@pytest.mark.parametrize("settings", ["", STREAMED, f"{STREAMED}&consumerWindowSize=0"])
async def test_a_file_is_sent_and_saved(client: Client, url: str, tmp_path: Path, settings: str) -> None:
    sent, saved = tmp_path / "sent", tmp_path / "saved"
    sent.write_bytes(BODY)
    done: list[tuple[int, int | None]] = []
    async with (
        connected(client, f"{url}?{settings}") as connection,
        connection.session() as session,
        session.create_consumer(QUEUE) as consumer,
    ):
        producer = session.create_producer(QUEUE)
        with sent.open("rb") as file:
            await producer.send(
                BytesMessage(file, properties={"n": 1}), progress=lambda *progress: done.append(progress)
            )
        assert done[-1] == (len(BODY), len(BODY))
        message = await consumer.receive(5)
        assert message is not None
        done.clear()
        await message.save_to(saved, progress=lambda *progress: done.append(progress))
        assert saved.read_bytes() == BODY
        assert done[-1] == (len(BODY), len(BODY))
        assert sorted(os.listdir(tmp_path)) == ["saved", "sent"]
        assert message.properties["n"] == 1
        assert await consumer.receive_nowait() is None


@pytest.mark.parametrize("settings", ["", STREAMED])
async def test_bodies_of_every_kind_are_read_in_pieces(client: Client, url: str, settings: str) -> None:
    text = "grüße 😀" * 50_000
    async with (
        connected(client, f"{url}?{settings}") as connection,
        connection.session() as session,
        session.create_consumer(QUEUE) as consumer,
    ):
        producer = session.create_producer(QUEUE)
        for sent in (BODY, text, ObjectMessage(BODY), BODY[:10], "short"):
            await producer.send(sent)
        for content in (BODY, text.encode(), BODY, BODY[:10], b"short"):
            message = await consumer.receive(5)
            assert message is not None
            assert b"".join([piece async for piece in message.chunks()]) == content


async def test_a_body_above_the_limit_names_the_setting_and_stays_readable(client: Client, url: str) -> None:
    async with (
        connected(client, f"{url}?maxLargeMessageBodySize=1048576") as connection,
        connection.session() as session,
        session.create_consumer(QUEUE) as consumer,
    ):
        producer = session.create_producer(QUEUE)
        await producer.send(BODY[:MIB])
        await producer.send(BODY[: MIB + 1])
        first = await consumer.receive(5)
        second = await consumer.receive(5)
        assert first is not None and second is not None
        assert first.body == BODY[:MIB]
        with pytest.raises(BodyTooLargeException, match=r"1,048,577 bytes is above maxLargeMessageBodySize=1048576"):
            _ = second.body
        target = io.BytesIO()
        await second.save_to(target)
        assert target.getvalue() == BODY[: MIB + 1]
        with pytest.raises(IllegalStateException, match="read once"):
            await second.save_to(target)
        await producer.send(BODY)
        with pytest.raises(BodyTooLargeException):
            await consumer.receive_body(bytes, 5)
        again = await consumer.receive(5)
        assert again is not None
        assert b"".join([piece async for piece in again.chunks()]) == BODY


@pytest.mark.parametrize("settings", [STREAMED, f"{STREAMED}&consumerWindowSize=0"])
async def test_a_body_that_was_not_read_is_dropped_by_the_next_receive(client: Client, url: str, settings: str) -> None:
    async with (
        connected(client, f"{url}?{settings}") as connection,
        connection.session() as session,
        session.create_consumer(QUEUE) as consumer,
    ):
        producer = session.create_producer(QUEUE)
        await producer.send(BODY)
        await producer.send("small")
        large = await consumer.receive(5)
        small = await consumer.receive(5)
        assert large is not None and small is not None
        assert small.body == "small"
        with pytest.raises(JMSException, match="dropped"):
            _ = [piece async for piece in large.chunks()]
    async with connected(client, url) as connection, connection.session() as session:
        # Both count as received.
        assert await (await session.create_consumer(QUEUE)).receive_nowait() is None


async def test_a_consumer_that_closes_in_the_middle_returns_the_message(client: Client, url: str) -> None:
    async with connected(client, f"{url}?{STREAMED}") as connection, connection.session() as session:
        await session.create_producer(QUEUE).send(BODY)
        async with session.create_consumer(QUEUE) as consumer:
            message = await consumer.receive(5)
            assert message is not None
        with pytest.raises(JMSException):
            await message.save_to(io.BytesIO())
        async with session.create_consumer(QUEUE) as consumer:
            again = await consumer.receive(5)
            assert again is not None
            await again.save_to(io.BytesIO())
            assert await consumer.receive_nowait() is None


async def test_a_file_that_cannot_be_written_leaves_the_message_with_the_broker(
    client: Client, url: str, tmp_path: Path
) -> None:
    async with connected(client, f"{url}?{STREAMED}") as connection, connection.session() as session:
        await session.create_producer(QUEUE).send(BODY)
        async with session.create_consumer(QUEUE) as consumer:
            message = await consumer.receive(5)
            assert message is not None
            with pytest.raises(OSError):
                await message.save_to(tmp_path / "missing" / "file")
        async with session.create_consumer(QUEUE) as consumer:
            assert await consumer.receive(5) is not None


async def test_a_readable_that_fails_sends_nothing(client: Client, url: str) -> None:
    def failing() -> Iterator[bytes]:
        yield BODY
        raise OSError("the disk is gone")

    async with (
        connected(client, url) as connection,
        connection.session() as session,
        session.create_consumer(QUEUE) as consumer,
    ):
        producer = session.create_producer(QUEUE)
        with pytest.raises(OSError, match="the disk is gone"):
            await producer.send(failing())
        with pytest.raises(MessageFormatException, match="not as str"):
            await producer.send(cast("Readable", io.StringIO("text")))
        await producer.send("small")
        got = await consumer.receive(5)
        assert got is not None
        assert got.body == "small"


async def test_compressed_bodies(client: Client, url: str) -> None:
    async with (
        connected(client, f"{url}?compressLargeMessages=true&{STREAMED}") as connection,
        connection.session() as session,
        session.create_consumer(QUEUE) as consumer,
    ):
        producer = session.create_producer(QUEUE)
        sent: list[bytes | JMSMessage] = [BODY, BytesMessage(io.BytesIO(BODY)), BytesMessage(io.BytesIO(b"short"))]
        for body in sent:
            await producer.send(body)
        for content in (BODY, BODY, b"short"):
            message = await consumer.receive(5)
            assert message is not None
            assert b"".join([piece async for piece in message.chunks()]) == content


async def test_send_nowait_takes_bodies_in_memory_only(client: Client, url: str) -> None:
    async with (
        connected(client, f"{url}?confirmationWindowSize=1048576") as connection,
        connection.session() as session,
    ):
        producer = session.create_producer(QUEUE)
        with pytest.raises(IllegalStateException, match=r"send\(\)"):
            producer.send_nowait(io.BytesIO(BODY))
        await producer.send_nowait(BODY)
        async with session.create_consumer(QUEUE) as consumer:
            message = await consumer.receive(5)
            assert message is not None
            assert message.body == BODY


async def test_the_core_layer_sends_and_saves(client: Client, url: str, tmp_path: Path) -> None:
    done: list[tuple[int, int | None]] = []
    async with client.server_locator(f"{url}?{STREAMED}").create_session_factory() as factory:
        session = await factory.create_session()
        await session.start()
        await session.create_queue("large")
        producer = session.create_producer("large")
        for body in (BODY, io.BytesIO(BODY), b"short"):
            await producer.send(ClientMessage(body), progress=lambda *progress: done.append(progress))
            assert done[-1][0] == done[-1][1]
        consumer = await session.create_consumer("large")
        for content in (BODY, BODY, b"short"):
            message = await consumer.receive(5)
            assert message is not None
            await message.save_to(tmp_path / "file")
            assert (tmp_path / "file").read_bytes() == content
        await consumer.acknowledge_received()
        await producer.send(ClientMessage(BODY))
        with pytest.raises(BodyTooLargeException, match="maxLargeMessageBodySize"):
            await consumer.receive_encoded()


async def test_small_messages_are_saved_too(client: Client, url: str, tmp_path: Path) -> None:
    async with (
        connected(client, url) as connection,
        connection.session() as session,
        session.create_consumer(QUEUE) as consumer,
    ):
        producer = session.create_producer(QUEUE)
        await producer.send("ü")
        message = await consumer.receive(5)
        assert message is not None
        await message.save_to(tmp_path / "file")
        assert (tmp_path / "file").read_bytes() == "ü".encode()


def test_a_readable_body_has_no_value_before_it_is_sent() -> None:
    message = BytesMessage(io.BytesIO(BODY))
    with pytest.raises(IllegalStateException, match=r"while send\(\) sends it"):
        _ = message.body
    message.clear_body()
    message.write_bytes(b"x")
    assert message.body == b"x"
    assert TextMessage("ü").chunks().__next__() == "ü".encode()
    with pytest.raises(MessageFormatException, match="read its entries"):
        MapMessage({"n": 1}).chunks()
    assert errors.BodyTooLargeException("x").error_code == 999
