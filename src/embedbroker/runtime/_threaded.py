"""A broker in a separate thread: the blocking counterpart of `EmbeddedBroker`.

For synchronous tests and programs, and for asyncio programs. Adds no behaviour: every method runs the method of the
same name inside the thread's trio run.
"""

from __future__ import annotations

import math
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self, TypeVar

import outcome
import trio

from embedbroker.config import BrokerConfig, Role
from embedclient.errors import BrokerFailed, IllegalStateException
from embedclient.model import Xid

from ._embedded import EmbeddedBroker

__all__ = ["ThreadedBroker"]

T = TypeVar("T")


class _Life:
    """A run that another thread can end at any moment, also before it has begun."""

    def __init__(self) -> None:
        self._scope = trio.CancelScope()
        self._token: trio.lowlevel.TrioToken | None = None
        self._is_cancelled = False

    def cancel(self) -> None:
        """Cancel the run from the other thread.

        Each side writes its own flag before it reads the flag of the other side.
        """
        self._is_cancelled = True
        if self._token is not None:
            try:
                self._token.run_sync_soon(self._scope.cancel)
            except trio.RunFinishedError:
                pass

    @asynccontextmanager
    async def entered(self) -> AsyncIterator[None]:
        with self._scope:
            self._token = trio.lowlevel.current_trio_token()
            if self._is_cancelled:
                self._scope.cancel()
            yield


class ThreadedBroker:
    """An `EmbeddedBroker` that blocks. Use it as ``with EmbeddedBroker.in_thread() as broker``.

    Safe to call from any thread except the broker's. ``vm_url`` does not work from another thread; use ``url``.
    """

    def __init__(self, config: BrokerConfig | None, options: dict[str, object]) -> None:
        self._broker = EmbeddedBroker(config, **options)  # type: ignore[arg-type]  # checked by EmbeddedBroker itself
        self._thread: threading.Thread | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        self._begun = threading.Event()
        self._leave: trio.Event | None = None
        self._life = _Life()
        self._error: BaseException | None = None

    @property
    def config(self) -> BrokerConfig:
        """The configuration that the broker runs with."""
        return self._broker.config

    @property
    def url(self) -> str:
        """The URL that clients connect to."""
        return self._broker.url

    @property
    def port(self) -> int:
        """The TCP port that the broker listens on."""
        return self._broker.port

    @property
    def role(self) -> Role:
        """The current role in the live and backup group; without a group the broker is live while it runs."""
        return self._broker.role

    @property
    def node_id(self) -> str:
        """The id that a primary and its backups share; empty until it is known."""
        return self._broker.node_id

    @property
    def is_running(self) -> bool:
        """True if the broker was started and has neither stopped nor failed."""
        return self._broker.is_running

    def __enter__(self) -> Self:
        if self._thread is not None:
            raise IllegalStateException("the broker is in use by another scope")
        self._begun.clear()
        self._error = None
        self._life = _Life()
        self._thread = threading.Thread(target=self._run, name=f"embedbroker {self._broker.config.name}", daemon=True)
        self._thread.start()
        try:
            self._begun.wait()
        except BaseException:  # Ctrl-C while a journal is read: the scope was not entered, so it would never be left
            self._life.cancel()
            self._join(quiet=True)
            raise
        if self._token is None:
            self._join()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._token is not None and self._leave is not None:
            try:
                self._token.run_sync_soon(self._leave.set)
            except trio.RunFinishedError:
                pass
        self._join(quiet=value is not None)

    def _join(self, *, quiet: bool = False) -> None:
        thread, self._thread = self._thread, None
        assert thread is not None
        thread.join()
        self._token = None
        error, self._error = self._error, None
        if error is not None and not quiet:
            raise error

    def start(self) -> None:
        """Start again after `stop` or `crash`."""
        self._call(self._broker.start)

    def stop(self, *, failover: bool = False) -> None:
        """Stop in an orderly way; with ``failover`` a backup takes over, whatever the policy."""
        self._call(lambda: self._broker.stop(failover=failover))

    def crash(self) -> None:
        """End at once, without notice to clients or the journal."""
        self._call(self._broker.crash)

    def wait_failed(self, timeout: float | None = None) -> str | None:
        """Wait until the broker stops by itself, and return the reason.

        Args:
            timeout: seconds, or None to wait for ever. After that time the result becomes None.

        Raises:
            IllegalStateException: the broker does not run.
        """

        async def wait() -> str | None:
            with trio.move_on_after(math.inf if timeout is None else timeout):
                return await self._broker.wait_failed()
            return None

        return self._call(wait)

    def wait_for_role(self, *roles: Role, timeout: float | None = None) -> bool:
        """Wait until the broker has one of ``roles``; return at once if it has one now.

        Args:
            timeout: seconds, or None to wait for ever. The result is False when they are over.

        Raises:
            BrokerFailed: the broker stopped by itself.
            IllegalStateException: the broker was stopped, or was not started.
            TypeError: no role is given, or an argument is not a role.
        """

        async def wait() -> bool:
            with trio.move_on_after(math.inf if timeout is None else timeout):
                await self._broker.wait_for_role(*roles)
            return self._broker.role in roles

        return self._call(wait)

    @property
    def is_in_sync(self) -> bool:
        """True if this is a live broker with a replicating backup that has all it confirmed, or such a backup."""
        return self._broker.is_in_sync

    def wait_in_sync(self, timeout: float | None = None) -> bool:
        """Wait until `is_in_sync`.

        Args:
            timeout: seconds, or None to wait for ever. The result is False when they are over.

        Raises:
            BrokerFailed: the broker stopped by itself.
            IllegalStateException: the broker was stopped, or was not started.
        """

        async def wait() -> bool:
            with trio.move_on_after(math.inf if timeout is None else timeout):
                await self._broker.wait_in_sync()
            return self._broker.is_in_sync

        return self._call(wait)

    def wait_out_of_sync(self, timeout: float | None = None) -> bool:
        """Wait until not `is_in_sync`.

        Args:
            timeout: seconds, or None to wait for ever. The result is False when they are over.
        """

        async def wait() -> bool:
            with trio.move_on_after(math.inf if timeout is None else timeout):
                await self._broker.wait_out_of_sync()
            return not self._broker.is_in_sync

        return self._call(wait)

    @property
    def prepared_branches(self) -> list[Xid]:
        """The XA branches that were prepared and wait for their transaction managers, oldest first."""

        async def look() -> list[Xid]:
            return self._broker.prepared_branches

        return self._call(look)

    def commit_branch(self, xid: Xid) -> bool:
        """Commit a prepared XA branch in place of its transaction manager; return False if no such branch exists.

        Raises:
            IllegalStateException: the broker is not live, or stopped before the decision was durable.
        """
        return self._call(lambda: self._broker.commit_branch(xid))

    def rollback_branch(self, xid: Xid) -> bool:
        """Roll a prepared XA branch back in place of its transaction manager; return False if no such branch exists.

        Raises:
            IllegalStateException: the broker is not live, or stopped before the decision was durable.
        """
        return self._call(lambda: self._broker.rollback_branch(xid))

    def _call(self, function: Callable[[], Awaitable[T]]) -> T:
        if self._token is None:
            raise IllegalStateException("the broker needs its scope: use 'with EmbeddedBroker.in_thread() as broker'")
        try:
            return trio.from_thread.run(function, trio_token=self._token)
        except (trio.RunFinishedError, trio.Cancelled):  # its scope has ended meanwhile
            raise BrokerFailed(f"the broker has ended: {self._error!r}") from self._error

    def _run(self) -> None:
        result = outcome.capture(trio.run, self._main)
        # Carried to the thread that enters or leaves the scope.
        self._error = result.error if isinstance(result, outcome.Error) else None
        self._begun.set()

    async def _main(self) -> None:
        self._leave = trio.Event()
        async with self._life.entered(), self._broker:
            self._token = trio.lowlevel.current_trio_token()
            self._begun.set()
            await self._leave.wait()
