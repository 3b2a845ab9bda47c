"""A live broker and its backup, as one object that a test fails over.

Responsible for which of the two is live, for waits that outlast a failover, and for how each kind is configured. Does
not depend on how a backup takes over.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from attrs import frozen

from embedbroker import (
    BroadcastGroup,
    ClusterConnection,
    DiscoveryGroup,
    HAPolicy,
    ReplicationBackup,
    ReplicationPrimary,
    Role,
    SharedStoreBackup,
    SharedStorePrimary,
)
from embedclient import Message
from embedclient.errors import IllegalStateException
from embedclient.model import summary

from ._broker import ManagedBroker, has, prepare, wanted_of
from ._carrier import carried, carried_now
from ._disk import DiskSwitch
from ._link import Link
from ._surroundings import Around

__all__ = ["FAILOVER_OPTIONS", "PAIR_KINDS", "BrokerPair", "PairKind", "cluster_settings"]

#: Options of the URL of a client that fails over.
FAILOVER_OPTIONS = "ha=true&reconnectAttempts=-1&retryInterval=100"
# How often brokers look for each other. In real time a test waits for it, in virtual time each attempt costs and the
# time between does not.
_RETRY_INTERVAL_MS, _VIRTUAL_RETRY_INTERVAL_MS = 50, 500
# The time without an answer after which a broker gives another one up: sooner than a client that waits for both.
_CALL_TIMEOUT_MS = 5_000
# The group by which brokers find each other, and the pauses between datagrams in virtual and in real time.
_GROUP, _GROUP_ADDRESS = "cluster", "231.7.7.7"
_PERIOD_MS, _REAL_PERIOD_MS = 2_000, 100


@frozen
class PairKind:
    """One way in which two brokers are a pair.

    ``shares_disk``: the backup opens the disk of the live broker. Otherwise it keeps a copy on another disk.
    """

    primary: HAPolicy
    backup: HAPolicy
    shares_disk: bool


#: By the name that `broker_pair` has in a test's id.
PAIR_KINDS: dict[str, PairKind] = {
    "shared-store": PairKind(SharedStorePrimary(), SharedStoreBackup(), shares_disk=True),
    "replication": PairKind(
        ReplicationPrimary(retry_replication_wait_ms=_RETRY_INTERVAL_MS),
        ReplicationBackup(allow_failback=True, retry_replication_wait_ms=_RETRY_INTERVAL_MS),
        shares_disk=False,
    ),
}


def cluster_settings(
    name: str,
    urls: Mapping[str, str],
    others: Collection[str] | None = None,
    *,
    virtual: bool,
    connections: Sequence[Mapping[str, Any]] = ({},),
    group_port: int | None = None,
) -> dict[str, Any]:
    """Return the settings of a broker that is configured with the URLs of others.

    Args:
        name: the broker.
        urls: those of all brokers, by their names.
        others: the brokers to which it connects; None: all others.
        virtual: True if the test runs in virtual time.
        connections: further settings of each of its cluster connections.
        group_port: port of the multicast group by which brokers find each other; None: they have the URLs.
    """
    others = urls if others is None else others
    of_tests = {
        "call_timeout_ms": _CALL_TIMEOUT_MS,
        "retry_interval_ms": _VIRTUAL_RETRY_INTERVAL_MS if virtual else _RETRY_INTERVAL_MS,
    }
    static = tuple(other for other in others if other != name)
    found_by: dict[str, Any] = {"static_connectors": static} if group_port is None else {"discovery_group": _GROUP}
    return {
        "connectors": dict(urls),
        "cluster_connections": tuple(
            ClusterConnection(**{**of_tests, **each, "connector": name, **found_by}) for each in connections
        ),
        "cluster_user": "embedbroker",
        "cluster_password": "of this test",
        **({} if group_port is None else _groups(group_port, _PERIOD_MS if virtual else _REAL_PERIOD_MS)),
    }


def _groups(port: int, period_ms: int) -> dict[str, Any]:
    """Return the groups of a broker that is found by datagrams."""
    place: dict[str, Any] = {"group_address": _GROUP_ADDRESS, "group_port": port, "local_bind_address": "127.0.0.1"}
    return {
        "broadcast_groups": (BroadcastGroup(_GROUP, **place, broadcast_period_ms=period_ms),),
        "discovery_groups": (DiscoveryGroup(_GROUP, **place),),
    }


class BrokerPair:
    """Two brokers: ``primary`` is live first, ``backup`` takes over. ``live`` is whichever serves at the moment.

    ``link`` connects the two brokers; clients use ``pair.primary.link`` and ``pair.backup.link``.

    Made by the fixture `broker_pair`.
    """

    def __init__(
        self,
        kind: str,
        primary: ManagedBroker,
        backup: ManagedBroker,
        around: Around,
        between: Callable[[str, str], Link],
    ) -> None:
        self.kind = kind
        self.primary = primary
        self.backup = backup
        self._around = around
        self._carrier = around.carrier
        self._between = between

    def __repr__(self) -> str:
        return summary(self, self.kind, self.primary, self.backup)

    # -- what it is ----------------------------------------------------------------------------------------------

    @property
    def brokers(self) -> tuple[ManagedBroker, ManagedBroker]:
        """Both, the primary first."""
        return (self.primary, self.backup)

    @property
    def url(self) -> str:
        """The URL for clients that fail over."""
        return f"({self.primary.url},{self.backup.url})?{FAILOVER_OPTIONS}"

    @property
    def link(self) -> Link:
        """The link between the two brokers."""
        return self._between(self.primary.name, self.backup.name)

    @property
    def disk(self) -> DiskSwitch:
        """The disk that they share; of brokers that replicate the primary's, beside ``pair.backup.disk``."""
        return self.primary.disk

    @property
    def live(self) -> ManagedBroker:
        """The broker that serves.

        Raises:
            IllegalStateException: neither does at this moment; ``await pair.wait_live()``.
        """
        found = self._live()
        if found is None:
            raise IllegalStateException(f"no broker of the pair is live: {self._states()}; await pair.wait_live()")
        return found

    @property
    def standby(self) -> ManagedBroker:
        """The broker that waits to take over.

        Raises:
            IllegalStateException: none does.
        """
        found = next((broker for broker in self.brokers if broker.role is Role.BACKUP), None)
        if found is None:
            raise IllegalStateException(f"no broker of the pair stands by: {self._states()}")
        return found

    def _live(self) -> ManagedBroker | None:
        return next((broker for broker in self.brokers if broker.is_live), None)

    @property
    @carried_now
    def is_in_sync(self) -> bool:
        """True if one serves, and the other has all that was confirmed and waits: either may be lost."""
        return {Role.LIVE, Role.BACKUP} == {broker.role for broker in self.brokers} and all(
            broker._is_in_sync for broker in self.brokers
        )

    def _states(self) -> str:
        return ", ".join(broker._following.describe() for broker in self.brokers)

    # -- life ----------------------------------------------------------------------------------------------------

    @carried
    async def start(self) -> None:
        """Start both, and return when they are connected to each other, and a copy is in sync."""
        await prepare(*self.brokers)
        for broker in self.brokers:
            await broker.start()
        await self.wait_in_step()

    @carried
    async def failover(self) -> ManagedBroker:
        """Crash the live broker as soon as the other is in sync. Return the broker that took over, when it serves.

        Raises:
            IllegalStateException: no broker would take over, because only one of them runs.
            WaitTimeout: they were not in sync within 10 seconds; the link between them may be held.
        """

        def can() -> bool:
            if not all(broker.is_running for broker in self.brokers):
                raise IllegalStateException(
                    f"no broker would take over: {self._states()}; restart() the other one first"
                )
            return self.is_in_sync

        # Which is live may change until the moment of the crash: a primary that was restarted takes over by itself.
        while not can():
            await self._until(can, None, "a backup that is in sync")
        await self.live.crash()
        return await self.wait_live()

    @carried
    async def failback(self) -> ManagedBroker:
        """Start the primary again. Return it when it is live and the other stands by.

        Raises:
            IllegalStateException: the primary has not ended.
            WaitTimeout: it did not start, become live, or get a backup, within 10 seconds each.
        """
        if self.primary.is_running:
            raise IllegalStateException(f"the primary has not ended: {self._states()}")
        await self.primary.start()
        await self._until(lambda: self.primary.is_live, None, "the primary live")
        await self.wait_in_step()
        return self.primary

    # -- waits and assertions ------------------------------------------------------------------------------------

    @carried
    async def wait_live(self, timeout: float | None = None) -> ManagedBroker:
        """Wait until one of them serves, and return it.

        Args:
            timeout: seconds of the test's clock, 0 or more; 10 unless given.

        Raises:
            WaitTimeout: none did within ``timeout`` seconds.
            IllegalStateException: none runs.
        """
        __tracebackhide__ = True
        await self._until(lambda: self._live() is not None, timeout, "a live broker")
        return self.live

    @carried
    async def wait_in_sync(self, timeout: float | None = None) -> None:
        """Wait until one serves, and the other has all that was confirmed and waits: until either may be lost.

        Args:
            timeout: seconds of the test's clock, 0 or more; 10 unless given.

        Raises:
            WaitTimeout: not within ``timeout`` seconds; one may be down, or the link held.
            IllegalStateException: none runs.
        """
        __tracebackhide__ = True
        await self._until(lambda: self.is_in_sync, timeout, "a backup that is in sync")

    @carried
    async def wait_in_step(self, timeout: float | None = None) -> None:
        """Wait until they are in sync, and clients have been notified of the one that stands by.

        Args:
            timeout: seconds of the test's clock, 0 or more; 10 unless given.

        Raises:
            WaitTimeout: not within ``timeout`` seconds.
            IllegalStateException: none runs.
        """
        __tracebackhide__ = True

        def holds() -> bool:
            live = self._live()
            return live is not None and live._following.has_seen_backup and self.is_in_sync

        await self._until(holds, timeout, "a live broker and its backup")

    @carried
    async def wait_for(
        self, *, queue: str, count: int | None = None, consumers: int | None = None, timeout: float | None = None
    ) -> None:
        """Wait as `ManagedBroker.wait_for` does, at whichever broker is live, now or after a failover.

        Args:
            queue: the queue's name.
            count: messages, those in delivery included, 0 or more; None for any number. Either this or ``consumers`` is
                needed.
            consumers: 0 or more; None for any number.
            timeout: seconds of the test's clock, 0 or more; 10 unless given.

        Raises:
            WaitTimeout: it had not within ``timeout`` seconds; the text has the state of both brokers.
            IllegalStateException: none runs.
        """
        __tracebackhide__ = True
        wanted = wanted_of(queue, count, consumers)

        def holds() -> bool:
            live = self._live()
            kernel = live._following.live_kernel() if live is not None else None
            return kernel is not None and has(kernel, queue, count, consumers)

        await self._until(holds, timeout, wanted)

    @carried
    async def assert_message(
        self, queue: str, body: object = ..., *, timeout: float | None = None, **properties: object
    ) -> Message:
        """Wait for a live broker, then for a message there as `ManagedBroker.assert_message` does.

        Args:
            queue: the queue's name.
            body: the body; ``...`` for any.
            timeout: seconds of the test's clock, 0 or more, for each of the two waits; 10 unless given.
            properties: names and values of properties that the message must have.

        Raises:
            WaitTimeout: no broker was live, or none had the message, within ``timeout`` seconds.
            IllegalStateException: none runs, or the live one was lost.
        """
        __tracebackhide__ = True
        return await (await self.wait_live(timeout)).assert_message(queue, body, timeout=timeout, **properties)

    @carried
    async def assert_empty(self, queue: str, *, timeout: float | None = None) -> None:
        """Wait until a queue has no message, in delivery or waiting.

        Args:
            queue: the queue's name; a queue that does not exist is empty.
            timeout: seconds of the test's clock, 0 or more; 10 unless given.

        Raises: as `wait_for`.
        """
        __tracebackhide__ = True
        await self.wait_for(queue=queue, count=0, timeout=timeout)

    @carried_now
    def assert_nothing_lost(self) -> None:
        """Check as `ManagedBroker.assert_nothing_lost` does, over all failovers."""
        __tracebackhide__ = True
        self.live.assert_nothing_lost()

    @carried
    async def dump(self) -> str:
        """Return the states of both, and all queues with their messages."""
        live = self._live()
        return self._states() if live is None else f"{self._states()}\n{await live.dump()}"

    async def _until(self, holds: Callable[[], bool], timeout: float | None, wanted: str) -> None:
        __tracebackhide__ = True

        def checked() -> bool:
            if holds():
                return True
            if not any(broker.is_running for broker in self.brokers):
                raise IllegalStateException(f"cannot wait for {wanted}: {self._states()}")
            return False

        await self._around.waiting.until(checked, timeout, wanted, self.dump)
