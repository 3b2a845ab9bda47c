"""Replicating pairs of real nodes in virtual time: which becomes live when, and that nothing confirmed is missing."""

from __future__ import annotations

import pytest
from attrs import evolve

from embedbroker.config import Role
from tests.embedbroker.ha.replication.replicating import BACKUP, PRIMARY, Brokers, both, goes_on, pair

# -- the usual way -------------------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("order", ["pq", "qp"])
def test_a_pair_starts_in_any_order(manager: bool, order: str) -> None:
    brokers = Brokers("pq", manager=manager)
    brokers.build("p", PRIMARY)
    brokers.build("q", BACKUP)
    for name in order:
        brokers.hosts[name].start()
        brokers.run(1.0)
    brokers.until_in_sync("p", 5.0)
    assert brokers.roles == {"p": "live", "q": "backup"}
    assert brokers.node("q").node_id == brokers.node("p").node_id


@both
def test_a_backup_takes_over_when_the_live_broker_dies_with_all_that_was_confirmed(manager: bool) -> None:
    brokers, writer = pair(manager=manager)
    node_id = brokers.node("p").node_id
    brokers.crash("p")
    assert brokers.until_role("q", Role.LIVE) < 0.5
    goes_on(brokers, writer, "q")
    assert brokers.node("q").node_id == node_id


def test_a_pair_that_is_well_warns_of_nothing_and_a_lost_backup_is_a_warning() -> None:
    brokers, _writer = pair(manager=True)
    brokers.run(1.0)
    assert "backup q is in sync" in brokers.said("p") and "in sync with p" in brokers.said("q")
    assert brokers.hosts["p"].warnings == brokers.hosts["q"].warnings == []
    brokers.crash("q")
    brokers.run(1.0)
    assert any("lost backup q, which was in sync" in text for text in brokers.hosts["p"].warnings)


@both
def test_the_backup_is_announced_to_clients_when_it_is_in_sync(manager: bool) -> None:
    brokers, _writer = pair(manager=manager)
    cluster = brokers.node("p").cluster
    assert cluster is not None
    backup = cluster.topology.members[brokers.node("p").node_id].backup
    assert backup is not None and backup.host == "q"


@both
def test_management_shows_whether_there_is_a_copy_and_which_life_changed_the_data(manager: bool) -> None:
    brokers, writer = pair(manager=manager)

    def shown(name: str) -> tuple[bool, int]:
        core = brokers.node(name).core
        return core.is_in_sync, core.activation_sequence

    before = shown("p")[1]
    assert before > 0 and shown("p") == shown("q") == (True, before)
    brokers.crash("p")
    goes_on(brokers, writer, "q")
    is_in_sync, after = shown("q")
    assert not is_in_sync and after > before
    brokers.hosts["p"].start()
    brokers.until_in_sync("q")
    brokers.run(0.5)
    assert shown("p") == shown("q") == (True, shown("q")[1]) and shown("q")[1] >= after


@both
def test_a_lost_backup_costs_a_moment_and_joins_again(manager: bool) -> None:
    brokers, writer = pair(manager=manager)
    brokers.crash("q")
    goes_on(brokers, writer, "p")
    assert "goes on without a backup" in brokers.said("p")
    brokers.hosts["q"].start()
    brokers.until_in_sync("p")
    brokers.run(0.5)
    brokers.crash("p")
    brokers.until_role("q", Role.LIVE)
    goes_on(brokers, writer, "q")


@both
def test_extra_backup_replicates_when_the_one_in_sync_is_gone(manager: bool) -> None:
    brokers, writer = pair(manager=manager, statics="pqrs")
    brokers.backup("r", BACKUP)
    brokers.backup("s", BACKUP)
    brokers.run(3.0)
    assert brokers.roles == {"p": "live", "q": "backup", "r": "backup", "s": "backup"}
    for name in "qp":
        brokers.crash(name)
        if name == "q":
            brokers.run(0.1)
            brokers.until_in_sync("p")
            brokers.run(0.1)
    brokers.until(lambda: "live" in (brokers.roles["r"], brokers.roles["s"]))
    live = "r" if brokers.roles["r"] == "live" else "s"
    writer.brokers = "rs"
    brokers.until_in_sync(live)
    goes_on(brokers, writer, live)
    assert sorted(brokers.roles.values()) == ["backup", "live", "stopped", "stopped"]


def test_everything_dies_and_whoever_was_live_last_is_live_again() -> None:
    brokers, writer = pair()
    brokers.crash("q")
    goes_on(brokers, writer, "p")
    brokers.crash("p")
    brokers.hosts["q"].start()
    brokers.run(20.0)
    assert brokers.roles == {"p": "stopped", "q": "backup"}
    assert "another copy is newer" in brokers.said("q")
    brokers.hosts["p"].start()
    brokers.until_role("p", Role.LIVE)
    goes_on(brokers, writer, "p")
    brokers.until_in_sync("p")


def test_of_a_pair_that_died_together_a_backup_in_sync_may_start_alone() -> None:
    brokers, writer = pair()
    brokers.crash("p")
    brokers.crash("q")
    brokers.hosts["q"].start()
    assert brokers.until_role("q", Role.LIVE) < 1.0
    goes_on(brokers, writer, "q")


# -- stopping and failing back -------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("fails_over", [False, True])
def test_an_orderly_stop_makes_the_backup_take_over(manager: bool, fails_over: bool) -> None:
    brokers, writer = pair(manager=manager)
    brokers.hosts["p"].stop(fails_over=fails_over)
    assert brokers.until_role("q", Role.LIVE) < 1.0
    assert brokers.until_role("p", Role.STOPPED) < 0.1
    assert brokers.failures["p"] is None
    goes_on(brokers, writer, "q")


@both
def test_a_primary_that_returns_is_live_again_and_the_other_one_its_backup(manager: bool) -> None:
    brokers, writer = pair(manager=manager)
    brokers.crash("p")
    brokers.until_role("q", Role.LIVE)
    goes_on(brokers, writer, "q")
    brokers.hosts["p"].start()
    brokers.until_role("p", Role.LIVE)
    goes_on(brokers, writer, "p")
    brokers.until_in_sync("p")
    assert brokers.roles == {"p": "live", "q": "backup"}
    assert "gives way to the primary" in brokers.said("q")
    brokers.run(10.0)
    brokers.crash("p")
    brokers.until_role("q", Role.LIVE)
    goes_on(brokers, writer, "q")


@both
def test_with_no_auto_failback_the_backup_stays_live_and_the_primary_is_its_backup(manager: bool) -> None:
    brokers = Brokers("pq", manager=manager)
    brokers.primary("p", PRIMARY)
    brokers.backup("q", evolve(BACKUP, allow_failback=False))
    writer = brokers.writer("p", "q")
    brokers.until_in_sync("p")
    brokers.crash("p")
    brokers.until_role("q", Role.LIVE)
    brokers.hosts["p"].start()
    brokers.until_in_sync("q")
    brokers.run(5.0)
    assert brokers.roles == {"p": "backup", "q": "live"}
    assert "allow_failback is not set here" in brokers.said("q")
    brokers.crash("q")
    brokers.until_role("p", Role.LIVE)
    goes_on(brokers, writer, "p")


def test_a_backup_that_does_not_restart_stops_when_it_gave_way() -> None:
    brokers = Brokers("pq", manager=True)
    brokers.primary("p", PRIMARY)
    brokers.backup("q", evolve(BACKUP, restart_backup=False))
    brokers.until_in_sync("p")
    brokers.crash("p")
    brokers.until_role("q", Role.LIVE)
    brokers.hosts["p"].start()
    brokers.until_role("p", Role.LIVE)
    brokers.run(1.0)
    assert brokers.roles == {"p": "live", "q": "stopped"} and brokers.failures["q"] is None


def test_whoever_gave_way_goes_on_when_the_primary_dies_before_it_is_live() -> None:
    brokers, writer = pair()
    brokers.crash("p")
    brokers.until_role("q", Role.LIVE)
    goes_on(brokers, writer, "q")
    brokers.hosts["p"].start()
    brokers.until(lambda: "gives way" in brokers.said("q"))
    brokers.until(lambda: brokers.role("p") is not Role.BACKUP or brokers.role("q") is not Role.LIVE)
    brokers.until(lambda: brokers.role("q") is Role.BACKUP)
    if brokers.role("p") is Role.ACTIVATING:
        brokers.crash("p")
        brokers.until_role("q", Role.LIVE, 20.0)
        goes_on(brokers, writer, "q")


def test_a_primary_without_a_look_around_is_live_beside_its_backup_and_both_say_so() -> None:
    brokers = Brokers("pq")
    brokers.primary("p")
    brokers.backup("q")
    brokers.until_in_sync("p")
    assert "set check_for_active_server" in brokers.said("p")
    brokers.crash("p")
    brokers.until_role("q", Role.LIVE)
    brokers.hosts["p"].start()
    brokers.run(5.0)
    assert brokers.roles == {"p": "live", "q": "live"}
    for name in "pq":
        assert "announces that it is live with node id" in brokers.said(name)


def test_a_primary_that_finds_nobody_is_live_as_soon_as_everybody_was_asked() -> None:
    brokers = Brokers("pq")
    brokers.primary("p", PRIMARY)
    brokers.until_role("p", Role.LIVE)
    brokers.crash("p")
    brokers.hosts["p"].start()
    assert brokers.until_role("p", Role.LIVE) < 0.5
    brokers.crash("p")
    brokers.part("p", "q")
    brokers.hosts["p"].start()
    assert 1.0 < brokers.until_role("p", Role.LIVE) < 6.0
