"""Settings that do not fit together: a warning that names both, once for a broker or a locator."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from attrs import evolve

from embedbroker import EmbeddedBroker
from embedbroker.config import (
    AcceptorConfig,
    AddressSettings,
    BroadcastGroup,
    BrokerConfig,
    ClusterConnection,
    Colocated,
    GroupingHandlerConfig,
    GroupingHandlerType,
    ReplicationBackup,
    SharedStorePrimary,
    User,
    exposure,
    misfits,
)
from embedbroker.runtime._zookeeper import ZooKeeperSettings
from embedclient import ServerLocator
from embedclient.agent import LocatorSettings
from embedclient.model import TLSSettings, ping_period_ms

MULTICAST = BroadcastGroup("all", group_address="231.7.7.7", group_port=9_876)
COLOCATED: dict[str, Any] = {
    "cluster_connections": ClusterConnection(),
    "ha_policy": Colocated(SharedStorePrimary()),
    "data_directory": "data",
}


@pytest.mark.parametrize(
    ("check_ms", "ttl_ms", "ping_ms"),
    [
        (30_000, 60_000, 30_000),
        (30_000, 4_000, 2_000),
        (300, 1_000, 300),
        (600, 1_000, 500),
        (-1, 60_000, 30_000),
        (30_000, -1, 30_000),
        (-1, -1, -1),
        (0, -1, 1),
        (30_000, 1, 1),
        (30_000, 0, 1),
    ],
)
def test_pings_come_twice_in_a_time_to_live(check_ms: int, ttl_ms: int, ping_ms: int) -> None:
    assert ping_period_ms(check_ms, ttl_ms) == ping_ms
    assert ClusterConnection(check_period_ms=check_ms, connection_ttl_ms=ttl_ms).ping_period_ms == ping_ms
    settings = LocatorSettings(client_failure_check_period_ms=check_ms, connection_ttl_ms=ttl_ms)
    assert settings.ping_period_ms == ping_ms


def test_a_connector_without_tls_leads_nowhere() -> None:
    tls, connection = TLSSettings(key_store_path="x"), ClusterConnection(connector="a")
    (found,) = misfits(BrokerConfig(tls=tls, connectors={"a": "tcp://b:1"}, cluster_connections=connection))
    assert found.startswith("tls with the connector 'a', which has no TLS:")
    secure = {"a": "tcp://b:1?sslEnabled=true"}
    assert not misfits(BrokerConfig(tls=tls, connectors=secure, cluster_connections=connection))
    assert not misfits(BrokerConfig(tls=tls, cluster_connections=ClusterConnection()))


def test_a_broker_that_requires_certificates_is_not_exposed() -> None:
    tls = TLSSettings(key_store_path="x", trust_store_path="y")
    assert exposure(BrokerConfig(host="0.0.0.0", tls=tls)) is not None
    assert exposure(BrokerConfig(host="0.0.0.0", tls=evolve(tls, need_client_auth=True))) is None


def test_each_acceptor_counts() -> None:
    inside, outside = AcceptorConfig("inside"), AcceptorConfig("outside", host="0.0.0.0", port=65_500)
    assert exposure(BrokerConfig(acceptors=[inside])) is None
    assert (exposure(BrokerConfig(acceptors=[inside, outside])) or "").startswith("host='0.0.0.0' without users")
    (text,) = misfits(
        BrokerConfig(
            acceptors=[inside, evolve(outside, tls=TLSSettings(key_store_path="x"), cluster_connection="b")],
            connectors={"here": "tcp://here:1"},
            cluster_connections=[
                ClusterConnection("a", connector="here", addresses=["a"]),
                ClusterConnection("b", connector="here", addresses=["b"]),
            ],
        )
    )
    assert text.startswith("tls with the connector 'here', which has no TLS")
    (text,) = misfits(evolve(BrokerConfig(**COLOCATED), acceptors=[inside, evolve(outside, host="127.0.0.1")]))
    assert text.startswith(
        "max_backups=1 with backup_port_offset=100: this broker can host 0 backups, because port 65500"
    )


def test_the_defaults_fit() -> None:
    assert misfits(BrokerConfig(connectors={"b": "tcp://b:1"}, cluster_connections=ClusterConnection())) == []
    assert LocatorSettings().misfits() == []


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"cluster_connections": ClusterConnection(connection_ttl_ms=4_000)},
            "check_period_ms=30000 is not within half of connection_ttl_ms=4000, so every quiet connection would be"
            " lost each time: this broker pings every 2000 ms;",
        ),
        (
            {"cluster_connections": ClusterConnection(retry_interval_ms=3_000)},
            "retry_interval_ms=3000 is above max_retry_interval_ms=2000: this broker tries again every 3000 ms;",
        ),
        (
            {"cluster_connections": ClusterConnection(connection_ttl_ms=-1), "ha_policy": ReplicationBackup()},
            "connection_ttl_ms=-1 with a replicating ha_policy:",
        ),
        (
            {"cluster_connections": ClusterConnection(addresses=("eu", "us.#"))},
            "addresses has 'us.#', and its last character is no wildcard there:",
        ),
        ({"connection_ttl_ms": 1_000}, "connection_check_interval_ms=2000 is above connection_ttl_ms=1000:"),
        (
            {"transaction_timeout_ms": 500},
            "transaction_timeout_scan_period_ms=1000 is above transaction_timeout_ms=500:",
        ),
        ({"output_bytes_max": 4_096}, "output_high_water_bytes=1048576 is not below output_bytes_max=4096:"),
        (
            {"partial_frames_bytes_max": 1_000},
            "partial_frames_bytes_max=1000 is below frame_size_bytes_max=104857600:",
        ),
        ({"output_total_bytes_max": 2_000}, "output_total_bytes_max=2000 is below output_bytes_max=67108864:"),
        (
            {"address_settings": {"a.#": AddressSettings(min_expiry_delay_ms=20, max_expiry_delay_ms=10)}},
            "address_settings 'a.#': min_expiry_delay_ms=20 is above max_expiry_delay_ms=10:",
        ),
        ({"security_enabled": True}, "security is enabled without users: every login is refused;"),
        ({"users": [User("idle", "secret")]}, "user 'idle' has no role, so it has no permission;"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_broker_names_both_settings(settings: dict[str, Any], said: str) -> None:
    (text,) = misfits(BrokerConfig(**settings))
    assert said in text


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {
                "cluster_connections": ClusterConnection(static_connectors=["b"]),
                "ha_policy": Colocated(SharedStorePrimary()),
                "connectors": {"b": "tcp://b:61616"},
                "data_directory": "data",
            },
            "static_connectors has 'b', which excludes of the ha_policy has not: a hosted backup looks for that broker"
            " at a port that is 100 higher; add it to excludes",
        ),
        (
            {**COLOCATED, "port": 61_616, "ha_policy": Colocated(SharedStorePrimary(), max_backups=40)},
            "max_backups=40 with backup_port_offset=100: this broker can host 39 backups, because port 61616 would be"
            " raised above 65535; lower backup_port_offset",
        ),
        (
            {**COLOCATED, "acceptors": [AcceptorConfig("one", port=1_000), AcceptorConfig("two", port=1_100)]},
            "acceptors 'one' at port 1000 and 'two' at port 1100, with backup_port_offset=100: that of hosted backup 1"
            " for 'one' is port 1100, too; change backup_port_offset",
        ),
        (
            {**COLOCATED, "grouping_handler": GroupingHandlerConfig("groups", GroupingHandlerType.LOCAL)},
            "grouping_handler 'groups' with a colocated ha_policy:",
        ),
        (
            {**COLOCATED, "broadcast_groups": [evolve(MULTICAST, local_bind_port=5_000)]},
            "broadcast group 'all': local_bind_port=5000 with a colocated ha_policy:",
        ),
    ],
    ids=["excludes", "ports", "acceptors", "handler", "bind port"],
)
def test_a_colocated_broker_names_what_its_backups_cannot_use(settings: dict[str, Any], said: str) -> None:
    (text,) = misfits(BrokerConfig(**settings))
    assert said in text


def test_a_broker_warns_once_when_it_is_made(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        EmbeddedBroker(cluster_connections=ClusterConnection(check_period_ms=30_000, connection_ttl_ms=4_000))
    (record,) = caplog.records
    assert record.name == "embedbroker.broker"
    assert "check_period_ms=30000" in record.getMessage()


APP = User("app", "secret", roles=["amq"])


@pytest.mark.parametrize(
    ("config", "warns"),
    [
        (BrokerConfig(host="127.0.0.2"), False),
        (BrokerConfig(host="0.0.0.0"), True),
        (BrokerConfig(host="0.0.0.0", users=[APP]), False),
        (BrokerConfig(host="0.0.0.0", security_enabled=False), False),
    ],
)
async def test_a_broker_without_users_warns_when_it_serves_other_machines(
    config: BrokerConfig, warns: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        async with EmbeddedBroker(config):
            pass
    texts = [record.getMessage() for record in caplog.records]
    assert len(texts) == warns and all(
        "each client that reaches the broker may do everything" in text for text in texts
    )


@pytest.mark.parametrize("host", ["::1", "localhost", "[::1]", "127.9.9.9"])
def test_a_loopback_address_serves_this_machine_only(host: str) -> None:
    assert exposure(BrokerConfig(host=host)) is None


@pytest.mark.parametrize(
    ("url", "said"),
    [
        (
            "tcp://h?connectionTTL=4000",
            "clientFailureCheckPeriod=30000 is not within half of connectionTTL=4000, so a quiet connection would be"
            " lost each time: this client pings every 2000 ms;",
        ),
        (
            "tcp://h?clientFailureCheckPeriod=-1",
            "clientFailureCheckPeriod=-1 is not within half of connectionTTL=60000",
        ),
        ("tcp://h?retryInterval=5000", "retryInterval=5000 is above maxRetryInterval=2000: this client tries again"),
        ("tcp://h?confirmationWindowSize=300000000", "confirmationWindowSize=300000000 is above resend_bytes_max="),
    ],
)
def test_a_locator_warns_once_and_names_both_parameters(url: str, said: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        ServerLocator(url)
    (record,) = caplog.records
    assert record.name == "embedclient"
    assert said in record.getMessage()


@pytest.mark.parametrize(
    ("parameters", "check_ms", "ttl_ms"),
    [
        ("", -1, -1),
        ("?connectionTTL=60000", 30_000, 60_000),
        ("?connectionTTL=-1", -1, -1),
        ("?clientFailureCheckPeriod=700", 700, -1),
    ],
)
def test_a_name_in_the_vm_with_a_time_to_live_is_pinged(parameters: str, check_ms: int, ttl_ms: int) -> None:
    settings = ServerLocator(f"vm://broker{parameters}").settings
    assert (settings.client_failure_check_period_ms, settings.connection_ttl_ms) == (check_ms, ttl_ms)


def test_an_ensemble_that_is_dialled_for_longer_than_a_session_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        ZooKeeperSettings.of({"connect-string": "a:1"})
        assert caplog.records == []
        ZooKeeperSettings.of({"connect-string": "a:1", "session-ms": "5000"})
    assert "connection-ms=8000 is above session-ms=5000" in caplog.records[0].getMessage()
