"""Brokers that replicate: each has a disk of its own, and a lock manager says whose data is the newest.

Responsible for what such a group promises: one that was replaced goes on by nothing but what its backup had, a backup
that is in sync has what the live one has, and nobody is missing for long while somebody could serve. Refuses to know
faults and users.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, evolve, field

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
from .members import Members, Span
from .plan import PRIMARY, GroupPlan

__all__ = ["ReplicaGroup"]

#: How long nobody may serve although somebody could: a lease has to run out, a silent peer has to be given up, and who
#: failed at either asks again after seconds.
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
class ReplicaGroup:
    """A primary and its backups."""

    scene: Scene
    plan: GroupPlan
    manager: SimulatedLockManager
    members: Members
    _wanted: Span = field(factory=Span, init=False)
    _copies: CopyWatch = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._copies = CopyWatch(self.scene, self.members, self._check_alone)

    @classmethod
    def of(
        cls, scene: Scene, network: Network, plan: GroupPlan, config: BrokerConfig, settings: JournalSettings
    ) -> ReplicaGroup:
        manager = SimulatedLockManager(lambda: scene.world.now, plan.lease_s)
        hosts: dict[str, NodeHost] = {}
        for number, name in enumerate(plan.names):
            own = clustered(config, _policy(plan, name), name, plan.names)
            journal = evolve(settings, identity=settings.identity + number)
            hosts[name] = NodeHost(network, own, SimulatedDisk(), journal, manager)
        members = Members(scene, config, settings, hosts)
        group = cls(scene, plan, manager, members)
        for host in hosts.values():
            group._watch(host)
            members.watch(host)
        members.after_step.append(group._copies.look)
        return group

    def _watch(self, host: NodeHost) -> None:
        host.on_role.append(lambda role: self._on_role(host, role))
        host.after_step.append(lambda: self._check_replaced(host))
        host.after_step.append(self._look_for_outage)

    @property
    def in_order(self) -> bool:
        """Whether everybody runs, a backup is in sync, and the primary is live if the policies say so."""
        members = self.members
        if len(members.awake) < len(members.hosts) or not members.ready or members.active is None:
            return False
        stream = stream_of(members.active)
        if stream is None or not stream.is_in_sync:
            return False
        # A live broker has one backup. If another one came first, the primary waits.
        return members.primary.ready or not self.plan.allow_failback or stream.to != members.primary.name

    def holder(self, host: NodeHost) -> str:
        """What the lock manager calls a host."""
        return called(host.config.ha_policy, host.name)

    def set_full(self, host: NodeHost, full: bool) -> None:
        """Whether there is room for a host on its disk."""
        host.full = full

    # Who is live

    def stop(self, *, fails_over: bool) -> None:
        """An orderly stop of who is live."""
        assert self.members.active is not None, "only who is live is stopped"
        self.members.active.stop(fails_over=fails_over)

    def disturbed(self) -> None:
        """Something happened to it from outside: it has its time again."""
        self._wanted.begin_anew()

    def _on_role(self, host: NodeHost, role: Role) -> None:
        if role is Role.ACTIVATING:
            self.members.take_over(host, may_stop=True)  # whoever hands over waits until it is taken
            for other in self.members.hosts.values():
                self._check_replaced(other)

    def _check_replaced(self, host: NodeHost) -> None:
        """Whoever was replaced has confirmed nothing on its own, and finds out with the first thing that it does."""
        active = self.members.active
        if host is active or not host.ready:
            return
        stream = stream_of(host)
        if not host.frozen or (stream is not None and stream.is_alone):
            self.scene.fail(f"{host.name} is live and {stream and stream.state}, beside {active and active.name}")

    # Who confirms

    @property
    def twin(self) -> SimulatedDisk | None:
        """The disk of a backup that has everything the live broker has."""
        return self._copies.twin

    @property
    def on_in_sync(self) -> list[Callable[[], None]]:
        """Called when a backup is in sync."""
        return self._copies.on_in_sync

    def _check_alone(self, host: NodeHost) -> None:
        """Nobody has a right to be live with what he has, if somebody else confirms without him."""
        for other in self.members.hosts.values():
            if other is not host and self._is_newest(copy_state_of(other)):
                self.scene.fail(f"{host.name} confirms alone, and {other.name} may still be live")

    # Whether somebody serves

    def _look_for_outage(self) -> None:
        could = not self.members.ready and self._somebody_could()
        if self._wanted.lasts_s(self.scene.world.now, could) > OUTAGE_S_MAX:
            self.scene.fail(f"nobody serves for {OUTAGE_S_MAX} s, although somebody could")

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
        """Whether the lock manager lets somebody be live with such data."""
        if standing is None or not standing.in_sync:
            return False
        newest = self.manager.sequences.get(standing.node_id, 0)
        return newest == standing.activation or (newest < 0 and standing.activation in (-newest, -newest - 1))
