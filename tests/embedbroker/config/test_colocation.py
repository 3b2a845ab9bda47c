"""The configuration that a hosted backup has: that of its host, with other names, ports and directories."""

from __future__ import annotations

import pytest
from attrs import evolve

from embedbroker.config import (
    AcceptorConfig,
    BrokerConfig,
    ClusterConnection,
    Colocated,
    ReplicationBackup,
    ReplicationPrimary,
    ScaleDown,
    SharedStoreBackup,
    SharedStorePrimary,
    User,
    UserChange,
    hosted_backup,
    is_at_host,
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
PLACES = {"cluster": HOST.connectors["a"]}


def test_with_a_shared_store_the_directories_are_those_of_the_other_broker() -> None:
    backup = hosted_backup(HOST, 0, "n", PLACES, "/data/b", "/locks/b", "/bodies/b")
    assert backup.ha_policy == SharedStoreBackup()
    assert (backup.data_directory, backup.node_manager_lock_directory) == ("/data/b", "/locks/b")
    assert backup.large_messages_directory == "/bodies/b"
    assert (backup.name, backup.port) == ("a-colocated_backup_01", 61_716)


def test_a_replicating_backup_has_directories_beside_those_of_its_host() -> None:
    policy = Colocated(ReplicationPrimary(), ReplicationBackup(allow_failback=True), excludes=["b"])
    backup = hosted_backup(evolve(HOST, ha_policy=policy), 1, "n", PLACES)
    assert backup.ha_policy == ReplicationBackup(allow_failback=True, node_id="n")
    assert backup.data_directory == "/data/acolocated_backup_n"
    assert backup.large_messages_directory == "/bodies/acolocated_backup_n"
    assert (backup.node_manager_lock_directory, backup.port) == (None, 61_816)


def test_every_acceptor_of_the_host_is_raised_by_the_offset() -> None:
    acceptors = [AcceptorConfig("one", port=61_616), AcceptorConfig("two", port=7), AcceptorConfig("free")]
    backup = hosted_backup(evolve(HOST, port=0, acceptors=acceptors), 1, "n", PLACES)
    assert [acceptor.port for acceptor in backup.listens_at] == [61_816, 207, 0]
    # In each cluster the host is where that one's acceptor is.
    two = evolve(acceptors[1], cluster_connection="second")
    first = ClusterConnection("first", connector="a", addresses=("eu",))
    second = ClusterConnection("second", addresses=("us",))
    apart = evolve(HOST, port=0, acceptors=[acceptors[0], two], cluster_connections=[first, second])
    backup = hosted_backup(apart, 0, "n", {"first": HOST.connectors["a"], "second": HOST.connectors["b"]})
    places = [backup.connectors[each.static_connectors[-1]].host for each in backup.cluster_connections]
    assert places == ["host-a", "host-b"]
    high = evolve(HOST, port=0, acceptors=[*acceptors, AcceptorConfig("high", port=65_500)])
    with pytest.raises(ValueError, match="port 65500 with an offset of 100 is above 65535"):
        hosted_backup(high, 0, "n", PLACES)


def test_each_node_has_one_directory_at_a_host_whatever_the_place_of_its_backup() -> None:
    host = evolve(HOST, ha_policy=Colocated(ReplicationPrimary(), excludes=["b"]))
    of = {
        (index, node): hosted_backup(host, index, node, PLACES).data_directory
        for index in (0, 1)
        for node in ("n", "m", "../b")
    }
    assert of[0, "n"] == of[1, "n"] != of[0, "m"]
    assert of[0, "../b"] == "/data/acolocated_backup_..%2Fb"


def test_ports_of_connectors_are_raised_except_those_of_other_brokers() -> None:
    backup = hosted_backup(HOST, 0, "n", PLACES, "/data/b")
    assert backup.connectors["a"].parameters == {"host": "host-a", "port": "61716"}
    assert backup.connectors["b"] == HOST.connectors["b"]
    assert backup.connectors["in"].parameters == {"serverId": "107"}
    assert backup.connectors["named"].parameters == {"serverId": "a-colocated_backup_01"}
    assert backup.connectors["colocated_host"].parameters == {"host": "host-a", "port": "61616"}
    assert backup.cluster_connection == ClusterConnection(connector="a", static_connectors=["b", "colocated_host"])


def test_a_port_that_is_none_is_refused_in_a_sentence() -> None:
    host = evolve(HOST, ha_policy=Colocated(SharedStorePrimary(), backup_port_offset=5_000))
    with pytest.raises(ValueError, match="port 61616 with an offset of 5000 is above 65535: lower backup_port_offset"):
        hosted_backup(host, 0, "n", PLACES, "/data/b")


def test_a_backup_that_scales_down_is_at_the_place_of_its_host() -> None:
    policy = Colocated(SharedStorePrimary(), SharedStoreBackup(scale_down=ScaleDown(commit_interval=5)))
    backup = hosted_backup(evolve(HOST, ha_policy=policy), 0, "n", PLACES, "/data/b")
    scale_down = ScaleDown(connectors=["colocated_host"], commit_interval=5)
    assert backup.ha_policy == SharedStoreBackup(scale_down=scale_down)
    assert backup.connectors == {**HOST.connectors, "colocated_host": backup.connectors["colocated_host"]}
    # So it is in each cluster: its host is the member there.
    first = ClusterConnection("first", connector="a", static_connectors=["b"], addresses=("eu",))
    second = ClusterConnection("second", connector="in", addresses=("us",))
    both = evolve(HOST, ha_policy=policy, cluster_connections=[first, second])
    assert [
        (each.name, each.connector, each.static_connectors)
        for each in hosted_backup(both, 0, "n", {"first": HOST.connectors["a"]}, "/data/b").cluster_connections
    ] == [("first", "colocated_host", ("b", "colocated_host")), ("second", "colocated_host", ("colocated_host",))]
    assert backup.port == 0 and is_at_host(backup.cluster_connection)
    assert not is_at_host(HOST.cluster_connection) and not is_at_host(None)
    assert not is_at_host(ClusterConnection(connector="colocated_hosts"))


def test_a_replicating_backup_scales_down_at_its_host_unless_its_primary_needs_its_data() -> None:
    """With a lock manager or votes the one with the newest data must serve it to the primary that returns."""
    scale_down = ScaleDown()
    for votes, manager, expected in (
        (False, False, ScaleDown(connectors=["colocated_host"])),
        (True, False, None),
        (False, True, None),
    ):
        parts = ReplicationPrimary(), ReplicationBackup(vote_on_replication_failure=votes, scale_down=scale_down)
        host = evolve(HOST, ha_policy=Colocated(*parts, excludes=["b"]))
        backup = hosted_backup(host, 0, "n", PLACES, has_lock_manager=manager)
        assert isinstance(backup.ha_policy, ReplicationBackup)
        assert backup.ha_policy.scale_down == expected
        assert is_at_host(backup.cluster_connection) == (expected is not None)


class Files:
    """A source of users that reports each change once."""

    loaded: tuple[tuple[User, ...], None] = ((), None)

    def __init__(self) -> None:
        self.seen = 0

    def refresh(self, *, always: bool = False) -> tuple[tuple[User, ...], None] | None:
        self.seen, before = 1, self.seen
        return self.loaded if self.seen != before else None

    def list_users(self, name: str | None) -> dict[str, list[str]]:
        return {}

    def change(self, change: UserChange) -> None:
        """Do nothing."""


def test_host_and_backup_each_learn_of_a_change_of_users() -> None:
    host = evolve(HOST, user_source=Files())
    backup = hosted_backup(host, 0, "n", PLACES, "/data/b")
    for config in (host, backup):
        assert config.user_source is not None
        assert config.user_source.refresh() == ((), None) and config.user_source.refresh() is None
