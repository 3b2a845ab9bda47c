"""One scenario of bridges: a seed becomes brokers, bridges and senders under faults, and everything must arrive.

Then everything heals. The messages must be where the bridges bring them, and nothing must move any more.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field

from embedbroker.kernel import BridgeView
from embedbroker.ledger import Ledger
from embedbroker.testing._checkers import BrokerChecker
from embedbroker.testing._clients import ClientHost
from embedbroker.testing._network import Network
from embedbroker.testing._node_host import NodeHost
from embedbroker.testing._scene import Moment, Phase, Scene
from embedbroker.testing._world import World
from tests.simulation.scenario import SeedResult
from tests.simulation.scenario.scenario import failing_with, run_until

from .arrivals import ArrivalChecker, held_in
from .bridge_brokers import make_sites
from .bridge_operator import BridgeOperator
from .bridge_plan import BridgePlan, BridgeScenarioPlan, takes
from .bridge_routes import BridgeRoutes
from .draw_bridges import draw_bridge_plan
from .send_book import SendBook
from .senders import Sender
from .site import Site, live_kernel
from .site_faults import SiteFaults

__all__ = ["run_bridge_plan", "run_bridge_seed"]

#: Virtual seconds that each phase may last.
_SETUP_S, _WORK_S, _START_S, _DRAIN_S, _LEAVE_S = 10.0, 300.0, 120.0, 120.0, 60.0
#: So long nothing must move in the end.
_QUIET_S = 3.0
_GIVES_UP, _IS_CONNECTED, _NOT_CONFIRMED = "gives up after", "is connected to", "are not confirmed after"

#: Lines of a broker whose disk fails under the body of a large message.
_UNREAD, _UNSTORED = "a large message cannot be read", "the body of a large message cannot be stored"
_CANNOT_BE_READ = "its body cannot be read"


def run_bridge_seed(seed: int, *, trace_tail_lines: int = 200) -> SeedResult:
    """Run the scenario of one seed.

    Raises:
        ScenarioFailed: Whatever went wrong, an assertion inside the broker or the client included.
    """
    return run_bridge_plan(draw_bridge_plan(seed), trace_tail_lines=trace_tail_lines)


def run_bridge_plan(plan: BridgeScenarioPlan, *, trace_tail_lines: int = 200) -> SeedResult:
    """Run a scenario that was drawn before.

    Raises:
        ScenarioFailed: As for `run_bridge_seed`.
    """
    world = World(plan.seed, trace_tail_lines=trace_tail_lines)
    return failing_with(world, lambda: _BridgeScenario(plan, world).run())


@define(eq=False)
class _BridgeScenario:
    plan: BridgeScenarioPlan
    world: World
    scene: Scene = field(init=False)
    network: Network = field(init=False)
    sites: dict[str, Site] = field(init=False)
    book: SendBook = field(factory=SendBook, init=False)
    checkers: list[BrokerChecker] = field(factory=list, init=False)
    senders: list[Sender] = field(factory=list, init=False)
    operators: list[BridgeOperator] = field(factory=list, init=False)
    clients: list[ClientHost] = field(factory=list, init=False)
    faults: SiteFaults = field(init=False)

    def __attrs_post_init__(self) -> None:
        plan = self.plan
        self.scene = Scene(self.world, Ledger())
        self.network = Network(self.world, latency_s=plan.latency_s)
        self.network.split_chance = plan.split_chance
        self.sites = make_sites(plan, self.network)
        brokers = tuple([host.name for host in self._hosts])
        for host in self._hosts:
            checker = BrokerChecker(self.scene, host, (), brokers)
            checker.watch()
            self.checkers.append(checker)
        for sender in plan.senders:
            self.senders.append(Sender(self.scene, self._client(sender.name, sender.site), sender, self.book))
        for site in self.sites.values():
            bridges = [bridge for bridge in plan.bridges if bridge.site == site.name]
            names = [name for bridge in bridges for name in _each(bridge)]
            limited = [name for bridge in bridges for name in _each(bridge) if bridge.attempts >= 0]
            if names:
                name = f"operator-{site.name}"
                client = self._client(name, site.name)
                self.operators.append(BridgeOperator(self.scene, client, name, names, limited, plan.operator_pause_s))
        parts = self._is_forwarding, self._on_disturbed, self._on_crash
        self.faults = SiteFaults(self.scene, self.network, list(self.sites.values()), *parts)

    def _client(self, name: str, site: str) -> ClientHost:
        host = ClientHost(self.network, name, self.sites[site].names, self.plan.client)
        self.clients.append(host)
        return host

    @property
    def _hosts(self) -> list[NodeHost]:
        return [host for site in self.sites.values() for host in site.hosts]

    # Phases

    def run(self) -> SeedResult:
        """All phases."""
        for host in self._hosts:
            host.start()
        self._run_until(lambda: all(site.live for site in self.sites.values()), _SETUP_S, "the set-up does not end")
        self._work()
        self._drain()
        self._rest()
        self._leave()
        self._count()
        return SeedResult(
            seed=self.world.seed,
            digest=self.world.trace.digest(),
            operations=self.scene.operations,
            faults=self.faults.struck,
            events=self.world.events,
            virtual_s=self.world.now,
            hits=tuple(self.scene.hits),
            verdict=self.scene.ledger.verdict(drained=True),
        )

    def _work(self) -> None:
        for sender in self.senders:
            sender.host.run(sender.plan.name, sender.steps())
        for operator in self.operators:
            operator.host.run(operator.name, operator.steps())
        self.faults.schedule((strike.kind, strike.at_s) for strike in self.plan.faults)
        self._compare_replays()
        self._run_until(
            lambda: self.faults.over and all(sender.finished for sender in self.senders),
            _WORK_S,
            "the workload does not end",
        )

    def _drain(self) -> None:
        """Everything works again: the operators start all bridges, and these empty their queues."""
        self.network.heal()
        self.scene.phase = Phase.DRAIN
        self._run_until(
            lambda: all(operator.finished for operator in self.operators), _START_S, "the bridges do not start"
        )
        self._run_until(lambda: not any(map(self._left_of, self.plan.bridges)), _DRAIN_S, self._owed)

    def _rest(self) -> None:
        """Nothing moves any more, and each message is where it must be."""
        acknowledged = self._acknowledged()
        self.world.run(self.world.now + _QUIET_S)
        if self._acknowledged() != acknowledged:
            self.scene.fail(f"bridges forward on and on: {acknowledged}, then {self._acknowledged()}")
        homes = {sender.name: (sender.site, sender.address) for sender in self.plan.senders}
        checker = ArrivalChecker(
            self.scene, self.sites, BridgeRoutes(self.plan), self.book, homes, self._bridges_with_body_faults()
        )
        checker.check(durable_only=any(host.life > 1 for host in self._hosts))

    def _bridges_with_body_faults(self) -> dict[str, int]:
        """Return bridges that a fault of a disk made pass a large message, with the size from which one is large.

        Their source could not read a body, or their target had no place for one.
        """
        unread = {site.name for site in self.sites.values() if _has_notice(site, _UNREAD)}
        unstored = {site.name for site in self.sites.values() if _has_notice(site, _UNSTORED)}
        # Sizes in the book are those of bodies alone; headers and properties make a message large, too.
        return {
            bridge.name: min(bridge.min_large_size, self.plan.client.min_large_message_size) // 2
            for bridge in self.plan.bridges
            if bridge.site in unread or bridge.target in unstored
        }

    def _leave(self) -> None:
        self.scene.phase = Phase.LEAVE
        clients = self.clients
        self._run_until(lambda: all(host.idle for host in clients), _LEAVE_S, "clients do not come to an end")
        for host in clients:
            host.leave()
        self._compare_replays()
        self._run_until(
            lambda: all(checker.compared for checker in self.checkers if checker.broker.ready),
            _LEAVE_S,
            "the brokers do not come to rest",
        )

    def _compare_replays(self) -> None:
        for checker in self.checkers:
            checker.compare_replay_soon()

    def _run_until(self, condition: Callable[[], bool], limit_s: float, complaint: str | Callable[[], str]) -> None:
        run_until(self.scene, condition, limit_s, complaint, brokers=len(self._hosts))

    # What is on its way

    def _left_of(self, bridge: BridgePlan) -> list[str]:
        """Return the messages in its queue that the bridge must forward."""
        site = self.sites[bridge.site]
        if site.queue(bridge.queue) is None:
            return ["the broker is down"]
        found = [reference.message for reference in held_in(site, bridge.queue)]
        return [
            str(message.property("key")) for message in found if takes(bridge.color, str(message.property("color")))
        ]

    def _owed(self) -> str:
        left = {bridge.name: self._left_of(bridge)[:10] for bridge in self.plan.bridges}
        states = {
            name: (view.is_started, view.is_connected, view.pending_count)
            for host in self._hosts
            for name, view in self._views(host).items()
        }
        return f"queues do not drain: left {left}, bridges (started, connected, pending) {states}"

    def _acknowledged(self) -> dict[str, int]:
        return {name: view.acknowledged_count for host in self._hosts for name, view in self._views(host).items()}

    def _views(self, host: NodeHost) -> dict[str, BridgeView]:
        kernel = live_kernel(host)
        return dict(kernel.bridges.running) if kernel is not None else {}

    def _is_source(self, host: NodeHost) -> bool:
        """Return True if the host has bridges with sends that are not confirmed."""
        return any(view.pending_count for view in self._views(host).values())

    def _is_target(self, host: NodeHost) -> bool:
        """Return True if bridges to the host have sends that are not confirmed."""
        connectors = [
            view.config.static_connectors
            for other in self._hosts
            for view in self._views(other).values()
            if view.pending_count
        ]
        return any(host.name in names for names in connectors)

    def _is_forwarding(self, host: NodeHost) -> bool:
        return self._is_source(host) or self._is_target(host)

    def _on_disturbed(self) -> None:
        if any(self._is_source(host) for host in self._hosts):
            self.scene.hit(Moment.DISTURBED_WITH_SENDS)

    def _on_crash(self, host: NodeHost) -> None:
        self.scene.hits[Moment.SOURCE_CRASHED] += self._is_source(host)
        self.scene.hits[Moment.TARGET_CRASHED] += self._is_target(host)

    def _count(self) -> None:
        """Count what notices show."""
        notices = [notice for host in self._hosts for notice in host.notices]
        for text, moment in ((_GIVES_UP, Moment.BRIDGE_GAVE_UP), (_NOT_CONFIRMED, Moment.BRIDGE_WAIT_ENDED)):
            self.scene.hits[moment] += sum(text in notice for notice in notices)
        followed = [notice for notice in notices if _IS_CONNECTED in notice and notice.endswith("-backup")]
        self.scene.hits[Moment.BRIDGE_FOLLOWED] += len(followed)
        for host in self.clients:
            self.scene.hits[Moment.REATTACHED] += host.reattachments
            self.scene.hits[Moment.REBUILT] += host.failovers
        # What the disk could not read stays until the next connection, as the guide states; damage is never expected.
        unexpected = [
            notice
            for host in self._hosts
            for notice in host.notices
            if "leaves message" in notice and not (_CANNOT_BE_READ in notice and _has_notice(host, _UNREAD))
        ]
        if unexpected:
            self.scene.fail(f"a bridge leaves a message: {unexpected[0]}")


def _has_notice(of: Site | NodeHost, text: str) -> bool:
    hosts = of.hosts if isinstance(of, Site) else (of,)
    return any(text in notice for host in hosts for notice in host.notices)


def _each(bridge: BridgePlan) -> list[str]:
    if bridge.concurrency == 1:
        return [bridge.name]
    return [f"{bridge.name}-{number}" for number in range(bridge.concurrency)]
