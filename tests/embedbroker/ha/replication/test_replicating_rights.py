"""A live broker of a pair confirms nothing alone before its right is renewed: by the lock manager, or by votes."""

from __future__ import annotations

import pytest
from attrs import evolve

from embedbroker.config import ReplicationBackup, ReplicationPrimary, Role
from embedbroker.node import BranchDecided, DecideBranch, DiskDone, Input, Output, SendBytes, Stopped
from embedbroker.storage import Lane, Read
from embedclient.model import Instant, Xid
from tests.embedbroker.ha.replication.replicating import BACKUP, PRIMARY, Brokers, goes_on, pair
from tests.simulation.store_group import Writer

# -- nothing is confirmed before the right is renewed --------------------------------------------------------------


def test_a_primary_without_its_backup_confirms_nothing_until_the_lock_manager_answers() -> None:
    brokers, writer = pair(lease_s=6.0)
    assert brokers.manager is not None
    brokers.manager.reachable = False
    brokers.crash("q")
    brokers.run(0.1)
    before = len(writer.confirmed)
    brokers.run(2.0)
    assert len(writer.confirmed) == before and brokers.role("p") is Role.LIVE
    assert "nothing is confirmed until the right to be live is renewed" in brokers.said("p")
    brokers.manager.reachable = True
    goes_on(brokers, writer, "p")


def test_a_primary_that_cannot_renew_its_right_stops_and_its_backup_takes_over() -> None:
    brokers, writer = pair(lease_s=3.0)
    assert brokers.manager is not None
    brokers.manager.cut_off["primary 'p'"] = None
    brokers.part("p", "q")
    brokers.until_role("p", Role.STOPPED)
    assert brokers.role("q") is not Role.LIVE
    assert brokers.failures["p"] == "the lock manager has not answered in time: another broker may be live"
    brokers.until_role("q", Role.LIVE)
    goes_on(brokers, writer, "q")


def test_a_primary_that_lost_its_backup_and_is_not_granted_the_next_number_stops_and_says_so() -> None:
    brokers, writer = pair()
    assert brokers.manager is not None
    (node_id,) = brokers.manager.sequences
    brokers.manager.sequences[node_id] += 1  # another holder has gone on from there
    before = len(writer.confirmed)
    brokers.part("p", "q")
    brokers.until_role("p", Role.STOPPED)
    assert "lost its backup, and may not go on without one: " in (brokers.failures["p"] or "")
    assert len(writer.confirmed) == before and brokers.role("q") is not Role.LIVE


def test_a_partition_leaves_the_primary_live_when_it_reaches_the_lock_manager() -> None:
    brokers, writer = pair(lease_s=3.0)
    brokers.part("p", "q")
    brokers.run(10.0)
    goes_on(brokers, writer, "p")
    assert brokers.roles == {"p": "live", "q": "backup"}
    brokers.network.heal()
    brokers.until_in_sync("p")
    brokers.crash("p")
    brokers.until_role("q", Role.LIVE)
    goes_on(brokers, writer, "q")


def test_a_live_broker_whose_lease_is_lost_stops_and_says_so() -> None:
    brokers, _writer = pair()
    assert brokers.manager is not None
    brokers.manager.revoke(brokers.node("p").node_id)
    brokers.until_role("p", Role.STOPPED, 2.0)
    assert brokers.failures["p"] == "the lease is lost: another broker may be live"
    brokers.until_role("q", Role.LIVE)


def test_a_frozen_broker_whose_lease_ended_confirms_nothing_when_it_goes_on() -> None:
    brokers, writer = pair(lease_s=3.0)
    brokers.crash("q")
    goes_on(brokers, writer, "p")
    host = brokers.hosts["p"]
    brokers.until(host.writing)
    work = host.under_way[Lane.JOURNAL]
    answer = DiskDone(work.batch, host.disk.run(work.operations))
    later = Instant(brokers.world.now + 3.0, brokers.world.instant.wall_ms + 3_000)
    outputs = brokers.node("p").step(answer, later)
    assert not [output for output in outputs if isinstance(output, SendBytes)]
    assert Stopped("the lock manager has not answered in time: another broker may be live") in outputs


def test_a_stop_without_a_backup_and_without_an_answer_of_the_lock_manager_ends() -> None:
    brokers, _writer = pair(lease_s=60.0)
    assert brokers.manager is not None
    brokers.manager.reachable = False
    brokers.crash("q")
    brokers.run(0.1)
    brokers.hosts["p"].stop()
    brokers.until_role("p", Role.STOPPED, 10.0)


def test_a_broker_that_stops_without_its_backup_confirms_no_decision_about_a_branch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    brokers, _writer = pair(lease_s=60.0)
    assert brokers.manager is not None
    brokers.manager.reachable = False
    brokers.crash("q")
    brokers.run(0.1)
    node, answers = brokers.node("p"), list[BranchDecided]()
    step = node.step

    def listen(input: Input, now: Instant) -> list[Output]:
        outputs = step(input, now)
        answers.extend(output for output in outputs if isinstance(output, BranchDecided))
        return [output for output in outputs if not isinstance(output, BranchDecided)]

    monkeypatch.setattr(node, "step", listen)
    # It waits behind what the writer has sent by now, which no backup has.
    brokers.hosts["p"].step(DecideBranch(1, Xid(7, b"branch", b"transaction"), commit=True))
    brokers.hosts["p"].stop()
    brokers.until_role("p", Role.STOPPED, 10.0)
    assert answers == []


def test_a_lock_manager_that_is_not_there_at_the_start_is_asked_until_it_is() -> None:
    brokers = Brokers("pq", manager=True)
    assert brokers.manager is not None
    brokers.manager.reachable = False
    brokers.primary("p", PRIMARY)
    brokers.backup("q", BACKUP)
    brokers.run(10.0)
    assert brokers.roles == {"p": "backup", "q": "backup"}
    assert "the lock manager is asked again: the lock manager cannot be reached" in brokers.said("p")
    brokers.manager.reachable = True
    brokers.until_in_sync("p")


# -- votes ---------------------------------------------------------------------------------------------------------

VOTING_PRIMARY = ReplicationPrimary(
    check_for_active_server=True, vote_on_replication_failure=True, group_name="g", vote_retry_wait_ms=1_000
)
VOTING_BACKUP = ReplicationBackup(
    allow_failback=True, vote_on_replication_failure=True, group_name="g", vote_retry_wait_ms=1_000, vote_retries=3
)


def three_pairs(statics: str = "pqxy", quorum_size: int = -1, **time_outs: int) -> tuple[Brokers, Writer]:
    """p with its backup q, and two more primaries."""
    brokers = Brokers(statics, time_outs=time_outs)
    primary = evolve(VOTING_PRIMARY, quorum_size=quorum_size)
    for name in "pxy":
        brokers.primary(name, evolve(primary, group_name="g" if name == "p" else name))
    brokers.backup("q", evolve(VOTING_BACKUP, quorum_size=quorum_size))
    brokers.until_in_sync("p")
    writer = brokers.writer("p", "q")
    brokers.until(lambda: len(writer.confirmed) > 10)
    brokers.run(3.0)
    return brokers, writer


def test_a_backup_takes_over_when_the_others_agree() -> None:
    brokers, writer = three_pairs()
    brokers.crash("p")
    assert brokers.until_role("q", Role.LIVE) < 1.0
    assert "may take over: 2 of 2 votes that are needed" in brokers.said("q")
    goes_on(brokers, writer, "q")


def test_a_quorum_that_was_configured_counts_and_not_how_many_there_were() -> None:
    brokers = Brokers("pqxy")
    for name in "pxy":
        brokers.primary(name, evolve(VOTING_PRIMARY, group_name="g" if name == "p" else name, quorum_size=1))
    brokers.backup("q", evolve(VOTING_BACKUP, quorum_size=5))
    brokers.until_in_sync("p")
    brokers.run(3.0)
    brokers.crash("p")
    brokers.until(lambda: "does not take over" in brokers.said("q"))
    assert "2 could be asked, " in brokers.said("q") and "3 must vote yes in a cluster of 5" in brokers.said("q")


def test_quorum_voting_primary_not_dead_the_backup_does_not_take_over_and_joins_again() -> None:
    brokers, writer = three_pairs()
    brokers.part("p", "q")
    brokers.run(8.0)
    assert brokers.roles["p"] == "live" and brokers.roles["q"] == "backup"
    assert "the others see this broker: 2 of 2 votes that are needed" in brokers.said("p")
    assert "does not take over: " in brokers.said("q")
    goes_on(brokers, writer, "p")
    brokers.network.heal()
    brokers.until_in_sync("p")
    goes_on(brokers, writer, "p")


def test_quorum_voting_primary_not_dead_but_cut_off_stops_before_it_confirms_anything() -> None:
    brokers, writer = three_pairs()
    writer.brokers = ("q",)
    brokers.part("p", "qxy")
    brokers.until_role("p", Role.STOPPED)
    assert "not enough of the cluster sees this broker" in (brokers.failures["p"] or "")
    brokers.until_role("q", Role.LIVE)
    for link in brokers.network.between("writer", "p"):
        link.cut("p is gone")
    goes_on(brokers, writer, "q")


def test_a_backup_whose_primary_says_that_it_lost_it_and_is_gone_then_takes_over_all_the_same() -> None:
    """Before a primary goes on without its backup it has to win a vote: that it wants to is no reason to give up."""
    brokers, writer = three_pairs(call_timeout_ms=1000)
    brokers.part("p", "xy")
    brokers.run(5.0)
    brokers.network.hold("q", "p")
    brokers.until_role("p", Role.STOPPED)
    assert "the primary cannot go on: it did not answer for 1 s" in brokers.said("q")
    brokers.until_role("q", Role.LIVE)
    goes_on(brokers, writer, "q")


def test_a_primary_whose_backup_took_over_and_died_does_not_begin_with_its_older_data() -> None:
    brokers, writer = three_pairs()
    brokers.crash("p")
    brokers.until_role("q", Role.LIVE)
    goes_on(brokers, writer, "q")
    brokers.crash("q")
    brokers.hosts["p"].start()
    brokers.run(15.0)
    assert brokers.roles["p"] == "backup"
    assert "does not begin with the data that is here: 2 could be asked, 0 voted yes" in brokers.said("p")
    brokers.hosts["q"].start()
    brokers.until(lambda: "gives way to the primary" in brokers.said("q"))
    brokers.until_role("p", Role.LIVE)
    goes_on(brokers, writer, "p")


def test_an_older_primary_that_starts_first_after_a_power_failure_does_not_begin_with_its_data() -> None:
    """1. p dies, x and y tell q that it may take over, and q confirms more. 2. The power fails. 3. p, x and y are back,
    q is not: x and y have kept their word, so p waits for q."""
    brokers, writer = three_pairs()
    brokers.crash("p")
    brokers.until_role("q", Role.LIVE)
    goes_on(brokers, writer, "q")
    for name in "qxy":
        brokers.crash(name)
    for name in "xy":
        brokers.hosts[name].start()
    brokers.run(3.0)
    brokers.hosts["p"].start()
    brokers.run(15.0)
    assert brokers.roles["p"] == "backup"
    brokers.hosts["q"].start()
    brokers.until_role("p", Role.LIVE)
    goes_on(brokers, writer, "p")


def test_a_broker_that_starts_again_before_the_others_noticed_its_death_does_not_count_itself_twice() -> None:
    brokers, _writer = three_pairs()
    brokers.crash("x")
    brokers.hosts["x"].start()
    brokers.until_role("x", Role.LIVE, 10.0)


def words(brokers: Brokers, name: str) -> object:
    """The asker that has the vote of a broker."""
    return brokers.hosts[name].disk.run((Read("votes.state", 0, 4096),))[0]


def test_two_that_each_have_the_word_of_one_do_not_wait_for_ever() -> None:
    """p is cut off from q and from y: x grants p its vote, y grants q its vote. Neither has enough,
    so p stops, and does not keep its vote from q."""
    brokers, writer = three_pairs()
    writer.brokers = ("q",)
    brokers.part("p", "qy")
    brokers.until_role("p", Role.STOPPED)
    assert "not enough of the cluster sees this broker: 1 could be asked" in (brokers.failures["p"] or "")
    brokers.until_role("q", Role.LIVE)
    for link in brokers.network.between("writer", "p"):
        link.cut("p is gone")
    goes_on(brokers, writer, "q")


def test_who_takes_over_from_a_voter_has_given_the_same_words() -> None:
    brokers, writer = three_pairs()
    brokers.backup("z", evolve(VOTING_BACKUP, group_name="x"))
    brokers.statics = (*brokers.statics, "z")
    brokers.until_in_sync("x")
    brokers.crash("p")
    brokers.until_role("q", Role.LIVE)
    goes_on(brokers, writer, "q")
    assert words(brokers, "x") == words(brokers, "z") != b""


def test_a_voter_whose_backup_joins_later_gives_it_the_words_it_gave_before() -> None:
    brokers, writer = three_pairs()
    brokers.crash("p")
    brokers.until_role("q", Role.LIVE)
    goes_on(brokers, writer, "q")
    brokers.backup("z", evolve(VOTING_BACKUP, group_name="x"))
    brokers.until_in_sync("x")
    assert words(brokers, "x") == words(brokers, "z") != b""


def all_backups(brokers: Brokers) -> None:
    """Those of the two others, too."""
    for name, primary in (("z", "x"), ("w", "y")):
        brokers.backup(name, evolve(VOTING_BACKUP, group_name=primary))
        brokers.until_in_sync(primary)


def silence_backups(brokers: Brokers) -> None:
    """Their network is gone."""
    for name in "qzw":
        brokers.part("pxy", name)
        for other in "qzw".replace(name, ""):
            brokers.part(name, other)


def test_a_cluster_that_loses_all_backups_at_once_goes_on() -> None:
    """Each requests votes of the others, which wait for votes as well: a grant does not wait for that."""
    brokers, writer = three_pairs()
    all_backups(brokers)
    silence_backups(brokers)
    for name in "pxy":
        brokers.until(lambda name=name: "goes on without a backup" in brokers.said(name))  # type: ignore[misc]
    goes_on(brokers, writer, "p")
    assert {name: role for name, role in brokers.roles.items() if role == "live"}.keys() == {"p", "x", "y"}


def test_who_misses_its_backup_first_goes_on_when_the_others_miss_theirs() -> None:
    """1. p has traffic, and misses q after a call time-out. It requests votes of x and y, which have no traffic.
    2. Their words wait for z and w until they miss those, a call time-out later. p must not have stopped by then.
    """
    brokers, writer = three_pairs(call_timeout_ms=10_000, check_period_ms=10_000, connection_ttl_ms=20_000)
    all_backups(brokers)
    brokers.run(25.0)
    silence_backups(brokers)
    before = len(writer.confirmed)
    brokers.until(lambda: "goes on without a backup" in brokers.said("p"), within_s=35.0)
    assert len(writer.confirmed) - before < 10
    goes_on(brokers, writer, "p")
    brokers.run(30.0)
    assert {name for name, role in brokers.roles.items() if role == "live"} == {"p", "x", "y"}


def test_a_cluster_that_lost_its_power_starts_again() -> None:
    brokers, writer = three_pairs()
    for name in "pqxy":
        brokers.crash(name)
    for name in "qypx":
        brokers.hosts[name].start()
    brokers.until_in_sync("p")
    goes_on(brokers, writer, "p")
    assert brokers.roles == {"p": "live", "x": "live", "y": "live", "q": "backup"}


def test_without_the_others_neither_of_a_pair_goes_on() -> None:
    brokers, writer = three_pairs()
    brokers.part("pq", "xy")
    brokers.run(5.0)
    goes_on(brokers, writer, "p")
    brokers.part("p", "q")
    brokers.run(20.0)
    assert brokers.roles["p"] == "stopped" and brokers.roles["q"] == "backup"


def make_silent(brokers: Brokers, name: str) -> None:
    """It does not answer votes, as an Artemis broker without a replication policy."""
    node = brokers.node(name)
    assert node.cluster is not None
    node.cluster.inbound_peers.handlers.clear()
    node.cluster.handlers.clear()


def test_a_member_that_does_not_answer_costs_two_seconds_and_not_half_a_minute() -> None:
    brokers, _writer = three_pairs()
    make_silent(brokers, "y")
    brokers.crash("p")
    took = brokers.until(lambda: "does not take over" in brokers.said("q"))
    assert 3 * 2.0 < took < 3 * 2.0 + 2 * 1.0 + 0.5
    assert "2 could be asked, 1 voted yes and 0 no, and 2 must vote yes in a cluster of 3" in brokers.said("q")


def test_a_member_that_does_not_answer_is_not_waited_for_when_the_others_are_enough() -> None:
    brokers, writer = three_pairs()
    brokers.primary("z", evolve(VOTING_PRIMARY, group_name="z"))
    brokers.primary("w", evolve(VOTING_PRIMARY, group_name="w"))
    brokers.run(3.0)
    make_silent(brokers, "z")
    brokers.crash("p")
    assert brokers.until_role("q", Role.LIVE) < 1.0
    goes_on(brokers, writer, "q")


def test_a_broker_without_backups_answers_as_well() -> None:
    brokers, writer = three_pairs()
    for name in "xy":
        brokers.crash(name)
        brokers.alone(name)
    brokers.run(3.0)
    brokers.crash("p")
    assert brokers.until_role("q", Role.LIVE) < 1.0
    goes_on(brokers, writer, "q")


def test_a_primary_that_went_on_alone_is_not_replaced_by_the_backup_that_it_left_behind() -> None:
    brokers, writer = three_pairs()
    brokers.part("p", "q")
    brokers.until(lambda: "goes on without a backup" in brokers.said("p"))
    goes_on(brokers, writer, "p")
    brokers.crash("p")
    brokers.run(15.0)
    assert brokers.roles["q"] == "backup"
    brokers.network.heal()
    brokers.hosts["p"].start()
    brokers.until_role("p", Role.LIVE)
    goes_on(brokers, writer, "p")
    brokers.until_in_sync("p")
