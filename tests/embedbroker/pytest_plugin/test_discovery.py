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
