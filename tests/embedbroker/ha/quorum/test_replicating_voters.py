"""Which brokers answer votes: those of every policy, in every role; and what the policy of the candidate changes."""

from __future__ import annotations

import pytest
from attrs import evolve

from embedbroker.config import ReplicationBackup, Role, SharedStoreBackup, SharedStorePrimary
from embedbroker.node import NodeState
from embedbroker.replication import PrimaryChoice
from embedbroker.testing._disk import SimulatedDisk
from embedbroker.testing._locks import SimulatedLocks
from embedbroker.testing._node_host import NodeHost
from tests.embedbroker.ha.replication.replicating import BACKUP, PRIMARY, Brokers, goes_on
from tests.embedbroker.ha.replication.test_replicating_rights import (
    VOTING_BACKUP,
    VOTING_PRIMARY,
    make_silent,
    three_pairs,
)


def sharing(brokers: Brokers, name: str, disk: SimulatedDisk, locks: SimulatedLocks, *, backup: bool = False) -> None:
    """A broker of a group that shares a store, in the place of one that was there before."""
    before = brokers.hosts[name]
    policy = SharedStoreBackup() if backup else SharedStorePrimary()
    host = NodeHost(brokers.network, evolve(before.config, ha_policy=policy), disk, before.settings, locks)
    host.on_stopped.append(lambda failure: brokers.failures.update({name: failure}))
    brokers.hosts[name] = host
    host.start()


@pytest.mark.parametrize("by_the_backup", [False, True], ids=["live primary", "live backup"])
def test_live_brokers_of_a_shared_store_answer(by_the_backup: bool) -> None:
    brokers, writer = three_pairs("pqxyz")
    disk, locks = SimulatedDisk(), SimulatedLocks()
    brokers.crash("x")
    sharing(brokers, "x", disk, locks)
    brokers.until_role("x", Role.LIVE)
    if by_the_backup:
        brokers.build("z", BACKUP)
        sharing(brokers, "z", disk, locks, backup=True)
        brokers.until_role("z", Role.BACKUP)
        brokers.run(1.0)
        brokers.crash("x")
        brokers.until_role("z", Role.LIVE)
    brokers.run(3.0)
    brokers.crash("p")
    assert brokers.until_role("q", Role.LIVE) < 1.0  # both of the others had to say yes
    goes_on(brokers, writer, "q")


def test_a_broker_that_is_stopping_keeps_nobody_waiting() -> None:
    brokers, writer = three_pairs()
    for name in "zw":
        brokers.primary(name, evolve(VOTING_PRIMARY, group_name=name))
    brokers.run(3.0)
    host = brokers.hosts["x"]
    host.speed.factor = 100_000.0
    brokers.writer("x")
    brokers.run(0.1)
    host.stop(fails_over=False)
    brokers.run(0.01)
    assert brokers.node("x").state is NodeState.STOPPING
    brokers.crash("p")
    assert brokers.until_role("q", Role.LIVE) < 1.0
    assert brokers.node("x").state is NodeState.STOPPING
    goes_on(brokers, writer, "q")


def test_a_shorter_wait_for_votes_is_kept() -> None:
    brokers = Brokers("pqxy")
    for name in "pxy":
        brokers.primary(name, evolve(VOTING_PRIMARY, group_name="g" if name == "p" else name))
    brokers.backup("q", evolve(VOTING_BACKUP, quorum_vote_wait_ms=400))
    brokers.until_in_sync("p")
    brokers.run(3.0)
    make_silent(brokers, "y")
    brokers.crash("p")
    took = brokers.until(lambda: "does not take over" in brokers.said("q"))
    assert 3 * 0.4 < took - 2 * 1.0 < 3 * 0.4 + 0.5  # three rounds, a second apart


@pytest.mark.parametrize("wait_ms", [500, 7_000])
def test_a_primary_that_took_no_backup_is_left_alone_for_as_long_as_the_policy_says(
    wait_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried, choices = PrimaryChoice.tried, list[PrimaryChoice]()

    def noted(choice: PrimaryChoice, node_id: str, now: float) -> None:
        choices.append(choice)
        tried(choice, node_id, now)

    monkeypatch.setattr(PrimaryChoice, "tried", noted)
    brokers = Brokers("pq", manager=True)
    brokers.primary("p", PRIMARY)
    brokers.until_role("p", Role.LIVE)
    host = brokers.build("q", ReplicationBackup(retry_replication_wait_ms=wait_ms))
    assert host.config.cluster_connection is not None
    host.config = evolve(host.config, cluster_connections=evolve(host.config.cluster_connection, name="east"))
    host.start()
    brokers.until(lambda: "does not take this backup" in brokers.said("q"))
    refused_at = brokers.world.now
    due = choices[-1].next_deadline([brokers.node("p").node_id])
    assert due is not None and due - refused_at == pytest.approx(wait_ms / 1000, abs=0.01)
