"""Blocks of messages as Arrow batches: every column, bodies of every type, and messages that cannot be parsed."""

from __future__ import annotations

import zlib
from datetime import UTC, datetime
from random import Random

import pyarrow as pa
import pytest

from embedbroker.pipeline._frames import Block, pack_block
from embedbroker.pipeline._options import SourceOptions
from embedbroker.pipeline._rows import ParseError, RowConverter, Rows
from embedbroker.pipeline._schema import COLUMNS
from embedclient.errors import RemoteProtocolError
from embedclient.model import Properties, PropertyType
from embedclient.wire.core import CoreMessage, MessageType, encode_text

TYPES = {
    "string": pa.string(),
    "bigint": pa.int64(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "binary": pa.binary(),
    "map<string,string>": pa.map_(pa.string(), pa.string()),
}
USER_ID = bytes(range(16))
VALUE = pa.struct([("id", pa.int64()), ("at", pa.timestamp("us", tz="UTC"))])


def schema(*columns: str) -> pa.Schema:
    return pa.schema([(name, VALUE if name == "value" else TYPES[COLUMNS[name]]) for name in columns])


def text(value: str | None) -> CoreMessage:
    return CoreMessage.build(type=MessageType.TEXT, address="orders", body=encode_text(value))


def block_of(*messages: CoreMessage) -> Block:
    for number, message in enumerate(messages, 101):
        message.assign_id(number)
    return pack_block((number, 1, message) for number, message in enumerate(messages, 1))


def rows_of(converted: Rows) -> list[dict[str, object]]:
    found: list[dict[str, object]] = converted.batch.to_pylist(maps_as_pydicts="strict")
    return found


def full_message() -> CoreMessage:
    properties = Properties()
    properties.set("_AMQ_ROUTING_TYPE", 1, PropertyType.BYTE)
    properties["__AMQ_CID"] = "a connection"
    properties["JMSCorrelationID"] = "c-1"
    properties["JMSReplyTo"] = "queue://answers"
    properties["JMSType"] = "order"
    properties["_AMQ_GROUP_ID"] = "g"
    properties.set("_AMQ_GROUP_SEQUENCE", 7, PropertyType.INT)
    properties["_AMQ_DUPL_ID"] = "dü"
    properties["_AMQ_VALIDATED_USER"] = "ada"
    properties["name"] = "value"
    properties.set("small", -3, PropertyType.SHORT)
    properties.set("single", 0.1, PropertyType.FLOAT)
    properties["double"] = 1e21
    properties["flag"] = True
    properties.set("letter", "ä", PropertyType.CHAR)
    properties["raw"] = b"\x00\xff"
    properties["nothing"] = None
    return CoreMessage.build(
        type=MessageType.TEXT,
        address="orders",
        durable=True,
        priority=9,
        timestamp=1_700_000_000_123,
        expiration=1_800_000_000_000,
        user_id=USER_ID,
        properties=properties,
        body=encode_text("grüße"),
    )


def test_every_column_of_a_message() -> None:
    message = full_message()
    message.assign_id(4711)
    block = pack_block([(17, 2, message)])
    assert rows_of(RowConverter(schema(*COLUMNS)).convert(block, "orders.eu")) == [
        {
            "messageId": "ID:00010203-0405-0607-0809-0a0b0c0d0e0f",
            "sequenceId": 4711,
            "position": 17,
            "address": "orders",
            "queue": "orders.eu",
            "routingType": "ANYCAST",
            "durable": True,
            "priority": 9,
            "timestamp": datetime(2023, 11, 14, 22, 13, 20, 123_000, UTC),
            "expiration": datetime(2027, 1, 15, 8, 0, tzinfo=UTC),
            "redelivered": True,
            "deliveryCount": 2,
            "correlationId": "c-1",
            "replyTo": "queue://answers",
            "type": "order",
            "groupId": "g",
            "groupSequence": 7,
            "duplicateId": "dü".encode("utf-16-le"),
            "user": "ada",
            "properties": {
                "name": "value",
                "small": "-3",
                "single": "0.1",
                "double": "1.0E21",
                "flag": "true",
                "letter": "ä",
                "raw": "AP8=",
                "nothing": None,
            },
            "propertyTypes": {
                "name": "string",
                "small": "short",
                "single": "float",
                "double": "double",
                "flag": "boolean",
                "letter": "char",
                "raw": "bytes",
                "nothing": "null",
            },
            "bodyType": "text",
            "body": "grüße".encode(),
            "bodyText": "grüße",
        }
    ]


def test_what_a_message_does_not_have_is_null() -> None:
    block = pack_block([(0, 1, CoreMessage.build(address="orders", durable=False, body=b"raw"))])
    (row,) = rows_of(RowConverter(schema(*COLUMNS)).convert(block, "orders"))
    present = {name: value for name, value in row.items() if value is not None}
    assert present == {
        "sequenceId": 0,
        "address": "orders",
        "queue": "orders",
        "durable": False,
        "priority": 4,
        "redelivered": False,
        "deliveryCount": 1,
        "properties": {},
        "propertyTypes": {},
        "bodyType": "default",
        "body": b"raw",
    }


def test_a_header_of_another_type_stays_in_the_map() -> None:
    properties = Properties()
    properties["JMSCorrelationID"] = b"\x01"
    block = block_of(CoreMessage.build(address="orders", properties=properties))
    (row,) = rows_of(RowConverter(schema("correlationId", "properties")).convert(block, "orders"))
    assert row == {"correlationId": None, "properties": {"JMSCorrelationID": "AQ=="}}


def test_times_that_no_frame_can_hold_are_null() -> None:
    block = block_of(CoreMessage.build(address="orders", expiration=(1 << 63) - 1, timestamp=-1))
    (row,) = rows_of(RowConverter(schema("expiration", "timestamp")).convert(block, "orders"))
    assert row == {"expiration": None, "timestamp": datetime(1969, 12, 31, 23, 59, 59, 999_000, UTC)}


def test_half_a_surrogate_pair_is_shown_as_a_question_mark_and_kept_in_the_bytes() -> None:
    block = block_of(text("a\ud800"), text(None), text(""))
    assert rows_of(RowConverter(schema("body", "bodyText")).convert(block, "orders")) == [
        {"body": b"a\xed\xa0\x80", "bodyText": "a?"},
        {"body": None, "bodyText": None},
        {"body": b"", "bodyText": ""},
    ]


@pytest.mark.parametrize("count", [1, 40])
def test_half_a_pair_at_the_end_of_a_name_a_value_or_an_address_is_no_end(count: int) -> None:
    """Two ids that differ in it alone are different, or a sink would have the second message dropped."""
    properties = Properties({"n": "abc\ud800", "n\ud800": "1", "_AMQ_DUPL_ID": "id\ud800"})
    block = block_of(*[CoreMessage.build(address="orders\ud800", properties=properties)] * count)
    rows = rows_of(RowConverter(schema("address", "duplicateId", "properties")).convert(block, "orders"))
    id = "id\ud800".encode("utf-16-le", "surrogatepass")
    assert rows == [{"address": "orders?", "duplicateId": id, "properties": {"n": "abc?", "n?": "1"}}] * count


@pytest.mark.parametrize("type", [MessageType.BYTES, MessageType.TEXT])
def test_a_compressed_body_that_is_cut_short_is_malformed(type: int) -> None:
    properties = Properties({"_AMQ_LARGE_COMPRESSED": True})
    body = zlib.compress(bytes(range(256)) * 8)[:-6]
    block = block_of(CoreMessage.build(address="o", type=type, properties=properties, body=body))
    with pytest.raises(ParseError, match="the compressed body is malformed: it is cut short"):
        RowConverter(schema("body")).convert(block, "o")
    (row,) = rows_of(RowConverter(schema("body", "bodyText"), on_parse_error="null").convert(block, "o"))
    assert row == {"body": None, "bodyText": None}


def any_message(random: Random) -> CoreMessage:
    """One of many, often made like others: of the same names, types and sizes."""
    properties = Properties()
    names = random.choice((("a", "b"), ("a",), ("a", "b", "_AMQ_GROUP_SEQUENCE", "JMSCorrelationID", "_AMQ_DUPL_ID")))
    for name in names:
        kind = random.choice(KINDS) if random.random() < 0.1 else KINDS[len(name) % len(KINDS)]
        properties.set(name, random.choice(VALUES[kind]), kind)
    if random.random() < 0.5:
        properties.set("_AMQ_ROUTING_TYPE", random.choice((0, 1, 7)), PropertyType.BYTE)
    bodies = (b"", b"12345678", encode_text("four"), encode_text("sür"), encode_text("\ud800"), encode_text(None))
    type, body = random.choice(((MessageType.TEXT, encode_text("text")), (MessageType.BYTES, b"12345678")))
    return CoreMessage.build(
        type=type,
        address=random.choice(("orders", "orders", "bestellungen")),
        durable=random.random() < 0.5,
        priority=random.randrange(10),
        timestamp=random.choice((0, 1_700_000_000_123, (1 << 62))),
        user_id=random.choice((None, random.randbytes(16))),
        properties=properties if random.random() < 0.9 else None,
        body=random.choice(bodies) if type == MessageType.TEXT and random.random() < 0.1 else body,
    )


KINDS = tuple(kind for kind in PropertyType if kind is not PropertyType.NULL)
VALUES: dict[PropertyType, tuple[bool | int | float | str | bytes, ...]] = {
    PropertyType.BOOLEAN: (True, False),
    PropertyType.BYTE: (-128, 5),
    PropertyType.BYTES: (b"\x00\xff", b"ab", b""),
    PropertyType.SHORT: (-3, 300),
    PropertyType.INT: (-70_000, 1),
    PropertyType.LONG: (-(1 << 63), 1 << 40),
    PropertyType.FLOAT: (0.1, 1e10, float("nan")),
    PropertyType.DOUBLE: (0.1, 1e21, float("-inf")),
    PropertyType.STRING: ("north", "south", "öst", "", "a\ud800"),
    PropertyType.CHAR: ("a", "ä"),
}


@pytest.mark.parametrize("seed", range(30))
def test_many_messages_have_the_rows_that_each_of_them_has_alone(seed: int) -> None:
    """What is alike is read at once, and one message is alike nothing."""
    random = Random(seed)
    kinds = [any_message(random) for _ in range(random.choice((1, 3, 400)))]
    messages = [CoreMessage.parse(bytearray(random.choice(kinds).raw)) for _ in range(400)]
    # Of one type, most blocks are: those have ways of their own.
    of_one = random.choice((None, MessageType.TEXT, MessageType.BYTES))
    messages = [message for message in messages if of_one in (None, message.type)]
    whole = block_of(*messages)
    converter = RowConverter(schema(*COLUMNS), on_parse_error="null")
    alone = [
        row
        for place, message in zip(whole.places(), messages, strict=True)
        for row in rows_of(converter.convert(pack_block([(place.position, 1, message)]), "orders"))
    ]
    assert rows_of(converter.convert(whole, "orders")) == alone


def test_a_block_without_messages_has_a_batch_without_rows() -> None:
    converted = RowConverter(schema(*COLUMNS)).convert(pack_block([]), "orders")
    assert (converted.batch.num_rows, converted.poison) == (0, [])


def parsed(form: str, way: str, *messages: CoreMessage) -> Rows:
    column = "value" if form == "json" else "bodyText"
    return RowConverter(schema("position", column), form=form, on_parse_error=way).convert(
        block_of(*messages), "orders"
    )


def raw(body: bytes) -> CoreMessage:
    return CoreMessage.build(type=MessageType.BYTES, address="orders", body=body)


def test_texts_are_texts_and_bytes_in_utf8() -> None:
    assert rows_of(parsed("text", "fail", text("a"), raw("ü".encode()))) == [
        {"position": 1, "bodyText": "a"},
        {"position": 2, "bodyText": "ü"},
    ]


def test_json_becomes_a_struct() -> None:
    rows = rows_of(parsed("json", "fail", text('{"id": 1, "at": "2024-01-02T03:04:05Z", "x": 0}'), raw(b'{"id":\n2}')))
    assert [row["value"] for row in rows] == [
        {"id": 1, "at": datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)},
        {"id": 2, "at": None},
    ]


# A text that ends in the next one, two in one, none, another type, no text, and no UTF-8.
BROKEN = [
    text('{"id": 1}{"id"'),
    text(": 2}"),
    text('{"id": 3} {"id": 4}'),
    text(""),
    text('{"id": "five"}'),
    text("[6]"),
    text(None),
    raw(b"\xff"),
    CoreMessage.build(type=MessageType.MAP, address="orders"),
]


def test_json_that_is_none_is_null_on_request_and_its_neighbours_are_read() -> None:
    rows = rows_of(parsed("json", "null", text('{"id": 0}'), *BROKEN, text('{"id": 9}')))
    values = [row["value"] for row in rows]
    assert values == [{"id": 0, "at": None}, *[None] * len(BROKEN), {"id": 9, "at": None}]


def malformed_bodies() -> list[CoreMessage]:
    """A text that ends in the middle of a character, and a body that is marked as compressed and is not."""
    compressed = Properties()
    compressed["_AMQ_LARGE_COMPRESSED"] = True
    build = CoreMessage.build
    return [
        build(type=MessageType.TEXT, address="orders", body=b"\x01\x00\x00\x00\x03abc"),
        build(type=MessageType.BYTES, address="orders", body=b"no zlib", properties=compressed),
    ]


@pytest.mark.parametrize("columns", [["body"], ["bodyText", "body"]])
def test_malformed_bodies_are_null_or_dead_letters_also_where_bytes_are_wanted(columns: list[str]) -> None:
    block = block_of(*malformed_bodies(), raw(b"good"))
    options = SourceOptions.parse({"url": "tcp://host:1", "queue": "orders", "onParseError": "null"})
    assert (options.format, options.on_parse_error) == ("bytes", "null")
    converter = RowConverter(schema(*columns), form="bytes", on_parse_error="null")
    assert [row["body"] for row in rows_of(converter.convert(block, "orders"))] == [None, None, b"good"]
    converted = RowConverter(schema(*columns), on_parse_error="dead-letter").convert(block, "orders")
    assert [row["body"] for row in rows_of(converted)] == [b"good"]
    assert [poison.reason.split(":")[0] for poison in converted.poison] == [
        "the text is malformed",
        "the compressed body is malformed",
    ]


def test_dead_letters_are_not_among_the_rows() -> None:
    block = block_of(text('{"id": 0}'), *BROKEN, text('{"id": 9}'))
    converted = RowConverter(schema("position"), form="text", on_parse_error="dead-letter").convert(block, "orders")
    assert [row["position"] for row in rows_of(converted)] == [1, 2, 3, 4, 5, 6, 7, 8, 11]
    assert [(poison.place.position, poison.reason) for poison in converted.poison] == [
        (9, "the body is not UTF-8: invalid start byte at byte 0"),
        (10, "a message of type map has no text"),
    ]


def test_a_message_that_cannot_be_parsed_is_named() -> None:
    with pytest.raises(ParseError) as failed:
        parsed("json", "fail", text('{"id": 0}'), text("no"))
    assert "message 102 of queue 'orders' (position 2): the body is not JSON" in str(failed.value)


@pytest.mark.parametrize("end", range(0, 200, 7))
def test_a_block_that_is_cut_off_is_refused(end: int) -> None:
    data = block_of(full_message()).data
    with pytest.raises(RemoteProtocolError):
        RowConverter(schema(*COLUMNS)).convert(Block(data[:end]), "orders")
