"""What the clients of the scenarios do again and again, with the public API alone."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager

from embedbroker.pytest_plugin import BrokerClock, BrokerPair, ManagedBroker
from embedclient import (
    ConnectionFactory,
    DeliveryMode,
    MessageConsumer,
    MessageProducer,
    Queue,
    Session,
    TemporaryQueue,
    TextMessage,
    Topic,
    XAConnectionFactory,
    XASession,
)
from embedclient.errors import TransactionOutcomeUnknownException, TransactionRolledBackException, UnblockedException

__all__ = [
    "ORDERS",
    "PATIENCE_S",
    "bodies",
    "commit",
    "let_time_pass",
    "numbered",
    "put",
    "put_once",
    "queued",
    "session_at",
    "take",
    "xa_session_at",
]

ORDERS = Queue("orders")
#: Far above what any of this takes.
PATIENCE_S = 60.0


def numbered(first: int, end: int) -> list[str]:
    return [str(number) for number in range(first, end)]


async def let_time_pass(clock: BrokerClock, seconds: float) -> None:
    """Of virtual time, which stands still while any task works. Real time passes by itself."""
    if clock.is_virtual:
        await clock.advance(seconds)


@asynccontextmanager
async def session_at(url: str, *, transacted: bool = False) -> AsyncIterator[Session]:
    """A session on a separate connection."""
    async with (
        ConnectionFactory(url).connect() as connection,
        connection.session(transacted=transacted) as session,
    ):
        yield session


@asynccontextmanager
async def xa_session_at(url: str) -> AsyncIterator[XASession]:
    async with (
        XAConnectionFactory(url).create_xa_connection() as connection,
        connection.create_xa_session() as session,
    ):
        await connection.start()
        yield session


async def put(
    session: Session, texts: Iterable[str], queue: Queue | TemporaryQueue | Topic = ORDERS, *, durable: bool = True
) -> None:
    """Send texts, each when the one before it is confirmed."""
    producer = session.create_producer(queue)
    producer.delivery_mode = DeliveryMode.PERSISTENT if durable else DeliveryMode.NON_PERSISTENT
    for text in texts:
        await producer.send(text)
    await producer.close()


async def commit(session: Session, texts: Sequence[str], queue: Queue = ORDERS) -> None:
    """Send texts in one transaction, and again when it was lost with the connection before its commit."""
    while True:
        await put(session, texts, queue)
        try:
            await session.commit()
        except TransactionOutcomeUnknownException:
            raise
        except TransactionRolledBackException:
            continue
        return


async def put_once(producer: MessageProducer, text: str, *, size_characters: int = 0) -> None:
    """Send a text, perhaps with blanks behind it, and again while the outcome is in doubt: its id lets it in once."""
    while True:
        try:
            await producer.send(TextMessage(text.ljust(size_characters), properties={"_AMQ_DUPL_ID": text}))
        except UnblockedException:
            continue
        return


async def take(consumer: MessageConsumer, count: int) -> list[object]:
    """The bodies of so many messages."""
    return bodies([await consumer.receive(timeout=PATIENCE_S) for _ in range(count)])


def bodies(messages: Iterable[object]) -> list[object]:
    return [getattr(message, "body", message) for message in messages]


async def queued(broker: ManagedBroker | BrokerPair, queue: str = "orders") -> list[object]:
    """The bodies of what waits in a queue of the broker that is live."""
    live = await broker.wait_live() if isinstance(broker, BrokerPair) else broker
    return bodies(await live.messages(queue))
