"""A pair of replicating brokers as a graph of states: its edges are the real table and the real decision functions.

Responsible for what surrounds them: processes, a link, a lock manager, what the disks hold. A journal is one bit: it
holds everything that was ever confirmed, or not. Activations are renumbered so that only their order and their
neighbours are kept, which is all that the rules compare; so the graph is finite.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import cast

from attrs import evolve, field, frozen

from embedbroker.config import ReplicationBackup, ReplicationPrimary
from embedbroker.ha._record_file import RecordFile
from embedbroker.ha.quorum import Electorate
from embedbroker.ha.replication import _decisions as decisions
from embedbroker.ha.replication._node_record import NodeRecord
from embedbroker.ha.replication._stages import TRANSITIONS, Event, Stage
from embedbroker.locks import (
    ActivationAttempt,
    AttemptResult,
    GiveLease,
    LeaseActivation,
    MemoryLockManager,
    SwapSequence,
    state_after,
)
from embedbroker.replication import EndingKind, PrimaryStatus, ReplicaRecord

__all__ = [
    "JOURNAL",
    "NODE",
    "Broker",
    "InstantFile",
    "Pair",
    "broken_rules",
    "disconnected",
    "ended",
    "lease_request",
    "moved",
    "successors",
    "written",
]

NODE, JOURNAL = "node", 1
POLICIES = (ReplicationPrimary(), ReplicationBackup(allow_failback=True))
#: The lease of a process that is gone, until it ends.
GONE = 2


@frozen(cache_hash=True)
class Broker:
    """A process, or none (``stage`` None), and its disk. ``record`` is what the process has in memory."""

    stage: Stage | None = None
    record: ReplicaRecord = field(factory=ReplicaRecord)
    disk: ReplicaRecord = field(factory=ReplicaRecord)
    is_whole: bool = True
    is_unfinished: bool = False
    #: Replication has ended in this way, which the broker has not followed yet, and whether it was in sync.
    ending: tuple[EndingKind, bool] | None = None
    #: It is active, and must renew its right before it confirms anything.
    is_blocked: bool = False

    @property
    def confirms(self) -> bool:
        return self.stage is Stage.ACTIVE and not self.is_blocked


@frozen(cache_hash=True)
class Pair:
    """``source`` is the broker that the other one copies from; ``in_sync``: the copy is whole."""

    brokers: tuple[Broker, Broker] = (Broker(), Broker())
    source: int | None = None
    in_sync: bool = False
    linked: bool = True
    holder: int | None = None
    sequence: int = 0

    def put(self, index: int, broker: Broker, **changes: object) -> Pair:
        brokers = (broker, self.brokers[1]) if index == 0 else (self.brokers[0], broker)
        return evolve(self, brokers=brokers, **changes)  # type: ignore[arg-type]  # names of real fields


class InstantFile:
    """A record file whose writes are durable at once."""

    def __init__(self, broker: Broker, record: ReplicaRecord) -> None:
        self.record, self.is_unfinished, self.is_idle = record, broker.is_unfinished, True

    def write(self, record: ReplicaRecord, then: Callable[[], None] | None = None, on_failed: object = None) -> None:
        self.record = record
        if then is not None:
            then()


def _recording(index: int, broker: Broker, record: ReplicaRecord | None = None) -> NodeRecord:
    file = cast(RecordFile, InstantFile(broker, broker.record if record is None else record))
    return NodeRecord(POLICIES[index], file, cast(Electorate, _NoVotes()), has_manager=True)


class _NoVotes:
    remembered = 0


def written(broker: Broker, recording: NodeRecord) -> Broker:
    return evolve(broker, record=recording.record, disk=recording.record)


def moved(broker: Broker, event: Event) -> Broker:
    assert broker.stage is not None
    return evolve(broker, stage=state_after(TRANSITIONS, broker.stage, event))


# -- the lock manager ------------------------------------------------------------------------------------------------


@cache
def lease_request(
    number: int, holder: int | None, index: int, sequence: int, renews: bool
) -> tuple[tuple[tuple[int | None, int, int], ...], ActivationAttempt]:
    """Run the real rules over the real lock manager in memory.

    Return what a crash at each point leaves (holder, sequence, number on the disk), and the outcome.
    """
    manager = MemoryLockManager()
    sessions = [manager.open(name) for name in ("p", "q", "gone")]
    assert manager.take(NODE, sessions[0])
    step = 1 if sequence >= 0 else -1
    sessions[0].run((SwapSequence(NODE, 0, step * abs(sequence)),))
    sessions[0].run((GiveLease(NODE),))
    assert manager.sequence(NODE) == sequence
    if holder is not None:
        assert manager.take(NODE, sessions[holder])
    activation, now = LeaseActivation(NODE), 0.0
    if renews:
        activation.holds = True
        activation.renew(number, now)
    else:
        activation.try_to_activate(number, now)
    points: dict[tuple[int | None, int, int], None] = {}
    names = {None: None, "p": 0, "q": 1, "gone": GONE}
    while True:
        points[names[manager.holder(NODE)], manager.sequence(NODE), number] = None
        written = activation.epoch_to_write()
        if written is not None:
            number = written
            activation.on_written(written)
        elif (work := activation.take_work(now)) is not None:
            activation.on_done(work.batch, sessions[index].run(work.operations), now)
        elif (attempt := activation.take_attempt()) is not None:
            return tuple(points), attempt
        else:
            now += 0.05


# -- what may happen -------------------------------------------------------------------------------------------------


def successors(pair: Pair) -> Iterator[tuple[str, Pair]]:
    """Return each event that may be next, and the state after it."""
    for index in (0, 1):
        for what, following in _of_broker(pair, index):
            yield f"{'pq'[index]} {what}", _renumbered(following)
    if pair.linked:
        yield "link fails", disconnected(evolve(pair, linked=False))
    else:
        yield "link heals", evolve(pair, linked=True)
    if pair.holder == GONE:
        yield "lease ends", evolve(pair, holder=None)


def _of_broker(pair: Pair, index: int) -> Iterator[tuple[str, Pair]]:
    broker = pair.brokers[index]
    if broker.stage is None:
        yield "starts", _started(pair, index)
        return
    yield "crashes", ended(pair, index)
    if pair.holder == index:
        yield "loses its lease", evolve(ended(pair, index), holder=None)
    match broker.stage:
        case Stage.REQUESTING_LEASE:
            yield from _requested(pair, index)
        case Stage.GRANTED:
            yield "recovers", _recovered(pair, index)
        case Stage.BACKUP:
            yield from _of_backup(pair, index)
        case Stage.ACTIVE:
            yield from _of_active(pair, index)
        case _:
            raise AssertionError(f"the model stays in {broker.stage}")


def _started(pair: Pair, index: int) -> Pair:
    broker = evolve(pair.brokers[index], stage=Stage.NEW, ending=None, is_blocked=False)
    recording = _recording(index, broker, broker.disk)
    recording.begin(lambda: NODE)
    event = decisions.after_record(
        POLICIES[index], recording.record, was_known=broker.disk.node_id is not None, has_manager=True
    )
    broker = moved(moved(evolve(broker, record=recording.record), Event.STARTED), event)
    return pair.put(index, broker)


def ended(pair: Pair, index: int) -> Pair:
    """The process is gone; its lease stays until it ends by itself."""
    pair = disconnected(pair)
    broker = evolve(pair.brokers[index], stage=None, ending=None, is_blocked=False, record=pair.brokers[index].disk)
    return pair.put(index, broker, holder=GONE if pair.holder == index else pair.holder)


def disconnected(pair: Pair, kind: EndingKind = EndingKind.LOST) -> Pair:
    """Replication ends: an active broker with a whole copy is blocked, and the backup is to decide."""
    source = pair.source
    if source is None:
        return pair
    active, backup = pair.brokers[source], pair.brokers[1 - source]
    pair = pair.put(source, evolve(active, is_blocked=pair.in_sync))
    pair = pair.put(1 - source, evolve(backup, ending=(kind, pair.in_sync)))
    return evolve(pair, source=None, in_sync=False)


def _requested(pair: Pair, index: int) -> Iterator[tuple[str, Pair]]:
    broker = pair.brokers[index]
    points, attempt = lease_request(broker.record.epoch, pair.holder, index, pair.sequence, renews=False)
    for holder, sequence, number in points[1:]:
        disk = evolve(broker.record, epoch=number) if number != broker.record.epoch else broker.disk
        cut = pair.put(index, evolve(broker, disk=disk), holder=holder, sequence=sequence)
        yield f"crashes at {holder, sequence, number}", ended(cut, index)
    holder, sequence, number = points[-1]
    if number != broker.record.epoch:
        record = evolve(broker.record, epoch=number)
        broker = evolve(broker, record=record, disk=record)
    event = decisions.after_lease_request(attempt.verdict)
    if event is not Event.GRANTED:
        holder = None if holder == index else holder
        if attempt.verdict is AttemptResult.STALE and attempt.epoch == broker.record.epoch:
            recording = _recording(index, broker)
            recording.believe_stale()
            broker = evolve(broker, record=recording.record)
    yield f"is {attempt.verdict.value}", pair.put(index, moved(broker, event), holder=holder, sequence=sequence)


def _recovered(pair: Pair, index: int) -> Pair:
    broker = moved(pair.brokers[index], Event.RECOVERED)
    recording, done = _recording(index, broker), []
    recording.settle(NODE, JOURNAL, None, lambda: done.append(True))
    assert done
    return pair.put(index, moved(written(broker, recording), Event.RECORDED))


def _of_backup(pair: Pair, index: int) -> Iterator[tuple[str, Pair]]:
    broker, other = pair.brokers[index], pair.brokers[1 - index]
    if pair.source is not None:
        if not pair.in_sync:
            yield "is in sync", _in_sync(pair, index)
    elif broker.ending is not None:
        kind, in_sync = broker.ending
        event = decisions.after_replication(kind, was_accepted=True, in_sync=in_sync, has_manager=True, votes=False)
        broker = evolve(broker, ending=None)
        if event is Event.LEFT_BEHIND:
            recording = _recording(index, broker)
            recording.note_left_behind()
            broker = written(broker, recording)
        yield f"follows {kind.value}", pair.put(index, moved(broker, event))
    else:
        event_or_none = decisions.after_pause(
            POLICIES[index], broker.record, has_manager=True, may_request_votes=True, has_rival=False
        )
        if event_or_none is not None:
            yield "tries again", pair.put(index, moved(broker, event_or_none))
        if pair.linked and other.confirms:
            copying = evolve(broker, is_unfinished=True, is_whole=False)
            yield "joins", pair.put(index, copying, source=1 - index, in_sync=False)


def _in_sync(pair: Pair, index: int) -> Pair:
    source = pair.brokers[1 - index]
    recording = _recording(index, pair.brokers[index])
    recording.note_in_sync(PrimaryStatus(NODE, JOURNAL, source.record.epoch, True))
    broker = evolve(written(pair.brokers[index], recording), is_unfinished=False, is_whole=source.is_whole)
    return pair.put(index, broker, in_sync=True)


def _of_active(pair: Pair, index: int) -> Iterator[tuple[str, Pair]]:
    broker, other = pair.brokers[index], pair.brokers[1 - index]
    if broker.is_blocked:
        yield from _renewed(pair, index)
        return
    if not pair.in_sync and other.is_whole:
        yield "confirms alone", pair.put(1 - index, evolve(other, is_whole=False))
    left = evolve(pair.put(index, moved(broker, Event.JOURNAL_CLOSED)), holder=None)
    yield "stops", _handed_over(disconnected(left), index)
    if pair.source == index and pair.in_sync:
        yield "hands over", _handed_over(disconnected(left, EndingKind.FAIL_OVER), index)
        if isinstance(POLICIES[index], ReplicationBackup):
            recording = _recording(index, left.brokers[index])
            recording.note_gave_way(lambda: None)
            left = left.put(index, written(left.brokers[index], recording))
            yield "gives way", _handed_over(disconnected(left, EndingKind.FAIL_OVER), index)


def _handed_over(pair: Pair, index: int) -> Pair:
    assert moved(pair.brokers[index], Event.HANDED_OVER).stage is Stage.OVER
    return ended(pair, index)


def _renewed(pair: Pair, index: int) -> Iterator[tuple[str, Pair]]:
    broker = pair.brokers[index]
    points, attempt = lease_request(broker.record.epoch, pair.holder, index, pair.sequence, renews=True)
    for holder, sequence, number in points[1:]:
        cut = pair.put(index, evolve(broker, disk=evolve(broker.record, epoch=number)), sequence=sequence)
        yield f"crashes at {holder, sequence, number}", ended(cut, index)
    _holder, sequence, number = points[-1]
    record = evolve(broker.record, epoch=number)
    pair = pair.put(index, evolve(broker, record=record, disk=record, is_blocked=False), sequence=sequence)
    if attempt.verdict is AttemptResult.GRANTED:
        yield "renews", pair
    else:
        yield "may not go on", ended(pair, index)


def _renumbered(pair: Pair) -> Pair:
    numbers = {0, abs(pair.sequence)}
    for broker in pair.brokers:
        numbers |= {broker.record.epoch, broker.disk.epoch}
    new, last = {0: 0}, 0
    for number in sorted(numbers)[1:]:
        new[number] = new[last] + min(number - last, 2)
        last = number
    if all(number == other for number, other in new.items()):
        return pair
    sequence = new[abs(pair.sequence)] * (1 if pair.sequence >= 0 else -1)
    first, second = (
        evolve(
            broker,
            record=evolve(broker.record, epoch=new[broker.record.epoch]),
            disk=evolve(broker.disk, epoch=new[broker.disk.epoch]),
        )
        for broker in pair.brokers
    )
    return evolve(pair, brokers=(first, second), sequence=sequence)


def broken_rules(pair: Pair) -> list[str]:
    """Return what a state breaks: the safety of the pair."""
    confirming = [broker for broker in pair.brokers if broker.confirms]
    broken = []
    if len(confirming) > 1:
        broken.append("two brokers confirm for one node")
    if not all(broker.is_whole for broker in confirming):
        broken.append("a broker confirms without everything that was confirmed before")
    return broken
