"""The JMS consumer: receive, iterate, or set a listener.

Responsible for what JMS says about receiving. Refuses to know the wire; who acknowledges when is the agent's knowledge.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

from embedclient._client._conversion import decode
from embedclient._client._inbox import CLOSE_TIMEOUT_S, Inbox
from embedclient.agent import Consumer as AgentConsumer
from embedclient.agent import Delivery
from embedclient.errors import ConnectionClosedException, IllegalStateException
from embedclient.model import Destination, JMSMessage

if TYPE_CHECKING:
    from embedclient._client._session import Session

MessageListener = Callable[[JMSMessage], Awaitable[None] | None]


class MessageConsumer:
    """Receives messages of one destination. `async with` it, or let the session's scope close it."""

    def __init__(
        self, session: Session, agent_consumer: AgentConsumer, destination: Destination, selector: str | None
    ) -> None:
        self.destination = destination
        self.selector = selector
        self._session = session
        self._agent_consumer = agent_consumer
        self._consumed = session.core.agent_session.consumed
        self._inbox = Inbox(session.edge, agent_consumer, session.one_task)
        self._listener: MessageListener | None = None

    @property
    def closed(self) -> bool:
        return self._agent_consumer.closed

    async def receive(self, timeout: float | None = None) -> JMSMessage | None:
        """Wait for a message, `timeout` seconds at most.

        Returns None when nothing came in time, or when the consumer was closed meanwhile. A cancelled receive leaves
        the message with the consumer.
        """
        self._check_receiving()
        delivery = await self._inbox.take(timeout)
        return None if delivery is None else await self._hand_over(delivery)

    async def receive_nowait(self) -> JMSMessage | None:
        """A message that is there now. The broker is asked, so None means that it has none for this consumer."""
        self._check_receiving()
        delivery = await self._inbox.take_now()
        return None if delivery is None else await self._hand_over(delivery)

    def __aiter__(self) -> MessageConsumer:
        return self

    async def __anext__(self) -> JMSMessage:
        message = None if self._agent_consumer.closed else await self.receive()
        if message is None:
            if self._agent_consumer.closed_error is not None:
                raise self._agent_consumer.closed_error
            raise StopAsyncIteration
        return message

    @property
    def message_listener(self) -> MessageListener | None:
        return self._listener

    def set_message_listener(self, listener: MessageListener | None) -> None:
        """Have the session call `listener(message)` for each message, one at a time; None stops that.

        An exception of the listener is logged; in the modes AUTO and DUPS_OK the message comes again.
        """
        self._check_open()
        self._listener = listener
        self._session.listeners.changed(self)

    async def close(self) -> None:
        """Stop receiving. Unacknowledged messages go back to the queue. Closing twice is fine."""
        consumer = self._agent_consumer
        if consumer.closed:
            return
        if self._listener is not None:
            self._listener = None
            self._session.listeners.changed(self)
        call = consumer.close()
        self._inbox.wake()
        await self._session.edge.settle(call, CLOSE_TIMEOUT_S)

    # What the session's listener task uses

    def next_delivery(self) -> Delivery | None:
        return self._agent_consumer.next(self._session.edge.now())

    def watch(self, on_ready: Callable[[], None] | None) -> None:
        """Tell `on_ready` of arrivals instead of a waiting receive; None turns back."""
        if on_ready is None:
            self._inbox.attach()
            self._agent_consumer.give_up()
        else:
            self._agent_consumer.on_ready = lambda _: on_ready()
            self._agent_consumer.want()
        self._session.edge.flush_soon()

    def want_next(self) -> None:
        self._agent_consumer.want()

    def decoded(self, delivery: Delivery) -> JMSMessage:
        return decode(delivery, self.destination, partial(self._session.acknowledge_delivery, delivery))

    async def _hand_over(self, delivery: Delivery) -> JMSMessage:
        message = self.decoded(delivery)
        call = self._consumed(delivery)
        if call.done:
            self._session.edge.flush_soon()
        else:
            # The message is the caller's already: a cancellation waits until the acknowledgement was answered.
            await self._session.edge.settle(call, self._session.call_timeout_s)
        if call.error is not None:
            raise call.error
        return message

    def _check_receiving(self) -> None:
        self._check_open()
        if self._listener is not None:
            raise IllegalStateException("a consumer with a message listener cannot receive")

    def _check_open(self) -> None:
        if self._agent_consumer.closed:
            raise self._agent_consumer.closed_error or ConnectionClosedException("the consumer is closed")
