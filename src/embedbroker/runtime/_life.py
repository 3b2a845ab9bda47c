"""One life of a broker: from a start, or from giving way to a primary, to the next stop, crash or failure.

Responsible for the host with its listeners, directory, disk and locks, and for the order of their release. The
directory is released before the right to be live, so that the next live broker finds it free. Decides nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import trio

from embedbroker.config import (
    ReplicationBackup,
    ReplicationPrimary,
    Role,
    SharedStoreBackup,
    SharedStorePrimary,
    exposure,
)
from embedbroker.node import Node
from embedclient.errors import BrokerFailed, ResourceAllocationException
from embedclient.transport import Listener, TcpListener, TLSListener, vm_listen

from ._clock import SystemEntropy
from ._descriptors import DESCRIPTORS_KEPT_FREE
from ._endpoint import Acceptor, Endpoint, place_of
from ._host import Host
from ._memory_limit import usable_memory_bytes
from ._role_watch import RoleWatch
from ._shortage import caused_by_shortage

if TYPE_CHECKING:
    from embedbroker.locks import LeaseSession, LockManagers, Locks, LockSession
    from embedbroker.storage import Disk, JournalSettings

    from ._directory import OpenAudit, OpenDirectory
    from ._hosted_backups import HostedBackups
    from ._lock_lane import LockLane

__all__ = ["Life", "leaves"]

#: How long a broker that may be live waits for what it needs to listen.
LISTENS_WITHIN_S = 15.0
_TRY_EVERY_S = 0.1


def leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    """Return the exceptions in a group and in the groups in it."""
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from leaves(error)
        else:
            yield error


class Life:
    """One life: create it, `run` it in a task, and `close` it if it has not ended by itself."""

    def __init__(
        self,
        place: Endpoint,
        disk: Disk | None,
        locks: Locks | LockManagers | None,
        logger: logging.Logger,
        watch: RoleWatch,
        *,
        deletes_missing: bool,
        hosted: HostedBackups | None = None,
    ) -> None:
        self._place = place
        #: The backups of other brokers that live and die with this broker; None unless it is colocated.
        self._hosted = hosted
        self._config = place.config
        self._logger = logger
        self._watch = watch
        self._deletes_missing = deletes_missing
        # And the index of the acceptor of each.
        self._listeners: dict[Listener, int] = {}
        # Acceptors that have listened in this life. One that management starts may have done so in the last one.
        self._opened: set[int] = set()
        self._directory: OpenDirectory | None = None
        self._audit: OpenAudit | None = None
        self._session: LockSession | LeaseSession | None = None
        self._lane: LockLane | None = None
        # Shielded: a cancellation around the broker must not end its disk before it has stopped in order.
        self._scope = trio.CancelScope(shield=True)
        self._inner: trio.Nursery
        self._closed = False
        self._is_closed_to_clients = False
        # Guards listening: one task at a time.
        self._binding = trio.Lock()
        self._lets_brokers_in = False
        self.host: Host
        #: Set when it is known whether the broker waits or serves, or can do neither.
        self.waits_or_serves = trio.Event()
        #: Whether it has accepted clients, and the name at which those of this process find it.
        self.serves = False
        self.vm_name = ""
        #: Why it could not begin to serve although it may.
        self.refusal: ResourceAllocationException | None = None
        #: Whether the start of the broker raises that, and any other reason for which it never served.
        self.start_raises = False
        self._node, self._disk = self._open(disk, locks)

    def _open(self, disk: Disk | None, locks: Locks | LockManagers | None) -> tuple[Node, Disk | None]:
        """Open everything that a life needs before its first step. `close` closes what was opened."""
        config = self._config
        settings: JournalSettings | None = None
        try:
            if config.data_directory is not None or disk is not None:
                from ._directory import open_directory

                late = isinstance(config.own_policy, SharedStorePrimary | SharedStoreBackup)
                opened = self._directory = open_directory(config, disk, late=late)
                disk, settings = opened.disk, opened.settings
            replicates = isinstance(config.own_policy, ReplicationPrimary | ReplicationBackup)
            if locks is not None or (config.data_directory is not None and not replicates):
                from ._directory import open_locks
                from ._lock_lane import LockLane

                self._session = open_locks(config, locks)
                self._lane = LockLane(self._session, self._directory.verify if self._directory else None)
            if config.audit_directory is not None:
                from ._directory import open_audit

                self._audit = open_audit(config)
        except BaseException:  # Ctrl-C, too: the caller has no life yet, and what it took would never be released
            self._give_back()
            raise
        limit = config.global_max_size_bytes
        limit = usable_memory_bytes() // 2 if limit is None else limit
        log = self._audit.log if self._audit is not None else None
        has_locks = self._session is not None
        node = Node(
            config,
            SystemEntropy(),
            limit,
            settings,
            has_locks=has_locks,
            audit_log=log,
            deletes_missing=self._deletes_missing,
        )
        return node, disk

    async def run(self) -> None:
        """Run everything of this life; closing cancels it."""
        if self._closed:
            return
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    self._inner = nursery
                    self.host = Host(self._node, nursery, self._disk, self._lane, self._logger, self._on_role)
                    if self._audit is not None:
                        self.host.audit_on(self._audit.disk)
                    self.host.observer, self.host.dial = self._watch.observer, self._place.dial
                    self.host.datagrams = self._place.datagrams
                    self.host.user_source = self._config.user_source
                    self.host.acceptors = self
                    self.host.on_stop_listening = self._stop_listening
                    self.host.on_let_brokers_in = self._let_brokers_in
                    self.host.hosted = self._hosted
                    if self._hosted is not None:
                        self._hosted.host_begins()
                    nursery.start_soon(self._serve)
                    self._follow_configuration(nursery)
                    self.host.start()
        except BaseExceptionGroup as group:
            bugs, _cancellations = group.split(Exception)
            if bugs is None:
                raise
            # A bug of the broker: it is over as if it had crashed, others in the process live on.
            self._logger.critical("broker %r failed", self._config.name, exc_info=bugs)
            text = f"broker {self._config.name!r} failed: {next(leaves(bugs))!r}"
            self.host.failed(text)
            self.waits_or_serves.set()
            self.close()
            self._watch.become(Role.STOPPED, text)
            raise BrokerFailed(text) from bugs

    def _follow_configuration(self, nursery: trio.Nursery) -> None:
        """Adopt changes of the configuration file, if there is one."""
        config = self._config
        source, period_ms = config.configuration_source, config.configuration_file_refresh_period_ms
        if source is not None:
            from ._configuration_watch import FollowedConfiguration

            followed = FollowedConfiguration(source, config, self.host, self._logger)
            self.host.reload_file = followed.look
            if period_ms > 0:
                nursery.start_soon(followed.run, period_ms / 1000)

    def _log_failure(self) -> None:
        """Log why the broker ends without a request, unless the start of the broker raises that."""
        failure = self.host.failure
        if failure is not None and (self.serves or not self.start_raises):
            end = (
                "the broker stops, and another one waits in its place as backup"
                if self.host.restarts
                else "the broker stops"
            )
            self._logger.error("%s: %s", end, failure)

    def _on_role(self, role: Role, in_sync: bool) -> None:
        """Publish the role. A broker is live only when it can be reached, so that role waits for the listeners."""
        self.waits_or_serves.set()
        self._watch.note_sync(in_sync)
        if role is Role.STOPPED:
            self._log_failure()
            # A broker that stopped by itself releases what another one waits for; its owner does not have to request
            # that.
            self.close()
            if self.host.restarts:
                # The next life listens at the same place, because others were given that address.
                self._listeners.clear()
                self._keep_places(self._place.acceptors)
                self._watch.become(Role.BACKUP)
            else:
                self._watch.become(role, self.host.failure or (str(self.refusal) if self.refusal else None))
        elif role is not Role.LIVE:
            self._watch.become(role)

    async def _serve(self) -> None:
        await self.host.ready.wait()
        if self.host.stopped.is_set():
            return
        try:
            await self._listen()
        except ResourceAllocationException as error:
            # Another broker of the group may succeed.
            self.refusal = error
            if not self.start_raises:
                self._logger.error("%s", error)
            self.host.stop(fails_over=True)
            await self.host.stopped.wait()
        else:
            # It may have lost the right to be live in the moment in which it began to listen.
            if not self._is_closed_to_clients and not self.host.stopped.is_set():
                self._watch.become(Role.LIVE)

    async def _listen(self) -> None:
        if not await self._bind():
            return
        self.vm_name = self._config.name
        if self._place.has_vm_name:
            self._let_in(self._listen_vm(self._config.name), 0)
        self.serves = True
        if self._config.acceptors:
            for acceptor, port in zip(self._config.acceptors, self.ports(), strict=True):
                if port:
                    place = place_of(acceptor, port)
                    self._logger.info("broker %r: acceptor %r listens on %s", self._config.name, acceptor.name, place)
        warning = exposure(self._config) if any(self.ports()) else None
        if warning is not None:
            self._logger.warning("broker %r: %s", self._config.name, warning)

    async def _bind(self) -> bool:
        """Listen where others expect this broker, unless it does.

        Return False when connections must not be accepted any more.
        """
        async with self._binding:
            if not self._listeners:
                bound = await self._listen_somewhen()
                for number, listeners in enumerate(bound):
                    for listener in listeners:
                        self._let_in(listener, number)
        if self._is_closed_to_clients:
            self._stop_listening()
        return not self._is_closed_to_clients

    async def _listen_somewhen(self) -> list[list[Listener]]:
        """Listen; wait for a shortage of descriptors to pass, but with a limit: another broker may succeed."""
        give_up_at = trio.current_time() + LISTENS_WITHIN_S
        while True:
            try:
                return await self._place.listen()
            except ResourceAllocationException as error:
                if not caused_by_shortage(error) or trio.current_time() >= give_up_at or self._is_closed_to_clients:
                    raise
            await trio.sleep(_TRY_EVERY_S)

    def _let_in(self, listener: Listener, acceptor: int) -> None:
        inner = listener.inner if isinstance(listener, TLSListener) else listener
        if isinstance(inner, TcpListener):
            inner.keep_free(DESCRIPTORS_KEPT_FREE, self.host.make_room)
        self._listeners[listener] = acceptor
        if listener.port:
            self._opened.add(acceptor)
        self._inner.start_soon(self.host.serve, listener, acceptor)

    def _let_brokers_in(self, wanted: bool) -> None:
        self._lets_brokers_in = wanted
        if wanted:
            self._inner.start_soon(self._listen_for_brokers)
        else:
            self._close_listeners()

    async def _listen_for_brokers(self) -> None:
        """Listen before the broker is live, so that other waiting brokers find it. The node sends clients away."""
        try:
            await self._bind()
        except ResourceAllocationException as error:
            self._logger.warning("other brokers that wait do not find this one: %s", error)
        if not self._lets_brokers_in and not self.host.ready.is_set():
            self._close_listeners()

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
        self._is_closed_to_clients = True
        for listener in self._listeners:
            listener.close()

    def _close_listeners(self) -> None:
        """Close the listeners until the next time the broker listens."""
        for listener in self._listeners:
            listener.close()
        if self._listeners:
            self._listeners.clear()
            self._keep_places(self._place.acceptors)

    def _keep_places(self, acceptors: Iterable[Acceptor]) -> None:
        for acceptor in acceptors:
            try:
                acceptor.keep()
            except ResourceAllocationException as error:
                self._logger.warning("the port of this broker is lost: %s", error)

    # -- acceptors, as management controls them ------------------------------------------------------------------

    def is_accepting(self, name: str) -> bool:
        """Return True if an acceptor accepts connections over the network."""
        return bool(self._listeners_of(self._number_of(name)))

    def _number_of(self, name: str) -> int:
        """Return the index of an acceptor that exists."""
        return next(number for number, each in enumerate(self._place.acceptors) if each.config.name == name)

    def _listeners_of(self, number: int) -> list[Listener]:
        return [listener for listener, of in self._listeners.items() if of == number and listener.port]

    async def start_acceptor(self, name: str) -> int:
        """Listen again; return the port, or 0 if the acceptor listens already.

        Raises:
            ResourceAllocationException: the address is not available, or the files of TLS cannot be used.
        """
        number = self._number_of(name)
        acceptor = self._place.acceptors[number]
        async with self._binding:
            if self._listeners_of(number):
                return 0
            for listener in await self._place.listen_at(number, acceptor.port):
                self._let_in(listener, number)
            if self._is_closed_to_clients:
                self._stop_listening()
            return acceptor.port

    def stop_acceptor(self, name: str) -> int:
        """Accept no more, and close the accepted connections; return the port, or 0 if there was no listener.

        Clients of this process that use the name of the broker go on.
        """
        number = self._number_of(name)
        acceptor, closed = self._place.acceptors[number], self._listeners_of(number)
        for listener in closed:
            listener.close()
            del self._listeners[listener]
        if not closed:
            return 0
        self._keep_places([acceptor])
        self.host.drop_accepted(closed)
        return acceptor.port

    def reload_acceptor(self, name: str) -> None:
        """Read the files of TLS of an acceptor again, for connections from now on.

        Raises:
            ResourceAllocationException: the files cannot be used.
        """
        self._place.acceptors[self._number_of(name)].reload()

    def ports(self) -> list[int]:
        """Return the port of each acceptor; 0 for a place that is not on the network, or was not opened yet."""
        return [each.port if number in self._opened else 0 for number, each in enumerate(self._place.acceptors)]

    async def stop(self, *, fails_over: bool) -> None:
        """Stop in an orderly way, after the backups of others."""
        if self._hosted is not None:
            await self._hosted.stop()
        self._stop_listening()
        if not self.host.stopped.is_set():
            self.host.stop(fails_over=fails_over)
        await self.host.stopped.wait()

    def close(self) -> None:
        """End at once, and release everything."""
        self._closed = True
        if self._hosted is not None:
            self._hosted.kill()
        self._stop_listening()
        if hasattr(self, "host"):
            self.host.give_up()
        self._scope.cancel()
        self._give_back()

    def _give_back(self) -> None:
        directory, self._directory = self._directory, None
        audit, self._audit = self._audit, None
        session, self._session = self._session, None
        # Each is closed, also when closing another one fails. The one entered last is closed first.
        with ExitStack() as stack:
            for owned in (session, audit, directory):
                if owned is not None:
                    stack.callback(owned.close)
