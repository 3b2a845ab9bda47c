"""One scenario of a cluster: a seed becomes nodes and users under faults, and each message must be taken once.

The nodes form a cluster first. In the end everything heals: each node must know the truth about all others in a bounded
time, users drain all queues, and nothing must move any more.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from attrs import define, field

from embedbroker.kernel import GroupNotice, GroupNoticeKind
from embedbroker.ledger import Ledger
from embedbroker.node._grouping import Grouping
from embedbroker.testing._checkers import BrokerChecker
from embedbroker.testing._clients import ClientHost
from embedbroker.testing._network import Network
from embedbroker.testing._node_host import NodeHost
from embedbroker.testing._scene import Moment, Phase, Scene
from embedbroker.testing._world import World
from tests.simulation.scenario import SeedResult
from tests.simulation.scenario.scenario import failing_with, run_until

from .cluster_account import ClusterAccount, ClusterSendBook
from .cluster_groups import GroupChecker
from .cluster_nodes import ClusterTruth, make_nodes
from .cluster_order import OrderChecker
from .cluster_plan import AUTOMATIC, QUEUE, TOPIC, ClusterPlan, TakerPlan
from .departures import Departures
from .draw_clusters import draw_cluster_plan, draw_failover_plan
from .leaving import Leaving, lives_ended_otherwise
from .makers import Maker
from .senders import Sender
from .site import Site, live_kernel
from .site_faults import SiteFaults, is_scaling_down, scales_down
from .takers import TakeBook, Taker

__all__ = ["form_cluster", "run_cluster_plan", "run_cluster_seed", "run_failover_seed"]

#: Virtual seconds that each phase may last.
_SETUP_S, _FORM_S, _WORK_S, _DRAIN_S, _LEAVE_S = 20.0, 30.0, 300.0, 120.0, 60.0
#: So long nothing must move in the end.
_QUIET_S = 2.0
# One more than the primaries that may return late.
_QUIET_TRIES = 3
_ADDRESSES = QUEUE, TOPIC, *AUTOMATIC
_INTERNAL = "$.artemis.internal."


def run_cluster_seed(seed: int, *, trace_tail_lines: int = 200) -> SeedResult:
    """Run the scenario of one seed.

    Raises:
        ScenarioFailed: Whatever went wrong, an assertion inside the broker or the client included.
    """
    return run_cluster_plan(draw_cluster_plan(seed), trace_tail_lines=trace_tail_lines)


def run_cluster_plan(plan: ClusterPlan, *, trace_tail_lines: int = 200) -> SeedResult:
    """Run a scenario that was drawn before.

    Raises:
        ScenarioFailed: As for `run_cluster_seed`.
    """
    world = World(plan.seed, trace_tail_lines=trace_tail_lines)
    return failing_with(world, lambda: _ClusterScenario(plan, world).run())


def run_failover_seed(seed: int, *, trace_tail_lines: int = 200) -> SeedResult:
    """Run a scenario of pairs that fail over again and again under load.

    Raises:
        ScenarioFailed: As for `run_cluster_seed`.
    """
    return run_cluster_plan(draw_failover_plan(seed), trace_tail_lines=trace_tail_lines)


def form_cluster(plan: ClusterPlan) -> SeedResult:
    """Start the nodes of a plan, wait until they are a cluster, and do nothing else.

    Raises:
        ScenarioFailed: As for `run_cluster_seed`.
    """
    world = World(plan.seed)

    def run() -> SeedResult:
        scenario = _ClusterScenario(plan, world)
        scenario.start()
        return scenario.result()

    return failing_with(world, run)


@define(eq=False)
class _ClusterScenario:
    plan: ClusterPlan
    world: World
    scene: Scene = field(init=False)
    network: Network = field(init=False)
    sites: dict[str, Site] = field(init=False)
    truth: ClusterTruth = field(init=False)
    departures: Departures = field(init=False)
    book: ClusterSendBook = field(init=False)
    taken: TakeBook = field(factory=TakeBook, init=False)
    checkers: list[BrokerChecker] = field(factory=list, init=False)
    senders: list[Sender] = field(factory=list, init=False)
    takers: list[Taker] = field(factory=list, init=False)
    makers: list[Maker] = field(factory=list, init=False)
    clients: list[ClientHost] = field(factory=list, init=False)
    #: The nodes that scale down.
    leaving: dict[str, Leaving] = field(factory=dict, init=False)
    #: Keys of decisions about groups that a node has ended for all.
    ended_decisions: set[str] = field(factory=set, init=False)
    faults: SiteFaults = field(init=False)

    def __attrs_post_init__(self) -> None:
        plan = self.plan
        self.scene = Scene(self.world, Ledger())
        self.network = Network(self.world, latency_s=plan.latency_s)
        self.network.split_chance = plan.split_chance
        self.sites = make_nodes(plan, self.network)
        self.truth = ClusterTruth(plan, self.sites)
        self.departures = Departures(self.sites)
        self.departures.watch()
        homes = {sender.name: sender.site for sender in plan.senders}
        self.book = ClusterSendBook(
            life_of=self._life_of,
            life_that_reaches=self._life_that_reaches,
            is_leaving=self._is_leaving,
            homes=homes,
            has_binding=self.truth.has_binding,
        )
        names = tuple([host.name for host in self._hosts])
        for host in self._hosts:
            checker = BrokerChecker(self.scene, host, (), names)
            checker.watch()
            if plan.arbiter:
                host.on_ready.append(partial(self._watch_groups, host, checker))
            self.checkers.append(checker)
        for sender in plan.senders:
            self.senders.append(Sender(self.scene, self._client(sender.name, sender.site), sender, self.book))
        for taker in plan.takers:
            self.takers.append(self._taker(taker))
        for maker in plan.makers:
            visits = self._taker(TakerPlan(maker.name, maker.node, maker.queue, think_s=0.0))
            self.makers.append(Maker(self.scene, visits.host, maker, self.book.comings, visits))
        for name, site in self.sites.items():
            if len(site.hosts) > 1:
                self._watch_pair(name, site)
            if scales_down(site.hosts[0]):
                self.leaving[name] = Leaving(self.scene, site.hosts[0])
                self.leaving[name].watch()
        parts = self._is_forwarding, self._on_disturbed, self._on_crash
        self.faults = SiteFaults(self.scene, self.network, list(self.sites.values()), *parts)

    def _client(self, name: str, node: str) -> ClientHost:
        host = ClientHost(self.network, name, self.sites[node].names, self.plan.client)
        self.clients.append(host)
        return host

    def _taker(self, plan: TakerPlan, *, stays: bool = False) -> Taker:
        def consumers_there() -> int:
            queue = self.sites[plan.node].queue(plan.queue)
            return len(queue.consumers) if queue is not None else -1

        return Taker(self.scene, self._client(plan.name, plan.node), plan, self.taken, consumers_there, stays=stays)

    @property
    def _hosts(self) -> list[NodeHost]:
        return [host for site in self.sites.values() for host in site.hosts]

    def _life_of(self, node: str) -> str | None:
        """Return what stands for the life of a node."""
        host = self.sites[node].live
        return None if host is None else f"{host.name} {host.life}"

    def _life_that_reaches(self, node: str) -> str | None:
        """Return what stands for the life of a node if it has all subscriptions that it must reach.

        It is another one if the node has forgotten some meanwhile, because another broker stopped.
        """
        life = self._life_of(node)
        if life is None or not self.truth.has_subscriptions(node):
            return None
        return f"{life} {self.departures.forgotten[node]}"

    def _is_leaving(self, node: str) -> bool:
        return any(is_scaling_down(host) for host in self.sites[node].hosts)

    def _watch_pair(self, name: str, site: Site) -> None:
        """Count each change of the member that serves."""
        served = [site.hosts[0]]

        def on_ready(host: NodeHost) -> None:
            if host is not served[0]:
                self.scene.hit(Moment.FAILBACK if host is site.hosts[0] else Moment.FAILOVER)
                if self._has_messages_for(name):
                    self.scene.hit(Moment.TARGET_FAILED_OVER)
                served[0] = host

        for host in site.hosts:
            host.on_ready.append(partial(on_ready, host))

    def _watch_groups(self, host: NodeHost, checker: BrokerChecker) -> None:
        """Let the checker of a node expect other consumers for a group when a decision on it has ended."""
        assert host.node is not None
        grouping = host.node.kernel.cluster_groups.receiver
        assert isinstance(grouping, Grouping)
        unpin, publish = grouping.unpin, grouping.publish

        def noted_unpin(key: str) -> None:
            checker.expect_decision(key)
            unpin(key)

        def noted_publish(notice: GroupNotice) -> None:
            if notice.kind is GroupNoticeKind.END and not notice.distance:
                self.ended_decisions.add(notice.key)
            publish(notice)

        # Its handler calls them on this object.
        grouping.unpin = noted_unpin  # type: ignore[method-assign]
        grouping.publish = noted_publish  # type: ignore[method-assign]

    def _has_messages_for(self, name: str) -> bool:
        """Return True if another node holds messages for a node, waiting or in doubt."""
        node_id = self.truth.node_ids.get(name)
        kernels = [live_kernel(site.live) for site in self.sites.values()]
        return node_id is not None and any(
            queue.message_count and queue.name.startswith(_INTERNAL) and queue.name.endswith(node_id)
            for kernel in kernels
            if kernel is not None
            for queue in kernel.address_manager.queues.values()
        )

    # Phases

    def run(self) -> SeedResult:
        """All phases."""
        self.start()
        self._work()
        self._drain()
        self._leave()
        return self.result()

    def start(self) -> None:
        """All nodes start, and become a cluster."""
        for host in self._hosts:
            host.start()
        self._run_until(lambda: all(site.live for site in self.sites.values()), _SETUP_S, "the set-up does not end")
        self.truth.note_node_ids()
        self._form()

    def result(self) -> SeedResult:
        """What was done so far."""
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

    def _form(self) -> None:
        """Wait until each node has the truth about all others."""
        self._run_until(lambda: self.truth.is_formed, _FORM_S, self.truth.complaint)
        self.scene.hit(Moment.CLUSTER_FORMED)

    def _work(self) -> None:
        for sender in self.senders:
            sender.host.run(sender.plan.name, sender.steps())
        for taker in self.takers:
            taker.host.run(taker.plan.name, taker.steps())
        for maker in self.makers:
            maker.host.run(maker.plan.name, maker.steps())
        self.faults.schedule((strike.kind, strike.at_s) for strike in self.plan.faults)
        self._compare_replays()
        self._run_until(
            lambda: self.faults.over and all(sender.finished for sender in self.senders),
            _WORK_S,
            "the workload does not end",
        )

    def _drain(self) -> None:
        """Everything works again: the nodes know each other, and users of all queues take what is there."""
        self.network.heal()
        self.scene.phase = Phase.DRAIN
        # Consumers come and go meanwhile: each of them is news for all nodes.
        self._run_until(lambda: all(maker.host.idle for maker in self.makers), _FORM_S, "deletions do not end")
        self._cut_off_bodies_that_were_not_read()
        self._form()
        for node in self.plan.nodes:
            for queue in self._queues_at(node.name):
                plan = TakerPlan(f"last-{node.name}-{queue}", node.name, queue, think_s=0.0)
                taker = self._taker(plan, stays=True)
                taker.host.run(plan.name, taker.steps())
        self._run_until(lambda: not self._left(), _DRAIN_S, lambda: f"queues do not drain: {self._left()}")
        self._form()
        before = self._figures()
        self._rest(before)
        self.scene.hits[Moment.FORWARDED] += sum(forwarded for _, forwarded in before.values())
        anew = frozenset(name for name, site in self.sites.items() if any(host.life > 1 for host in site.hosts))
        account = ClusterAccount(self.scene, self.plan, self.book, self.taken, self.leaving, anew)
        account.check(lives_ended=any(lives_ended_otherwise(host) for host in self._hosts))
        # What moves takes the groups of its queue along.
        passing_from = self._passing_from()
        if self.plan.arbiter and not any(each.has_begun for each in self.leaving.values()):
            notices = [notice for host in self._hosts for notice in host.notices]
            filters = any(taker.color is not None for taker in self.plan.takers if taker.queue == QUEUE)
            checker = GroupChecker(self.scene, self.book, self.taken, self.ended_decisions, notices)
            checker.check(has_filters=filters, passing_from=passing_from)
        OrderChecker(self.scene, self.plan, self.book, self.taken, passing_from, anew).check()

    def _cut_off_bodies_that_were_not_read(self) -> None:
        """Cut connections of nodes whose disk could not read a body: it waits for the next one, as the guide states.

        Nothing else may wait for that.
        """
        for host in self._hosts:
            if any("leaves message" in notice and "its body cannot be read" in notice for notice in host.notices):
                for other in self._hosts:
                    for link in self.network.between(host.name, other.name):
                        link.cut("connection reset")

    def _passing_from(self) -> int | None:
        """Return the size from which later messages may pass a large one, because of a disk; None for no size."""
        texts = ("a large message cannot be read", "the body of a large message cannot be stored")
        if not any(text in notice for host in self._hosts for notice in host.notices for text in texts):
            return None
        # Sizes of letters are those of bodies alone.
        return min(self.plan.min_large_size, self.plan.client.min_large_message_size) // 2

    def _rest(self, before: dict[str, tuple[int, int]]) -> None:
        """Wait until no message moves any more.

        A backup that is live gives way to its primary, perhaps only now. The bridges of the others begin anew then,
        with their counts, and what they had not confirmed moves once more.
        """
        earlier = before
        for _ in range(_QUIET_TRIES):
            self.world.run(self.world.now + _QUIET_S)
            after = self._figures()
            if after == before:
                return
            earlier, before = before, after
            self._form()
        self.scene.fail(f"messages move on and on: {earlier}, then {before}")

    def _queues_at(self, node: str) -> list[str]:
        """Return the queues of a node, those of nodes that have scaled down included."""
        kernel = live_kernel(self.sites[node].live)
        assert kernel is not None
        return [
            queue.name for queue in kernel.address_manager.queues.values() if queue.definition.address in _ADDRESSES
        ]

    def _leave(self) -> None:
        self.scene.phase = Phase.LEAVE
        self._run_until(lambda: all(host.idle for host in self.clients), _LEAVE_S, "clients do not come to an end")
        for host in self.clients:
            host.leave()
        self._compare_replays()
        self._run_until(
            lambda: all(checker.compared for checker in self.checkers if checker.broker.ready),
            _LEAVE_S,
            "the nodes do not come to rest",
        )

    def _compare_replays(self) -> None:
        for checker in self.checkers:
            checker.compare_replay_soon()

    def _run_until(self, condition: Callable[[], bool], limit_s: float, complaint: str | Callable[[], str]) -> None:
        run_until(self.scene, condition, limit_s, complaint, brokers=len(self._hosts))

    # What is on its way

    def _left(self) -> dict[str, int]:
        """Return the queues that hold messages, those of what goes to other nodes included."""
        left: dict[str, int] = {}
        for name, site in self.sites.items():
            kernel = live_kernel(site.live)
            if kernel is None:
                return {name: -1}
            for queue in kernel.address_manager.queues.values():
                if queue.message_count and (queue.definition.durable or queue.name.startswith(_INTERNAL)):
                    left[f"{name} {queue.name}"] = queue.message_count
        return left

    def _figures(self) -> dict[str, tuple[int, int]]:
        """Return how many messages users took, and how many each node has forwarded."""
        operations = self.scene.operations
        return {host.name: (operations, self._counts(host)[1]) for host in self._hosts}

    def _counts(self, host: NodeHost) -> tuple[int, int]:
        kernel = live_kernel(host)
        found = [each.counts() or (0, 0) for each in kernel.cluster_connections.values()] if kernel is not None else []
        return sum(pending for pending, _ in found), sum(confirmed for _, confirmed in found)

    def _is_forwarding(self, host: NodeHost) -> bool:
        """Return True if the node, or any other one, waits for confirmations."""
        return any(self._counts(each)[0] for each in self._hosts)

    def _on_disturbed(self) -> None:
        if any(self._counts(host)[0] for host in self._hosts):
            self.scene.hit(Moment.DISTURBED_WITH_SENDS)

    def _on_crash(self, host: NodeHost) -> None:
        self.scene.hits[Moment.SOURCE_CRASHED] += self._counts(host)[0] > 0
