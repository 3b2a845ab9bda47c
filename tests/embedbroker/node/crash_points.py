"""Great transactions, and every moment at which the disk of their broker can stop.

Responsible for three of them (sends, acknowledgements, an XA branch of sends), for the moments between the operations
of the disk and inside its writes, for what a disk may hold then, and for what a broker that starts from it must have.
Refuses to choose among the moments.

A moment counts from the first thing that the transaction did. What a disk may hold at one, in words:

===========  ==========================================================================================================
``synced``   what was synced, and nothing else: the power failed
``written``  everything that was written, too: the process was killed
``some``     of what was not synced any of the sectors, one perhaps torn: the power failed, and the disk had begun
``cut``      of the write under way a beginning, of whatever length
===========  ==========================================================================================================
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from random import Random

from attrs import Factory, define, evolve, frozen

from embedbroker.config import BrokerConfig
from embedbroker.node import DiskDone
from embedbroker.storage import (
    SECTOR_BYTES,
    Allocate,
    DiskOperation,
    DiskWork,
    ListFiles,
    Read,
    Stat,
    Sync,
    SyncDirectory,
    WriteAt,
)
from embedbroker.testing._disk import SimulatedDisk
from embedclient.wire.core import (
    NullResponse,
    SessionAcknowledge,
    SessionCommit,
    SessionSend,
    SessionXaCommit,
    SessionXaEnd,
    SessionXaPrepare,
    SessionXaResponse,
    SessionXaRollback,
    SessionXaStart,
    encode_packet,
)

from .branches import xid
from .large_work import WorkStage
from .scripted import CHANNEL, Peer, letter

__all__ = ["ALL", "IN_DOUBT", "NOTHING", "TRANSACTIONS", "Moment", "Torn", "Trials", "WatchedStage", "run"]

#: What a broker has of a transaction.
NOTHING, IN_DOUBT, ALL = "nothing", "in doubt", "all"
#: One read of a socket.
_READ_BYTES = 256 * 1024
_DIGITS = 6
_NUMBER = b"0" * _DIGITS
#: A message of about 150 bytes.
_FRAME = encode_packet(SessionSend(letter(_NUMBER.decode() + "." * 64, durable=True), False), CHANNEL, 136)
_AT = _FRAME.index(_NUMBER)


class Torn(AssertionError):
    """A broker has what it may not have, or a part of a transaction."""


@frozen
class Moment:
    """``allowed`` is what a broker that starts from now on may have of the transaction.

    ``operation`` comes next, None at the end. Between the last operation of some work and the node hearing of it, what
    the disk holds is what it holds at the next moment, when less is allowed.
    """

    number: int
    phase: str
    allowed: tuple[str, ...]
    operation: DiskOperation | None
    disk: SimulatedDisk

    def held(self, way: str, cut: int = 0) -> SimulatedDisk:
        """What the disk may hold; ``cut`` is how much of a write under way."""
        disk = self.disk.copy()
        match way:
            case "synced":
                disk.lose_unsynced()
            case "written":
                _keep(disk)
            case "some":
                disk.crash(Random(self.number))
            case _:
                assert way == "cut" and isinstance(self.operation, WriteAt)
                disk.run((evolve(self.operation, data=(b"".join(self.operation.data)[:cut],)),))
                _keep(disk)
        return disk

    @property
    def ways(self) -> list[tuple[str, int]]:
        """All there are, with the cut."""
        # Of what is not synced the most is at stake before it is.
        is_at_stake = isinstance(self.operation, Sync | SyncDirectory)
        some = [("some", 0)] if is_at_stake else []
        return [("synced", 0), ("written", 0), *some, *(("cut", cut) for cut in self.cuts)]

    @property
    def cuts(self) -> list[int]:
        """Where records that are written are cut: in the middle, and those of a decision behind each of their bytes.

        What is written there was zero before.
        """
        if not isinstance(self.operation, WriteAt):
            return []
        data = b"".join(self.operation.data)
        if len(data) <= SECTOR_BYTES:
            return [cut for cut in range(1, len(data)) if data[cut - 1]]
        return [len(data) // 2 + 1] if any(data) else []


def _keep(disk: SimulatedDisk) -> None:
    (names,) = disk.run((ListFiles(),))
    assert isinstance(names, tuple)
    disk.run((*map(Sync, names), SyncDirectory()))


def _changed(operation: DiskOperation | None) -> frozenset[str]:
    """In which ways a disk may hold something else when that is done; space that is made ready is no difference."""
    if isinstance(operation, Allocate) or (isinstance(operation, WriteAt) and not any(map(any, operation.data))):
        return frozenset()
    return frozenset({"synced"} if isinstance(operation, Sync | SyncDirectory) else {"written"})


def _digest(disk: SimulatedDisk) -> bytes:
    digest = blake2b()
    (names,) = disk.run((ListFiles(),))
    assert isinstance(names, tuple)
    for name in names:
        (size,) = disk.run((Stat(name),))
        assert isinstance(size, int)
        (content,) = disk.run((Read(name, 0, size),))
        assert isinstance(content, bytes)
        # How much of a file is ready for what comes is no difference.
        content = content.rstrip(b"\0")
        digest.update(f"{name} {len(content)} ".encode())
        digest.update(content)
    return digest.digest()


# -- the broker whose disk stops -------------------------------------------------------------------------------------


class WatchedStage(WorkStage):
    """A stage whose disk does one operation after the other, and ``look`` sees what there is before each of them."""

    def __init__(self, segment_size_bytes: int, disk: SimulatedDisk | None = None) -> None:
        self.look: Callable[[DiskOperation | None], None] = lambda _operation: None
        super().__init__(start=False, segment_size_bytes=segment_size_bytes)
        if disk is not None:
            self.disk = disk
        self.boot()

    def finish_work(self, work: DiskWork) -> None:
        assert self.disk is not None
        self.work.remove(work)
        results: list[object] = []
        for operation in work.operations:
            self.look(operation)
            results += self.disk.run((operation,))
        self.step(DiskDone(work.batch, tuple(results)))


def _frames(count: int) -> Iterator[bytes]:
    """Numbered sends, a read at a time."""
    before, after = _FRAME[:_AT], _FRAME[_AT + _DIGITS :]
    per_read = _READ_BYTES // len(_FRAME)
    for start in range(0, count, per_read):
        yield b"".join(b"%s%06d%s" % (before, each, after) for each in range(start, min(start + per_read, count)))


def _send_all(peer: Peer, count: int) -> None:
    for frames in _frames(count):
        peer.send_bytes(frames)
        peer.stage.settle_disk()


@frozen
class _Phase:
    """``allowed`` while it goes on; the last of these from when there were so many ``answers`` to all of them."""

    name: str
    ask: Callable[[], object]
    allowed: tuple[str, ...]
    answers: int


@frozen
class _Work:
    peer: Peer
    phases: tuple[_Phase, ...]

    @property
    def answers(self) -> int:
        return sum(isinstance(packet, NullResponse | SessionXaResponse) for _channel, packet in self.peer.received)


_NEVER = 1 << 30


def _sends(stage: WorkStage, count: int) -> _Work:
    peer = stage.connect().open_session(transacted=True)
    return _Work(
        peer,
        (
            _Phase("sends", lambda: _send_all(peer, count), (NOTHING,), _NEVER),
            _Phase("commit", lambda: peer.send(SessionCommit(-2)), (NOTHING, ALL), 1),
        ),
    )


def _acknowledgements(stage: WorkStage, count: int) -> _Work:
    filler = stage.connect().open_session()
    _send_all(filler, count)
    filler.lose()
    peer = stage.connect().open_session(transacted=True)
    peer.listens = False
    peer.consume()
    stage.settle_disk()
    peer.listens = True
    last = list(stage.consumer(peer).unsettled)[-1]
    return _Work(
        peer,
        (
            _Phase("acknowledgements", lambda: peer.send(SessionAcknowledge(0, last, False)), (NOTHING,), _NEVER),
            _Phase("commit", lambda: peer.send(SessionCommit(-2)), (NOTHING, ALL), 1),
        ),
    )


def _branch(stage: WorkStage, count: int) -> _Work:
    peer = stage.connect().open_session(transacted=True, xa=True)
    peer.send(SessionXaStart(xid()))

    def prepare() -> None:
        peer.send(SessionXaEnd(xid()), SessionXaPrepare(xid()))

    return _Work(
        peer,
        (
            _Phase("sends", lambda: _send_all(peer, count), (NOTHING,), _NEVER),
            _Phase("prepare", prepare, (NOTHING, IN_DOUBT), 3),
            _Phase("commit", lambda: peer.send(SessionXaCommit(xid(), False)), (IN_DOUBT, ALL), 4),
        ),
    )


TRANSACTIONS: dict[str, Callable[[WorkStage, int], _Work]] = {
    "sends": _sends,
    "acknowledgements": _acknowledgements,
    "XA branch of sends": _branch,
}


def run(
    kind: str, count: int, look: Callable[[Moment], None], segment_size_bytes: int = BrokerConfig().segment_size_bytes
) -> None:
    """Carry a transaction out, with a look at each moment; the last is when every client has all answers."""
    stage = WatchedStage(segment_size_bytes)
    stage.connect().open_session().create_queue()
    work = TRANSACTIONS[kind](stage, count)
    stage.settle_disk()
    numbers = itertools.count()
    for phase in work.phases:

        def see(operation: DiskOperation | None, phase: _Phase = phase) -> None:
            allowed = phase.allowed[-1:] if work.answers >= phase.answers else phase.allowed
            assert stage.disk is not None
            look(Moment(next(numbers), phase.name, allowed, operation, stage.disk))

        stage.look = see
        phase.ask()
        stage.settle_disk()
        see(None)
    assert work.answers == work.phases[-1].answers, work.peer.received


# -- what a broker has that starts from such a disk ------------------------------------------------------------------


def _found(kind: str, count: int, disk: SimulatedDisk, segment_size_bytes: int, *, commits: bool) -> str:
    """What a broker has of a transaction; a branch in doubt is committed then, or rolled back.

    Raises:
        Torn: a part of it, or it is not as it was.
    """
    stage = WatchedStage(segment_size_bytes, disk)
    in_doubt = stage.node.kernel.branches.in_doubt()
    there = _is_there(stage, count)
    if kind == "acknowledgements":
        return NOTHING if there else ALL
    if not in_doubt:
        return ALL if there else NOTHING
    if there or in_doubt != [xid()]:
        raise Torn(f"in doubt are {in_doubt}, and what it sent is seen: {there}")
    peer = stage.connect().open_session(transacted=True, xa=True)
    peer.send(SessionXaCommit(xid(), False) if commits else SessionXaRollback(xid()))
    stage.settle_disk()
    if _is_there(stage, count) is not commits:
        raise Torn(f"it was in doubt and is {'committed' if commits else 'rolled back'}, but not so")
    return IN_DOUBT


def _is_there(stage: WorkStage, count: int) -> bool:
    """Whether all messages are in the queue, in order, and not none of them."""
    stage.settle_disk()
    queue = stage.node.kernel.address_manager.queues["q"]
    if queue.message_count == 0:
        return False
    at = letter(_NUMBER.decode() + "." * 64, durable=True).raw.index(_NUMBER)
    numbers = [int(reference.message.stored_bytes()[at : at + _DIGITS]) for reference in queue.backlog]
    if queue.message_count != count or numbers != list(range(count)):
        raise Torn(f"{queue.message_count} messages of {count}, from {numbers[:1]} to {numbers[-1:]}")
    return True


@define
class Trials:
    """Brokers that started from what disks held. A disk that was tried before is not tried again.

    `try_all` has to hear of every moment, of those that are left out with no ways.
    ``outcomes`` counts by phase, way and what there was.
    """

    kind: str
    count: int
    segment_size_bytes: int = BrokerConfig().segment_size_bytes
    moments: int = 0
    outcomes: Counter[tuple[str, str, str]] = Factory(Counter)
    _known: dict[bytes, str] = Factory(dict)
    # What there was in each way at the last moment, and what the disk has done since.
    _last: dict[str, str] = Factory(dict)
    _done: DiskOperation | None = None

    @property
    def disks(self) -> int:
        """Brokers that were started."""
        return len(self._known)

    def try_all(self, moment: Moment, ways: Iterable[tuple[str, int]] | None = None) -> None:
        """Crash at this moment in all ways, or in these.

        Raises:
            Torn: a broker has of the transaction what it may not have.
        """
        self.moments += 1
        changed = _changed(self._done)
        self._done = moment.operation
        for way in changed:
            self._last.pop(way, None)
        for way, cut in moment.ways if ways is None else ways:
            outcome = self._last.get(way)
            if outcome is None:
                outcome = self._outcome(moment.held(way, cut))
            if way in ("synced", "written"):
                self._last[way] = outcome
            self.outcomes[moment.phase, way, outcome] += 1
            if outcome not in moment.allowed:
                raise Torn(f"{outcome} after {way} at moment {moment.number}, {moment.phase}: {moment.allowed}")

    def _outcome(self, disk: SimulatedDisk) -> str:
        digest = _digest(disk)
        if digest not in self._known:
            commits, size = len(self._known) % 2 == 0, self.segment_size_bytes
            self._known[digest] = _found(self.kind, self.count, disk, size, commits=commits)
        return self._known[digest]
