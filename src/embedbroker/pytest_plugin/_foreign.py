"""A broker that the test does not run, in the place of one of ours: ``--broker-url``.

Responsible for waits and assertions as far as a client can make them. Refuses, by skipping the test, what only the
owner of a broker can do. It polls, because a foreign broker reports no changes of its queues.
"""

from __future__ import annotations

from typing import NoReturn, Self

import pytest
import trio

from embedclient import Message, Queue, QueueState, ServerLocator
from embedclient.model import describe_url

from ._arguments import check_queue, check_seconds
from ._broker import wanted_of
from ._carrier import Carrier, carried
from ._queues import browse, describe_message, matches
from ._waiting import WAIT_S, WaitTimeout

__all__ = ["ForeignBroker", "skip_foreign"]

_POLL_EVERY_S = 0.05
_BROWSED_MAX = 10_000


def skip_foreign(what: str) -> NoReturn:
    """Skip a test that does what is impossible with a foreign broker."""
    pytest.skip(f"{what} needs a broker of the test's own, not the one of --broker-url")


class ForeignBroker:
    """The part of a `ManagedBroker` that works for a foreign broker.

    Its queues hold what earlier tests have left there.
    """

    def __init__(self, url: str, carrier: Carrier | None = None) -> None:
        self.name = "foreign"
        self._carrier = carrier
        self.url = url

    is_running = True
    is_live = True

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        skip_foreign(name)

    @carried
    async def start(self) -> Self:
        """Do nothing: the broker runs."""
        await trio.lowlevel.checkpoint()
        return self

    async def _end(self) -> None:
        """Do nothing: the test is over, and the broker is not the test's."""

    def describe(self) -> str:
        return f"the broker at {describe_url(self.url)}"

    @carried
    async def dump(self) -> str:
        await trio.lowlevel.checkpoint()
        return self.describe()

    @carried
    async def wait_for(
        self, *, queue: str, count: int | None = None, consumers: int | None = None, timeout: float | None = None
    ) -> None:
        """`ManagedBroker.wait_for`."""
        __tracebackhide__ = True
        wanted = wanted_of(queue, count, consumers)
        seconds = WAIT_S if timeout is None else timeout
        check_seconds("a time-out", seconds)
        state: QueueState | None = None
        with trio.move_on_after(seconds):
            async with ServerLocator(self.url).create_session_factory() as factory, factory.create_session() as session:
                while True:
                    state = await session.query_queue(queue)
                    if count in (None, state.message_count) and consumers in (None, state.consumer_count):
                        return
                    await trio.sleep(_POLL_EVERY_S)
        raise WaitTimeout(f"{wanted}: not within {seconds:g} s\n{state}\n{await self._dump_of(queue)}")

    @carried
    async def assert_message(
        self, queue: str, body: object = ..., *, timeout: float | None = None, **properties: object
    ) -> Message:
        """`ManagedBroker.assert_message`."""
        __tracebackhide__ = True
        seconds = WAIT_S if timeout is None else timeout
        check_seconds("a time-out", seconds)
        with trio.move_on_after(seconds):
            while True:
                for message in await self.messages(queue):
                    if matches(message, body, properties):
                        return message
                await trio.sleep(_POLL_EVERY_S)
        raise WaitTimeout(f"no such message in queue {queue} within {seconds:g} s\n{await self._dump_of(queue)}")

    @carried
    async def assert_empty(self, queue: str, *, timeout: float | None = None) -> None:
        """`ManagedBroker.assert_empty`."""
        __tracebackhide__ = True
        await self.wait_for(queue=queue, count=0, timeout=timeout)

    @carried
    async def messages(self, queue: str) -> list[Message]:
        """`ManagedBroker.messages`."""
        check_queue(queue)
        return await browse(self.url, Queue(queue), _BROWSED_MAX)

    async def _dump_of(self, queue: str) -> str:
        with trio.move_on_after(WAIT_S):
            return "\n".join(describe_message(message) for message in await self.messages(queue)) or "no messages"
        return "its messages cannot be browsed"
