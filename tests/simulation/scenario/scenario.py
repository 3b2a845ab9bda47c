"""One scenario: a seed becomes a workload under faults, then everything heals, and what is owed must arrive in time.

Safety is checked all the way by the ledger and the broker checker. Convergence is bounded in virtual time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import define, evolve, frozen

from embedbroker.ledger import Ledger, Verdict
from embedbroker.testing._broker_view import BrokerView
from embedbroker.testing._checkers import BrokerChecker
from embedbroker.testing._clients import ClientHost
from embedbroker.testing._disk import SimulatedDisk
from embedbroker.testing._messages import selector_of
from embedbroker.testing._network import Network
from embedbroker.testing._node_host import NodeHost
from embedbroker.testing._queue_checkers import QueueChecker
from embedbroker.testing._scene import Moment, Phase, Scene, SimulationFailure
from embedbroker.testing._scripts import Steps
from embedbroker.testing._world import World
from embedclient.agent import LocatorSettings, QueueAttributes, Session
from embedclient.errors import ProtocolError
from embedclient.model import RoutingType

from .administrator import with_administrator
from .branch_operator import Operator
from .cast import DEAD_LETTERS, EXPIRED, ONLOOKER, Cast, Role, broker_config, make_cast
from .clerk import create_desk
from .closing_round import OPERATIONS_MIN, ClosingRound
from .consumers import VERSION_WITH_MODERN_NAMES, ConsumerKind, ConsumerPlan, SimulatedConsumer
from .dead_letter_reader import DeadLetterReader
from .draw import draw_plan
from .draw_group import draw_group_plan
from .fault_kinds import FaultKind
from .faults import FaultPlan
from .group import Group
from .group_faults import GroupFaults
from .large_bodies import with_large_bodies
from .liveness_checker import LivenessChecker
from .members import Members
from .modes import faults_of, group_of
from .plan import GroupMode, ScenarioPlan, TopicPlan
from .routes import configured_diverts, create_diverts
from .visitors import create_permissions

__all__ = [
    "ScenarioFailed",
    "SeedResult",
    "failing_with",
    "run_group_seed",
    "run_plan",
    "run_seed",
    "run_until",
    "varied",
]

#: Virtual seconds that each phase may last.
_SETUP_S, _WORK_S, _DRAIN_S, _ROLL_CALL_S, _LEAVE_S = 10.0, 300.0, 120.0, 60.0, 60.0
_POLL_S = 0.2
#: In ten seconds; brokers that wait ask for the live lock twenty times a second.
_EVENTS_PER_BROKER_MAX = 100_000


@frozen
class SeedResult:
    """What one seed did. ``hits`` counts the interesting moments by their number."""

    seed: int
    digest: str
    operations: int
    faults: int
    events: int
    virtual_s: float
    hits: tuple[int, ...]
    verdict: Verdict


class ScenarioFailed(Exception):
    """A seed broke a promise, or did not converge. ``trace`` holds the last lines of what happened before."""

    def __init__(self, seed: int, text: str, trace: list[str]) -> None:
        super().__init__(seed, text, trace)
        self.seed = seed
        self.text = text
        self.trace = trace

    def __str__(self) -> str:
        return f"seed {self.seed}: {self.text}"


def run_seed(
    seed: int, *, large_bodies: bool = False, administrator: bool = False, trace_tail_lines: int = 200
) -> SeedResult:
    """Runs the scenario of one seed.

    Raises:
        ScenarioFailed: whatever went wrong, an assertion inside the broker or the client included.
    """
    plan = varied(draw_plan(seed), large_bodies=large_bodies, administrator=administrator)
    return run_plan(plan, trace_tail_lines=trace_tail_lines)


def run_group_seed(
    seed: int,
    mode: GroupMode | None = None,
    *,
    large_bodies: bool = False,
    administrator: bool = False,
    trace_tail_lines: int = 200,
) -> SeedResult:
    """Runs the scenario of one seed on a group of brokers; the seed chooses a mode that is not given.

    Raises:
        ScenarioFailed: as for `run_seed`.
    """
    plan = varied(draw_group_plan(seed, mode), large_bodies=large_bodies, administrator=administrator)
    return run_plan(plan, trace_tail_lines=trace_tail_lines)


def varied(plan: ScenarioPlan, *, large_bodies: bool, administrator: bool) -> ScenarioPlan:
    """Return the plan with what options add to it."""
    plan = with_large_bodies(plan) if large_bodies else plan
    return with_administrator(plan) if administrator else plan


def run_plan(plan: ScenarioPlan, *, trace_tail_lines: int = 200) -> SeedResult:
    """Runs a scenario that was drawn before.

    Raises:
        ScenarioFailed: as for `run_seed`.
    """
    scenario = _Scenario.of(plan, trace_tail_lines)
    return failing_with(scenario.world, scenario.run)


def failing_with(world: World, run: Callable[[], SeedResult]) -> SeedResult:
    """Run a scenario.

    Raises:
        ScenarioFailed: Whatever went wrong, with the trace of its world.
    """
    try:
        return run()
    except SimulationFailure as failure:
        raise ScenarioFailed(world.seed, str(failure), world.trace.tail()) from failure
    except (
        ArithmeticError,
        AssertionError,
        AttributeError,
        LookupError,
        ProtocolError,
        TypeError,
        ValueError,
    ) as failure:
        # Bugs of the broker or the client, and of the simulation itself, with the place where they showed.
        raise ScenarioFailed(world.seed, _where(failure), world.trace.tail()) from failure


def _where(failure: Exception) -> str:
    """The exception and the innermost places it passed through, as text that crosses process boundaries."""
    places: list[str] = []
    step = failure.__traceback__
    while step is not None:
        code = step.tb_frame.f_code
        places.append(f"{code.co_filename}:{step.tb_lineno} in {code.co_name}")
        step = step.tb_next
    return "\n  ".join([f"{type(failure).__name__}: {failure}", *places[-8:]])


def _sweeper_settings(plan: ScenarioPlan) -> LocatorSettings:
    """Of the user that comes when all is quiet: as patient as any, and always with the brokers of the users."""
    settings = LocatorSettings(initial_connect_attempts=-1, reconnect_attempts=-1, ha=plan.group is not None)
    votes = plan.group is not None and plan.group.mode is GroupMode.VOTES
    return evolve(settings, use_topology_for_load_balancing=False) if votes else settings


@define(eq=False)
class _Poll:
    """Looks every now and then whether a phase is over."""

    world: World
    condition: Callable[[], bool]
    met: bool = False
    ended: bool = False

    def on_event(self, event: object) -> None:
        if not self.ended:
            self.met = self.condition()
            if self.met:
                self.world.halt()
            else:
                self.world.after(_POLL_S, self, None)


def run_until(
    scene: Scene, condition: Callable[[], bool], limit_s: float, complaint: str | Callable[[], str], *, brokers: int
) -> None:
    """Run the world until a condition holds; after ``limit_s`` virtual seconds that is a failure."""
    poll = _Poll(scene.world, condition)
    scene.world.after(0.0, poll, None)
    scene.world.run(scene.world.now + limit_s, events_max=_EVENTS_PER_BROKER_MAX * brokers)
    poll.ended = True
    if not poll.met:
        text = complaint if isinstance(complaint, str) else complaint()
        scene.fail(f"after {limit_s} s: {text}")


@define(eq=False)
class _Scenario:
    plan: ScenarioPlan
    world: World
    scene: Scene
    network: Network
    broker: BrokerView
    cast: Cast
    checker: BrokerChecker
    faults: FaultPlan | GroupFaults
    _sweeper_host: ClientHost
    operator: Operator | None = None
    group: Group | None = None

    @classmethod
    def of(cls, plan: ScenarioPlan, trace_tail_lines: int) -> _Scenario:
        world = World(plan.seed, trace_tail_lines=trace_tail_lines)
        counts_survive = plan.broker.counts_first
        scene = Scene(world, Ledger(expiry_tolerance_s=0.001, expiries_are_found=True, counts_survive=counts_survive))
        if all(strike.kind is not FaultKind.CLOCK_JUMP for strike in plan.faults):
            # When a redelivery is due depends on the clock of the broker that is live.
            scene.redeliveries.delay_s = plan.broker.redelivery_delay_ms / 1000
        network = Network(world, latency_s=plan.latency_s)
        network.split_chance = plan.split_chance
        config = evolve(broker_config(plan.broker, "broker"), diverts=configured_diverts(plan))
        group: Group | None = None
        broker: NodeHost | Members
        if plan.group is None:
            broker = NodeHost(network, config, SimulatedDisk(), plan.journal)
        else:
            group = group_of(scene, network, plan.group, config, plan.journal)
            broker = group.members
        cast = make_cast(plan, scene, network, broker)
        checker = BrokerChecker(scene, broker, cast.topics, ONLOOKER)
        settings = _sweeper_settings(plan)
        sweeper_host = ClientHost(network, "sweeper", broker.names, settings)
        scenario = cls(plan, world, scene, network, broker, cast, checker, None, sweeper_host)  # type: ignore[arg-type]  # set next
        if plan.operator_pause_s:
            hosts = [broker] if isinstance(broker, NodeHost) else list(broker.hosts.values())
            scenario.operator = Operator(scene, broker, hosts, cast.managers, plan.operator_pause_s)
        if group is not None:
            checker.twin = lambda: group.twin
            group.on_in_sync.append(checker.compare_replay_soon)
            scenario.group = group
            parts = scene, network, group, cast.hosts, scenario._crash_client
            scenario.faults = GroupFaults(*parts, lambda schedule: faults_of(group, schedule))
        elif isinstance(broker, NodeHost):
            scenario.faults = FaultPlan(scene, network, broker, cast.hosts, scenario._crash_client)
        return scenario

    def run(self) -> SeedResult:
        """All phases."""
        self._set_up()
        self._work()
        self._drain()
        self._call_the_roll()
        self._sweep()
        self._leave()
        if self.scene.operations < OPERATIONS_MIN:
            self._do_more()
        for host in self.cast.hosts:
            self.scene.hits[Moment.REATTACHED] += host.reattachments
            self.scene.hits[Moment.REBUILT] += host.failovers
            self.scene.hits[Moment.OLD_CLIENT] += host.settings.client_version < VERSION_WITH_MODERN_NAMES
        self.scene.hits[Moment.PEER_GIVEN_UP] += sum("nothing was received" in notice for notice in self.broker.notices)
        self.scene.hits[Moment.TORN_TAIL_CUT] += sum("is cut" in notice for notice in self.broker.notices)
        if self.group is not None:
            self.group.policy.check_losses()
        verdict = self.scene.ledger.verdict(drained=True)
        if not verdict.clean or verdict.flagged_at_once:
            self.scene.fail(f"verdict: {verdict.losses()} {verdict.faults()}")
        return SeedResult(
            seed=self.world.seed,
            digest=self.world.trace.digest(),
            operations=self.scene.operations,
            faults=self.faults.struck,
            events=self.world.events,
            virtual_s=self.world.now,
            hits=tuple(self.scene.hits),
            verdict=verdict,
        )

    # Phases

    def _set_up(self) -> None:
        """Addresses, queues and subscriptions exist before any user depends on them."""
        self.broker.start()
        host = ClientHost(self.network, "founder", self.broker.names, LocatorSettings(initial_connect_attempts=-1))
        host.run("found", self._found(host))
        self._run_until(lambda: host.idle, _SETUP_S, "the set-up does not end")
        self._check_diverts()
        for topic in self.cast.topics:
            for subscription in topic.subscriptions:
                self.scene.ledger.subscribe(subscription, topic.account)

    def _check_diverts(self) -> None:
        node, wanted = self.broker.node, {divert.name for divert in self.plan.diverts}
        assert node is not None, "the set-up has ended"
        if node.kernel.diverts.by_name.keys() != wanted:
            self.scene.fail(f"diverts {list(node.kernel.diverts.by_name)}, and {wanted} are planned")

    def _found(self, host: ClientHost) -> Steps:
        while not self.broker.ready:
            yield 0.01
        session: Session = yield host.agent().create_session()
        for topic in self.plan.topics:
            if not topic.automatic:
                yield from self._found_topic(session, topic)
        yield from create_diverts(self.plan, session)
        yield from create_permissions(self.plan, session)
        yield from create_desk(self.plan, session)
        yield session.close()
        yield host.agent().close()

    def _found_topic(self, session: Session, topic: TopicPlan) -> Steps:
        routing = RoutingType.MULTICAST if topic.is_topic else RoutingType.ANYCAST
        yield session.addressing.create_address(topic.address, [routing])
        for queue in topic.queues:
            attributes = QueueAttributes(
                exclusive=queue.exclusive or None,
                max_consumers=queue.max_consumers,
                purge_on_no_consumers=False,
            )
            filter_text = None if queue.color is None else selector_of(queue.color)
            yield session.addressing.create_queue(topic.address, queue.name, routing, attributes, filter=filter_text)

    def _work(self) -> None:
        self.checker.watch()
        if self.cast.permissions is not None:
            self.cast.permissions.watch()
        if self.cast.administrator is not None:
            self.cast.administrator.watch(self.checker)
        QueueChecker(self.scene, self.broker, self.cast.topics, self.checker.served).watch()
        if self.plan.broker.memory_limit_bytes is not None:
            self._read_dead_letters()  # dead letters left there would keep the producers waiting for ever
        for role in self.cast.roles:
            role.host.run(role.name, role.steps())
        if self.operator is not None:
            self.operator.watch()
        self.faults.schedule((strike.kind, strike.at_s) for strike in self.plan.faults)
        self.checker.compare_replay_soon()
        self._run_until(
            lambda: self.faults.over and all(producer.finished for producer in self.cast.producers),
            _WORK_S,
            "the workload does not end",
        )

    def _drain(self) -> None:
        """Everything works again; each subscription with a consumer that takes all of it has to drain by itself."""
        self.network.heal()
        self.scene.phase = Phase.DRAIN
        self.checker.compare_replay_soon()
        if self.plan.broker.memory_limit_bytes is None:
            self._read_dead_letters()
        names = [name for topic in self.cast.topics for name in topic.listeners]
        names += [consumer.subscription for consumer in self.cast.consumers if consumer.takes_all]
        names += [reader.queue for reader in self.plan.readers]
        administrator = self.cast.administrator
        self._run_until(
            lambda: (administrator is None or administrator.finished) and self._is_drained(names), _DRAIN_S, self._owed
        )

    def _call_the_roll(self) -> None:
        """Check that no consumer starves beside others that take its share."""
        self.scene.phase = Phase.ROLL_CALL
        liveness_checker = LivenessChecker(self.scene, self._sweeper_host, self.cast.consumers)
        script = self._sweeper_host.run("roll call", liveness_checker.steps())
        self._run_until(
            lambda: script.done, _ROLL_CALL_S, lambda: f"starving: {[each.name for each in liveness_checker.absent]}"
        )

    def _sweep(self) -> None:
        """Sweepers take what the consumers' filters left behind."""
        self.scene.phase = Phase.SWEEP
        host = self._sweeper_host
        plan = ConsumerPlan(kind=ConsumerKind.AUTO, think_s=0.0, rollback_chance=0.0, leave_chance=0.0)
        for topic in self.cast.topics:
            for subscription in topic.subscriptions:
                sweeper = SimulatedConsumer(
                    self.scene, host, self.broker, f"sweeper-{subscription}", subscription, plan, topic
                )
                host.run(sweeper.name, sweeper.steps())
        self._run_until(lambda: self._is_drained(self._queues()), _DRAIN_S, self._owed)

    def _read_dead_letters(self) -> None:
        host = self._sweeper_host
        for address in (DEAD_LETTERS, EXPIRED):
            reader = DeadLetterReader(self.scene, host, self.checker, address)
            host.run(address, reader.steps())

    def _leave(self) -> None:
        self.scene.phase = Phase.LEAVE
        if self.cast.permissions is not None:
            self.cast.permissions.check_at_the_end()
        if self.cast.administrator is not None:
            self.cast.administrator.check_at_the_end()
        self._part_with([*self.cast.hosts, self._sweeper_host])

    def _do_more(self) -> None:
        """Add a closing round: what was done so far proves too little."""
        host = self._sweeper_host
        topic = next(topic for topic in self.cast.topics if not topic.automatic)
        host.run("close", ClosingRound(self.scene, host, topic).steps())
        self._part_with([host])

    def _part_with(self, hosts: Sequence[ClientHost]) -> None:
        """Their users come to an end, they go, and nothing of them is left."""
        self._run_until(lambda: all(host.idle for host in hosts), _LEAVE_S, "clients do not come to an end")
        for host in hosts:
            host.leave()
        self._run_until(self._is_deserted, _LEAVE_S, self._left_behind)
        self.checker.compare_replay_soon()
        self._run_until(lambda: self.checker.compared, _LEAVE_S, "the broker does not come to rest")

    # Conditions

    def _is_drained(self, names: Sequence[str]) -> bool:
        node, ledger = self.broker.node, self.scene.ledger
        if node is None or not self.broker.ready:
            return False
        for name in names:
            queue = node.kernel.address_manager.queues.get(name)
            if queue is not None and (queue.message_count or queue.waiting_visible):
                return False
        promised = [name for topic in self.cast.topics for name in topic.names]
        return not any(ledger.missing(name) for name in promised if name in names)

    def _queues(self) -> list[str]:
        """Every queue that is wanted. A listener that gave up may leave one behind until its connection ends."""
        return [DEAD_LETTERS, EXPIRED, *(name for topic in self.cast.topics for name in topic.names)]

    def _is_deserted(self) -> bool:
        """Return True if no client is connected, nothing of a connection is left, and decisions are forgotten."""
        node = self.broker.node
        if node is None or self.broker.connections or node.core.sessions or node.kernel.branches.outcomes():
            return False
        return not any(queue.definition.temporary for queue in node.kernel.address_manager.queues.values())

    def _left_behind(self) -> str:
        node = self.broker.node
        if node is None:
            return "the broker is down"
        queues = [queue.name for queue in node.kernel.address_manager.queues.values() if queue.definition.temporary]
        sessions = list(node.core.sessions)
        outcomes = [outcome.xid.global_transaction_id for outcome in node.kernel.branches.outcomes()]
        there = f"{self.broker.connections} connections, sessions {sessions}, temporary queues {queues}"
        return f"left behind: {there}, decisions of operators {outcomes}"

    def _owed(self) -> str:
        """Why the scenario does not converge."""
        node, ledger = self.broker.node, self.scene.ledger
        owed = {name: ledger.missing(name) for topic in self.cast.topics for name in topic.names}
        queues = {} if node is None else node.kernel.address_manager.queues
        held = {
            name: (queue.backlog.size, queue.delivering_count, queue.waiting_visible, queue.scheduled_count)
            for name, queue in queues.items()
        }
        return f"queues do not drain: owed {owed}, held (waiting, delivering, not visible yet, scheduled) {held}"

    def _run_until(self, condition: Callable[[], bool], limit_s: float, complaint: str | Callable[[], str]) -> None:
        run_until(self.scene, condition, limit_s, complaint, brokers=len(self.broker.names))

    # Client crashes

    def _crash_client(self, host: ClientHost) -> None:
        host.crash(silently=self.scene.chance(0.3))
        for role in self._roles(host):
            role.give_up()
        self.world.after(self.world.random.random() * 0.5, _Restart(self, host), None)

    def _roles(self, host: ClientHost) -> list[Role]:
        return [role for role in self.cast.roles if role.host is host]

    def revive(self, host: ClientHost) -> None:
        """The client process starts again, with what its users remember."""
        self.world.note(host.name, "starts again")
        for role in self._roles(host):
            host.run(role.name, role.steps())


@define(eq=False)
class _Restart:
    scenario: _Scenario
    host: ClientHost

    def on_event(self, event: object) -> None:
        if self.host.idle:
            self.scenario.revive(self.host)
