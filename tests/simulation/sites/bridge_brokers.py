"""The brokers of a scenario with bridges, made from its plan. It decides nothing."""

from __future__ import annotations

from embedbroker.config import (
    AddressConfiguration,
    AddressSettings,
    BridgeConfig,
    BridgeRoutingType,
    BrokerConfig,
    PrimaryOnly,
    QueueConfiguration,
    SharedStoreBackup,
    SharedStorePrimary,
)
from embedbroker.testing._disk import SimulatedDisk
from embedbroker.testing._locks import SimulatedLocks
from embedbroker.testing._messages import selector_of
from embedbroker.testing._network import Network
from embedbroker.testing._node_host import NodeHost
from tests.simulation.scenario.plan import QueuePlan

from .bridge_plan import BridgePlan, BridgeScenarioPlan, PlacePlan, SitePlan
from .site import Site

__all__ = ["make_sites"]

_PORT = 61616


def make_sites(plan: BridgeScenarioPlan, network: Network) -> dict[str, Site]:
    """Create all brokers that a plan names."""
    return {site.name: _site(plan, site, network) for site in plan.sites}


def _site(plan: BridgeScenarioPlan, site: SitePlan, network: Network) -> Site:
    # Each broker has a lock store: it keeps the node id, by which the ids of forwarded messages differ.
    disk, locks = SimulatedDisk(), SimulatedLocks()
    configs = [_config(plan, site, name) for name in site.hosts]
    hosts = [NodeHost(network, config, disk, plan.journal, locks) for config in configs]
    for host in hosts:
        host.speed.factor = site.disk_factor
    return Site(site.name, hosts)


def _config(plan: BridgeScenarioPlan, site: SitePlan, name: str) -> BrokerConfig:
    in_pair = SharedStorePrimary() if name == site.name else SharedStoreBackup()
    hosts = {each.name: each.hosts for each in plan.sites}
    return BrokerConfig(
        name=name,
        ha_policy=in_pair if site.is_pair else PrimaryOnly(),
        addresses={place.address: _address(place) for place in plan.places if place.site == site.name},
        address_settings={"#": AddressSettings(auto_create_addresses=False, auto_create_queues=False)},
        connectors={each: f"tcp://{each}:{_PORT}" for names in hosts.values() for each in names},
        bridges=[_bridge(bridge, hosts[bridge.target]) for bridge in plan.bridges if bridge.site == site.name],
        connection_check_interval_ms=500,
        work_per_step_max=plan.work_per_step_max,
    )


def _address(place: PlacePlan) -> AddressConfiguration:
    return AddressConfiguration(
        anycast={queue.name: _queue(queue) for queue in place.anycast} if place.anycast else None,
        multicast={queue.name: _queue(queue) for queue in place.multicast} if place.multicast else None,
    )


def _queue(queue: QueuePlan) -> QueueConfiguration:
    return QueueConfiguration(filter=_filter(queue.color))


def _filter(color: str | None) -> str | None:
    if color is None:
        return None
    return f"NOT ({selector_of(color[1:])})" if color.startswith("!") else selector_of(color)


def _bridge(plan: BridgePlan, connectors: tuple[str, ...]) -> BridgeConfig:
    return BridgeConfig(
        name=plan.name,
        queue=plan.queue,
        static_connectors=connectors,
        forwarding_address=plan.forwarding_address,
        filter=_filter(plan.color),
        properties={"via": plan.name} if plan.adds_property else {},
        routing_type=BridgeRoutingType(plan.routing_type),
        ha=plan.ha,
        concurrency=plan.concurrency,
        use_duplicate_detection=plan.detects_duplicates,
        confirmation_window_size=plan.confirmation_window,
        producer_window_size=plan.producer_window,
        min_large_message_size=plan.min_large_size,
        check_period_ms=plan.check_period_ms,
        connection_ttl_ms=plan.ttl_ms,
        retry_interval_ms=plan.retry_ms,
        retry_interval_multiplier=plan.retry_multiplier,
        initial_connect_attempts=plan.attempts,
        reconnect_attempts=plan.attempts,
        pending_ack_timeout_ms=plan.pending_timeout_ms,
    )
