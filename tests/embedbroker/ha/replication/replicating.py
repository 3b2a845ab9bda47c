"""Replicating brokers in one simulated world, each with its own disk, and a client that keeps on sending.

Responsible for the world, for which links work, and for what a test does with them. Does not check anything itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import pytest
from attrs import evolve

from embedbroker.config import BrokerConfig, ClusterConnection, PrimaryOnly, ReplicationBackup, ReplicationPrimary, Role
from embedbroker.locks import LockManagers
from embedbroker.node import Node
from embedbroker.storage import JournalSettings
from embedbroker.testing._disk import SimulatedDisk
from embedbroker.testing._leases import SimulatedLockManager
from embedbroker.testing._network import Network
from embedbroker.testing._node_host import NodeHost
from embedbroker.testing._world import World
from embedclient.wire.core import CoreMessage
from tests.simulation.store_group import Writer

__all__ = ["BACKUP", "PRIMARY", "Brokers", "both", "goes_on", "pair"]

PORT = "61616"


class Brokers:
    """``statics`` are the names that every broker looks for others at. ``lease_s`` None: without a lock manager.

    ``time_outs`` are those of every cluster connection, where they are not the usual ones.
    """

    def __init__(
        self,
        statics: Sequence[str],
        *,
        manager: bool = False,
        lease_s: float | None = None,
        seed: int = 1,
        time_outs: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self.time_outs = {"call_timeout_ms": 2_000, "check_period_ms": 500, "connection_ttl_ms": 2_000, **time_outs}
        self.world = World(seed)
        self.network = Network(self.world)
        self.statics: Sequence[str] = statics
        self.manager: SimulatedLockManager | None = None
        if manager:
            self.manager = SimulatedLockManager(lambda: self.world.now, lease_s)
        self.hosts: dict[str, NodeHost] = {}
        self.failures: dict[str, str | None] = {}

    # -- brokers -------------------------------------------------------------------------------------------------

    def build(self, name: str, policy: ReplicationPrimary | ReplicationBackup, **changes: object) -> NodeHost:
        """A broker with an empty disk that is not started."""
        names = {name: 0, **dict.fromkeys(self.statics)}
        connection = ClusterConnection(
            connector=name,
            static_connectors=[each for each in self.statics if each != name],
            retry_interval_ms=100,
            **self.time_outs,  # type: ignore[arg-type]  # whole numbers, by the names of real fields
        )
        values: dict[str, object] = {"cluster_user": "cluster", "cluster_password": "secret", **changes}
        config = BrokerConfig(
            name=name,
            connectors={each: f"tcp://{each}:{PORT}" for each in names},
            cluster_connections=connection,
            ha_policy=policy,
            **values,  # type: ignore[arg-type]  # tests name real fields
        )
        settings = JournalSettings(identity=len(self.hosts) + 100, segment_size_bytes=64 * 1024)
        locks: LockManagers | None = self.manager
        host = NodeHost(self.network, config, SimulatedDisk(), settings, locks)
        host.on_stopped.append(lambda failure: self.failures.update({name: failure}))
        self.hosts[name] = host
        return host

    def primary(self, name: str, policy: ReplicationPrimary | None = None, **changes: object) -> NodeHost:
        host = self.build(name, policy or ReplicationPrimary(), **changes)
        host.start()
        return host

    def backup(self, name: str, policy: ReplicationBackup | None = None, **changes: object) -> NodeHost:
        host = self.build(name, policy or ReplicationBackup(), **changes)
        host.start()
        return host

    def alone(self, name: str) -> NodeHost:
        """A broker without backups, in the place of one that was there before."""
        before = self.hosts[name]
        host = NodeHost(self.network, evolve(before.config, ha_policy=PrimaryOnly()), SimulatedDisk(), before.settings)
        self.hosts[name] = host
        host.start()
        return host

    def node(self, name: str) -> Node:
        node = self.hosts[name].node
        assert node is not None, f"{name} does not run: {self.failures.get(name)}"
        return node

    # -- what they are -------------------------------------------------------------------------------------------

    def role(self, name: str) -> Role:
        node = self.hosts[name].node
        return node.role if node is not None else Role.STOPPED

    @property
    def roles(self) -> dict[str, str]:
        return {name: self.role(name).value for name in self.hosts}

    def in_sync(self, name: str) -> bool:
        """Whether a live broker has a backup that is in sync."""
        node = self.hosts[name].node
        disk = node.replica_disk if node is not None else None
        replicator = disk.replicator if disk is not None else None
        return replicator is not None and replicator.state.value == "synchronised"

    def said(self, name: str) -> str:
        return "\n".join(self.hosts[name].notices)

    # -- time ----------------------------------------------------------------------------------------------------

    def run(self, seconds: float) -> None:
        self.world.run(self.world.now + seconds, events_max=1_000_000)

    def until(self, condition: Callable[[], bool], within_s: float = 30.0) -> float:
        """Run until something is so; returns how long that took."""
        begin = self.world.now
        while not condition():
            assert self.world.now <= begin + within_s, (self.roles, {name: self.said(name) for name in self.hosts})
            assert self.world.step(), "nothing happens any more"
        return self.world.now - begin

    def until_role(self, name: str, role: Role, within_s: float = 30.0) -> float:
        return self.until(lambda: self.role(name) is role, within_s)

    def until_in_sync(self, name: str, within_s: float = 30.0) -> float:
        return self.until(lambda: self.in_sync(name), within_s)

    # -- a client ------------------------------------------------------------------------------------------------

    def writer(self, *names: str) -> Writer:
        return Writer(self.network, names)

    def kept(self, name: str) -> list[int]:
        """The numbers of the messages that a live broker has."""
        queue = self.node(name).kernel.address_manager.queues.get("orders")
        messages = [reference.message for reference in queue.backlog] if queue is not None else []
        return [int.from_bytes(message.body, "big") for message in messages if isinstance(message, CoreMessage)]

    # -- faults --------------------------------------------------------------------------------------------------

    def crash(self, name: str) -> None:
        self.hosts[name].crash()

    def part(self, some: str, others: str) -> None:
        """Nothing gets from one side to the other."""
        for one in some:
            for other in others:
                self.network.hold(one, other)
                self.network.hold(other, one)


PRIMARY = ReplicationPrimary(check_for_active_server=True)
BACKUP = ReplicationBackup(allow_failback=True)


def pair(*, manager: bool = True, lease_s: float | None = None, statics: str = "pq") -> tuple[Brokers, Writer]:
    """A primary p with a backup q that is in sync, and a client that writes."""
    brokers = Brokers(statics, manager=manager, lease_s=lease_s)
    brokers.primary("p", PRIMARY)
    brokers.backup("q", BACKUP)
    brokers.until_role("p", Role.LIVE)
    writer = brokers.writer("p", "q")
    brokers.until(lambda: len(writer.confirmed) > 10)
    brokers.until_in_sync("p")
    brokers.run(0.5)
    return brokers, writer


def goes_on(brokers: Brokers, writer: Writer, name: str) -> None:
    """A broker has everything that was ever confirmed, and confirms more."""
    before = len(writer.confirmed)
    brokers.until(lambda: len(writer.confirmed) > before + 10)
    assert set(writer.confirmed) - set(brokers.kept(name)) == set()


both = pytest.mark.parametrize("manager", [False, True], ids=["no votes", "lock manager"])
