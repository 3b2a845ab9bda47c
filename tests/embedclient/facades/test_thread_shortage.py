"""A system that starts no thread: an error that names what to do, nothing half done, and listeners that wait."""

from __future__ import annotations

import io
import logging
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import trio

from embedbroker import EmbeddedBroker
from embedclient import BytesMessage, Message, Queue
from embedclient.blocking import ConnectionFactory
from embedclient.errors import JMSException, ResourceAllocationException
from tests.embedclient.facades.conftest import Client, connected

BODY = bytes(range(256)) * 4096 * 3
QUEUE = Queue("large")
REFUSED = "can't start new thread"


class Shortage:
    """Refuses threads to the client: `left` times, behind the first `behind` ones. The broker gets its threads."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left = self.behind = 0
        run_sync, adjust = trio.to_thread.run_sync, ThreadPoolExecutor._adjust_thread_count

        async def run_in_trio(work: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
            if work.__qualname__.startswith("run_in_thread.") or work.__name__ == "getaddrinfo":
                self.count()
            return await run_sync(work, *arguments, **options)

        def start_in_executor(executor: ThreadPoolExecutor) -> None:
            # As in the executor, the work is in its queue by now.
            self.count()
            adjust(executor)

        monkeypatch.setattr(trio.to_thread, "run_sync", run_in_trio)
        monkeypatch.setattr(ThreadPoolExecutor, "_adjust_thread_count", start_in_executor)

    def count(self) -> None:
        if self.behind:
            self.behind -= 1
        elif self.left:
            self.left -= 1
            raise RuntimeError(REFUSED)


@pytest.fixture
def shortage(monkeypatch: pytest.MonkeyPatch) -> Shortage:
    return Shortage(monkeypatch)


@pytest.mark.parametrize("behind", [0, 1, 4])
async def test_a_body_that_no_thread_reads_is_not_sent(
    client: Client, url: str, tmp_path: Path, shortage: Shortage, behind: int
) -> None:
    path = tmp_path / "sent"
    path.write_bytes(BODY)
    async with (
        connected(client, url) as connection,
        connection.session() as session,
        session.create_consumer(QUEUE) as consumer,
    ):
        producer = session.create_producer(QUEUE)
        with path.open("rb") as file:
            shortage.behind, shortage.left = behind, 1
            with pytest.raises(ResourceAllocationException, match=r"a file needs a thread.*ulimit -u"):
                await producer.send(BytesMessage(file))
            assert shortage.left == 0
            file.seek(0)
            await producer.send(BytesMessage(file))
        message = await consumer.receive(5)
        assert message is not None
        assert b"".join([piece async for piece in message.chunks()]) == BODY
        assert await consumer.receive_nowait() is None


async def test_work_without_a_thread_is_not_done_later(client: Client, url: str, shortage: Shortage) -> None:
    calls: list[str] = []

    class Watched:
        def __init__(self, name: str) -> None:
            self.name, self.file = name, io.BytesIO(BODY)

        def read(self, size: int) -> bytes:
            calls.append(self.name)
            return self.file.read(size)

    async with connected(client, url) as connection, connection.session() as session:
        producer = session.create_producer(QUEUE)
        shortage.left = 1
        with pytest.raises(ResourceAllocationException):
            await producer.send(BytesMessage(Watched("refused")))
        await producer.send(BytesMessage(Watched("sent")))
    assert set(calls) == {"sent"}


async def test_a_body_that_no_thread_writes_leaves_no_part_of_a_file(
    client: Client, url: str, tmp_path: Path, shortage: Shortage
) -> None:
    async with (
        connected(client, url) as connection,
        connection.session() as session,
        session.create_consumer(QUEUE) as consumer,
    ):
        producer = session.create_producer(QUEUE)
        await producer.send(BODY)
        message = await consumer.receive(5)
        assert message is not None
        shortage.left = 1
        with pytest.raises(ResourceAllocationException, match="a file needs a thread"):
            await message.save_to(tmp_path / "saved")
        assert os.listdir(tmp_path) == []
        await producer.send("next")
        following = await consumer.receive(5)
        assert following is not None


async def test_a_name_that_no_thread_looks_up_refuses_the_connection(
    client: Client, url: str, shortage: Shortage
) -> None:
    named = url.replace("127.0.0.1", "localhost")
    assert named != url
    shortage.left = 1
    with pytest.raises(JMSException, match=r"looking up the name 'localhost' needs a thread.*ulimit -u"):
        async with connected(client, named):
            pass
    assert shortage.left == 0
    async with connected(client, named) as connection, connection.session() as session:
        await session.create_producer(QUEUE).send("x")


def refuse(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Start no thread of this name."""
    start = threading.Thread.start

    def start_others(thread: threading.Thread) -> None:
        if thread.name.startswith(name):
            raise RuntimeError(REFUSED)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_others)


def test_a_connection_without_a_thread_is_refused(url: str) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        refuse(monkeypatch, "embedclient")
        with pytest.raises(ResourceAllocationException, match="a connection of a blocking program needs a thread"):
            ConnectionFactory(url).connect()
    assert [thread for thread in threading.enumerate() if thread.name == "embedclient"] == []
    with ConnectionFactory(url).connect():
        pass


def test_a_broker_without_a_thread_can_be_started_later() -> None:
    broker = EmbeddedBroker.in_thread(name="late")
    with pytest.MonkeyPatch.context() as monkeypatch:
        refuse(monkeypatch, "embedbroker late")
        with pytest.raises(ResourceAllocationException, match="a broker in a thread needs a thread"):
            broker.__enter__()
    with broker:
        assert broker.is_running


def test_a_listener_waits_for_a_thread(url: str, shortage: Shortage, caplog: pytest.LogCaptureFixture) -> None:
    came: list[tuple[object, bool, int]] = []
    done = threading.Event()
    with ConnectionFactory(url).connect() as connection, connection.session() as session:

        def listen(message: Message) -> None:
            came.append((message.body, message.redelivered, message.delivery_count))
            done.set()

        shortage.left = 3
        with caplog.at_level(logging.WARNING, "embedclient"):
            session.create_consumer("q").set_message_listener(listen)
            with connection.session() as other:
                other.create_producer("q").send("x")
            assert done.wait(60)
    assert came == [("x", False, 1)]
    lines = [record.message for record in caplog.records if "listener" in record.message]
    assert len(lines) == 1 and lines[0].startswith("a listener waits until it can be called: a listener needs a thread")


def test_a_listener_that_starts_no_thread_has_failed(url: str) -> None:
    came: list[bool] = []
    done = threading.Event()
    with ConnectionFactory(url).connect() as connection, connection.session() as session:

        def listen(message: Message) -> None:
            came.append(message.redelivered)
            if len(came) == 1:
                raise RuntimeError(REFUSED)
            done.set()

        session.create_consumer("q").set_message_listener(listen)
        with connection.session() as other:
            other.create_producer("q").send("x")
        assert done.wait(60)
    assert came == [False, True]
