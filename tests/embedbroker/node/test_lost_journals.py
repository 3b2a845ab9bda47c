"""A journal that lost files while its broker was down: the broker refuses it, and no healthy journal looks like one."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from random import Random

import pytest
from attrs import define, evolve

from embedbroker.config import HAPolicy, PrimaryOnly, Role, SharedStoreBackup, SharedStorePrimary
from embedbroker.locks import LiveState, LockOperation, LockSession, StoreRecord, WriteRecord, called
from embedbroker.node import Command, CommandKind, Level
from embedbroker.storage import (
    DiskFault,
    DiskOperation,
    FaultKind,
    ListFiles,
    Read,
    Remove,
    Sync,
    SyncDirectory,
    WriteAt,
    segment_range,
)
from embedbroker.testing._disk import SimulatedDisk
from embedbroker.testing._locks import SimulatedLocks
from tests.embedbroker.ha.replication.replicating import PRIMARY, Brokers

from .scripted import Stage

POLICIES = pytest.mark.parametrize("policy", [PrimaryOnly(), SharedStorePrimary()], ids=["of its own", "shared store"])
SEGMENT_BYTES = 16 * 1024
TEXT = "x" * 2000


def on(locks: SimulatedLocks, policy: HAPolicy) -> Stage:
    return Stage(durable=True, start=False, locks=locks, ha_policy=policy, segment_size_bytes=SEGMENT_BYTES)


def start(stage: Stage) -> None:
    """Another life on what the last one left."""
    stage.boot(start=False)
    stage.step(Command(CommandKind.START))
    stage.settle_disk()


def fill(stage: Stage, count: int = 20) -> None:
    """Messages over several segments, each confirmed."""
    peer = stage.connect().open_session()
    if "q" not in stage.node.kernel.address_manager.queues:
        peer.create_queue()
    for _ in range(count):
        peer.post(TEXT, durable=True, blocking=True)
        stage.settle_disk()
    peer.lose()


def segments(disk: SimulatedDisk | None) -> list[str]:
    """Names of those that hold batches: an empty one may be prepared behind them."""
    assert disk is not None
    (names,) = disk.run((ListFiles(),))
    assert isinstance(names, tuple)
    return [name for name in names if segment_range(name)]


def remove(disk: SimulatedDisk | None, *names: str) -> None:
    assert disk is not None
    disk.run((*[Remove(name) for name in names], SyncDirectory()))


def messages(stage: Stage) -> int:
    return len(list(stage.node.kernel.address_manager.queues["q"].backlog))


def written(stage: Stage) -> list[str]:
    """The newest segments, from the one that the last batch is in."""
    assert stage.node.journal is not None
    names = segments(stage.disk)
    return names[names.index(stage.node.journal.statistics().segments[-1].name) :]


def assert_refused(stage: Stage, text: str) -> None:
    """It never was live, and what it stops with has this in it."""
    assert stage.stopped is not None and text in (stage.stopped.failure or ""), stage.stopped
    assert not stage.ready and Role.LIVE not in stage.roles


@POLICIES
@pytest.mark.parametrize("stopped", [True, False], ids=["stopped", "killed"])
def test_a_journal_that_is_gone_is_refused_until_its_record_is_gone_too(policy: HAPolicy, stopped: bool) -> None:
    locks = SimulatedLocks()
    stage = on(locks, policy)
    start(stage)
    fill(stage)
    node_id = stage.node.node_id
    if stopped:
        stage.step(Command(CommandKind.STOP))
        stage.settle_disk()
    remove(stage.disk, *segments(stage.disk))
    for _ in range(2):
        start(stage)
        assert_refused(stage, f"there is no journal, but node {node_id} has one: is its data directory mounted?")
    locks.write(StoreRecord())
    start(stage)
    assert stage.ready and "q" not in stage.node.kernel.address_manager.queues


@POLICIES
def test_a_journal_without_its_newest_segment_is_refused_and_goes_on_when_that_is_back(policy: HAPolicy) -> None:
    locks = SimulatedLocks()
    stage = on(locks, policy)
    start(stage)
    fill(stage)
    whole, newest = deepcopy(stage.disk), written(stage)
    remove(stage.disk, *newest)
    start(stage)
    assert_refused(stage, "its newest segments are missing, or it is an older copy. Bring the missing files back")
    stage.disk = whole
    start(stage)
    assert stage.ready and messages(stage) == 20
    remove(stage.disk, *newest)
    locks.write(StoreRecord())
    start(stage)
    assert 0 < messages(stage) < 20, "what is left, as a new node"


@POLICIES
@pytest.mark.parametrize("which", [0, 1])
def test_a_journal_without_an_older_segment_is_refused(policy: HAPolicy, which: int) -> None:
    stage = on(SimulatedLocks(), policy)
    start(stage)
    fill(stage)
    name = segments(stage.disk)[which]
    assert name not in written(stage)
    remove(stage.disk, name)
    start(stage)
    assert_refused(stage, f"{name} at offset 0: the file is missing, but its batches were synced")


@POLICIES
def test_a_journal_that_is_older_than_its_record_is_refused(policy: HAPolicy) -> None:
    """Within one segment, too: an orderly stop writes down where it ends."""
    stage = on(SimulatedLocks(), policy)
    start(stage)
    fill(stage, 2)
    backup = deepcopy(stage.disk)
    fill(stage, 2)
    stage.step(Command(CommandKind.STOP))
    stage.settle_disk()
    stage.disk = backup
    start(stage)
    assert_refused(stage, "ends with batch ")


@POLICIES
def test_records_of_earlier_releases_are_taken_as_they_are(policy: HAPolicy) -> None:
    """Those named a journal before there was anything in it: an empty one begins, and the log reports it."""
    locks = SimulatedLocks()
    stage = on(locks, policy)
    start(stage)
    fill(stage)
    locks.write(evolve(locks.read(), last_batch=None))
    start(stage)
    assert stage.ready and messages(stage) == 20
    assert (locks.read().last_batch or 0) > 20
    locks.write(evolve(locks.read(), last_batch=None))
    remove(stage.disk, *segments(stage.disk))
    start(stage)
    assert stage.ready
    level, text = next((level, text) for level, text in stage.notices if "had a journal" in text)
    assert level is Level.WARNING and text.endswith("which is not there: if it is lost, restore it")


def test_a_journal_without_evidence_begins_empty_and_the_log_names_its_directory() -> None:
    stage = Stage(
        durable=True,
        start=False,
        locks=SimulatedLocks(),
        ha_policy=PrimaryOnly(),
        data_directory="/somewhere/data",
        segment_size_bytes=SEGMENT_BYTES,
    )
    for expected in (1, 0):
        start(stage)
        assert stage.ready
        lines = [text for level, text in stage.notices if level is Level.INFO]
        assert lines.count("begins with an empty journal in /somewhere/data") == expected


def test_a_backup_refuses_a_shared_journal_that_lost_its_newest_segment() -> None:
    locks = SimulatedLocks()
    stage = on(locks, SharedStorePrimary())
    start(stage)
    fill(stage)
    remove(stage.disk, *written(stage))
    stage.config = evolve(stage.config, ha_policy=SharedStoreBackup())
    stage.boot(start=False)
    stage.step(Command(CommandKind.START))
    stage.settle_disk()
    stage.advance(0.1)
    stage.settle_disk()
    assert_refused(stage, "its newest segments are missing")


def test_a_new_segment_is_written_down_once() -> None:
    locks = SimulatedLocks()
    stage = on(locks, PrimaryOnly())
    start(stage)
    asked = _records(stage, lambda: fill(stage, 40))
    began = len(segments(stage.disk))
    assert 3 <= len(asked) <= began
    assert asked == sorted(set(asked)), "each is of a later batch than the last"


def _records(stage: Stage, act: Callable[[], None]) -> list[int]:
    """The batches in the records that are written meanwhile."""
    assert stage.session is not None
    batches: list[int] = []
    stage.session, session = Watched(stage.session, batches), stage.session
    act()
    stage.session = session
    return batches


@define
class Watched:
    """A session whose records are looked at on their way."""

    session: LockSession
    batches: list[int]
    immediate: bool = True

    def run(self, operations: tuple[LockOperation, ...]) -> tuple[object, ...]:
        self.batches += [each.record.last_batch or 0 for each in operations if isinstance(each, WriteRecord)]
        return self.session.run(operations)

    def close(self) -> None:
        self.session.close()


def test_a_store_that_cannot_write_the_record_does_not_stop_its_broker() -> None:
    locks = SimulatedLocks()
    stage = on(locks, PrimaryOnly())
    start(stage)
    before = locks.read()
    locks.full.add(called(stage.config.ha_policy, stage.config.name))
    fill(stage, 10)
    assert stage.ready and stage.stopped is None
    assert any("the record (node.state) does not follow the journal" in text for _level, text in stage.notices)
    assert locks.read() == before
    locks.full.clear()
    fill(stage, 20)
    assert (locks.read().last_batch or 0) > (before.last_batch or 0)


@pytest.mark.parametrize("order", ["the journal first", "the record first"])
def test_a_crash_between_any_two_works_leaves_a_journal_that_is_served(order: str) -> None:
    """Rotations, and what is written down about them, with the power gone after so many pieces of work."""
    ends = 0
    while True:
        locks = SimulatedLocks()
        stage = on(locks, PrimaryOnly())
        start(stage)
        done = _work(stage, ends, record_first=order == "the record first")
        confirmed = stage.node.gate.reached
        assert stage.disk is not None
        stage.disk.crash(Random(ends))
        start(stage)
        assert stage.ready, (ends, stage.stopped)
        assert stage.node.journal is not None and stage.node.journal.reached >= confirmed
        if done < ends:
            break
        ends += 1
    assert ends > 30


def _work(stage: Stage, count: int, *, record_first: bool) -> int:
    """Do so many pieces of work of a broker that is sent messages all the time; returns how many there were."""
    peer = stage.connect().open_session()
    peer.create_queue()
    sent = done = 0
    while done < count:
        if sent < 32 and not stage.work:
            peer.post(TEXT, durable=True, blocking=True)
            sent += 1
            stage.run()
        if stage.lock_work is not None and (record_first or not stage.work):
            stage.finish_lock_work()
        elif stage.work:
            stage.finish_work(stage.work[0])
        else:
            break
        stage.run()
        done += 1
    return done


# -- replication -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("manager", [True, False])
def test_a_replicating_primary_refuses_a_journal_that_lost_its_newest_segment(manager: bool) -> None:
    brokers = Brokers("pq", manager=manager)
    host = brokers.primary("p")
    writer = brokers.writer("p")
    brokers.until(lambda: len(segments(host.disk)) > 3 and len(writer.confirmed) > 3)
    journal = brokers.node("p").journal
    assert journal is not None
    newest = [name for name in segments(host.disk) if name >= journal.statistics().segments[-1].name]
    began = journal.rotated_at
    brokers.until(lambda: f"last batch: {began}" in record_text(host.disk))
    brokers.crash("p")
    kept = {name: host.disk.run((Read(name, 0, 1 << 20),))[0] for name in newest}
    remove(host.disk, *newest)
    host.start()
    brokers.run(5.0)
    assert "its newest segments are missing, or it is an older copy" in (brokers.failures["p"] or "")
    del brokers.failures["p"]
    for name, data in kept.items():
        assert isinstance(data, bytes)
        host.disk.run((WriteAt(name, 0, (data,)), Sync(name), SyncDirectory()))
    host.start()
    brokers.until_role("p", Role.LIVE)


@pytest.mark.parametrize("writes", [True, False], ids=["written since", "only copied"])
@pytest.mark.parametrize("prepared", [True, False], ids=["with the next one", "alone"])
def test_a_copy_that_lost_its_newest_segment_is_refused_when_it_becomes_live_alone(
    writes: bool, prepared: bool
) -> None:
    brokers = Brokers("pq", manager=True)
    host = brokers.primary("p")
    writer = brokers.writer("p", "q")
    brokers.until(lambda: len(segments(host.disk)) > 3 and len(writer.confirmed) > 30)
    if not writes:
        brokers.network.hold("writer", "p")
    copy = brokers.backup("q")
    brokers.until_in_sync("p")
    confirmed = len(writer.confirmed)
    brokers.until(lambda: not writes or len(writer.confirmed) > confirmed + 30)
    brokers.run(1.0)
    journal = brokers.node("p").journal
    assert journal is not None
    current = journal.statistics().segments[-1].name
    brokers.crash("q")
    brokers.crash("p")
    lost = [name for name in segments(copy.disk) if name == current or (name > current and prepared)]
    assert current in lost
    kept = {name: copy.disk.run((Read(name, 0, 1 << 20),))[0] for name in lost}
    remove(copy.disk, *lost)
    copy.start()
    brokers.run(5.0)
    assert "its newest segments are missing, or it is an older copy" in (brokers.failures["q"] or "")
    del brokers.failures["q"]
    for name, data in kept.items():
        assert isinstance(data, bytes)
        copy.disk.run((WriteAt(name, 0, (data,)), Sync(name), SyncDirectory()))
    copy.start()
    brokers.until_role("q", Role.LIVE)


def record_text(disk: SimulatedDisk) -> str:
    (text,) = disk.run((Read("node.state", 0, 4096),))
    assert isinstance(text, bytes)
    return text.decode()


class RecordsFail(SimulatedDisk):
    """A disk without room for the record of its broker."""

    is_full = False
    failures = 0

    def run(self, operations: tuple[DiskOperation, ...]) -> tuple[object, ...]:
        if self.is_full and any(getattr(each, "file", "") == "node.state.new" for each in operations):
            self.failures += 1
            raise DiskFault(FaultKind.FULL, "node.state.new", "no space left")
        return super().run(operations)


def test_a_replicating_primary_whose_record_cannot_be_written_while_it_is_live_goes_on() -> None:
    brokers = Brokers("p", manager=True)
    host, disk = brokers.build("p", PRIMARY), RecordsFail()
    host.disk = disk
    host.start()
    writer = brokers.writer("p")
    brokers.until(lambda: len(writer.confirmed) > 3)
    disk.is_full = True
    brokers.until(lambda: disk.failures > 1)
    confirmed = len(writer.confirmed)
    brokers.until(lambda: len(writer.confirmed) > confirmed + 3)
    assert "cannot keep the record of this broker: node.state.new: no space left" in brokers.said("p")


def test_the_record_of_a_copy_has_no_end_of_its_own_until_the_copy_is_live() -> None:
    """The live broker counts the copy's batches; what the directory held before must not be compared."""
    brokers = Brokers("pq", manager=True)
    brokers.primary("p")
    writer = brokers.writer("p", "q")
    brokers.until(lambda: len(writer.confirmed) > 3)
    host = brokers.backup("q")
    brokers.until_in_sync("p")
    brokers.run(0.5)
    assert "last batch" not in record_text(host.disk)
    brokers.crash("p")
    brokers.until_role("q", Role.LIVE)
    assert "last batch" in record_text(host.disk)


def test_the_state_of_an_orderly_stop_names_the_end() -> None:
    locks = SimulatedLocks()
    stage = on(locks, PrimaryOnly())
    start(stage)
    fill(stage, 2)
    stage.step(Command(CommandKind.STOP))
    stage.settle_disk()
    assert stage.node.journal is not None
    record = locks.read()
    assert (record.state, record.last_batch) == (LiveState.PAUSED, stage.node.journal.reached)
