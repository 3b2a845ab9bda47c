"""Message bodies: worked bytes, round trips, captured bodies, broken input."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedclient.errors import LocalProtocolError, RemoteProtocolError
from embedclient.model import Properties, PropertyType, PropertyValue, TypedValue
from embedclient.wire.core import (
    MessageType,
    PacketType,
    Reader,
    SessionReceiveMessage,
    SessionSend,
    append_bytes_value,
    decode_map,
    decode_object,
    decode_packet,
    decode_stream,
    decode_text,
    encode_map,
    encode_object,
    encode_stream,
    encode_text,
    read_bytes_value,
)
from tests.vectors.captures import all_frames

SCALARS: list[TypedValue] = [
    TypedValue(True, PropertyType.BOOLEAN),
    TypedValue(-1, PropertyType.BYTE),
    TypedValue(300, PropertyType.SHORT),
    TypedValue(-70_000, PropertyType.INT),
    TypedValue(2**40, PropertyType.LONG),
    TypedValue(0.5, PropertyType.FLOAT),
    TypedValue(1.1, PropertyType.DOUBLE),
    TypedValue("€", PropertyType.CHAR),
]


@pytest.mark.parametrize("text", [None, "", "hi", "\U0001d11e" * 3000])
def test_texts_come_back(text: str | None) -> None:
    assert decode_text(encode_text(text)) == text


def test_an_empty_body_is_a_null_text() -> None:
    assert decode_text(b"") is None


def test_objects_come_back() -> None:
    assert decode_object(encode_object(b"\xac\xed")) == b"\xac\xed"
    assert encode_object(None) == b""
    assert decode_object(b"") is None


def test_maps_come_back() -> None:
    values = Properties({"a": 1, "b": "x", "c": None, "d": b"raw"})
    assert decode_map(encode_map(values)) == values
    assert encode_map(Properties()) == b"\0"
    assert decode_map(b"") == Properties()


def test_stream_items_come_back_with_their_types() -> None:
    items = [*SCALARS, TypedValue(b"raw", PropertyType.BYTES), TypedValue("s" * 5000, PropertyType.STRING)]
    assert decode_stream(encode_stream(items)) == items


def test_a_null_in_a_stream_is_a_string_that_is_not_there() -> None:
    body = encode_stream([TypedValue(None, PropertyType.NULL)])
    assert body == b"\x0a\x00"
    assert decode_stream(body) == [TypedValue(None, PropertyType.STRING)]


def test_true_is_all_ones_in_bodies() -> None:
    assert encode_stream([TypedValue(True, PropertyType.BOOLEAN)]) == b"\x02\xff"


@pytest.mark.parametrize("body", [b"\x00", b"\x01\x00", b"\x0c\x00", b"\x07\x00", b"\x0a\x01\x7f\xff\xff\xff", b"\xff"])
def test_broken_streams_are_refused(body: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_stream(body)


def test_bytes_bodies_have_no_tags() -> None:
    out = bytearray()
    values: list[TypedValue] = [
        *SCALARS,
        TypedValue("utf", PropertyType.STRING),
        TypedValue(b"raw", PropertyType.BYTES),
    ]
    for value, kind in values:
        append_bytes_value(out, value, kind)
    assert out[:2] == b"\xff\xff"
    reader = Reader(out)
    assert [read_bytes_value(reader, kind) for _, kind in values] == [value for value, _ in values]


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (None, PropertyType.NULL),
        (1, PropertyType.STRING),
        ("x", PropertyType.BYTES),
        (2**40, PropertyType.INT),
        ("x", PropertyType.LONG),
        (1e300, PropertyType.FLOAT),
    ],
)
def test_values_that_do_not_fit_are_our_error(value: PropertyValue, kind: PropertyType) -> None:
    with pytest.raises(LocalProtocolError):
        append_bytes_value(bytearray(), value, kind)


@given(st.binary(max_size=80))
def test_any_bytes_give_values_or_a_protocol_error(body: bytes) -> None:
    for decode in (decode_text, decode_object, decode_map, decode_stream):
        try:
            decode(body)
        except RemoteProtocolError:
            continue


def captured_bodies(kind: int) -> list[bytes]:
    bodies = []
    for frame in all_frames():
        if frame.type in (PacketType.SESS_SEND, PacketType.SESS_RECEIVE_MSG):
            packet = decode_packet(frame.data, 0, len(frame.data), frame.version, frame.from_client)
            assert isinstance(packet, SessionSend | SessionReceiveMessage)
            if packet.message.type == kind and not packet.message.property("_AMQ_LARGE_COMPRESSED"):
                bodies.append(bytes(packet.message.body))
    return bodies


def test_captured_texts_encode_to_the_same_bytes() -> None:
    bodies = captured_bodies(MessageType.TEXT)
    assert len(bodies) > 100
    assert [encode_text(decode_text(body)) for body in bodies if body] == [body for body in bodies if body]


def test_captured_maps_encode_to_the_same_bytes() -> None:
    bodies = captured_bodies(MessageType.MAP)
    assert len(bodies) >= 4
    assert [encode_map(decode_map(body)) for body in bodies if body] == [body for body in bodies if body]


def test_captured_streams_encode_to_the_same_bytes() -> None:
    bodies = captured_bodies(MessageType.STREAM)
    assert len(bodies) >= 4
    assert [encode_stream(decode_stream(body)) for body in bodies] == bodies


def test_captured_objects_encode_to_the_same_bytes() -> None:
    bodies = captured_bodies(MessageType.OBJECT)
    assert len(bodies) > 2
    assert [encode_object(decode_object(body)) for body in bodies] == bodies
