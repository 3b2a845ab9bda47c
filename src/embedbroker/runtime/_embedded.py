"""`EmbeddedBroker`: a broker inside this process, owned by an async scope.

Responsible for starting and stopping one host with its listeners, directory and lock, and for mapping what goes wrong
at the edge to errors a user can read. Refuses to decide anything about messages.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast
from urllib.parse import quote

import trio
from attrs import evolve, fields_dict

from embedbroker.config import BrokerConfig
from embedbroker.node import Node
from embedclient.errors import BrokerFailed, IllegalStateException, ResourceAllocationException
from embedclient.model import Xid, did_you_mean
from embedclient.transport import Listener, TransportLost, listen_tcp, vm_listen

from ._clock import SystemEntropy
from ._host import Host
from ._memory_limit import usable_memory_bytes

if TYPE_CHECKING:
    from embedbroker.storage import Disk, JournalSettings

    from ._directory import OpenDirectory
    from ._threaded import ThreadedBroker

__all__ = ["EmbeddedBroker"]

STOP_TIMEOUT_S = 10.0
_SETTINGS = fields_dict(BrokerConfig)


class EmbeddedBroker:
    """A message broker in this process.

    ``config`` is a `BrokerConfig`, or None for an in-memory broker on a free port of 127.0.0.1. Keyword arguments
    replace single values of the configuration: ``EmbeddedBroker(data_directory="data", port=61616)``. ``disk`` replaces
    the directory's files by another `Disk`, for tests.

    Use it as ``async with EmbeddedBroker() as broker``: entering starts it, leaving stops it. ``start`` and ``stop``
    are there for programs that need them inside; a broker can be started again after it stopped or crashed, and one
    with a directory brings its durable messages back. An in-memory broker loses everything with `stop` and `crash`.

    Raises:
        ResourceAllocationException: on entering or `start`; the text names the port or directory that is not to be had.
        BrokerFailed: on entering or `start`; the journal cannot be read, and the text names file and offset.
        BrokerFailed: from the block; a bug of the broker ended it.
    """

    def __init__(self, config: BrokerConfig | None = None, *, disk: Disk | None = None, **changes: object) -> None:
        if config is not None and not isinstance(config, BrokerConfig):
            raise TypeError(f"config must be a BrokerConfig, not {type(config).__name__}")
        for name in changes:
            if name not in _SETTINGS:
                raise TypeError(f"a broker has no setting {name!r}{did_you_mean(name, _SETTINGS)}")
        self.config = evolve(config if config is not None else BrokerConfig(), **cast(dict[str, Any], changes))
        self._disk_given = disk
        self._logger = logging.getLogger("embedbroker.broker")
        self._manager: AbstractAsyncContextManager[trio.Nursery] | None = None
        self._nursery: trio.Nursery | None = None
        self._run: _Run | None = None
        self._is_starting = False

    # -- where it is ---------------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """Where clients connect over TCP, for example ``tcp://127.0.0.1:40123``."""
        host = self.config.host
        return f"tcp://{f'[{host}]' if ':' in host else host}:{self._running().port}"

    @property
    def vm_url(self) -> str:
        """Where clients in the same trio run connect without a socket."""
        return f"vm://{quote(self._running().vm_name, safe='')}"

    @property
    def port(self) -> int:
        """The TCP port it listens on."""
        return self._running().port

    @property
    def is_running(self) -> bool:
        """Whether it was started and neither stopped nor failed."""
        return self._run is not None and not self._run.host.stopped.is_set()

    def _running(self) -> _Run:
        if self._run is None:
            raise IllegalStateException("the broker is not running")
        return self._run

    # -- scope ---------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        if self._manager is not None:
            raise IllegalStateException("the broker is in use by another scope")
        self._manager = trio.open_nursery()
        self._nursery = await self._manager.__aenter__()
        try:
            await self.start()
        except BaseException as error:  # whatever it is, nobody leaves a scope that was not entered
            await self._leave(error)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> bool:
        try:
            with trio.CancelScope(deadline=trio.current_time() + STOP_TIMEOUT_S, shield=True):
                await self.stop()
        finally:
            self.kill()
            absorbed = await self._leave(value)
        return absorbed

    async def _leave(self, value: BaseException | None) -> bool:
        """Close the nursery. A user's exception passes it untouched; a failed broker becomes one BrokerFailed."""
        manager, nursery = self._manager, self._nursery
        self._manager = self._nursery = None
        assert manager is not None and nursery is not None
        nursery.cancel_scope.cancel()
        # Only a cancellation concerns the nursery: it may be its own, caused by a broker that failed.
        passed = value if isinstance(value, trio.Cancelled) else None
        try:
            absorbed = await manager.__aexit__(
                type(passed) if passed else None, passed, passed.__traceback__ if passed else None
            )
            # A nursery that ends well says "absorbed" even when nothing was handed to it: the exception is not its own.
            return bool(absorbed) and passed is not None
        except BaseExceptionGroup as group:
            failures = [error for error in _leaves(group) if not isinstance(error, trio.Cancelled)]
            if not failures:
                raise
            if value is not None and passed is None:
                value.__context__ = failures[0]
                return False
            raise failures[0] from None

    async def start(self) -> None:
        """Start, and return when clients are served."""
        if self._nursery is None:
            raise IllegalStateException("start() needs the scope of 'async with': enter the broker first")
        if self._run is not None:
            raise IllegalStateException("the broker is running already")
        if self._is_starting:
            raise IllegalStateException("the broker is being started by another task")
        run = _Run(self.config, self._disk_given, self._logger)
        self._is_starting = True
        try:
            await run.start(self._nursery)
        except BaseException:  # a cancellation, too, must not leave the directory locked
            run.close()
            raise
        finally:
            self._is_starting = False
        self._run = run

    async def stop(self) -> None:
        """Stop in an orderly way: clients are told, the journal is sealed. Stopping twice is fine."""
        run, self._run = self._run, None
        if run is not None:
            try:
                await run.stop()
            finally:
                run.close()
        else:
            await trio.lowlevel.checkpoint()

    async def crash(self) -> None:
        """End at once, as if the process had been killed: nobody is told, nothing is sealed."""
        self.kill()
        await trio.lowlevel.checkpoint()

    def kill(self) -> None:
        """What `crash` does, for callers that cannot await."""
        run, self._run = self._run, None
        if run is not None:
            run.close()

    async def wait_failed(self) -> str:
        """Return the reason once the broker stops by itself (a disk that fails)."""
        run = self._running()
        await run.host.stopped.wait()
        return run.host.failure or "stopped"

    # -- XA branches in doubt ------------------------------------------------------------------------------------

    @property
    def prepared_branches(self) -> list[Xid]:
        """The XA branches that were prepared and wait for their transaction managers, oldest first."""
        return [branch.xid for branch in self._running().host.node.kernel.branches.prepared()]

    async def commit_branch(self, xid: Xid) -> bool:
        """Commit a prepared branch in place of its transaction manager, which is lost; False when there is none.

        Should the manager come back, it is told that the branch was committed heuristically, until it forgets it.
        """
        return await self._decide(xid, commit=True)

    async def rollback_branch(self, xid: Xid) -> bool:
        """Roll a prepared branch back in place of its transaction manager; see `commit_branch`."""
        return await self._decide(xid, commit=False)

    async def _decide(self, xid: Xid, *, commit: bool) -> bool:
        found = await self._running().host.decide(xid, commit=commit)
        if found is None:
            raise IllegalStateException("the broker stopped before the decision was durable")
        return found

    @classmethod
    def in_thread(cls, config: BrokerConfig | None = None, **options: object) -> ThreadedBroker:
        """Return the same broker in a thread of its own, for synchronous and asyncio programs."""
        from ._threaded import ThreadedBroker

        return ThreadedBroker(config, options)


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error


class _Run:
    """One life of a broker, from start to stop or crash."""

    def __init__(self, config: BrokerConfig, disk: Disk | None, logger: logging.Logger) -> None:
        self._config = config
        self._disk_given = disk
        self._logger = logger
        self._listeners: list[Listener] = []
        self._directory: OpenDirectory | None = None
        # Shielded: a cancellation around the broker must not end its disk before it has stopped in order.
        self._scope = trio.CancelScope(shield=True)
        self._begun = trio.Event()
        self._inner: trio.Nursery
        self.host: Host
        self.port = 0
        self.vm_name = ""

    async def start(self, nursery: trio.Nursery) -> None:
        config = self._config
        disk, settings = self._disk_given, None
        if config.data_directory is not None or disk is not None:
            disk, settings = self._open_directory()
        limit = config.global_max_size_bytes
        node = Node(config, SystemEntropy(), usable_memory_bytes() // 2 if limit is None else limit, settings)
        # Not nursery.start(): cancelled, it would wait for a task that a cancellation does not reach.
        nursery.start_soon(self._live, node, disk)
        await self._begun.wait()
        await self.host.ready.wait()
        if self.host.failure is not None:
            raise BrokerFailed(self.host.failure)
        await self._listen()

    def _open_directory(self) -> tuple[Disk, JournalSettings]:
        from ._directory import open_directory

        opened = self._directory = open_directory(self._config, self._disk_given)
        return opened.disk, opened.settings

    async def _live(self, node: Node, disk: Disk | None) -> None:
        """Everything of this life runs in here; closing cancels it."""
        if self._scope.cancel_called:
            return
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    self.host = Host(node, nursery, disk, self._logger, lambda _failure: self._stop_listening())
                    self._inner = nursery
                    self.host.start()
                    self._begun.set()
        except BaseExceptionGroup as group:
            bugs, _cancellations = group.split(Exception)
            if bugs is None:
                raise
            # A bug of ours: this broker is over as if it had crashed, others in the process live on.
            self._logger.critical("broker %r failed", self._config.name, exc_info=bugs)
            text = f"broker {self._config.name!r} failed: {next(_leaves(bugs))!r}"
            self.host.failed(text)
            raise BrokerFailed(text) from bugs

    async def _listen(self) -> None:
        config = self._config
        try:
            bound = await listen_tcp(config.host, config.port)
        except (TransportLost, OSError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            place = "" if reason.startswith("cannot listen") else f"cannot listen on {config.host}:{config.port}: "
            raise ResourceAllocationException(f"{place}{reason}") from error
        self._listeners.extend(bound)
        self.port = bound[0].port
        self._listeners.append(self._listen_vm(config.name))
        for listener in self._listeners:
            self._inner.start_soon(self.host.serve, listener)

    def _listen_vm(self, name: str) -> Listener:
        number = 0
        while True:
            candidate = name if number == 0 else f"{name}-{number}"
            try:
                listener = vm_listen(candidate)
            except OSError:
                number += 1
                continue
            self.vm_name = candidate
            return listener

    def _stop_listening(self) -> None:
        for listener in self._listeners:
            listener.close()

    async def stop(self) -> None:
        self._stop_listening()
        if not self.host.stopped.is_set():
            self.host.stop()
        await self.host.stopped.wait()

    def close(self) -> None:
        self._stop_listening()
        if hasattr(self, "host"):
            self.host.give_up()
        self._scope.cancel()
        directory, self._directory = self._directory, None
        if directory is not None:
            directory.close()
