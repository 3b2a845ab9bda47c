"""A naive model of bridges: which queues each message must reach, and whether in order and once.

It reads the plan. Does not depend on brokers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attrs import frozen

from embedclient.model import RoutingType
from tests.simulation.scenario.plan import QueuePlan

from .bridge_plan import BridgePlan, BridgeScenarioPlan, PlacePlan, takes
from .send_book import Entry

__all__ = ["Arrival", "BridgeRoutes"]


@frozen
class Arrival:
    """A queue that a message must reach, and what the bridges on its way promise."""

    site: str
    queue: str
    in_order: bool
    once: bool
    bridges: tuple[str, ...]


@frozen
class BridgeRoutes:
    """The bridges and addresses of a plan."""

    plan: BridgeScenarioPlan

    def of(self, entry: Entry, site: str, address: str) -> list[Arrival]:
        """Return where a message must arrive that was sent to an address of a site."""
        letter = entry.letter
        start = Arrival(site, "", True, True, ())
        return list(self._reach(start, address, letter.color, letter.routing_type))

    @property
    def queues(self) -> list[tuple[str, str]]:
        """Site and name of each queue."""
        return [(place.site, queue.name) for place in self.plan.places for queue in (*place.anycast, *place.multicast)]

    def _reach(self, so_far: Arrival, address: str, color: str, routing_type: int | None) -> Iterator[Arrival]:
        place = next(place for place in self.plan.places if (place.site, place.address) == (so_far.site, address))
        for queue in _taking(place, color, routing_type):
            bridge = self._bridge_of(place.site, queue.name, color)
            if bridge is None:
                yield Arrival(place.site, queue.name, so_far.in_order, so_far.once, so_far.bridges)
                continue
            passed = Arrival(
                bridge.target,
                "",
                so_far.in_order and bridge.concurrency == 1,
                so_far.once and bridge.detects_duplicates,
                (*so_far.bridges, bridge.name),
            )
            forwarding = bridge.forwarding_address or address
            yield from self._reach(passed, forwarding, color, _routing_type(bridge, routing_type))

    def _bridge_of(self, site: str, queue: str, color: str) -> BridgePlan | None:
        found = [each for each in self.plan.bridges if (each.site, each.queue) == (site, queue)]
        return next((each for each in found if takes(each.color, color)), None)


def _taking(place: PlacePlan, color: str, routing_type: int | None) -> Sequence[QueuePlan]:
    anycast = () if routing_type == RoutingType.MULTICAST else place.anycast
    multicast = () if routing_type == RoutingType.ANYCAST else place.multicast
    return [queue for queue in (*anycast, *multicast) if takes(queue.color, color)]


def _routing_type(bridge: BridgePlan, routing_type: int | None) -> int | None:
    match bridge.routing_type:
        case "ANYCAST":
            return RoutingType.ANYCAST
        case "MULTICAST":
            return RoutingType.MULTICAST
        case "STRIP":
            return None
        case _:
            return routing_type
