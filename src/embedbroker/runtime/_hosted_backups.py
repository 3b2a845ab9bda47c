"""The backups of other brokers that a colocated broker runs in its process.

Responsible for one task for each of them, in the life of their host: they end with it. Does not decide which backups
there are: the node of the host does.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, cast

import trio
from attrs import evolve, frozen

from embedbroker.config import BrokerConfig, Role, hosted_backup
from embedbroker.node import BackupChanged, StartBackup
from embedclient.errors import BrokerFailed, IllegalStateException, ResourceAllocationException

if TYPE_CHECKING:
    from ._host import Host

__all__ = ["HostedBackup", "HostedBackups", "absolute"]


@frozen
class HostedBackup:
    """The state of a backup that a colocated broker hosts."""

    name: str
    """The name of the backup in log lines."""
    node_id: str
    """The node that it is a backup of."""
    role: Role
    """Its role at this moment."""
    url: str | None
    """The URL of clients while it is live, else None."""


class HostableBroker(Protocol):
    """The part of an `EmbeddedBroker` that its host uses."""

    config: BrokerConfig

    @property
    def role(self) -> Role:
        """Return the current role."""

    @property
    def url(self) -> str:
        """Return the URL of clients while it is live."""

    async def __aenter__(self) -> object:
        """Start."""

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> bool:
        """Stop."""

    async def wait_for_role(self, *roles: Role) -> None:
        """Wait until the broker has one of ``roles``."""

    async def stop(self) -> None:
        """Stop in an orderly way."""

    def kill(self) -> None:
        """End at once."""


def absolute(config: BrokerConfig) -> BrokerConfig:
    """Return a configuration whose directories do not depend on the working directory."""
    names = ("data_directory", "node_manager_lock_directory", "large_messages_directory")
    given = {name: getattr(config, name) for name in names}
    return evolve(config, **{name: os.path.abspath(place) for name, place in given.items() if place is not None})


def _url(broker: HostableBroker) -> str | None:
    """Return the URL of a live broker; None once it serves no more, although its stop is not over."""
    if broker.role is Role.LIVE:
        with suppress(IllegalStateException):
            return broker.url
    return None


class HostedBackups:
    """The hosted backups of one broker, in all of its lives.

    Args:
        config: The configuration of the host.
        make: Returns the broker for a configuration and the node id that it is a backup of.
        logger: Receives lines for the operator.
        has_lock_manager: Whether brokers that replicate have a lock manager that is not part of the policy.
    """

    def __init__(
        self,
        config: BrokerConfig,
        make: Callable[[BrokerConfig, str], HostableBroker],
        logger: logging.Logger,
        *,
        has_lock_manager: bool = False,
    ) -> None:
        self._has_lock_manager = has_lock_manager
        # What this life of the host has adopted, and what each begins with.
        self._config = self._given = config
        self._make = make
        self._logger = logger
        self._running: dict[int, tuple[str, HostableBroker]] = {}
        self._changed = trio.Event()
        # By node id: why its backup did not begin. Its primary may request it for ever, and gets one line.
        self._reported: dict[str, str] = {}

    async def changed(self) -> None:
        """Wait until a backup has another role, or all have ended."""
        await self._changed.wait()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    def states(self) -> list[HostedBackup]:
        """Return the state of each backup that runs, in the order of their names."""
        return [
            HostedBackup(broker.config.name, node_id, broker.role, _url(broker))
            for _index, (node_id, broker) in sorted(self._running.items())
            if broker.role is not Role.STOPPED
        ]

    def host_begins(self) -> None:
        """Return to the configuration that each life of the host begins with."""
        self._config = self._given

    def adopt(self, parts: Mapping[str, Mapping[str, object]]) -> None:
        """Give backups from now on the parts of a configuration that their host has adopted, by name."""
        # An open broker stays open: permissions alone would close its backups to all clients.
        names = parts.keys() if self._config.is_secured else parts.keys() - {"security_settings"}
        self._config = evolve(self._config, **cast(dict[str, Any], {name: parts[name] for name in names}))

    def start(self, order: StartBackup, host: Host, nursery: trio.Nursery) -> None:
        """Start a backup in a task of its host, which receives each of its roles."""
        nursery.start_soon(self._run, order, host)

    async def _run(self, order: StartBackup, host: Host) -> None:
        failure: str | None = None
        try:
            await self._live(order, host)
        except (ResourceAllocationException, BrokerFailed, ValueError) as error:
            failure = str(error)
        if failure is not None and self._reported.get(order.node_id) != failure:
            self._reported[order.node_id] = failure
            self._logger.error(
                "the backup of node %s, which %r hosts, ended: %s", order.node_id, self._config.name, failure
            )
        host.backup_changed(BackupChanged(order.index, Role.STOPPED, failure))

    async def _live(self, order: StartBackup, host: Host) -> None:
        """Run a backup to its end.

        Raises:
            ResourceAllocationException, BrokerFailed, ValueError: it cannot start, or ended by itself.
        """
        config = hosted_backup(
            self._config,
            order.index,
            order.node_id,
            {each.settings.name: each.connector for each in host.node.clusters},
            order.data_directory,
            order.lock_directory,
            order.bodies_directory,
            has_lock_manager=self._has_lock_manager,
        )
        broker = self._make(config, order.node_id)
        entry = self._running[order.index] = order.node_id, broker
        try:
            async with broker:
                while (role := broker.role) is not Role.STOPPED:
                    host.backup_changed(BackupChanged(order.index, role))
                    if role in (Role.BACKUP, Role.LIVE):
                        self._reported.pop(order.node_id, None)
                    self._wake()
                    with suppress(IllegalStateException):
                        await broker.wait_for_role(*(other for other in Role if other not in (role, Role.STOPPED)))
        finally:
            # The next life of the host may have another backup at this place already.
            if self._running.get(order.index) is entry:
                del self._running[order.index]
            self._wake()

    async def stop(self) -> None:
        """Stop all backups in an orderly way."""
        for _node_id, broker in list(self._running.values()):
            await broker.stop()

    def kill(self) -> None:
        """End all backups at once: their host has ended."""
        for _node_id, broker in self._running.values():
            broker.kill()
        self._wake()
