"""The way of one broker to the right to be live, and what it does about that right until it ends.

Responsible for the rules: who may take the live lock when, who goes before whom, when a live backup gives way, and what
the record says afterwards. Refuses to run operations, to read a clock, and to know what being live means; the node asks
it, and tells it when the journal is read and when the broker leaves.

What may happen with a primary P and two backups A and B on one store:

1. P is live: it holds the live lock, the record is active. A holds the backup lock and asks for the live lock again and
   again; B asks for the backup lock.
2. P dies. Its locks are free, the record is still active: A takes the live lock, gives the backup lock to B once it
   serves, and B asks for the live lock now.
3. P is stopped in order instead: the record is paused, and A waits on, although the lock is free. With
   failover-on-shutdown the record stays active, as in 2.
4. P returns after 2: it takes the failback lock and asks for the live lock. A sees the failback lock, writes that it
   gives way, and ends. P gets the lock, because no backup takes it while a primary holds the failback lock. When P
   serves, it gives the failback lock back.
5. P dies while it waits in 4. Its failback lock is free: A stays live, or, when A has ended already, B takes over,
   because a record that says "failing back" with nobody to fail back to is as good as an active one.
"""

from __future__ import annotations

from enum import Enum

from attrs import frozen

from embedbroker.config import HAPolicy, PrimaryOnly, SharedStoreBackup, SharedStorePrimary

from ._operations import (
    Acquire,
    Holder,
    LiveState,
    Lock,
    LockFault,
    LockOperation,
    LockWork,
    NodeRecord,
    ReadRecord,
    Release,
    Verify,
    WriteRecord,
)

__all__ = ["Claim", "Note", "Standing", "called"]

#: How often a broker that waits asks: what a failover waits for at most before the journal is read.
ASK_EVERY_S = 0.05
#: How long it leaves a store alone that failed.
ASK_AFTER_FAULT_S = 2.0
#: How often a live broker looks whether it still has the lock, and whether a primary waits to be live again.
LOOK_EVERY_S = 0.5
#: The same for a broker that shares its directory with nobody.
LOOK_ALONE_EVERY_S = 2.0
#: How long a backup waits for a first live broker before that looks like a mistake in the configuration.
NO_PRIMARY_AFTER_S = 10.0


class Standing(Enum):
    """How far a claim has come."""

    NEW = "new"
    #: The store has not answered yet.
    ASKING = "asking"
    #: Another backup is before this one.
    QUEUED = "queued"
    #: Another broker is live, or has the right to be.
    WAITING = "waiting"
    #: The live lock is here, and the record does not say so yet.
    GRANTED = "granted"
    #: The record is about to say that this broker is live.
    SETTLING = "settling"
    LIVE = "live"
    #: The record is about to say how this broker left.
    LEAVING = "leaving"
    OVER = "over"


def called(policy: HAPolicy, name: str) -> str:
    """How a broker is named to others of its group: what it was configured as, and its name."""
    match policy:
        case PrimaryOnly():
            kind = "broker"
        case SharedStorePrimary():
            kind = "primary"
        case _:
            kind = "backup"
    return f"{kind} {name!r}"


@frozen
class Note:
    """One line for the operator."""

    warning: bool
    text: str


_WAITS = (Standing.ASKING, Standing.QUEUED, Standing.WAITING)
_HOLDS = (Standing.GRANTED, Standing.SETTLING, Standing.LIVE)
# What a poll asks, by its part; answers come in this order.
_ALONE = (Acquire(Lock.LIVE), Holder(Lock.LIVE), ReadRecord())
_PRIMARY = (Acquire(Lock.FAILBACK), *_ALONE)
_QUEUE = (Acquire(Lock.BACKUP), Holder(Lock.FAILBACK), ReadRecord())
_HEIR = (Acquire(Lock.LIVE), Holder(Lock.FAILBACK), ReadRecord())
_LOOK = (Verify(Lock.LIVE), Holder(Lock.FAILBACK))


class Claim:
    """The claim of one life of a broker. ``failure`` is set when it must end.

    ``wanted_by`` names a primary that waits, if this broker is to give way to one, and ``wanted_since`` when it came.
    """

    def __init__(self, policy: HAPolicy, acquisition_timeout_ms: int) -> None:
        assert isinstance(policy, PrimaryOnly | SharedStorePrimary | SharedStoreBackup), policy
        self.standing = Standing.NEW
        self.record = NodeRecord()
        self.failure: str | None = None
        self.wanted_by: str | None = None
        self.wanted_since = 0.0
        self.notes: list[Note] = []
        self._policy = policy
        self._timeout_s = acquisition_timeout_ms / 1000 if acquisition_timeout_ms >= 0 else None
        self._gives_up_at: float | None = None
        self._look_every_s = LOOK_ALONE_EVERY_S if isinstance(policy, PrimaryOnly) else LOOK_EVERY_S
        self._doubts_at = 0.0
        self._due: float | None = None
        self._batches = 0
        self._under_way: tuple[LockOperation, ...] | None = None
        self._wanted: tuple[LockOperation, ...] | None = None
        # Of a backup: it takes the live lock as soon as that is free.
        self._inherits = False
        self._troubled = False
        self._said = ""

    # -- what the node tells -------------------------------------------------------------------------------------

    def begin(self, now: float) -> None:
        """Ask for the right to be live."""
        assert self.standing is Standing.NEW, self.standing
        self.standing = Standing.ASKING
        if self._timeout_s is not None:
            self._gives_up_at = now + self._timeout_s
        self._doubts_at = now + NO_PRIMARY_AFTER_S
        self._due = now

    def meet_journal(self, identity: int | None) -> None:
        """The journal is read, and says which it is: another one than before belongs to another node."""
        known = self.record.journal_identity
        if identity is None or known is None or identity == known:
            return
        if isinstance(self._policy, PrimaryOnly):
            self.notes.append(
                Note(True, f"the journal is not that of node {self.record.node_id}: the broker gets a new node id")
            )
            self.record = NodeRecord()
        else:
            self._fail(
                f"the journal is not that of node {self.record.node_id}: put that back, or remove the record of the"
                " lock store (node.state), and the brokers that share it become a node of their own"
            )

    def settle(self, node_id: str, journal_identity: int | None) -> None:
        """Say in the record that this broker is live, then be it."""
        assert self.standing is Standing.GRANTED, self.standing
        self.standing = Standing.SETTLING
        self._say(LiveState.ACTIVE, node_id, journal_identity)

    def leave(self, state: LiveState | None) -> None:
        """The journal is closed: write how, or leave the record as it is, and end."""
        if state is None or self.standing not in (Standing.SETTLING, Standing.LIVE):
            self.standing = Standing.OVER
            return
        self.standing = Standing.LEAVING
        self._say(state, self.record.node_id, self.record.journal_identity)

    @property
    def farewell(self) -> LiveState | None:
        """What an orderly stop should write; None, when a backup is to take over."""
        hands_over = not isinstance(self._policy, PrimaryOnly) and self._policy.failover_on_shutdown
        return None if hands_over else LiveState.PAUSED

    @property
    def restarts(self) -> bool:
        """Whether its broker, having given way, is to wait as backup again."""
        return isinstance(self._policy, SharedStoreBackup) and self._policy.restart_backup

    # -- work ----------------------------------------------------------------------------------------------------

    def take_work(self, now: float) -> LockWork | None:
        """The operations to do now, one batch at a time."""
        if self._under_way is not None or self.standing in (Standing.NEW, Standing.OVER):
            return None
        operations, self._wanted = self._wanted, None
        if operations is None:
            if self._due is None or now < self._due or self.standing is Standing.LEAVING:
                return None
            operations = self._question()
        self._due = None
        self._under_way = operations
        self._batches += 1
        return LockWork(self._batches, operations)

    def next_deadline(self) -> float | None:
        """When there is work to take."""
        if self._under_way is not None or self.standing is Standing.OVER:
            return None
        return self._due

    def on_done(self, batch: int, results: tuple[object, ...], now: float) -> None:
        """The store did a batch."""
        operations = self._finish(batch)
        if self.standing is Standing.OVER:
            return
        self._troubled = False
        if self.standing is Standing.LEAVING:
            self._end_leaving()
        elif self.standing in _WAITS:
            self._on_answer(operations, results, now)
        elif operations == _LOOK:
            self._on_look(results, now)
        elif self.standing is Standing.SETTLING:
            self.standing = Standing.LIVE
            self._due = now + self._look_every_s

    def on_failed(self, batch: int, fault: LockFault, now: float) -> None:
        """The store could not: who waits tries again, who is live cannot know whether it still may be."""
        self._finish(batch)
        match self.standing:
            case Standing.OVER:
                pass
            case Standing.QUEUED | Standing.WAITING:
                if not self._troubled:
                    self._troubled = True
                    self.notes.append(Note(True, f"the lock store failed, it is asked again: {fault}"))
                self._due = now + ASK_AFTER_FAULT_S
            case Standing.LEAVING:
                self.notes.append(Note(True, f"the lock store does not know of this stop: {fault}"))
                self._end_leaving()
            case _:
                self._fail(str(fault))

    # -- inside --------------------------------------------------------------------------------------------------

    def _finish(self, batch: int) -> tuple[LockOperation, ...]:
        assert batch == self._batches and self._under_way is not None, batch
        operations, self._under_way = self._under_way, None
        return operations

    def _end_leaving(self) -> None:
        """What was under way before goes first."""
        if self._wanted is None:
            self.standing = Standing.OVER

    def _fail(self, reason: str) -> None:
        self.failure = reason
        self.standing = Standing.OVER

    def _say(self, state: LiveState, node_id: str | None, journal_identity: int | None) -> None:
        """Write the record; who is live needs no other lock any more."""
        self.record = NodeRecord(state, node_id, journal_identity)
        self._wanted = (WriteRecord(self.record), Release(Lock.FAILBACK), Release(Lock.BACKUP))

    def _question(self) -> tuple[LockOperation, ...]:
        if self.standing in _HOLDS:
            return _LOOK
        match self._policy:
            case PrimaryOnly():
                return _ALONE
            case SharedStorePrimary():
                return _PRIMARY
            case _:
                if self.standing is not Standing.WAITING:
                    return _QUEUE
                # The live lock is touched only when it would be kept: a primary that asks must not find it taken.
                return _HEIR if self._inherits else _HEIR[1:]

    def _on_answer(self, operations: tuple[LockOperation, ...], results: tuple[object, ...], now: float) -> None:
        answers = dict(zip(operations, results, strict=True))
        record = answers[ReadRecord()]
        assert isinstance(record, NodeRecord)
        self.record = record
        if record.copied and not self._is_new_node():
            return
        if isinstance(self._policy, SharedStoreBackup):
            self._wait_as_backup(answers, now)
        elif answers[Acquire(Lock.LIVE)]:
            self.standing = Standing.GRANTED
        else:
            self._wait_as_primary(str(answers[Holder(Lock.LIVE)] or "another broker"))
        if self.standing in _HOLDS:
            self._due = now + self._look_every_s
        elif self.standing is not Standing.OVER:
            self._wait(now)

    def _wait(self, now: float) -> None:
        # A backup that is next has nothing to wait for but a death: it may take years.
        patient = isinstance(self._policy, SharedStoreBackup) and self.standing is Standing.WAITING
        if not patient and self._gives_up_at is not None and now >= self._gives_up_at:
            self._fail(f"the lock was not to be had within {self._timeout_s:g} s: {self._said}")
        else:
            self._due = now + ASK_EVERY_S

    def _is_new_node(self) -> bool:
        """A copied store would make the same node exist twice. Who shares it with nobody takes a new id instead."""
        if isinstance(self._policy, PrimaryOnly):
            self.notes.append(
                Note(True, f"the data directory is a copy of that of node {self.record.node_id}: it gets a new node id")
            )
            self.record = NodeRecord()
            return True
        self._fail(
            f"the lock store is a copy of that of node {self.record.node_id}, which would exist twice: remove its"
            " record (node.state), and the brokers that share it become a node of their own"
        )
        return False

    def _wait_as_primary(self, holder: str) -> None:
        if isinstance(self._policy, PrimaryOnly):
            self._fail(f"the data directory is used by {holder}")
        else:
            # A live backup gives way, if it is allowed to; a primary that waits for a primary may wait for ever.
            equals = holder.startswith("primary ")
            question = ", and a primary gives way to nobody: is this one meant to be its backup?" if equals else ""
            self._wait_for(Standing.WAITING, f"waits to be live: {holder} is{question}", warning=equals)

    def _wait_as_backup(self, answers: dict[LockOperation, object], now: float) -> None:
        if not answers.get(Acquire(Lock.BACKUP), True):
            self._wait_for(Standing.QUEUED, "waits behind another backup")
            return
        nobody_first = answers[Holder(Lock.FAILBACK)] is None
        self._inherits = nobody_first and self.record.state in (LiveState.ACTIVE, LiveState.FAILING_BACK)
        if self._inherits and answers.get(Acquire(Lock.LIVE)):
            self.standing = Standing.GRANTED
            return
        match self.record.state:
            case LiveState.NOT_STARTED if now >= self._doubts_at:
                said = "no primary has ever been live on this store: is one of its brokers configured as primary?"
            case LiveState.NOT_STARTED:
                said = "waits as backup: no primary has been live on this store yet"
            case LiveState.PAUSED:
                said = "waits as backup: the live broker was stopped in order, only a primary starts again"
            case _:
                said = "waits as backup for the live broker to die"
        if answers.get(Acquire(Lock.LIVE)):
            self._wanted = (Release(Lock.LIVE), *_HEIR[1:])
        self._wait_for(Standing.WAITING, said, warning=said.endswith("?"))

    def _wait_for(self, standing: Standing, said: str, *, warning: bool = False) -> None:
        self.standing = standing
        if said != self._said:
            self._said = said
            self.notes.append(Note(warning, said))

    def _on_look(self, results: tuple[object, ...], now: float) -> None:
        held, waiting = results
        assert waiting is None or isinstance(waiting, str), waiting
        if not held:
            self._fail("the live lock is lost: another broker may be live")
            return
        self._due = now + self._look_every_s
        if isinstance(self._policy, SharedStoreBackup) and self._policy.allow_failback:
            if waiting != self.wanted_by:
                self.wanted_since = now
            self.wanted_by = waiting
