"""Sessions that a connection keeps for sends of any number of tasks.

Responsible for the bound on their number, and for the order of tasks that wait for one. Does not depend on messages.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

from attrs import frozen

from ._edge import Edge, Signal
from ._producer import MessageProducer
from ._session import Session

POOL_SESSIONS_MAX: Final = 8
"""A persistent send keeps its session for one answer of the broker; more sessions than this add nothing to its rate."""


@frozen
class PooledSession:
    """A session, and its producer for any destination."""

    session: Session
    producer: MessageProducer


class SessionPool:
    """At most `POOL_SESSIONS_MAX` sessions, opened when they are needed first. A task has one for one send."""

    def __init__(self, edge: Edge, open_session: Callable[[], Awaitable[Session]]) -> None:
        self._edge = edge
        self._open_session = open_session
        self._idle: list[PooledSession] = []
        # len(_idle) <= _count <= POOL_SESSIONS_MAX
        self._count = 0
        self._waiting: deque[Signal] = deque()

    @asynccontextmanager
    async def session(self) -> AsyncIterator[PooledSession]:
        """Return a block that has a session of the pool for itself."""
        pooled = await self._take()
        try:
            yield pooled
        finally:
            if pooled.session.closed:
                self._count -= 1
            else:
                self._idle.append(pooled)
            self._wake_next()

    async def _take(self) -> PooledSession:
        waited = False
        while True:
            while self._idle:
                pooled = self._idle.pop()
                if not pooled.session.closed:
                    return pooled
                self._count -= 1
            if self._count < POOL_SESSIONS_MAX:
                return await self._open()
            await self._wait(first=waited)
            waited = True

    async def _open(self) -> PooledSession:
        self._count += 1
        try:
            session = await self._open_session()
            return PooledSession(session, session.create_producer())
        except BaseException:  # a cancelled task must leave its place to another one
            self._count -= 1
            self._wake_next()
            raise

    async def _wait(self, *, first: bool) -> None:
        signal = self._edge.signal()
        if first:  # another task took the session that this one was woken for
            self._waiting.appendleft(signal)
        else:
            self._waiting.append(signal)
        try:
            await signal.wait()
        except BaseException:
            if signal in self._waiting:
                self._waiting.remove(signal)
            else:
                self._wake_next()
            raise

    def _wake_next(self) -> None:
        if self._waiting:
            self._waiting.popleft().set()
