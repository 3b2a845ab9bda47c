"""Core messages: header fields by offset, properties on demand, copies, and the framing of 1.x peers."""

from __future__ import annotations

import pytest

from embedclient.errors import RemoteProtocolError
from embedclient.model import Origin, Properties, PropertyType, PropertyValue, TypedValue
from embedclient.wire.core import (
    ROUTING_TYPE_KEY,
    CoreMessage,
    MessageType,
    encode_text,
    from_1x,
    known_address,
    property_key,
    to_1x,
)

# Text "hi" to address "q", durable, worked out by hand from the layout.
EXAMPLE = bytes.fromhex(
    "00000016 01 00000004 6800 6900 0000000000000000 01 00000002 7100 00 03 010000000000000000 0000000000000000 04 00"
)


def with_properties(**values: bool | int | float | str | bytes | None) -> CoreMessage:
    return CoreMessage.build(address="a", properties=Properties(values))


def test_the_worked_example_is_read_and_built() -> None:
    message = CoreMessage.parse(bytearray(EXAMPLE))
    assert message.address == "q"
    assert (message.type, message.durable, message.priority) == (MessageType.TEXT, True, 4)
    assert (message.message_id, message.expiration, message.timestamp, message.user_id) == (0, 0, 0, None)
    assert message.encoded_size == len(EXAMPLE)
    assert bytes(message.body) == encode_text("hi")
    assert CoreMessage.build(type=MessageType.TEXT, address="q", body=encode_text("hi")).raw == EXAMPLE


@pytest.mark.parametrize("address", ["", "q", "qq", "r", "\U0001d11e", "\ud834"])
@pytest.mark.parametrize("known", ["", "q", "qq", "\ud834"])
def test_whatever_address_is_likely_the_message_reads_the_same(address: str, known: str) -> None:
    raw = CoreMessage.build(address=address, priority=7, user_id=bytes(16), properties=Properties({"q": 1})).raw
    CoreMessage.parse(raw).assign_id(5)
    likely = known_address(known)
    message, plainly = CoreMessage.parse(raw, likely), CoreMessage.parse(raw)
    assert message.address == plainly.address == address
    assert (message.address is likely[1]) == (address == known)
    assert (message.message_id, message.priority, message.user_id) == (5, 7, bytes(16))
    assert message.properties == plainly.properties


@pytest.mark.parametrize("length", range(len(EXAMPLE)))
def test_a_likely_address_lets_nothing_in_that_is_cut_short(length: int) -> None:
    with pytest.raises(RemoteProtocolError):
        CoreMessage.parse(bytearray(EXAMPLE[:length]), known_address("q"))


def test_a_core_message_is_a_message() -> None:
    message = CoreMessage.parse(bytearray(EXAMPLE))
    assert message.encoding == 1


def test_every_header_comes_back() -> None:
    user_id = bytes(range(16))
    message = CoreMessage.build(
        type=MessageType.BYTES,
        address="käse::\U0001d11e",
        durable=False,
        priority=9,
        timestamp=1_700_000_000_000,
        expiration=1_700_000_060_000,
        user_id=user_id,
        properties=Properties({"a": 1}),
        body=b"body",
    )
    again = CoreMessage.parse(bytearray(message.raw))
    assert again.address == "käse::\U0001d11e"
    assert (again.durable, again.priority, again.user_id) == (False, 9, user_id)
    assert (again.timestamp, again.expiration) == (1_700_000_000_000, 1_700_000_060_000)
    assert again.properties == Properties({"a": 1})
    assert bytes(again.body) == b"body"
    assert bytes(again.header) == bytes(again.raw[8:])


def test_the_id_is_patched_in_place() -> None:
    raw = bytearray(EXAMPLE)
    message = CoreMessage.parse(raw)
    message.assign_id(2**40 + 1)
    assert message.raw is raw
    assert CoreMessage.parse(raw).message_id == message.message_id == 2**40 + 1


def test_a_message_without_address_reads_as_the_empty_address() -> None:
    raw = bytearray(EXAMPLE.replace(bytes.fromhex("01 00000002 7100 00 03"), bytes.fromhex("00 00 03")))
    message = CoreMessage.parse(raw)
    assert message.address == ""
    assert (message.type, message.priority) == (MessageType.TEXT, 4)


def test_only_one_means_that_a_user_id_is_there() -> None:
    raw = bytearray(EXAMPLE)
    raw[raw.index(bytes.fromhex("7100 00 03")) + 2] = 0xFF
    assert CoreMessage.parse(raw).user_id is None


def test_a_priority_outside_the_range_is_clamped_and_the_bytes_stay() -> None:
    raw = bytearray(EXAMPLE)
    raw[-2] = 100
    assert CoreMessage.parse(raw).priority == 9
    raw[-2] = 0x80
    assert CoreMessage.parse(raw).priority == 0
    assert raw[-2] == 0x80


def test_a_body_that_a_broker_never_touched_is_four_zero_bytes() -> None:
    raw = bytearray(bytes.fromhex("00000011 00000000")) + EXAMPLE[13:]
    assert bytes(CoreMessage.parse(raw).body) == bytes(4)


@pytest.mark.parametrize("length", range(len(EXAMPLE)))
def test_every_prefix_is_refused(length: int) -> None:
    with pytest.raises(RemoteProtocolError):
        CoreMessage.parse(bytearray(EXAMPLE[:length]))


@pytest.mark.parametrize("end_of_body", [0, 12, -1, -(2**31), 2**31 - 1, 5000])
def test_an_impossible_end_of_body_is_refused(end_of_body: int) -> None:
    with pytest.raises(RemoteProtocolError):
        CoreMessage.parse(bytearray(end_of_body.to_bytes(4, "big", signed=True) + EXAMPLE[4:]))


def test_broken_properties_show_when_they_are_read() -> None:
    message = CoreMessage.parse(bytearray(EXAMPLE[:-1]) + bytes.fromhex("01 00000001 00000002 6100 01"))
    with pytest.raises(RemoteProtocolError):
        _ = message.properties
    with pytest.raises(RemoteProtocolError):
        message.property("a")
    assert message.property("other") is None


def test_the_fast_scan_finds_the_byte_wherever_it_stands() -> None:
    many: dict[str, PropertyValue] = {"x": "text", "y": 2**40, "z": b"raw", "n": None, "d": 1.5, "b": True}
    for before in ({}, many):
        properties = Properties(before)
        properties.set("_AMQ_ROUTING_TYPE", 1, PropertyType.BYTE)
        properties["after"] = "text"
        assert CoreMessage.build(address="a", properties=properties).property_byte(ROUTING_TYPE_KEY) == 1


def test_the_fast_scan_reads_negative_bytes_and_no_other_types() -> None:
    properties = Properties()
    properties.set("k", -1, PropertyType.BYTE)
    assert CoreMessage.build(address="a", properties=properties).property_byte(property_key("k")) == -1
    assert with_properties(k=1).property_byte(property_key("k")) is None
    assert with_properties().property_byte(property_key("k")) is None


def test_the_fast_scan_is_not_fooled_by_values() -> None:
    trap = ROUTING_TYPE_KEY + b"\x03\x01"
    values: dict[str, PropertyValue] = {"a": trap, "b": "_AMQ_ROUTING_TYPE", "c": trap + trap}
    properties = Properties(values)
    assert CoreMessage.build(address="a", properties=properties).property_byte(ROUTING_TYPE_KEY) is None
    properties.set("_AMQ_ROUTING_TYPE", 0, PropertyType.BYTE)
    assert CoreMessage.build(address="a", properties=properties).property_byte(ROUTING_TYPE_KEY) == 0


def test_a_property_can_be_asked_before_and_after_the_others_were_read() -> None:
    message = with_properties(a="x", b=None)
    assert message.property("missing") is None
    assert message.property("a") == "x"
    assert message.property("b") is None
    assert message.property("missing") is None


def test_duplicate_ids_are_compared_as_bytes() -> None:
    assert with_properties(_AMQ_DUPL_ID="id").duplicate_id == b"i\0d\0"
    assert with_properties(_AMQ_DUPL_ID=b"id").duplicate_id == b"id"
    assert with_properties(_AMQ_DUPL_ID=5).duplicate_id is None
    assert with_properties(text="_AMQ_DUPL_ID").duplicate_id is None


def test_a_dead_letter_copy_changes_what_it_must_and_nothing_else() -> None:
    values: dict[str, PropertyValue] = {"keep": "k", "_AMQ_ROUTING_TYPE": 1}
    message = CoreMessage.build(
        type=MessageType.TEXT,
        address="orders",
        priority=7,
        timestamp=5,
        expiration=99,
        user_id=bytes(range(16)),
        properties=Properties(values),
        body=encode_text("x"),
    )
    message.assign_id(42)
    copy = message.copy_for(
        "DLQ",
        changes={"_AMQ_ORIG_ADDRESS": "orders", "_AMQ_ORIG_MESSAGE_ID": TypedValue(42, PropertyType.LONG)},
        removals=["_AMQ_ROUTING_TYPE", "not there"],
        expiration=0,
    )
    assert (copy.message_id, copy.address, copy.expiration) == (0, "DLQ", 0)
    assert (copy.priority, copy.timestamp, copy.user_id) == (7, 5, bytes(range(16)))
    assert copy.properties.items() == [("keep", "k"), ("_AMQ_ORIG_ADDRESS", "orders"), ("_AMQ_ORIG_MESSAGE_ID", 42)]
    assert copy.properties.type_of("_AMQ_ORIG_MESSAGE_ID") is PropertyType.LONG
    assert copy.body == message.body
    assert (message.message_id, message.address, message.expiration) == (42, "orders", 99)


def test_facts_of_brokers_are_read_from_their_properties() -> None:
    message = with_properties(_AMQ_GROUP_ID="g", _AMQ_TEMPORARY="a", _AMQ_Hops=b"\0\0\0\2")
    assert (message.group_id, message.is_to_temporary, message.property("_AMQ_Hops")) == ("g", True, 2)
    other = with_properties(_AMQ_TEMPORARY="b", _AMQ_Hops=b"five ")
    assert (other.group_id, other.is_to_temporary, other.property("_AMQ_Hops")) == (None, False, b"five ")
    assert other.stored_bytes() is other.raw and other.to_core() is other
    assert other.encoded_size == other.memory_size == len(other.raw)


def test_a_directed_message_keeps_its_headers_and_reads_its_group_at_a_known_place() -> None:
    message = with_properties(count=7, _AMQ_GROUP_ID="größe", _AMQ_GROUP_SEQUENCE=-1)
    message.assign_id(9)
    start = message.properties_at
    (found,) = [(at - start, end - start) for name, _tag, at, end in message.property_spans() if "GROUP_ID" in name]
    known = message.directed(5, slice(*found))
    for each in (known, message.directed(5), known.copy_for("b", changes={}, removals=(), expiration=0)):
        assert (each.group_id, each.is_grouped, each.closes_group, each.deliver_at) == ("größe", True, True, 5)
    headers = ("message_id", "address", "type", "durable", "expiration", "timestamp", "priority", "encoded_size")
    assert [getattr(known, name) for name in headers] == [getattr(message, name) for name in headers]
    assert known.raw is message.raw and dict(known.properties) == dict(message.properties)
    assert (message.is_grouped, with_properties(count=7).group_id, with_properties(count=7).closes_group) == (
        False,
        None,
        False,
    )


def test_the_origin_stands_in_properties_and_the_routing_type_with_it() -> None:
    properties = Properties({"keep": "k"})
    properties.set("_AMQ_ROUTING_TYPE", 1, PropertyType.BYTE)
    sent = CoreMessage.build(address="orders", expiration=99, properties=properties, body=b"x")
    dead = sent.annotate(Origin("orders", "q", 42), "DLQ")
    assert (dead.message_id, dead.address, dead.expiration, bytes(dead.body)) == (0, "DLQ", 0, b"x")
    assert dead.encoded_size == dead.memory_size == len(dead.raw)
    expected: list[tuple[str, PropertyValue]] = [
        ("keep", "k"),
        ("_AMQ_ORIG_ADDRESS", "orders"),
        ("_AMQ_ORIG_QUEUE", "q"),
        ("_AMQ_ORIG_MESSAGE_ID", 42),
        ("_AMQ_ORIG_ROUTING_TYPE", 1),
    ]
    assert dead.properties.items() == expected
    assert dead.properties.type_of("_AMQ_ORIG_MESSAGE_ID") is PropertyType.LONG
    # The second hop puts the first routing type back.
    expired = dead.annotate(Origin("DLQ", "dead", 43, 5), "expired")
    assert dict(expired.properties.items()) == {
        "keep": "k",
        "_AMQ_ORIG_ADDRESS": "DLQ",
        "_AMQ_ORIG_QUEUE": "dead",
        "_AMQ_ORIG_MESSAGE_ID": 43,
        "_AMQ_ACTUAL_EXPIRY": 5,
        "_AMQ_ORIG_ROUTING_TYPE": 1,
        "_AMQ_ROUTING_TYPE": 1,
    }
    unrouted = sent.annotate(Origin("orders", None, 42), "DLQ")
    assert unrouted.properties.items() == [*expected[:2], ("_AMQ_ORIG_QUEUE", None), expected[3]]


def test_another_expiration_changes_nothing_else() -> None:
    message = with_properties(a=1)
    message.assign_id(42)
    copy = message.with_expiration(77)
    assert (copy.message_id, copy.expiration, copy.properties) == (42, 77, message.properties)
    assert message.expiration == 0 and len(copy.raw) == len(message.raw)


def test_a_copy_without_changes_keeps_the_property_bytes() -> None:
    message = with_properties(a=1, b="x")
    copy = message.copy_for("other", changes={}, removals=(), expiration=0)
    assert copy.properties == message.properties
    assert copy.raw[-20:] == message.raw[-20:]


def test_a_large_message_header_becomes_a_message_without_body() -> None:
    whole = CoreMessage.parse(bytearray(EXAMPLE))
    header = CoreMessage.parse_header(whole.header)
    assert (header.address, header.type, bytes(header.body)) == ("q", MessageType.TEXT, b"")
    assert bytes(header.header) == bytes(whole.header)


def test_messages_of_1x_peers_are_reframed_both_ways() -> None:
    old = to_1x(EXAMPLE)
    assert old[:4] == bytes.fromhex("0000001A")
    # The total length of the present form plus 17, behind the body.
    assert int.from_bytes(old[13:17], "big") == len(EXAMPLE) + 17
    assert from_1x(old) == EXAMPLE


@pytest.mark.parametrize("data", ["", "00", "00000010", "0000001200", "00000012000000", "ffffffff00", "7fffffff00"])
def test_broken_messages_of_1x_peers_are_refused(data: str) -> None:
    with pytest.raises(RemoteProtocolError):
        CoreMessage.parse(from_1x(bytes.fromhex(data)))
