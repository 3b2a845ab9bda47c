"""2.6: which replicating backup belongs to which primary, and what becomes of the ones that wait."""

from __future__ import annotations

import pytest
from attrs import evolve

from embedbroker.config import Role
from tests.embedbroker.cluster.town import Town
from tests.embedbroker.ha.replication.replicating import BACKUP, PRIMARY, Brokers, goes_on
from tests.simulation.store_group import Writer

LINKED = {"retry_interval_ms": 250, "check_period_ms": 500, "connection_ttl_ms": 1_500, "call_timeout_ms": 333}


def test_call_timeout() -> None:
    """2.6.2

    Given a call time-out of 333 ms, when a backup looks for its live broker, and that answers nothing, then it gives
    each attempt up after so long, and makes the next one after its pause.
    """
    town = Town()
    town.start("A", "B")
    town.network.hold("A", "B")
    town.stand_by("B", "A", town.node_id("A"), **LINKED)
    town.run(0.1)
    before = town.dials("B", "A")
    town.run(100 * (0.333 + 0.25))
    assert town.dials("B", "A") - before == pytest.approx(100, abs=1)


def test_validate_inherited_cluster_connection_config() -> None:
    """2.6.3

    Given a retry interval, a time to live and a check period, when a backup looks for its live broker, then these hold
    for its connection, and the number of its attempts has no end.
    """
    town = Town()
    town.start("A", "B")
    backup = town.stand_by("B", "A", town.node_id("A"), **LINKED)
    town.run(10.0)
    assert backup.notices == []
    town.network.hold("A", "B")
    town.run(2.1)
    assert "nothing was received from A (A:61616) for 1500 ms" in backup.notices[-1]
    town.hosts["A"].crash()
    town.network.heal()
    town.run(10.0)
    before = town.dials("B", "A")
    town.run(100.0)
    assert town.dials("B", "A") - before == pytest.approx(400, abs=5)


def grouped(brokers: Brokers, primaries: dict[str, str], backups: dict[str, str]) -> None:
    """Brokers of these groups that are not started."""
    for name, group in primaries.items():
        brokers.build(name, evolve(PRIMARY, group_name=group))
    for name, group in backups.items():
        brokers.build(name, evolve(BACKUP, group_name=group))


@pytest.mark.parametrize("manager", [False, True], ids=["no votes", "lock manager"])
def test_extra_backup_group_name_replicates(manager: bool) -> None:
    """2.6.5

    Given a primary with a backup of its group in sync, a second one of the group and one of another group, when the
    first backup stops, then the second one gets the copy, and takes over; the one of the other group never does.
    """
    brokers = Brokers("pqrs", manager=manager)
    grouped(brokers, {"p": "east"}, {"q": "east", "r": "west", "s": "east"})
    for name in "pq":
        brokers.hosts[name].start()
    brokers.until_in_sync("p")
    for name in "rs":
        brokers.hosts[name].start()
    writer = brokers.writer("p", "s")
    brokers.run(3.0)
    brokers.hosts["q"].stop()
    brokers.until_role("q", Role.STOPPED)
    brokers.run(0.1)
    brokers.until_in_sync("p")
    goes_on(brokers, writer, "p")
    brokers.run(0.2)
    brokers.crash("p")
    brokers.until_role("s", Role.LIVE)
    goes_on(brokers, writer, "s")
    assert brokers.role("r") is Role.BACKUP


def two_writers(brokers: Brokers, *places: str) -> list[Writer]:
    """A client that writes to the brokers of each pair."""
    writers = []
    for number, names in enumerate(places):
        writer = brokers.writer(*names)
        writer.name = f"writer-{number}"
        writers.append(writer)
    return writers


@pytest.mark.parametrize("order", ["pxqy", "qypx"], ids=["start primary first", "start backup first"])
def test_two_pairs_with_groups(order: str) -> None:
    """2.6.6

    Given two pairs with a group each, started in this or that order, when both primaries crash, then both backups serve
    what was sent to theirs.
    """
    brokers = Brokers("pqxy", manager=True)
    grouped(brokers, {"p": "east", "x": "west"}, {"q": "east", "y": "west"})
    for name in order:
        brokers.hosts[name].start()
        brokers.run(0.2)
    for name in "px":
        brokers.until_in_sync(name)
    writers = two_writers(brokers, "pq", "xy")
    brokers.run(1.0)
    for name in "px":
        brokers.crash(name)
    for writer, name in zip(writers, "qy", strict=True):
        brokers.until_role(name, Role.LIVE)
        goes_on(brokers, writer, name)
    assert brokers.node("q").node_id != brokers.node("y").node_id


@pytest.mark.parametrize("order", ["pxqyrz", "zryqxp"], ids=["start primary first", "start backup first"])
def test_two_pairs_with_extra_backups(order: str) -> None:
    """2.6.7

    Given two pairs with a group and one more backup each, when both primaries crash, and then both that took over,
    then the other backups have been in sync with these, and take over with everything.
    """
    brokers = Brokers("pqrxyz", manager=True)
    grouped(brokers, {"p": "east", "x": "west"}, {"q": "east", "r": "east", "y": "west", "z": "west"})
    for name in order:
        brokers.hosts[name].start()
        brokers.run(0.2)
    writers = two_writers(brokers, "pqr", "xyz")
    for name in "px":
        brokers.until_in_sync(name)
    lives = ["p", "x"]
    for _ in range(2):
        brokers.run(1.0)
        for name in lives:
            brokers.until_in_sync(name)
            brokers.run(0.2)
            brokers.crash(name)
        lives = [live_of(brokers, "pqr"), live_of(brokers, "xyz")]
        for writer, name in zip(writers, lives, strict=True):
            goes_on(brokers, writer, name)


def live_of(brokers: Brokers, names: str) -> str:
    """The one of these that is live; it waits for that."""

    def lives() -> list[str]:
        return [name for name in names if brokers.role(name) is Role.LIVE]

    brokers.until(lambda: len(lives()) == 1)
    return lives()[0]
