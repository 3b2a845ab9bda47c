"""A broker and its backup, through every facade: what a program sees when the one takes over from the other."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from embedbroker import BrokerConfig, EmbeddedBroker, Role, SharedStoreBackup, SharedStorePrimary, ThreadedBroker
from embedclient import ConnectionFailed, FailoverEventType, Notification, Queue, TextMessage, Topic
from embedclient.errors import (
    ConnectionFailedException,
    ConnectionLostException,
    InvalidDestinationException,
    JMSException,
    TransactionRolledBackException,
    UnblockedException,
)
from tests.embedclient.facades.conftest import Client, connected

PATIENCE_S = 60.0


class Pair:
    """Two brokers on one directory."""

    def __init__(self, primary: ThreadedBroker, backup: ThreadedBroker, backup_port: int) -> None:
        self.primary = primary
        self.backup = backup
        self.url = f"({primary.url},tcp://127.0.0.1:{backup_port})"

    def fail_over(self) -> None:
        self.primary.crash()
        assert self.backup.wait_for_role(Role.LIVE, timeout=PATIENCE_S)

    def fail_back(self) -> None:
        self.primary.start()
        assert self.backup.wait_for_role(Role.BACKUP, timeout=PATIENCE_S)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        port, backup_port = one.getsockname()[1], other.getsockname()[1]
    config = partial(BrokerConfig, data_directory=str(tmp_path))
    with (
        EmbeddedBroker.in_thread(config(name="p", port=port, ha_policy=SharedStorePrimary())) as primary,
        EmbeddedBroker.in_thread(config(name="b", port=backup_port, ha_policy=SharedStoreBackup())) as backup,
    ):
        yield Pair(primary, backup, backup_port)


async def test_a_session_factory_reports_each_step_of_a_failover(client: Client, pair: Pair) -> None:
    heard: list[str] = []
    moved = [client.event(), client.event()]

    def listen(notification: Notification) -> None:
        heard.append(type(notification).__name__)
        if isinstance(notification, ConnectionFailed):
            moved[heard.count("ConnectionFailed") - 1].set()
        raise ZeroDivisionError  # which changes nothing

    url = f"{pair.url}?ha=true&reconnectAttempts=-1&retryInterval=20"
    async with client.server_locator(url).create_session_factory() as factory:
        factory.on_notification(listen)
        async with factory.create_session():
            for turn, change in enumerate((pair.fail_over, pair.fail_back)):
                await client.aside(change)
                await moved[turn].wait()
            factory.on_notification(None)
    assert heard == ["FailureDetected", "FailoverCompleted", "ConnectionFailed"] * 2


async def test_sessions_go_on_at_the_backup_and_come_back(client: Client, pair: Pair) -> None:
    told: list[object] = []
    moved = [client.event(), client.event()]

    def on_exception(error: JMSException) -> None:
        assert isinstance(error, ConnectionFailedException)
        told.append(error.jms_error_code)
        moved[told.count("FAILOVER") - 1].set()

    async with (
        connected(client, f"{pair.url}?ha=true&reconnectAttempts=-1&retryInterval=20") as connection,
        connection.session() as session,
        connection.session(transacted=True) as transacted,
    ):
        connection.exception_listener = on_exception
        connection.add_failover_listener(told.append)
        producer = session.create_producer(Queue("q"))
        consumer = await session.create_consumer(Queue("q"))
        temporary = await session.create_temporary_queue()
        replies = await session.create_consumer(temporary)
        subscriber = await session.create_consumer(Topic("t"))
        work = transacted.create_producer(Queue("work"))
        worked = await session.create_consumer(Queue("work"))

        for turn, change in enumerate((pair.fail_over, pair.fail_back)):
            await work.send("lost")
            await client.aside(change)
            await moved[turn].wait()
            for sender, text, receiver in (
                (producer, "order", consumer),
                (session.create_producer(temporary), "reply", replies),
                (session.create_producer(Topic("t")), "news", subscriber),
            ):
                await sender.send(text)
                message = await receiver.receive(timeout=PATIENCE_S)
                assert message is not None and message.body == text
            with pytest.raises(TransactionRolledBackException) as caught:
                await transacted.commit()
            assert type(caught.value) is TransactionRolledBackException
            await work.send("kept")
            await transacted.commit()
            message = await worked.receive(timeout=PATIENCE_S)
            assert message is not None and message.body == "kept"
            assert await worked.receive_nowait() is None
        await replies.close()
        async with session.create_consumer(temporary) as replies:
            await session.create_producer(temporary).send("late")
            message = await replies.receive(timeout=PATIENCE_S)
            assert message is not None and message.body == "late"
    detected, completed, _ = FailoverEventType
    assert told == [detected, completed, "FAILOVER"] * 2


async def test_temporary_destinations_behind_a_failover(client: Client, pair: Pair) -> None:
    """Those of a connection are there again when it needs them; what others send to gone ones creates nothing."""
    url = f"{pair.url}?ha=true&reconnectAttempts=-1&retryInterval=20"
    async with connected(client, url) as connection, connection.session() as session:
        async with connected(client, url) as requester, requester.session() as asking:
            gone = await asking.create_temporary_queue()
            late = session.create_producer(gone)
            await late.send("in time")
        own, news = await session.create_temporary_queue(), await session.create_temporary_topic()
        await client.aside(pair.fail_over)
        with pytest.raises(InvalidDestinationException, match="temporary destination"):
            while True:
                try:
                    await late.send("too late")
                except UnblockedException:
                    continue
        for destination in (own, news):
            consumer = await session.create_consumer(destination)
            await session.create_producer(destination).send("here")
            message = await consumer.receive(timeout=PATIENCE_S)
            assert message is not None and message.body == "here"
            await consumer.close()
            await session.delete_temporary(destination)
    async with client.server_locator(url).create_session_factory() as factory, factory.create_session() as core:
        for destination in (gone, own, news):
            assert not (await core.query_queue(destination.name)).exists


async def test_a_send_that_is_repeated_with_its_id_arrives_once(client: Client, pair: Pair) -> None:
    count = 60
    async with (
        connected(client, f"{pair.url}?ha=true&reconnectAttempts=-1&retryInterval=20") as connection,
        connection.session() as session,
    ):
        sent = client.event()

        async def send() -> None:
            producer = session.create_producer(Queue("q"))
            for number in range(count):
                while True:
                    try:
                        await producer.send(TextMessage(str(number), properties={"_AMQ_DUPL_ID": str(number)}))
                    except UnblockedException:
                        continue
                    break
                if number == count // 2:
                    sent.set()

        async def fail() -> None:
            await sent.wait()
            await client.aside(pair.fail_over)

        await client.together(send, fail)
        consumer = await session.create_consumer(Queue("q"))
        received = [await consumer.receive(timeout=PATIENCE_S) for _ in range(count)]
        assert [message and message.body for message in received] == [str(number) for number in range(count)]
        assert await consumer.receive_nowait() is None


async def test_a_program_may_fail_over_by_itself(client: Client, pair: Pair) -> None:
    """Without reconnection: the exception listener gets the loss of the connection, and a new one is opened."""
    factory = client.connection_factory(f"{pair.url}?ha=true&initialConnectAttempts=-1&retryInterval=20")
    gone = client.event()

    def on_exception(error: JMSException) -> None:
        assert isinstance(error, ConnectionFailedException)
        assert (error.failed_over, error.jms_error_code) == (False, "DISCONNECT")
        gone.set()

    async with factory.connect() as connection, connection.session() as session:
        connection.exception_listener = on_exception
        producer = session.create_producer(Queue("q"))
        await producer.send("before")
        await client.aside(pair.primary.crash)
        await gone.wait()
        with pytest.raises(ConnectionLostException):
            await producer.send("lost")
    async with factory.connect() as connection, connection.session() as session:
        await session.create_producer(Queue("q")).send("after")
        consumer = await session.create_consumer(Queue("q"))
        received = [await consumer.receive(timeout=PATIENCE_S) for _ in range(2)]
        assert [message and message.body for message in received] == ["before", "after"]
