"""Verdicts on journals, rows for people, and salvaged copies."""

from __future__ import annotations

from random import Random

import pytest

from embedbroker.kernel import (
    AddressDefinition,
    CommitSet,
    CursorDefinition,
    CursorRemoved,
    FencingToken,
    FencingTokenRemoved,
    HeuristicOutcome,
    QueueDefinition,
    SettingsDefinition,
    SettingsRemoved,
    xid_bytes,
)
from embedbroker.storage import (
    SECTOR_BYTES,
    DiskFault,
    Finding,
    JournalSettings,
    ListFiles,
    RecordRow,
    Remove,
    Rename,
    SyncDirectory,
    WriteAt,
    holds_journal,
    inspect_journal,
    journal_rows,
    repair_journal,
)
from embedbroker.testing._disk import SimulatedDisk
from embedclient.model import Xid
from tests.embedbroker.storage.journal_model import (
    NOW,
    SMALL,
    ModelState,
    RecordedJournal,
    StoredMessage,
    picture_of,
    recover,
)
from tests.embedbroker.storage.journal_traffic import Traffic
from tests.embedbroker.storage.journal_workload import Workload

XID = Xid(7, b"br", b"global")
COPY = JournalSettings(identity=777, segment_size_bytes=SMALL.segment_size_bytes)


def worked(seed: int, calls: int, *, marks: bool = False) -> tuple[SimulatedDisk, RecordedJournal]:
    disk = SimulatedDisk()
    recorded = RecordedJournal(disk)
    recorded.open()
    recorded.settle()
    random = Random(seed)
    workload = Workload.on(random, ModelState())
    workload.marks = workload.reads = marks
    for _ in range(calls):
        name, arguments = workload.call()
        recorded.call(name, *arguments)
        if random.random() < 0.3:
            recorded.settle()
    recorded.close()
    return disk, recorded


def each_record_once() -> SimulatedDisk:
    disk = SimulatedDisk()
    recorded = RecordedJournal(disk)
    recorded.open()
    recorded.settle()
    recorded.call("reserve_ids", 500)
    recorded.call("add_address", AddressDefinition(1, "orders", True, False))
    recorded.call("add_queue", QueueDefinition(2, "q", "orders", 1))
    recorded.call("add_message", StoredMessage(10, b"abc", priority=7, expiration=99), 0, [(2, 11)])
    recorded.call("add_message", StoredMessage(12, b"abcd", durable=False), 40, [(2, 0)])
    recorded.call("acknowledge", 10, 2, 40)
    recorded.call("prepare", 40, b"\x01\x02")
    recorded.call("commit", 40, [(2, 13)])
    recorded.call("update_delivery_count", 12, 2, 3)
    recorded.call("acknowledge", 12, 2, 0)
    recorded.call("rollback", 41)
    recorded.call("prepare", 42, xid_bytes(XID))
    recorded.call("add_outcome", HeuristicOutcome(42, XID, True))
    recorded.call("commit", 42, [])
    recorded.call("remove_outcome", 42)
    recorded.call("prepare", 43, xid_bytes(XID))
    recorded.call("note", FencingToken(50, "done", 4))
    recorded.call("note", CommitSet(FencingToken(50, "done", 5), 100, [43], [43, 1, 2, 0]))
    recorded.call("note", FencingTokenRemoved(50))
    recorded.call("note", CursorDefinition(60, 2, "reader", 5, 13, 1, "job", 1000))
    recorded.call("note", CursorRemoved(60))
    recorded.call("note", SettingsDefinition(61, "bridge", "to-b", {"queue": "orders", "password": "hunter2"}))
    url = "tcp://b:1?sslEnabled=true&trustStorePassword=hunter3"
    recorded.call("note", SettingsDefinition(62, "connector", "b", {"url": url}))
    recorded.call("note", SettingsRemoved(61))
    recorded.call("remove_queue", 2)
    recorded.call("remove_address", 1)
    recorded.close()
    return disk


def segments_of(disk: SimulatedDisk) -> list[str]:
    (names,) = disk.run((ListFiles(),))
    assert isinstance(names, tuple)
    return [name for name in names if name.startswith("segment-")]


def test_rows_say_what_every_record_means() -> None:
    rows = [(row.kind, row.text) for row in journal_rows(each_record_once()) if isinstance(row, RecordRow)]
    assert [row for row in rows if row[0] not in ("ADDRESS", "QUEUE", "CURSOR", "SETTINGS")] == [
        ("SEGMENT_START", "ids below 0 used; segments before: none"),
        ("RESERVE_IDS", "500"),
        ("ADD_MESSAGE", "message 10, 3 bytes in encoding 1, durable, priority 7, expires 99: queue 2 position 11"),
        (
            "ADD_MESSAGE",
            "message 12, 4 bytes in encoding 1, not durable, priority 4: queue 2 ordinal 0 in transaction 40",
        ),
        ("ACKNOWLEDGE", "message 10 of queue 2 in transaction 40"),
        ("PREPARE", "transaction 40, XA branch 0102"),
        ("COMMIT", "transaction 40: queue 2 from 13"),
        ("UPDATE_DELIVERY_COUNT", "message 12 of queue 2 delivered 3 times"),
        ("ACKNOWLEDGE", "message 12 of queue 2"),
        ("ROLLBACK", "transaction 41"),
        ("PREPARE", "transaction 42, XA branch 7:676c6f62616c:6272"),
        ("HEURISTIC_OUTCOME", "transaction 42, XA branch 7:676c6f62616c:6272 committed by an operator"),
        ("COMMIT", "transaction 42"),
        ("FORGET_OUTCOME", "transaction 42"),
        ("PREPARE", "transaction 43, XA branch 7:676c6f62616c:6272"),
        ("MARKER", "marker 50 'done' is 4"),
        ("COMMIT_SET", "marker 50 'done' is 5; 1 transactions: 43"),
        ("REMOVE_MARKER", "50"),
        ("REMOVE_CURSOR", "60"),
        ("REMOVE_SETTINGS", "61"),
        ("REMOVE_QUEUE", "2"),
        ("REMOVE_ADDRESS", "1"),
        ("SEAL", str(NOW.wall_ms)),
    ]
    assert '"name":"orders"' in dict(rows)["ADDRESS"]
    assert '"position":5,"end":13' in dict(rows)["CURSOR"]
    settings = " ".join(text for kind, text in rows if kind == "SETTINGS")
    assert "orders" in settings and "trustStorePassword" in settings and "hunter" not in settings


def test_rows_say_where_a_record_stands() -> None:
    disk = each_record_once()
    row = next(row for row in journal_rows(disk) if isinstance(row, RecordRow) and row.kind == "ADD_MESSAGE")
    content = disk.content(row.file)
    assert content[row.offset + row.size_bytes - 3 : row.offset + row.size_bytes] == b"abc"


def test_a_sound_journal_is_called_sound() -> None:
    disk, recorded = worked(1, 400)
    report = inspect_journal(disk)
    state = recorded.state_at(recorded.journal.reached)
    assert report.sound and report.sealed and report.refusal is None
    assert (report.messages, report.queues) == (len(state.messages), len(state.queues))
    assert report.prepared_transactions == len(state.prepared)
    identified = sum(map(len, state.duplicate_ids.values()))
    assert report.duplicate_ids is not None
    assert identified - len(state.forgotten) <= report.duplicate_ids <= identified and state.forgotten
    assert report.records["ADD_MESSAGE"] >= len(state.messages)
    assert max(segment.last_batch for segment in report.segments) == recorded.journal.reached


def test_branches_in_doubt_and_those_that_were_decided_are_named() -> None:
    recorded = RecordedJournal(SimulatedDisk())
    recorded.open()
    recorded.settle()
    recorded.call("prepare", 40, xid_bytes(XID))
    recorded.call("add_outcome", HeuristicOutcome(41, XID, False))
    recorded.close()
    report = inspect_journal(recorded.disk)
    assert report.prepared_transactions == 1
    assert report.in_doubt == ("XA branch 7:676c6f62616c:6272",)
    assert report.decided == ("XA branch 7:676c6f62616c:6272 rolled back by an operator",)


def test_an_empty_directory_is_sound() -> None:
    assert inspect_journal(SimulatedDisk()).sound
    assert list(journal_rows(SimulatedDisk())) == []


def test_looking_changes_nothing() -> None:
    disk, _ = worked(2, 300)
    disk.run((WriteAt("segment-0000000001.journal", 16000, (b"garbage",)),))
    before = disk.contents()
    inspect_journal(disk)
    list(journal_rows(disk))
    assert disk.contents() == before


def test_damage_is_found_with_file_and_offset_and_everything_else_is_still_read() -> None:
    disk, _ = worked(4, 120)
    whole = [row for row in journal_rows(disk) if isinstance(row, RecordRow)]
    victim = whole[len(whole) // 2]
    disk.flip(victim.file, victim.offset, 4)
    report = inspect_journal(disk)
    assert report.refusal is not None and victim.file in report.refusal
    (finding,) = report.findings
    assert finding.file == victim.file and 0 <= victim.offset - finding.offset < 4096
    rows = list(journal_rows(disk))
    assert finding in rows
    left = [row for row in rows if isinstance(row, RecordRow)]
    assert left == [row for row in whole if row.batch != victim.batch]


def test_a_damaged_header_of_a_segment_is_found_and_other_segments_are_read() -> None:
    disk, _ = worked(4, 600)
    segments = segments_of(disk)
    disk.flip(segments[0], 40, 1)
    report = inspect_journal(disk)
    assert report.findings[0] == Finding(
        segments[0], 0, "the checksum of the segment header does not fit; its batches cannot be read"
    )
    assert report.refusal is not None
    assert {segment.file for segment in report.segments} <= set(segments[1:])
    assert report.records


def test_a_segment_under_a_wrong_name_is_found_and_other_segments_are_read() -> None:
    disk, _ = worked(4, 600)
    own = next(name for name in reversed(segments_of(disk)) if any(row.file == name for row in journal_rows(disk)))
    wrong = "segment-5096135261.journal"
    disk.run((Rename(own, wrong),))
    found = Finding(wrong, 0, f"the name does not fit the segment header, which belongs to {own}; not read")
    report = inspect_journal(disk)
    assert report.refusal is not None and wrong in report.refusal
    assert report.findings == (found,)
    assert found in list(journal_rows(disk))
    copy = SimulatedDisk()
    assert repair_journal(disk, copy, COPY, NOW).findings == (found,)
    assert inspect_journal(copy).sound


def test_a_torn_tail_is_a_note_and_no_refusal() -> None:
    disk, _ = worked(5, 30)
    segment = inspect_journal(disk).segments[-1]
    disk.flip(segment.file, segment.used_bytes - SECTOR_BYTES, 1)
    report = inspect_journal(disk)
    assert report.refusal is None and not report.sound
    assert "is cut" in report.notes[0]


@pytest.mark.parametrize("seed", range(12))
def test_a_copy_of_an_undamaged_journal_holds_the_same(seed: int) -> None:
    disk, recorded = worked(seed, 500)
    copy = SimulatedDisk()
    report = repair_journal(disk, copy, COPY, NOW)
    journal = recover(copy)
    assert journal.recovered is not None and report.findings == ()
    state = recorded.state_at(recorded.journal.reached)
    picture, expected = picture_of(journal.recovered, state.forgotten), state.picture()
    assert picture.pop("id_limit") >= expected.pop("id_limit")  # type: ignore[operator]
    assert picture == expected
    assert inspect_journal(copy).sound


@pytest.mark.parametrize("seed", range(6))
def test_a_copy_holds_the_markers_and_gives_none_of_their_numbers_away(seed: int) -> None:
    disk, recorded = worked(seed, 500, marks=True)
    copy = SimulatedDisk()
    repair_journal(disk, copy, COPY, NOW)
    journal = recover(copy)
    fencing_tokens = recorded.state_at(recorded.journal.reached).fencing_tokens
    assert journal.recovered is not None and fencing_tokens
    assert {marker.id: marker for marker in journal.recovered.fencing_tokens} == fencing_tokens
    assert journal.recovered.id_limit > max(fencing_tokens)
    assert inspect_journal(copy).fencing_tokens == len(fencing_tokens)


@pytest.mark.parametrize("seed", range(12))
def test_a_salvaged_copy_starts_and_holds_what_was_in_readable_batches(seed: int) -> None:
    disk, recorded = worked(seed, 300)
    random = Random(seed)
    rows = [row for row in journal_rows(disk) if isinstance(row, RecordRow)]
    victims = random.sample(rows[:-1], 3)
    for victim in victims:
        disk.flip(victim.file, victim.offset + random.randrange(victim.size_bytes), 1 << random.randrange(8))
    copy = SimulatedDisk()
    report = repair_journal(disk, copy, COPY, NOW)
    assert {finding.file for finding in report.findings} == {victim.file for victim in victims}
    journal = recover(copy)
    assert journal.recovered is not None, journal.failure
    messages = picture_of(journal.recovered)["messages"]
    assert isinstance(messages, dict)
    lost_batches = {(victim.file, victim.batch) for victim in victims}
    readable = [row for row in rows if (row.file, row.batch) not in lost_batches]
    known = {int(row.text.split()[1].rstrip(",")) for row in readable if row.kind == "ADD_MESSAGE"}
    assert set(messages) <= known
    if not any(row.kind in ("QUEUE", "COMMIT") for row in rows if (row.file, row.batch) in lost_batches):
        living = recorded.state_at(recorded.journal.reached).messages
        assert set(messages) >= living.keys() & known


@pytest.mark.parametrize("damage", ["a file is gone", "the last batch of a segment reads as zeros"])
def test_what_is_missing_without_a_trace_is_a_finding_of_the_repair(damage: str) -> None:
    traffic = Traffic()
    stayed = traffic.fill() + traffic.fill() + traffic.fill()
    lost = traffic.journal.statistics().segments[1]
    disk = traffic.recorded.disk
    if damage == "a file is gone":
        disk.run((Remove(lost.name), SyncDirectory()))
    else:
        (*_, last) = [row.offset for row in journal_rows(disk) if isinstance(row, RecordRow) and row.file == lost.name]
        start = last // SECTOR_BYTES * SECTOR_BYTES
        disk.run((WriteAt(lost.name, start, (bytes(lost.end - start),)),))
    report = repair_journal(disk, SimulatedDisk(), COPY, NOW)
    assert report.messages < len(stayed)
    (finding,) = report.findings
    assert finding.file == lost.name and "synced" in finding.text


def test_a_copy_is_never_written_over_a_journal() -> None:
    disk, _ = worked(1, 20)
    with pytest.raises(ValueError, match="holds a journal already"):
        repair_journal(disk, disk, COPY, NOW)


def test_a_copy_that_was_not_finished_is_never_taken_for_the_journal() -> None:
    disk, _ = worked(6, 300)
    whole = SimulatedDisk()
    saved = repair_journal(disk, whole, COPY, NOW)
    assert saved.messages > 5
    refused = 0
    for operation in range(whole.operations):
        copy = SimulatedDisk()
        copy.fail_at(operation)
        with pytest.raises(DiskFault):
            repair_journal(disk, copy, COPY, NOW)
        copy.crash(Random(operation))
        report = inspect_journal(copy)
        if report.refusal is None:
            assert report.messages == saved.messages or not holds_journal(copy)
        else:
            assert "did not finish" in report.refusal
            assert recover(copy).recovered is None
            refused += 1
    assert refused > 5
    with pytest.raises(ValueError, match="holds a journal already, or the beginning of one"):
        repair_journal(disk, whole, COPY, NOW)
