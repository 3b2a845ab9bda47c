"""Bridges of a cluster that end: what happens to their queues, and to the members that stop at the same time."""

from __future__ import annotations

import pytest

from embedbroker.outbound import MemberBridge, MemberBridges
from embedbroker.outbound._agent_link import Departure
from embedbroker.outbound._bridge_link import BridgeLink
from embedbroker.outbound._rerouting import Rerouting
from embedbroker.pytest_plugin import BrokerClock, BrokerCluster, ManagedBroker
from embedclient.model import Instant

from .test_member_bridges import MakeCluster, equal, kernel_of, node_of, until


def _bridges(broker: ManagedBroker) -> MemberBridges:
    (bridges,) = node_of(broker).member_bridges
    return bridges


async def _started(cluster: BrokerCluster, clock: BrokerClock) -> ManagedBroker:
    await cluster.start()
    await equal(clock, *cluster.nodes)
    return cluster.nodes[0]


def _depart(bridge: MemberBridge, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the member announce its stop just before its bridge ends."""
    disconnect = bridge.on_disconnected

    def departed(link: BridgeLink, now: Instant) -> None:
        link.departure = Departure(None)
        disconnect(link, now)

    monkeypatch.setattr(bridge, "on_disconnected", departed)


async def test_all_bridges_end_while_members_depart(
    broker_cluster: MakeCluster, broker_clock: BrokerClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    bridges = _bridges(await _started(broker_cluster(3), broker_clock))
    for bridge in bridges.by_node_id.values():
        _depart(bridge, monkeypatch)
    bridges.stop()
    assert not bridges.by_node_id and not bridges.is_started


async def test_a_bridge_ends_once_while_its_member_departs(
    broker_cluster: MakeCluster, broker_clock: BrokerClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    bridges = _bridges(await _started(broker_cluster(2), broker_clock))
    (bridge,) = bridges.by_node_id.values()
    _depart(bridge, monkeypatch)
    bridges.on_given_up(bridge, 1, "it is away", bridge.now())
    assert not bridges.by_node_id


async def test_a_queue_that_is_deleted_without_a_connection_gets_nothing(
    broker_cluster: MakeCluster, broker_clock: BrokerClock
) -> None:
    cluster = broker_cluster(2)
    a = await _started(cluster, broker_clock)
    b = cluster.nodes[1]
    bridges = _bridges(a)
    (bridge,) = bridges.by_node_id.values()
    cluster.partition([0], [1])
    await until(broker_clock, lambda: not bridge.bridge.is_connected)
    await a.broker.management.delete_queue(bridge.queue.name, closes_consumers=True)
    assert all(each.queue is not bridge.queue for each in bridges.by_node_id.values())
    assert all(each.store_and_forward is not bridge.queue for each in kernel_of(a).address_manager.resolution.remote)
    cluster.heal()
    await equal(broker_clock, a, b)


async def test_the_queue_of_a_member_that_returns_is_kept(
    broker_cluster: MakeCluster, broker_clock: BrokerClock
) -> None:
    a = await _started(broker_cluster(2), broker_clock)
    bridges = _bridges(a)
    (bridge,) = bridges.by_node_id.values()
    Rerouting(kernel_of(a), bytes(16), bridge.queue, {}, None, 0.0, 0.0, bridges.has_bridge_of).begin()
    await broker_clock.advance(1)
    assert not bridge.queue.deleted
