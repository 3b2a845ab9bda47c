"""``ha-policy``: the examples of Artemis' documents, parts that exclude each other, and what refers to connectors."""

from __future__ import annotations

from pathlib import Path

import pytest

from embedbroker.config import (
    Colocated,
    HAPolicy,
    LockManager,
    PrimaryOnly,
    ReplicationBackup,
    ReplicationPrimary,
    ScaleDown,
    SharedStoreBackup,
    SharedStorePrimary,
    hosted_backup,
    misfits,
)
from tests.embedbroker.configfile.config_files import Loaded, load, refused

CONNECTORS = """
    <connectors>
        <connector name="one">tcp://one:61616</connector><connector name="two">tcp://two:61616</connector>
    </connectors>
"""


def in_policy(text: str) -> str:
    return f"{CONNECTORS}<ha-policy>{text}</ha-policy>"


def policy(directory: Path, text: str) -> Loaded:
    return load(directory, in_policy(text))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("<replication><master/></replication>", ReplicationPrimary()),
        ("<replication><primary/></replication>", ReplicationPrimary()),
        ("<replication><slave/></replication>", ReplicationBackup()),
        ("<shared-store><master/></shared-store>", SharedStorePrimary()),
        ("<shared-store><backup/></shared-store>", SharedStoreBackup()),
        ("<live-only/>", PrimaryOnly()),
        ("<replication><colocated/></replication>", Colocated()),
        ("<shared-store><colocated/></shared-store>", Colocated(SharedStorePrimary())),
        (
            "<replication><colocated><request-backup>true</request-backup><max-backups>3</max-backups>"
            "<backup-request-retries>44</backup-request-retries><backup-port-offset>33</backup-port-offset>"
            "<backup-request-retry-interval>34</backup-request-retry-interval>"
            "<excludes><connector-ref>two</connector-ref></excludes><master><group-name>purple</group-name></master>"
            "<slave><group-name>tiddles</group-name></slave></colocated></replication>",
            Colocated(
                ReplicationPrimary(group_name="purple"),
                ReplicationBackup(group_name="tiddles"),
                request_backup=True,
                backup_request_retries=44,
                backup_request_retry_interval_ms=34,
                max_backups=3,
                backup_port_offset=33,
                excludes=("two",),
            ),
        ),
        (
            "<shared-store><slave><allow-failback>true</allow-failback></slave></shared-store>",
            SharedStoreBackup(allow_failback=True),
        ),
        (
            "<replication><master><check-for-live-server>true</check-for-live-server></master></replication>",
            ReplicationPrimary(check_for_active_server=True),
        ),
        (
            "<shared-store><master><failover-on-shutdown>true</failover-on-shutdown></master></shared-store>",
            SharedStorePrimary(failover_on_shutdown=True),
        ),
        (
            "<replication><slave><group-name>fish</group-name><allow-failback>true</allow-failback>"
            "<max-saved-replicated-journals-size>0</max-saved-replicated-journals-size>"
            "<initial-replication-sync-timeout>9999</initial-replication-sync-timeout></slave></replication>",
            ReplicationBackup("fish", None, True, True, 0, 9999),
        ),
    ],
)
def test_the_policies_of_the_documents(text: str, value: HAPolicy, tmp_path: Path) -> None:
    loaded = policy(tmp_path, text)
    assert loaded.config.ha_policy == value
    assert loaded.warnings == []


def test_a_hosted_backup_looks_for_the_places_inside_a_url_at_their_ports(tmp_path: Path) -> None:
    """As in Artemis, and such a place has no name that a file could exclude."""
    colocated = "<colocated><excludes><connector-ref>two</connector-ref></excludes></colocated>"
    connection = "<cluster-connection-uri name='c' address='static://(tcp://o:1)?connectorName=one'/>"
    core = in_policy(f"<replication>{colocated}</replication>")
    config = load(tmp_path, f"{core}<cluster-connections>{connection}</cluster-connections>").config
    assert config.ha_policy == Colocated(excludes=("two", "tcp://o:1"))
    assert misfits(config) == []
    backup = hosted_backup(config, 0, "n", {"c": config.connectors["one"]})
    assert backup.connectors["tcp://o:1"].port == 1


def test_without_a_policy_there_is_no_backup(tmp_path: Path) -> None:
    assert load(tmp_path, "").config.ha_policy == PrimaryOnly()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "ha-policy: is empty; expected one of primary-only, live-only, replication, shared-store in it"),
        (
            "<replication/>",
            "ha-policy/replication: is empty; expected one of primary, master, backup, slave, colocated",
        ),
        ("<replication/><shared-store/>", "ha-policy: has replication and shared-store, one of them is allowed"),
        (
            "<shared-store><primary/><slave/></shared-store>",
            "ha-policy/shared-store: has primary and slave, one of them is allowed",
        ),
        (
            "<shared-store><primary/><master/></shared-store>",
            "ha-policy/shared-store: has primary and master, one of them",
        ),
        (
            "<shared-store><colocated><primary/><master/></colocated></shared-store>",
            "ha-policy/shared-store/colocated: has primary and master, one of them is allowed",
        ),
        (
            "<replication><primary><check-for-live-server>true</check-for-live-server>"
            "<check-for-active-server>false</check-for-active-server></primary></replication>",
            "ha-policy/replication/primary/check-for-live-server: is the same as check-for-active-server, which stands",
        ),
        (
            "<replication><colocated><backup-port-offset>0</backup-port-offset></colocated></replication>",
            "ha-policy/replication/colocated/backup-port-offset: must be from 1 to 65535, not 0",
        ),
        (
            "<replication><colocated><excludes><connector-ref>tow</connector-ref></excludes></colocated></replication>",
            "ha-policy/replication/colocated/excludes/connector-ref: there is no connector 'tow'; did you mean 'two'?",
        ),
        (
            "<replication><primary><quorum-size>-2</quorum-size></primary></replication>",
            "ha-policy/replication/primary/quorum-size: must be -1 or more, not -2",
        ),
        (
            "<replication><primary><coordination-id>abc</coordination-id></primary></replication>",
            "ha-policy/replication/primary: coordination_id names a lock of a lock_manager: it needs one",
        ),
    ],
)
def test_wrong_policies_are_refused(text: str, problem: str, tmp_path: Path) -> None:
    (found,) = refused(tmp_path, in_policy(text))
    assert found.startswith(f"core/{problem}")


def test_a_lock_manager_with_its_properties(tmp_path: Path) -> None:
    manager = (
        "<manager><class-name>Locks</class-name><properties><property key='connect' value='a:2181'/>"
        "<property key='namespace' value='examples'/></properties></manager>"
    )
    text = f"<replication><primary>{manager}<coordination-id>peer-journal-001</coordination-id></primary></replication>"
    found = policy(tmp_path, text).config.ha_policy
    expected = LockManager("Locks", {"connect": "a:2181", "namespace": "examples"})
    assert found == ReplicationPrimary(lock_manager=expected, coordination_id="peer-journal-001")


def test_a_lock_manager_without_a_class_is_zookeeper_as_in_artemis(tmp_path: Path) -> None:
    manager = "<manager><properties><property key='connect-string' value='a:2181'/></properties></manager>"
    found = policy(tmp_path, f"<replication><backup>{manager}</backup></replication>").config.ha_policy
    name = "org.apache.activemq.artemis.lockmanager.zookeeper.CuratorDistributedLockManager"
    assert found == ReplicationBackup(lock_manager=LockManager(name, {"connect-string": "a:2181"}))


@pytest.mark.parametrize(
    ("manager", "problem"),
    [
        ("<manager><class-name/></manager>", "manager/class-name: is empty; expected a text"),
        (
            "<manager><class-name>L</class-name><properties><property value='a'/></properties></manager>",
            "manager/properties/property: has no key: write <property key='...'>",
        ),
        (
            "<manager><class-name>L</class-name><properties><property key='a' value='1'/><property key='a' value='2'/>"
            "</properties></manager>",
            "manager/properties/property[a]: there are two of the name 'a'",
        ),
    ],
)
def test_wrong_lock_managers_are_refused(manager: str, problem: str, tmp_path: Path) -> None:
    text = in_policy(f"<replication><backup>{manager}</backup></replication>")
    assert refused(tmp_path, text) == [f"core/ha-policy/replication/backup/{problem}"]


def test_scaling_down_is_kept_of_primaries_and_backups(tmp_path: Path) -> None:
    refs = "<connectors><connector-ref>one</connector-ref><connector-ref>two</connector-ref></connectors>"
    loaded = policy(tmp_path, f"<live-only><scale-down><group-name>g</group-name>{refs}</scale-down></live-only>")
    assert loaded.config.ha_policy == PrimaryOnly(ScaleDown(connectors=("one", "two"), group_name="g"))
    assert loaded.warnings == []
    backup = "<replication><backup><scale-down><group-name>g</group-name></scale-down></backup></replication>"
    loaded = policy(tmp_path, backup)
    assert loaded.config.ha_policy == ReplicationBackup(scale_down=ScaleDown(group_name="g"))
    assert loaded.warnings == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "<connectors><connector-ref>tow</connector-ref></connectors>",
            "/connectors/connector-ref: there is no connector 'tow'; did you mean 'two'?",
        ),
        ("<connectors><connector-ref/></connectors>", "/connectors/connector-ref: is empty; expected a text"),
        (
            "<connectors><connector-ref>two</connector-ref></connectors>"
            "<discovery-group-ref discovery-group-name='d'/>",
            ": scale_down has connectors and a discovery_group: remove one of the two",
        ),
        ("<discovery-group-ref/>", "/discovery-group-ref: has no discovery-group-name: write <discovery-group-ref"),
    ],
)
def test_wrong_targets_of_scaling_down_are_refused(text: str, problem: str, tmp_path: Path) -> None:
    core = in_policy(f"<primary-only><scale-down>{text}</scale-down></primary-only>")
    (found,) = refused(tmp_path, core)
    assert found.startswith(f"core/ha-policy/primary-only/scale-down{problem}")


def test_what_has_no_meaning_in_artemis_either_is_a_warning(tmp_path: Path) -> None:
    loaded = policy(tmp_path, "<shared-store><slave><failback-delay>5</failback-delay></slave></shared-store>")
    assert loaded.warnings == ["core/ha-policy/shared-store/slave/failback-delay: has no effect here"]
