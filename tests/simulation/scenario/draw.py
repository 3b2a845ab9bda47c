"""Draws the plan of a scenario from a seed: addresses, clients, users, settings and faults.

It chooses; it runs nothing. Combinations that could never come to an end are left out, each with its reason.
"""

from __future__ import annotations

from random import Random

from attrs import define, evolve, field

from embedbroker.storage import JournalSettings
from embedbroker.testing._messages import COLORS
from embedclient.agent import LocatorSettings

from .consumers import ConsumerKind, ConsumerPlan
from .cursor_readers import read_in_ranges
from .fault_kinds import draw_faults
from .once_only import once_only
from .pipelining_producer import pipelining
from .plan import (
    BrokerPlan,
    BrowserRole,
    ConsumerRole,
    FaultStrike,
    HostPlan,
    ListenerRole,
    ProducerRole,
    QueuePlan,
    ScenarioPlan,
    TopicPlan,
)
from .producers import ProducerKind, ProducerPlan
from .routes import with_routes
from .set_users import in_sets
from .visitors import with_visitors
from .xa_users import two_phase

__all__ = ["draw_plan"]

#: Together with what consumers do, this gives well over 200 operations, with hardly an exception.
_MESSAGES_MIN, _MESSAGES_MAX = 120, 180
_FAULTS_MIN, _FAULTS_MAX = 4, 9
#: Where memory is short, a user that holds messages while it waits for room would wait for itself. Then there are no
#: transactions on the sending side, no forwarders, and no consumers that acknowledge late or take one color only.
_SHORT_OF_MEMORY = 0.15
_COUNTS_FIRST = 0.15
_SCHEDULES = 0.2
_ROUTES = 0.15
_GROUPS = 0.25
_REBALANCES = 0.4
_SECURED = 0.1
_PRODUCERS_WITHOUT_TRANSACTIONS = {ProducerKind.BLOCKING: 4, ProducerKind.NOT_DURABLE: 1, ProducerKind.ASYNCHRONOUS: 3}
_PRODUCERS = {**_PRODUCERS_WITHOUT_TRANSACTIONS, ProducerKind.TRANSACTED: 4}
_PROMPT_CONSUMERS = (
    ConsumerKind.AUTO,
    ConsumerKind.CLIENT,
    ConsumerKind.TRANSACTED,
    ConsumerKind.PRE_ACKNOWLEDGE,
)
_CLIENT_VERSIONS: tuple[int, ...] = (136, 136, 136, 136, 135, 134, 133, 132, 131, 130, 129, 128, 127, 126)
_VERSION_WITH_ROUTING_TYPES = 129
_CONFIRMATION_WINDOWS = (-1, -1, 0, 1, 100, 500, 2_000, 10_000, 100_000)


def draw_plan(seed: int) -> ScenarioPlan:
    """The plan of a seed.

    In one of four all producers give their messages duplicate ids (and in one of 16 a queue is read in ranges besides),
    in another one transactions are XA branches; in the others some producers do not wait for the end of their
    transactions, or transactions are commit sets (one of eight).
    Some brokers persist delivery counts before they deliver. Some producers schedule messages, and the broker delays
    redeliveries. Some have diverts and wildcard subscriptions. Some producers send message groups.
    Some brokers have permissions, and users that lack them.
    """
    plan = _Draw(Random(f"plan {seed}")).plan(seed)
    if Random(f"counts first {seed}").random() < _COUNTS_FIRST:
        plan = evolve(plan, broker=evolve(plan.broker, counts_first=True))
    if not plan.broker.memory_limit_bytes and Random(f"scheduled {seed}").random() < _SCHEDULES:
        plan = _with_schedules(plan)
    if _has_routes(plan):
        plan = with_routes(plan)
    if Random(f"grouped {seed}").random() < _GROUPS:
        plan = _with_groups(plan)
    if not plan.broker.memory_limit_bytes and Random(f"with visitors {seed}").random() < _SECURED:
        plan = with_visitors(plan)
    match seed % 4:
        case 1:
            return two_phase(plan)
        case 3:
            return read_in_ranges(plan) if seed % 16 == 15 else once_only(plan)
    return in_sets(plan) if seed % 8 == 4 else pipelining(plan)


def _has_routes(plan: ScenarioPlan) -> bool:
    """Return True for some seeds, without those that are short of memory or read a queue in ranges."""
    if plan.broker.memory_limit_bytes or plan.seed % 16 == 15:
        return False
    return Random(f"divert plan {plan.seed}").random() < _ROUTES


def _with_schedules(plan: ScenarioPlan) -> ScenarioPlan:
    """Return the plan with scheduled messages and redelivery delays."""
    random = Random(f"schedules {plan.seed}")
    chances = [random.choice((0.1, 0.4)) for _ in plan.producers]
    producers = [
        evolve(role, plan=evolve(role.plan, delay_chance=chance))
        for role, chance in zip(plan.producers, chances, strict=True)
    ]
    delay_ms = random.choice((0, 20, 300))
    return evolve(plan, broker=evolve(plan.broker, redelivery_delay_ms=delay_ms), producers=tuple(producers))


def _with_groups(plan: ScenarioPlan) -> ScenarioPlan:
    """Return the plan with message groups, which are balanced again in some when a consumer joins."""
    random = Random(f"groups {plan.seed}")
    producers = [evolve(role, plan=evolve(role.plan, group_count=random.choice((1, 3)))) for role in plan.producers]
    rebalances = Random(f"rebalanced {plan.seed}").random() < _REBALANCES
    return evolve(plan, broker=evolve(plan.broker, rebalances=rebalances), producers=tuple(producers))


@define(eq=False)
class _Draw:
    random: Random
    short_of_memory: bool = field(init=False)
    topics: list[TopicPlan] = field(factory=list, init=False)
    hosts: list[HostPlan] = field(factory=list, init=False)

    def plan(self, seed: int) -> ScenarioPlan:
        random = self.random
        self.short_of_memory = random.random() < _SHORT_OF_MEMORY
        self._draw_topics()
        for number in range(random.randint(2, 4)):
            stop_pause_s = random.choice((0.0, 0.0, 0.05, 0.3))
            self.hosts.append(HostPlan(f"client{number}", self._locator_settings(), stop_pause_s))
        span_s = random.choice((0.5, 1.5, 3.0))
        kinds = draw_faults(random, random.randint(_FAULTS_MIN, _FAULTS_MAX))
        return ScenarioPlan(
            seed=seed,
            latency_s=random.choice((0.0001, 0.0005, 0.002)),
            split_chance=random.choice((0.02, 0.1, 0.3)),
            broker=self._broker(),
            journal=self._journal(),
            topics=tuple(self.topics),
            hosts=tuple(self.hosts),
            producers=tuple(self._producers()),
            consumers=tuple(self._consumers()),
            listeners=tuple(self._listeners()),
            browser=self._browser() if random.random() < 0.5 else None,
            faults=tuple(FaultStrike(kind, random.random() * span_s) for kind in kinds),
        )

    # The broker

    def _broker(self) -> BrokerPlan:
        """A broker whose periodic work is frequent enough for short scenarios."""
        random = self.random
        return BrokerPlan(
            max_delivery_attempts=random.choice((4, 10, -1)),
            message_expiry_scan_period_ms=random.choice((200, 1_000, -1)),
            output_high_water_bytes=random.choice((4_096, 65_536, 1_048_576)),
            work_per_step_max=random.choice((1, 2, 5, 50, 2_000)),
            memory_limit_bytes=random.choice((6_000, 12_000, 25_000)) if self.short_of_memory else None,
        )

    def _journal(self) -> JournalSettings:
        """A journal small enough to change segments and to compact many times in a scenario."""
        random = self.random
        return JournalSettings(
            identity=random.getrandbits(62),
            segment_size_bytes=16 * 1024,
            batch_bytes_max=random.choice((1_024, 4_096, 16_384)),
            seal_after_s=random.choice((0.05, 0.3, 1.0)),
            recovery_slice_bytes=random.choice((2_048, 16_384, 65_536)),
            compaction_slice_bytes=random.choice((2_048, 16_384)),
            compaction_live_ratio_max=random.choice((0.5, 0.8)),
            compaction_segments_min=random.choice((1, 2, 4)),
            spare_segments_max=random.choice((0, 1, 2)),
        )

    def _draw_topics(self) -> None:
        random = self.random
        for number in range(random.randint(1, 2)):
            self.topics.append(TopicPlan(f"queue{number}", False, (self._queue(f"queue{number}"),)))
        if random.random() < 0.6:
            colors = [None, None, "red", "blue"]
            queues = [QueuePlan(f"topic.{n}", random.choice(colors)) for n in range(random.randint(1, 3))]
            self.topics.append(TopicPlan("topic", True, tuple(queues)))
        if random.random() < 0.3:
            self.topics.append(TopicPlan("automatic", False, (QueuePlan("automatic"),), automatic=True))

    def _queue(self, name: str) -> QueuePlan:
        kind = self.random.choices(("plain", "exclusive", "limited"), weights=(6, 2, 2))[0]
        limit = self.random.randint(1, 2) if kind == "limited" else -1
        return QueuePlan(name, exclusive=kind == "exclusive", max_consumers=limit)

    # Users

    def _producers(self) -> list[ProducerRole]:
        random = self.random
        roles: list[ProducerRole] = []
        left = random.randint(_MESSAGES_MIN, _MESSAGES_MAX)
        everywhere = range(len(self.topics))
        kinds = _PRODUCERS_WITHOUT_TRANSACTIONS if self.short_of_memory else _PRODUCERS
        while left > 0:
            count = min(left, random.randint(30, 70))
            left -= count
            topics = [random.choice(everywhere)] if random.random() < 0.7 else everywhere
            host = random.randrange(len(self.hosts))
            kind = random.choices(list(kinds), weights=list(kinds.values()))[0]
            if kind is ProducerKind.ASYNCHRONOUS and self.hosts[host].settings.confirmation_window_size < 0:
                kind = ProducerKind.BLOCKING  # without a window the sender would get no notice that a message is stored
            plan = ProducerPlan(
                kind=kind,
                count=count,
                think_s=random.choice((0.002, 0.01, 0.03)),
                size_max=random.choice((100, 1_000, 4_000)),
                mixed_priorities=random.random() < 0.4,
                expire_chance=random.choice((0.0, 0.2)),
                resend_chance=random.choice((0.0, 0.5, 1.0)),
            )
            roles.append(ProducerRole(f"p{len(roles)}", host, tuple(topics), plan))
        return roles

    def _consumers(self) -> list[ConsumerRole]:
        random = self.random
        roles: list[ConsumerRole] = []
        for topic in self.topics:
            for queue in topic.queues:
                ranked = random.random() < 0.3
                # A consumer that has a queue alone and takes one color only would leave the rest to no other.
                alone = queue.exclusive or queue.max_consumers >= 0
                for number in range(random.randint(2, 3) if ranked or alone else random.randint(1, 2)):
                    plan = self._consumer_plan(topic)
                    if alone:
                        plan = evolve(plan, color=None)
                    if ranked:
                        plan = evolve(plan, priority=number)
                    host = random.randrange(len(self.hosts))
                    roles.append(ConsumerRole(f"consumer-{queue.name}-{number}", host, queue.name, plan))
        return roles

    def _consumer_plan(self, topic: TopicPlan) -> ConsumerPlan:
        random = self.random
        kind = random.choice(_PROMPT_CONSUMERS if self.short_of_memory else tuple(ConsumerKind))
        forwards = kind is ConsumerKind.TRANSACTED and topic.is_topic and random.random() < 0.5
        color = random.choice((None, None, None, random.choice(COLORS)))
        return ConsumerPlan(
            kind=kind,
            think_s=random.choice((0.0, 0.002, 0.02)),
            color=None if self.short_of_memory else color,
            window_bytes=random.choice((None, None, 0, 1, 1_000, -1)),
            batch_max=random.randint(1, 8),
            leave_chance=random.choice((0.05, 0.2) if topic.automatic else (0.0, 0.01, 0.05)),
            # Long enough for the broker to look twice whether a user still wants the queue.
            away_s=random.choice((0.1, 2.0)) if topic.automatic else 0.1,
            forwards=forwards and not self.short_of_memory,
        )

    def _listeners(self) -> list[ListenerRole]:
        random = self.random
        roles: list[ListenerRole] = []
        for number, topic in enumerate(self.topics):
            if not topic.is_topic:
                continue
            shared = random.random() < 0.5
            color = random.choice((None, random.choice(COLORS)))
            names = ("sharer0", "sharer1") if shared else ("listener",) if random.random() < 0.6 else ()
            for name in names:
                roles.append(
                    ListenerRole(
                        name,
                        random.randrange(len(self.hosts)),
                        number,
                        color,
                        think_s=random.choice((0.0, 0.01)),
                        leave_chance=random.choice((0.0, 0.02)),
                        shared="shared" if shared else None,
                    )
                )
        return roles

    def _browser(self) -> BrowserRole:
        return BrowserRole(self._locator_settings(), self.random.choice((0.02, 0.2)))

    def _locator_settings(self) -> LocatorSettings:
        random = self.random
        windows = (3_000, 1_000) if self.short_of_memory else (65_536, 3_000, -1)
        versions = _CLIENT_VERSIONS
        if any(topic.automatic for topic in self.topics):
            # Before this version, a request to create a queue has no routing type: it would be one for subscribers.
            versions = tuple(version for version in versions if version >= _VERSION_WITH_ROUTING_TYPES)
        return LocatorSettings(
            call_timeout_ms=random.choice((1_000, 5_000)),
            call_failover_timeout_ms=random.choice((1_000, 10_000)),
            client_failure_check_period_ms=random.choice((300, 1_000)),
            connection_ttl_ms=random.choice((1_000, 4_000)),
            connect_timeout_ms=1_000,
            initial_connect_attempts=random.choice((1, 5)),
            reconnect_attempts=random.choice((0, 3, -1, -1)),
            retry_interval_ms=random.choice((10, 100)),
            consumer_window_size=random.choice((1_048_576, 2_000)),
            producer_window_size=random.choice(windows),
            confirmation_window_size=random.choice(_CONFIRMATION_WINDOWS),
            block_on_acknowledge=random.random() < 0.5,
            block_on_non_durable_send=random.random() < 0.3,
            ack_batch_size=random.choice((0, 500, 1_048_576)),
            dups_ok_batch_size=random.choice((500, 5_000)),
            client_version=random.choice(versions),
        )
