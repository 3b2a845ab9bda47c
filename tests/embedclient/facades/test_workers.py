"""`Connection.consume` and `Message.processing`: a worker loop with redelivery and dead letters, on every facade."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from embedbroker import AddressSettings
from embedclient import TextMessage
from embedclient.errors import IllegalStateException

from .conftest import Client, connected


@asynccontextmanager
async def processed(client: Client, message: Any) -> Any:
    """Enter the block of a message, in the way of the facade."""
    if client.name != "blocking":
        async with message.processing():
            yield
    else:
        with message.processing():
            yield


async def test_failed_messages_are_tried_again_and_become_dead_letters(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR, "embedclient")
    settings = {"jobs": AddressSettings(max_delivery_attempts=2, dead_letter_address="DLQ")}
    handled: list[tuple[object, int]] = []
    async with client.broker(address_settings=settings) as broker, connected(client, broker.url) as connection:
        for job in ("wash", "broken", "dry"):
            await connection.send("jobs", job)
        async with connection.consume("jobs") as messages:
            async for message in messages:
                async with processed(client, message):
                    handled.append((message.body, message.delivery_count))
                    if message.body == "broken":
                        raise ValueError("cannot be done")
                if message.body == "dry":
                    break
        assert handled == [("wash", 1), ("broken", 1), ("broken", 2), ("dry", 1)]
        assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR"]
        async with connection.consume("DLQ") as letters:
            letter = await letters.receive(timeout=5)
            assert letter is not None and letter.body == "broken"
            # Without its block it is not settled, and returns with the end of the consumer.
        async with connection.consume("DLQ") as letters:
            letter = await letters.receive(timeout=5)
            assert letter is not None
            await letter.acknowledge()
        async with connection.consume("DLQ") as letters:
            assert await letters.receive_nowait() is None
        with pytest.raises(ZeroDivisionError):
            async with connection.consume("jobs"):
                raise ZeroDivisionError


async def test_only_messages_of_a_work_consumer_have_the_block(client: Client, url: str) -> None:
    with pytest.raises(IllegalStateException, match=r"only messages of connection\.consume"):
        TextMessage("a").processing()
    async with connected(client, url) as connection:
        await connection.send("q", "a")
        async with connection.consume("q") as messages:
            message = await messages.receive(timeout=5)
            assert message is not None
            block = message.processing()
            with pytest.raises(TypeError, match=r"message\.processing"):
                if client.name == "blocking":
                    async with block:
                        pass
                else:
                    with block:
                        pass


async def cut_short(client: Client, message: Any) -> None:
    """End the block of a message with a time-out, or Ctrl-C where the program has no cancellation."""
    if client.name == "trio":
        with trio.CancelScope() as scope:
            async with processed(client, message):
                scope.cancel()
                await trio.sleep_forever()
        assert scope.cancelled_caught
    elif client.name == "asyncio":
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.001), processed(client, message):
                await asyncio.Event().wait()
    else:
        with pytest.raises(KeyboardInterrupt):
            async with processed(client, message):
                raise KeyboardInterrupt


async def cancel_commit(client: Client, message: Any) -> None:
    """Cancel the end of a block whose body is done, before its commit is sent."""
    if client.name == "trio":
        with trio.CancelScope() as scope:
            async with processed(client, message):
                scope.cancel()
        assert scope.cancelled_caught
    elif client.name == "asyncio":
        task = asyncio.current_task()
        assert task is not None
        with pytest.raises(asyncio.CancelledError):
            async with processed(client, message):
                task.cancel()
        task.uncancel()
    else:
        await cut_short(client, message)


async def test_a_block_that_is_cut_short_returns_its_message_although_the_loop_goes_on(
    client: Client, url: str
) -> None:
    async with connected(client, url) as connection:
        for job in ("a", "b"):
            await connection.send("q", job)
        handled: list[tuple[object, int]] = []
        async with connection.consume("q") as messages:
            async for message in messages:
                handled.append((message.body, message.delivery_count))
                if handled == [("a", 1)]:
                    await cut_short(client, message)
                    continue
                if handled == [("a", 1), ("a", 2)]:
                    await cancel_commit(client, message)
                    continue
                async with processed(client, message):
                    pass
                if message.body == "b":
                    break
        assert handled == [("a", 1), ("a", 2), ("a", 3), ("b", 1)]


async def test_each_message_is_processed_before_the_next_one_is_received(client: Client, url: str) -> None:
    async with connected(client, url) as connection:
        for job in ("a", "b"):
            await connection.send("q", job)
        async with connection.consume("q") as messages:
            first = await messages.receive(timeout=5)
            assert first is not None
            for receive in (messages.receive, messages.receive_nowait):
                with pytest.raises(
                    IllegalStateException, match=r"is not processed: end its block 'message\.processing"
                ):
                    await receive()
            await first.acknowledge()
            second = await messages.receive(timeout=5)
            assert second is not None and second.body == "b"
            async with processed(client, first):
                pass  # acknowledged already: this must not acknowledge the second one
            with pytest.raises(IllegalStateException, match=r"has no receive_body\(\)"):
                await messages.receive_body(str)
            with pytest.raises(IllegalStateException, match=r"has no set_message_listener\(\)"):
                messages.set_message_listener(print)
        async with connection.consume("q") as messages:
            message = await messages.receive(timeout=5)
            assert message is not None and message.body == "b"
