"""The layout of records and batches, byte for byte: it is final, and other programs may read it."""

from __future__ import annotations

import json
from struct import pack
from zlib import crc32

import pytest
from attrs import asdict, evolve

from embedbroker.kernel import (
    AddressDefinition,
    CommitSet,
    CursorDefinition,
    CursorRemoved,
    DivertDefinition,
    DivertRemoved,
    FencingToken,
    FencingTokenRemoved,
    QueueDefinition,
    SettingsDefinition,
    SettingsRemoved,
)
from embedbroker.storage import JournalState, Read, Sync, WriteAt
from embedbroker.storage.journal import _record_codec as codec
from embedbroker.storage.journal._batch import BatchWalk, encode_batch, find_header, stored_size
from embedbroker.storage.journal._record_codec import RecordKind
from embedbroker.storage.journal._segments import (
    SegmentHeader,
    decode_header,
    encode_header,
    segment_name,
    segment_range,
)
from embedbroker.testing._disk import SimulatedDisk
from tests.embedbroker.storage.journal_model import NOW, SMALL, RecordedJournal, StoredMessage, recover


def records_of(*calls: tuple[object, ...]) -> bytes:
    """What these calls put into the first batch, behind the record that starts the segment."""
    recorded = RecordedJournal(SimulatedDisk())
    recorded.open()
    recorded.settle()
    for name, *arguments in calls:
        recorded.call(str(name), *arguments)
    recorded.settle()
    (data,) = recorded.disk.run((Read("segment-0000000001.journal", 4096, 1 << 20),))
    assert isinstance(data, bytes)
    size = int.from_bytes(data[40:44], "little")
    return data[64 + 16 : 64 + size]


def test_a_message_of_one_queue() -> None:
    message = StoredMessage(5, b"raw bytes", encoding=2, priority=9, expiration=77)
    assert records_of(("add_message", message, 0, [(3, 4)])) == (
        pack("<IBBBB", 89, 1, 0x01, 2, 9)
        + pack("<qqqqqq", 5, 0, 77, 1_700_000_000_123, NOW.wall_ms, 0)
        + pack("<II", 1, 9)
        + pack("<qq", 3, 4)
        + b"raw bytes"
    )


def test_a_message_of_a_group_has_a_flag() -> None:
    message = StoredMessage(4, b"raw bytes", encoding=2, priority=9, expiration=77)
    assert records_of(("add_message", message, 0, [(3, 4)])) == (
        pack("<IBBBB", 89, 1, 0x05, 2, 9)
        + pack("<qqqqqq", 4, 0, 77, 1_700_000_000_123, NOW.wall_ms, 0)
        + pack("<II", 1, 9)
        + pack("<qq", 3, 4)
        + b"raw bytes"
    )


def test_a_message_of_several_queues_that_is_not_durable() -> None:
    message = StoredMessage(5, b"x", durable=False, timestamp=0)
    assert records_of(("add_message", message, 0, [(3, 4), (6, 7)])) == (
        pack("<IBBBB", 97, 1, 0, 1, 4) + pack("<qqqqqq", 5, 0, 0, 0, NOW.wall_ms, 0) + pack("<II", 2, 1)
        + pack("<qqqq", 3, 4, 6, 7) + b"x"
    )  # fmt: skip


def test_messages_of_a_transaction_carry_the_ordinals_they_are_given_and_the_commit_the_first_position() -> None:
    message = StoredMessage(5, b"", timestamp=0)
    head = pack("<IBBBB", 80, 1, 1, 1, 4) + pack("<qqqqqq", 5, 8, 0, 0, NOW.wall_ms, 0) + pack("<II", 1, 0)
    first, second = ("add_message", message, 8, [(3, 0)]), ("add_message", message, 8, [(3, 2)])
    assert records_of(first, second, ("commit", 8, [(3, 40)])) == (
        head + pack("<qq", 3, 0) + head + pack("<qq", 3, 2) + pack("<IBBHqqq", 32, 5, 0, 0, 8, 3, 40)
    )


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (("acknowledge", 5, 6, 7), pack("<IBBHqqq", 32, 2, 0, 0, 5, 6, 7)),
        (("update_delivery_count", 5, 6, 3), pack("<IBBHqqI", 28, 3, 0, 0, 5, 6, 3)),
        (("update_delivery_count", 5, 6, 3, 99), pack("<IBBHqqIq", 36, 3, 0, 0, 5, 6, 3, 99)),
        (("prepare", 5, b"xid"), pack("<IBBHq", 19, 4, 0, 0, 5) + b"xid"),
        (("rollback", 5), pack("<IBBHq", 16, 6, 0, 0, 5)),
        (("remove_address", 5), pack("<IBBHq", 16, 8, 0, 0, 5)),
        (("remove_queue", 5), pack("<IBBHq", 16, 10, 0, 0, 5)),
        (("reserve_ids", 5), pack("<IBBHq", 16, 11, 0, 0, 5)),
        (("note", FencingToken(5, "mé", -2)), pack("<IBBHqq", 27, 18, 0, 0, 5, -2) + "mé".encode()),
        (("note", FencingTokenRemoved(5)), pack("<IBBHq", 16, 19, 0, 0, 5)),
        (
            ("note", CommitSet(FencingToken(5, "m", 9), 100, [7, 8], [7, 2, 3, 0, 4, 1, 8, 0])),
            pack("<IBBHqqqII", 105, 20, 0, 0, 5, 9, 100, 2, 1) + b"m" + pack("<8q", 7, 2, 3, 0, 4, 1, 8, 0),
        ),
    ],
)
def test_small_records(call: tuple[object, ...], expected: bytes) -> None:
    assert records_of(call) == expected


def test_definitions_are_json() -> None:
    address = AddressDefinition(5, "straße", True, False, auto_created=True)
    data = records_of(("add_address", address))
    assert data[:8] == pack("<IBBH", len(data), 7, 0, 0)
    assert json.loads(data[8:].decode()) == asdict(address)
    queue = QueueDefinition(6, "q", "a", 1, filter="x = 'ü'", user=None)
    data = records_of(("add_queue", queue))
    assert data[4] == 9
    assert codec.decode_queue(data, 0, len(data)) == (queue, [])


def test_a_later_field_of_a_queue_is_left_out_at_its_default() -> None:
    queue = QueueDefinition(6, "q", "a", 1)
    assert b"pause_dispatch" not in records_of(("add_queue", queue))
    assert b"enabled" not in records_of(("add_queue", queue))
    assert b"configuration_managed" not in records_of(("add_queue", queue))
    assert b"internal" not in records_of(("add_queue", queue))
    data = records_of(("add_queue", evolve(queue, configuration_managed=True)))
    assert codec.decode_queue(data, 0, len(data)) == (evolve(queue, configuration_managed=True), [])
    data = records_of(("add_queue", evolve(queue, internal=True)))
    assert codec.decode_queue(data, 0, len(data)) == (evolve(queue, internal=True), [])
    data = records_of(("add_queue", evolve(queue, enabled=False)))
    assert codec.decode_queue(data, 0, len(data)) == (evolve(queue, enabled=False), [])
    data = records_of(("add_queue", evolve(queue, group_rebalance_pause_dispatch=True)))
    assert json.loads(data[8:])["group_rebalance_pause_dispatch"] is True
    assert codec.decode_queue(data, 0, len(data))[0].group_rebalance_pause_dispatch is True


def test_a_cursor_is_json_and_its_end_one_number() -> None:
    cursor = CursorDefinition(9, 2, "c", 5, 13, 8, "job", 1000)
    record = records_of(("note", cursor))
    assert record[4] == 21 and json.loads(record[8:]) == asdict(cursor)
    assert codec.decode_cursor(record, 0, len(record)) == (cursor, [])
    assert records_of(("note", cursor), ("note", CursorRemoved(9))) == record + pack("<IBBHq", 16, 22, 0, 0, 9)


def test_the_first_record_of_a_segment_lists_the_segments_before_it() -> None:
    data = codec.encode_segment_start(500, [(1, 3, 40), (4, 4, 50)])
    assert data == pack("<IBBHq", 64, 12, 0, 0, 500) + pack("<QQQQQQ", 1, 3, 40, 4, 4, 50)
    assert codec.decode_segment_start(data, 0, len(data)) == (500, [(1, 3, 40), (4, 4, 50)])


def test_dropped_segments() -> None:
    data = codec.encode_dropped([(1, 3), (4, 4)])
    assert data == pack("<IBBH", 40, 13, 0, 0) + pack("<qqqq", 1, 3, 4, 4)
    assert codec.decode_dropped(data, 0, 40) == [(1, 3), (4, 4)]


def test_a_batch() -> None:
    header, body, crc = encode_batch(
        [b"abc", bytearray(b"de")], 5, identity=1, generation=2, number=3, wall_ms=4, previous_crc=5, flags=1
    )
    assert body == b"abcde".ljust(512 - 64, b"\0") and crc == crc32(body)
    start = b"EBJB" + pack("<BBHQQQqIIIII", 1, 1, 64, 1, 2, 3, 4, 5, 0, 0, 5, crc)
    assert header == start + pack("<I", crc32(start))


@pytest.mark.parametrize(("payload", "expected"), [(0, 512), (448, 512), (449, 1024), (960, 1024), (961, 1536)])
def test_a_batch_fills_whole_sectors(payload: int, expected: int) -> None:
    assert stored_size(payload) == expected
    header, body, _ = encode_batch([bytes(payload)], payload, identity=1, generation=1, number=1, wall_ms=0)
    assert len(header) + len(body) == expected


def three_batches() -> bytes:
    data, crc = b"", 0
    for number in (7, 8, 9):
        header, body, crc = encode_batch(
            [bytes([number]) * 300 * number],
            300 * number,
            identity=1,
            generation=2,
            number=number,
            wall_ms=0,
            previous_crc=crc,
        )
        data += header + body
    return data


def test_walking_in_pieces_finds_what_walking_at_once_finds() -> None:
    data = three_batches()
    for slice_bytes in (64, 512, 1000, 3000, len(data)):
        walk = BatchWalk(identity=1, generation=2, offset=4096)
        found = []
        while not walk.ended:
            start = walk.offset - 4096
            piece = data[start : start + max(slice_bytes, walk.wanted)]
            found += [
                (batch.number, piece[batch.start : batch.end])
                for batch in walk.feed(piece, walk.offset, at_end=start + len(piece) >= len(data))
            ]
        assert found == [(number, bytes([number]) * 300 * number) for number in (7, 8, 9)]
        assert walk.damage is None and walk.offset == 4096 + len(data)


def test_every_prefix_of_a_segment_ends_with_the_last_whole_batch() -> None:
    data = three_batches()
    ends = [0, stored_size(2100), stored_size(2100) + stored_size(2400), len(data)]
    for length in range(0, len(data) + 1, 16):
        walk = BatchWalk(identity=1, generation=2, offset=0)
        walk.feed(data[:length], 0, at_end=True)
        assert walk.ended and walk.offset == max(end for end in ends if end <= length)


@pytest.mark.parametrize("field", [("identity", 5), ("generation", 5)])
def test_batches_of_another_journal_or_life_are_not_seen(field: tuple[str, int]) -> None:
    expected = {"identity": 1, "generation": 2} | dict([field])
    walk = BatchWalk(expected["identity"], expected["generation"], 0)
    assert walk.feed(three_batches(), 0, at_end=True) == []
    assert walk.ended and walk.damage is None


def test_a_later_header_is_found_at_sector_boundaries_only() -> None:
    data = three_batches()
    second = stored_size(2100)
    assert find_header(data, 4096, identity=1, generation=2, above=7) == (8, 4096 + second)
    assert find_header(data, 4096, identity=1, generation=2, above=9) is None
    assert find_header(bytes(8) + data, 4096, identity=1, generation=2, above=7) is None
    assert find_header(data, 4096, identity=1, generation=3, above=0) is None


def test_a_segment_header_and_its_name() -> None:
    header = SegmentHeader(1, 2, 3, 4, 5, 6, 7, 1)
    data = encode_header(header)
    start = (b"EBJS" + pack("<BBHQQQQQQq", 1, 1, 64, 1, 2, 3, 4, 5, 6, 7)).ljust(4092, b"\0")
    assert data == start + pack("<I", crc32(start))
    assert decode_header(data) == header
    assert segment_name(3, 3) == "segment-0000000003.journal"
    assert segment_name(3, 12_345_678_901) == "segment-0000000003-12345678901.journal"
    assert [segment_range(segment_name(*extent)) for extent in ((3, 3), (3, 12_345_678_901))] == [
        (3, 3),
        (3, 12_345_678_901),
    ]
    assert segment_range("segment-3.journal") is None and segment_range("spare-0000000003.journal") is None


def journal_ending_with(record: bytes) -> SimulatedDisk:
    recorded = RecordedJournal(SimulatedDisk())
    recorded.open()
    recorded.settle()
    recorded.call("add_queue", QueueDefinition(1, "q", "a", 1))
    recorded.call("add_message", StoredMessage(5, b"x"), 0, [(1, 1)])
    recorded.journal.background.append(record)
    recorded.close()
    return recorded.disk


def test_a_skippable_record_of_an_unknown_kind_is_stepped_over() -> None:
    journal = recover(journal_ending_with(pack("<IBBH", 12, 200, codec.SKIPPABLE, 0) + b"news"))
    assert journal.recovered is not None
    assert [message.message_id for message in journal.recovered.take_messages(9)] == [5]


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (pack("<IBBH", 12, 200, 0, 0) + b"news", "a record of kind 200, which a newer version of this program wrote"),
        (pack("<IBBH", 3, 5, 0, 0), "a record of kind 5 with a wrong size"),
        (pack("<IBBH", 300, 5, 0, 0), "a record of kind 5 with a wrong size"),
        (
            codec.ADD_MESSAGE.pack(70, 1, 0, 1, 4, 9, 0, 0, 0, 0, 0, 3, 2) + b"......",
            "a message record with wrong sizes",
        ),
        (pack("<IBBHqq", 24, 15, 0, 0, 5, 5), "a duplicate id cut short"),
        (pack("<IBBHq", 16, 18, 0, 0, 5), "a marker cut short"),
        (pack("<IBBHqqqI", 36, 20, 0, 0, 5, 9, 100, 2), "a commit set cut short"),
        (pack("<IBBHqqqII", 40, 20, 0, 0, 5, 9, 100, 0, 7), "a commit set with wrong sizes"),
        (pack("<IBBHqqqIIq", 48, 20, 0, 0, 5, 9, 100, 1, 0, 7), "a record that cannot be read"),
        (pack("<IBBHqqqIIqqq", 64, 20, 0, 0, 5, 9, 100, 1, 0, 7, 0, 1), "a commit set whose counts do not fit"),
        (pack("<IBBHqqqIIqq", 56, 20, 0, 0, 5, 9, 100, 1, 0, 7, 4), "a commit set whose counts do not fit"),
        (b"\x01\x02\x03\x04\x05", "a record cut short"),
    ],
)
def test_records_that_make_no_sense_are_refused_with_file_and_offset(record: bytes, words: str) -> None:
    journal = recover(journal_ending_with(record))
    assert journal.state is JournalState.FAILED
    assert journal.failure is not None and words in journal.failure
    assert "segment-0000000001.journal at offset 4" in journal.failure


def test_unknown_fields_of_a_definition_are_noted() -> None:
    payload = json.dumps({"id": 9, "name": "new", "address": "a", "routing_type": 1, "colour": "red"}).encode()
    journal = recover(journal_ending_with(pack("<IBBH", 8 + len(payload), 9, 0, 0) + payload))
    assert journal.recovered is not None
    assert QueueDefinition(9, "new", "a", 1) in journal.recovered.queues
    assert journal.notes == ["new: unknown fields colour are ignored"]


def test_a_divert_and_its_end() -> None:
    divert = DivertDefinition(9, "d", "a", "b", "d", True, None, "PASS", {"k": "v"})
    text = (
        b'{"id":9,"name":"d","address":"a","forwarding_address":"b","routing_name":"d","exclusive":true,"filter":null,'
        b'"routing_type":"PASS","properties":{"k":"v"}}'
    )
    record = pack("<IBBH", 8 + len(text), 23, 0, 0) + text
    assert records_of(("note", divert), ("note", DivertRemoved(9))) == record + pack("<IBBHq", 16, 24, 0, 0, 9)


def test_settings_and_their_end() -> None:
    settings = SettingsDefinition(9, "security", "a.#", {"send": ["x"]})
    text = b'{"id":9,"kind":"security","match":"a.#","values":{"send":["x"]}}'
    record = pack("<IBBH", 8 + len(text), 25, 0, 0) + text
    assert records_of(("note", settings), ("note", SettingsRemoved(9))) == record + pack("<IBBHq", 16, 26, 0, 0, 9)


def test_settings_with_unknown_fields_are_read() -> None:
    payload = json.dumps({"id": 9, "kind": "address", "match": "a", "values": {}, "colour": "red"}).encode()
    journal = recover(journal_ending_with(pack("<IBBH", 8 + len(payload), 25, 0, 0) + payload))
    assert journal.recovered is not None
    assert journal.recovered.settings == (SettingsDefinition(9, "address", "a"),)
    assert journal.notes == ["address settings of a: unknown fields colour are ignored"]


def test_kinds_keep_their_numbers() -> None:
    assert [(kind.name, kind.value) for kind in RecordKind] == [
        ("ADD_MESSAGE", 1),
        ("ACKNOWLEDGE", 2),
        ("UPDATE_DELIVERY_COUNT", 3),
        ("PREPARE", 4),
        ("COMMIT", 5),
        ("ROLLBACK", 6),
        ("ADDRESS", 7),
        ("REMOVE_ADDRESS", 8),
        ("QUEUE", 9),
        ("REMOVE_QUEUE", 10),
        ("RESERVE_IDS", 11),
        ("SEGMENT_START", 12),
        ("SEGMENTS_DROPPED", 13),
        ("SEAL", 14),
        ("DUPLICATE_ID", 15),
        ("HEURISTIC_OUTCOME", 16),
        ("FORGET_OUTCOME", 17),
        ("MARKER", 18),
        ("REMOVE_MARKER", 19),
        ("COMMIT_SET", 20),
        ("CURSOR", 21),
        ("REMOVE_CURSOR", 22),
        ("DIVERT", 23),
        ("REMOVE_DIVERT", 24),
        ("SETTINGS", 25),
        ("REMOVE_SETTINGS", 26),
        ("CLEAR_DUPLICATE_IDS", 27),
        ("GROUP", 28),
        ("REMOVE_GROUP", 29),
    ]


def test_a_batch_of_the_journal_is_where_its_layout_says() -> None:
    disk = journal_ending_with(codec.encode_id(RecordKind.RESERVE_IDS, 9))
    (data,) = disk.run((Read("segment-0000000001.journal", 4096, 1024),))
    assert isinstance(data, bytes)
    assert data[:4] == b"EBJB" and int.from_bytes(data[8:16], "little") == SMALL.identity
    disk.run((WriteAt("segment-0000000001.journal", 4096, (data,)), Sync("segment-0000000001.journal")))
    assert recover(disk).state is JournalState.READY
