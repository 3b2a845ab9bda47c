"""Mistakes of an operator of replicating brokers, and the error that each of them causes."""

from __future__ import annotations

from copy import deepcopy

import pytest
from attrs import evolve

from embedbroker.config import LockManager, ReplicationPrimary, Role
from embedbroker.storage import ListFiles, Read, Remove, Sync, SyncDirectory, Truncate, WriteAt
from tests.embedbroker.ha.replication.replicating import BACKUP, PRIMARY, Brokers, goes_on, pair

# -- mistakes ------------------------------------------------------------------------------------------------------


def test_two_primaries_and_no_backup_are_told_what_is_missing() -> None:
    brokers = Brokers("pq", manager=True)
    brokers.primary("p", PRIMARY)
    brokers.primary("q", PRIMARY)
    brokers.run(40.0)
    assert brokers.roles == {"p": "live", "q": "live"}
    assert brokers.node("p").node_id != brokers.node("q").node_id
    for name in "pq":
        assert "no backup has joined yet: is one of the brokers configured as backup" in brokers.said(name)


def test_two_backups_and_no_primary_are_told_what_is_missing() -> None:
    brokers = Brokers("pq", manager=True)
    brokers.backup("p", BACKUP)
    brokers.backup("q", BACKUP)
    brokers.run(40.0)
    assert brokers.roles == {"p": "backup", "q": "backup"}
    for name in "pq":
        assert "no live broker was found" in brokers.said(name)
        assert "is one of the brokers configured as primary" in brokers.said(name)


def test_primaries_with_one_coordination_id_are_equals_and_the_second_is_the_backup_of_the_first() -> None:
    brokers = Brokers("pq", manager=True)
    # The manager is handed over; the policy names one, as a configuration has to.
    policy = ReplicationPrimary(lock_manager=LockManager("FileBasedLockManager"), coordination_id="pair-1")
    brokers.primary("p", policy)
    brokers.run(0.5)
    brokers.primary("q", policy)
    writer = brokers.writer("p", "q")
    brokers.until_in_sync("p")
    assert brokers.roles == {"p": "live", "q": "backup"}
    goes_on(brokers, writer, "p")
    brokers.crash("p")
    brokers.until_role("q", Role.LIVE)
    goes_on(brokers, writer, "q")
    brokers.hosts["p"].start()
    brokers.until_in_sync("q")
    brokers.run(5.0)
    assert brokers.roles == {"p": "backup", "q": "live"}


def test_a_backup_of_another_group_is_told_which_groups_there_are() -> None:
    brokers = Brokers("pq", manager=True)
    brokers.primary("p", evolve(PRIMARY, group_name="east"))
    brokers.backup("q", evolve(BACKUP, group_name="west"))
    brokers.run(20.0)
    assert brokers.roles == {"p": "live", "q": "backup"} and not brokers.in_sync("p")
    assert "of other groups ('east'): the group_name here is 'west', and must be that of a primary" in brokers.said("q")


def test_a_backup_that_nobody_takes_is_told_why_and_not_that_it_finds_nobody() -> None:
    brokers = Brokers("pqr", manager=True)
    brokers.primary("p", PRIMARY)
    brokers.backup("q", BACKUP)
    brokers.until_in_sync("p")
    brokers.backup("r", BACKUP)
    brokers.run(40.0)
    assert brokers.roles == {"p": "live", "q": "backup", "r": "backup"}
    assert "takes no backup: " in brokers.said("r")
    assert "there is no connection to it" not in brokers.said("r")


def test_a_backup_with_a_wrong_password_setting_is_told_and_gets_no_byte() -> None:
    brokers = Brokers("pq", manager=True)
    brokers.primary("p", PRIMARY)
    brokers.backup("q", BACKUP, cluster_password="wrong")
    brokers.run(20.0)
    assert brokers.roles == {"p": "live", "q": "backup"} and not brokers.in_sync("p")
    for name in "pq":
        assert "cluster_user and cluster_password must be the same on all brokers of a cluster" in brokers.said(name)
    (names,) = brokers.hosts["q"].disk.run((ListFiles(),))
    assert names == ()


def test_a_backup_of_another_cluster_with_the_same_password_is_told_and_gets_no_byte() -> None:
    brokers = Brokers("pq", manager=True)
    brokers.primary("p", PRIMARY)
    host = brokers.build("q", BACKUP)
    assert host.config.cluster_connection is not None
    host.config = evolve(host.config, cluster_connections=evolve(host.config.cluster_connection, name="east"))
    host.start()
    brokers.run(20.0)
    assert brokers.roles == {"p": "live", "q": "backup"} and not brokers.in_sync("p")
    said = "its cluster_connection is named 'cluster', and that of the backup 'east': give both the same name, or"
    assert said in brokers.said("q") and "correct the static_connectors of the backup" in brokers.said("q")
    (names,) = host.disk.run((ListFiles(),))
    assert names == ()


def test_a_copied_directory_is_noticed_by_both() -> None:
    brokers = Brokers("pq")
    brokers.primary("p")
    brokers.until_role("p", Role.LIVE)
    brokers.build("q", ReplicationPrimary())
    brokers.hosts["q"].disk = deepcopy(brokers.hosts["p"].disk)
    brokers.hosts["q"].settings = brokers.hosts["p"].settings
    brokers.hosts["q"].start()
    brokers.run(5.0)
    for name in "pq":
        assert "its data directory is a copy of this one, or both took over; stop one of the two" in brokers.said(name)


def test_a_copied_directory_beside_a_lock_manager_becomes_a_backup() -> None:
    brokers = Brokers("pq", manager=True)
    brokers.primary("p", PRIMARY)
    brokers.until_role("p", Role.LIVE)
    brokers.run(1.0)
    host = brokers.build("q", PRIMARY)
    host.disk = deepcopy(brokers.hosts["p"].disk)
    host.start()
    brokers.run(10.0)
    assert brokers.roles == {"p": "live", "q": "backup"}


def test_the_journal_of_another_node_is_refused_with_what_to_do() -> None:
    brokers = Brokers("px", manager=True)
    for name in "px":
        brokers.primary(name, evolve(PRIMARY, group_name=name))
        writer = brokers.writer(name)
        brokers.until(lambda writer=writer: len(writer.confirmed) > 3)  # type: ignore[misc]
        brokers.crash(name)
    host, other = brokers.hosts["p"], brokers.hosts["x"].disk
    (record,) = host.disk.run((Read("node.state", 0, 4096),))
    assert isinstance(record, bytes)
    other.run((Truncate("node.state", 0), WriteAt("node.state", 0, (record,)), Sync("node.state"), SyncDirectory()))
    host.disk = other
    host.start()
    brokers.run(5.0)
    assert "the journal is not that of node" in (brokers.failures["p"] or "")
    assert "put that back, or remove the record beside it (node.state)" in (brokers.failures["p"] or "")


@pytest.mark.parametrize("manager", [True, False])
def test_a_record_without_its_journal_is_refused_with_what_to_do(manager: bool) -> None:
    brokers = Brokers("pq", manager=manager)
    brokers.primary("p")
    writer = brokers.writer("p")
    brokers.until(lambda: len(writer.confirmed) > 3)
    brokers.crash("p")
    disk = brokers.hosts["p"].disk
    (names,) = disk.run((ListFiles(),))
    assert isinstance(names, list | tuple)
    disk.run((*(Remove(name) for name in names if name.endswith(".journal")), SyncDirectory()))
    brokers.hosts["p"].start()
    brokers.run(5.0)
    assert "there is no journal, but node" in (brokers.failures["p"] or "")
    assert "remove the record beside it (node.state) too" in (brokers.failures["p"] or "")
    disk.run((Remove("node.state"), SyncDirectory()))
    del brokers.failures["p"]
    brokers.hosts["p"].start()
    brokers.until_role("p", Role.LIVE)


def test_a_primary_that_dies_before_it_wrote_anything_is_live_again() -> None:
    brokers = Brokers("p", manager=True)
    brokers.primary("p")
    brokers.until_role("p", Role.LIVE)
    for _ in range(2):
        brokers.crash("p")
        brokers.hosts["p"].start()
        brokers.until_role("p", Role.LIVE)


@pytest.mark.parametrize("saved_max", [0, 1])
def test_a_journal_that_is_in_the_way_of_a_copy_is_kept_if_it_is_to_be(saved_max: int) -> None:
    brokers = Brokers("pq", manager=True)
    brokers.primary("q", PRIMARY)
    writer = brokers.writer("q")
    brokers.until(lambda: len(writer.confirmed) > 3)
    brokers.crash("q")
    disk = brokers.hosts["q"].disk
    disk.run((Remove("node.state"), SyncDirectory()))
    brokers.primary("p", PRIMARY)
    host = brokers.build("q", evolve(BACKUP, max_saved_replicated_journals_size=saved_max))
    host.disk = disk
    host.start()
    brokers.until_in_sync("p")
    (names,) = disk.run((ListFiles(),))
    assert isinstance(names, tuple)
    kept = [name for name in names if name.startswith("oldreplica.")]
    assert len(kept) == saved_max and all(name.startswith("oldreplica.1.segment-") for name in kept)


def test_a_lock_manager_that_has_forgotten_is_not_believed() -> None:
    brokers, _writer = pair()
    assert brokers.manager is not None
    for name in "pq":
        brokers.crash(name)
    brokers.manager.sequences.clear()
    brokers.hosts["p"].start()
    brokers.run(5.0)
    assert brokers.roles["p"] == "backup"
    assert "it is another lock manager, or has lost its data" in brokers.said("p")


def test_a_damaged_record_is_refused_with_what_to_do() -> None:
    brokers = Brokers("pq", manager=True)
    host = brokers.build("p", PRIMARY)
    host.disk.run((WriteAt("node.state", 0, (b"nonsense",)), Sync("node.state"), SyncDirectory()))
    host.start()
    brokers.run(1.0)
    assert "node.state is damaged: remove it" in (brokers.failures["p"] or "")


def test_defaults_without_votes_say_what_may_happen_and_what_helps() -> None:
    brokers = Brokers("pq")
    brokers.primary("p")
    brokers.run(0.1)
    assert "give both a lock_manager, or have three pairs or more" in brokers.said("p")
