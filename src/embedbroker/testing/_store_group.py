"""Brokers that share one simulated disk and one lock store, looked at as the one broker that they are to their clients.

Responsible for who of them has the journal, and for the promises of such a group: one at a time works on the disk, one
that was replaced while it was frozen does nothing more, and nobody is missing for long while somebody could serve.
Refuses to know faults and users.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from attrs import define, evolve, field

from embedbroker.config import BrokerConfig, HAPolicy, Role, SharedStoreBackup, SharedStorePrimary
from embedbroker.locks import Lock, called
from embedbroker.node import Node
from embedbroker.storage import DiskWork, JournalSettings, Lane
from embedbroker.testing._disk import SimulatedDisk
from embedbroker.testing._locks import SimulatedLocks
from embedbroker.testing._network import Network
from embedbroker.testing._node_host import NodeHost
from embedbroker.testing._plan import GroupPlan
from embedbroker.testing._scene import Moment, Scene

__all__ = ["PRIMARY", "StoreGroup"]

PRIMARY = "primary"
#: How long nobody may serve although somebody could: the time of two who are frozen in front of a third, and to spare.
OUTAGE_S_MAX = 12.0
#: And how long the live lock may be free when nobody is frozen: one asks again after a fault of the store.
FREE_S_MAX = 3.0
_HAS_JOURNAL = (Role.ACTIVATING, Role.LIVE)


def _policy(plan: GroupPlan, name: str) -> HAPolicy:
    if name == PRIMARY:
        return SharedStorePrimary(failover_on_shutdown=plan.primary_hands_over)
    return SharedStoreBackup(
        failover_on_shutdown=plan.backups_hand_over,
        allow_failback=plan.allow_failback,
        restart_backup=plan.restart_backups,
    )


@define(eq=False)
class StoreGroup:
    """A primary and its backups. ``active`` is who has the journal, or had it last."""

    scene: Scene
    plan: GroupPlan
    config: BrokerConfig
    disk: SimulatedDisk
    settings: JournalSettings
    hosts: dict[str, NodeHost]
    locks: SimulatedLocks
    life: int = field(default=0, init=False)
    active: NodeHost | None = field(default=None, init=False)
    on_start: list[Callable[[], None]] = field(factory=list, init=False)
    after_step: list[Callable[[], None]] = field(factory=list, init=False)
    on_ready: list[Callable[[], None]] = field(factory=list, init=False)
    on_send: list[Callable[[int, str, bytes], None]] = field(factory=list, init=False)
    # The life that the ledger takes for living, and since when somebody should serve.
    _counted: int = field(default=0, init=False)
    _wanted_since: float | None = field(default=None, init=False)
    _free_since: float | None = field(default=None, init=False)
    _last_ready: NodeHost | None = field(default=None, init=False)
    # A backup is to take over: somebody was live, and was not stopped with nobody to follow.
    _has_heirs: bool = field(default=False, init=False)

    @classmethod
    def of(
        cls, scene: Scene, network: Network, plan: GroupPlan, config: BrokerConfig, settings: JournalSettings
    ) -> StoreGroup:
        disk, locks = SimulatedDisk(), SimulatedLocks()
        hosts: dict[str, NodeHost] = {}
        for name in (PRIMARY, *(f"backup{number}" for number in range(1, plan.backups + 1))):
            own = evolve(config, name=name, ha_policy=_policy(plan, name))
            hosts[name] = NodeHost(network, own, disk, settings, locks)
        group = cls(scene, plan, config, disk, settings, hosts, locks)
        for host in hosts.values():
            group._watch(host)
        return group

    def _watch(self, host: NodeHost) -> None:
        host.on_role.append(lambda role: self._on_role(host, role))
        host.on_ready.append(lambda: self._on_ready(host))
        host.on_stopped.append(lambda failure: self.ended(host))
        host.after_step.append(lambda: self._after_step(host))
        host.on_send.append(lambda connection, peer, data: self._on_send(host, connection, peer, data))

    # What there is to look at

    @property
    def names(self) -> Sequence[str]:
        """Who may be connected to."""
        return tuple(self.hosts)

    @property
    def node(self) -> Node | None:
        """Of who has the journal."""
        node = self.active.node if self.active is not None else None
        return node if node is not None and node.role in _HAS_JOURNAL else None

    @property
    def under_way(self) -> Mapping[Lane, DiskWork]:
        return self.active.under_way if self.active is not None else {}

    @property
    def notices(self) -> Sequence[str]:
        return [notice for host in self.hosts.values() for notice in host.notices]

    @property
    def ready(self) -> bool:
        """True while clients are served."""
        return self.active is not None and self.active.ready

    @property
    def recovering(self) -> bool:
        return self.active is not None and self.active.recovering

    @property
    def connections(self) -> int:
        return sum(host.connections for host in self.hosts.values())

    def knows_session(self, name: str) -> bool:
        """True if the present life has a session of that name."""
        return self.active is not None and self.active.knows_session(name)

    def start(self) -> None:
        """Everybody starts, in any order."""
        hosts = list(self.hosts.values())
        self.scene.world.random.shuffle(hosts)
        for host in hosts:
            host.start()

    @property
    def in_order(self) -> bool:
        """Whether everybody runs, and the roles are what the policies say in the end."""
        if any(host.node is None or host.frozen for host in self.hosts.values()) or not self.ready:
            return False
        return self.hosts[PRIMARY].ready or not self.plan.allow_failback

    def holder(self, host: NodeHost) -> str:
        """What the lock store calls a host."""
        return called(host.config.ha_policy, host.name)

    # Who has the journal

    def stop(self, *, fails_over: bool) -> None:
        """An orderly stop of who is live."""
        assert self.active is not None, "only who is live is stopped"
        hands_over = self.plan.primary_hands_over if self.active.name == PRIMARY else self.plan.backups_hand_over
        self._has_heirs = fails_over or hands_over
        self.active.stop(fails_over=fails_over)

    def disturbed(self) -> None:
        """Something happened to it from outside: it has its time again."""
        self._wanted_since = self._free_since = None

    def ended(self, host: NodeHost) -> None:
        """A life of a host is over, in whatever way."""
        if host is self.active and self._counted == self.life:
            self._counted += 1
            self.scene.ledger.killed(self.scene.world.now)

    def _on_role(self, host: NodeHost, role: Role) -> None:
        if role is not Role.ACTIVATING:
            return
        before = self.active
        if before is not None and before is not host and before.node is not None and before.node.role in _HAS_JOURNAL:
            if not before.frozen:
                self.scene.fail(f"{before.name} and {host.name} have the journal")
            before.superseded = True
            self.scene.hit(Moment.REPLACED_WHILE_FROZEN)
            self.ended(before)
        if self._passes_over(host):
            self.scene.hit(Moment.PASSED_OVER)
        self.active = host
        self._has_heirs = True
        self._counted = self.life = self.life + 1
        for look in self.on_start:
            look()

    def _passes_over(self, host: NodeHost) -> bool:
        """Whether somebody who is frozen goes before it."""
        before = [self.locks.holder(lock) for lock in (Lock.BACKUP, Lock.FAILBACK)]
        return any(other.frozen and self.holder(other) in before for other in self.hosts.values() if other is not host)

    def _on_ready(self, host: NodeHost) -> None:
        if host is not self.active:
            self.scene.fail(f"{host.name} serves, and {self.active and self.active.name} has the journal")
        if self._last_ready is not None and host is not self._last_ready:
            self.scene.hit(Moment.FAILBACK if host.name == PRIMARY else Moment.FAILOVER)
            if host.node is not None and host.node.kernel.branches.prepared():
                self.scene.hit(Moment.BRANCHES_MOVED)
        self._last_ready = host
        if self.life > 1:
            self.scene.ledger.restarted(self.scene.world.now)
        for look in self.on_ready:
            look()

    def _after_step(self, host: NodeHost) -> None:
        if host.superseded and set(host.under_way) - set(host.written):
            self.scene.fail(f"{host.name} works on the disk of {self.active and self.active.name}")
        elif host is not self.active and host.under_way and not host.superseded:
            self.scene.fail(f"{host.name} works on the disk although it does not have the journal")
        self._look_for_outage()
        if host is self.active:
            for check in self.after_step:
                check()

    def _on_send(self, host: NodeHost, connection: int, peer: str, data: bytes) -> None:
        if host is self.active:
            for tap in self.on_send:
                tap(connection, peer, data)

    # Whether somebody serves

    def _look_for_outage(self) -> None:
        now = self.scene.world.now
        could = not self.ready and self._somebody_could()
        wanted = self._wanted_since = (now if self._wanted_since is None else self._wanted_since) if could else None
        could = could and self.locks.holder(Lock.LIVE) is None and not any(host.frozen for host in self.hosts.values())
        free = self._free_since = (now if self._free_since is None else self._free_since) if could else None
        if wanted is not None and now > wanted + OUTAGE_S_MAX:
            self.scene.fail(f"nobody serves for {OUTAGE_S_MAX} s, although somebody could")
        if free is not None and now > free + FREE_S_MAX:
            self.scene.fail(f"nobody takes the live lock for {FREE_S_MAX} s, although nobody is in the way")

    def _somebody_could(self) -> bool:
        """Whether a healthy broker is entitled to be live, and has the means."""
        holder = self.locks.holder(Lock.LIVE)
        if not self.locks.reachable or any(self.holder(host) == holder and host.frozen for host in self.hosts.values()):
            return False
        awake = [host for host in self.hosts.values() if host.node is not None and not host.frozen and not host.full]
        return any(self._has_heirs or host.name == PRIMARY for host in awake)
