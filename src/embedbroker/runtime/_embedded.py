"""`EmbeddedBroker`: a broker inside this process, owned by an async scope.

Responsible for starting and stopping one host with its listeners, directory and lock. Maps failures at the edge to
errors a user can read. Decides nothing about messages.

`ThreadedBroker` is its blocking counterpart in a separate thread, for synchronous tests and programs and for asyncio
programs. It adds no behaviour: every method runs the method of the same name inside the thread's trio run.
"""

from __future__ import annotations

import atexit
import logging
import math
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar, Unpack, cast
from urllib.parse import quote

import outcome
import trio
from attrs import evolve, fields_dict

from embedbroker.config import (
    AcceptorConfig,
    BrokerConfig,
    Colocated,
    LockManager,
    PrimaryOnly,
    ReplicationBackup,
    ReplicationPrimary,
    Role,
    SharedStoreBackup,
    SharedStorePrimary,
    check_beside_acceptors,
    misfits,
)
from embedbroker.node import check_filters, check_passwords
from embedclient.errors import (
    BrokerFailed,
    IllegalStateException,
    InvalidDestinationException,
    ResourceAllocationException,
)
from embedclient.model import Place, RoutingType, TransportConfiguration, Xid, did_you_mean, start_thread, summary
from embedclient.transport import TrioBackgroundScope

from . import _types
from ._endpoint import Endpoint, Network, open_endpoint, place_of
from ._life import Life, leaves
from ._role_watch import Observer, RoleWatch
from ._shortage import caused_by_shortage

__all__ = ["EmbeddedBroker", "ThreadedBroker", "life_of", "observe"]

T = TypeVar("T")

STOP_TIMEOUT_S = 10.0
_LOOK_EVERY_S = 0.01
_TRY_EVERY_S = 0.5
#: How long a backup that found a full disk leaves the right to be live to others, from the first time on.
NO_ROOM_PAUSE_S = 2.0
NO_ROOM_PAUSE_S_MAX = 30.0
_SETTINGS = fields_dict(BrokerConfig)


class EmbeddedBroker:
    """A message broker in this process.

    Use it as ``async with EmbeddedBroker() as broker``: entering starts it, leaving stops it. Without a block,
    ``broker = await EmbeddedBroker().start()`` is one that runs until its `close`. A broker can be started again after
    it stopped or crashed, and one with a directory restores its durable messages. An in-memory broker loses everything
    with `stop` and `crash`.

    A backup (see ``ha_policy``) is started when it waits: `role` is its current role, `wait_for_role` waits for one.
    Only a live broker has a ``url``.

    Args:
        config: a `BrokerConfig`, or None for an in-memory broker on a free port of 127.0.0.1. Keyword arguments replace
            single values of the configuration: ``EmbeddedBroker(data_directory="data", port=61616)``.
        disk: a `Disk` that replaces the directory's files, for tests.
        locks: a store that replaces the lock files: the brokers of one live and backup group in this process may share
            a `MemoryLocks`.
        network: replaces TCP, for tests.
        datagrams: replaces UDP multicast, for tests.
        lock_manager: replaces the lock manager of a replicating broker's policy: the brokers of one process may share a
            `MemoryLockManager`.
        make_backup: returns the broker for the configuration of a hosted backup and the node id that it is for, in
            place of ``EmbeddedBroker(config)``, for tests.
        changes: values of `BrokerConfig` that replace those of ``config``, by their names.

    Raises:
        ResourceAllocationException: on entering or `start`; the text names the port or directory that is not available.
        BrokerFailed: on entering or `start`; the journal cannot be read, and the text names file and offset.
        BrokerFailed: from the block; a bug of the broker ended it.
        TypeError: an argument has another type, or a keyword is no setting of `BrokerConfig`.
    """

    def __init__(
        self,
        config: BrokerConfig | None = None,
        *,
        disk: _types.Disk | None = None,
        locks: _types.Locks | None = None,
        network: Network | None = None,
        datagrams: _types.Datagrams | None = None,
        lock_manager: _types.LockManagers | None = None,
        make_backup: Callable[[BrokerConfig, str], _types.HostableBroker] | None = None,
        **changes: Unpack[_types.BrokerSettings],
    ) -> None:
        if config is not None and not isinstance(config, BrokerConfig):
            raise TypeError(f"config must be a BrokerConfig, not {type(config).__name__}")
        for name in changes:
            if name not in _SETTINGS:
                raise TypeError(f"a broker has no setting {name!r}{did_you_mean(name, _SETTINGS)}")
        if "data_directory" in changes:
            # The directory of a file belongs to the journal that the file names: another journal has its own, or none.
            changes.setdefault("large_messages_directory", None)
        if config is not None and config.acceptors and "acceptors" not in changes:
            # Also those with the value of a default, which would change nothing.
            check_beside_acceptors(changes)
        given = cast(dict[str, Any], changes)
        self.config = BrokerConfig(**given) if config is None else evolve(config, **given)
        if "user_source" not in changes and _gives_users(self.config, changes):
            # Files must not replace what the program gives.
            self.config = evolve(self.config, user_source=None)
        check_filters(self.config)
        check_passwords(self.config)
        _check_parts(disk=disk, locks=locks, network=network)
        _check_policy(self.config, disk, locks, lock_manager)
        self._disk_given = disk
        self._network = network
        self._datagrams = datagrams
        self._locks_given: _types.Locks | _types.LockManagers | None = locks
        if isinstance(self.config.own_policy, ReplicationPrimary | ReplicationBackup):
            self._locks_given = lock_manager or _configured_manager(self.config.own_policy)
        self._watch = RoleWatch()
        self._logger = logging.getLogger("embedbroker.broker")
        self._hosted = self._make_hosted(make_backup) if isinstance(self.config.ha_policy, Colocated) else None
        for misfit in misfits(self.config):
            self._logger.warning("broker %r: %s", self.config.name, misfit)
        self._manager: AbstractAsyncContextManager[trio.Nursery] | None = None
        self._nursery: trio.Nursery | None = None
        self._run: _Run | None = None
        # What `start` began without a block.
        self._background: TrioBackgroundScope[None] | None = None
        self._is_starting = False
        # Later starts have the same configuration, and what was adopted meanwhile is newer.
        self._was_started = False
        # A call on an instance would make another broker, with default settings: in memory, and open to everyone.
        vars(self)["in_thread"] = _refuse_in_thread

    def __repr__(self) -> str:
        return summary(self, *self._shown)

    def _make_hosted(
        self, make_backup: Callable[[BrokerConfig, str], _types.HostableBroker] | None
    ) -> _types.HostedBackups:
        """Return what runs the backups of other brokers in this process."""
        from ._hosted_backups import HostedBackups, absolute

        # Another process, with another working directory, opens these.
        self.config = absolute(self.config)
        given, network, datagrams = self._locks_given, self._network, self._datagrams
        manager = (
            cast("_types.LockManagers | None", given)
            if isinstance(self.config.own_policy, ReplicationPrimary)
            else None
        )

        def make(config: BrokerConfig, node_id: str) -> EmbeddedBroker:
            return EmbeddedBroker(config, network=network, datagrams=datagrams, lock_manager=manager)

        return HostedBackups(self.config, make_backup or make, self._logger, has_lock_manager=manager is not None)

    # -- where it is ---------------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """The address that clients connect to over TCP, for example ``tcp://127.0.0.1:40123``.

        With TLS it ends in ``?sslEnabled=true``. Of a broker with several acceptors it is that of the first one that
        was started. Without any it is `vm_url`.

        Raises:
            IllegalStateException: the broker does not run, or is not live. `vm_url` and `port` raise it, too.
        """
        return next(iter(self.urls.values()), self.vm_url)

    @property
    def urls(self) -> dict[str, str]:
        """The addresses that clients connect to over TCP, by the names of the acceptors; the first one is `url`.

        Raises:
            IllegalStateException: the broker does not run, or is not live.
        """
        return {
            acceptor.name: _url_of(acceptor, port)
            for acceptor, port in zip(self.config.listens_at, self._serving().ports(), strict=True)
            if port
        }

    @property
    def vm_url(self) -> str:
        """The address that clients in the same trio run connect to without a socket."""
        return f"vm://{quote(self._serving().vm_name, safe='')}"

    @property
    def port(self) -> int:
        """The TCP port that the broker listens on, that of `url`; 0 if it is on no network."""
        return next(filter(None, self._serving().ports()), 0)

    @property
    def is_running(self) -> bool:
        """True if the broker was started and has neither stopped nor failed."""
        return self._run is not None and self._watch.role is not Role.STOPPED

    @property
    def _shown(self) -> tuple[str, ...]:
        is_reachable = self._run is not None and self._run.life.serves and self.role is Role.LIVE
        return (repr(self.config.name), self.role.value, *([f"at {self.url}"] if is_reachable else []))

    def _serving(self) -> Life:
        life = life_of(self)
        if not life.serves or self.role in (Role.BACKUP, Role.ACTIVATING):
            raise IllegalStateException(f"the broker is not live, it has no address: its role is {self.role.value}")
        return life

    # -- what it is ----------------------------------------------------------------------------------------------

    @property
    def role(self) -> Role:
        """The current role in the live and backup group; without a group the broker is live while it runs."""
        return self._watch.role

    @property
    def node_id(self) -> str:
        """The id that a primary and its backups share, and keep as long as their directory; empty until it is known."""
        return life_of(self).host.node.node_id

    async def wait_for_role(self, *roles: Role) -> None:
        """Wait until the broker has one of ``roles``; return at once if it has one now.

        Args:
            roles: one role or more.

        Raises:
            BrokerFailed: the broker stopped by itself.
            IllegalStateException: the broker was stopped, or was not started.
            TypeError: no role is given, or an argument is not a role.
        """
        if not roles or not all(isinstance(role, Role) for role in roles):
            raise TypeError(f"wait_for_role takes one Role or several, not {roles!r}")
        await self._watch.wait_for(*roles)

    @property
    def hosted_backups(self) -> list[_types.HostedBackup]:
        """The backups of other brokers that run in this process at this moment; empty unless it is colocated."""
        return self._hosted.states() if self._hosted is not None else []

    async def wait_for_hosted_backup(self, *roles: Role) -> _types.HostedBackup:
        """Wait until the broker hosts a backup that has one of ``roles``, and return it.

        Args:
            roles: one role or more.

        Raises:
            IllegalStateException: the broker does not run, or is not colocated.
            TypeError: no role is given, or an argument is not a role.
        """
        if not roles or not all(isinstance(role, Role) for role in roles):
            raise TypeError(f"wait_for_hosted_backup takes one Role or several, not {roles!r}")
        found = self.hosted_backups
        while True:
            for each in found:
                if each.role in roles:
                    await trio.lowlevel.checkpoint()
                    return each
            found = await self.wait_hosted_backups_change(found)

    async def wait_hosted_backups_change(self, known: Sequence[_types.HostedBackup]) -> list[_types.HostedBackup]:
        """Wait until `hosted_backups` is not what is known, because one begins, ends or has another role; return it.

        Args:
            known: what `hosted_backups` was before.

        Raises:
            IllegalStateException: the broker does not run, or is not colocated.
        """
        while True:
            if self._hosted is None or not self.is_running:
                raise IllegalStateException("the broker hosts no backup: it is not colocated, or not running")
            found = self._hosted.states()
            if found != list(known):
                await trio.lowlevel.checkpoint()
                return found
            await self._hosted.changed()

    @property
    def is_in_sync(self) -> bool:
        """True if this is a live broker with a replicating backup that has all it confirmed, or such a backup."""
        return self._watch.in_sync

    async def wait_in_sync(self) -> None:
        """Wait until `is_in_sync`.

        Raises:
            BrokerFailed: the broker stopped by itself.
            IllegalStateException: the broker was stopped, or was not started.
        """
        await self._watch.wait_in_sync()

    async def wait_out_of_sync(self) -> None:
        """Wait until not `is_in_sync`, because the other broker is gone, or because this one stopped itself."""
        await self._watch.wait_out_of_sync()

    # -- scope ---------------------------------------------------------------------------------------------------

    if not TYPE_CHECKING:

        def __enter__(self) -> NoReturn:
            raise TypeError(
                "'with EmbeddedBroker()' needs 'async with' in a trio program; elsewhere use "
                "'with EmbeddedBroker.in_thread()'"
            )

        def __exit__(self, *_: object) -> None:
            pass

    async def __aenter__(self) -> Self:
        # `async with await broker.start()`: from now on the block owns what `start` began.
        return self if self._background is not None else await self._enter()

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if self._background is None:
            return await self._exit(value)
        await self.close()
        return False

    @asynccontextmanager
    async def _entered(self) -> AsyncIterator[None]:
        await self._enter()
        try:
            yield
        except BaseException as error:
            if not await self._exit(error):
                raise
        else:
            await self._exit(None)

    async def _enter(self) -> Self:
        if self._manager is not None:
            raise IllegalStateException("the broker is in use by another scope")
        _check_trio()
        self._manager = trio.open_nursery()
        self._nursery = await self._manager.__aenter__()
        try:
            await self._start_in(self._nursery)
        except BaseException as error:  # any exception: a scope that was not entered is never left
            await self._leave(error)
            raise
        return self

    async def _exit(self, value: BaseException | None) -> bool:
        try:
            # A scale-down takes as long as its messages do; it ends by itself when the other broker is silent.
            timeout_s = math.inf if self._scales_down else STOP_TIMEOUT_S
            with trio.CancelScope(deadline=trio.current_time() + timeout_s, shield=True):
                await self.stop()
        finally:
            self.kill()
            absorbed = await self._leave(value)
        return absorbed

    @property
    def _scales_down(self) -> bool:
        """Return True if the stop is the end of a scale-down, which was requested or is the policy."""
        if self._run is not None and self._run.life.host.node.is_scaling_down:
            return True
        policy = self.config.own_policy
        return isinstance(policy, PrimaryOnly) and policy.scale_down is not None and policy.scale_down.enabled

    async def _leave(self, value: BaseException | None) -> bool:
        """Close the nursery. A user's exception passes it unchanged; a failed broker becomes one BrokerFailed."""
        manager, nursery = self._manager, self._nursery
        self._manager = self._nursery = None
        assert manager is not None and nursery is not None
        nursery.cancel_scope.cancel()
        # Only a cancellation concerns the nursery: a broker that failed may have cancelled the nursery itself.
        passed = value if isinstance(value, trio.Cancelled) else None
        try:
            absorbed = await manager.__aexit__(
                type(passed) if passed else None, passed, passed.__traceback__ if passed else None
            )
            # A nursery that ends well returns "absorbed" even when it was given no exception: then the exception comes
            # from outside.
            return bool(absorbed) and passed is not None
        except BaseExceptionGroup as group:
            failures = [error for error in leaves(group) if not isinstance(error, trio.Cancelled)]
            if not failures:
                raise
            if value is not None and passed is None:
                value.__context__ = failures[0]
                return False
            raise failures[0] from None

    async def start(self) -> Self:
        """Start, and return the broker when clients are served, or a backup waits.

        Outside a block the broker runs until `close`. A broker that the program does not close ends with the trio run,
        in order, and gives a ResourceWarning with the line of this call. It starts again after `stop` or `crash`, in a
        block too, and after it stopped by itself.

        Raises:
            IllegalStateException: the broker runs already, or the program does not run on trio.
            ResourceAllocationException: port or directory is not available; the text names it.
            BrokerFailed: the journal cannot be read; the text names file and offset.
        """
        nursery, former = self._nursery, self._background
        # A bug cancels the nursery.
        if nursery is not None and (former is None or not nursery.cancel_scope.cancel_called):
            await self._start_in(nursery)
            return self
        _check_trio()
        if former is not None and former.is_entered:
            # A bug ended it, which is in the log.
            await former.wait_ended()
        if self._background is not former or (former is not None and not former.is_entered):
            raise IllegalStateException("the broker is being started by another task")
        scope = TrioBackgroundScope(self._entered(), Place.of_caller(), "broker", "embedbroker")
        background = self._background = scope
        try:
            await background.enter()
        except BaseException:  # any exception: nothing was started
            if self._background is background:
                self._background = None
            raise
        return self

    async def close(self) -> None:
        """Stop, and end what `start` began without a block. In a block, and the second time, this is `stop`.

        Raises:
            BrokerFailed: a bug of the broker ended it.
        """
        background, self._background = self._background, None
        if background is None:
            await self.stop()
        else:
            await background.leave()

    async def _start_in(self, nursery: trio.Nursery) -> None:
        if self.is_running:
            raise IllegalStateException("the broker is running already")
        if self._is_starting:
            raise IllegalStateException("the broker is being started by another task")
        self._is_starting = True
        try:
            if self._run is not None:  # it stopped by itself
                await self.stop()
            place = await open_endpoint(self.config, self._network, self._datagrams)
            run = _Run(
                place,
                self._disk_given,
                self._locks_given,
                self._logger,
                self._watch,
                deletes_missing=not self._was_started,
                hosted=self._hosted,
            )
            try:
                await run.start(nursery)
            except BaseException:  # a cancellation, too, must not leave the directory locked
                run.close()
                raise
        finally:
            self._is_starting = False
        self._run = run
        self._was_started = True

    async def stop(self, *, failover: bool = False) -> None:
        """Stop in an orderly way: clients are notified, the journal is sealed.

        Stopping twice is allowed. There is no time-out.

        Args:
            failover: a backup takes over, even if the policy excludes that for an orderly stop.
        """
        run, self._run = self._run, None
        if run is not None:
            try:
                await run.stop(fails_over=failover)
            finally:
                run.close()
        else:
            await trio.lowlevel.checkpoint()

    async def scale_down(self, to: str | TransportConfiguration | None = None) -> int:
        """Move everything to another broker, then stop; return the number of messages that moved.

        Clients that reconnect go on at the other broker. There is no time-out. While no other broker can be reached,
        this one serves on.

        Args:
            to: name of a connector of the configuration, a URL, or a connector; None: the choice of the policy's
                ``scale_down``, else another member of the cluster.

        Raises:
            IllegalStateException: the broker is not live, no other broker takes the messages, or some of them stay
                here. In the last case the broker is stopped, and the text names the reason.
            ValueError: the URL cannot be used.
        """
        connector = None if to is None else self.config.connector_to(to)
        host = self._serving().host
        answer = await host.scale_down(connector)
        if answer is None:
            raise IllegalStateException("the broker stopped before everything was moved")
        moved, failure = answer
        if failure is not None and host.node.is_running:
            raise IllegalStateException(f"the broker serves on, it cannot scale down: {failure}")
        await self.stop()
        if failure is not None:
            raise IllegalStateException(f"the broker is stopped, and did not scale down completely: {failure}")
        assert isinstance(moved, int)
        return moved

    async def crash(self) -> None:
        """End at once, as if the process had been killed: clients are not notified, the journal is not sealed."""
        self.kill()
        await trio.lowlevel.checkpoint()

    def kill(self) -> None:
        """Do what `crash` does, for callers that cannot await."""
        run, self._run = self._run, None
        if run is not None:
            run.close()

    async def wait_failed(self) -> str:
        """Return the reason once the broker stops by itself (a disk that fails); "stopped" when it was stopped.

        Raises:
            IllegalStateException: the broker does not run.
        """
        life_of(self)
        await self._watch.wait_for(Role.STOPPED)
        return self._watch.failure or "stopped"

    # -- queues --------------------------------------------------------------------------------------------------

    def queues(self) -> list[_types.QueueInfo]:
        """Return the figures of all queues at this moment, in order of their names.

        Raises:
            IllegalStateException: the broker is not live. The methods for one queue raise it, too.
        """
        from ._management import QueueInfo

        found = self._serving().host.node.kernel.address_manager.queues
        return [
            QueueInfo(
                name=name,
                address=queue.definition.address,
                routing_type=RoutingType(queue.definition.routing_type).name,
                durable=queue.durable,
                message_count=queue.message_count,
                delivering_count=queue.delivering_count,
                consumer_count=queue.consumer_count,
                messages_added=queue.added_count,
                messages_acknowledged=queue.acknowledged_count,
            )
            for name, queue in sorted(found.items())
        ]

    def queue(self, name: str) -> _types.QueueInfo:
        """Return the figures of a queue at this moment: ``broker.queue("orders").message_count``.

        Args:
            name: name of the queue.

        Raises:
            InvalidDestinationException: no queue has this name.
        """
        found = {each.name: each for each in self.queues()}
        if name not in found:
            raise InvalidDestinationException(f"there is no queue {name!r}{did_you_mean(name, found)}")
        return found[name]

    async def wait_for(
        self, *, queue: str, count: int | None = None, consumers: int | None = None, timeout: float | None = 10.0
    ) -> None:
        """Wait until a queue has exactly ``count`` messages and ``consumers`` consumers.

        A queue that does not exist has none of either.

        Args:
            queue: name of the queue.
            count: messages, those in delivery included; None for any number. Either this or ``consumers`` is needed.
            consumers: number of consumers; None for any number.
            timeout: seconds; None to wait for ever.

        Raises:
            TimeoutError: it had not in time; the text has the figures of the queue.
            TypeError: neither ``count`` nor ``consumers`` is given.
        """
        if count is None and consumers is None:
            raise TypeError("wait_for() needs a count of messages, or of consumers")
        with trio.move_on_after(math.inf if timeout is None else timeout):
            while True:
                found = self._serving().host.node.kernel.address_manager.queues.get(queue)
                has = (0, 0) if found is None else (found.message_count, found.consumer_count)
                if count in (None, has[0]) and consumers in (None, has[1]):
                    return
                await trio.sleep(_LOOK_EVERY_S)
        wishes = [f"{count} messages"] * (count is not None) + [f"{consumers} consumers"] * (consumers is not None)
        figures = f"{has[0]} messages and {has[1]} consumers"
        raise TimeoutError(f"queue {queue} has {figures} after {timeout:g} s, not {' and '.join(wishes)}")

    async def create_queue(
        self,
        name: str,
        *,
        address: str | None = None,
        routing_type: str = "ANYCAST",
        filter: str | None = None,
        durable: bool = True,
        max_consumers: int = -1,
    ) -> None:
        """Create a queue, and its address if it does not exist, as `Management.create_queue` does.

        Args:
            name: name of the queue.
            address: address that it is bound to; None takes the name of the queue.
            routing_type: ``ANYCAST`` or ``MULTICAST``.
            filter: selector for the messages that it takes; None takes all.
            durable: whether it survives a restart.
            max_consumers: maximum number of consumers; -1 sets no limit.
        """
        await self.management.create_queue(
            name,
            address=address,
            routing_type=routing_type,
            filter=filter,
            durable=durable,
            max_consumers=max_consumers,
        )

    async def delete_queue(self, name: str, *, closes_consumers: bool = False) -> None:
        """Delete a queue with its messages, as `Management.delete_queue` does.

        Args:
            name: name of the queue.
            closes_consumers: whether its consumers are closed; otherwise a queue with consumers is refused.
        """
        await self.management.delete_queue(name, closes_consumers=closes_consumers)

    async def purge(self, name: str) -> int:
        """Remove the messages that wait in a queue, and return how many there were. Those in delivery stay.

        Args:
            name: name of the queue.
        """
        return await self.management.purge_queue(name)

    # -- XA branches in doubt ------------------------------------------------------------------------------------

    @property
    def prepared_branches(self) -> list[Xid]:
        """The XA branches that were prepared and wait for their transaction managers, oldest first."""
        return [branch.xid for branch in self._serving().host.node.kernel.branches.prepared()]

    async def commit_branch(self, xid: Xid) -> bool:
        """Commit a prepared branch in place of its lost transaction manager; return False if there is no such branch.

        If the manager returns, it receives the result "heuristically committed", until it forgets the branch.

        Args:
            xid: id of the branch.

        Raises:
            IllegalStateException: the broker is not live, or stopped before the decision was durable.
        """
        return await self._decide(xid, commit=True)

    async def rollback_branch(self, xid: Xid) -> bool:
        """Roll a prepared branch back in place of its lost transaction manager; return False if it does not exist.

        If the manager returns, it receives the result "heuristically rolled back", until it forgets the branch.

        Args:
            xid: id of the branch.

        Raises:
            IllegalStateException: the broker is not live, or stopped before the decision was durable.
        """
        return await self._decide(xid, commit=False)

    async def _decide(self, xid: Xid, *, commit: bool) -> bool:
        found = await self._serving().host.decide(xid, commit=commit)
        if found is None:
            raise IllegalStateException("the broker stopped before the decision was durable")
        return found

    @property
    def management(self) -> _types.Management:
        """Attributes and operations of the broker: queues, addresses, connections; see `Management`."""
        from ._management import Management

        return Management(lambda: self._serving().host)

    @classmethod
    def in_thread(cls, config: BrokerConfig | None = None, **options: Unpack[_types.BrokerOptions]) -> ThreadedBroker:
        """Return the same broker in a separate thread, for synchronous and asyncio programs.

        Use it as ``with EmbeddedBroker.in_thread(port=61616) as broker``.

        Args:
            config: a `BrokerConfig`, or None for an in-memory broker on a free port of 127.0.0.1.
            options: the other arguments of `EmbeddedBroker`.

        Raises: as `EmbeddedBroker`.
        """
        return ThreadedBroker(config, options)


def _check_trio() -> None:
    if not trio.lowlevel.in_trio_task():
        raise IllegalStateException(
            "'async with EmbeddedBroker()' needs trio: elsewhere use 'with EmbeddedBroker.in_thread()'"
        )


def _refuse_in_thread(*_config: object, **_options: object) -> NoReturn:
    raise TypeError(
        "in_thread is called on the class, with the settings: EmbeddedBroker.in_thread(port=61616); "
        "EmbeddedBroker(port=61616).in_thread() would lose them"
    )


def observe(broker: EmbeddedBroker, observer: Observer) -> None:
    """Let an observer follow a broker that is not running: from its next start on."""
    broker._watch.observer = observer


def _url_of(acceptor: AcceptorConfig, port: int) -> str:
    parameters = "" if acceptor.tls is None else "?sslEnabled=true"
    return f"tcp://{place_of(acceptor, port)}{parameters}"


def life_of(broker: EmbeddedBroker) -> Life:
    """Return the current life of a broker.

    Raises:
        IllegalStateException: the broker does not run.
    """
    if broker._run is None:
        raise IllegalStateException("the broker is not running")
    return broker._run.life


def _gives_users(config: BrokerConfig, changes: Mapping[str, object]) -> bool:
    """Return True if a program gives users or guest login itself, by name or in a configuration that it changed."""
    if "users" in changes or "guest" in changes:
        return True
    return config.user_source is not None and config.user_source.loaded != (config.users, config.guest)


def _check_parts(**parts: object) -> None:
    methods = {"disk": "run", "locks": "open", "network": "listen"}
    for name, part in parts.items():
        if part is not None and not callable(getattr(part, methods[name], None)):
            raise TypeError(f"{name} must be a {name.capitalize()}, not {part!r}: it has no method {methods[name]}")


def _check_policy(
    config: BrokerConfig, disk: _types.Disk | None, locks: _types.Locks | None, lock_manager: _types.LockManagers | None
) -> None:
    policy = config.own_policy
    if isinstance(config.ha_policy, Colocated) and not config.cluster_connections:
        raise ValueError("ha_policy Colocated needs cluster_connections to find the other brokers")
    if isinstance(policy, ReplicationPrimary | ReplicationBackup):
        if config.data_directory is None and disk is None:
            raise ValueError(
                f"ha_policy {type(policy).__name__} needs a data_directory that no other broker has, or a disk"
            )
        if not config.cluster_connections:
            raise ValueError(f"ha_policy {type(policy).__name__} needs cluster_connections to find the other broker")
        if locks is not None:
            raise ValueError(f"ha_policy {type(policy).__name__} takes a lock_manager, not locks of a shared store")
        if isinstance(lock_manager, LockManager):
            raise TypeError("a LockManager(...) that names a class belongs into the lock_manager of the ha_policy")
        return
    if lock_manager is not None:
        raise ValueError(f"a lock_manager is for replicating brokers; the ha_policy is {type(policy).__name__}")
    if not isinstance(policy, PrimaryOnly) and config.data_directory is None and locks is None:
        raise ValueError(f"ha_policy {type(policy).__name__} needs the data_directory that its group shares, or locks")


def _configured_manager(policy: ReplicationPrimary | ReplicationBackup) -> _types.LockManagers | None:
    if policy.lock_manager is None:
        return None
    from ._coordination import lock_manager_of

    return lock_manager_of(policy.lock_manager)


class _Run:
    """From a start to a stop, crash or failure: one life, or several when the broker gives way and waits again."""

    def __init__(
        self,
        place: Endpoint,
        disk: _types.Disk | None,
        locks: _types.Locks | _types.LockManagers | None,
        logger: logging.Logger,
        watch: RoleWatch,
        *,
        deletes_missing: bool,
        hosted: _types.HostedBackups | None,
    ) -> None:
        config = place.config
        self._place = place

        def begin_life(*, deletes_missing: bool = False) -> Life:
            return Life(place, disk, locks, logger, watch, deletes_missing=deletes_missing, hosted=hosted)

        self._begin_life: Callable[[], Life] = begin_life
        self._watch = watch
        self._policy = config.own_policy
        self._closed = False
        watch.become(Role.ACTIVATING if isinstance(config.own_policy, PrimaryOnly) else Role.BACKUP)
        try:
            # Later lives have the same configuration, and what was adopted meanwhile is newer.
            self.life = begin_life(deletes_missing=deletes_missing)
        except BaseException:  # any exception: no task may wait for a role that never comes, and the port is free again
            watch.become(Role.STOPPED)
            place.give_back()
            raise

    async def start(self, nursery: trio.Nursery) -> None:
        # Not nursery.start(): cancelled, it would wait for a task that a cancellation does not reach.
        nursery.start_soon(self._live)
        policy, watch = self._policy, self._watch
        # A replicating primary may find that another broker is live in its place.
        backup = isinstance(policy, SharedStoreBackup | ReplicationPrimary | ReplicationBackup)
        if isinstance(policy, SharedStorePrimary):
            backup = not policy.wait_for_activation
        first = self.life
        first.start_raises = not backup
        try:
            if backup:
                await first.waits_or_serves.wait()
            await watch.wait_for(Role.LIVE, *([Role.BACKUP] if backup else []))
        except (BrokerFailed, IllegalStateException):
            if first.refusal is not None:
                raise first.refusal from None
            raise

    async def _live(self) -> None:
        pause_s = NO_ROOM_PAUSE_S
        while True:
            life = self.life
            await life.run()
            if not self._goes_on(life):
                return
            if life.host.failure is not None:
                pause_s = NO_ROOM_PAUSE_S if life.serves else min(2 * pause_s, NO_ROOM_PAUSE_S_MAX)
                await trio.sleep(pause_s)
            while not self._closed:
                try:
                    self.life = self._begin_life()
                    break
                except ResourceAllocationException as error:
                    if not caused_by_shortage(error):
                        self._watch.become(Role.STOPPED, str(error))
                        return
                await trio.sleep(_TRY_EVERY_S)

    def _goes_on(self, life: Life) -> bool:
        return not self._closed and life.host.restarts

    async def stop(self, *, fails_over: bool) -> None:
        await self.life.stop(fails_over=fails_over)

    def close(self) -> None:
        self._closed = True
        self.life.close()
        self._place.give_back()
        self._watch.become(Role.STOPPED)


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
    """An `EmbeddedBroker` that blocks. Made by `EmbeddedBroker.in_thread`.

    Use it as ``with EmbeddedBroker.in_thread() as broker``, or `start` and `close` it.

    Safe to call from any thread except the broker's. ``vm_url`` does not work from another thread; use ``url``.
    """

    def __init__(self, config: BrokerConfig | None, options: _types.BrokerOptions) -> None:
        self._broker = EmbeddedBroker(config, **options)
        self._thread: threading.Thread | None = None
        # The process of that thread. A child that is forked from it has a copy of this object, but not the thread.
        self._process_id = 0
        self._token: trio.lowlevel.TrioToken | None = None
        self._begun = threading.Event()
        self._leave: trio.Event | None = None
        self._life = _Life()
        self._error: BaseException | None = None
        # Where the program started it, if it did so without a block.
        self._opened_at: Place | None = None

    def __repr__(self) -> str:
        return summary(self, *self._broker._shown)

    @property
    def config(self) -> BrokerConfig:
        """The configuration that the broker runs with."""
        return self._broker.config

    @property
    def url(self) -> str:
        """The URL that clients connect to."""
        return self._broker.url

    @property
    def urls(self) -> dict[str, str]:
        """The URLs that clients connect to, by the names of the acceptors."""
        return self._broker.urls

    @property
    def port(self) -> int:
        """The TCP port that the broker listens on, that of `url`; 0 if it is on no network."""
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
        if self._opened_at is not None:
            # `with broker.start()`: from now on the block owns what `start` began.
            self._forget_to_warn()
            return self
        if self._thread is not None:
            raise IllegalStateException("the broker is in use by another scope")
        self._begin()
        return self

    def _begin(self) -> None:
        """Start a thread with a broker, and wait for it."""
        self._begun.clear()
        self._error = None
        self._life = _Life()
        self._process_id = os.getpid()
        self._thread = threading.Thread(target=self._run, name=f"embedbroker {self._broker.config.name}", daemon=True)
        try:
            start_thread(self._thread.start, "a broker in a thread")
        except ResourceAllocationException:
            self._thread = None
            raise
        try:
            self._begun.wait()
        except BaseException:  # Ctrl-C while a journal is read: the scope was not entered, so it would never be left
            self._life.cancel()
            self._join(quiet=True)
            raise
        if self._token is None:
            self._join()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end(quiet=value is not None)

    def _end(self, *, quiet: bool = False) -> None:
        """End the broker in order, and its thread."""
        if self._is_inherited():
            return
        self._forget_to_warn()
        if self._thread is None:
            return
        if self._token is not None and self._leave is not None:
            try:
                self._token.run_sync_soon(self._leave.set)
            except trio.RunFinishedError:
                pass
        self._join(quiet=quiet)

    def _join(self, *, quiet: bool = False) -> None:
        thread, self._thread = self._thread, None
        assert thread is not None
        thread.join()
        self._token = None
        error, self._error = self._error, None
        if error is not None and not quiet:
            raise error

    def start(self) -> Self:
        """Start, with or without a block, and return the broker: ``broker = EmbeddedBroker.in_thread().start()``.

        Without a block the thread lives until `stop` or `close`. A broker that the program does not stop ends with it,
        in order, and gives a ResourceWarning with the line of this call. In a block it starts again after `stop` or
        `crash`.

        Raises: as `EmbeddedBroker.start`.
        """
        if self._thread is not None:
            self._call(self._broker.start)
            return self
        self._begin()
        self._opened_at = Place.of_caller()
        atexit.register(self._warn_and_end)
        return self

    def stop(self, *, failover: bool = False) -> None:
        """Stop in an orderly way; with ``failover`` a backup takes over, whatever the policy.

        Stopping twice is allowed. A forked child leaves the broker to its parent: there this does nothing.
        """
        if self._thread is None or self._is_inherited():
            return
        self._call(lambda: self._broker.stop(failover=failover))
        if self._opened_at is not None:
            self._end()

    def close(self) -> None:
        """Stop in an orderly way, and end the thread. A second call, or one in a forked child, has no effect."""
        self._end()

    def _is_inherited(self) -> bool:
        return self._thread is not None and os.getpid() != self._process_id

    def _warn_and_end(self) -> None:
        if self._is_inherited():
            return  # a forked child has the parent's handlers, too
        assert self._opened_at is not None
        self._opened_at.warn("a broker in a thread", source=self)
        self._end()

    def _forget_to_warn(self) -> None:
        if self._opened_at is not None:
            self._opened_at = None
            atexit.unregister(self._warn_and_end)

    def scale_down(self, to: str | TransportConfiguration | None = None) -> int:
        """Move everything to another broker, then stop; return the number of messages that moved.

        Args:
            to: name of a connector of the configuration, a URL, or a connector; None: the choice of the policy.

        Raises: as `EmbeddedBroker.scale_down`.
        """
        return self._call(lambda: self._broker.scale_down(to))

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
            roles: one role or more.
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
    def hosted_backups(self) -> list[_types.HostedBackup]:
        """The backups of other brokers that run in this process at this moment; empty unless it is colocated."""

        async def look() -> list[_types.HostedBackup]:
            return self._broker.hosted_backups

        return self._call(look)

    def wait_for_hosted_backup(self, *roles: Role, timeout: float | None = None) -> _types.HostedBackup | None:
        """Wait until the broker hosts a backup that has one of ``roles``, and return it.

        Args:
            roles: one role or more.
            timeout: seconds, or None to wait for ever. The result is None when they are over.

        Raises:
            IllegalStateException: the broker does not run, or is not colocated.
            TypeError: no role is given, or an argument is not a role.
        """

        async def wait() -> _types.HostedBackup | None:
            with trio.move_on_after(math.inf if timeout is None else timeout):
                return await self._broker.wait_for_hosted_backup(*roles)
            return None

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

        Args:
            xid: id of the branch.

        Raises:
            IllegalStateException: the broker is not live, or stopped before the decision was durable.
        """
        return self._call(lambda: self._broker.commit_branch(xid))

    def queues(self) -> list[_types.QueueInfo]:
        """Return the figures of all queues at this moment, in order of their names.

        Raises: as `EmbeddedBroker.queues`.
        """
        return self._call_sync(self._broker.queues)

    def queue(self, name: str) -> _types.QueueInfo:
        """Return the figures of a queue at this moment: ``broker.queue("orders").message_count``.

        Args:
            name: name of the queue.

        Raises: as `EmbeddedBroker.queue`.
        """
        return self._call_sync(lambda: self._broker.queue(name))

    def wait_for(
        self, *, queue: str, count: int | None = None, consumers: int | None = None, timeout: float | None = 10.0
    ) -> None:
        """Wait until a queue has exactly ``count`` messages and ``consumers`` consumers.

        Args:
            queue: name of the queue.
            count: messages, those in delivery included; None for any number. Either this or ``consumers`` is needed.
            consumers: number of consumers; None for any number.
            timeout: seconds; None to wait for ever.

        Raises: as `EmbeddedBroker.wait_for`.
        """
        self._call(lambda: self._broker.wait_for(queue=queue, count=count, consumers=consumers, timeout=timeout))

    def create_queue(
        self,
        name: str,
        *,
        address: str | None = None,
        routing_type: str = "ANYCAST",
        filter: str | None = None,
        durable: bool = True,
        max_consumers: int = -1,
    ) -> None:
        """Create a queue, and its address if it does not exist, as `Management.create_queue` does.

        Args:
            name: name of the queue.
            address: address that it is bound to; None takes the name of the queue.
            routing_type: ``ANYCAST`` or ``MULTICAST``.
            filter: selector for the messages that it takes; None takes all.
            durable: whether it survives a restart.
            max_consumers: maximum number of consumers; -1 sets no limit.
        """
        self.management.create_queue(
            name,
            address=address,
            routing_type=routing_type,
            filter=filter,
            durable=durable,
            max_consumers=max_consumers,
        )

    def delete_queue(self, name: str, *, closes_consumers: bool = False) -> None:
        """Delete a queue with its messages, as `Management.delete_queue` does.

        Args:
            name: name of the queue.
            closes_consumers: whether its consumers are closed; otherwise a queue with consumers is refused.
        """
        self.management.delete_queue(name, closes_consumers=closes_consumers)

    def purge(self, name: str) -> int:
        """Remove the messages that wait in a queue, and return how many there were. Those in delivery stay.

        Args:
            name: name of the queue.
        """
        return self.management.purge_queue(name)

    @property
    def management(self) -> _types.ThreadedManagement:
        """Attributes and operations of the broker, as blocking calls; see `Management`."""
        from ._threaded_management import ThreadedManagement

        return ThreadedManagement(self._broker.management, lambda function: self._call(function))

    def rollback_branch(self, xid: Xid) -> bool:
        """Roll a prepared XA branch back in place of its transaction manager; return False if no such branch exists.

        Args:
            xid: id of the branch.

        Raises:
            IllegalStateException: the broker is not live, or stopped before the decision was durable.
        """
        return self._call(lambda: self._broker.rollback_branch(xid))

    def _call_sync(self, function: Callable[[], T]) -> T:
        async def call() -> T:
            return function()

        return self._call(call)

    def _call(self, function: Callable[[], Awaitable[T]]) -> T:
        if self._token is None:
            raise IllegalStateException(
                "the broker is not started: use 'with EmbeddedBroker.in_thread() as broker', or call start()"
            )
        if self._is_inherited():
            raise IllegalStateException("the broker runs in the process that this one was forked from: start another")
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
