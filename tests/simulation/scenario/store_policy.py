"""Brokers that share one simulated disk and one lock store: which has the journal, and what such a group promises.

One at a time works on the disk, and one that was replaced while it was frozen does nothing more. A live one is not
missing for long while one could serve. Does not depend on faults and users.
"""

from __future__ import annotations

from collections.abc import Iterator

from attrs import define, evolve, field

from embedbroker.config import BrokerConfig, HAPolicy, Role, SharedStoreBackup, SharedStorePrimary
from embedbroker.locks import Lock, called
from embedbroker.storage import JournalSettings
from embedbroker.testing._disk import SimulatedDisk
from embedbroker.testing._locks import SimulatedLocks
from embedbroker.testing._network import Network
from embedbroker.testing._node_host import NodeHost
from embedbroker.testing._scene import Moment, Scene

from .group import GroupPolicy
from .lost_files import LostFiles
from .members import Members
from .plan import PRIMARY, GroupPlan

__all__ = ["StorePolicy"]

#: How long no broker may serve although one could: the time of two that are frozen in front of a third, and to spare.
OUTAGE_S_MAX = 12.0
#: And how long the live lock may be free: one requests it again after a fault of the store, and gives frozen brokers
#: that go before it their time.
FREE_S_MAX = 3.0
FREE_PER_FROZEN_S = 5.0


def _policy(plan: GroupPlan, name: str) -> HAPolicy:
    if name == PRIMARY:
        return SharedStorePrimary(failover_on_shutdown=plan.primary_hands_over)
    return SharedStoreBackup(
        failover_on_shutdown=plan.backups_hand_over,
        allow_failback=plan.allow_failback,
        restart_backup=plan.restart_backups,
    )


@define(eq=False)
class StorePolicy(GroupPolicy):
    """Of brokers on one disk with one lock store."""

    disk: SimulatedDisk
    locks: SimulatedLocks
    # A backup is to take over: a broker was live, and was not stopped with no successor.
    _has_heirs: bool = field(default=False, init=False)

    @classmethod
    def of(
        cls, scene: Scene, network: Network, plan: GroupPlan, config: BrokerConfig, settings: JournalSettings
    ) -> StorePolicy:
        disk, locks = SimulatedDisk(), SimulatedLocks()
        hosts: dict[str, NodeHost] = {}
        for name in plan.names:
            own = evolve(config, name=name, ha_policy=_policy(plan, name))
            hosts[name] = NodeHost(network, own, disk, settings, locks)
        return cls(scene, network, plan, Members(scene, config, settings, hosts), disk, locks)

    def check_losses(self) -> None:
        """All is over: with files of the journal missing no broker may be live. Nothing of the scenario changes."""
        members, world = self.members, self.scene.world
        config, settings = members.primary.config, members.primary.settings
        lost = LostFiles(self.disk, self.locks.read(), config, settings, world.entropy(), world.instant)
        complaint = lost.complaint()
        if complaint is not None:
            self.scene.fail(complaint)

    def holder(self, host: NodeHost) -> str:
        """What the lock store calls a host."""
        return called(host.config.ha_policy, host.name)

    def set_full(self, host: NodeHost, full: bool) -> None:
        """Whether there is room for a host, on the disk and for its record."""
        host.full = full
        if full:
            self.locks.full.add(self.holder(host))
        else:
            self.locks.full.discard(self.holder(host))

    # Which broker has the journal

    def on_stop(self, host: NodeHost, *, fails_over: bool) -> None:
        hands_over = self.plan.primary_hands_over if host.name == PRIMARY else self.plan.backups_hand_over
        self._has_heirs = fails_over or hands_over

    def on_role(self, host: NodeHost, role: Role) -> None:
        if role is Role.ACTIVATING:
            if any(other is not host for other in self._frozen_in_front):
                self.scene.hit(Moment.PASSED_OVER)
            self._has_heirs = True
            self.members.take_over(host)
        elif role is Role.LIVE:
            self._check_record(host)

    def _check_record(self, host: NodeHost) -> None:
        """A broker that takes over finds out there which node it becomes, and with which journal."""
        assert host.node is not None
        record = self.locks.read()
        if record.node_id != host.node.node_id or record.journal_identity is None:
            self.scene.fail(f"{host.name} is live, and the record in the lock store does not say so: {record}")

    @property
    def _frozen_in_front(self) -> list[NodeHost]:
        """The hosts that go before others, and are frozen."""
        before = [self.locks.holder(lock) for lock in (Lock.BACKUP, Lock.FAILBACK)]
        return [host for host in self.members.hosts.values() if host.frozen and self.holder(host) in before]

    def check(self, host: NodeHost) -> None:
        active = self.members.active
        if host.superseded and set(host.under_way) - set(host.written):
            self.scene.fail(f"{host.name} works on the disk of {active and active.name}")
        elif host is not active and host.under_way and not host.superseded:
            self.scene.fail(f"{host.name} works on the disk although it does not have the journal")

    # Whether a broker serves

    def outages(self) -> Iterator[tuple[str, bool, float, str]]:
        could = not self.members.ready and self._somebody_could()
        yield "serving", could, OUTAGE_S_MAX, f"nobody serves for {OUTAGE_S_MAX} s, although somebody could"
        free = could and self.locks.holder(Lock.LIVE) is None
        limit_s = FREE_S_MAX + FREE_PER_FROZEN_S * len(self._frozen_in_front)
        complaint = f"nobody takes the live lock for {limit_s} s, although nobody is in the way for longer"
        yield "live lock", free, limit_s, complaint

    def _somebody_could(self) -> bool:
        """Whether a healthy broker is entitled to be live, and has the means."""
        members, holder = self.members, self.locks.holder(Lock.LIVE)
        frozen = [host for host in members.hosts.values() if host.frozen]
        if not self.locks.reachable or any(self.holder(host) == holder for host in frozen):
            return False
        return any(self._has_heirs or host.name == PRIMARY for host in members.awake if not host.full)
