"""Broadcast groups and discovery groups: defaults of Artemis, and the error texts for what is wrong."""

from __future__ import annotations

import pytest

from embedbroker.config import BridgeConfig, BroadcastGroup, BrokerConfig, ClusterConnection, DiscoveryGroup
from embedclient.model import MulticastGroup

ADDRESS = "231.7.7.7"


def test_defaults_are_those_of_artemis() -> None:
    broadcast, discovery = BroadcastGroup("b", ADDRESS), DiscoveryGroup("d", ADDRESS)
    assert broadcast.group == MulticastGroup(ADDRESS, 9876, None, -1)
    assert broadcast.broadcast_period_ms == 2_000
    assert discovery.group == MulticastGroup(ADDRESS, 9876)
    assert (discovery.refresh_timeout_ms, discovery.initial_wait_timeout_ms) == (10_000, 10_000)
    assert BroadcastGroup("b", ADDRESS, 1, "127.0.0.1", 2).group == MulticastGroup(ADDRESS, 1, "127.0.0.1", 2)


def test_groups_are_found_by_their_names() -> None:
    config = BrokerConfig(
        discovery_groups=[DiscoveryGroup("d", ADDRESS)],
        cluster_connections=ClusterConnection(discovery_group="d"),
        bridges=[BridgeConfig("b", "q", discovery_group="d")],
    )
    assert config.discovery_groups == (DiscoveryGroup("d", ADDRESS),)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (
            {"cluster_connections": ClusterConnection(discovery_group="dd")},
            "cluster_connections: there is no discovery group 'dd'; did you mean 'd'?",
        ),
        (
            {"bridges": [BridgeConfig("b", "q", discovery_group="x")]},
            "bridges: bridge 'b': there is no discovery group 'x'",
        ),
        (
            {"broadcast_groups": [BroadcastGroup("b", ADDRESS, connectors=["x"])]},
            "broadcast_groups: group 'b': there is no connector 'x'",
        ),
        (
            {"broadcast_groups": [BroadcastGroup("b", ADDRESS)], "host": "0.0.0.0"},
            "broadcast_groups: group 'b' needs connectors: other brokers cannot connect to '0.0.0.0'",
        ),
        (
            {"broadcast_groups": [BroadcastGroup("b", ADDRESS)] * 2},
            "broadcast_groups: there are two of the name 'b'; give each another one",
        ),
        ({"discovery_groups": "d"}, "discovery_groups must be a list of DiscoveryGroups, not 'd'"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(values: dict[str, object], text: str) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        BrokerConfig(**{"discovery_groups": [DiscoveryGroup("d", ADDRESS)], **values})  # type: ignore[arg-type]  # wrong on purpose
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"group_address": "10.0.0.1"}, "the group address '10.0.0.1' is no IPv4 multicast address"),
        ({"group_port": 0}, "port is a number from 1 to 65535, not 0"),
        ({"broadcast_period_ms": 0}, "broadcast_period_ms must be 1 or more, not 0"),
        ({"connectors": "c"}, "connectors must be a list of connector names, not 'c'"),
    ],
)
def test_values_out_of_range_are_refused(values: dict[str, object], text: str) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        BroadcastGroup(**{"name": "b", "group_address": ADDRESS, **values})  # type: ignore[arg-type]  # wrong on purpose
    assert str(caught.value).startswith(text)
