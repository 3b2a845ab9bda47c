"""The brokers that a voting broker does not wait for, although none is live: they have no whole copy, or no vote."""

from __future__ import annotations

import pytest
from attrs import evolve

from embedbroker.config import Role
from embedbroker.ha.replication._active import ActiveRole
from embedbroker.replication import ReplicaRecord
from embedbroker.storage import Sync, SyncDirectory, WriteAt
from tests.embedbroker.ha.replication.replicating import Brokers
from tests.embedbroker.ha.replication.test_cold_start import record
from tests.embedbroker.ha.replication.test_replicating_rights import VOTING_BACKUP, VOTING_PRIMARY, three_pairs


def begun_copy(brokers: Brokers, name: str) -> None:
    """A backup gets its copy from p, which has no end yet."""
    brokers.hosts[name].start()
    brokers.until(lambda: f"{name} joins as backup" in brokers.said("p"))


def lone_primaries(*more: str) -> Brokers:
    """p and two more that vote, and brokers that are not started yet."""
    brokers = Brokers("pxy" + "".join(more))
    for name in "pxy":
        brokers.primary(name, evolve(VOTING_PRIMARY, group_name="g" if name == "p" else name))
    for name in more:
        brokers.build(name, VOTING_BACKUP)
    brokers.run(3.0)
    return brokers


@pytest.mark.parametrize("in_order", [True, False])
def test_who_had_no_whole_copy_when_the_live_broker_ended_is_not_waited_for(in_order: bool) -> None:
    brokers = lone_primaries("q")
    begun_copy(brokers, "q")
    if in_order:
        brokers.hosts["p"].stop()
        brokers.until_role("p", Role.STOPPED)
    else:
        brokers.crash("p")
    assert not brokers.in_sync("p") and "partner: \n" in record(brokers, "p")
    for name in "qxy":
        brokers.crash(name)
    brokers.hosts["p"].start()
    brokers.until_role("p", Role.LIVE)


def test_a_backup_that_had_data_of_another_node_remembers_whose_it_gets_now(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = lone_primaries("q")
    node_id = brokers.node("p").node_id
    text = ReplicaRecord("another", 7, 3, in_sync=False, quorum=3).text()
    brokers.hosts["q"].disk.run((WriteAt("node.state", 0, (text,)), Sync("node.state"), SyncDirectory()))
    # The copy itself is not to be whole, which would be written down anyway.
    monkeypatch.setattr(ActiveRole, "may_hand_over", lambda self: False)
    begun_copy(brokers, "q")
    brokers.until(lambda: f"node: {node_id}" in record(brokers, "q"))
    assert "in sync: no" in record(brokers, "q")


def test_who_is_refused_again_and_again_stays_to_be_found() -> None:
    """Others got twice a second that it had gone, and was there again."""
    brokers, _writer = three_pairs()
    brokers.backup("v", VOTING_BACKUP)
    brokers.run(3.0)
    brokers.crash("q")
    brokers.until(lambda: "goes on without a backup" in brokers.said("p"))
    brokers.until_in_sync("p")
    brokers.run(3.0)
    changes: list[object] = []
    cluster = brokers.node("x").cluster
    assert cluster is not None
    cluster.topology.listen(changes.append)
    changes.clear()
    brokers.hosts["q"].start()
    brokers.run(30.0)
    assert "takes no backup: it has a backup, v" in brokers.said("q")
    assert len(changes) <= 2 and brokers.said("x").count("lost the connection to q") <= 2


def test_a_pair_that_is_alone_begins_with_a_warning_when_the_other_one_may_have_gone_on() -> None:
    brokers = Brokers("pq")
    brokers.primary("p", VOTING_PRIMARY)
    brokers.backup("q", VOTING_BACKUP)
    brokers.until_in_sync("p")
    brokers.run(3.0)
    for name in "pq":
        brokers.crash(name)
    brokers.hosts["p"].start()
    brokers.until_role("p", Role.LIVE)
    assert "although the other broker that has it may have gone on from there" in brokers.said("p")


def test_a_no_of_a_voter_that_cannot_give_its_word_does_not_count_as_knowing_better() -> None:
    brokers = Brokers("px")
    brokers.primary("p", VOTING_PRIMARY)
    voter = brokers.build("x", VOTING_PRIMARY)
    voter.disk.run((WriteAt("votes.state", 0, (b"damaged",)), Sync("votes.state"), SyncDirectory()))
    voter.start()
    brokers.run(5.0)
    assert "quorum: 2" in record(brokers, "p") and "partner: \n" in record(brokers, "p")
    brokers.crash("p")
    brokers.run(5.0)
    brokers.hosts["p"].start()
    brokers.until_role("p", Role.LIVE)
    assert "from which no other broker can have gone on: 1 could be asked, 0 voted yes and 1 no" in brokers.said("p")


@pytest.mark.parametrize("left", ["p", "q"])
def test_either_of_a_pair_begins_alone_when_the_operator_says_that_there_is_no_other(left: str) -> None:
    brokers, _writer = three_pairs()
    for name in "pqxy":
        brokers.crash(name)
    host = brokers.hosts[left]
    policy = evolve(VOTING_PRIMARY if left == "p" else VOTING_BACKUP, quorum_size=1)
    host.config = evolve(host.config, ha_policy=policy)
    host.start()
    brokers.until_role(left, Role.LIVE)
