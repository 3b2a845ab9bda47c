"""JMS messages against captured ones: what we read from them, and that we write the same."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from embedclient.agent import _conversion
from embedclient.agent._conversion import Envelope, from_core
from embedclient.errors import MessageFormatException, MessageNotWriteableException
from embedclient.model import (
    BytesMessage,
    DeliveryMode,
    Destination,
    JMSMessage,
    MapMessage,
    ObjectMessage,
    Properties,
    PropertyType,
    PropertyValue,
    Queue,
    StreamMessage,
    TemporaryQueue,
    TextMessage,
    Topic,
    TypedValue,
)
from embedclient.wire.core import CoreMessage, MessageType

CAPTURES = Path(__file__).parents[2] / "vectors" / "core"
SEND, RECEIVE = 71, 75
TRAILER_SIZES = {SEND: 13, RECEIVE: 12}
UNI = "éß € 中文 𝄞 😀 end"


@cache
def captured(name: str, packet: int = SEND) -> tuple[bytes, ...]:
    """The messages of one capture that travelled in packets of this type."""
    lines = [json.loads(line) for line in (CAPTURES / f"{name}.jsonl").read_text().splitlines()]
    frames = [bytes.fromhex(line["hex"]) for line in lines if line.get("type") == packet]
    return tuple(frame[13 : -TRAILER_SIZES[packet]] for frame in frames)


def received(raw: bytes, delivery_count: int = 1, destination: Destination | None = None) -> JMSMessage:
    return from_core(CoreMessage.parse(bytearray(raw)), delivery_count, destination)


def build_like(message: JMSMessage, raw: bytes) -> CoreMessage:
    """Send ``message`` with everything the producer decided in the captured message."""
    original = CoreMessage.parse(bytearray(raw))
    connection_id = original.properties["__AMQ_CID"]
    assert isinstance(connection_id, str)
    return Envelope(Queue(original.address), connection_id=connection_id).enclose(
        message,
        user_id=original.user_id,
        durable=original.durable,
        priority=original.priority,
        timestamp=original.timestamp,
        expiration=original.expiration,
    )


def assert_same(ours: CoreMessage, raw: bytes) -> None:
    """Equal bytes but for the order of properties, which is that of a hash map."""
    theirs = CoreMessage.parse(bytearray(raw))
    assert bytes(ours.body) == bytes(theirs.body)
    assert ours.properties == theirs.properties
    assert len(ours.raw) == len(raw)
    end = len(raw) - len(theirs.raw[theirs.raw.find(b"_\0") :])
    assert ours.raw[: end - 9] == raw[: end - 9]


TEXTS = [None, "", "12345678", "123456789", UNI]


@pytest.mark.parametrize(("index", "text"), list(enumerate(TEXTS)))
def test_text_messages_are_read_and_written_as_captured(index: int, text: str | None) -> None:
    for packet in (SEND, RECEIVE):
        message = received(captured("msg-text", packet)[index])
        assert isinstance(message, TextMessage)
        assert message.text == text
    assert_same(build_like(TextMessage(text), captured("msg-text")[index]), captured("msg-text")[index])


def test_a_message_without_body_is_read_as_captured() -> None:
    message = received(captured("msg-text", RECEIVE)[6])
    assert type(message) is JMSMessage
    assert message.body is None
    assert CoreMessage.parse(bytearray(captured("msg-text")[6])).type == MessageType.DEFAULT


def test_bytes_messages_are_read_and_written_as_captured() -> None:
    raw = captured("msg-bytes")[1]
    message = received(raw)
    assert isinstance(message, BytesMessage)
    written = BytesMessage()
    for value in (message.read_boolean(), message.read_boolean()):
        written.write_boolean(value)
    written.write_byte(message.read_byte())
    written.write_short(message.read_short())
    written.write_char(message.read_char())
    written.write_int(message.read_int())
    written.write_long(message.read_long())
    written.write_float(message.read_float())
    written.write_double(message.read_double())
    text = message.read_utf()
    assert text == f"{UNI}\0nul"
    written.write_utf(text)
    written.write_bytes(message.read_bytes())
    assert_same(build_like(written, raw), raw)


def test_the_values_of_a_captured_bytes_message() -> None:
    message = received(captured("msg-bytes", RECEIVE)[1])
    assert isinstance(message, BytesMessage)
    assert [message.read_boolean(), message.read_boolean(), message.read_byte()] == [True, False, -1]
    assert [message.read_short(), message.read_char(), message.read_int()] == [0x1234, "中", 0x12345678]
    assert message.read_long() == 0x1122334455667788
    assert message.body_length == len(message.body)


def test_map_messages_are_read_and_written_as_captured() -> None:
    empty, full = captured("msg-map")
    assert received(empty).body == {}
    assert_same(build_like(MapMessage(), empty), empty)
    message = received(full)
    assert isinstance(message, MapMessage)
    assert (message.get_byte("byte"), message.get_short("short"), message.get_int("int")) == (1, 2, 3)
    assert (message.get_long("long"), message.get_float("float"), message.get_double("double")) == (4, 5.0, 6.0)
    assert (message.get_string("uni"), message.get_bytes("bytes")) == (UNI, b"\1\2")
    assert (message.get_string("nullstr"), message.item_exists("nullstr")) == (None, True)
    again = MapMessage()
    setters: dict[PropertyType, Callable[..., None]] = {
        PropertyType.BYTE: again.set_byte,
        PropertyType.SHORT: again.set_short,
        PropertyType.FLOAT: again.set_float,
        PropertyType.LONG: again.set_long,
        PropertyType.CHAR: again.set_char,
    }
    for name, (value, kind) in message.entries.typed_items():
        setters.get(kind, again.set_object)(name, value)
    assert_same(build_like(again, full), full)


def test_stream_messages_are_read_and_written_as_captured() -> None:
    empty, full = captured("msg-stream")
    assert received(empty).body == []
    message = received(full)
    assert isinstance(message, StreamMessage)
    assert [message.read_boolean(), message.read_boolean(), message.read_byte()] == [True, False, 1]
    assert [message.read_short(), message.read_char(), message.read_int(), message.read_long()] == [2, "€", 3, 4]
    assert [message.read_float(), message.read_double(), message.read_bytes()] == [5.0, 6.0, b"\1\2"]
    assert [message.read_string() for _ in range(5)] == ["", "12345678", "123456789", UNI, "𝄞ab"]
    again = StreamMessage()
    writers: dict[PropertyType, Callable[..., None]] = {
        PropertyType.BYTE: again.write_byte,
        PropertyType.SHORT: again.write_short,
        PropertyType.FLOAT: again.write_float,
        PropertyType.LONG: again.write_long,
        PropertyType.CHAR: again.write_char,
    }
    for value, kind in message.items:
        writers.get(kind, again.write_object)(value)
    assert_same(build_like(again, full), full)


def test_object_messages_pass_their_bytes_through() -> None:
    nothing, text, _ = captured("msg-object")
    message = received(nothing)
    assert isinstance(message, ObjectMessage)
    assert message.data is None
    assert_same(build_like(ObjectMessage(), nothing), nothing)
    message = received(text)
    assert isinstance(message, ObjectMessage)
    assert message.data == b"\xac\xed\0\5t\0\nserialised"
    assert_same(build_like(ObjectMessage(message.data), text), text)


def test_properties_of_every_type_are_read_and_written_as_captured() -> None:
    raw = captured("msg-properties-headers")[0]
    message = received(raw)
    assert (message.get_byte_property("pByte"), message.get_short_property("pShort")) == (-7, -30000)
    assert message.get_int_property("pInt") == -0x8000_0000
    assert (message.get_double_property("pDouble"), message.get_string_property("pUni")) == (-1e300, UNI)
    assert (message.properties["pNull"], "pNull" in message.properties) == (None, True)
    assert message.get_object_property("__AMQ_CID") is not None
    assert not any(name.startswith(("__AMQ", "_AMQ")) for name in message.properties)
    again = JMSMessage()
    for name, (value, kind) in message.stored().typed_items():
        if name in message.properties:
            again.properties.set(name, value, kind)
    ours, theirs = build_like(again, raw).properties, CoreMessage.parse(bytearray(raw)).properties
    # Compared as text, because one of them is NaN.
    assert sorted(map(repr, ours.typed_items())) == sorted(map(repr, theirs.typed_items()))


def test_headers_are_read_and_written_as_captured() -> None:
    one, two, three = captured("msg-properties-headers")[1:]
    message = received(one)
    assert (message.correlation_id, message.reply_to, message.type) == ("corr-1", Queue("mt.reply"), "my-type")
    assert dict(message.properties) == {"JMSXGroupID": "g1", "JMSXGroupSeq": 2, "JMSXDeliveryCount": 1}
    again = JMSMessage(
        correlation_id="corr-1",
        reply_to=Queue("mt.reply"),
        type="my-type",
        properties={"JMSXGroupID": "g1", "JMSXGroupSeq": 2},
    )
    assert build_like(again, one).properties == CoreMessage.parse(bytearray(one)).properties
    message = received(two)
    assert (message.correlation_id, message.reply_to) == (b"\1\2\3\4", Topic("mt.replyt"))
    assert (message.priority, message.delivery_mode) == (9, DeliveryMode.NON_PERSISTENT)
    assert message.expiration - message.timestamp == 3_600_000
    again = JMSMessage(correlation_id=b"\1\2\3\4", reply_to=Topic("mt.replyt"))
    assert build_like(again, two).properties == CoreMessage.parse(bytearray(two)).properties
    message = received(three)
    assert isinstance(message.reply_to, TemporaryQueue)
    assert (message.message_id, message.timestamp, message.priority) == (None, 0, 0)


def test_a_received_message_knows_its_delivery() -> None:
    raw = captured("msg-text", RECEIVE)[2]
    message = received(raw, 1)
    assert message.message_id is not None
    assert message.message_id.startswith("ID:")
    assert UUID(message.message_id[3:]).version == 1
    assert (message.destination, message.redelivered, message.delivery_count) == (Queue("mt.text"), False, 1)
    message = received(raw, 3)
    assert message.redelivered
    assert message.get_string_property("JMSXDeliveryCount") == "3"
    with pytest.raises(MessageNotWriteableException):
        message.properties["n"] = 1


def core(
    *, type: int = MessageType.TEXT, address: str = "a", properties: Properties | None = None, body: bytes = b""
) -> CoreMessage:
    return CoreMessage.build(type=type, address=address, properties=properties, body=body)


ROUTED_TO_TOPIC = Properties.of_entries({"_AMQ_ROUTING_TYPE": TypedValue(0, PropertyType.BYTE)})


@pytest.mark.parametrize(
    ("message", "consumer", "expected"),
    [
        (core(properties=ROUTED_TO_TOPIC), Queue("a"), Topic("a")),
        (core(properties=ROUTED_TO_TOPIC), None, Topic("a")),
        (core(), Topic("a"), Topic("a")),
        (core(), Topic("a::subscription"), Topic("a")),
        (core(), Queue("b"), Queue("a")),
        (core(), None, Queue("a")),
        (core(address="topic://a"), None, Topic("a")),
        (core(), TemporaryQueue("a"), TemporaryQueue("a")),
        (core(address=""), Queue("a"), None),
    ],
)
def test_the_destination_is_what_the_message_says_or_of_the_consumers_kind(
    message: CoreMessage, consumer: Destination | None, expected: Destination | None
) -> None:
    assert from_core(message, 1, consumer).destination == expected


def test_sending_sets_the_headers() -> None:
    message = TextMessage("hi", correlation_id="c", properties={"n": 1})
    message.priority = 9
    user_id = bytes(range(16))
    sent = Envelope(Topic("t"), connection_id="me").enclose(
        message, user_id=user_id, priority=2, timestamp=5, expiration=7, durable=False
    )
    assert sent.address == "t"
    assert sent.properties["_AMQ_ROUTING_TYPE"] == 0
    assert message.message_id == "ID:00010203-0405-0607-0809-0a0b0c0d0e0f"
    assert (message.destination, message.priority, message.timestamp, message.expiration) == (Topic("t"), 2, 5, 7)
    assert message.delivery_mode is DeliveryMode.NON_PERSISTENT
    assert (message.correlation_id, dict(message.properties), message.text) == ("c", {"n": 1}, "hi")
    message.text = "again"
    message.properties["n"] = 2
    again = Envelope(Queue("q"), connection_id="me", group_id="g").enclose(message, delivery_time=99)
    assert sent.properties["n"] == 1
    assert again.properties["n"] == 2
    assert again.properties["_AMQ_GROUP_ID"] == "g"
    assert (message.destination, message.delivery_time, again.user_id) == (Queue("q"), 99, None)
    assert "__AMQ_CID" not in message.stored()


def test_a_received_message_is_passed_on_without_being_decoded() -> None:
    brought: dict[str, PropertyValue | TypedValue] = {
        "n": 1,
        "_AMQ_ROUTE_TO_x": b"route",
        "__AMQ_CID": "them",
        "JMSType": "t",
    }
    malformed = core(body=b"\1\0\0\0\x7f").copy_for("a", changes=brought, removals=(), expiration=0)
    message = from_core(malformed, 1)
    sent = Envelope(Queue("b"), connection_id="me").enclose(message)
    assert bytes(sent.body) == bytes(malformed.body)
    assert dict(sent.properties.items()) == {"n": 1, "__AMQ_CID": "me", "JMSType": "t", "_AMQ_ROUTING_TYPE": 1}
    with pytest.raises(MessageFormatException):
        _ = message.body


def test_a_received_message_that_was_changed_is_encoded_anew() -> None:
    message = received(captured("msg-text", RECEIVE)[2])
    assert isinstance(message, TextMessage)
    message.clear_body()
    message.text = "other"
    assert from_core(Envelope(Queue("b"), connection_id="me").enclose(message), 1).body == "other"


def test_bodies_that_cannot_be_read_say_so() -> None:
    for kind, body in [
        (MessageType.TEXT, b"\1\0\0\0\2a"),
        (MessageType.MAP, b"\1\0\0\0\1"),
        (MessageType.STREAM, b"\x63"),
        (MessageType.OBJECT, b"\0\0\0\x09x"),
    ]:
        with pytest.raises(MessageFormatException, match="malformed"):
            _ = from_core(core(type=kind, body=body), 1).body
    with pytest.raises(MessageFormatException, match="is not a JMS message"):
        from_core(core(type=7), 1)


def test_properties_that_cannot_be_read_say_so() -> None:
    message = core(properties=Properties({"n": 1}))
    message.raw[-5] = 99
    with pytest.raises(MessageFormatException, match="malformed"):
        _ = from_core(CoreMessage.parse(message.raw), 1).properties["n"]


COMPRESSED = Properties({"_AMQ_LARGE_COMPRESSED": True, "_AMQ_LARGE_SIZE": 5000})


def test_a_compressed_body_is_inflated() -> None:
    body = b"\1" + (10_000).to_bytes(4, "big") + ("x" * 5000).encode("utf-16-le")
    message = from_core(core(properties=COMPRESSED, body=zlib.compress(body)), 1)
    assert isinstance(message, TextMessage)
    sent = Envelope(Queue("b"), connection_id="me").enclose(message)
    assert message.text == "x" * 5000
    assert from_core(sent, 1).body == "x" * 5000
    assert "_AMQ_LARGE_COMPRESSED" not in sent.properties


def test_the_compressed_flag_counts_only_as_a_property_that_is_true() -> None:
    message = core(type=MessageType.BYTES, properties=Properties({"_AMQ_LARGE_COMPRESSED": False}), body=b"plain")
    assert from_core(message, 1).body == b"plain"
    message = core(type=MessageType.BYTES, properties=Properties({"p": "_AMQ_LARGE_COMPRESSED"}), body=b"plain")
    assert from_core(message, 1).body == b"plain"


@pytest.mark.parametrize("value", ["why", None, 7.5, b"1"])
def test_a_property_with_the_name_of_the_compressed_flag_travels_on(value: PropertyValue) -> None:
    properties = Properties({"_AMQ_LARGE_COMPRESSED": value, "_AMQ_LARGE_SIZE": value})
    message = from_core(core(type=MessageType.BYTES, properties=properties, body=b"plain"), 1)
    sent = Envelope(Queue("b"), connection_id="me").enclose(message)
    assert from_core(sent, 1).body == b"plain"
    assert [sent.properties.get(name) for name in properties] == [value, value]


def test_a_time_of_delivery_is_a_number() -> None:
    for value, expected in ((True, 0), ("5", 0), (5000, 5000)):
        assert from_core(core(properties=Properties({"_AMQ_SCHED_DELIVERY": value})), 1).delivery_time == expected


def test_a_compressed_body_cannot_grow_without_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_conversion, "INFLATED_BYTES_MAX", 1000)
    for body, reason in [
        (zlib.compress(bytes(1001)), "more than 1000"),
        (zlib.compress(b"abc")[:-1], "cut off"),
        (b"no zlib data", "malformed"),
    ]:
        message = core(type=MessageType.BYTES, properties=COMPRESSED, body=body)
        with pytest.raises(MessageFormatException, match=reason):
            _ = from_core(message, 1).body
    exact = core(type=MessageType.BYTES, properties=COMPRESSED, body=zlib.compress(bytes(1000)))
    assert from_core(exact, 1).body == bytes(1000)


texts = st.text(max_size=8)
values = st.one_of(st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), texts, st.none())
names = st.from_regex(r"\A[a-z][a-z0-9_]{0,6}\Z").filter(lambda name: name not in ("in", "is", "or", "not", "and"))
bodies = st.one_of(
    texts.map(TextMessage),
    st.binary(max_size=20).map(BytesMessage),
    st.dictionaries(texts.filter(bool), st.one_of(values, st.binary(max_size=3)), max_size=4).map(MapMessage),
    st.lists(st.one_of(values, st.binary(max_size=3)), max_size=4).map(StreamMessage),
    st.binary(max_size=20).map(ObjectMessage),
)


@settings(max_examples=150, deadline=None)
@given(message=bodies, properties=st.dictionaries(names, values, max_size=4))
def test_what_is_sent_is_what_is_received(message: JMSMessage, properties: dict[str, bool | int | float | str]) -> None:
    for name, value in properties.items():
        if name.upper() not in ("NULL", "TRUE", "FALSE", "BETWEEN", "LIKE", "ESCAPE"):
            message.properties[name] = value
    sent = Envelope(Queue("q"), connection_id="me").enclose(message)
    there = from_core(CoreMessage.parse(bytearray(sent.raw)), 1)
    assert type(there) is type(message)
    assert there.body == message.body
    assert {**message.properties, "JMSXDeliveryCount": 1} == dict(there.properties)
