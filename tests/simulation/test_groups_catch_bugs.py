"""The checkers of groups can fail: each bug is put into locks, broker or client, and the ordinary seeds must find it.

Bugs of a shared store are here, those of replication in ``replica_bugs``.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from math import inf
from typing import Any

import pytest
from attrs import define, evolve

from embedbroker.locks import (
    Acquire,
    Claim,
    ClaimState,
    Lock,
    LockFault,
    LockOperation,
    MemoryLocks,
    StoreRecord,
    Verify,
    WriteRecord,
)
from embedbroker.locks._frozen import Vacancy
from embedbroker.storage import DiskFault, DiskWork
from embedbroker.testing._disk import SimulatedDisk
from embedbroker.testing._disk_works import DiskWorks
from embedclient.agent.session import _transaction as transactions
from embedclient.errors import ErrorCode, JMSException, exception_for
from tests.simulation.scenario.plan import GroupMode
from tests.simulation.scenario.scenario import run_group_seed

from .fault_points import fault_point, replace
from .hunting import Bug, confirm_before_sync, forget_duplicate_ids, hunt, lose_a_prepared_branch
from .replica_bugs import REPLICA_BUGS

pytestmark = [pytest.mark.search, pytest.mark.timeout(900)]


def hold_on_to_a_lost_lock(patch: pytest.MonkeyPatch) -> None:
    on_look = fault_point("take the results of a look at the lock")

    def believing(self: Claim, results: tuple[object, ...], now: float) -> None:
        _held, waiting, _record = results
        on_look(self, (True, waiting, self.record), now)

    replace(patch, "take the results of a look at the lock", believing)


def confirm_before_looking(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Claim, "sure_until", property(lambda self: inf))


def give_a_lock_twice(patch: pytest.MonkeyPatch) -> None:
    take = MemoryLocks.take

    def generous(self: MemoryLocks, lock: Lock, session: Any) -> bool:
        take(self, lock, session)
        return True

    patch.setattr(MemoryLocks, "take", generous)
    patch.setattr(MemoryLocks, "holds", lambda self, lock, session: True)
    patch.setattr(StoreRecord, "may_follow", lambda self, life: True)


def be_live_without_the_lock(patch: pytest.MonkeyPatch) -> None:
    on_done = Claim.on_done

    def hasty(self: Claim, batch: int, results: tuple[object, ...], now: float) -> None:
        asked = zip(self._under_way or (), results, strict=True)
        granted = [True if isinstance(operation, Acquire | Verify) else result for operation, result in asked]
        on_done(self, batch, tuple(granted), now)

    patch.setattr(Claim, "on_done", hasty)
    patch.setattr(MemoryLocks, "holds", lambda self, lock, session: True)
    patch.setattr(StoreRecord, "may_follow", lambda self, life: True)


def write_no_record(patch: pytest.MonkeyPatch) -> None:
    do = fault_point("do a lock operation")

    def forgetful(self: Any, operation: LockOperation) -> object:
        return None if isinstance(operation, WriteRecord) else do(self, operation)

    replace(patch, "do a lock operation", forgetful)
    patch.setattr(StoreRecord, "may_follow", lambda self, life: True)


def be_live_before_the_record_says_so(patch: pytest.MonkeyPatch) -> None:
    settle = Claim.settle

    def hasty(self: Claim, node_id: str, journal_identity: int | None, last_batch: int | None = None) -> None:
        settle(self, node_id, journal_identity, last_batch)
        self.state = ClaimState.LIVE

    patch.setattr(Claim, "settle", hasty)


def say_paused_after_a_crash(patch: pytest.MonkeyPatch) -> None:
    """The record is written as if every life ended in order."""
    claim_it = fault_point("claim the lock")

    def pessimist(self: Claim, over: int | None) -> None:
        claim_it(self, over)
        paused = evolve(self.record, state=next(state for state in type(self.record.state) if state.value == "paused"))
        self._wanted = (WriteRecord(paused, over=over),)

    replace(patch, "claim the lock", pessimist)


def never_take_over(patch: pytest.MonkeyPatch) -> None:
    replace(patch, "may inherit the lock", lambda self, answers, now, *, waits: False)


def never_give_way(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Claim, "wanted_by", property(lambda self: None, lambda self, value: None), raising=False)


def wait_for_the_frozen_for_ever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Vacancy, "lasts", lambda self, before, now: False)


def give_up_after_a_fault(patch: pytest.MonkeyPatch) -> None:
    """A waiting broker stops requesting the lock when the store fails."""
    on_failed = Claim.on_failed

    def discouraged(self: Claim, batch: int, fault: LockFault, now: float) -> None:
        on_failed(self, batch, fault, now)
        self._due = None

    patch.setattr(Claim, "on_failed", discouraged)


def let_a_life_that_ended_write_on(patch: pytest.MonkeyPatch) -> None:
    """What was under way reaches the disk when another broker works on it."""

    def late(self: DiskWorks) -> None:
        for work in self.under_way.values():
            self.world.after(0.3, _LateWork(self.disk, work), None)
        self.under_way.clear()
        self.written.clear()

    patch.setattr(DiskWorks, "end", late)


@define(eq=False)
class _LateWork:
    disk: SimulatedDisk
    work: DiskWork

    def on_event(self, event: object) -> None:
        with suppress(DiskFault):
            self.disk.run(self.work.operations)


def serve_a_journal_that_lost_files(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Claim, "meet_journal", lambda self, identity, last_batch=None: None)


def note_batches_that_are_not_on_disk(patch: pytest.MonkeyPatch) -> None:
    note = Claim.note_last_batch
    patch.setattr(Claim, "note_last_batch", lambda self, last_batch: note(self, last_batch + 20))


def lose_the_mark_that_only_a_rollback_is_left(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(transactions.Transaction, "rollback_only", property(lambda self: False))


def call_a_commit_in_doubt_rolled_back(patch: pytest.MonkeyPatch) -> None:
    def certain(code: ErrorCode, text: str) -> JMSException:
        sure = ErrorCode.TRANSACTION_ROLLED_BACK if code is ErrorCode.TRANSACTION_OUTCOME_UNKNOWN else code
        return exception_for(sure, text)

    patch.setattr(transactions, "exception_for", certain)


def call_a_transaction_that_is_lost_one_in_doubt(patch: pytest.MonkeyPatch) -> None:
    """What its user has to look up then, although its commit was not even sent."""

    def doubtful(cause: JMSException | None = None) -> JMSException:
        return exception_for(ErrorCode.UNBLOCKED, f"the connection was lost: {cause}")

    patch.setattr(transactions, "rolled_back", doubtful)


def raise_what_interrupted_a_commit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(transactions, "INTERRUPTED", ())


BUGS: list[Bug] = [
    hold_on_to_a_lost_lock,
    confirm_before_looking,
    give_a_lock_twice,
    be_live_without_the_lock,
    write_no_record,
    be_live_before_the_record_says_so,
    say_paused_after_a_crash,
    never_take_over,
    never_give_way,
    wait_for_the_frozen_for_ever,
    give_up_after_a_fault,
    let_a_life_that_ended_write_on,
    serve_a_journal_that_lost_files,
    note_batches_that_are_not_on_disk,
    confirm_before_sync,
    lose_a_prepared_branch,
    forget_duplicate_ids,
    lose_the_mark_that_only_a_rollback_is_left,
    call_a_commit_in_doubt_rolled_back,
    call_a_transaction_that_is_lost_one_in_doubt,
    raise_what_interrupted_a_commit,
]


CASES = [
    *(pytest.param(GroupMode.SHARED_STORE, bug, id=f"store: {bug.__name__}") for bug in BUGS),
    *(pytest.param(GroupMode.REPLICATION, bug, id=f"replication: {bug.__name__}") for bug in REPLICA_BUGS),
]


@pytest.mark.parametrize(("mode", "bug"), CASES)
def test_the_ordinary_seeds_find(
    mode: GroupMode, bug: Bug, monkeypatch: pytest.MonkeyPatch, record_property: Callable[..., None]
) -> None:
    hunt(mode.name, bug, lambda seed: run_group_seed(seed, mode), monkeypatch, record_property)
