"""The configuration that a hosted backup has: that of its host, with other names, ports and directories."""

from __future__ import annotations

import pytest
from attrs import evolve

from embedbroker.config import (
    BrokerConfig,
    ClusterConnection,
    Colocated,
    ReplicationBackup,
    ReplicationPrimary,
    SharedStoreBackup,
    SharedStorePrimary,
    hosted_backup,
)

HOST = BrokerConfig(
    name="a",
    port=61616,
    data_directory="/data/a",
    node_manager_lock_directory="/locks/a",
    large_messages_directory="/bodies/a",
    connectors={"a": "tcp://host-a:61616", "b": "tcp://host-b:61616", "in": "vm://7", "named": "vm://a"},
    cluster_connections=ClusterConnection(connector="a", static_connectors=["b"]),
    ha_policy=Colocated(SharedStorePrimary(), excludes=["b"]),
)
PLACE = HOST.connectors["a"]


def test_with_a_shared_store_the_directories_are_those_of_the_other_broker() -> None:
    backup = hosted_backup(HOST, 0, "n", PLACE, "/data/b", "/locks/b", "/bodies/b")
    assert backup.ha_policy == SharedStoreBackup()
    assert (backup.data_directory, backup.node_manager_lock_directory) == ("/data/b", "/locks/b")
    assert backup.large_messages_directory == "/bodies/b"
    assert (backup.name, backup.port) == ("a-colocated_backup_01", 61_716)


def test_a_replicating_backup_has_directories_beside_those_of_its_host() -> None:
    policy = Colocated(ReplicationPrimary(), ReplicationBackup(allow_failback=True), excludes=["b"])
    backup = hosted_backup(evolve(HOST, ha_policy=policy), 1, "n", PLACE)
    assert backup.ha_policy == ReplicationBackup(allow_failback=True, node_id="n")
    assert backup.data_directory == "/data/acolocated_backup_11"
    assert backup.large_messages_directory == "/bodies/acolocated_backup_11"
    assert (backup.node_manager_lock_directory, backup.port) == (None, 61_816)


def test_ports_of_connectors_are_raised_except_those_of_other_brokers() -> None:
    backup = hosted_backup(HOST, 0, "n", PLACE, "/data/b")
    assert backup.connectors["a"].parameters == {"host": "host-a", "port": "61716"}
    assert backup.connectors["b"] == HOST.connectors["b"]
    assert backup.connectors["in"].parameters == {"serverId": "107"}
    assert backup.connectors["named"].parameters == {"serverId": "a-colocated_backup_01"}
    assert backup.connectors["colocated_host"].parameters == {"host": "host-a", "port": "61616"}
    assert backup.cluster_connection == ClusterConnection(connector="a", static_connectors=["b", "colocated_host"])


def test_a_port_that_is_none_is_refused_in_a_sentence() -> None:
    host = evolve(HOST, ha_policy=Colocated(SharedStorePrimary(), backup_port_offset=5_000))
    with pytest.raises(ValueError, match="port 61616 with an offset of 5000 is above 65535: lower backup_port_offset"):
        hosted_backup(host, 0, "n", PLACE, "/data/b")
