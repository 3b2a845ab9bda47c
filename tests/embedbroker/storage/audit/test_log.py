"""The audit log on a disk: what is in it after each end of a life, and what it does when the disk refuses."""

from __future__ import annotations

import pytest

from embedbroker.kernel import Queue, QueueDefinition
from embedbroker.storage import (
    AuditDirectory,
    AuditLog,
    AuditRecordKind,
    AuditWork,
    DiskFault,
    FaultKind,
    Read,
    SegmentHeader,
    Stat,
    WriteAt,
    read_header,
    scan_audit_directory,
)
from embedbroker.testing import SimulatedDisk
from embedbroker.testing._audit_files import contents
from tests.audit_logs import AuditEntry, entries_of

MIB = 1024 * 1024
KIB = 1024
SENT, CONFIRMED, LEFT = AuditRecordKind.SENT, AuditRecordKind.CONFIRMED, AuditRecordKind.LEFT


class _Owner:
    now_ms = 0
    is_publishing = False

    def wake(self, queue: Queue) -> None:
        """Nothing waits here."""

    def call_at(self, due_ms: int, queue: Queue) -> None:
        """Nothing is scheduled here."""

    def examine_rebalance(self, queue: Queue) -> None:
        """Nothing is rebalanced here."""

    def expire(self, queue: Queue, reference: object) -> bool:
        return False

    def expires(self, queue: Queue) -> bool:
        return False

    def settle_delivered(self, queue: Queue, reference: object) -> None:
        """Nothing is delivered here."""


def a_queue(name: str = "orders") -> Queue:
    definition = QueueDefinition(id=6, name=name, address=name, routing_type=1, durable=True)
    return Queue(definition, None, _Owner(), lambda *_: pytest.fail("nothing is restored"))


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


def a_log(disk: SimulatedDisk, *, retention_bytes: int = MIB, segment_size_bytes: int = 16 * KIB) -> AuditLog:
    log = AuditLog(scan_audit_directory(disk), retention_bytes=retention_bytes, segment_size_bytes=segment_size_bytes)
    log.wall_ms = 1000
    log.begin(identity=77, broker="here", node_id="node")
    return log


def write(disk: SimulatedDisk, work: AuditWork | None) -> None:
    """What a step does at once, and what it leaves to the background."""
    if work is not None:
        disk.run((*work.operations, *work.later))


def entries(disk: SimulatedDisk) -> list[AuditEntry]:
    return list(entries_of(contents(disk)))


def sent_ids(disk: SimulatedDisk) -> list[object]:
    return [entry.facts["message_id"] for entry in entries(disk) if entry.kind is SENT]


def test_what_was_sent_is_confirmed_once_its_point_is_reached(disk: SimulatedDisk) -> None:
    log, queue = a_log(disk), a_queue()
    log.routed(queue, 11, True, 0)
    log.wall_ms = 2000
    write(disk, log.take_work(5, 4, 12))
    log.routed(queue, 13, True, 0)
    log.wall_ms = 3000
    write(disk, log.take_work(6, 5, 14))
    assert [(entry.wall_ms, entry.name) for entry in entries(disk)] == [
        (2000, "BEGUN"), (2000, "NAMED_QUEUE"), (2000, "SENT"), (3000, "SENT"), (3000, "CONFIRMED"),
    ]  # fmt: skip
    assert entries(disk)[-1].facts["number"] == 12
    write(disk, log.take_work(6, 6, 14))
    assert entries(disk)[-1].facts["number"] == 14


def test_a_step_without_news_writes_nothing(disk: SimulatedDisk) -> None:
    log = a_log(disk)
    write(disk, log.take_work(0, 0, 1))
    assert log.take_work(0, 0, 1) is None


def test_a_kill_loses_nothing_that_was_written_and_a_power_cut_what_was_not_synced(disk: SimulatedDisk) -> None:
    log, queue = a_log(disk), a_queue()
    for number in range(10):
        log.routed(queue, number, True, 0)
        write(disk, log.take_work(0, 0, number))
    assert sent_ids(disk) == list(range(10))
    # The next life of the same machine goes on behind that, in a separate segment.
    second = a_log(disk)
    second.routed(queue, 100, True, 0)
    write(disk, second.take_work(0, 0, 100))
    assert sent_ids(disk) == [*range(10), 100]
    assert {entry.segment for entry in entries(disk)} == {1, 2}
    disk.lose_unsynced()
    assert contents(disk).keys() <= {"audit-0000000001.log", "audit-0000000002.log"}


@pytest.mark.parametrize("fact", ["sent", "left", "returned"])
def test_each_segment_names_the_queues_it_speaks_of(disk: SimulatedDisk, fact: str) -> None:
    """Those before it may be gone by the time it is read."""
    log, queue = a_log(disk), a_queue()
    tell = {
        "sent": lambda number: log.routed(queue, number, True, 0),
        "left": lambda number: log.settled(queue, number, 0, 0),
        "returned": lambda number: log.returned(queue, number, True),
    }
    for number in range(2_000):
        tell[fact](number)
        write(disk, log.take_work(0, 0, number))
    found = entries(disk)
    segments = {entry.segment for entry in found}
    assert len(segments) > 2
    named = {entry.segment for entry in found if entry.name == "NAMED_QUEUE" and entry.facts["id"] == queue.id}
    assert {entry.segment for entry in found if entry.name == fact.upper()} <= named


def test_a_torn_end_is_cut_and_whole_batches_stay(disk: SimulatedDisk) -> None:
    log, queue = a_log(disk), a_queue()
    for number in range(3):
        log.routed(queue, number, True, 0)
        write(disk, log.take_work(0, 0, number))
    (size,) = disk.run((Stat("audit-0000000001.log"),))
    assert isinstance(size, int)
    torn = b"EBJB" + b"\x07" * 700
    disk.run((WriteAt("audit-0000000001.log", size, (torn,)),))
    place = scan_audit_directory(disk)
    assert place.segments[-1] == (1, size)
    assert place.notes == ["audit log: the torn end of audit-0000000001.log was cut, 704 bytes"]
    assert sent_ids(disk) == [0, 1, 2]


def test_damage_that_whole_batches_follow_is_left_for_the_audit(disk: SimulatedDisk) -> None:
    log, queue = a_log(disk), a_queue()
    for number in range(3):
        log.routed(queue, number, True, 0)
        write(disk, log.take_work(0, 0, number))
    disk.run((WriteAt("audit-0000000001.log", 4096 + 512 + 70, (b"\xff",)),))
    before = contents(disk)
    assert scan_audit_directory(disk).notes == []
    assert contents(disk) == before


def test_a_segment_that_never_got_its_header_is_removed(disk: SimulatedDisk) -> None:
    disk.run((WriteAt("audit-0000000001.log", 0, (bytes(100),)),))
    assert not scan_audit_directory(disk).segments
    assert contents(disk) == {}


def test_the_oldest_segments_go_before_the_retention_is_exceeded(disk: SimulatedDisk) -> None:
    log, queue = a_log(disk, retention_bytes=64 * KIB), a_queue()
    for number in range(2000):
        log.routed(queue, number, True, 0)
        write(disk, log.take_work(0, 0, number))
        assert sum(map(len, contents(disk).values())) <= 64 * KIB
    ids = sent_ids(disk)
    assert ids == list(range(2000 - len(ids), 2000))
    assert len(ids) > 50
    # Each of those that are left names its writer and its queues.
    named = {entry.segment for entry in entries(disk) if entry.kind is AuditRecordKind.NAMED_QUEUE}
    begun = {entry.segment for entry in entries(disk) if entry.kind is AuditRecordKind.BEGUN}
    assert named == begun == {entry.segment for entry in entries(disk)}


def test_the_retention_counts_what_earlier_lives_left(disk: SimulatedDisk) -> None:
    queue = a_queue()
    for life in range(30):
        log = a_log(disk, retention_bytes=64 * KIB)
        for number in range(40):
            log.routed(queue, 100 * life + number, True, 0)
            write(disk, log.take_work(0, 0, number))
        log.end()
        write(disk, log.take_work(0, 0, 0))
        assert sum(map(len, contents(disk).values())) <= 64 * KIB


def test_an_orderly_end_is_said_and_synced(disk: SimulatedDisk) -> None:
    log, queue = a_log(disk), a_queue()
    log.routed(queue, 1, True, 0)
    log.end()
    work = log.take_work(0, 0, 1)
    assert work is not None and not work.later
    write(disk, work)
    disk.lose_unsynced()
    assert [entry.name for entry in entries(disk)][-1] == "ENDED"


def test_many_facts_of_one_step_are_several_batches_in_order(disk: SimulatedDisk) -> None:
    log, queue = a_log(disk, segment_size_bytes=16 * KIB), a_queue()
    for number in range(3000):
        log.routed(queue, number, False, 0)
    write(disk, log.take_work(0, 0, 3000))
    assert sent_ids(disk) == list(range(3000))
    assert len(contents(disk)) > 3


def test_a_commit_names_its_transactions_however_many(disk: SimulatedDisk) -> None:
    log = a_log(disk)
    log.committed(list(range(10_000)), 20_000)
    write(disk, log.take_work(0, 0, 20_000))
    found: list[object] = []
    for entry in entries(disk):
        if entry.kind is AuditRecordKind.COMMITTED:
            assert entry.facts["number"] == 20_000
            ids = entry.facts["transaction_ids"]
            assert isinstance(ids, list)
            found += ids
    assert found == list(range(10_000))


def test_long_names_are_cut_and_half_characters_survive(disk: SimulatedDisk) -> None:
    log = a_log(disk)
    log.routed(a_queue("\ud800" + "ä" * 5000), 1, True, 0)
    write(disk, log.take_work(0, 0, 1))
    names = [entry.facts["name"] for entry in entries(disk) if entry.kind is AuditRecordKind.NAMED_QUEUE]
    assert names == ["\ud800" + "ä" * 127]


def test_a_log_that_cannot_be_written_says_so_in_what_it_has(disk: SimulatedDisk) -> None:
    """On a full disk nothing grows, but a header can be written in its place."""
    log, queue = a_log(disk), a_queue()
    log.routed(queue, 1, True, 0)
    write(disk, log.take_work(0, 0, 1))
    log.routed(queue, 2, True, 0)
    assert log.take_work(0, 0, 2) is not None  # the disk refuses it
    write(disk, log.fail())
    (data,) = disk.run((Read("audit-0000000001.log", 0, 4096),))
    assert isinstance(data, bytes)
    header = read_header(data)
    assert isinstance(header, SegmentHeader) and header.cut_short
    assert sent_ids(disk) == [1]
    assert not log.is_open


def test_a_disk_that_cannot_be_read_is_a_fault(disk: SimulatedDisk) -> None:
    class Refusing:
        def run(self, operations: tuple[object, ...]) -> tuple[object, ...]:
            raise DiskFault(FaultKind.DENIED, "", "not for you")

    with pytest.raises(DiskFault, match="not for you"):
        scan_audit_directory(Refusing())
    assert isinstance(scan_audit_directory(disk), AuditDirectory)
