"""Requests of a connection, and the replies to them, which come to temporary queues.

1. A request gets its message id when it is sent. A reply has that id as its correlation id.
2. The reply may arrive before the broker confirms the request, so that no task waits for that id yet.
Therefore replies that no task waits for are kept while a request is being sent. Others are dropped: their tasks were
cancelled, or ran out of time.

One queue is enough, unless a program gives a correlation id again after a request with it that got no reply. Its late
reply looks like the reply to the second one. Therefore the second one has another queue.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, TypeVar

from embedclient.errors import (
    ConnectionClosedException,
    IllegalStateException,
    JMSException,
    MessageFormatException,
)
from embedclient.model import Destination, JMSMessage, TemporaryQueue

from ._consumer import MessageConsumer
from ._conversion import Body, as_message
from ._edge import Edge, Signal
from ._inbox import check_seconds
from ._session import Session
from ._session_pool import SessionPool

_log = logging.getLogger("embedclient")
T = TypeVar("T")
CorrelationId = str | bytes
_QUEUES_MAX: Final = 8
_EARLY_MAX: Final = 1_000
_LATE_MAX: Final = 1_000


class _Reply:
    """The place for one reply. Made for each request."""

    __slots__ = ("failure", "message", "signal")

    def __init__(self, signal: Signal) -> None:
        self.signal = signal
        self.message: JMSMessage | None = None
        self.failure: JMSException | None = None

    def give(self, message: JMSMessage) -> None:
        self.message = message
        self.signal.set()

    def fail(self, failure: JMSException) -> None:
        self.failure = failure
        self.signal.set()

    async def arrived(self) -> JMSMessage:
        while self.message is None:
            if self.failure is not None:
                raise self.failure
            await self.signal.wait()
        return self.message


class _ReplyQueue:
    """A temporary queue, and the requests that name it in `reply_to`."""

    __slots__ = ("early", "late", "queue", "replies", "sending", "waiting")

    def __init__(self) -> None:
        self.queue: TemporaryQueue | None = None
        # One for each request that uses this queue, from its beginning to its end.
        self.replies: set[_Reply] = set()
        self.waiting: dict[CorrelationId, _Reply] = {}
        self.sending = 0
        self.early: dict[CorrelationId, JMSMessage] = {}
        # Keys of requests that ended without a reply; a dict, because it forgets the oldest first.
        self.late: dict[CorrelationId, None] = {}

    def opened(self, queue: TemporaryQueue) -> None:
        self.queue = queue
        for reply in self.replies:
            reply.signal.set()

    async def until_open(self, reply: _Reply) -> TemporaryQueue:
        while self.queue is None:
            if reply.failure is not None:
                raise reply.failure
            await reply.signal.wait()
        return self.queue

    def expect(self, key: CorrelationId, reply: _Reply) -> None:
        self.waiting[key] = reply
        early = self.early.pop(key, None)
        if early is not None:
            reply.give(early)

    def forget(self, key: CorrelationId, reply: _Reply) -> None:
        self.waiting.pop(key, None)
        if reply.message is None:
            _add(self.late, key, None, _LATE_MAX)

    def take(self, message: JMSMessage) -> None:
        key = message.correlation_id
        if key is None:
            return
        reply = self.waiting.get(key)
        if reply is not None:
            reply.give(message)
        elif key in self.late:
            del self.late[key]
        elif self.sending:
            _add(self.early, key, message, _EARLY_MAX)

    def fail(self, failure: JMSException) -> None:
        for reply in self.replies:
            reply.fail(failure)


class Requests:
    """Send requests and wait for their replies. One instance per connection that makes requests."""

    def __init__(
        self,
        edge: Edge,
        pool: SessionPool,
        open_session: Callable[[], Awaitable[Session]],
        check_open: Callable[[], None],
    ) -> None:
        self._edge = edge
        self._pool = pool
        self._open_session = open_session
        self._check_open = check_open
        # len(_queues) <= _QUEUES_MAX
        self._queues: list[_ReplyQueue] = []
        # Correlation ids that programs gave to requests that wait now.
        self._given: set[CorrelationId] = set()

    async def request(self, destination: Destination | str, body: Body, timeout_s: float | None) -> JMSMessage:
        """Send a message, and return the reply to it."""
        if timeout_s is not None:
            check_seconds(timeout_s)
        self._check_open()
        work = partial(self._exchange, destination, as_message(body))
        if timeout_s is None:
            return await work()
        reply = await self._edge.within(timeout_s, work)
        if reply is None:
            raise TimeoutError(f"no reply from {destination} within {timeout_s:g} s")
        return reply

    async def _exchange(self, destination: Destination | str, message: JMSMessage) -> JMSMessage:
        given = message.correlation_id
        if given is None:
            return await self._exchange_at(self._queue_for(None), destination, message, None)
        if given in self._given:
            raise IllegalStateException(
                f"a request with the correlation id {given!r} waits for its reply: use another id, or none, so that "
                "the service replies with the message id"
            )
        self._given.add(given)
        try:
            return await self._exchange_at(self._queue_for(given), destination, message, given)
        finally:
            self._given.discard(given)

    async def _exchange_at(
        self, replies: _ReplyQueue, destination: Destination | str, message: JMSMessage, given: CorrelationId | None
    ) -> JMSMessage:
        reply = _Reply(self._edge.signal())
        replies.replies.add(reply)
        keys: list[CorrelationId] = []
        try:
            message.reply_to = await replies.until_open(reply)
            # A service may use the correlation id of the request, if there is one.
            if given is not None:
                keys.append(given)
                replies.expect(given, reply)
            keys.append(await self._send(replies, reply, destination, message))
            return await reply.arrived()
        finally:
            replies.replies.discard(reply)
            for key in keys:
                replies.forget(key, reply)

    async def _send(
        self, replies: _ReplyQueue, reply: _Reply, destination: Destination | str, message: JMSMessage
    ) -> CorrelationId:
        """Send a request, expect the reply to its message id, and return that id."""
        replies.sending += 1
        try:
            async with self._pool.session() as pooled:
                await pooled.producer.send(message, destination=destination)
            message_id = message.message_id
            assert message_id is not None
            replies.expect(message_id, reply)
            return message_id
        finally:
            replies.sending -= 1
            if not replies.sending:
                replies.early.clear()

    def _queue_for(self, given: CorrelationId | None) -> _ReplyQueue:
        """Return a queue to which no late reply with this correlation id comes, as long as that is possible."""
        for replies in self._queues:
            if given is None or given not in replies.late:
                return replies
        if len(self._queues) >= _QUEUES_MAX:
            return self._queues[0]
        replies = _ReplyQueue()
        self._queues.append(replies)
        # In a separate task: its end may take longer than the request that needs the queue first.
        self._edge.spawn(partial(self._serve, replies))
        return replies

    async def _serve(self, replies: _ReplyQueue) -> None:
        """Open a queue, and give each reply to the task that waits for it, until the queue or the connection ends."""
        failure: JMSException = ConnectionClosedException("the connection, or its queue for replies, is closed")
        session: Session | None = None
        try:
            session = await self._open_session()
            queue = await session.create_temporary_queue()
            consumer = await session.create_consumer(queue)
            replies.opened(queue)
            await self._receive(replies, consumer)
        except JMSException as error:
            failure = error
        finally:
            self._queues.remove(replies)
            replies.fail(failure)
        # The end of the connection, which cancels this task, closes the session by itself.
        if session is not None:
            await session.close()

    async def _receive(self, replies: _ReplyQueue, consumer: MessageConsumer) -> None:
        while True:
            try:
                message = await anext(consumer, None)
            except MessageFormatException as error:
                _log.warning("a reply is of a kind that JMS does not have: %s", error)
                continue
            if message is None:
                return
            # Its session goes on receiving, and acknowledges by itself.
            message.on_acknowledge = self._edge.pause
            replies.take(message)


def _add(kept: dict[CorrelationId, T], key: CorrelationId, value: T, count_max: int) -> None:
    """Add an entry to a dict, which forgets its oldest beyond `count_max`."""
    kept.pop(key, None)
    kept[key] = value
    if len(kept) > count_max:
        del kept[next(iter(kept))]
