"""The brokers of a group, looked at as the one broker that they are to their clients.

Responsible for whose life counts, for what users and checkers see of it, and for telling the ledger when a life ends.
Does not depend on what gives a broker the right to be live: the group grants it, and calls `take_over`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from attrs import define, field

from embedbroker.config import BrokerConfig, Role
from embedbroker.node import Node
from embedbroker.storage import DiskWork, JournalSettings, Lane
from embedbroker.testing._disk import SimulatedDisk
from embedbroker.testing._node_host import NodeHost
from embedbroker.testing._scene import Moment, Scene

from .plan import PRIMARY

__all__ = ["HAS_JOURNAL", "Members", "Span"]

#: The roles of a broker that works on the journal that clients depend on.
HAS_JOURNAL = (Role.ACTIVATING, Role.LIVE)


@define
class Span:
    """How long something has been so without a break."""

    _since: float | None = None

    def lasts_s(self, now: float, is_so: bool) -> float:
        """Seconds up to now; 0 if it is not so."""
        if not is_so:
            self._since = None
            return 0.0
        if self._since is None:
            self._since = now
        return now - self._since

    def begin_anew(self) -> None:
        """What was before does not count."""
        self._since = None


@define(eq=False)
class Members:
    """All hosts by name. ``active`` is the host that has the journal, or had it last.

    ``others`` are brokers of other pairs, which no user connects to.
    """

    scene: Scene
    config: BrokerConfig
    settings: JournalSettings
    hosts: dict[str, NodeHost]
    others: dict[str, NodeHost] = field(factory=dict, kw_only=True)
    life: int = field(default=0, init=False)
    active: NodeHost | None = field(default=None, init=False)
    on_start: list[Callable[[], None]] = field(factory=list, init=False)
    after_step: list[Callable[[], None]] = field(factory=list, init=False)
    on_ready: list[Callable[[], None]] = field(factory=list, init=False)
    on_send: list[Callable[[int, str, bytes], None]] = field(factory=list, init=False)
    # The life that the ledger takes for living.
    _counted: int = field(default=0, init=False)
    _last_ready: NodeHost | None = field(default=None, init=False)

    def watch(self, host: NodeHost) -> None:
        """Follows a host from now on; what a group watches for is registered before."""
        host.on_ready.append(lambda: self._on_ready(host))
        host.on_stopped.append(lambda failure: self.ended(host))
        host.after_step.append(lambda: self._after_step(host))
        host.on_send.append(lambda connection, peer, data: self._on_send(host, connection, peer, data))

    # What there is to look at

    @property
    def names(self) -> Sequence[str]:
        """The names of the hosts that users may connect to."""
        return tuple(self.hosts)

    @property
    def primary(self) -> NodeHost:
        return self.hosts[PRIMARY]

    @property
    def node(self) -> Node | None:
        """Of the host that has the journal; in the step in which it stops by itself, too, for what that still sends."""
        node = self.active.node if self.active is not None else None
        return node if node is not None and (node.role in HAS_JOURNAL or node.role is Role.STOPPED) else None

    @property
    def disk(self) -> SimulatedDisk:
        """Of the host that has the journal, or of the primary before any host had it."""
        return (self.active or self.primary).disk

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
        """How many clients are connected, to whomever."""
        return sum(not self.has(peer) for host in self.hosts.values() for peer in host.peers)

    def has(self, name: str) -> bool:
        """Return True if the name is that of a broker."""
        return name in self.hosts or name in self.others

    @property
    def everybody(self) -> list[NodeHost]:
        """All brokers."""
        return [*self.hosts.values(), *self.others.values()]

    def has_session(self, name: str) -> bool:
        """True if the present life has a session of that name."""
        return self.active is not None and self.active.has_session(name)

    def start(self) -> None:
        """Start all hosts, in any order."""
        hosts = self.everybody
        self.scene.world.random.shuffle(hosts)
        for host in hosts:
            host.start()

    @property
    def awake(self) -> list[NodeHost]:
        """The hosts that run, and are not frozen."""
        return [host for host in self.hosts.values() if host.node is not None and not host.frozen]

    # Whose life counts

    def take_over(self, host: NodeHost, *, may_stop: bool = False, unnoticed: bool = False) -> None:
        """A host was granted the journal, and reads it. ``may_stop``: the one before may still be on its way out.

        ``unnoticed``: the one before gets no notice, and finds out later.
        """
        before = self.active
        if before is not None and before is not host and before.node is not None and before.node.role in HAS_JOURNAL:
            if before.frozen:
                before.superseded = True
                self.scene.hit(Moment.REPLACED_WHILE_FROZEN)
            elif unnoticed:
                before.superseded = True
                self.scene.hit(Moment.REPLACED_UNNOTICED)
            elif not (may_stop and before.stopping):
                self.scene.fail(f"{before.name} and {host.name} have the journal")
            self.ended(before)
        self.active = host
        self._counted = self.life = self.life + 1
        for look in self.on_start:
            look()

    def ended(self, host: NodeHost) -> None:
        """A life of a host is over, in whatever way."""
        if host is self.active and self._counted == self.life:
            self._counted += 1
            self.scene.ledger.killed(self.scene.world.now)

    def _on_ready(self, host: NodeHost) -> None:
        if host is not self.active:
            self.scene.fail(f"{host.name} serves, and {self.active and self.active.name} has the journal")
        if self._last_ready is not None and host is not self._last_ready:
            self.scene.hit(Moment.FAILBACK if host is self.primary else Moment.FAILOVER)
            if host.node is not None and host.node.kernel.branches.prepared():
                self.scene.hit(Moment.BRANCHES_MOVED)
        self._last_ready = host
        if self.life > 1:
            self.scene.ledger.restarted(self.scene.world.now)
        for look in self.on_ready:
            look()

    def _after_step(self, host: NodeHost) -> None:
        if host is self.active:
            for check in self.after_step:
                check()

    def _on_send(self, host: NodeHost, connection: int, peer: str, data: bytes) -> None:
        if host is self.active and not self.has(peer):
            for tap in self.on_send:
                tap(connection, peer, data)
