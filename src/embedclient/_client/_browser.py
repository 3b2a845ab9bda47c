"""The JMS queue browser: each iteration browses the queue from its beginning.

Responsible for ending when the broker has shown everything. Acknowledges nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from embedclient.agent import LargeDelivery
from embedclient.errors import ConnectionClosedException, IllegalStateException
from embedclient.model import JMSMessage, Queue, TemporaryQueue, summary

from ._conversion import decode
from ._inbox import Inbox
from ._large_message import LargeBodyStream
from ._opening import ClosedByBlock
from ._session_context import SessionContext


class QueueBrowser(ClosedByBlock):
    """Show the messages of a queue in order and take none: `async for message in browser`.

    Made by `Session.create_browser`.
    """

    def __init__(
        self, context: SessionContext, queue: Queue | TemporaryQueue, selector: str | None, condition: str | None
    ) -> None:
        self._context = context
        self._queue = queue
        self._selector = selector
        self._condition = condition
        self._inbox: Inbox | None = None
        self._closed = False

    def __repr__(self) -> str:
        chosen = f"where {self._selector}" if self._selector else None
        return summary(self, f"of {self._queue}", chosen, "closed" if self._closed else None)

    @property
    def queue(self) -> Queue | TemporaryQueue:
        """Return the queue that is browsed."""
        return self._queue

    @property
    def selector(self) -> str | None:
        """Return the selector, None without one."""
        return self._selector

    @property
    def closed(self) -> bool:
        """Return True if the browser is closed, for whatever cause."""
        return self._closed or self._context.agent_session.over

    def __aiter__(self) -> AsyncIterator[JMSMessage]:
        return _Look(self)

    async def next_message(self) -> JMSMessage | None:
        """Return the next message of this pass over the queue; None at its end. The next call then begins a new pass.

        Raises:
            ConnectionClosedException: the browser is closed.
            InvalidDestinationException: the queue does not exist.
        """
        if self._closed:
            raise ConnectionClosedException("the browser is closed")
        if self._inbox is None:
            self._inbox = await self._open()
        delivery = await self._inbox.take_now(patient=True)
        if delivery is None:
            await self._end_look()
            return None
        source = None
        if isinstance(delivery, LargeDelivery):
            source = LargeBodyStream(self._context.edge, delivery, self._queue, _ignore)
        return decode(delivery, self._queue, _refuse, source)

    async def start_over(self) -> None:
        """End this pass; the next message is the first of a new one. Each iteration begins with this call."""
        await self._context.edge.pause()
        await self._end_look()

    async def close(self) -> None:
        """Close the browser. A second call has no effect."""
        self._closed = True
        await self._end_look()

    async def _open(self) -> Inbox:
        context = self._context
        consumer = await context.open_consumer(
            lambda: context.agent_session.create_consumer(
                self._queue.queue_name, filter=self._condition, browse_only=True
            )
        )
        return Inbox(context.edge, context.agent_session, consumer, context.one_task)

    async def _end_look(self) -> None:
        inbox, self._inbox = self._inbox, None
        if inbox is not None and not inbox.agent_consumer.closed:
            await inbox.close()


class _Look:
    """One iteration. It is not a generator, so that a program that leaves it early has nothing to close."""

    __slots__ = ("_begun", "_browser")

    def __init__(self, browser: QueueBrowser) -> None:
        self._browser = browser
        self._begun = False

    def __aiter__(self) -> AsyncIterator[JMSMessage]:
        return self

    async def __anext__(self) -> JMSMessage:
        if not self._begun:
            self._begun = True
            await self._browser.start_over()
        message = await self._browser.next_message()
        if message is None:
            raise StopAsyncIteration
        return message


async def _ignore(_: LargeDelivery) -> None:
    """Handle the end of a body: nothing is acknowledged."""


async def _refuse() -> None:
    raise IllegalStateException("a browsed message cannot be acknowledged")
