"""The session's listener task: calls message listeners one at a time, in the order of arrival per consumer.

Responsible for when a message counts as consumed around a listener, and for what an exception of a listener means.
Refuses to know the wire.
"""

from __future__ import annotations

import logging
from contextvars import ContextVar
from inspect import isawaitable

import outcome

from embedclient._client._edge import SpawnedTask
from embedclient._client._intake import Intake, MessageListener
from embedclient._client._session_context import SessionContext
from embedclient.agent import Call, Delivery, SessionMode
from embedclient.model import JMSMessage

_log = logging.getLogger("embedclient")
# In these modes the acknowledgement follows the listener, so that a failure can give the message back.
_CONSUMED_AFTERWARDS = (SessionMode.AUTO, SessionMode.DUPS_OK)
# The listeners whose task this is: closing a session from its own listener must not wait for that listener.
_running: ContextVar[Listeners | None] = ContextVar("embedclient listeners", default=None)


class Listeners:
    """All listeners of one session, and the one task that calls them."""

    def __init__(self, context: SessionContext) -> None:
        self._context = context
        self._intakes: dict[Intake, None] = {}
        self._arrived = context.edge.signal()
        self._ended = context.edge.signal()
        self._task: SpawnedTask | None = None
        self._closing = False
        self._calling = False

    def changed(self, intake: Intake) -> None:
        """A consumer got a listener or lost it."""
        if intake.listener is None:
            self._intakes.pop(intake, None)
            intake.watch(None)
            return
        self._intakes[intake] = None
        intake.watch(self._arrived.set)
        self.wake()
        if self._task is None:
            self._task = self._context.edge.spawn(self._run)

    def wake(self) -> None:
        """Look for messages, because the session was started or a listener came."""
        self._arrived.set()

    async def close(self, timeout_s: float) -> None:
        """Let a running listener finish within the time given, then end the task."""
        self._closing = True
        if self._task is None or _running.get() is self:
            return
        try:
            if self._calling:
                await self._ended.wait(timeout_s)
        finally:
            self._task.cancel()

    async def _run(self) -> None:
        _running.set(self)
        while not self._closing:
            await self._arrived.wait()
            while await self._call_each():
                await self._context.edge.pause()
        self._ended.set()

    async def _call_each(self) -> bool:
        """One message per consumer, so that a busy one does not hold up the others."""
        called = False
        for intake in list(self._intakes):
            listener = intake.listener
            delivery = None if listener is None or self._closing else intake.next_delivery()
            if listener is not None and delivery is not None:
                called = True
                await self._call(intake, listener, delivery)
                intake.agent_consumer.want()
                self._context.edge.flush_soon()
        return called

    async def _call(self, intake: Intake, listener: MessageListener, delivery: Delivery) -> None:
        agent_session = self._context.agent_session
        afterwards = self._context.mode in _CONSUMED_AFTERWARDS
        message = intake.message(delivery)
        if not afterwards:
            await self._settle(agent_session.consumed(delivery))
        self._calling = True
        result = await outcome.acapture(_invoke, listener, message)
        self._calling = False
        if isinstance(result, outcome.Value):
            if afterwards:
                await self._settle(agent_session.consumed(delivery))
        elif isinstance(result.error, Exception):
            _log.error("message listener of %s failed", intake.destination, exc_info=result.error)
            if afterwards:
                await self._settle(agent_session.rollback(last_message_as_delivered=True))
        else:
            result.unwrap()  # a cancellation, which must go on

    async def _settle(self, call: Call[None]) -> None:
        if call.done:
            self._context.edge.flush_soon()
        else:
            await self._context.edge.settle(call, self._context.call_timeout_s)
        if call.done and call.error is not None:
            _log.warning("after a message listener: %s", call.error)


async def _invoke(listener: MessageListener, message: JMSMessage) -> None:
    result = listener(message)
    if isawaitable(result):
        await result
