"""JMSContext: one connection with one session, for short programs.

Responsible for nothing of its own: every method is the session's or the connection's.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Self

from embedclient._client._browser import QueueBrowser
from embedclient._client._connection import Connection, session_in_mode
from embedclient._client._consumer import MessageConsumer
from embedclient._client._conversion import Body, as_message
from embedclient._client._opening import Opening
from embedclient._client._producer import MessageProducer, Receipt
from embedclient._client._session import Session
from embedclient.agent import SessionMode
from embedclient.model import (
    DeliveryMode,
    Destination,
    JMSMessage,
    PropertyValue,
    Queue,
    TemporaryQueue,
    TemporaryTopic,
    Topic,
)


class JMSProducer:
    """Sends to any destination. Setters return the producer, so that they can be chained."""

    def __init__(self, producer: MessageProducer) -> None:
        self._producer = producer
        self._properties: dict[str, PropertyValue] = {}

    def set_priority(self, priority: int) -> Self:
        self._producer.priority = priority
        return self

    def set_delivery_mode(self, delivery_mode: DeliveryMode) -> Self:
        self._producer.delivery_mode = delivery_mode
        return self

    def set_time_to_live(self, seconds: float) -> Self:
        self._producer.time_to_live = seconds
        return self

    def set_delivery_delay(self, seconds: float) -> Self:
        self._producer.delivery_delay = seconds
        return self

    def set_property(self, name: str, value: PropertyValue) -> Self:
        """A property of every message sent from now on."""
        self._properties[name] = value
        return self

    async def send(self, destination: Destination | str, message: Body) -> Self:
        """Send a message, or a value that becomes one."""
        await self._producer.send(self._dressed(message), destination=destination)
        return self

    def send_nowait(self, destination: Destination | str, message: Body) -> Receipt:
        """Queue a message and return at once; await the receipt for the outcome."""
        return self._producer.send_nowait(self._dressed(message), destination=destination)

    def _dressed(self, body: Body) -> JMSMessage:
        message = as_message(body)
        if self._properties:
            message.properties.update(self._properties)
        return message


class JMSContext:
    """A connection and its session. Made by `ConnectionFactory.create_context`."""

    def __init__(self, connection: Connection, session: Session) -> None:
        self._connection = connection
        self._session = session

    @property
    def connection(self) -> Connection:
        return self._connection

    @property
    def session(self) -> Session:
        return self._session

    @property
    def session_mode(self) -> SessionMode:
        return SessionMode(self.session.acknowledge_mode or SessionMode.TRANSACTED)

    @property
    def client_id(self) -> str | None:
        return self.connection.client_id

    def create_context(self, session_mode: SessionMode) -> AbstractAsyncContextManager[JMSContext]:
        """Another session of the same connection."""
        return self._another(session_mode)

    @asynccontextmanager
    async def _another(self, session_mode: SessionMode) -> AsyncIterator[JMSContext]:
        async with session_in_mode(self.connection, session_mode) as session:
            yield JMSContext(self.connection, session)

    def create_producer(self) -> JMSProducer:
        return JMSProducer(self.session.create_producer())

    def create_consumer(
        self, destination: Destination | str, selector: str | None = None, *, no_local: bool = False
    ) -> Opening[MessageConsumer]:
        return self.session.create_consumer(destination, selector, no_local=no_local)

    def create_durable_consumer(
        self, topic: Topic | str, name: str, selector: str | None = None, *, no_local: bool = False
    ) -> Opening[MessageConsumer]:
        return self.session.create_durable_consumer(topic, name, selector, no_local=no_local)

    def create_shared_consumer(
        self, topic: Topic | str, name: str, selector: str | None = None
    ) -> Opening[MessageConsumer]:
        return self.session.create_shared_consumer(topic, name, selector)

    def create_shared_durable_consumer(
        self, topic: Topic | str, name: str, selector: str | None = None
    ) -> Opening[MessageConsumer]:
        return self.session.create_shared_durable_consumer(topic, name, selector)

    def create_browser(self, queue: Queue | TemporaryQueue | str, selector: str | None = None) -> Opening[QueueBrowser]:
        return self.session.create_browser(queue, selector)

    async def create_temporary_queue(self) -> TemporaryQueue:
        return await self.session.create_temporary_queue()

    async def create_temporary_topic(self) -> TemporaryTopic:
        return await self.session.create_temporary_topic()

    async def unsubscribe(self, name: str) -> None:
        await self.session.unsubscribe(name)

    def transaction(self) -> AbstractAsyncContextManager[None]:
        return self.session.transaction()

    async def commit(self) -> None:
        await self.session.commit()

    async def rollback(self) -> None:
        await self.session.rollback()

    async def recover(self) -> None:
        await self.session.recover()

    async def start(self) -> None:
        await self.connection.start()

    async def stop(self) -> None:
        await self.connection.stop()

    async def close(self) -> None:
        """Close the session now, and not only at the end of the block."""
        await self.session.close()
