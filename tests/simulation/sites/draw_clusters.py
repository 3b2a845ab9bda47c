"""Draws the plan of a scenario with a cluster from a seed: nodes, topology, users, settings and faults.

It chooses; it runs nothing.
"""

from __future__ import annotations

from random import Random

from attrs import define, evolve

from embedbroker.testing._messages import COLORS
from embedclient.agent import LocatorSettings
from tests.simulation.scenario.fault_kinds import FaultKind, draw_bridge_faults, draw_failover_faults
from tests.simulation.scenario.plan import FaultStrike, QueuePlan

from .cluster_plan import AUTOMATIC, QUEUE, TOPIC, ClusterPlan, MakerPlan, NodePlan, TakerPlan
from .draw_bridges import draw_client, draw_journal
from .senders import SenderPlan

__all__ = ["draw_cluster_plan", "draw_failover_plan"]

_ANYCAST, _MULTICAST = 1, 0
_MESSAGES_MIN, _MESSAGES_MAX = 80, 200
#: A pair costs as much as two nodes.
_NODES_WITH_PAIRS_MAX = 4
_FAILOVERS_SPAN_S = 3.0
#: A subscription of this name exists on several nodes, and they share its messages.
_SHARED = "shared"


def draw_cluster_plan(seed: int) -> ClusterPlan:
    """The plan of a seed: two to eight nodes that all reach each other, in a chain, or in a ring of one direction."""
    plan = _Draw(Random(f"cluster {seed}")).plan(seed)
    # What came later is drawn apart, so that the rest of a seed stays what it was.
    plan = _Draw(Random(f"pairs {seed}")).with_pairs(plan)
    plan = _Draw(Random(f"groups {seed}")).with_groups(plan)
    plan = _Draw(Random(f"scale-downs {seed}")).with_scale_downs(plan)
    plan = _Draw(Random(f"transactions {seed}")).with_transactions(plan)
    plan = _Draw(Random(f"large {seed}")).with_large_messages(plan)
    plan = _Draw(Random(f"makers {seed}")).with_makers(plan)
    plan = _Draw(Random(f"datagrams {seed}")).with_datagrams(plan)
    plan = _Draw(Random(f"replicas {seed}")).with_replicas(plan, 0.4)
    return _Draw(Random(f"ways {seed}")).with_ways(plan)


def draw_failover_plan(seed: int) -> ClusterPlan:
    """The plan of a seed: two or three pairs under load, whose members crash again and again."""
    plan = _Draw(Random(f"failovers {seed}")).failovers(seed)
    return _Draw(Random(f"replicas of failovers {seed}")).with_replicas(plan, 0.3)


@define(eq=False)
class _Draw:
    random: Random

    def plan(self, seed: int) -> ClusterPlan:
        random = self.random
        count = random.choice((2, 2, 3, 3, 3, 4, 5, 8))
        names = [f"n{number}" for number in range(count)]
        shape = random.choice(("symmetric", "symmetric", "chain", "ring")) if count > 2 else "symmetric"
        nodes = [NodePlan(name, self._finds(names, number, shape)) for number, name in enumerate(names)]
        nodes = self._subscribed(nodes, may_share=shape == "symmetric")
        load_balancing = random.choice(("STRICT", "ON_DEMAND", "ON_DEMAND", "OFF", "OFF_WITH_REDISTRIBUTION"))
        span_s = random.choice((0.5, 1.5, 3.0))
        kinds = draw_bridge_faults(random, random.randint(3, 7))
        return ClusterPlan(
            seed=seed,
            latency_s=random.choice((0.0001, 0.0005, 0.002)),
            split_chance=random.choice((0.02, 0.1)),
            work_per_step_max=random.choice((5, 50, 2_000)),
            journal=draw_journal(random),
            nodes=tuple(nodes),
            direct_only=shape != "symmetric",
            max_hops=1 if shape == "symmetric" else count - 1,
            load_balancing=load_balancing,
            detects_duplicates=random.random() < 0.9,
            confirmation_window=random.choice((1, 2_000, 10 * 1024 * 1024, 10 * 1024 * 1024)),
            redistribution_delay_ms=random.choice((-1, 0, 200)),
            client=self._client(),
            senders=tuple(self._senders(names, is_off=load_balancing.startswith("OFF"))),
            takers=tuple(self._takers(nodes)),
            faults=tuple(FaultStrike(kind, random.random() * span_s) for kind in kinds),
        )

    def with_pairs(self, plan: ClusterPlan) -> ClusterPlan:
        """Make some nodes pairs, in the smaller clusters."""
        random = self.random
        if len(plan.nodes) > _NODES_WITH_PAIRS_MAX or random.random() < 0.6:
            return plan
        nodes = [evolve(node, is_pair=random.random() < 0.6, fails_back=random.random() < 0.6) for node in plan.nodes]
        return evolve(plan, nodes=tuple(nodes))

    def with_groups(self, plan: ClusterPlan) -> ClusterPlan:
        """Put the messages of some queues into groups, for which one node decides."""
        random = self.random
        if plan.load_balancing.startswith("OFF") or random.random() < 0.5:
            return plan
        groups = random.choice((1, 3, 8))
        senders = [
            evolve(sender, groups=groups) if sender.address == QUEUE and random.random() < 0.9 else sender
            for sender in plan.senders
        ]
        return evolve(plan, senders=tuple(senders), arbiter=random.choice(plan.nodes).name)

    def with_scale_downs(self, plan: ClusterPlan) -> ClusterPlan:
        """Let one or two nodes move everything to a neighbour when they stop, and start again.

        They have two subscriptions without filters, and often no consumers, so that there is much to move.
        """
        random = self.random
        alone = [node.name for node in plan.nodes if not node.is_pair]
        if not alone or random.random() < 0.6:
            return plan
        leaving = random.sample(alone, min(len(alone), random.choice((1, 1, 2))))
        nodes = [
            evolve(
                node,
                scales_down_to=random.choice(node.finds),
                subscriptions=(*node.subscriptions, *[QueuePlan(f"{node.name}.leaves.{number}") for number in (1, 2)]),
            )
            if node.name in leaving
            else node
            for node in plan.nodes
        ]
        takers = [taker for taker in plan.takers if taker.node not in leaving or random.random() < 0.4]
        span_s = max((strike.at_s for strike in plan.faults), default=1.0)
        kinds = (FaultKind.SCALE_DOWN, FaultKind.SCALE_DOWN, FaultKind.CRASH_WHILE_SCALING_DOWN)
        strikes = [FaultStrike(random.choice(kinds), random.random() * span_s) for _ in range(random.choice((1, 2, 3)))]
        # A stop in order is one of the other faults, too.
        return evolve(
            plan, nodes=tuple(nodes), takers=tuple(takers), faults=(*plan.faults[: random.choice((2, 2, 3))], *strikes)
        )

    def with_transactions(self, plan: ClusterPlan) -> ClusterPlan:
        """Let transactions send to both addresses, or be rolled back, and some consumers take in transactions."""
        random = self.random
        if random.random() < 0.4:
            return plan
        is_off = plan.load_balancing.startswith("OFF")
        senders = []
        for sender in plan.senders:
            if random.random() < 0.4 and not sender.batch:
                sender = evolve(sender, batch=random.choice((2, 8)))
            if sender.batch:
                other, other_type = (TOPIC, _MULTICAST) if sender.address == QUEUE else (QUEUE, _ANYCAST)
                sender = evolve(
                    sender,
                    rollback_chance=random.choice((0.0, 0.15)),
                    other_address=random.choice(("", other, other)),
                    other_type=other_type if is_off else random.choice((-1, other_type)),
                )
            senders.append(sender)
        takers = [
            evolve(taker, batch=random.choice((0, 2, 5)), rollback_chance=random.choice((0.0, 0.2)))
            for taker in plan.takers
        ]
        return evolve(plan, senders=tuple(senders), takers=tuple(takers))

    def with_large_messages(self, plan: ClusterPlan) -> ClusterPlan:
        """Let some messages go in chunks: from clients, between nodes, or both."""
        random = self.random
        if random.random() < 0.6:
            return plan
        senders = [
            evolve(sender, large_chance=random.choice((0.1, 0.4)), large_size_max=random.choice((6_000, 20_000)))
            if random.random() < 0.7
            else sender
            for sender in plan.senders
        ]
        client = evolve(plan.client, min_large_message_size=random.choice((500, 2_500, 100 * 1024)))
        return evolve(
            plan, senders=tuple(senders), client=client, min_large_size=random.choice((500, 2_500, 100 * 1024))
        )

    def with_makers(self, plan: ClusterPlan) -> ClusterPlan:
        """Let users create and delete subscriptions and queues at run time."""
        random = self.random
        if random.random() < 0.6:
            return plan
        names = [node.name for node in plan.nodes]
        makers = [
            MakerPlan(
                name=f"m{number}",
                node=random.choice(names),
                queue=f"made.{number}",
                color=random.choice((None, None, *COLORS)),
                pause_s=random.choice((0.005, 0.02, 0.1)),
                leave_chance=random.choice((0.1, 0.5)),
            )
            for number in range(random.choice((1, 2, 2)))
        ]
        senders = [
            SenderPlan(
                name=f"a{number}",
                site=random.choice(names),
                address=address,
                count=random.randint(10, 30),
                think_s=random.choice((0.01, 0.03)),
                size_max=100,
                batch=random.choice((0, 0, 5)),
                durable=random.random() < 0.85,
                identifies=random.random() < 0.5,
                routing_types=(_ANYCAST if address in AUTOMATIC else _MULTICAST,),
            )
            for number, address in enumerate(random.choices((TOPIC, *AUTOMATIC), k=random.choice((2, 3))))
        ]
        takers = [
            TakerPlan(
                f"b{number}",
                random.choice(names),
                random.choice(AUTOMATIC),
                think_s=random.choice((0.0, 0.005)),
                leave_chance=random.choice((0.0, 0.1)),
                creates=True,
            )
            for number in range(random.choice((1, 2, 3)))
        ]
        return evolve(plan, makers=tuple(makers), senders=(*plan.senders, *senders), takers=(*plan.takers, *takers))

    def with_datagrams(self, plan: ClusterPlan) -> ClusterPlan:
        """Let nodes that reach each other find each other by datagrams, of which many may be lost."""
        random = self.random
        if plan.direct_only or random.random() < 0.7:
            return plan
        return evolve(
            plan,
            datagram_period_ms=random.choice((100, 500, 1_000)),
            datagram_loss=random.choice((0.0, 0.1, 0.5)),
            datagram_duplication=random.choice((0.0, 0.3)),
        )

    def with_replicas(self, plan: ClusterPlan, chance: float) -> ClusterPlan:
        """Give the members of some pairs a disk each."""
        nodes = [evolve(node, replicates=node.is_pair and self.random.random() < chance) for node in plan.nodes]
        return evolve(plan, nodes=tuple(nodes))

    def with_ways(self, plan: ClusterPlan) -> ClusterPlan:
        """Let a chain lead one way only, or nodes that reach each other have a cluster connection for the topic."""
        random = self.random
        if random.random() < 0.6:
            return plan
        if not plan.direct_only:
            return evolve(plan, splits_addresses=True)
        leaves = any(node.scales_down_to for node in plan.nodes)
        if leaves or plan.arbiter or all(len(node.finds) == 1 for node in plan.nodes):
            return plan
        names = [node.name for node in plan.nodes]
        nodes = [evolve(node, finds=tuple(names[number + 1 : number + 2])) for number, node in enumerate(plan.nodes)]
        return evolve(plan, nodes=tuple(nodes))

    def failovers(self, seed: int) -> ClusterPlan:
        """Two or three pairs; most messages go to another one, and most faults end the member that serves."""
        random, names = self.random, ["n0", "n1", "n2"][: self.random.choice((2, 2, 3))]
        plan = draw_cluster_plan(seed)
        nodes = [
            NodePlan(name, self._finds(names, number, "symmetric"), is_pair=True) for number, name in enumerate(names)
        ]
        # With a slow disk confirmations are late, and much is in doubt when a fault strikes.
        nodes = [
            evolve(node, disk_factor=random.choice((1.0, 10.0, 50.0)), fails_back=random.random() < 0.6)
            for node in self._subscribed(nodes, may_share=False)
        ]
        kinds = draw_failover_faults(random, random.randint(10, 16))
        return evolve(
            plan,
            nodes=tuple(nodes),
            direct_only=False,
            max_hops=1,
            detects_duplicates=True,
            load_balancing=random.choice(("STRICT", "ON_DEMAND")),
            senders=tuple(self._steady_senders(names)),
            makers=(),
            splits_addresses=False,
            takers=tuple(self._takers(nodes)),
            faults=tuple(FaultStrike(kind, random.random() * _FAILOVERS_SPAN_S) for kind in kinds),
        )

    def _finds(self, names: list[str], number: int, shape: str) -> tuple[str, ...]:
        match shape:
            case "chain":
                return tuple(names[max(number - 1, 0) : number] + names[number + 1 : number + 2])
            case "ring":
                return (names[(number + 1) % len(names)],)
            case _ if self.random.random() < 0.5:
                return tuple([name for name in names if name != names[number]])
            case _:
                # The others come from the topology.
                return (names[0] if number else names[1],)

    def _subscribed(self, nodes: list[NodePlan], *, may_share: bool) -> list[NodePlan]:
        random, shares = self.random, self.random.random() < 0.4 and may_share
        found = []
        for node in nodes:
            colors = random.choices((None, None, *COLORS), k=random.choice((0, 1, 1, 2)))
            queues = [QueuePlan(f"{node.name}.{number}", color) for number, color in enumerate(colors)]
            if shares and random.random() < 0.7:
                queues.append(QueuePlan(_SHARED))
            factor = random.choice((1.0, 1.0, 10.0))
            found.append(evolve(node, subscriptions=tuple(queues), disk_factor=factor))
        return found

    def _senders(self, names: list[str], *, is_off: bool) -> list[SenderPlan]:
        """Where nothing is balanced, only messages with a routing type reach subscriptions of other nodes."""
        random = self.random
        senders: list[SenderPlan] = []
        left = random.randint(_MESSAGES_MIN, _MESSAGES_MAX)
        while left > 0:
            count = min(left, random.randint(20, 70))
            left -= count
            address = random.choice((QUEUE, TOPIC))
            typed = (_ANYCAST if address == QUEUE else _MULTICAST,)
            senders.append(
                SenderPlan(
                    name=f"s{len(senders)}",
                    site=random.choice(names),
                    address=address,
                    count=count,
                    think_s=random.choice((0.002, 0.01, 0.03)),
                    size_max=random.choice((100, 1_000, 3_000)),
                    batch=random.choice((0, 0, 5)),
                    durable=random.random() < 0.85,
                    identifies=random.random() < 0.5,
                    routing_types=typed if is_off else random.choice(((-1,), typed)),
                )
            )
        return senders

    def _steady_senders(self, names: list[str]) -> list[SenderPlan]:
        """Two senders at each node, which work until the last fault."""
        random = self.random
        plan = SenderPlan("", "", QUEUE, 0, 0.0, size_max=1_000)
        return [
            evolve(
                plan,
                name=f"s{number}",
                site=name,
                address=random.choice((QUEUE, TOPIC)),
                count=int(_FAILOVERS_SPAN_S / think_s),
                think_s=think_s,
                batch=random.choice((0, 0, 5)),
                durable=random.random() < 0.9,
                identifies=random.random() < 0.5,
            )
            for number, name in enumerate(names * 2)
            if (think_s := random.choice((0.05, 0.1)))
        ]

    def _takers(self, nodes: list[NodePlan]) -> list[TakerPlan]:
        random = self.random
        takers: list[TakerPlan] = []
        for node in nodes:
            for queue in (QUEUE, *(subscription.name for subscription in node.subscriptions)):
                if random.random() < 0.5:
                    takers.append(
                        TakerPlan(
                            f"t{len(takers)}",
                            node.name,
                            queue,
                            think_s=random.choice((0.0, 0.005, 0.02)),
                            leave_chance=random.choice((0.0, 0.0, 0.05)),
                            color=random.choice(COLORS) if random.random() < 0.15 else None,
                        )
                    )
        return takers

    def _client(self) -> LocatorSettings:
        """Users stay with their node, and know what became of each acknowledgement."""
        return evolve(
            draw_client(self.random),
            reconnect_attempts=0,
            ack_batch_size=0,
            block_on_acknowledge=True,
            use_topology_for_load_balancing=False,
            min_large_message_size=100 * 1024,
        )
