"""The way of one broker to the right to be active, and its behaviour while it has that right.

Responsible for the rules: which broker may take the live lock when, which goes before which, when an active backup
gives way, and what the record contains afterwards. Does not run operations, does not read a clock, and does not depend
on what being active means. The node reads the state of the claim, and reports when the journal is read and when the
broker leaves.

What may happen with a primary P and two backups A and B on one store:

1. P is active: it holds the live lock, the record is active. A holds the backup lock and requests the live lock again
   and again; B requests the backup lock.
2. P dies. Its locks are free, the record is still active: A takes the live lock, gives the backup lock to B once it
   serves, and B requests the live lock now.
3. P is stopped in order instead: the record is paused, and A waits on, although the lock is free. With
   failover-on-shutdown the record stays active, as in 2.
4. P returns after 2: it takes the failback lock and requests the live lock. A sees the failback lock, writes that it
   gives way, and ends. P gets the lock, because no backup takes it while a primary holds the failback lock. When P
   serves, it gives the failback lock back.
5. P dies while it waits in 4. Its failback lock is free: A stays active, or, when A has ended already, B takes over. A
   record "failing back" without a primary to fail back to counts as an active one.
6. P starts after a stop in order, and dies before it serves. It wrote that it is active when it got the lock, before it
   touched the journal: A takes over.
7. A, which is next, is frozen when P dies. B sees that no broker takes the free live lock, and takes it itself after a
   while. A goes on waiting when it wakes up.
8. P returns after 2, and is frozen before A has given way. No broker takes the free live lock: A, a backup again, does
   after a while. A does not give way to P again before P has given its failback lock back. P does so when it wakes up
   and finds another broker active, and requests the lock again a moment later.
9. The locks do not reach every machine, and P is active on one and A on another. The record contains the broker start
   to which the lock was granted last: the other broker reads that at its next check, and ends.
"""

from __future__ import annotations

from math import inf

from attrs import evolve

from embedbroker.config import HAPolicy, PrimaryOnly, SharedStoreBackup, SharedStorePrimary

from ._claim_state import CLAIM_TRANSITIONS, ClaimEvent, ClaimState, LogEntry
from ._frozen import HIDDEN_S, Sign, Vacancy
from ._operations import (
    NOT_ALONE,
    Acquire,
    LiveState,
    Lock,
    LockFault,
    LockOperation,
    LockWork,
    ReadHolder,
    ReadRecord,
    Release,
    StoreRecord,
    Verify,
    WriteRecord,
)
from ._transitions import state_after

__all__ = ["Claim"]

#: Seconds between the requests of a waiting broker: a failover waits at most that long before the journal is read.
REQUEST_EVERY_S = 0.05
#: Seconds between log lines about a store that fails again and again.
NOTED_EVERY_S = 60.0
#: Seconds without a request after the store failed.
REQUEST_AFTER_FAULT_S = 2.0
#: The same for a broker that needs the answer, while the store is short of something that comes back.
REQUEST_AFTER_SHORTAGE_S = 0.25
#: Seconds between the checks of an active broker: whether it holds the lock, and whether a primary waits to fail back.
LOOK_EVERY_S = 0.5
#: The same for a broker that shares its directory with no other.
LOOK_ALONE_EVERY_S = 2.0
#: How long a check counts, in seconds. After a longer sleep an active broker checks again before the disk confirms
#: anything.
SURE_FOR_S = 4.0
#: How long an answer that a broker needs may take, in seconds. File servers keep locks of silent clients for a minute
#: or more.
ANSWERED_WITHIN_S = 15.0
#: How much longer an overdue answer may take, in seconds: a process that slept itself has not received it yet.
RECEIVED_WITHIN_S = 2.0
#: How long a backup waits for a first active broker before that looks like a mistake in the configuration, in seconds.
NO_PRIMARY_AFTER_S = 10.0

_WAITS = (ClaimState.REQUESTING, ClaimState.QUEUED, ClaimState.WAITING)
_HOLDS = (ClaimState.CLAIMING, ClaimState.GRANTED, ClaimState.SETTLING, ClaimState.LIVE)
# The operations of a poll; results come in this order.
_ALONE = (Acquire(Lock.LIVE), ReadHolder(Lock.LIVE), ReadRecord())
_PRIMARY = (Acquire(Lock.FAILBACK), *_ALONE)
_BACKUP = (ReadHolder(Lock.FAILBACK), ReadRecord())
_LOOK = (Verify(Lock.LIVE), ReadHolder(Lock.FAILBACK), ReadRecord())
_INHERITED = (LiveState.ACTIVE, LiveState.FAILING_BACK)


class Claim:
    """The claim of one broker start, whose number no other start of any broker has.

    ``failure`` is set when the broker must end. ``wanted_by`` names a primary that waits, if this broker must give way
    to one, and ``wanted_since`` when it came.

    Args:
        policy: The part of the broker in its group; not a replication policy.
        acquisition_timeout_ms: How long it waits for the lock, in milliseconds; below zero without a limit.
        life: The number of this broker start.
    """

    def __init__(self, policy: HAPolicy, acquisition_timeout_ms: int, life: int) -> None:
        assert isinstance(policy, PrimaryOnly | SharedStorePrimary | SharedStoreBackup), policy
        self.state = ClaimState.NEW
        self.record = StoreRecord()
        self.failure: str | None = None
        self.wanted_by: str | None = None
        self.wanted_since = 0.0
        self._wanted_at = -inf
        self._wanted_last = ""
        self.notes: list[LogEntry] = []
        self._policy = policy
        self._life = life
        self._timeout_s = acquisition_timeout_ms / 1000 if acquisition_timeout_ms >= 0 else None
        self._gives_up_at: float | None = None
        self._look_every_s = LOOK_ALONE_EVERY_S if isinstance(policy, PrimaryOnly) else LOOK_EVERY_S
        self._doubts_at = 0.0
        self._due: float | None = None
        self._batches = 0
        self._under_way: tuple[LockOperation, ...] | None = None
        self._wanted: tuple[LockOperation, ...] | None = None
        # The one of `_wanted` and `_under_way` that records how far the journal has come, and may fail.
        self._optional: tuple[LockOperation, ...] | None = None
        # When the batch under way was handed out, and when its answer is overdue.
        self._requested_at = 0.0
        self._overdue_at: float | None = None
        self._overslept = False
        # When the live lock was held for sure the last time.
        self._sure_at = 0.0
        # Since when the store has been short of something, at each request, and until when it receives no request.
        self._short_since: float | None = None
        self._paused_until = -inf
        # For a backup whose claim a shortage ended: when it claims again.
        self._claims_at = -inf
        self._fault_noted: tuple[str, float] = "", -inf
        # The record from before the live lock was granted.
        self._before = StoreRecord()
        # For a backup: whether it takes the live lock as soon as that is free.
        self._inherits = False
        self._is_next = False
        self._vacancy = Vacancy()
        # It did not wait for the primary that waits: that primary was frozen.
        self._passed_over = False
        # For a primary.
        self._sign = Sign()
        self._troubled = False
        self._reason = ""

    # -- events of the node --------------------------------------------------------------------------------------

    def begin(self, now: float) -> None:
        """Request the right to be active."""
        self._apply(ClaimEvent.STARTED)
        if self._timeout_s is not None:
            self._gives_up_at = now + self._timeout_s
        self._doubts_at = now + NO_PRIMARY_AFTER_S
        self._due = now

    def meet_journal(self, identity: int | None, last_batch: int | None = None) -> None:
        """Compare the journal that was read with the record: another one belongs to another node.

        ``identity`` None: there is no journal, or an empty one where the node had another. ``last_batch`` is where it
        ends; an end before the one in the record is a loss.
        """
        record = self.record
        known = record.journal_identity
        if known is None:
            return
        node = f"node {record.node_id}" if record.node_id is not None else "the node whose directory was copied"
        if identity is None:
            self._fail(
                f"there is no journal, but {node} has one: is its data directory mounted? Bring it"
                " back, or remove the record of the lock store (node.state) for a new node without messages"
            )
        elif identity == known:
            if record.last_batch is not None and last_batch is not None and last_batch < record.last_batch:
                self._fail(
                    f"the journal of {node} ends with batch {last_batch}, but batch {record.last_batch} was on disk:"
                    " its newest segments are missing, or it is an older copy. Bring the missing files back, or remove"
                    " the record of the lock store (node.state) for a new node with the messages that are left"
                )
        elif isinstance(self._policy, PrimaryOnly):
            self.notes.append(LogEntry(True, f"the journal is not that of {node}: the broker gets a new node id"))
            self.record = StoreRecord(life=self._life)
        else:
            self._fail(
                f"the journal is not that of {node}: put that back, or remove the record of the"
                " lock store (node.state), and the brokers that share it become a node of their own"
            )

    def settle(self, node_id: str, journal_identity: int | None, last_batch: int | None = None) -> None:
        """Record which node is active, then be it. ``last_batch`` of its journal is on disk."""
        self._apply(ClaimEvent.RECOVERED)
        record = StoreRecord(LiveState.ACTIVE, node_id, journal_identity, life=self._life, last_batch=last_batch)
        self._write(record)

    def note_last_batch(self, last_batch: int) -> bool:
        """Record how far the journal is on disk, as the next work; return True if there is something to write.

        A failure of the store is no reason to stop: the record is behind then, and the next one is right again.
        """
        if self.state is not ClaimState.LIVE or self.record.last_batch == last_batch:
            return False
        self.record = evolve(self.record, last_batch=last_batch)
        self._wanted = self._optional = (WriteRecord(self.record, over=self._life),)
        return True

    def leave(self, state: LiveState | None, last_batch: int | None = None) -> None:
        """Write the state of the closed journal, or leave the record unchanged, and end.

        A broker that has not served yet leaves the group unchanged, whatever the state.
        """
        if state is None or self.state not in _HOLDS:
            if self.state is not ClaimState.OVER:
                self._apply(ClaimEvent.ENDED)
            return
        if self.state in (ClaimState.CLAIMING, ClaimState.GRANTED):
            record = evolve(self._before, life=self._life)
        else:
            record = evolve(self.record, state=state, last_batch=last_batch)
        self._apply(ClaimEvent.JOURNAL_CLOSED)
        self._write(record)

    @property
    def farewell(self) -> LiveState | None:
        """Return what an orderly stop must write; None if a backup must take over."""
        hands_over = not isinstance(self._policy, PrimaryOnly) and self._policy.failover_on_shutdown
        return None if hands_over else LiveState.PAUSED

    @property
    def restarts(self) -> bool:
        """Return True if its broker, having given way, must wait as backup again."""
        return isinstance(self._policy, SharedStoreBackup) and self._policy.restart_backup

    @property
    def sure_until(self) -> float:
        """Return how long the last check counts, in monotonic seconds. A broker that was frozen may have lost the live
        lock without having seen it."""
        return self._sure_at + SURE_FOR_S if self.state in _HOLDS else inf

    def is_sure(self, now: float) -> bool:
        """Return True if the last check still counts."""
        return now <= self.sure_until

    # -- work ----------------------------------------------------------------------------------------------------

    def take_work(self, now: float) -> LockWork | None:
        """Return the operations to do now, one batch at a time."""
        if self._under_way is not None or self.state in (ClaimState.NEW, ClaimState.OVER) or now < self._paused_until:
            return None
        operations, self._wanted = self._wanted, None
        if operations is None:
            if self._due is None or now < self._due or self.state is ClaimState.LEAVING:
                return None
            operations = self._question(now)
        if operations is not self._optional:  # the next check keeps its time
            self._due = None
        self._under_way = operations
        self._batches += 1
        self._requested_at = now
        self._overdue_at = now + ANSWERED_WITHIN_S
        self._overslept = False
        return LockWork(self._batches, operations)

    def next_deadline(self) -> float | None:
        """Return when there is work to take, or an answer is overdue, in monotonic seconds."""
        if self.state is ClaimState.OVER:
            return None
        return self._due if self._under_way is None else self._overdue_at

    def on_time(self, now: float) -> bool:
        """Check whether an answer is overdue; return True if that changes something."""
        if self._under_way is None or self._overdue_at is None or now < self._overdue_at:
            return False
        if not self._overslept:
            self._overslept = True
            self._overdue_at = now + RECEIVED_WITHIN_S
            return False
        self._overdue_at = None
        silence = f"the lock store has not answered for {now - self._requested_at:.0f} s"
        match self.state:
            case ClaimState.OVER:
                return False
            case ClaimState.QUEUED | ClaimState.WAITING:
                self.notes.append(LogEntry(True, silence))
            case ClaimState.LEAVING:
                self.notes.append(LogEntry(True, f"{silence}: it may not know of this stop"))
                self._apply(ClaimEvent.ENDED)
            case ClaimState.REQUESTING:
                self._fail(silence)
            case _:
                self._fail(f"{silence}: another broker may be live")
        return True

    def on_done(self, batch: int, results: tuple[object, ...], now: float) -> None:
        """Handle the results of a batch."""
        operations = self._finish(batch)
        if self.state is ClaimState.OVER:
            return
        self._troubled = False
        self._short_since = None
        if self.state is ClaimState.LEAVING:
            self._end_leaving()
        elif self.state in _WAITS:
            self._on_answer(operations, results, now)
        elif operations == _LOOK:
            self._on_look(results, now)
        elif operations is self._optional:
            pass
        elif self._wanted is None:
            self._on_written(operations, now)

    def on_failed(self, batch: int, fault: LockFault, now: float) -> None:
        """Handle a failure of the store: a waiting broker tries again, an active one cannot be sure of its right any
        more."""
        operations = self._finish(batch)
        match self.state:
            case ClaimState.OVER:
                pass
            case ClaimState.LIVE if operations is self._optional:
                self.notes.append(LogEntry(True, f"the record (node.state) does not follow the journal: {fault}"))
                self._due = now
            case ClaimState.QUEUED | ClaimState.WAITING:
                self._note_fault(fault, now)
                self._due = now + REQUEST_AFTER_FAULT_S
            case _ if fault.passes and self._outlasts(operations, fault, now):
                pass
            case ClaimState.LEAVING:
                self.notes.append(LogEntry(True, f"the lock store does not know of this stop: {fault}"))
                self._end_leaving()
            case _:
                self._fail(str(fault))

    # -- inside --------------------------------------------------------------------------------------------------

    def _note_fault(self, fault: LockFault, now: float) -> None:
        text, at = self._fault_noted
        if not self._troubled and (str(fault) != text or now >= at + NOTED_EVERY_S):
            self._fault_noted = str(fault), now
            self.notes.append(LogEntry(True, f"the lock store failed, it is asked again: {fault}"))
        self._troubled = True

    def _outlasts(self, operations: tuple[LockOperation, ...], fault: LockFault, now: float) -> bool:
        """Return True if the claim waits for a shortage at the store to end.

        A shortage is no answer, and counts like silence.

        What is held is held still, and `sure_until` keeps an active broker from confirming anything meanwhile.
        """
        if self._short_since is None:
            self._short_since = self._requested_at
        if isinstance(self._policy, SharedStoreBackup) and self.state in (ClaimState.REQUESTING, ClaimState.CLAIMING):
            # No client is served here yet: it waits without a limit.
            self._note_fault(fault, now)
            if self.state is ClaimState.CLAIMING:
                self._give_up_claim(now)
            else:
                self._due = self._paused_until = now + REQUEST_AFTER_FAULT_S
            return True
        patience_s = RECEIVED_WITHIN_S if self.state is ClaimState.LEAVING else ANSWERED_WITHIN_S
        if now >= self._short_since + patience_s:
            return False
        if self.state in _HOLDS or self.state is ClaimState.LEAVING:
            self._repeat(operations)
        self._note_fault(fault, now)
        self._due = self._paused_until = now + REQUEST_AFTER_SHORTAGE_S
        return True

    def _give_up_claim(self, now: float) -> None:
        """Give the live lock back: another broker may succeed."""
        self._apply(ClaimEvent.NEXT if self._is_next else ClaimEvent.BEHIND)
        self.record = self._before
        self._inherits = False
        self._claims_at = now + REQUEST_AFTER_FAULT_S
        self._wanted = (Release(Lock.LIVE), *_BACKUP)
        self._due = now

    def _repeat(self, operations: tuple[LockOperation, ...]) -> None:
        """Keep what was to be written for the next work, unless something newer is."""
        wanted = self._wanted
        if operations == _LOOK or wanted is None:
            self._wanted = wanted if operations == _LOOK else operations
        elif not any(isinstance(operation, WriteRecord) for operation in wanted):
            writes = tuple(operation for operation in operations if isinstance(operation, WriteRecord))
            self._wanted = (*writes, *wanted)

    def _finish(self, batch: int) -> tuple[LockOperation, ...]:
        assert batch == self._batches and self._under_way is not None, batch
        operations, self._under_way = self._under_way, None
        return operations

    def _end_leaving(self) -> None:
        """End, unless work from before must be done first."""
        if self._wanted is None:
            self._apply(ClaimEvent.RECORDED)

    def _apply(self, event: ClaimEvent) -> None:
        """Move to the state that follows from an event. No other function sets the state."""
        self.state = state_after(CLAIM_TRANSITIONS, self.state, event)

    def _fail(self, reason: str) -> None:
        self.failure = reason
        self._apply(ClaimEvent.FAILED)

    def _write(self, record: StoreRecord) -> None:
        """Write the record, if it is another one; an active broker needs no other lock any more."""
        writes = (WriteRecord(record, over=self._life),) if record != self.record else ()
        self.record = record
        self._wanted = (*writes, Release(Lock.FAILBACK), Release(Lock.BACKUP))

    def _question(self, now: float) -> tuple[LockOperation, ...]:
        if self.state in _HOLDS:
            return _LOOK
        match self._policy:
            case PrimaryOnly():
                return _ALONE
            case SharedStorePrimary():
                return _PRIMARY
            case _:
                return self._question_of_backup(now)

    def _question_of_backup(self, now: float) -> tuple[LockOperation, ...]:
        """Return the operations of a poll by a backup. It touches the live lock only when it would keep it, or seldom:
        a primary that requests it must find it free."""
        queues = () if self._is_next else (Acquire(Lock.BACKUP),)
        if self._inherits:
            return (*queues, Acquire(Lock.LIVE), *_BACKUP)
        sees = self.record.state in _INHERITED and self._vacancy.is_to_be_seen(now)
        return (*queues, *_BACKUP, ReadHolder(Lock.LIVE)) if sees else (*queues, *_BACKUP)

    def _on_answer(self, operations: tuple[LockOperation, ...], results: tuple[object, ...], now: float) -> None:
        answers = dict(zip(operations, results, strict=True))
        record = answers.get(ReadRecord())
        if record is None:
            self._due = now + HIDDEN_S
            return
        assert isinstance(record, StoreRecord)
        self.record = record
        if record.copied and not self._is_new_node():
            return
        if isinstance(self._policy, SharedStoreBackup):
            self._wait_as_backup(answers, now)
        elif answers[Acquire(Lock.LIVE)]:
            self._claim_it(record.life)
        else:
            self._wait_as_primary(answers[ReadHolder(Lock.LIVE)], now)
        if self.state in _WAITS:
            self._wait(now)

    def _claim_it(self, over: int | None) -> None:
        """Record that the live lock is here. The record names this broker from now on, although it serves no client
        yet: see 6 and 9 above."""
        self._apply(ClaimEvent.LOCKED)
        self._before = self.record
        self.record = evolve(self.record, state=LiveState.ACTIVE, copied=False, life=self._life)
        self._sure_at = self._requested_at
        self._wanted = (WriteRecord(self.record, over=over),)

    def _on_written(self, operations: tuple[LockOperation, ...], now: float) -> None:
        """Go on after a write, which only the holder of the live lock does."""
        if isinstance(operations[0], WriteRecord):
            self._sure_at = self._requested_at
        self._due = now + self._look_every_s if self.is_sure(now) else now
        if self.state is ClaimState.CLAIMING:
            self._apply(ClaimEvent.RECORDED)
        else:
            self._begin_if_sure(now)

    def _begin_if_sure(self, now: float) -> None:
        """Become active if the last check counts.

        A broker that was frozen while the store answered checks once more before it serves.

        A check that was under way when the journal was read does not cover the record, which is still to be written.
        """
        if self.state is ClaimState.SETTLING and self._wanted is None and self.is_sure(now):
            self._apply(ClaimEvent.RECORDED)

    def _wait(self, now: float) -> None:
        # A backup that is next has nothing to wait for but a death: it may take years.
        patient = isinstance(self._policy, SharedStoreBackup) and self.state is ClaimState.WAITING
        if not patient and self._gives_up_at is not None and now >= self._gives_up_at:
            self._fail(f"the lock was not to be had within {self._timeout_s:g} s: {self._reason}")
        else:
            self._due = now + REQUEST_EVERY_S

    def _is_new_node(self) -> bool:
        """Become a new node if that is allowed; return True if it was. A copied store would make the same node exist
        twice, so only a broker that shares it with no other takes a new id instead."""
        if isinstance(self._policy, PrimaryOnly):
            self.notes.append(
                LogEntry(
                    True, f"the data directory is a copy of that of node {self.record.node_id}: it gets a new node id"
                )
            )
            # Its journal was copied with it, or messages are missing.
            self.record = StoreRecord(journal_identity=self.record.journal_identity, last_batch=self.record.last_batch)
            return True
        self._fail(
            f"the lock store is a copy of that of node {self.record.node_id}, which would exist twice: remove its"
            " record (node.state), and the brokers that share it become a node of their own"
        )
        return False

    def _wait_as_primary(self, holder: object, now: float) -> None:
        if isinstance(self._policy, PrimaryOnly):
            if holder is not None:
                self._fail(f"the data directory is used by {holder}")
            return  # a backup looked at the lock in that moment
        name = str(holder or "another broker")
        # An active backup gives way, if it is allowed to; a primary that waits for a primary may wait for ever.
        equals = name.startswith("primary ")
        question = ", and a primary gives way to no other broker: is this one meant to be its backup?" if equals else ""
        self._wait_for(ClaimEvent.NEXT, f"waits to be live: {name} is{question}", warning=equals)
        if not equals and self._sign.is_due(self.record.life, now):
            self._wanted = (Release(Lock.FAILBACK),)

    def _wait_as_backup(self, answers: dict[LockOperation, object], now: float) -> None:
        self._is_next = answers.get(Acquire(Lock.BACKUP), self._is_next) is True
        has_lock = answers.get(Acquire(Lock.LIVE)) is True
        waits = answers[ReadHolder(Lock.FAILBACK)] is not None
        self._inherits = self.record.state in _INHERITED and self._may_inherit(answers, now, waits=waits)
        if self._inherits and has_lock:
            self._passed_over = waits
            self._claim_it(self.record.life)
            return
        if has_lock:
            self._wanted = (Release(Lock.LIVE), *_BACKUP)
        if self._is_next:
            self._stand_first(now)
        else:
            self._wait_for(ClaimEvent.BEHIND, "waits behind another backup")

    def _may_inherit(self, answers: dict[LockOperation, object], now: float, *, waits: bool) -> bool:
        """Return True if no broker goes before this backup, or only frozen ones."""
        if now < self._claims_at:
            return False
        if self._is_next and not waits:
            return True
        if ReadHolder(Lock.LIVE) in answers:
            self._vacancy.see(free=answers[ReadHolder(Lock.LIVE)] is None, now=now)
        elif answers.get(Acquire(Lock.LIVE)) is False:
            self._vacancy.end()
        return self._vacancy.lasts((not self._is_next) + waits, now)

    def _stand_first(self, now: float) -> None:
        match self.record.state:
            case LiveState.NOT_STARTED if now >= self._doubts_at:
                reason = "no primary has ever been live on this store: is one of its brokers configured as primary?"
            case LiveState.NOT_STARTED:
                reason = "waits as backup: no primary has been live on this store yet"
            case LiveState.PAUSED:
                reason = "waits as backup: the live broker was stopped in order, only a primary starts again"
            case _:
                reason = "waits as backup for the live broker to die"
        self._wait_for(ClaimEvent.NEXT, reason, warning=reason.endswith("?"))

    def _wait_for(self, event: ClaimEvent, reason: str, *, warning: bool = False) -> None:
        self._apply(event)
        if reason != self._reason:
            self._reason = reason
            self.notes.append(LogEntry(warning, reason))

    def _on_look(self, results: tuple[object, ...], now: float) -> None:
        held, waiting, record = results
        assert (waiting is None or isinstance(waiting, str)) and isinstance(record, StoreRecord), results
        if not held:
            self._fail("the live lock is lost: another broker may be live")
            return
        if not record.may_follow(self._life):
            self._fail(NOT_ALONE)
            return
        if (record.life is None or record.copied) and self._wanted is None:
            text = "the record of the lock store (node.state) was removed or replaced: it is written again"
            self.notes.append(LogEntry(True, text))
            self._wanted = (WriteRecord(self.record, over=self._life),)
        self._sure_at = self._requested_at
        self._due = now + self._look_every_s if self.is_sure(now) else now
        self._begin_if_sure(now)
        if isinstance(self._policy, SharedStoreBackup) and self._policy.allow_failback:
            self._passed_over = self._passed_over and waiting is not None
            wanted_by = None if self._passed_over else waiting
            # It may give its lock back for a moment, to show that it is awake: that is one wait, not two.
            if wanted_by is not None:
                if now > self._wanted_at + 2 * HIDDEN_S or wanted_by != self._wanted_last:
                    self.wanted_since = now
                self._wanted_at, self._wanted_last = now, wanted_by
            self.wanted_by = wanted_by
