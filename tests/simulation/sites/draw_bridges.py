"""Draws the plan of a scenario with bridges from a seed: brokers, bridges, senders, settings and faults.

It chooses; it runs nothing.
"""

from __future__ import annotations

from random import Random

from attrs import define, evolve, field

from embedbroker.storage import JournalSettings
from embedbroker.testing._messages import COLORS
from embedclient.agent import LocatorSettings
from tests.simulation.scenario.fault_kinds import draw_bridge_faults
from tests.simulation.scenario.plan import FaultStrike, QueuePlan

from .bridge_plan import BridgePlan, BridgeScenarioPlan, PlacePlan, SitePlan
from .senders import SenderPlan

__all__ = ["draw_bridge_plan", "draw_client", "draw_journal"]

_ANYCAST, _MULTICAST = 1, 0


def draw_bridge_plan(seed: int) -> BridgeScenarioPlan:
    """The plan of a seed: one bridge, one each way, a chain, two bridges of one queue, or a pair as the target."""
    return _Draw(Random(f"bridges {seed}")).plan(seed)


@define(eq=False)
class _Draw:
    random: Random
    sites: list[SitePlan] = field(factory=list, init=False)
    places: list[PlacePlan] = field(factory=list, init=False)
    bridges: list[BridgePlan] = field(factory=list, init=False)
    senders: list[SenderPlan] = field(factory=list, init=False)

    def plan(self, seed: int) -> BridgeScenarioPlan:
        random = self.random
        shapes = (self._one_way, self._both_ways, self._chain, self._fan, self._to_a_pair)
        random.choices(shapes, weights=(4, 2, 3, 2, 2))[0]()
        span_s = random.choice((0.5, 1.5, 3.0))
        kinds = draw_bridge_faults(random, random.randint(4, 9))
        return BridgeScenarioPlan(
            seed=seed,
            latency_s=random.choice((0.0001, 0.0005, 0.002)),
            split_chance=random.choice((0.02, 0.1, 0.3)),
            work_per_step_max=random.choice((1, 5, 50, 2_000)),
            journal=draw_journal(random),
            sites=tuple(self.sites),
            places=tuple(self.places),
            bridges=tuple(self.bridges),
            client=draw_client(random),
            senders=tuple(self.senders),
            operator_pause_s=random.choice((0.0, 0.0, 0.05, 0.2, 0.5)),
            faults=tuple(FaultStrike(kind, random.random() * span_s) for kind in kinds),
        )

    # Shapes

    def _one_way(self) -> None:
        self._add_sites("a", "b")
        self._add_source("a", "out")
        self._add_bridge("a", "out", "b", self._target("b", "in"))

    def _both_ways(self) -> None:
        self._add_sites("a", "b")
        for site, other in (("a", "b"), ("b", "a")):
            self._add_source(site, f"out.{site}")
            self._add_bridge(site, f"out.{site}", other, self._target(other, f"in.{other}"))

    def _chain(self) -> None:
        """The queue in the middle gets messages of the first bridge, and sometimes of a sender there."""
        self._add_sites("a", "b", "c")
        self._add_source("a", "out")
        self._add_source("b", "middle", sends=self.random.random() < 0.3)
        self._add_bridge("a", "out", "b", "middle")
        self._add_bridge("b", "middle", "c", self._target("c", "in"))

    def _fan(self) -> None:
        self._add_sites("a", "b", "c")
        self._add_source("a", "out")
        color = self.random.choice(COLORS)
        self._add_bridge("a", "out", "b", self._target("b", "in"), color)
        self._add_bridge("a", "out", "c", self._target("c", "in"), f"!{color}")

    def _to_a_pair(self) -> None:
        self._add_sites("a", "b")
        self.sites[1] = evolve(self.sites[1], is_pair=True)
        self._add_source("a", "out")
        self._add_bridge("a", "out", "b", self._target("b", "in"))

    # Parts

    def _add_sites(self, *names: str) -> None:
        # With a slow disk confirmations are late, and much is on its way when a fault strikes.
        self.sites += [SitePlan(name, disk_factor=self.random.choice((1.0, 1.0, 10.0, 50.0))) for name in names]

    def _add_source(self, site: str, address: str, *, sends: bool = True) -> None:
        queues = (QueuePlan(address),)
        if self.random.random() < 0.3:
            self.places.append(PlacePlan(site, address, multicast=queues))
            types = self.random.choice(((-1,), (_MULTICAST,), (-1, _MULTICAST)))
        else:
            self.places.append(PlacePlan(site, address, anycast=queues))
            types = self.random.choice(((-1,), (_ANYCAST,), (-1, _ANYCAST)))
        if sends:
            for number in range(self.random.randint(1, 2)):
                self.senders.append(self._sender(f"s-{site}-{number}", site, address, types))

    def _target(self, site: str, address: str) -> str:
        """Add an address with both kinds of queues: the routing type of a message decides which of them get it."""
        random = self.random
        colors = [None, *random.choices((None, *COLORS), k=random.randint(0, 1))]
        topics = tuple(QueuePlan(f"{address}.{number}", color) for number, color in enumerate(colors))
        self.places.append(PlacePlan(site, address, anycast=(QueuePlan(address),), multicast=topics))
        return address

    def _add_bridge(self, site: str, queue: str, target: str, address: str, color: str | None = None) -> None:
        random = self.random
        if color is None and random.random() < 0.2:
            color = random.choice(COLORS)
        bridge = BridgePlan(
            name=f"{site}-to-{target}",
            site=site,
            queue=queue,
            target=target,
            forwarding_address=address,
            color=color,
            routing_type=random.choice(("PASS", "PASS", "STRIP", "ANYCAST", "MULTICAST")),
            concurrency=random.choice((1, 1, 1, 2, 3)),
            detects_duplicates=random.random() < 0.85,
            adds_property=random.random() < 0.2,
            ha=random.random() < 0.5,
            confirmation_window=random.choice((1, 500, 5_000, 10 * 1024 * 1024, 10 * 1024 * 1024)),
            producer_window=random.choice((-1, 1_000, 10_000, 65_536, 1024 * 1024)),
            min_large_size=random.choice((500, 2_500, 100 * 1024)),
            ttl_ms=random.choice((1_000, 4_000)),
            retry_ms=random.choice((10, 100, 500)),
            retry_multiplier=random.choice((1.0, 2.0)),
            attempts=random.choice((-1, -1, -1, 3, 20)),
            pending_timeout_ms=random.choice((0, 200, 60_000)),
        )
        place = next(place for place in self.places if (place.site, place.address) == (target, address))
        # A middle address serves one routing type: a message of the other one would be refused for ever.
        if not place.anycast or not place.multicast:
            bridge = evolve(bridge, routing_type="ANYCAST" if place.anycast else "MULTICAST")
        has_senders = any((sender.site, sender.address) == (target, address) for sender in self.senders)
        if not has_senders and random.random() < 0.25:
            self._pass_addresses(bridge, place)
            bridge = evolve(bridge, forwarding_address=None)
        self.bridges.append(bridge)

    def _pass_addresses(self, bridge: BridgePlan, place: PlacePlan) -> None:
        """Give the target's address the name of the source's: the bridge passes it on."""
        source = next(each for each in self.places if each.site == bridge.site and bridge.queue in _names(each))
        number = self.places.index(place)
        self.places[number] = evolve(place, address=source.address)

    def _sender(self, name: str, site: str, address: str, routing_types: tuple[int, ...]) -> SenderPlan:
        random = self.random
        is_large = random.random() < 0.4
        identifies = random.random() < 0.5
        return SenderPlan(
            name=name,
            site=site,
            address=address,
            count=random.randint(40, 110),
            think_s=random.choice((0.0, 0.002, 0.01, 0.03)),
            size_max=random.choice((100, 1_000, 3_000)),
            large_chance=0.2 if is_large else 0.0,
            large_size_max=random.choice((8_000, 40_000, 110_000)),
            batch=random.choice((0, 0, 5, 20)),
            durable=random.random() < 0.85,
            identifies=identifies,
            mixed_priorities=random.random() < 0.2,
            routing_types=routing_types,
        )


def _names(place: PlacePlan) -> list[str]:
    return [queue.name for queue in (*place.anycast, *place.multicast)]


def draw_journal(random: Random) -> JournalSettings:
    """A journal small enough to change segments and to compact in a short scenario."""
    return JournalSettings(
        identity=random.getrandbits(62),
        segment_size_bytes=random.choice((16, 64)) * 1024,
        batch_bytes_max=random.choice((4_096, 16_384)),
        seal_after_s=random.choice((0.05, 0.3, 1.0)),
        recovery_slice_bytes=random.choice((2_048, 65_536)),
        compaction_slice_bytes=random.choice((2_048, 16_384)),
        compaction_live_ratio_max=random.choice((0.5, 0.8)),
        compaction_segments_min=random.choice((1, 2, 4)),
        spare_segments_max=random.choice((0, 1, 2)),
    )


def draw_client(random: Random) -> LocatorSettings:
    """Settings of users."""
    return LocatorSettings(
        call_timeout_ms=random.choice((1_000, 5_000)),
        call_failover_timeout_ms=1_000,
        client_failure_check_period_ms=300,
        connection_ttl_ms=1_000,
        connect_timeout_ms=1_000,
        # A send that is done is stored.
        block_on_non_durable_send=True,
        initial_connect_attempts=5,
        reconnect_attempts=random.choice((0, -1)),
        retry_interval_ms=random.choice((10, 100)),
        producer_window_size=random.choice((65_536, 3_000)),
        confirmation_window_size=random.choice((-1, -1, 500, 10_000)),
        min_large_message_size=random.choice((2_500, 100 * 1024)),
    )
