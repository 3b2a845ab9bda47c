"""Brokers of a test find each other by datagrams in virtual time, without a socket."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from embedbroker import BroadcastGroup, ClusterConnection, DiscoveryGroup
from embedbroker.management import CONTROLS
from embedbroker.pytest_plugin import BlockingCluster, BrokerClock, BrokerCluster, ManagedBroker
from embedbroker.pytest_plugin._network import MemoryFabric
from embedbroker.runtime._embedded import life_of
from embedclient.errors import IllegalStateException, JMSException

MakeBroker: TypeAlias = Callable[..., ManagedBroker]


MULTICAST, DIRECTORY = {"group_address": "231.7.7.7"}, {"shared_directory": "/nowhere"}


def member(make: MakeBroker, name: str, sender: dict[str, Any], receiver: dict[str, Any]) -> ManagedBroker:
    settings: dict[str, Any] = {
        "connectors": {name: f"vm://{name}"},
        "broadcast_groups": [BroadcastGroup("b", **sender)],
        "discovery_groups": [DiscoveryGroup("d", **receiver)],
        "cluster_connections": ClusterConnection(connector=name, discovery_group="d"),
        "cluster_password": "secret",
    }
    return make(name, **settings)


@pytest.mark.parametrize(
    ("sender", "receiver"),
    [
        (MULTICAST, MULTICAST),
        (DIRECTORY, DIRECTORY),
        # The last broker is in no list: it is found because it connects to one that is.
        ({"listen_port": 7800}, {"hosts": ["gone:7800", "a:7799", "b:7800"], "port_range": 1}),
    ],
)
async def test_brokers_of_a_test_find_each_other(
    broker_factory: MakeBroker, broker_clock: BrokerClock, sender: dict[str, Any], receiver: dict[str, Any]
) -> None:
    brokers = [await member(broker_factory, name, sender, receiver).start() for name in "abc"]
    await broker_clock.advance(3)
    for broker in brokers:
        members = await broker.broker.management.invoke("broker", "listNetworkTopology")
        assert len(json.loads(members)) == 3


async def test_a_link_loses_delays_and_repeats_datagrams(
    broker_cluster: Callable[..., BrokerCluster], broker_clock: BrokerClock
) -> None:
    """A node is in the list while one of its datagrams arrives per refresh time-out."""
    cluster = await broker_cluster(2, discovery=True).start()
    link = cluster.link(0, 1)
    node = life_of(cluster.nodes[1].broker).host.node
    discovery = node.discovery
    assert discovery is not None
    (group,) = node.config.discovery_groups

    def listed() -> list[str]:
        return sorted(place.name for place in discovery.places(group.name))

    await broker_clock.advance(3)
    assert listed() == ["node-0"]
    link.disturb_datagrams(loss=0.5, duplication=1.0)
    link.delay(3.0)
    await broker_clock.advance(100)
    assert listed() == ["node-0"]
    link.disturb_datagrams(loss=1.0)
    await broker_clock.advance(20)
    assert listed() == []
    link.heal()
    await broker_clock.advance(5)
    assert listed() == ["node-0"]
    with pytest.raises(ValueError, match="a share from 0 to 1"):
        link.disturb_datagrams(loss=2)
    for wrong in ("x", None, True):
        with pytest.raises(TypeError, match="duplication is a share from 0 to 1"):
            link.disturb_datagrams(duplication=wrong)  # type: ignore[arg-type]
    with pytest.raises(IllegalStateException, match="link to node-0: they do only between two brokers in virtual time"):
        cluster.nodes[0].link.disturb_datagrams(loss=1.0)


def test_datagrams_of_sockets_do_not_go_over_links(broker_cluster_blocking: Callable[..., BlockingCluster]) -> None:
    with pytest.raises(IllegalStateException, match="only between two brokers in virtual time"):
        broker_cluster_blocking(2).link(0, 1).disturb_datagrams(loss=1.0)


def test_the_seed_decides_which_datagrams_are_lost() -> None:
    def lost(seed: int) -> list[int]:
        fabric = MemoryFabric(lambda text: None, seed)
        return [fabric.multicast.copies(0.5, 0.0) for _ in range(50)]

    assert lost(1) == lost(1) != lost(2)


async def test_management_stops_and_starts_a_broadcast_group(
    broker_factory: MakeBroker, broker_clock: BrokerClock
) -> None:
    announcing = await member(broker_factory, "a", MULTICAST, MULTICAST).start()
    management = announcing.broker.management
    for attribute in CONTROLS[-1].attributes.values():
        value = await management.get("broadcastgroup.b", attribute.name)
        assert value is not None or attribute.name in ("SharedDirectory", "ListenPort")
    assert await management.get("broadcastgroup.b", "ConnectorPairsAsJSON") == '["a"]'
    with pytest.raises(JMSException):
        await management.get("broadcastgroup.c", "Name")
    await management.create_queue("events", address="activemq.notifications", routing_type="MULTICAST")
    for _ in range(2):
        await management.invoke("broadcastgroup.b", "stop")
    listener = await broker_factory("l", discovery_groups=[DiscoveryGroup("d", "231.7.7.7")]).start()
    assert not await management.get("broadcastgroup.b", "Started")
    await broker_clock.advance(5)
    assert found_by(listener) == []
    await management.invoke("broadcastgroup.b", "start")
    await broker_clock.advance(0.5)
    assert found_by(listener) == ["a"]
    events = [each.properties["_AMQ_NotifType"] for each in await announcing.messages("events")]
    assert [each for each in events if "GROUP" in str(each)] == ["BROADCAST_GROUP_STOPPED", "BROADCAST_GROUP_STARTED"]


def found_by(broker: ManagedBroker) -> list[str]:
    node = life_of(broker.broker).host.node
    assert node.discovery is not None
    return [place.name for place in node.discovery.places("d")]
