"""Brokers of a test find each other by datagrams in virtual time, without a socket."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from embedbroker import BroadcastGroup, ClusterConnection, DiscoveryGroup
from embedbroker.management import CONTROLS
from embedbroker.pytest_plugin import BrokerClock, ManagedBroker
from embedbroker.runtime._embedded import life_of
from embedclient.errors import JMSException

MakeBroker: TypeAlias = Callable[..., ManagedBroker]


def member(make: MakeBroker, name: str, **place: str) -> ManagedBroker:
    settings: dict[str, Any] = {
        "connectors": {name: f"vm://{name}"},
        "broadcast_groups": [BroadcastGroup("b", **place)],  # type: ignore[arg-type]  # texts
        "discovery_groups": [DiscoveryGroup("d", **place)],  # type: ignore[arg-type]  # texts
        "cluster_connections": ClusterConnection(connector=name, discovery_group="d"),
        "cluster_password": "secret",
    }
    return make(name, **settings)


@pytest.mark.parametrize("place", [{"group_address": "231.7.7.7"}, {"shared_directory": "/nowhere"}])
async def test_brokers_of_a_test_find_each_other(
    broker_factory: MakeBroker, broker_clock: BrokerClock, place: dict[str, str]
) -> None:
    brokers = [await member(broker_factory, name, **place).start() for name in "abc"]
    await broker_clock.advance(3)
    for broker in brokers:
        members = await broker.broker.management.invoke("broker", "listNetworkTopology")
        assert len(json.loads(members)) == 3


async def test_management_stops_and_starts_a_broadcast_group(
    broker_factory: MakeBroker, broker_clock: BrokerClock
) -> None:
    announcing = await member(broker_factory, "a", group_address="231.7.7.7").start()
    management = announcing.broker.management
    for attribute in CONTROLS[-1].attributes.values():
        value = await management.get("broadcastgroup.b", attribute.name)
        assert value is not None or attribute.name == "SharedDirectory", attribute.name
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
