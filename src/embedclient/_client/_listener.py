"""The session's listener task: calls message listeners one at a time, in the order of arrival per consumer.

Responsible for when a message counts as consumed around a listener, and for the effect of a listener's exception.
Does not depend on the wire protocol.
"""

from __future__ import annotations

import logging
from contextvars import ContextVar

from embedclient.agent import Call, Delivery, SessionMode

from ._closing import settle_in_time, settle_or_hurry
from ._edge import Signal, SpawnedTask
from ._intake import Intake, MessageListener
from ._session_context import SessionContext
from ._user_code import succeeds

_log = logging.getLogger("embedclient")
# In these modes the acknowledgement follows the listener, so that a failure can return the message to the queue.
_CONSUMED_AFTERWARDS = (SessionMode.AUTO, SessionMode.DUPS_OK)
# The listeners that this task calls: code that a listener calls must not wait for that listener.
_running: ContextVar[Listeners | None] = ContextVar("embedclient listeners", default=None)


class Listeners:
    """All listeners of one session, and the one task that calls them."""

    def __init__(self, context: SessionContext) -> None:
        self._context = context
        self._intakes: dict[Intake, None] = {}
        self._arrived = context.edge.signal()
        self._task: SpawnedTask | None = None
        self._closing = False
        # Whether the task waits for the broker, and not for a listener.
        self._settling = False
        # The intake whose listener is running, including the acknowledgement before or after it.
        self._calling: Intake | None = None
        self._waiting: list[Signal] = []

    @property
    def calling(self) -> bool:
        """Return True if a listener is running."""
        return self._calling is not None

    def changed(self, intake: Intake) -> None:
        """Apply that a consumer's listener was set or removed."""
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
        """Look for messages, after the session was started or a listener was set."""
        self._arrived.set()

    async def finished(self, intake: Intake | None = None) -> None:
        """Wait for the running listener, or for that of one consumer. A call in that listener does not wait.

        All waits of a connection share one budget.
        """
        if self._calling is None or _running.get() is self or intake not in (None, self._calling):
            return
        edge = self._context.edge
        if self._settling and not edge.agent.connected:
            return
        ended = edge.signal()
        self._waiting.append(ended)
        left_s = edge.listener_budget.begin(edge.now().monotonic)
        try:
            await ended.wait(left_s)
        finally:
            edge.listener_budget.end(edge.now().monotonic)

    def begin_close(self) -> None:
        """Call no further listener; a running one continues. A wait for the broker is now limited as in closing."""
        self._closing = True
        if self._settling:
            self.cancel()

    def cancel(self) -> None:
        """Cancel the task, unless a listener makes this call."""
        if self._task is not None and _running.get() is not self:
            self._task.cancel()

    async def _run(self) -> None:
        _running.set(self)
        while not self._closing:
            await self._arrived.wait()
            while await self._call_each():
                await self._context.edge.pause()

    async def _call_each(self) -> bool:
        """Handle one message per consumer, so that a busy consumer does not delay the others."""
        called = False
        for intake in list(self._intakes):
            listener = intake.listener
            delivery = None if listener is None or self._closing else intake.next_delivery()
            if listener is not None and delivery is not None:
                called = True
                self._calling = intake
                try:
                    await self._call(intake, listener, delivery)
                finally:
                    self._calling = None
                    while self._waiting:
                        self._waiting.pop().set()
                intake.agent_consumer.want()
                self._context.edge.flush_soon()
        return called

    async def _call(self, intake: Intake, listener: MessageListener, delivery: Delivery) -> None:
        agent_session = self._context.agent_session
        afterwards = self._context.mode in _CONSUMED_AFTERWARDS
        if not afterwards:
            await self._settle(agent_session.consumed(delivery))
        succeeded = await succeeds("message listener", intake.destination, _hand_over, listener, intake, delivery)
        if afterwards and succeeded:
            await self._settle(agent_session.consumed(delivery))
        elif afterwards:
            await self._settle(agent_session.rollback(last_message_as_delivered=True))

    async def _settle(self, call: Call[None]) -> None:
        if call.done:
            self._context.edge.flush_soon()
        else:
            self._settling = True
            try:
                await self._wait_for(call)
            finally:
                self._settling = False
        if call.done and call.error is not None:
            _log.warning("after a message listener: %s", call.error)

    async def _wait_for(self, call: Call[None]) -> None:
        edge = self._context.edge
        if self._closing:
            await settle_in_time(edge, call)
        else:
            await settle_or_hurry(edge, call, self._context.call_timeout_s)


def _hand_over(listener: MessageListener, intake: Intake, delivery: Delivery) -> object:
    """Call the listener. A message that cannot be decoded counts as a failure of its listener."""
    return listener(intake.message(delivery))
