"""JMSContext: one connection with one session, for short programs.

Responsible for delegation only: every method calls one of the session or of the connection.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Self

from embedclient.agent import SessionMode
from embedclient.model import (
    DeliveryMode,
    Destination,
    Progress,
    PropertyValue,
    Queue,
    TemporaryQueue,
    TemporaryTopic,
    Topic,
    summary,
)

from ._browser import QueueBrowser
from ._connection import Connection, session_in_mode
from ._consumer import MessageConsumer
from ._conversion import Body, as_message
from ._edge import BackgroundScope
from ._opening import ClosedByBlock, Opening, end_background
from ._producer import MessageProducer, Receipt
from ._session import Session


class JMSProducer:
    """Send to any destination. Made by `JMSContext.create_producer`.

    Setters return the producer, so that calls can be chained. They check nothing: the send raises JMSException for a
    value that is out of range.
    """

    def __init__(self, producer: MessageProducer) -> None:
        self._producer = producer
        self._properties: dict[str, PropertyValue] = {}
        self._correlation_id: str | bytes | None = None
        self._reply_to: Destination | None = None
        self._type: str | None = None

    def __repr__(self) -> str:
        return summary(self, "closed" if self._producer.closed else None)

    def set_priority(self, priority: int) -> Self:
        """Set the priority of later messages: 0 to 9, default 4."""
        self._producer.priority = priority
        return self

    def set_delivery_mode(self, delivery_mode: DeliveryMode) -> Self:
        """Set whether later messages survive a restart of the broker: PERSISTENT (the default) or NON_PERSISTENT."""
        self._producer.delivery_mode = delivery_mode
        return self

    def set_time_to_live(self, seconds: float) -> Self:
        """Set the seconds until later messages expire, 0 to 1e12; 0 (the default) means never."""
        self._producer.time_to_live = seconds
        return self

    def set_delivery_delay(self, seconds: float) -> Self:
        """Set the seconds before later messages are delivered, 0 to 1e12; 0 (the default) delivers at once."""
        self._producer.delivery_delay = seconds
        return self

    def set_property(self, name: str, value: PropertyValue) -> Self:
        """Set a property of every later message.

        The send raises MessageFormatException for a name or a value that a message cannot have.

        Args:
            name: name of the property: an identifier that is no word of selectors and not reserved.
            value: a bool, an int of 64 bits, a float, a str, bytes or None.
        """
        self._properties[name] = value
        return self

    def clear_properties(self) -> Self:
        """Remove all properties that `set_property` has set."""
        self._properties.clear()
        return self

    def set_correlation_id(self, correlation_id: str | bytes | None) -> Self:
        """Set the correlation id of every later message; None keeps that of the message."""
        self._correlation_id = correlation_id
        return self

    def set_reply_to(self, destination: Destination | None) -> Self:
        """Set the destination for replies to later messages; None keeps that of the message."""
        self._reply_to = destination
        return self

    def set_type(self, type: str | None) -> Self:
        """Set the JMSType of every later message; None keeps that of the message."""
        self._type = type
        return self

    def set_disable_message_id(self, disable: bool) -> Self:
        """Set whether later messages are sent without a message id, default False."""
        self._producer.disable_message_id = disable
        return self

    def set_disable_message_timestamp(self, disable: bool) -> Self:
        """Set whether later messages are sent without a timestamp, default False."""
        self._producer.disable_message_timestamp = disable
        return self

    async def send(self, destination: Destination | str, message: Body, *, progress: Progress | None = None) -> Self:
        """Send a message, or a value that becomes one, as `MessageProducer.send` does.

        Args:
            destination: where to send to, as an object or as text (`queue://a`, `topic://a`, or `a` for a queue).
            message: the message or value.
            progress: called as `progress(done, total)` for each part of the body that leaves, with bytes; see
                `MessageProducer.send`.

        Raises: as `MessageProducer.send`.
        """
        await self._producer.send(self._dressed(message), destination=destination, progress=progress)
        return self

    def send_nowait(self, destination: Destination | str, message: Body) -> Receipt:
        """Queue a message and return at once, as `MessageProducer.send_nowait` does.

        Args:
            destination: where to send to, as an object or as text (`queue://a`, `topic://a`, or `a` for a queue).
            message: the message or value; a readable needs `send`.

        Raises: as `MessageProducer.send_nowait`.
        """
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


class JMSContext(ClosedByBlock):
    """A connection and its session. Made by `ConnectionFactory.create_context`."""

    def __init__(self, connection: Connection, session: Session) -> None:
        self._connection = connection
        self._session = session
        self._background: BackgroundScope | None = None

    def _live_in(self, scope: BackgroundScope) -> None:
        self._background = scope
        # The program may close the connection instead, from this context or from another one that shares it.
        self._connection._live_in(scope)

    def __repr__(self) -> str:
        return summary(self, self.session, "of", self.connection)

    @property
    def connection(self) -> Connection:
        """Return the connection. Other contexts made from this one share it."""
        return self._connection

    @property
    def session(self) -> Session:
        """Return the session."""
        return self._session

    @property
    def session_mode(self) -> SessionMode:
        """Return the mode of the session."""
        return SessionMode(self.session.acknowledge_mode or SessionMode.TRANSACTED)

    @property
    def client_id(self) -> str | None:
        """Return the connection's client id, None without one."""
        return self.connection.client_id

    def create_context(self, session_mode: SessionMode) -> Opening[JMSContext]:
        """Create a context with another session of the same connection.

        Args:
            session_mode: how the session acknowledges messages, or TRANSACTED.

        Raises:
            ValueError: `session_mode` is not a mode.
        """
        return Opening(partial(self._open_another, session_mode))

    async def _open_another(self, session_mode: SessionMode) -> JMSContext:
        return JMSContext(self.connection, await session_in_mode(self.connection, session_mode))

    def create_producer(self) -> JMSProducer:
        """Create a producer that sends to any destination.

        Raises: as `Session.create_producer`.
        """
        return JMSProducer(self.session.create_producer())

    def create_consumer(
        self, destination: Destination | str, selector: str | None = None, *, no_local: bool = False
    ) -> Opening[MessageConsumer]:
        """Create a consumer as `Session.create_consumer` does.

        Args:
            destination: a queue or topic, as an object or as text (`queue://a`, `topic://a`, or `a` for a queue).
            selector: receive only messages that match; None receives all.
            no_local: leave out messages that this connection sends.

        Raises: as `Session.create_consumer`.
        """
        return self.session.create_consumer(destination, selector, no_local=no_local)

    def create_durable_consumer(
        self, topic: Topic | str, name: str, selector: str | None = None, *, no_local: bool = False
    ) -> Opening[MessageConsumer]:
        """Create a consumer of a durable subscription as `Session.create_durable_consumer` does.

        Args:
            topic: a topic, as an object or as text; text without a prefix names a topic.
            name: the name of the subscription, unique for the client id.
            selector: receive only messages that match; None receives all.
            no_local: leave out messages that this connection sends.

        Raises: as `Session.create_durable_consumer`.
        """
        return self.session.create_durable_consumer(topic, name, selector, no_local=no_local)

    def create_shared_consumer(
        self, topic: Topic | str, name: str, selector: str | None = None
    ) -> Opening[MessageConsumer]:
        """Create a consumer of a shared subscription as `Session.create_shared_consumer` does.

        Args:
            topic: a topic, as an object or as text; text without a prefix names a topic.
            name: the name of the subscription.
            selector: receive only messages that match; None receives all.

        Raises: as `Session.create_shared_consumer`.
        """
        return self.session.create_shared_consumer(topic, name, selector)

    def create_shared_durable_consumer(
        self, topic: Topic | str, name: str, selector: str | None = None
    ) -> Opening[MessageConsumer]:
        """Create a consumer of a shared durable subscription as `Session.create_shared_durable_consumer` does.

        Args:
            topic: a topic, as an object or as text; text without a prefix names a topic.
            name: the name of the subscription.
            selector: receive only messages that match; None receives all.

        Raises: as `Session.create_shared_durable_consumer`.
        """
        return self.session.create_shared_durable_consumer(topic, name, selector)

    def create_browser(self, queue: Queue | TemporaryQueue | str, selector: str | None = None) -> Opening[QueueBrowser]:
        """Create a browser as `Session.create_browser` does.

        Args:
            queue: a queue, as an object or as text.
            selector: show only messages that match; None shows all.

        Raises: as `Session.create_browser`.
        """
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
        """Acknowledge every message that the session has received, in the mode CLIENT. Other modes ignore the call."""
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
        """Close the session now, before the end of the block; without a block, the connection too."""
        try:
            await self.session.close()
        finally:
            await end_background(self.connection._edge, self)
