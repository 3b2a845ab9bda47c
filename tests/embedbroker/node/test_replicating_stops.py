"""A live broker is to stop while it may confirm nothing, because its backup is lost: it renews its right first."""

from __future__ import annotations

import pytest

from embedbroker.config import Role
from embedbroker.node._flush import FLUSH_SECONDS_MAX
from tests.simulation.store_group import Writer

from .replicating import Brokers, both, pair
from .test_replicating_rights import three_pairs

HELD = "nothing is confirmed until the right to be live is renewed"


def waiting_send(brokers: Brokers, writer: Writer) -> int:
    """Run until a message is on the way that nobody confirms; returns how many were confirmed."""
    brokers.run(0.2)
    before = len(writer.confirmed)
    brokers.run(0.2)
    assert len(writer.confirmed) == before
    return before


def stop(brokers: Brokers) -> float:
    """Stop p in order; returns how long that took."""
    brokers.hosts["p"].stop()
    return stopped(brokers)


def stopped(brokers: Brokers) -> float:
    """Run until p is stopped and what it said last has arrived; returns when it was stopped."""
    took = brokers.until_role("p", Role.STOPPED)
    brokers.run(0.01)
    return took


def is_kept(brokers: Brokers, writer: Writer) -> bool:
    """Whether p, started again, has all that was confirmed."""
    brokers.hosts["p"].start()
    brokers.until_role("p", Role.LIVE)
    return set(writer.confirmed) <= set(brokers.kept("p"))


def test_what_waits_is_confirmed_when_the_lock_manager_answers_in_time() -> None:
    brokers, writer = pair(lease_s=60.0)
    assert brokers.manager is not None
    brokers.manager.reachable = False
    brokers.crash("q")
    before = waiting_send(brokers, writer)
    brokers.hosts["p"].stop()
    brokers.run(FLUSH_SECONDS_MAX / 2)
    assert len(writer.confirmed) == before and brokers.role("p") is Role.LIVE
    brokers.manager.reachable = True
    assert stopped(brokers) < 0.5
    assert len(writer.confirmed) == before + 1 and brokers.failures["p"] is None
    assert "goes on without a backup" in brokers.said("p")
    assert is_kept(brokers, writer)


@both
def test_a_stop_in_the_moment_of_the_loss_waits_for_the_right(manager: bool) -> None:
    brokers, writer = pair(manager=manager)
    brokers.part("p", "q")
    before = waiting_send(brokers, writer)
    brokers.crash("q")
    brokers.until(lambda: HELD in brokers.said("p"))
    stop(brokers)
    assert len(writer.confirmed) == before + 1 and brokers.failures["p"] is None
    assert is_kept(brokers, writer)


def test_a_backup_that_is_lost_behind_the_beginning_of_the_stop_counts_the_same() -> None:
    brokers, writer = pair()
    brokers.part("p", "q")
    before = waiting_send(brokers, writer)
    brokers.hosts["p"].stop()
    # It owes an answer for two seconds, and then it is given up.
    assert stopped(brokers) < FLUSH_SECONDS_MAX
    assert len(writer.confirmed) == before + 1 and brokers.failures["p"] is None
    assert is_kept(brokers, writer)


def test_votes_are_counted_to_the_end() -> None:
    brokers, writer = three_pairs()
    brokers.part("p", "q")
    before = waiting_send(brokers, writer)
    brokers.until(lambda: HELD in brokers.said("p"))
    stop(brokers)
    assert "the others see this broker: 2 of 2 votes that are needed" in brokers.said("p")
    assert len(writer.confirmed) == before + 1


def test_a_vote_that_is_lost_ends_the_stop_and_confirms_nothing() -> None:
    brokers, writer = three_pairs()
    writer.brokers = ("p",)
    brokers.part("p", "qxy")
    before = waiting_send(brokers, writer)
    brokers.until(lambda: HELD in brokers.said("p"))
    assert stop(brokers) < FLUSH_SECONDS_MAX + 1.0
    assert len(writer.confirmed) == before


def test_a_right_that_is_not_renewed_in_time_confirms_nothing() -> None:
    brokers, writer = pair(lease_s=60.0)
    assert brokers.manager is not None
    brokers.manager.reachable = False
    brokers.crash("q")
    before = waiting_send(brokers, writer)
    assert FLUSH_SECONDS_MAX <= stop(brokers) <= FLUSH_SECONDS_MAX + 0.5
    assert len(writer.confirmed) == before


def test_a_right_that_is_gone_ends_the_stop_at_once_and_confirms_nothing() -> None:
    brokers, writer = pair(lease_s=3.0)
    assert brokers.manager is not None
    brokers.manager.reachable = False
    brokers.crash("q")
    before = waiting_send(brokers, writer)
    assert stop(brokers) < 3.0
    assert len(writer.confirmed) == before


@pytest.mark.parametrize("after_s", [0.0, 0.0005, 0.001, 0.002, 0.004])
def test_a_backup_that_is_lost_while_the_stop_ends_holds_nothing_up(after_s: float) -> None:
    brokers, writer = pair(lease_s=60.0)
    brokers.hosts["p"].stop()
    brokers.run(after_s)
    brokers.crash("q")
    brokers.until_role("p", Role.STOPPED, 1.0)
    assert brokers.failures["p"] is None
    assert is_kept(brokers, writer)
