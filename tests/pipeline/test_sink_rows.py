"""What rows become in messages, and the errors for those that become none."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from embedbroker.pipeline._option_reader import OptionError
from embedbroker.pipeline._sink import StreamWriter
from embedbroker.pipeline._sink_identity import FORMAT_ID, Task, Writing
from embedbroker.pipeline._sink_options import SinkOptions, sink_columns
from embedbroker.pipeline._sink_rows import Row, RowEncoder, RowError
from embedclient.model import PropertyType, TypedValue, Xid
from embedclient.wire.core import CoreMessage, decode_text

URL = "tcp://localhost:61616"
NOW_MS = 1_700_000_000_000
WRITING = Writing("query-1", "sink", 7, "run-1")
TASK = Task(WRITING, 3, 1, "abcd")
TYPES = {
    "binary": BinaryType(),
    "string": StringType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "boolean": BooleanType(),
    "map<string,string>": MapType(StringType(), StringType()),
}
TEXTS = pa.map_(pa.string(), pa.string())
WITH_ROUTING = {"_AMQ_ROUTING_TYPE": TypedValue(1, PropertyType.BYTE)}


def encoder_of(columns: dict[str, pa.Array], **options: str) -> RowEncoder:
    parsed = SinkOptions.parse({"url": URL, **({} if "destination" in columns else {"queue": "q"}), **options})
    return RowEncoder(parsed, tuple(columns), TASK, lambda: NOW_MS)


def encoded(columns: dict[str, pa.Array], **options: str) -> list[Row]:
    return encoder_of(columns, **options).encode(batch_of(columns))


def batch_of(columns: dict[str, pa.Array]) -> pa.RecordBatch:
    return pa.record_batch(list(columns.values()), names=list(columns))


def message(columns: dict[str, pa.Array], **options: str) -> CoreMessage:
    (row,) = encoded(columns, **options)
    return CoreMessage.parse(row.raw)


def properties(text: str, kind: str) -> dict[str, pa.Array]:
    """Of two rows, the second of which has a property `n`."""
    return {
        "properties": pa.array([None, [("n", text)]], TEXTS),
        "propertyTypes": pa.array([None, [("n", kind)]], TEXTS),
    }


def schema(text: str) -> StructType:
    """`name type, ...`, without a Spark that would read it."""
    return StructType([StructField(name, TYPES[kind]) for name, kind in (part.split() for part in text.split(", "))])


def test_a_row_of_every_column_becomes_one_message() -> None:
    sent = message(
        {
            "messageId": pa.array(["ID:00112233-4455-6677-8899-aabbccddeeff"]),
            "destination": pa.array(["topic://prices"]),
            "durable": pa.array([False]),
            "priority": pa.array([9]),
            "timestamp": pa.array([datetime(2024, 1, 1, tzinfo=UTC)], pa.timestamp("us", tz="UTC")),
            "expiration": pa.array([datetime(2034, 1, 1, tzinfo=UTC)], pa.timestamp("us", tz="UTC")),
            "correlationId": pa.array(["c-1"]),
            "replyTo": pa.array(["answers"]),
            "type": pa.array(["quote"]),
            "groupId": pa.array(["g-1"]),
            "groupSequence": pa.array([4], pa.int32()),
            "duplicateId": pa.array([b"once"]),
            "properties": pa.array([[("n", "5"), ("x", "1.5"), ("s", "text"), ("b", "AQI="), ("none", None)]], TEXTS),
            "propertyTypes": pa.array([[("n", "long"), ("x", "double"), ("b", "bytes")]], TEXTS),
            "bodyType": pa.array(["text"]),
            "body": pa.array(["grüße".encode()]),
        }
    )
    assert (sent.address, sent.durable, sent.priority) == ("prices", False, 9)
    assert (sent.timestamp, sent.expiration) == (1_704_067_200_000, 2_019_686_400_000)
    assert sent.user_id == bytes.fromhex("00112233445566778899aabbccddeeff")
    assert (sent.type, decode_text(sent.body)) == (3, "grüße")
    assert dict(sent.properties.typed_items()) == {
        "n": TypedValue(5, PropertyType.LONG),
        "x": TypedValue(1.5, PropertyType.DOUBLE),
        "s": TypedValue("text", PropertyType.STRING),
        "b": TypedValue(b"\1\2", PropertyType.BYTES),
        "none": TypedValue(None, PropertyType.NULL),
        "JMSCorrelationID": TypedValue("c-1", PropertyType.STRING),
        "JMSReplyTo": TypedValue("queue://answers", PropertyType.STRING),
        "JMSType": TypedValue("quote", PropertyType.STRING),
        "_AMQ_GROUP_ID": TypedValue("g-1", PropertyType.STRING),
        "_AMQ_GROUP_SEQUENCE": TypedValue(4, PropertyType.INT),
        "_AMQ_DUPL_ID": TypedValue(b"once", PropertyType.BYTES),
        "_AMQ_ROUTING_TYPE": TypedValue(0, PropertyType.BYTE),
    }


def test_what_a_row_does_not_say_comes_from_the_options() -> None:
    nothing = {"priority": pa.array([None], pa.int32()), "timeToLiveMs": pa.array([None], pa.int64())}
    sent = message({"body": pa.array([b"x"]), **nothing}, durable="false", priority="0", timeToLiveMs="1500")
    assert (sent.address, sent.type, bytes(sent.body)) == ("q", 4, b"x")
    assert (sent.durable, sent.priority, sent.timestamp, sent.expiration) == (False, 0, NOW_MS, NOW_MS + 1500)
    assert dict(sent.properties.typed_items()) == WITH_ROUTING


def test_a_row_overrides_the_options() -> None:
    columns = {"body": pa.array([b"x"]), "priority": pa.array([5]), "timeToLiveMs": pa.array([10])}
    sent = message(columns, priority="0", timeToLiveMs="1500")
    assert (sent.priority, sent.expiration) == (5, NOW_MS + 10)


@pytest.mark.parametrize(
    ("columns", "options", "expected"),
    [
        ({"body": pa.array(["t"])}, {}, (3, "t")),
        ({"bodyText": pa.array(["t"])}, {}, (3, "t")),
        ({"bodyText": pa.array(["t"])}, {"bodyType": "bytes"}, (4, b"t")),
        ({"body": pa.array([b"t"])}, {"bodyType": "text"}, (3, "t")),
        ({"body": pa.array([b"t"]), "bodyText": pa.array(["other"])}, {}, (4, b"t")),
        ({"body": pa.array([None], pa.binary()), "bodyText": pa.array(["t"])}, {}, (3, "t")),
        ({"body": pa.array([None], pa.binary())}, {"bodyType": "text"}, (3, None)),
        ({"body": pa.array([None], pa.binary())}, {}, (4, b"")),
        ({"type": pa.array(["no body"])}, {"bodyType": "default"}, (0, b"")),
        ({"body": pa.array([b"\0"]), "bodyType": pa.array(["map"])}, {"bodyType": "text"}, (5, b"\0")),
    ],
)
def test_bodies(columns: dict[str, pa.Array], options: dict[str, str], expected: tuple[int, object]) -> None:
    sent = message(columns, **options)
    assert (sent.type, decode_text(sent.body) if sent.type == 3 else bytes(sent.body)) == expected


@pytest.mark.parametrize(
    "options", [{}, {"bodyType": "bytes", "priority": "2", "timeToLiveMs": "5", "durable": "false"}]
)
@pytest.mark.parametrize("kind", [pa.binary(), pa.string()])
def test_rows_with_nothing_but_a_body_are_what_rows_with_empty_columns_are(
    options: dict[str, str], kind: pa.DataType
) -> None:
    alone = {"body": pa.array(["a", None, "ccc"], kind)}
    more = {**alone, "priority": pa.array([None] * 3, pa.int32())}
    sent = [[CoreMessage.parse(row.raw) for row in encoded(columns, **options)] for columns in (alone, more)]
    first, second = ([_without_id(each) for each in messages] for messages in sent)
    assert first == second


def _without_id(sent: CoreMessage) -> tuple[object, ...]:
    assert sent.user_id is not None
    head = sent.raw.index(sent.user_id[:8])
    return bytes(sent.raw[:head]), bytes(sent.raw[head + 8 :])


def test_rows_of_one_partition_have_different_message_ids_and_go_on_counting() -> None:
    columns = {"body": pa.array([b"a", b"b"])}
    encoder = encoder_of(columns)
    rows = [row for _ in range(2) for row in encoder.encode(batch_of(columns))]
    assert [row.number for row in rows] == [0, 1, 2, 3]
    assert len({CoreMessage.parse(row.raw).user_id for row in rows}) == 4


def test_what_brokers_write_for_themselves_is_not_sent_again() -> None:
    names = ["_AMQ_ROUTE_TOx", "__AMQ_CID", "_AMQ_LARGE_COMPRESSED", "kept"]
    sent = message({"body": pa.array([b"x"]), "properties": pa.array([[(name, "true") for name in names]], TEXTS)})
    assert set(sent.properties.keys()) == {"kept", "_AMQ_ROUTING_TYPE"}


def test_a_property_of_the_sender_with_a_name_of_brokers_is_sent_again() -> None:
    columns = {
        "body": pa.array([b"x"]),
        "properties": pa.array([[("_AMQ_LARGE_COMPRESSED", "why"), ("_AMQ_LARGE_SIZE", "5")]], TEXTS),
        "propertyTypes": pa.array([[("_AMQ_LARGE_COMPRESSED", "string"), ("_AMQ_LARGE_SIZE", "long")]], TEXTS),
    }
    sent = message(columns)
    assert sent.properties.get("_AMQ_LARGE_COMPRESSED") == "why"
    assert "_AMQ_LARGE_SIZE" not in sent.properties


def test_duplicate_ids_name_query_sink_batch_partition_and_row() -> None:
    rows = encoded({"body": pa.array([b"a", b"b"])}, guarantee="deduplication")
    ids = [CoreMessage.parse(row.raw).duplicate_id for row in rows]
    assert ids == [b"query-1/sink/7/3/0", b"query-1/sink/7/3/1"]


@pytest.mark.parametrize(
    ("columns", "error"),
    [
        ({"priority": pa.array([1, 10])}, "column 'priority': a priority is from 0 to 9, not 10"),
        ({"timeToLiveMs": pa.array([1, -1])}, "column 'timeToLiveMs': a time to live is a number of milliseconds"),
        (
            {"timestamp": pa.array([None, datetime(1969, 1, 1, tzinfo=UTC)], pa.timestamp("us", tz="UTC"))},
            "column 'timestamp': a time before 1970 cannot be sent",
        ),
        ({"messageId": pa.array([None, "ID:x"])}, "column 'messageId': a message id is ID: and a UUID, not 'ID:x'"),
        ({"destination": pa.array(["a", None])}, "column 'destination': it is null or empty"),
        ({"destination": pa.array(["a", "temp-queue://x"])}, "column 'destination': 'temp-queue://x' is neither"),
        (
            {"groupSequence": pa.array([-(2**31), 2**31])},
            "column 'groupSequence': a group sequence is from -2147483648 ",
        ),
        ({"bodyType": pa.array([None, "texts"])}, "column 'bodyType': there is no type 'texts'; there are default, "),
        ({"bodyType": pa.array(["text", "text"])}, "column 'body': a text has to be UTF-8"),
        (
            properties("x", "int"),
            "column 'properties': the property 'n': 'x' is no whole number",
        ),
        (
            properties("300", "byte"),
            "column 'properties': the property 'n': 300 does not fit BYTE",
        ),
        (
            {"properties": pa.array([None, [("JMSType", "x")]], TEXTS)},
            "column 'properties': the property 'JMSType' of type string must be given in its column",
        ),
    ],
)
def test_a_bad_row_is_named_with_its_column_and_the_reason(columns: dict[str, pa.Array], error: str) -> None:
    with pytest.raises(RowError) as raised:
        encoded({"body": pa.array([b"good", b"\xff"]), **columns})
    assert str(raised.value).startswith(f"partition 3, row 1, {error}")


@pytest.mark.parametrize(
    ("columns", "options", "error"),
    [
        ("body binary", {}, "option 'queue' or 'topic', or a column 'destination', is missing"),
        ("body binary", {"queue": "a", "topic": "b"}, "options 'queue' and 'topic' contradict each other"),
        ("body binary, destination string", {"topic": "a"}, "option 'topic' and column 'destination' contradict"),
        ("bodi binary", {"queue": "q"}, "column 'bodi' is not a column of a message; did you mean 'body'"),
        ("body int", {"queue": "q"}, "column 'body' is of type binary or string, not int"),
        ("body binary, priority string", {"queue": "q"}, "column 'priority' is of type tinyint or smallint"),
        ("body binary", {"queue": "q", "priority": "10"}, "option 'priority' is from 0 to 9, not 10"),
        (
            "body binary",
            {"queue": "q", "guarantee": "once"},
            "option 'guarantee' is one of exactly-once, ",
        ),
        ("body binary", {"queue": "q", "writeVersion": "1"}, "option 'writeVersion' needs option 'writeId'"),
        ("body binary", {"queue": "q", "sinkName": "x" * 401}, "option 'sinkName' has at most 400 bytes, not 401"),
        (
            "body binary, duplicateId binary",
            {"queue": "q", "guarantee": "deduplication"},
            "column 'duplicateId' and guarantee=deduplication contradict each other",
        ),
        ("body binary, propertyTypes map<string,string>", {"queue": "q"}, "column 'propertyTypes' needs column"),
    ],
)
def test_what_cannot_be_written_is_refused_before_a_task_starts(
    columns: str, options: dict[str, str], error: str
) -> None:
    with pytest.raises(OptionError, match=error):
        sink_columns(schema(columns), SinkOptions.parse({"url": URL, **options}))


def test_columns_that_only_brokers_fill_are_not_written() -> None:
    options = SinkOptions.parse({"url": URL, "queue": "q"})
    found = sink_columns(schema("queue string, BODY binary, position bigint, redelivered boolean"), options)
    assert found == ("", "body", "", "")


def test_branches_tell_query_batch_and_run() -> None:
    other_run, later = Writing("query-1", "sink", 7, "run-2"), Writing("query-1", "sink", 12, "run-1")
    xid = TASK.branch(5)
    assert (xid.format_id, len(xid.global_transaction_id) <= 64) == (FORMAT_ID, True)
    assert (later.batch_of(xid), later.is_of_this_run(xid), other_run.is_of_this_run(xid)) == (7, True, False)
    strangers = [Writing("query-2", "sink", 7, "run-1"), Writing("query-1", "other", 7, "run-1")]
    assert [stranger.batch_of(xid) for stranger in strangers] == [None, None]
    assert WRITING.batch_of(Xid(FORMAT_ID + 1, xid.branch_qualifier, xid.global_transaction_id)) is None
    assert WRITING.batch_of(Xid(FORMAT_ID, b"b", b"spark:\xff:x")) is None


def test_no_two_attempts_at_a_partition_share_a_branch() -> None:
    tasks = [Task(WRITING, 3, 1, "ffff"), Task(WRITING, 3, 2, "abcd"), Task(WRITING, 4, 1, "abcd")]
    assert len({TASK.branch(0), TASK.branch(1), *(task.branch(0) for task in tasks)}) == 5


def test_what_deduplication_does_not_promise_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    options = SinkOptions.parse({"url": URL, "queue": "q", "guarantee": "deduplication", "sinkName": "said once"})
    for _ in range(2):
        StreamWriter(options, schema("body binary"), False)
    (record,) = caplog.records
    assert "'said once', guarantee=deduplication: a batch that fails leaves part of its rows" in record.getMessage()


def test_a_string_that_is_no_utf_8_is_told_with_its_row() -> None:
    """Spark takes any bytes as a string: `CAST(x AS STRING)` does not look at them."""
    offsets = pa.py_buffer(np.array([0, 2, 4], np.int32))
    texts = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"ok\xff\xfe")])
    for columns in ({"body": texts}, {"body": pa.array([b"a", b"b"]), "type": texts}):
        with pytest.raises(RowError, match=f"partition 3, row 1, column '{[*columns][-1]}': a string has to be UTF-8"):
            encoded(columns)


def test_a_number_that_is_too_large_for_a_float_is_told_with_its_row() -> None:
    with pytest.raises(RowError, match="row 1, column 'properties': the property 'n': '1e39' does not fit FLOAT"):
        encoded({"body": pa.array([b"a", b"b"]), **properties("1e39", "float")})


def test_half_a_surrogate_pair_goes_through_source_and_sink() -> None:
    sent = message({"body": pa.array([b"a\xed\xa0\x80"]), "bodyType": pa.array(["text"])})
    assert decode_text(sent.body) == "a\ud800"
