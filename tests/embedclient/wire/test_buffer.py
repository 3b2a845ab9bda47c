"""The primitive encodings: bytes from the protocol's worked examples, round trips, limits and broken input."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedclient.errors import LocalProtocolError, RemoteProtocolError
from embedclient.model import Properties, PropertyType, TransportConfiguration, Xid
from embedclient.wire._buffer import (
    Reader,
    append_connector,
    append_properties,
    append_simple_string,
    append_string,
    append_utf,
    append_xid,
)

TEXTS = st.text(max_size=40) | st.text(alphabet=st.characters(), min_size=1, max_size=3).map(lambda text: text * 700)


def string_bytes(value: str) -> bytes:
    out = bytearray()
    append_string(out, value)
    return bytes(out)


@pytest.mark.parametrize(
    ("text", "encoded"),
    [
        ("", "00000000"),
        ("abc", "00000003 0061 0062 0063"),
        ("abcdefghi", "00000009 0009 616263646566676869"),
        ("clef \U0001d11e ok", "0000000A 000E 636C656620 EDA0B4 EDB49E 206F6B"),
        ("\0\x00nulstring", "0000000B 000B 0000 6E756C737472696E67"),
    ],
)
def test_strings_have_the_bytes_of_the_worked_examples(text: str, encoded: str) -> None:
    data = bytes.fromhex(encoded)
    assert string_bytes(text) == data
    assert Reader(data).string() == text


def test_long_strings_carry_two_lengths() -> None:
    data = string_bytes("x" * 4095)
    assert data[:8] == (4095).to_bytes(4, "big") + (8190).to_bytes(4, "big")
    assert data[8:10] == b"x\0"
    assert Reader(data).string() == "x" * 4095


@pytest.mark.parametrize("length", [0, 1, 8, 9, 4094, 4095, 5000])
@pytest.mark.parametrize("unit", ["x", "é", "€"])
def test_strings_of_every_layout_come_back(length: int, unit: str) -> None:
    assert Reader(string_bytes(unit * length)).string() == unit * length


@given(TEXTS)
def test_any_text_comes_back(text: str) -> None:
    out = bytearray()
    append_string(out, text)
    append_simple_string(out, text)
    reader = Reader(out)
    assert (reader.string(), reader.simple_string(), reader.remaining) == (text, text, 0)


def test_lone_surrogates_survive_as_java_keeps_them() -> None:
    for text in ("\ud800", "\udc00x", "a\ud834 longer than eight"):
        out = bytearray()
        append_string(out, text)
        append_simple_string(out, text)
        reader = Reader(out)
        assert reader.string() == text
        assert reader.simple_string() == text


def test_a_four_byte_sequence_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="four-byte"):
        Reader(bytes.fromhex("0004 F09D849E")).utf()


def test_a_utf_text_has_a_limit_of_65535_bytes() -> None:
    out = bytearray()
    append_utf(out, "x" * 65535)
    assert Reader(out).utf() == "x" * 65535
    with pytest.raises(LocalProtocolError):
        append_utf(out, "x" * 65536)


def test_properties_of_every_type_come_back_with_their_types() -> None:
    properties = Properties({"null": None, "text": "käse", "empty": "", "raw": b"\0\xff"})
    properties.set("boolean", True, PropertyType.BOOLEAN)
    properties.set("byte", -128, PropertyType.BYTE)
    properties.set("short", 32767, PropertyType.SHORT)
    properties.set("int", -(2**31), PropertyType.INT)
    properties.set("long", 2**63 - 1, PropertyType.LONG)
    properties.set("float", 0.5, PropertyType.FLOAT)
    properties.set("double", 1e300, PropertyType.DOUBLE)
    properties.set("char", "€", PropertyType.CHAR)
    out = bytearray()
    append_properties(out, properties)
    reader = Reader(out)
    assert reader.properties() == properties
    assert reader.remaining == 0


def test_true_is_one_in_properties() -> None:
    out = bytearray()
    append_properties(out, Properties({"a": True}))
    assert out == bytes.fromhex("01 00000001 00000002 6100 02 01")


def test_an_empty_map_is_one_byte() -> None:
    out = bytearray()
    append_properties(out, Properties())
    assert out == b"\0"
    assert len(Reader(b"\0").properties()) == 0


def test_unknown_property_types_are_refused() -> None:
    for tag in (1, 12, 127, 0xFF):
        with pytest.raises(RemoteProtocolError):
            Reader(bytes.fromhex("01 00000001 00000002 6100") + bytes((tag, 0, 0, 0, 0))).properties()


def test_connectors_keep_kinds_and_extra_parameters() -> None:
    connector = TransportConfiguration(
        "primary",
        "some.Factory",
        {"host": "a", "port": 61616, "sslEnabled": False, "tcpNoDelay": True, "big": 2**40},
        {"zone": "b"},
    )
    out = bytearray()
    append_connector(out, connector)
    assert Reader(out).connector() == connector


def test_the_branch_qualifier_comes_before_the_global_id() -> None:
    out = bytearray()
    append_xid(out, Xid(7, b"branch", b"global"))
    assert out == bytes.fromhex("00000007 00000006") + b"branch" + bytes.fromhex("00000006") + b"global"
    assert Reader(out).xid() == Xid(7, b"branch", b"global")


READS: list[Callable[[Reader], object]] = [
    *(Reader.i8, Reader.boolean, Reader.i16, Reader.u16, Reader.i32, Reader.i64, Reader.f32, Reader.f64),
    *(Reader.simple_string, Reader.utf, Reader.string, Reader.counted_bytes, Reader.char),
    *(Reader.properties, Reader.connector, Reader.xid),
]


@pytest.mark.parametrize("read", READS, ids=lambda read: read.__name__)
def test_nothing_is_read_behind_the_limit(read: Callable[[Reader], object]) -> None:
    with pytest.raises(RemoteProtocolError):
        read(Reader(bytes(64), 8, 8))


@pytest.mark.parametrize("read", READS, ids=lambda read: read.__name__)
@given(data=st.binary(max_size=60))
def test_any_bytes_give_a_value_or_a_protocol_error(read: Callable[[Reader], object], data: bytes) -> None:
    reader = Reader(data + bytes(20), 0, len(data))
    try:
        read(reader)
    except RemoteProtocolError:
        return
    assert reader.position <= len(data)


@pytest.mark.parametrize("length", [2**31 - 1, 2**31 - 2, -1, -(2**31), 1 << 30])
@pytest.mark.parametrize(
    "read", [Reader.simple_string, Reader.string, Reader.counted_bytes, Reader.properties, Reader.connector, Reader.xid]
)
def test_a_promised_length_allocates_nothing(read: Callable[[Reader], object], length: int) -> None:
    promise = length.to_bytes(4, "big", signed=True)
    bodies = [promise, b"\1" + promise, bytes(4) + promise, bytes(8) + promise, promise * 3]
    tracemalloc.start()
    try:
        for body in bodies:
            try:
                read(Reader(body + b"abcd"))
            except RemoteProtocolError:
                continue
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()
