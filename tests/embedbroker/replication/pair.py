"""A primary's journal and its backup without nodes: two simulated disks, a wire of bytes, and one step at a time.

The journal is recorded beside a model, so that what either disk recovers to can be compared with what was confirmed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from attrs import Factory, define, field

from embedbroker.replication import (
    STREAM_FORMAT,
    Ending,
    PrimaryStatus,
    Replica,
    ReplicaState,
    Replicator,
    ReplicatorState,
)
from embedbroker.storage import DiskFault, DiskWork, Journal, JournalState, Lane, RecoveredState
from embedbroker.testing._disk import SimulatedDisk
from embedclient.engine.core import ChannelReceiver
from embedclient.errors import RemoteProtocolError
from embedclient.model import Instant, TransportConfiguration
from embedclient.wire.core import FrameSplitter, ReplicaRegistration, frame_spans
from tests.embedbroker.storage.journal_model import NOW, SMALL, ModelState, RecordedJournal

REGISTRATION = ReplicaRegistration(STREAM_FORMAT, "", None, False, TransportConfiguration("backup"))
CALL_TIMEOUT_S = 30.0
SYNC_TIMEOUT_S = 30.0


@define(eq=False)
class WireEnd:
    """One end of a connection between brokers; what is written waits in ``out`` until it is delivered."""

    name: str
    receiver: ChannelReceiver | None = None
    out: bytearray = Factory(bytearray)
    alive: bool = True
    far: WireEnd | None = None
    failure: str | None = None
    _splitter: FrameSplitter = Factory(FrameSplitter)

    def write_pieces(self, pieces: Sequence[bytes | bytearray]) -> None:
        if self.alive:
            self.out += b"".join(pieces)

    def fail(self, reason: str) -> None:
        self.failure = self.failure or reason
        self.break_off()

    def break_off(self) -> None:
        """The connection is gone at this end."""
        self.alive = False
        if self.receiver is not None:
            self.receiver.on_gone()

    def receive(self, data: bytes) -> None:
        try:
            buffer, headers = self._splitter.feed(data)
            for (_length, packet_type, _channel), (start, end) in zip(headers, frame_spans(headers), strict=True):
                if self.receiver is not None:
                    self.receiver.on_frame(packet_type, buffer, start, end)
        except RemoteProtocolError as error:
            self.fail(str(error))


@define(eq=False)
class Worker:
    """A disk with three lanes, done one operation at a time."""

    disk: SimulatedDisk
    under_way: dict[Lane, tuple[DiskWork, list[object]]] = Factory(dict)

    def add(self, works: list[DiskWork]) -> None:
        for work in works:
            assert work.lane not in self.under_way
            self.under_way[work.lane] = work, []

    def step(self, random: Random, held: Lane | None) -> tuple[int, tuple[object, ...] | DiskFault] | None:
        """Do one operation; returns what ended with it."""
        lanes = sorted(lane for lane in self.under_way if lane is not held)
        if not lanes:
            return None
        lane = random.choice(lanes)
        work, results = self.under_way[lane]
        try:
            if len(results) < len(work.operations):
                results += self.disk.run((work.operations[len(results)],))
        except DiskFault as fault:
            del self.under_way[lane]
            return work.batch, fault
        if len(results) < len(work.operations):
            return None
        del self.under_way[lane]
        return work.batch, tuple(results)

    @property
    def idle(self) -> bool:
        return not self.under_way


@define(eq=False)
class Primary:
    """A recorded journal with a duplication behind it."""

    disk: SimulatedDisk
    random: Random
    start: ModelState = Factory(ModelState)
    journal: Journal = Factory(lambda: Journal(SMALL))
    recorded: RecordedJournal = field(init=False)
    replicator: Replicator = field(init=False)
    worker: Worker = field(init=False)
    log: list[str] = Factory(list)
    lost: list[tuple[str, bool]] = Factory(list)
    #: False: HELD lasts until the test ends it.
    renews: bool = True
    now: Instant = NOW

    def __attrs_post_init__(self) -> None:
        self.recorded = RecordedJournal(self.disk, SMALL, self.start, journal=self.journal)
        self.replicator = Replicator(CALL_TIMEOUT_S, SYNC_TIMEOUT_S, self.log.append)
        self.replicator.now = self.now
        self.replicator.owner = self
        self.worker = Worker(self.disk)

    def may_hand_over(self) -> bool:
        return True

    def on_synchronised(self) -> None:
        """The test looks at the state."""

    def on_lost(self, reason: str, held: bool) -> None:
        self.lost.append((reason, held))
        if held and self.renews:
            self.replicator.go_on_alone()

    def settle_journal(self) -> None:
        for batch, results in self.replicator.take_completed():
            self.journal.on_disk_done(batch, results, self.now)

    def pump(self) -> None:
        """What the node does at the end of each of its steps."""
        self.settle_journal()
        self.worker.add(self.replicator.take_work(self.journal.take_work()))
        self.settle_journal()

    def step(self, held: Lane | None = None) -> bool:
        """Do one operation of the disk; return False when none is waiting."""
        self.pump()
        busy = not self.worker.idle
        ended = self.worker.step(self.random, held)
        if ended is not None:
            batch, result = ended
            if not isinstance(result, DiskFault):
                self.replicator.on_disk_done(batch, result)
            elif not self.replicator.on_disk_failed(batch, result):
                self.journal.on_disk_failed(batch, result, self.now)
            self.pump()
        return busy

    @property
    def status(self) -> PrimaryStatus:
        return PrimaryStatus("node", self.journal.statistics().identity, 1, True)


@define(eq=False)
class Backup:
    """A replica, attempt after attempt, on one disk."""

    disk: SimulatedDisk
    random: Random
    saved_max: int = 2
    replica: Replica | None = None
    worker: Worker = field(init=False)
    log: list[str] = Factory(list)
    endings: list[Ending] = Factory(list)

    def __attrs_post_init__(self) -> None:
        self.worker = Worker(self.disk)

    def join(self, line: WireEnd) -> None:
        assert self.replica is None or self.replica.at_rest
        self.replica = Replica(line, SMALL, self.saved_max, CALL_TIMEOUT_S, self.log.append)
        self.replica.owner = self
        self.replica.begin(REGISTRATION, NOW)

    def on_accepted(self, status: PrimaryStatus) -> None:
        """The test looks at the state."""

    def on_segment(self, generation: int) -> None:
        """No record is kept here."""

    def on_in_sync(self, status: PrimaryStatus) -> None:
        """The test looks at the state."""

    def on_over(self, ending: Ending, status: PrimaryStatus | None) -> None:
        self.endings.append(ending)

    def step(self, held: Lane | None = None) -> bool:
        replica = self.replica
        if replica is None or replica.at_rest:
            return False
        self.worker.add(replica.take_work())
        busy = not self.worker.idle
        ended = self.worker.step(self.random, held)
        if ended is not None:
            batch, result = ended
            if isinstance(result, DiskFault):
                replica.on_disk_failed(batch, result)
            else:
                replica.on_disk_done(batch, result)
            self.worker.add(replica.take_work())
        return busy

    @property
    def in_sync(self) -> bool:
        return self.replica is not None and self.replica.state is ReplicaState.IN_SYNC


@define(eq=False)
class Pair:
    """Both, and the wire between them."""

    random: Random
    primary: Primary
    backup: Backup
    ends: tuple[WireEnd, WireEnd] | None = None
    #: The backup may get less than everything: bytes that may still be delivered to it, None for all.
    budget: int | None = None

    @classmethod
    def new(cls, random: Random) -> Pair:
        primary = Primary(SimulatedDisk(), random)
        primary.journal.open(NOW)
        pair = cls(random, primary, Backup(SimulatedDisk(), random))
        while primary.journal.state is JournalState.RECOVERING:
            assert primary.step()
        return pair

    def join(self) -> None:
        """Connect, and register the backup."""
        here, there = WireEnd("backup"), WireEnd("primary")
        here.far, there.far = there, here
        self.ends = here, there
        self.backup.join(there)
        self.primary.replicator.register(here, REGISTRATION, self.primary.status)

    def cut(self) -> None:
        """The connection breaks; what was on its way is lost."""
        if self.ends is not None:
            ends, self.ends = self.ends, None
            for end in self.random.sample(ends, 2):
                if end.alive:
                    end.break_off()
            self.primary.settle_journal()

    def deliver(self, whole: bool = False) -> bool:
        """Some bytes arrive at one end; False when none are on their way."""
        if self.ends is None:
            return False
        waiting = [end for end in self.ends if end.out]
        if not waiting:
            if not all(end.alive for end in self.ends):
                self.cut()
                return True
            return False
        end = self.random.choice(waiting)
        count = len(end.out) if whole else self.random.choice((1, 20, 600, 5000, 40_000, 400_000))
        data = bytes(end.out[:count])
        del end.out[:count]
        assert end.far is not None
        if end.far.alive:
            end.far.receive(data)
        self.primary.settle_journal()
        return True

    def step(self, held: Lane | None = None, held_there: Lane | None = None) -> bool:
        """One thing happens somewhere; False when there is nothing to happen."""
        actions: list[Callable[[], bool]] = [
            lambda: self.primary.step(held),
            lambda: self.backup.step(held_there),
            self.deliver,
        ]
        # Twice: what one of them found nothing to do may have given another.
        return any(action() for action in self.random.sample(actions, 3) + actions)

    def settle(self) -> None:
        """Until nothing happens any more."""
        while self.step():
            pass

    def run_until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            assert self.step(), (self.primary.replicator.state, self.primary.log, self.backup.log)

    def synchronise(self) -> None:
        """Join, and wait until both ends know that the backup is in sync."""
        self.join()
        self.run_until(lambda: self.primary.replicator.state is ReplicatorState.SYNCHRONISED and self.backup.in_sync)

    # -- checks --------------------------------------------------------------------------------------------------

    def check(self, disk: SimulatedDisk, *, crash: bool = True) -> ModelState:
        """A disk, after a power cut, recovers to a state that holds everything confirmed."""
        copy = disk.copy()
        copy.heal()
        copy.capacity_bytes = None
        if crash:
            copy.crash(self.random)
        return self.primary.recorded.check_recovered(recovered(copy))


def recovered(disk: SimulatedDisk) -> RecoveredState:
    """What an ordinary journal finds on a disk."""
    journal = opened(disk)
    assert journal.state is JournalState.READY, journal.failure
    assert journal.recovered is not None
    return journal.recovered


def opened(disk: SimulatedDisk) -> Journal:
    recorded = RecordedJournal(disk, SMALL)
    recorded.open()
    while recorded.journal.state is JournalState.RECOVERING and recorded.step():
        pass
    return recorded.journal
