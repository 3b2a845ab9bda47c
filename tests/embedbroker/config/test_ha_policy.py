"""The parts a broker can play in a live and backup group: Artemis' defaults, and refusals by name."""

from __future__ import annotations

import pytest
from attrs import AttrsInstance, asdict

from embedbroker.config import (
    BrokerConfig,
    Colocated,
    LockManager,
    PrimaryOnly,
    ReplicationBackup,
    ReplicationPrimary,
    ScaleDown,
    SharedStoreBackup,
    SharedStorePrimary,
)

VOTES = {
    "vote_on_replication_failure": False,
    "quorum_size": -1,
    "vote_retries": 12,
    "vote_retry_wait_ms": 5_000,
    "quorum_vote_wait_ms": 30_000,
}
REPLICATION = {
    **VOTES,
    "group_name": None,
    "cluster_name": None,
    "max_saved_replicated_journals_size": 2,
    "initial_replication_sync_timeout_ms": 30_000,
    "retry_replication_wait_ms": 2_000,
    "lock_manager": None,
}

REFUSED: list[tuple[type, dict[str, object], str]] = [
    (SharedStorePrimary, {"failover_on_shutdown": 1}, "failover_on_shutdown must be a bool, not 1"),
    (SharedStorePrimary, {"wait_for_activation": "true"}, "wait_for_activation must be a bool, not 'true'"),
    (SharedStoreBackup, {"allow_failback": None}, "allow_failback must be a bool, not None"),
    (SharedStoreBackup, {"restart_backup": 0}, "restart_backup must be a bool, not 0"),
    (SharedStoreBackup, {"scale_down": True}, "scale_down must be a ScaleDown, not True"),
    (PrimaryOnly, {"scale_down": "there"}, "scale_down must be a ScaleDown, not 'there'"),
    (ReplicationPrimary, {"group_name": ""}, "group_name must not be empty"),
    (ReplicationPrimary, {"vote_retries": -2}, "vote_retries must be -1 or more, not -2"),
    (ReplicationPrimary, {"quorum_size": 1.5}, "quorum_size must be an int, not 1.5"),
    (ReplicationPrimary, {"lock_manager": "zookeeper"}, "lock_manager must be a LockManager, not 'zookeeper'"),
    (
        ReplicationPrimary,
        {"coordination_id": "one"},
        "coordination_id names a lock of a lock_manager: it needs one",
    ),
    (
        ReplicationPrimary,
        {"coordination_id": "seventeen letters", "lock_manager": LockManager("file")},
        "coordination_id must have 16 characters or fewer, not 17",
    ),
    (
        ReplicationBackup,
        {"initial_replication_sync_timeout_ms": -1},
        "initial_replication_sync_timeout_ms must be 0 or more, not -1",
    ),
    (
        ReplicationBackup,
        {"max_saved_replicated_journals_size": -2},
        "max_saved_replicated_journals_size must be -1 or more, not -2",
    ),
    (
        Colocated,
        {"primary": SharedStorePrimary(), "backup": ReplicationBackup()},
        "primary is a SharedStorePrimary and backup a ReplicationBackup: both must share a store, or both replicate",
    ),
    (
        Colocated,
        {"primary": PrimaryOnly()},
        "primary must be a SharedStorePrimary or a ReplicationPrimary, not PrimaryOnly(scale_down=None)",
    ),
    (Colocated, {"excludes": "one"}, "excludes must be a list of connector names, not 'one'"),
    (BrokerConfig, {"ha_policy": Colocated(excludes=["one"])}, "ha_policy: excludes: there is no connector 'one'"),
    (LockManager, {"class_name": ""}, "class_name must not be empty"),
    (
        LockManager,
        {"class_name": "file", "properties": {"locks-folder": 5}},
        "properties must map names to texts, not 'locks-folder' to 5",
    ),
    (LockManager, {"class_name": "file", "properties": None}, "properties must map names to texts, not be None"),
    (ScaleDown, {"connectors": "one"}, "connectors must be a list of connector names, not 'one'"),
    (ScaleDown, {"connectors": [""]}, "connectors must be a list of connector names, not of ''"),
    (
        ScaleDown,
        {"connectors": ["one"], "discovery_group": "two"},
        "scale_down has connectors and a discovery_group: remove one of the two",
    ),
    (
        BrokerConfig,
        {"ha_policy": "shared-store"},
        "ha_policy must be one of PrimaryOnly, SharedStorePrimary, SharedStoreBackup, ReplicationPrimary,"
        " ReplicationBackup, Colocated, not 'shared-store'",
    ),
    (BrokerConfig, {"node_manager_lock_directory": ""}, "node_manager_lock_directory must be a path, not ''"),
    (
        BrokerConfig,
        {"journal_lock_acquisition_timeout_ms": -2},
        "journal_lock_acquisition_timeout_ms must be -1 or more, not -2",
    ),
]


def test_a_broker_has_no_backup_by_default() -> None:
    config = BrokerConfig()
    assert config.ha_policy == PrimaryOnly()
    assert (config.node_manager_lock_directory, config.journal_lock_acquisition_timeout_ms) == (None, -1)


@pytest.mark.parametrize(
    ("policy", "defaults"),
    [
        (PrimaryOnly(), {"scale_down": None}),
        (SharedStorePrimary(), {"failover_on_shutdown": False, "wait_for_activation": True}),
        (
            SharedStoreBackup(),
            {"failover_on_shutdown": False, "allow_failback": True, "restart_backup": True, "scale_down": None},
        ),
        (ReplicationPrimary(), {**REPLICATION, "check_for_active_server": False, "coordination_id": None}),
        (
            ReplicationBackup(),
            {**REPLICATION, "allow_failback": False, "restart_backup": True, "scale_down": None, "node_id": None},
        ),
        (
            Colocated(),
            {
                "primary": ReplicationPrimary(),
                "backup": ReplicationBackup(),
                "request_backup": False,
                "backup_request_retries": -1,
                "backup_request_retry_interval_ms": 5_000,
                "max_backups": 1,
                "backup_port_offset": 100,
                "excludes": (),
            },
        ),
        (
            ScaleDown(),
            {
                "enabled": True,
                "connectors": (),
                "discovery_group": None,
                "group_name": None,
                "commit_interval": -1,
                "cluster_name": None,
            },
        ),
    ],
)
def test_the_defaults_are_those_of_artemis(policy: AttrsInstance, defaults: dict[str, object]) -> None:
    assert asdict(policy, recurse=False) == defaults


@pytest.mark.parametrize(("kind", "values", "sentence"), REFUSED)
def test_wrong_values_are_refused_in_a_sentence(kind: type, values: dict[str, object], sentence: str) -> None:
    with pytest.raises((TypeError, ValueError)) as refused:
        kind(**values)
    assert str(refused.value) == sentence


def test_a_policy_keeps_its_own_properties() -> None:
    properties = {"connect-string": "127.0.0.1:2181"}
    manager = LockManager("zookeeper", properties)
    properties["namespace"] = "other"
    assert manager.properties == {"connect-string": "127.0.0.1:2181"}


def test_the_connectors_of_a_scale_down_must_exist() -> None:
    policy = PrimaryOnly(scale_down=ScaleDown(connectors=["bb"]))
    with pytest.raises(ValueError, match="ha_policy: scale_down: there is no connector 'bb'; did you mean 'b'"):
        BrokerConfig(ha_policy=policy, connectors={"b": "tcp://other:61616"})
    for wrong in (ScaleDown(discovery_group="find"), ScaleDown(cluster_name="east")):
        with pytest.raises(
            ValueError, match=r"scale_down: there is no (discovery group 'find'|cluster connection 'east')"
        ):
            BrokerConfig(ha_policy=PrimaryOnly(wrong))
