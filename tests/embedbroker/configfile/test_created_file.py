"""The file that `artemis create` writes starts a broker, with a warning for each name that has no effect yet."""

from __future__ import annotations

from pathlib import Path

from attrs import evolve

from embedbroker import EmbeddedBroker
from embedbroker.config import (
    AddressConfiguration,
    AddressFullPolicy,
    AddressSettings,
    BroadcastGroup,
    BrokerConfig,
    ClusterConnection,
    DiscoveryGroup,
    PrimaryOnly,
    QueueConfiguration,
    ReplicationPrimary,
    SecuritySetting,
)
from embedbroker.configfile import load_config
from embedclient.model import TransportConfiguration

CREATED = Path(__file__).with_name("created_broker.xml")
WARNINGS = """
core/acceptors/acceptor[artemis]: only CORE is spoken, not AMQP, STOMP, HORNETQ, MQTT, OPENWIRE
core/acceptors/acceptor[artemis]: parameters without effect here: tcpSendBufferSize, tcpReceiveBufferSize, \
amqpMinLargeMessageSize, useEpoll, amqpCredits, amqpLowCredits, amqpDuplicateDetection, supportAdvisory, \
suppressInternalManagementObjects
core/acceptors/acceptor[amqp]: is not opened: only CORE is spoken, not AMQP
core/acceptors/acceptor[stomp]: is not opened: only CORE is spoken, not STOMP
core/acceptors/acceptor[hornetq]: is not opened: only CORE is spoken, not HORNETQ, STOMP
core/acceptors/acceptor[mqtt]: is not opened: only CORE is spoken, not MQTT
core/address-settings/address-setting[#]/max-read-page-bytes: has no effect here
core/address-settings/address-setting[#]/max-read-page-messages: has no effect here
core/address-settings/address-setting[#]/page-size-bytes: has no effect here
core/address-settings/address-setting[activemq.management.#]/address-full-policy (and in 1 more): PAGE is not there \
yet: producers of a full address wait, as with BLOCK
core/address-settings/address-setting[activemq.management.#]/message-counter-history-day-limit (and in 1 more): has no \
effect here
core/critical-analyzer: has no effect here
core/critical-analyzer-check-period: has no effect here
core/critical-analyzer-policy: has no effect here
core/critical-analyzer-timeout: has no effect here
core/disk-scan-period: has no effect here
core/journal-buffer-timeout: has no effect here
core/journal-device-block-size: has no effect here
core/journal-max-io: has no effect here
core/journal-min-files: has no effect here
core/journal-pool-files: has no effect here
core/journal-type: has no effect here
core/max-disk-usage: has no effect here: the disk is not watched; a broker stops when it is full
core/max-redelivery-records: has no effect here: every count is recorded, and only the last one of a message is kept
core/page-sync-timeout: has no effect here
"""


def created(directory: Path) -> tuple[BrokerConfig, list[str]]:
    """The configuration of an instance directory, and its warnings without the name of the file."""
    file = directory / "etc" / "broker.xml"
    file.parent.mkdir()
    file.write_bytes(CREATED.read_bytes())
    warnings: list[str] = []
    return load_config(file, on_warning=warnings.append), [each.removeprefix(f"{file}: ") for each in warnings]


def test_it_loads(tmp_path: Path) -> None:
    config, warnings = created(tmp_path)
    settings = AddressSettings(
        dead_letter_address="DLQ",
        expiry_address="ExpiryQueue",
        redelivery_delay_ms=0,
        max_size_bytes=-1,
        address_full_policy=AddressFullPolicy.BLOCK,
        auto_create_queues=True,
        auto_create_addresses=True,
    )
    everywhere = evolve(settings, auto_delete_queues=False, auto_delete_addresses=False)
    assert config == BrokerConfig(
        name="n1",
        host="127.0.0.1",
        port=61616,
        data_directory=str(tmp_path / "data" / "journal"),
        large_messages_directory=str(tmp_path / "data" / "large-messages"),
        ha_policy=ReplicationPrimary(vote_on_replication_failure=True),
        connectors={"artemis": TransportConfiguration("artemis", parameters={"host": "127.0.0.1", "port": "61616"})},
        broadcast_groups=[
            BroadcastGroup("bg-group1", "231.7.7.7", broadcast_period_ms=5_000, connectors=["artemis"]),
        ],
        discovery_groups=[DiscoveryGroup("dg-group1", "231.7.7.7")],
        cluster_connections=ClusterConnection("my-cluster", "artemis", discovery_group="dg-group1"),
        cluster_user="cu",
        cluster_password="cp",
        security_enabled=True,
        security_settings={"#": evolve(SecuritySetting.all("amq"), view=(), edit=())},
        address_settings={"activemq.management.#": settings, "#": everywhere},
        addresses={name: AddressConfiguration(anycast={name: QueueConfiguration()}) for name in ("DLQ", "ExpiryQueue")},
    )
    missing = f"{tmp_path / 'etc' / 'login.config'}: is missing, so there are no users, and every login is refused"
    assert sorted(warnings) == sorted([*WARNINGS.strip().splitlines(), missing])


async def test_a_broker_starts_with_it(tmp_path: Path) -> None:
    config, _ = created(tmp_path)
    # Alone: a replicated one would look for the others of its cluster, and others would find this one.
    async with EmbeddedBroker(
        config, port=0, ha_policy=PrimaryOnly(), cluster_connections=(), broadcast_groups=[]
    ) as broker:
        assert broker.url.startswith("tcp://127.0.0.1:")
    assert any((tmp_path / "data" / "journal").iterdir())
