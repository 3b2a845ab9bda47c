"""Brokers that replicate: each has its own disk, and a lock manager decides whose data is the newest.

Responsible for what such a group promises. A broker that was replaced goes on by nothing but what its backup had. A
backup that is in sync has what the live one has. A live broker is not missing for long while one could serve. Does not
depend on faults and users.
"""

from __future__ import annotations

from collections.abc import Iterator

from attrs import define, evolve

from embedbroker.config import BrokerConfig, ReplicationBackup, ReplicationPrimary, Role
from embedbroker.locks import called
from embedbroker.storage import JournalSettings
from embedbroker.testing._disk import SimulatedDisk
from embedbroker.testing._leases import SimulatedLockManager
from embedbroker.testing._network import Network
from embedbroker.testing._node_host import NodeHost
from embedbroker.testing._scene import Scene

from .clustered import clustered
from .copy_view import CopyState, copy_state_of, stream_of
from .copy_watch import CopyWatch
from .group import GroupPolicy
from .members import Members
from .plan import PRIMARY, GroupPlan

__all__ = ["ReplicaPolicy"]

#: How long no broker may serve although one could: a lease has to run out, and a silent peer has to be given up. A
#: broker that failed at either tries again after seconds.
OUTAGE_S_MAX = 15.0


def _policy(plan: GroupPlan, name: str) -> ReplicationPrimary | ReplicationBackup:
    if name == PRIMARY:
        return ReplicationPrimary(retry_replication_wait_ms=plan.retry_ms)
    return ReplicationBackup(
        allow_failback=plan.allow_failback,
        restart_backup=plan.restart_backups,
        retry_replication_wait_ms=plan.retry_ms,
    )


@define(eq=False)
class ReplicaPolicy(GroupPolicy):
    """Of brokers with a disk each, and one lock manager."""

    manager: SimulatedLockManager

    def __attrs_post_init__(self) -> None:
        self.copies = CopyWatch(self.scene, self.members, self._check_alone)

    @classmethod
    def of(
        cls, scene: Scene, network: Network, plan: GroupPlan, config: BrokerConfig, settings: JournalSettings
    ) -> ReplicaPolicy:
        manager = SimulatedLockManager(lambda: scene.world.now, plan.lease_s)
        hosts: dict[str, NodeHost] = {}
        for number, name in enumerate(plan.names):
            own = clustered(config, _policy(plan, name), name, plan.names)
            journal = evolve(settings, identity=settings.identity + number)
            hosts[name] = NodeHost(network, own, SimulatedDisk(), journal, manager)
        return cls(scene, network, plan, Members(scene, config, settings, hosts), manager)

    def holder(self, host: NodeHost) -> str:
        """What the lock manager calls a host."""
        return called(host.config.ha_policy, host.name)

    # Which broker is live

    def on_role(self, host: NodeHost, role: Role) -> None:
        if role is Role.ACTIVATING:
            self.members.take_over(host, may_stop=True)  # a broker that hands over waits until it is taken
            for other in self.members.hosts.values():
                self.check(other)

    def check(self, host: NodeHost) -> None:
        """A replaced broker has confirmed nothing on its own, and finds out with the first thing that it does."""
        active = self.members.active
        if host is active or not host.ready:
            return
        stream = stream_of(host)
        if not host.frozen or (stream is not None and stream.is_alone):
            self.scene.fail(f"{host.name} is live and {stream and stream.state}, beside {active and active.name}")

    # Which broker confirms

    def _check_alone(self, host: NodeHost) -> None:
        """No other broker may have a right to be live with its data while this one confirms without it."""
        for other in self.members.hosts.values():
            if other is not host and self._is_newest(copy_state_of(other)):
                self.scene.fail(f"{host.name} confirms alone, and {other.name} may still be live")

    # Whether a broker serves

    def outages(self) -> Iterator[tuple[str, bool, float, str]]:
        could = not self.members.ready and self._somebody_could()
        yield "serving", could, OUTAGE_S_MAX, f"nobody serves for {OUTAGE_S_MAX} s, although somebody could"

    def _somebody_could(self) -> bool:
        """Whether a healthy broker has the newest data and the means to be live."""
        manager = self.manager
        if not manager.reachable:
            return False
        frozen = [host for host in self.members.hosts.values() if host.frozen]
        held = [self.holder(host) for host in frozen] if self.plan.lease_s is None else []
        for host in self.members.awake:
            standing = copy_state_of(host)
            if standing is None or host.full or self.holder(host) in manager.cut_off:
                continue
            if self._is_newest(standing) and manager.holder(standing.node_id) not in held:
                return True
        return False

    def _is_newest(self, standing: CopyState | None) -> bool:
        """Return True if the lock manager lets a broker be live with such data."""
        if standing is None or not standing.in_sync:
            return False
        newest = self.manager.sequences.get(standing.node_id, 0)
        return newest == standing.epoch or (newest < 0 and standing.epoch in (-newest, -newest - 1))
