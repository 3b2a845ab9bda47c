"""Brokers of a test find each other by datagrams in virtual time, without a socket."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeAlias

from embedbroker import BroadcastGroup, ClusterConnection, DiscoveryGroup
from embedbroker.pytest_plugin import BrokerClock, ManagedBroker

MakeBroker: TypeAlias = Callable[..., ManagedBroker]


def member(make: MakeBroker, name: str) -> ManagedBroker:
    settings: dict[str, Any] = {
        "connectors": {name: f"vm://{name}"},
        "broadcast_groups": [BroadcastGroup("b", "231.7.7.7")],
        "discovery_groups": [DiscoveryGroup("d", "231.7.7.7")],
        "cluster_connections": ClusterConnection(connector=name, discovery_group="d"),
        "cluster_password": "secret",
    }
    return make(name, **settings)


async def test_brokers_of_a_test_find_each_other(broker_factory: MakeBroker, broker_clock: BrokerClock) -> None:
    brokers = [await member(broker_factory, name).start() for name in "abc"]
    await broker_clock.advance(3)
    for broker in brokers:
        members = await broker.broker.management.invoke("broker", "listNetworkTopology")
        assert len(json.loads(members)) == 3
