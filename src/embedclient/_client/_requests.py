"""Requests of a connection, and the replies to them, which come to one temporary queue.

1. A request gets its message id when it is sent. A reply has that id as its correlation id.
2. The reply may arrive before the broker confirms the request, so that no task waits for that id yet.
Therefore replies that no task waits for are kept while a request is being sent. Others are dropped: their tasks were
cancelled, or ran out of time.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial

from embedclient.errors import ConnectionClosedException, JMSException, MessageFormatException
from embedclient.model import Destination, JMSMessage, TemporaryQueue

from ._consumer import MessageConsumer
from ._conversion import Body, as_message
from ._edge import Edge, Signal
from ._inbox import check_seconds
from ._session import Session
from ._session_pool import SessionPool

_log = logging.getLogger("embedclient")
CorrelationId = str | bytes


class _Reply:
    """The place for one reply. Made for each request."""

    __slots__ = ("message", "signal")

    def __init__(self, signal: Signal) -> None:
        self.signal = signal
        self.message: JMSMessage | None = None

    def give(self, message: JMSMessage | None) -> None:
        self.message = message
        self.signal.set()


class Requests:
    """Send requests and wait for their replies. One instance per connection that makes requests."""

    def __init__(self, edge: Edge, pool: SessionPool, open_session: Callable[[], Awaitable[Session]]) -> None:
        self._edge = edge
        self._pool = pool
        self._open_session = open_session
        self._inbox: TemporaryQueue | None = None
        self._is_opening = False
        self._opened: list[Signal] = []
        self._waiting: dict[CorrelationId, _Reply] = {}
        self._sending = 0
        self._early: dict[CorrelationId, JMSMessage] = {}
        self._failure: JMSException | None = None

    async def request(self, destination: Destination | str, body: Body, timeout_s: float | None) -> JMSMessage:
        """Send a message, and return the reply to it."""
        if timeout_s is not None:
            check_seconds(timeout_s)
        deadline = None if timeout_s is None else self._edge.now().monotonic + timeout_s
        inbox = await self._open_inbox()
        message = as_message(body)
        message.reply_to = inbox
        reply = _Reply(self._edge.signal())
        # A service may use the correlation id of the request, if there is one.
        given = message.correlation_id
        if given is not None:
            self._waiting[given] = reply
        keys = [] if given is None else [given]
        try:
            self._sending += 1
            try:
                async with self._pool.session() as pooled:
                    await pooled.producer.send(message, destination=destination)
                message_id = message.message_id
                assert message_id is not None
                keys.append(message_id)
                self._waiting[message_id] = reply
                early = self._early.pop(message_id, None)
            finally:
                self._sending -= 1
                if not self._sending:
                    self._early.clear()
            if early is not None:
                reply.message = early
            return await self._until_given(reply, destination, timeout_s, deadline)
        finally:
            for key in keys:
                self._waiting.pop(key, None)

    async def _until_given(
        self, reply: _Reply, destination: Destination | str, timeout_s: float | None, deadline: float | None
    ) -> JMSMessage:
        if reply.message is None and self._failure is None:
            left_s = None if deadline is None else max(0.0, deadline - self._edge.now().monotonic)
            await reply.signal.wait(left_s)
        if reply.message is not None:
            return reply.message
        if self._failure is not None:
            raise self._failure
        raise TimeoutError(f"no reply from {destination} within {timeout_s:g} s")

    async def _open_inbox(self) -> TemporaryQueue:
        while self._inbox is None:
            if self._failure is not None:
                raise self._failure
            if self._is_opening:
                signal = self._edge.signal()
                self._opened.append(signal)
                await signal.wait()
                continue
            self._is_opening = True
            try:
                self._inbox = await self._begin_receiving()
            finally:
                self._is_opening = False
                while self._opened:
                    self._opened.pop().set()
        return self._inbox

    async def _begin_receiving(self) -> TemporaryQueue:
        session = await self._open_session()
        try:
            inbox = await session.create_temporary_queue()
            consumer = await session.create_consumer(inbox)
        except BaseException:  # a cancelled task must not leave its session behind
            await session.close()
            raise
        self._edge.spawn(partial(self._receive, consumer))
        return inbox

    async def _receive(self, consumer: MessageConsumer) -> None:
        """Give each reply to the task that waits for it, until the connection ends."""
        failure: JMSException = ConnectionClosedException("the connection is closed")
        try:
            while True:
                try:
                    message = await consumer.receive()
                except MessageFormatException as error:
                    _log.warning("a reply is of a kind that JMS does not have: %s", error)
                    continue
                if message is None:
                    break
                # Its session goes on receiving, and acknowledges by itself.
                message.on_acknowledge = self._edge.pause
                self._take(message)
        except JMSException as error:
            failure = error
        finally:
            self._failure = failure
            self._inbox = None
            for reply in set(self._waiting.values()):
                reply.give(None)

    def _take(self, message: JMSMessage) -> None:
        key = message.correlation_id
        if key is None:
            return
        reply = self._waiting.get(key)
        if reply is not None:
            reply.give(message)
        elif self._sending:
            self._early[key] = message
