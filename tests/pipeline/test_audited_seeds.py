"""Ordinary seeds of the simulator with an audit log: nothing changes for clients, and its content is the truth.

The ledger of a run has what each client got. What the audit makes of the log and the journal alone has
to agree with it, through crashes, fail-overs, transactions and everything else that a seed brings.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from embedbroker.kernel import Consumer, Outcome, Queue, Reference, Settlement
from embedbroker.storage import Journal
from embedbroker.storage.recovery._recovered import JournaledMessage
from tests.pipeline.audited_seeds import audited, verdicts
from tests.simulation.fault_points import fault_point, replace
from tests.simulation.hunting import every, failed_by_itself
from tests.simulation.scenario import ScenarioFailed, run_seed
from tests.simulation.scenario.plan import GroupMode
from tests.simulation.scenario.scenario import run_group_seed

PROBLEMS = {"never delivered", "delivered twice", "never acknowledged", "not logged"}
Bug = Callable[[pytest.MonkeyPatch], None]


@pytest.mark.parametrize("seed", range(500, 506))
def test_a_seed_is_the_same_with_an_audit_log_and_nothing_is_missing_in_it(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without = run_seed(seed)
    with audited(monkeypatch) as hosts:
        result = run_seed(seed)
    assert result.digest == without.digest
    found = verdicts(hosts, tmp_path)
    assert result.verdict.clean and not PROBLEMS & found.keys()
    # Clients that sent with a confirmation got it later than the log had it.
    confirmed = sum(count for _, count in found["confirmed"])
    assert confirmed >= result.verdict.confirmed > 0


@pytest.mark.parametrize(("mode", "seed"), [(GroupMode.SHARED_STORE, 2), (GroupMode.REPLICATION, 3)])
def test_the_logs_of_a_live_broker_and_its_backup_are_one(
    mode: GroupMode, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without = run_group_seed(seed, mode)
    with audited(monkeypatch) as hosts:
        result = run_group_seed(seed, mode)
    assert result.digest == without.digest
    assert sum(bool(host.audit and host.audit.files()) for host in hosts) > 1, "a backup took over"
    found = verdicts(hosts, tmp_path)
    assert result.verdict.clean and not PROBLEMS & found.keys()


def deliver_twice(patch: pytest.MonkeyPatch) -> None:
    hand, repeats = fault_point("deliver"), every(20)

    def stuttering(self: Queue, consumer: Consumer, reference: Reference) -> None:
        hand(self, consumer, reference)
        if repeats():
            consumer.port.deliver(consumer, reference)

    replace(patch, "deliver", stuttering)


def forget_that_it_was_delivered(patch: pytest.MonkeyPatch) -> None:
    give_back, forgets = fault_point("give back"), every(5)

    def forgetful(self: Settlement, queue: Queue, reference: Reference, outcome: Outcome, *others: Any) -> None:
        give_back(self, queue, reference, outcome, *others)
        if outcome.delivery_failed and forgets():
            reference.delivery_count = 0

    replace(patch, "give back", forgetful)


def acknowledge_what_nobody_got(patch: pytest.MonkeyPatch) -> None:
    hand, swallows = fault_point("deliver"), every(20)

    def greedy(self: Queue, consumer: Consumer, reference: Reference) -> None:
        if swallows():
            self.delivering_count += 1
            self.owner.settle_delivered(self, reference)
        else:
            hand(self, consumer, reference)

    replace(patch, "deliver", greedy)


def confirm_what_was_not_stored(patch: pytest.MonkeyPatch) -> None:
    add, skips = Journal.add_message, every(10)

    def careless(
        self: Journal, message: JournaledMessage, transaction_id: int, references: list[tuple[int, int]]
    ) -> None:
        if transaction_id or not skips():
            add(self, message, transaction_id, references)

    patch.setattr(Journal, "add_message", careless)


@pytest.mark.parametrize(
    ("bug", "verdict"),
    [
        (deliver_twice, "delivered twice"),
        (forget_that_it_was_delivered, "delivered twice"),
        (acknowledge_what_nobody_got, "never delivered"),
        (confirm_what_was_not_stored, "never delivered"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_faulty_broker_is_found_by_its_log(
    bug: Bug, verdict: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checkers of the simulation end such a seed, too; the audit does not depend on them."""
    for seed in range(500, 515):
        with monkeypatch.context() as patch:
            bug(patch)
            with audited(patch) as hosts:
                try:
                    run_seed(seed)
                except ScenarioFailed as failure:
                    assert not failed_by_itself(bug, failure), f"the bug does not fit the broker: {failure.text}"
        if verdict in verdicts(hosts, tmp_path / str(seed)):
            return
    pytest.fail(f"no seed made the log say {verdict!r}")
