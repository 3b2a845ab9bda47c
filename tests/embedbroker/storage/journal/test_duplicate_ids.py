"""Duplicate ids in the journal: in the batch of their message, and gone from the disk when they are forgotten."""

from __future__ import annotations

from random import Random

from embedbroker.kernel import AddressDefinition, DuplicateId, QueueDefinition
from embedbroker.storage import RecordRow, journal_rows
from embedbroker.testing._disk import SimulatedDisk
from tests.embedbroker.storage.journal_model import NOW, RecordedJournal, StoredMessage, recover

ADDRESS, QUEUE = 1, 2


def journal_with_a_queue() -> RecordedJournal:
    recorded = RecordedJournal(SimulatedDisk())
    recorded.open()
    recorded.settle()
    recorded.call("reserve_ids", 1_000_000)
    recorded.call("add_address", AddressDefinition(ADDRESS, "a", True, False))
    recorded.call("add_queue", QueueDefinition(QUEUE, "q", "a", 1))
    return recorded


def send_once(recorded: RecordedJournal, number: int, size: int = 0) -> DuplicateId:
    message, entry = StoredMessage(2 * number, bytes(size)), DuplicateId(2 * number + 1, ADDRESS, b"%016d" % number)
    recorded.call("add_message_once", message, [(QUEUE, 2 * number)], entry)
    return entry


def test_a_message_and_its_id_stand_in_one_batch() -> None:
    recorded, random = journal_with_a_queue(), Random(1)
    for number in range(100, 1100):
        send_once(recorded, number, random.randrange(900))
        if not number % 7:
            recorded.settle()
    recorded.close()
    rows = [row for row in journal_rows(recorded.disk) if isinstance(row, RecordRow)]
    messages = [row for row in rows if row.kind == "ADD_MESSAGE"]
    ids = [row for row in rows if row.kind == "DUPLICATE_ID"]
    assert len(messages) == len(ids) == 1000
    assert [(row.file, row.batch) for row in messages] == [(row.file, row.batch) for row in ids]
    assert ids[0].text == f"id 201 of address {ADDRESS}: {(b'%016d' % 100).hex()}"


def test_what_was_forgotten_leaves_the_disk_and_the_rest_comes_back() -> None:
    recorded = journal_with_a_queue()
    entries: list[DuplicateId] = []
    files = []
    for number in range(100, 4100):
        entries.append(send_once(recorded, number))
        recorded.call("acknowledge", 2 * number, QUEUE, 0)
        if len(entries) > 20:
            recorded.call("forget_duplicate_ids", (entries.pop(0).number,))
        recorded.journal.on_tick(NOW)
        recorded.settle()
        files.append(len(recorded.file_names()))
    assert max(files[2000:]) <= max(files[:2000]) < 15
    journal = recover(recorded.disk)
    assert journal.recovered is not None
    found: list[DuplicateId] = []
    while portion := journal.recovered.take_duplicate_ids(7):
        assert len(portion) <= 7
        found += portion
    assert found[-20:] == entries and len(found) < 500


def ids_after_a_restart(recorded: RecordedJournal) -> list[DuplicateId]:
    recorded.settle()
    journal = recover(recorded.disk.copy())
    assert journal.recovered is not None
    return journal.recovered.take_duplicate_ids(100_000)


def test_ids_that_were_cleared_do_not_come_back_and_later_ones_do() -> None:
    recorded = journal_with_a_queue()
    entries = [send_once(recorded, number) for number in range(100, 400)]
    recorded.call("add_duplicate_id", DuplicateId(900, ADDRESS, b"in a transaction"), 901)
    for entry in entries[:200]:
        recorded.call("forget_duplicate_ids", (entry.number,))  # without a record
    recorded.call("clear_duplicate_ids", ADDRESS, [entry.number for entry in entries[200:]])
    assert ids_after_a_restart(recorded) == []
    recorded.call("commit", 901, [])
    later = send_once(recorded, 500)
    assert ids_after_a_restart(recorded) == [DuplicateId(900, ADDRESS, b"in a transaction"), later]
    recorded.close()
    rows = [row for row in journal_rows(recorded.disk) if isinstance(row, RecordRow)]
    assert [row.text for row in rows if row.kind == "CLEAR_DUPLICATE_IDS"] == [str(ADDRESS)]


def test_ids_that_were_cleared_leave_the_disk_and_so_do_the_records_of_that() -> None:
    recorded = journal_with_a_queue()
    entries: list[DuplicateId] = []
    files = []
    for number in range(100, 4100):
        entries.append(send_once(recorded, number))
        recorded.call("acknowledge", 2 * number, QUEUE, 0)
        if len(entries) == 100:
            recorded.call("clear_duplicate_ids", ADDRESS, [entry.number for entry in entries])
            entries.clear()
        recorded.journal.on_tick(NOW)
        recorded.settle()
        files.append(len(recorded.file_names()))
    assert max(files[2000:]) <= max(files[:2000]) < 15
    assert ids_after_a_restart(recorded) == entries
    recorded.close()
    kinds = [row.kind for row in journal_rows(recorded.disk) if isinstance(row, RecordRow)]
    assert kinds.count("CLEAR_DUPLICATE_IDS") < 20 and kinds.count("DUPLICATE_ID") < 2000


def test_ids_of_an_address_that_is_gone_are_gone() -> None:
    recorded = journal_with_a_queue()
    for number in range(100, 600):
        send_once(recorded, number)
        recorded.call("acknowledge", 2 * number, QUEUE, 0)
    recorded.settle()
    before = len(recorded.file_names())
    recorded.call("remove_address", ADDRESS)
    for number in range(1000, 2000):
        recorded.call("add_message", StoredMessage(2 * number, b"x"), 0, [(QUEUE, 2 * number)])
        recorded.call("acknowledge", 2 * number, QUEUE, 0)
        recorded.journal.on_tick(NOW)
        recorded.settle()
    assert len(recorded.file_names()) <= before
    recorded.close()
    assert not any(row.kind == "DUPLICATE_ID" for row in journal_rows(recorded.disk) if isinstance(row, RecordRow))
    journal = recover(recorded.disk)
    assert journal.recovered is not None and journal.recovered.take_duplicate_ids(9) == []
