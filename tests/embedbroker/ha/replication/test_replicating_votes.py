"""Lives of a pair that follow each other by votes: none begins with less than what was confirmed before."""

from __future__ import annotations

import pytest
from attrs import evolve

from embedbroker.config import Role
from embedbroker.storage import ListFiles, Read, Sync, Truncate, WriteAt
from tests.embedbroker.ha.replication.replicating import Brokers, goes_on
from tests.embedbroker.ha.replication.test_replicating_rights import VOTING_BACKUP, VOTING_PRIMARY, three_pairs


@pytest.mark.parametrize("fails_over", [True, False])
def test_a_primary_that_stopped_in_order_does_not_begin_with_what_it_had_then(fails_over: bool) -> None:
    """1. p stops and q takes over. 2. q confirms more, and dies. 3. p starts: x and y gave their word to q."""
    brokers, writer = three_pairs()
    brokers.hosts["p"].stop(fails_over=fails_over)
    brokers.until_role("p", Role.STOPPED)
    assert brokers.until_role("q", Role.LIVE) < 1.0
    goes_on(brokers, writer, "q")
    brokers.crash("q")
    brokers.run(3.0)
    brokers.hosts["p"].start()
    brokers.run(15.0)
    assert brokers.roles["p"] == "backup"
    assert "does not begin with the data that is here: 2 could be asked, 0 voted yes" in brokers.said("p")
    brokers.hosts["q"].start()
    brokers.until_role("p", Role.LIVE)
    goes_on(brokers, writer, "p")


@pytest.mark.parametrize("quorum_size", [-1, 3])
def test_who_starts_and_reaches_nobody_is_not_live(quorum_size: int) -> None:
    """1. p dies and q takes over. 2. q confirms more, and dies. 3. p starts, and the network does not let it out."""
    brokers, writer = three_pairs(quorum_size=quorum_size)
    brokers.crash("p")
    brokers.until_role("q", Role.LIVE)
    goes_on(brokers, writer, "q")
    brokers.crash("q")
    brokers.run(3.0)
    brokers.part("p", "qxy")
    brokers.hosts["p"].start()
    brokers.run(20.0)
    assert brokers.roles["p"] == "backup"
    brokers.network.heal()
    brokers.run(5.0)
    assert brokers.roles["p"] == "backup"
    brokers.hosts["q"].start()
    brokers.until_role("p", Role.LIVE)
    goes_on(brokers, writer, "p")


def test_a_backup_that_gave_way_and_did_not_join_again_does_not_begin_with_what_it_had_then() -> None:
    """1. q gives way to p, and dies. 2. p confirms more, and dies. 3. q starts: x and y gave their word to p."""
    brokers, writer = three_pairs()
    brokers.crash("p")
    brokers.until_role("q", Role.LIVE)
    goes_on(brokers, writer, "q")
    brokers.hosts["p"].start()
    brokers.until(lambda: "gives way to the primary" in brokers.said("q"))
    life = brokers.hosts["q"].life
    brokers.until(lambda: brokers.hosts["q"].life > life)
    # Before the two that wait can meet.
    brokers.crash("q")
    brokers.until_role("p", Role.LIVE)
    goes_on(brokers, writer, "p")
    brokers.crash("p")
    brokers.run(3.0)
    brokers.hosts["q"].start()
    brokers.run(20.0)
    assert brokers.roles["q"] == "backup"
    kept = f"keeps the data of node {brokers.node('q').node_id}, which may be the newest"
    assert kept in brokers.said("q") and "If that node is given up, remove the data directory here" in brokers.said("q")
    brokers.hosts["p"].start()
    brokers.until_role("p", Role.LIVE)
    goes_on(brokers, writer, "p")


def test_brokers_that_came_later_know_what_a_life_has_left_behind() -> None:
    """1. p dies, x and y let q take over. 2. z and w come, x and y go for good. 3. q dies, and p starts."""
    brokers, writer = three_pairs("pqxyzw")
    brokers.crash("p")
    brokers.until_role("q", Role.LIVE)
    for name in "zw":
        brokers.primary(name, evolve(VOTING_PRIMARY, group_name=name))
        brokers.until_role(name, Role.LIVE)
    brokers.run(2.0)
    goes_on(brokers, writer, "q")
    for name in "xyq":
        brokers.crash(name)
    brokers.run(3.0)
    brokers.hosts["p"].start()
    brokers.run(15.0)
    assert brokers.roles["p"] == "backup"
    assert "does not begin with the data that is here: 2 could be asked, 0 voted yes" in brokers.said("p")


def test_a_backup_takes_over_when_its_primary_asked_in_vain_and_never_comes_back() -> None:
    """1. {p, x} and {q, y} lose each other. x grants p its vote, which is not enough, and p stops. 2. The
    network is whole again: x has its vote back, and q takes over."""
    brokers, writer = three_pairs()
    brokers.part("px", "qy")
    brokers.until_role("p", Role.STOPPED)
    brokers.run(5.0)
    brokers.network.heal()
    brokers.until_role("q", Role.LIVE)
    goes_on(brokers, writer, "q")


def test_a_live_broker_outlasts_a_moment_in_which_all_connections_break() -> None:
    """Too few are there to be asked at first, and all of them a moment later."""
    brokers, writer = three_pairs()
    for link in list(brokers.network.links):
        link.cut("connection reset")
    brokers.run(3.0)
    assert "p" not in brokers.failures and brokers.roles["p"] == "live", brokers.said("p")
    assert "the others see this broker: 2 of 2 votes" in brokers.said("p")
    brokers.until_in_sync("p")
    goes_on(brokers, writer, "p")


@pytest.mark.parametrize("returns", [False, True], ids=["its primary stays dead", "its primary returns"])
def test_a_voter_that_knows_a_live_broker_by_hearsay_only_does_not_keep_its_backup_from_taking_over(
    returns: bool,
) -> None:
    brokers, writer = three_pairs()
    brokers.part("p", "x")
    brokers.run(5.0)
    brokers.part("x", "y")
    brokers.run(5.0)
    brokers.crash("p")
    brokers.run(3.0)
    if returns:
        brokers.hosts["p"].start()
    brokers.network.heal()
    brokers.run(15.0)
    live = next((name for name in "pq" if brokers.roles[name] == "live"), "nobody")
    assert live == "q" or (returns and live == "p"), brokers.said("q")
    goes_on(brokers, writer, live)


def test_a_primary_whose_copy_is_not_whole_does_not_ask_for_votes() -> None:
    brokers, _writer = three_pairs()
    for name in "pq":
        brokers.crash(name)
    change_record(brokers, "p", b"in sync: yes", b"in sync: no")
    brokers.run(3.0)
    brokers.hosts["p"].start()
    brokers.run(20.0)
    assert brokers.roles["p"] == "backup"
    assert "waits for the broker that is live for node" in brokers.said("p")
    brokers.hosts["q"].start()
    brokers.until_role("p", Role.LIVE)


def change_record(brokers: Brokers, name: str, before: bytes, after: bytes) -> None:
    """Of a broker that does not run."""
    disk = brokers.hosts[name].disk
    assert "node.state" in disk.run((ListFiles(),))[0]  # type: ignore[operator]  # the names
    text = disk.run((Read("node.state", 0, 4096),))[0]
    assert isinstance(text, bytes) and before in text
    changed = text.replace(before, after)
    disk.run((WriteAt("node.state", 0, (changed,)), Truncate("node.state", len(changed)), Sync("node.state")))


def test_a_backup_that_votes_could_not_tell_from_its_primary_is_refused() -> None:
    """The text of a connector has "-" for ".", as Artemis writes it."""
    brokers = Brokers(("a.b", "a-b"))
    brokers.primary("a.b", VOTING_PRIMARY)
    brokers.backup("a-b", VOTING_BACKUP)
    said = "votes cannot distinguish the two: give each broker another connector"
    brokers.until(lambda: said in brokers.said("a-b"))
    brokers.run(5.0)
    assert not brokers.in_sync("a.b")
