"""Bugs of replicating brokers, to be put in one at a time: in copies, in the stream, and in the right to be live."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Any

import pytest

from embedbroker import storage
from embedbroker.ha._record_file import RecordFile
from embedbroker.ha.replication._activation import ReplicationActivation
from embedbroker.ha.replication._active import ActiveRole
from embedbroker.ha.replication._stages import Event, Stage
from embedbroker.locks import (
    ActivationAttempt,
    AttemptResult,
    KeepLease,
    LeaseActivation,
    LeaseOperation,
    ReadSequence,
    TakeLease,
)
from embedbroker.replication import Replica, ReplicaRecord, ReplicaRegistration, Replicator, ReplicatorState
from embedbroker.replication import _primary as primaries
from embedbroker.replication._initial_copy import InitialCopy
from embedbroker.replication._operations import carried
from embedbroker.storage import DiskOperation, DiskWork, Lane
from embedclient.wire.core import ReplicaInventory, StreamOperation

from .fault_points import fault_point, replace
from .hunting import Bug, confirm_before_sync, every, forget_duplicate_ids, lose_a_prepared_branch

__all__ = ["REPLICA_BUGS"]


# -- the live broker -------------------------------------------------------------------------------------------------


def confirm_before_the_backup_has_it(patch: pytest.MonkeyPatch) -> None:
    replace(patch, "count a work as done", lambda self, lane, issued: True)


def confirm_alone_while_it_hands_over(patch: pytest.MonkeyPatch) -> None:
    """What was issued behind the mark counts when it is done here."""
    issue = fault_point("issue a work")

    def early(self: Replicator, work: DiskWork) -> None:
        issue(self, work)
        if self.state is ReplicatorState.HANDING_OVER:
            self._issued[work.lane].for_both = False

    replace(patch, "issue a work", early)


def go_on_alone_without_asking(patch: pytest.MonkeyPatch) -> None:
    replace(patch, "renew the activation", lambda self: self._go_on())


def claim_no_number_when_the_backup_is_lost(patch: pytest.MonkeyPatch) -> None:
    def generous(self: LeaseActivation, sequence: int, now: float) -> None:
        self.attempt = ActivationAttempt(AttemptResult.GRANTED, sequence)

    patch.setattr(LeaseActivation, "renew", generous)


def forget_the_number_that_was_claimed(patch: pytest.MonkeyPatch) -> None:
    """The record of a broker that goes on alone lacks it."""
    write = RecordFile.write

    def forgetful(
        self: RecordFile, record: ReplicaRecord, then: Callable[[], None] | None = None, *more: Any, **named: Any
    ) -> None:
        if then is not None and record.epoch > self.record.epoch:
            self.record = record
            then()
        else:
            write(self, record, then, *more, **named)

    patch.setattr(RecordFile, "write", forgetful)


def never_renew_the_right(patch: pytest.MonkeyPatch) -> None:
    replace(patch, "renew the activation", lambda self: None)


# -- the right to be live --------------------------------------------------------------------------------------------


def go_on_when_the_lease_is_over(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LeaseActivation, "is_lapsed", lambda self, now: False)


def give_a_lease_twice(patch: pytest.MonkeyPatch) -> None:
    do = fault_point("do a lease operation")

    def generous(self: Any, operation: LeaseOperation) -> object:
        if isinstance(operation, TakeLease | KeepLease):
            return self._manager.let(operation.key, self)
        return do(self, operation)

    replace(patch, "do a lease operation", generous)


def be_live_with_old_data(patch: pytest.MonkeyPatch) -> None:
    """A broker that gets the lease counts on from the number of the lock manager, whatever its own number is."""

    def never_behind(key: str, sequence: int) -> Generator[Any, Any, None]:
        yield (ReadSequence(key),)

    under_lease = fault_point("claim a number under the lease")

    def careless(key: str, sequence: int) -> Any:
        (shared,) = yield (ReadSequence(key),)
        return (yield from under_lease(key, shared))

    replace(patch, "look whether the data is behind", never_behind)
    replace(patch, "claim a number under the lease", careless)


def never_take_over(patch: pytest.MonkeyPatch) -> None:
    request_lease = fault_point("request the lease")

    def modest(self: ReplicationActivation) -> None:
        if "backup" in self._config.name:
            self._stand_by(Event.NO_CLAIM if self._stage is Stage.READING else Event.NOT_ACCEPTED)
        else:
            request_lease(self)

    replace(patch, "request the lease", modest)


def never_give_way(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ActiveRole, "wanted_by", property(lambda self: None, lambda self, value: None), raising=False)


# -- the copy, and the stream ----------------------------------------------------------------------------------------


def catch_up_from_a_wrong_place(patch: pytest.MonkeyPatch) -> None:
    """Files of which the backup has the beginning are taken for whole."""
    compare = fault_point("compare the copies")

    def trusting(self: InitialCopy, inventory: ReplicaInventory, sizes: dict[str, int]) -> Any:
        yield from compare(self, inventory, sizes)
        self._kept.update({name: sizes[name] for name in self._kept})

    replace(patch, "compare the copies", trusting)


def keep_to_itself_what_happens_during_a_copy(patch: pytest.MonkeyPatch) -> None:
    issue = fault_point("issue a work")

    def silent(self: Replicator, work: DiskWork) -> None:
        state = self.state
        if state is ReplicatorState.COPYING:
            self.state = ReplicatorState.ALONE
        issue(self, work)
        self.state = state

    replace(patch, "issue a work", silent)


def drop_a_write_on_the_way(patch: pytest.MonkeyPatch) -> None:
    drops = every(20)

    def losing(operations: Iterable[DiskOperation]) -> list[StreamOperation]:
        return carried([each for each in operations if not (isinstance(each, storage.WriteAt) and drops())])

    patch.setattr(primaries, "carried", losing)


def do_works_out_of_order(patch: pytest.MonkeyPatch) -> None:
    """What comes first is done last, as far as it waits together."""
    gather = fault_point("gather works")

    def backwards(self: Replica, lane: Lane, flow: Any) -> Any:
        return gather(self, lane, flow)[::-1]

    replace(patch, "gather works", backwards)


def answer_before_it_is_done(patch: pytest.MonkeyPatch) -> None:
    on_work, answer = fault_point("receive a work"), fault_point("answer a work")

    def hasty(self: Replica, buffer: bytes | bytearray, start: int, end: int) -> None:
        before = {lane: flow.received for lane, flow in self._lanes.items()}
        on_work(self, buffer, start, end)
        for lane, flow in self._lanes.items():
            if flow.received > before[lane]:
                answer(self, lane, flow.received)

    def silent(self: Replica, lane: Lane, number: int) -> None:
        if lane is Lane.COPY:
            answer(self, lane, number)

    replace(patch, "receive a work", hasty)
    replace(patch, "answer a work", silent)


def leave_out_syncs(patch: pytest.MonkeyPatch) -> None:
    gather = fault_point("gather works")

    def careless(self: Replica, lane: Lane, flow: Any) -> list[DiskOperation]:
        found = gather(self, lane, flow)
        return [storage.ListFiles() if isinstance(each, storage.Sync) else each for each in found]

    replace(patch, "gather works", careless)


def be_in_sync_before_it_is(patch: pytest.MonkeyPatch) -> None:
    """A primary that wants to be live again is let in as soon as it joins."""
    register = Replicator.register

    def hasty(self: Replicator, line: Any, registration: ReplicaRegistration, standing: Any) -> None:
        register(self, line, registration, standing)
        if self.registration is registration and self.owner is not None:
            self.owner.on_synchronised()

    patch.setattr(Replicator, "register", hasty)


REPLICA_BUGS: list[Bug] = [
    confirm_before_the_backup_has_it,
    confirm_alone_while_it_hands_over,
    go_on_alone_without_asking,
    claim_no_number_when_the_backup_is_lost,
    forget_the_number_that_was_claimed,
    never_renew_the_right,
    go_on_when_the_lease_is_over,
    give_a_lease_twice,
    be_live_with_old_data,
    never_take_over,
    never_give_way,
    catch_up_from_a_wrong_place,
    keep_to_itself_what_happens_during_a_copy,
    drop_a_write_on_the_way,
    do_works_out_of_order,
    answer_before_it_is_done,
    leave_out_syncs,
    be_in_sync_before_it_is,
    confirm_before_sync,
    lose_a_prepared_branch,
    forget_duplicate_ids,
]
