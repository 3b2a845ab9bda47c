"""Connectors and the cluster connection: what is accepted, and the error texts for the rest."""

from __future__ import annotations

import pytest

from embedbroker.config import (
    DEFAULT_CLUSTER_PASSWORD,
    DEFAULT_CLUSTER_USER,
    BrokerConfig,
    ClusterConnection,
    MessageLoadBalancing,
)
from embedclient.model import IN_VM_CONNECTOR_FACTORY, TCP_CONNECTOR_FACTORY, TransportConfiguration

CONNECTORS = {"a": "tcp://host-a:61617", "b": "tcp://Host-B"}


def test_a_broker_is_in_no_cluster_by_default() -> None:
    config = BrokerConfig()
    assert config.cluster_connection is None
    assert config.connectors == {}
    assert (config.cluster_user, config.cluster_password) == (DEFAULT_CLUSTER_USER, DEFAULT_CLUSTER_PASSWORD)


def test_defaults_are_those_of_artemis() -> None:
    connection = ClusterConnection()
    assert (connection.check_period_ms, connection.connection_ttl_ms, connection.call_timeout_ms) == (
        30_000,
        60_000,
        30_000,
    )
    assert (connection.retry_interval_ms, connection.max_retry_interval_ms) == (500, 2_000)
    assert (connection.notification_interval_ms, connection.notification_attempts) == (1_000, 2)
    assert (connection.message_load_balancing, connection.max_hops) == (MessageLoadBalancing.ON_DEMAND, 1)
    assert (connection.initial_connect_attempts, connection.reconnect_attempts) == (-1, -1)
    assert (connection.use_duplicate_detection, connection.call_failover_timeout_ms) == (True, -1)
    assert (connection.min_large_message_size, connection.confirmation_window_size) == (100 * 1024, 10 * 1024**2)
    assert connection.producer_window_size == 1024**2


def test_a_url_is_a_connector_under_its_name() -> None:
    connectors = BrokerConfig(connectors={**CONNECTORS, "c": "vm://primary%201", "d": "tcp://[::1]:5?tcpNoDelay=false"})
    assert connectors.connectors == {
        "a": TransportConfiguration("a", TCP_CONNECTOR_FACTORY, {"host": "host-a", "port": "61617"}),
        "b": TransportConfiguration("b", TCP_CONNECTOR_FACTORY, {"host": "Host-B", "port": "61616"}),
        "c": TransportConfiguration("c", IN_VM_CONNECTOR_FACTORY, {"serverId": "primary 1"}),
        "d": TransportConfiguration("d", TCP_CONNECTOR_FACTORY, {"host": "::1", "port": "5", "tcpNoDelay": "false"}),
    }


def test_a_connector_that_is_given_as_a_value_takes_the_name_it_is_given_under() -> None:
    given = TransportConfiguration("elsewhere", parameters={"host": "h", "port": 1})
    config = BrokerConfig(connectors={"here": given})
    assert config.connectors["here"] == TransportConfiguration("here", parameters={"host": "h", "port": 1})


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("udp://231.7.7.7:9876", "connector 'a' must be a URL such as 'tcp://host:61616' or 'vm://name', not 'udp"),
        ("host:61616", "connector 'a' must be a URL such as"),
        ("tcp://:61616", "connector 'a' must be a URL such as"),
        ("tcp://host:port", "connector 'a': 'tcp://***' has a host or port that cannot be read"),
        ("tcp://me:secret@host:1", "connector 'a' has a user in front of its host; write tcp://host:1"),
        ("failover:(tcp://host:1)", "connector 'a': failover: is a prefix of ActiveMQ Classic"),
    ],
)
def test_what_is_no_url_of_a_broker_is_refused(url: str, text: str) -> None:
    with pytest.raises(ValueError, match=r"connector 'a'") as caught:
        BrokerConfig(connectors={"a": url})
    assert str(caught.value).startswith(text)


@pytest.mark.parametrize("connectors", [["tcp://a"], {"a": 1}, {1: "tcp://a"}, {"": "tcp://a"}])
def test_connectors_map_names_to_urls_or_values(connectors: object) -> None:
    with pytest.raises(TypeError, match="connector"):
        BrokerConfig(connectors=connectors)


def test_a_connector_that_changes_is_that_of_one_broker() -> None:
    first, second = BrokerConfig(connectors=CONNECTORS), BrokerConfig(connectors=CONNECTORS)
    parameters = first.connectors["a"].parameters
    assert isinstance(parameters, dict)
    parameters["port"] = "2"
    assert [each.connectors["a"].port for each in (second, BrokerConfig(connectors=CONNECTORS))] == [61617, 61617]


def test_a_cluster_connection_names_connectors_that_exist() -> None:
    connection = ClusterConnection(connector="a", static_connectors=["b"])
    config = BrokerConfig(connectors=CONNECTORS, cluster_connections=connection)
    assert config.cluster_connection is not None and config.cluster_connection.static_connectors == ("b",)
    for wrong in (ClusterConnection(connector="bb"), ClusterConnection(static_connectors=("a", "bb"))):
        with pytest.raises(ValueError, match="there is no connector 'bb'; did you mean 'b'"):
            BrokerConfig(connectors=CONNECTORS, cluster_connections=wrong)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"name": ""}, "name must not be empty"),
        ({"static_connectors": "a"}, "static_connectors must be a list of connector names, not 'a'"),
        ({"static_connectors": [1]}, "static_connectors must be a list of connector names, not of 1"),
        ({"addresses": "eu,us"}, "addresses must be a list of prefixes of addresses, not 'eu,us'"),
        (
            {"addresses": ["eu,us"]},
            "addresses must be prefixes of addresses, one per entry, not 'eu,us'",
        ),
        ({"max_hops": -1}, "max_hops must be 0 or more, not -1"),
        ({"retry_interval_multiplier": 0.5}, "retry_interval_multiplier must be 1 or more, not 0.5"),
        ({"retry_interval_multiplier": "2"}, "retry_interval_multiplier must be a number, not '2'"),
        ({"retry_interval_ms": 0}, "retry_interval_ms must be 1 or more, not 0"),
        ({"notification_attempts": -1}, "notification_attempts must be 0 or more, not -1"),
    ],
)
def test_values_out_of_range_are_refused_by_name(values: dict[str, object], text: str) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        ClusterConnection(**values)  # type: ignore[arg-type]  # wrong on purpose
    assert str(caught.value) == text


def test_the_cluster_password_is_not_shown() -> None:
    assert "secret" not in repr(BrokerConfig(cluster_password="secret"))


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_a_broker_on_all_addresses_says_by_which_others_reach_it(host: str) -> None:
    with pytest.raises(
        ValueError, match=f"cluster_connections needs a connector: other brokers cannot connect to '{host}'"
    ):
        BrokerConfig(host=host, cluster_connections=ClusterConnection())
    BrokerConfig(host=host, connectors=CONNECTORS, cluster_connections=ClusterConnection(connector="a"))


@pytest.mark.parametrize(
    ("one", "other", "common"),
    [
        ([], ["orders"], "addresses that begin with 'orders'"),
        ([], [], "addresses"),
        (["orders"], ["orders.eu"], "addresses that begin with 'orders.eu'"),
        (["orders", "!orders.us"], ["orders.eu", "!orders.eu.north"], "addresses that begin with 'orders.eu'"),
    ],
)
def test_cluster_connections_with_addresses_in_common_are_refused(
    one: list[str], other: list[str], common: str
) -> None:
    connections = [ClusterConnection("first", addresses=one), ClusterConnection("second", addresses=other)]
    with pytest.raises(ValueError, match="in common") as caught:
        BrokerConfig(cluster_connections=connections)
    assert str(caught.value) == (
        f"cluster_connections: 'second' has {common} in common with cluster connection 'first': a message could arrive"
        " twice; exclude them in one of the two with !, or change its addresses"
    )


def test_cluster_connections_that_exclude_what_others_take_are_accepted() -> None:
    taken = ClusterConnection("first", addresses=["orders", "!orders.eu"], connector="a")
    others = ClusterConnection("second", addresses=["orders.eu", "prices"], connector="a")
    config = BrokerConfig(connectors=CONNECTORS, cluster_connections=[taken, others], cluster_password="x")
    assert config.cluster_connections == (taken, others)
