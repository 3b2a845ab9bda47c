"""JMSContext: one connection with one session, for short programs.

Responsible for nothing of its own: every method is the session's or the connection's.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Self

from embedclient.agent import SessionMode
from embedclient.model import (
    DeliveryMode,
    Destination,
    PropertyValue,
    Queue,
    TemporaryQueue,
    TemporaryTopic,
    Topic,
)

from ._browser import QueueBrowser
from ._connection import Connection, session_in_mode
from ._consumer import MessageConsumer
from ._conversion import Body, as_message
from ._opening import Opening
from ._producer import MessageProducer, Receipt
from ._session import Session


class JMSProducer:
    """Sends to any destination. Setters return the producer, so that they can be chained."""

    def __init__(self, producer: MessageProducer) -> None:
        self._producer = producer
        self._properties: dict[str, PropertyValue] = {}
        self._correlation_id: str | bytes | None = None
        self._reply_to: Destination | None = None
        self._type: str | None = None

    def set_priority(self, priority: int) -> Self:
        """0 to 9, for every message sent from now on."""
        self._producer.priority = priority
        return self

    def set_delivery_mode(self, delivery_mode: DeliveryMode) -> Self:
        """Whether messages sent from now on survive a restart of the broker."""
        self._producer.delivery_mode = delivery_mode
        return self

    def set_time_to_live(self, seconds: float) -> Self:
        """Seconds for which messages sent from now on are of use; 0 for ever."""
        self._producer.time_to_live = seconds
        return self

    def set_delivery_delay(self, seconds: float) -> Self:
        """Seconds that messages sent from now on wait before they are delivered; 0 for none.

        A broker of this project refuses such messages: it has no scheduled delivery yet. Artemis has.
        """
        self._producer.delivery_delay = seconds
        return self

    def set_property(self, name: str, value: PropertyValue) -> Self:
        """A property of every message sent from now on."""
        self._properties[name] = value
        return self

    def clear_properties(self) -> Self:
        """Forget what `set_property` was told."""
        self._properties.clear()
        return self

    def set_correlation_id(self, correlation_id: str | bytes | None) -> Self:
        """The correlation id of every message sent from now on; None leaves what a message has."""
        self._correlation_id = correlation_id
        return self

    def set_reply_to(self, destination: Destination | None) -> Self:
        """Where replies to messages sent from now on are awaited; None leaves what a message has."""
        self._reply_to = destination
        return self

    def set_type(self, type: str | None) -> Self:
        """The JMSType of every message sent from now on; None leaves what a message has."""
        self._type = type
        return self

    def set_disable_message_id(self, disable: bool) -> Self:
        """Whether messages sent from now on go without a message id."""
        self._producer.disable_message_id = disable
        return self

    def set_disable_message_timestamp(self, disable: bool) -> Self:
        """Whether messages sent from now on go without a timestamp."""
        self._producer.disable_message_timestamp = disable
        return self

    async def send(self, destination: Destination | str, message: Body) -> Self:
        """Send a message, or a value that becomes one, as `MessageProducer.send` does, with its errors."""
        await self._producer.send(self._dressed(message), destination=destination)
        return self

    def send_nowait(self, destination: Destination | str, message: Body) -> Receipt:
        """Queue a message and return at once. See `MessageProducer.send_nowait`."""
        return self._producer.send_nowait(self._dressed(message), destination=destination)

    def _dressed(self, body: Body) -> Body:
        headers = (self._correlation_id, self._reply_to, self._type)
        if not self._properties and headers == (None, None, None):
            return body
        message = as_message(body)
        message.properties.update(self._properties)
        if self._correlation_id is not None:
            message.correlation_id = self._correlation_id
        if self._reply_to is not None:
            message.reply_to = self._reply_to
        if self._type is not None:
            message.type = self._type
        return message


class JMSContext:
    """A connection and its session. Made by `ConnectionFactory.create_context`."""

    def __init__(self, connection: Connection, session: Session) -> None:
        self._connection = connection
        self._session = session

    @property
    def connection(self) -> Connection:
        """The connection, shared with other contexts made from this one."""
        return self._connection

    @property
    def session(self) -> Session:
        """The session."""
        return self._session

    @property
    def session_mode(self) -> SessionMode:
        """The mode of the session."""
        return SessionMode(self.session.acknowledge_mode or SessionMode.TRANSACTED)

    @property
    def client_id(self) -> str | None:
        """The connection's client id, None without one."""
        return self.connection.client_id

    def create_context(self, session_mode: SessionMode) -> AbstractAsyncContextManager[JMSContext]:
        """Another session of the same connection."""
        return self._another(session_mode)

    @asynccontextmanager
    async def _another(self, session_mode: SessionMode) -> AsyncIterator[JMSContext]:
        async with session_in_mode(self.connection, session_mode) as session:
            yield JMSContext(self.connection, session)

    def create_producer(self) -> JMSProducer:
        """A producer that sends to any destination."""
        return JMSProducer(self.session.create_producer())

    def create_consumer(
        self, destination: Destination | str, selector: str | None = None, *, no_local: bool = False
    ) -> Opening[MessageConsumer]:
        """See `Session.create_consumer`."""
        return self.session.create_consumer(destination, selector, no_local=no_local)

    def create_durable_consumer(
        self, topic: Topic | str, name: str, selector: str | None = None, *, no_local: bool = False
    ) -> Opening[MessageConsumer]:
        """See `Session.create_durable_consumer`."""
        return self.session.create_durable_consumer(topic, name, selector, no_local=no_local)

    def create_shared_consumer(
        self, topic: Topic | str, name: str, selector: str | None = None
    ) -> Opening[MessageConsumer]:
        """See `Session.create_shared_consumer`."""
        return self.session.create_shared_consumer(topic, name, selector)

    def create_shared_durable_consumer(
        self, topic: Topic | str, name: str, selector: str | None = None
    ) -> Opening[MessageConsumer]:
        """See `Session.create_shared_durable_consumer`."""
        return self.session.create_shared_durable_consumer(topic, name, selector)

    def create_browser(self, queue: Queue | TemporaryQueue | str, selector: str | None = None) -> Opening[QueueBrowser]:
        """See `Session.create_browser`."""
        return self.session.create_browser(queue, selector)

    async def create_temporary_queue(self) -> TemporaryQueue:
        """See `Session.create_temporary_queue`."""
        return await self.session.create_temporary_queue()

    async def create_temporary_topic(self) -> TemporaryTopic:
        """See `Session.create_temporary_topic`."""
        return await self.session.create_temporary_topic()

    async def unsubscribe(self, name: str) -> None:
        """See `Session.unsubscribe`."""
        await self.session.unsubscribe(name)

    def transaction(self) -> AbstractAsyncContextManager[None]:
        """See `Session.transaction`."""
        return self.session.transaction()

    async def commit(self) -> None:
        """See `Session.commit`."""
        await self.session.commit()

    async def rollback(self) -> None:
        """See `Session.rollback`."""
        await self.session.rollback()

    async def acknowledge(self) -> None:
        """Acknowledge everything received, in the mode CLIENT. In other modes nothing happens."""
        await self.session._acknowledge_received()

    async def recover(self) -> None:
        """See `Session.recover`."""
        await self.session.recover()

    async def start(self) -> None:
        """See `Connection.start`."""
        await self.connection.start()

    async def stop(self) -> None:
        """See `Connection.stop`."""
        await self.connection.stop()

    async def close(self) -> None:
        """Close the session now, and not only at the end of the block."""
        await self.session.close()
