"""Journals that real brokers wrote, for the jobs that read them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from embedbroker import BrokerConfig, EmbeddedBroker, ThreadedBroker
from embedclient import TextMessage
from embedclient.blocking import Connection, ConnectionFactory, MessageConsumer, XAConnectionFactory
from embedclient.model import Xid

BRANCH = Xid(7, b"orders", b"1")


@contextmanager
def running(directory: Path, *, segment_size_bytes: int = 64 * 1024) -> Iterator[tuple[ThreadedBroker, Connection]]:
    """A broker with small segments, and a connection of which everything is confirmed."""
    config = BrokerConfig(data_directory=str(directory), segment_size_bytes=segment_size_bytes)
    with (
        EmbeddedBroker.in_thread(config) as broker,
        ConnectionFactory(f"{broker.url}?blockOnAcknowledge=true").connect() as connection,
    ):
        yield broker, connection


def send(
    connection: Connection, queue: str, count: int, *, producer: str = "a", first: int = 0, size: int = 300
) -> None:
    """Durable messages with a producer's name and number."""
    with connection.session() as session, session.create_producer(queue) as target:
        for number in range(first, first + count):
            message = TextMessage("x" * size, properties={"producer": producer, "number": number})
            target.send(message)


def take(connection: Connection, queue: str, count: int) -> None:
    """Receive and acknowledge."""
    with connection.session() as session, session.create_consumer(queue) as consumer:
        for _ in range(count):
            assert received(consumer) is not None


def received(consumer: MessageConsumer) -> object:
    return consumer.receive(timeout=10)


def transaction(connection: Connection, queue: str, sent: int, taken: int, *, commit: bool) -> None:
    """Send and acknowledge in one transaction."""
    with (
        connection.session(transacted=True) as session,
        session.create_producer(queue) as target,
        session.create_consumer(queue) as consumer,
    ):
        for number in range(sent):
            target.send(f"in a transaction {number}")
        for _ in range(taken):
            assert received(consumer) is not None
        session.commit() if commit else session.rollback()


def prepared(url: str, queue: str, count: int, *, branch: Xid = BRANCH) -> None:
    """A branch that is left in doubt."""
    with XAConnectionFactory(url).create_xa_connection() as connection, connection.create_xa_session() as session:
        resource = session.xa_resource
        resource.start(branch)
        with session.create_producer(queue) as target:
            for _ in range(count):
                target.send("in doubt")
        resource.end(branch)
        resource.prepare(branch)


def crash_image(directory: Path, copy: Path) -> Path:
    """What a kill at this moment leaves."""
    return Path(shutil.copytree(directory, copy, ignore=shutil.ignore_patterns("*.lock")))
