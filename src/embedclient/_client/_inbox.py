"""One user task at a time through one session: taking messages and posting them.

Responsible for waiting on the agent's consumers and producers without a task switch per message, and for never losing a
message to a cancelled receive. Both layers of the client use it. Does not depend on the contents of messages.
"""

from __future__ import annotations

import math
from types import TracebackType

from embedclient.agent import Consumer as AgentConsumer
from embedclient.agent import CoreMessage, Delivery
from embedclient.agent import Producer as AgentProducer
from embedclient.agent import Session as AgentSession
from embedclient.errors import ConnectionClosedException, IllegalStateException, JMSException

from ._closing import settle_closing
from ._edge import Edge


class OneTask:
    """Reject a second task while the first one waits inside a session: sessions are single-threaded (JMS)."""

    __slots__ = ("busy", "what")

    def __init__(self, what: str) -> None:
        self.busy = False
        self.what = what

    def check(self) -> None:
        if self.busy:
            raise IllegalStateException(
                f"{self.what} is in use by another task; create a session for each task, "
                "or use connection.send() and connection.request()"
            )

    def __enter__(self) -> None:
        self.check()
        self.busy = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.busy = False


class Inbox:
    """Take messages of one agent consumer, and wait while it has none. Both layers use it."""

    __slots__ = ("_agent_session", "_closed_here", "_signal", "agent_consumer", "edge", "one_task", "receiving")

    def __init__(
        self, edge: Edge, agent_session: AgentSession, agent_consumer: AgentConsumer, one_task: OneTask
    ) -> None:
        self._agent_session = agent_session
        self._closed_here = False
        self.edge = edge
        self.agent_consumer = agent_consumer
        self.one_task = one_task
        # Whether a task waits for a message.
        self.receiving = False
        self._signal = edge.signal()
        self.attach()

    def attach(self) -> None:
        """Set this inbox as the receiver of the consumer's arrivals."""
        self.agent_consumer.on_ready = self._on_ready

    def _on_ready(self, _: AgentConsumer) -> None:
        self._signal.set()

    async def close(self) -> None:
        """Close the consumer; a waiting receive ends without a message."""
        self._closed_here = True
        call = self.agent_consumer.close()
        self._signal.set()
        await settle_closing(self.edge, call)

    def failure(self) -> JMSException | None:
        """Return why the consumer is closed, None if this program closed it or its session."""
        error = self.agent_consumer.closed_error
        if self._closed_here or (self._agent_session.closed and isinstance(error, ConnectionClosedException)):
            return None
        return error

    async def take(self, timeout_s: float | None) -> Delivery | None:
        """Return the next delivery. Return None if the owner has closed the consumer, or if none arrived in time.

        Nothing waits between taking a delivery and returning it, so a cancellation finds it either still buffered or
        with the caller. Raises the error that closed the consumer, if one did.
        """
        if timeout_s is not None:
            check_seconds(timeout_s)
        edge, consumer = self.edge, self.agent_consumer
        self.one_task.check()
        await edge.pause()
        delivery = consumer.next(edge.now())
        if delivery is not None:
            return delivery
        with self.one_task:
            self.receiving = True
            consumer.want()
            edge.flush_soon()
            try:
                delivery = await self._wait_and_take(timeout_s)
            finally:
                self._give_up_without(delivery)
        return delivery

    async def take_now(self, *, patient: bool = False) -> Delivery | None:
        """Return a delivery that is available now, after a request to the broker if none is buffered.

        `patient` waits for the answer through every failover, for callers that must not treat a missing answer as the
        end of the queue.
        """
        edge, consumer = self.edge, self.agent_consumer
        self.one_task.check()
        await edge.pause()
        delivery = consumer.next(edge.now())
        if delivery is not None:
            return delivery
        with self.one_task:
            self.receiving = True
            consumer.want()
            try:
                delivery = await self._request_and_take(patient=patient)
            finally:
                self._give_up_without(delivery)
        return delivery

    def _give_up_without(self, delivery: Delivery | None) -> None:
        self.receiving = False
        if delivery is None:
            self.agent_consumer.give_up()
            self.edge.flush_soon()

    async def _wait_and_take(self, timeout_s: float | None) -> Delivery | None:
        edge, consumer = self.edge, self.agent_consumer
        deadline = None if timeout_s is None else edge.now().monotonic + timeout_s
        while not consumer.closed:
            remaining_s = None if deadline is None else max(0.0, deadline - edge.now().monotonic)
            in_time = await self._signal.wait(remaining_s)
            delivery = consumer.next(edge.now())
            if delivery is not None:
                return delivery
            if not in_time:
                return await self._request_and_take(patient=False)
            edge.flush_soon()  # of a large message that arrives, the beginning was paid for just now
        self._raise_failure()
        return None

    async def _request_and_take(self, *, patient: bool) -> Delivery | None:
        """Request a forced delivery: the broker first sends everything it can, then its mark (core-protocol 7.6).

        Unless `patient`, a disconnected broker gets no request, and the wait for the answer is limited as for any other
        request.
        """
        edge, consumer = self.edge, self.agent_consumer
        if patient or self._agent_session.channel.speaking:
            forced = consumer.force_delivery()
            edge.flush_soon()
            answer_timeout_s = edge.agent.settings.call_timeout_ms / 1000
            deadline = None if patient else edge.now().monotonic + answer_timeout_s
            while not forced.done:
                remaining_s = None if deadline is None else max(0.0, deadline - edge.now().monotonic)
                if not await self._signal.wait(remaining_s):
                    break
        if consumer.closed:
            # Lost with its connection. The next receive takes what a new connection delivers, unless the loss is final.
            self._raise_failure()
        return consumer.next(edge.now())

    def _raise_failure(self) -> None:
        failure = self.failure()
        if failure is not None:
            raise failure


async def post(edge: Edge, one_task: OneTask, producer: AgentProducer, message: CoreMessage) -> None:
    """Send one message, and wait only if the settings require it; many sends need no wait at all."""
    one_task.check()
    await edge.pause()
    call = producer.send(message)
    if call.done and call.error is None:
        edge.flush_soon()
        return
    with one_task:
        await edge.wait(call)


def check_seconds(timeout: object) -> None:
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        raise TypeError(f"timeout must be a number of seconds or None, not {timeout!r}")
    if math.isnan(timeout):
        raise ValueError(f"timeout must be a number of seconds or None, not {timeout!r}")


def check_may_end_without(timeout: float | None) -> None:
    """Raise if a receive has no message: without a time-out the program expects one."""
    if timeout is None:
        raise ConnectionClosedException("the consumer was closed while it waited for a message")
