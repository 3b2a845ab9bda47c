"""The plan of a scenario with bridges: brokers, addresses, bridges, senders and faults, as plain values.

It holds values; it runs nothing.
"""

from __future__ import annotations

from attrs import frozen

from embedbroker.storage import JournalSettings
from embedclient.agent import LocatorSettings
from tests.simulation.scenario.plan import FaultStrike, QueuePlan

from .senders import SenderPlan

__all__ = ["BridgePlan", "BridgeScenarioPlan", "PlacePlan", "SitePlan", "takes"]


@frozen
class SitePlan:
    """One broker, or a pair on one disk. ``disk_factor``: how many times slower than usual the disk is."""

    name: str
    is_pair: bool = False
    disk_factor: float = 1.0

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names of its hosts."""
        return (self.name, f"{self.name}-backup") if self.is_pair else (self.name,)


@frozen
class PlacePlan:
    """One address of a site, with at most one anycast queue."""

    site: str
    address: str
    anycast: tuple[QueuePlan, ...] = ()
    multicast: tuple[QueuePlan, ...] = ()


@frozen
class BridgePlan:
    """One bridge. ``color`` is its filter: with ``!`` in front it takes all other colors."""

    name: str
    site: str
    queue: str
    target: str
    forwarding_address: str | None
    color: str | None = None
    routing_type: str = "PASS"
    concurrency: int = 1
    detects_duplicates: bool = True
    adds_property: bool = False
    ha: bool = False
    confirmation_window: int = 10 * 1024 * 1024
    producer_window: int = 1024 * 1024
    min_large_size: int = 100 * 1024
    check_period_ms: int = 300
    ttl_ms: int = 1_000
    retry_ms: int = 100
    retry_multiplier: float = 1.0
    attempts: int = -1
    pending_timeout_ms: int = 60_000


@frozen
class BridgeScenarioPlan:
    """Everything that is decided before the first event. What is decided later is drawn from ``seed``.

    ``operator_pause_s``: the mean pause between two orders to bridges; 0 for none before the end.
    """

    seed: int
    latency_s: float
    split_chance: float
    work_per_step_max: int
    journal: JournalSettings
    sites: tuple[SitePlan, ...]
    places: tuple[PlacePlan, ...]
    bridges: tuple[BridgePlan, ...]
    client: LocatorSettings
    senders: tuple[SenderPlan, ...]
    operator_pause_s: float
    faults: tuple[FaultStrike, ...]


def takes(wanted: str | None, color: str) -> bool:
    """Return True if a filter takes a color: None takes all, and one with ``!`` in front takes all others."""
    if wanted is not None and wanted.startswith("!"):
        return wanted[1:] != color
    return wanted is None or wanted == color
