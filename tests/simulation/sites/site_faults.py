"""Faults of several brokers: each strikes one of them, or what is between two, and heals by itself.

Responsible for which broker a fault strikes, for its end, and for starting again a broker that is down. Does not depend
on messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from attrs import define, field

from embedbroker.config import PrimaryOnly
from embedbroker.node import NodeState
from embedbroker.testing._network import Network
from embedbroker.testing._node_host import NodeHost
from embedbroker.testing._scene import Moment, Scene
from tests.simulation.scenario.crashes import MOMENTS, Ambush, count_crash
from tests.simulation.scenario.disk_faults import DISK_FAULTS, strike_disk
from tests.simulation.scenario.fault_kinds import FaultKind
from tests.simulation.scenario.fault_schedule import FaultSchedule

from .site import Site

__all__ = ["SiteFaults", "is_scaling_down", "scales_down"]

_CLOCK_JUMP_MS_MAX = 120_000


@define(eq=False)
class SiteFaults:
    """The faults of one scenario.

    ``is_forwarding`` returns True while the broker at one end of something has sends that are not confirmed. It is
    called with the other end. ``on_disturbed`` is called before each fault.
    """

    scene: Scene
    network: Network
    sites: Sequence[Site]
    is_forwarding: Callable[[NodeHost], bool]
    on_disturbed: Callable[[], None]
    on_crash: Callable[[NodeHost], None]
    _schedule: FaultSchedule = field(init=False)
    _ambushes: dict[str, Ambush] = field(factory=dict, init=False)
    #: Of nodes that scale down: they cut all connections in place of a crash.
    _cuts: dict[str, Ambush] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self._schedule = FaultSchedule(self.scene.world, self._strike)
        for host in self._hosts:
            self._watch(host)

    def _watch(self, host: NodeHost) -> None:
        ambush = Ambush(self.scene, self._schedule, lambda: self._crash(host))
        self._ambushes[host.name] = ambush
        host.after_step.append(lambda: ambush.look(host) if host.node is not None else None)
        if scales_down(host):
            cuts = self._cuts[host.name] = Ambush(self.scene, self._schedule, lambda: self._cut_off(host))
            host.after_step.append(lambda: cuts.look(host) if host.node is not None else None)
        host.on_stopped.append(lambda failure: self._on_stopped(host, failure))

    @property
    def _hosts(self) -> list[NodeHost]:
        return [host for site in self.sites for host in site.hosts]

    def schedule(self, strikes: Iterable[tuple[FaultKind, float]]) -> None:
        """Set each fault at its time, in seconds from now."""
        self._schedule.schedule(strikes)

    @property
    def struck(self) -> int:
        """The number of faults that have struck."""
        return self._schedule.struck

    @property
    def over(self) -> bool:
        """True if every fault has struck and healed, and each site serves."""
        return self._schedule.over and all(site.live is not None for site in self.sites)

    def _strike(self, kind: FaultKind) -> None:
        self.on_disturbed()
        host = self._somebody()
        match kind:
            case FaultKind.CRASH:
                self._crash(host)
            case FaultKind.CRASH_TWICE:
                self._ambushes[host.name].again = True
                self._crash(host)
            case FaultKind.CRASH_WHILE_FORWARDING:
                self._ambushes[host.name].lay(self.is_forwarding, runs=host.node is not None)
            case FaultKind.RESTART:
                self._restart(host)
            case FaultKind.SCALE_DOWN | FaultKind.CRASH_WHILE_SCALING_DOWN:
                self._scale_down(self._somebody_that_leaves(), interrupts=kind is FaultKind.CRASH_WHILE_SCALING_DOWN)
            case FaultKind.FREEZE:
                self._freeze(host)
            case FaultKind.CLOCK_JUMP:
                self.scene.hit(Moment.CLOCK_JUMPED)
                host.clock_offset_ms = self.scene.world.random.randint(-_CLOCK_JUMP_MS_MAX, _CLOCK_JUMP_MS_MAX)
                self._schedule.healed()
            case _ if kind in MOMENTS:
                self._ambushes[host.name].lay(MOMENTS[kind], runs=host.node is not None)
            case _ if kind in DISK_FAULTS:
                speed, repair = self._speed_of(host), self._repair_of(host)
                strike_disk(self.scene, self._schedule, kind, host.disk, speed, repair)
            case _:
                self._strike_links(kind)

    def _somebody(self) -> NodeHost:
        """Return a host: of a pair, mostly the one that serves."""
        site = self.scene.world.random.choice(self.sites)
        if site.live is not None and self.scene.chance(0.8):
            return site.live
        return self.scene.world.random.choice(site.hosts)

    # The brokers

    def _crash(self, host: NodeHost) -> None:
        """Count what the crash meets, crash, and let the broker start again."""
        if host.node is not None:
            self.on_disturbed()
            self.on_crash(host)
            count_crash(self.scene, host)
            host.crash()
        self._schedule.later(0.005 + self.scene.world.random.random() * 0.5, lambda: self._start(host))

    def _on_stopped(self, host: NodeHost, failure: str | None) -> None:
        """A life has ended in order, or because its disk failed. It must start again in any case."""
        if failure is not None and "damaged" in failure:
            self.scene.fail(f"{host.name} refuses to start: {failure}")
        self._schedule.expect()
        self._schedule.later(0.2 + self.scene.world.random.random(), lambda: self._start(host))

    def _restart(self, host: NodeHost) -> None:
        """Stop in order. If that has not ended in time, the power goes."""
        if not host.ready or host.frozen:
            self._schedule.healed()
            return
        self.scene.hit(Moment.ORDERLY_RESTART)
        host.stop(fails_over=self.scene.chance(0.5))
        self._schedule.later(0.2 + self.scene.world.random.random(), lambda: self._start(host))

    def _somebody_that_leaves(self) -> NodeHost:
        return self.scene.world.random.choice([host for host in self._hosts if scales_down(host)])

    def _scale_down(self, host: NodeHost, *, interrupts: bool) -> None:
        """Stop in order, which moves everything. That may take time, and be interrupted."""
        if not host.ready or host.frozen:
            self._schedule.healed()
            return
        random = self.scene.world.random
        if interrupts:
            self._schedule.expect()
            ambush = random.choice((self._ambushes, self._cuts))[host.name]
            # Before it stops, nothing moves.
            ambush.lay(lambda host: is_scaling_down(host) and host.stopping and self.scene.chance(0.1), runs=True)
        host.stop()
        # What ends before is started again then.
        self._schedule.later(random.choice((0.5, 3.0, 10.0)) * (0.2 + random.random()), lambda: self._start(host))

    def _cut_off(self, host: NodeHost) -> None:
        for link in list(self.network.links):
            if host in (link.near, link.far):
                self.scene.hit(Moment.CONNECTION_CUT)
                link.cut("connection reset")
        self._schedule.healed()

    def _start(self, host: NodeHost) -> None:
        """Start a broker that is down. A life that hangs in its end is ended first."""
        if host.frozen:
            return
        if host.node is not None and host.node.state is NodeState.STOPPING:
            host.crash()
        if host.node is None:
            host.start()

    def _freeze(self, host: NodeHost) -> None:
        if host.node is None or host.frozen:
            self._schedule.healed()
            return
        self.scene.hit(Moment.FROZEN_LIVE)
        host.freeze()
        life = host.life
        duration_s = self.scene.world.random.choice((0.1, 1.0, 3.0)) * (0.2 + self.scene.world.random.random())
        self._schedule.later(duration_s, lambda: self._thaw(host, life))

    def _thaw(self, host: NodeHost, life: int) -> None:
        if host.frozen and host.life == life:
            host.thaw()

    def _speed_of(self, host: NodeHost) -> Callable[[float], None]:
        return lambda factor: setattr(host.speed, "factor", factor)

    def _repair_of(self, host: NodeHost) -> Callable[[], None]:
        def repair() -> None:
            host.disk.repair()
            self._start(host)

        return repair

    # What is between them

    def _strike_links(self, kind: FaultKind) -> None:
        scene, network, random = self.scene, self.network, self.scene.world.random
        duration_s = 0.01 + random.random() * random.choice((0.1, 1.0, 4.0))
        one, other = self._two()
        match kind:
            case FaultKind.PART_MEMBERS:
                scene.hit(Moment.PARTED_BOTH_WAYS)
                self._hold([(one, other), (other, one)], duration_s)
            case FaultKind.HOLD_MEMBERS_ONE_WAY:
                scene.hit(Moment.PARTED_ONE_WAY)
                self._hold([(one, other)], duration_s)
            case FaultKind.SLOW_MEMBERS:
                scene.hit(Moment.LINK_SLOWED)
                network.slow_down(one, other, 0.02 + random.random() * 0.3)
                self._schedule.later(duration_s, lambda: network.slow_down(one, other, 0.0))
            case FaultKind.CUT_MEMBERS:
                # Bytes pile up for a moment, so that the cut loses some of them in both directions.
                for pair in ((one, other), (other, one)):
                    network.hold(*pair)
                delay_s = random.random() * random.choice((0.0, 0.01, 0.1))
                self._schedule.later(delay_s, lambda: self._cut(one, other))
            case FaultKind.HALF_OPEN:
                for link in network.between(one, other):
                    scene.hit(Moment.HALF_OPEN)
                    link.fall_silent(random.choice((link.near, link.far)), "connection reset")
                self._schedule.healed()
            case _:
                for link in list(network.links):
                    scene.hit(Moment.CONNECTION_CUT)
                    link.cut("connection reset")
                self._schedule.healed()

    def _two(self) -> tuple[str, str]:
        one, other = self.scene.world.random.sample(self.sites, 2)
        return self._name_in(one), self._name_in(other)

    def _name_in(self, site: Site) -> str:
        live = site.live
        return live.name if live is not None else self.scene.world.random.choice(site.names)

    def _hold(self, pairs: Sequence[tuple[str, str]], duration_s: float) -> None:
        for pair in pairs:
            self.network.hold(*pair)
        self._schedule.later(duration_s, lambda: self._release(pairs))

    def _release(self, pairs: Sequence[tuple[str, str]]) -> None:
        for pair in pairs:
            self.network.release(*pair)

    def _cut(self, one: str, other: str) -> None:
        for link in self.network.between(one, other):
            self.scene.hit(Moment.CONNECTION_CUT)
            link.cut("connection reset")
        self._release([(one, other), (other, one)])


def scales_down(host: NodeHost) -> bool:
    """Return True if a host moves everything to another one when it stops in order."""
    policy = host.config.ha_policy
    return isinstance(policy, PrimaryOnly) and policy.scale_down is not None


def is_scaling_down(host: NodeHost) -> bool:
    """Return True while a host moves everything to another one, or is about to."""
    return host.node is not None and host.node.is_scaling_down
