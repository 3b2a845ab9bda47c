"""Brokers of a test find each other by datagrams in virtual time, without a socket."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from embedbroker import BroadcastGroup, ClusterConnection, DiscoveryGroup
from embedbroker.pytest_plugin import BrokerClock, ManagedBroker

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
    for attribute in BROADCAST_GROUP.attributes.values():
        value = await management.get("broadcastgroup.b", attribute.name)
        assert value is not None or attribute.name == "SharedDirectory", attribute.name
    assert await management.get("broadcastgroup.b", "ConnectorPairsAsJSON") == '["a"]'
    with pytest.raises(JMSException):
        await management.get("broadcastgroup.c", "Name")
    async with ConnectionFactory(announcing.url).connect() as connection, connection.session() as session:
        notices = session.create_consumer(Topic("activemq.notifications"), "_AMQ_NotifType LIKE 'BROADCAST_GROUP_%'")
        await notices.open()
        await management.invoke("broadcastgroup.b", "stop")
        await management.invoke("broadcastgroup.b", "stop")
        await broker_clock.advance(3)
        other = await member(broker_factory, "b", group_address="231.7.7.7").start()
        assert await management.get("broadcastgroup.b", "Started") is False
        found = other.broker.management.invoke("broker", "listNetworkTopology")
        # The other one announces itself, and connects to this one by that.
        del found
        await management.invoke("broadcastgroup.b", "start")
        assert await management.get("broadcastgroup.b", "Started") is True
        kinds = [(await notices.receive(timeout=1)) for _ in range(3)]
        assert [each and each.properties["_AMQ_NotifType"] for each in kinds] == [
            "BROADCAST_GROUP_STOPPED",
            "BROADCAST_GROUP_STARTED",
            None,
        ]
