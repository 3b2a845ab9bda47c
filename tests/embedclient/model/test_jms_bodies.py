"""Reading and writing bodies: bytes, streams and maps."""

from __future__ import annotations

import pytest

from embedclient.errors import MessageEOFException, MessageFormatException, MessageNotReadableException
from embedclient.model import BytesMessage, MapMessage, ObjectMessage, PropertyType, StreamMessage, TextMessage

WRITES: list[tuple[str, object, str]] = [
    ("boolean", True, "ff"),
    ("boolean", False, "00"),
    ("byte", -1, "ff"),
    ("short", -2, "fffe"),
    ("char", "€", "20ac"),
    ("int", 0x12345678, "12345678"),
    ("long", -1, "ff" * 8),
    ("float", 1.5, "3fc00000"),
    ("double", -2.5, "c004000000000000"),
    ("utf", "a€", "0004" + "61e282ac"),
    ("utf", "𝄞", "0006" + "eda0b4edb49e"),
    ("utf", "\0", "000100"),
    ("bytes", b"xy", "7879"),
]


@pytest.mark.parametrize(("kind", "value", "encoded"), WRITES)
def test_a_bytes_message_writes_and_reads_each_type(kind: str, value: object, encoded: str) -> None:
    message = BytesMessage()
    getattr(message, f"write_{kind}")(value)
    assert message.body.hex() == encoded
    message.reset()
    assert message.body_length == len(encoded) // 2
    assert getattr(message, f"read_{kind}")() == value
    if kind != "bytes":
        with pytest.raises(MessageEOFException):
            message.read_byte()


def test_values_of_a_bytes_message_follow_each_other() -> None:
    message = BytesMessage(b"\xff\xff\xfe")
    message.write_int(7)
    message.write_utf("end")
    message.reset()
    assert (message.read_unsigned_byte(), message.read_unsigned_short()) == (255, 65534)
    assert message.read_int() == 7
    assert message.read_utf() == "end"
    assert message.read_bytes() == b""
    message.reset()
    assert message.read_bytes(2) == b"\xff\xff"
    assert message.read_bytes(100) == b"\xfe\0\0\0\7\0\3end"
    assert message.read_bytes(1) == b""
    message.reset()
    assert message.read_boolean() is True


def test_write_object_chooses_by_type() -> None:
    message = BytesMessage()
    for value in (True, 1, 2**40, 1.5, "a", b"b"):
        message.write_object(value)
    assert message.body.hex() == "ff" + "00000001" + "0000010000000000" + "3ff8000000000000" + "000161" + "62"
    for wrong in (None, object(), [1], 2**63):
        with pytest.raises(MessageFormatException):
            message.write_object(wrong)


UNFIT: list[tuple[str, object]] = [
    ("byte", 128),
    ("short", 1.5),
    ("int", 2**31),
    ("long", None),
    ("char", ""),
    ("char", "ab"),
    ("char", "𝄞"),
    ("char", 5),
    ("char", None),
    ("char", ["a"]),
    ("float", 1e300),
    ("utf", "x" * 65_536),
    ("utf", "€" * 21_846),
    ("utf", 1),
    ("bytes", "text"),
]


@pytest.mark.parametrize(("kind", "value"), UNFIT)
def test_a_value_that_does_not_fit_leaves_a_bytes_message_as_it_was(kind: str, value: object) -> None:
    message = BytesMessage(b"before")
    with pytest.raises(MessageFormatException):
        getattr(message, f"write_{kind}")(value)
    assert message.body == b"before"


def test_reading_past_the_end_leaves_the_cursor() -> None:
    message = BytesMessage(b"\0\5ab")
    message.reset()
    for read in (message.read_long, message.read_utf, message.read_int):
        if read != message.read_int:
            with pytest.raises(MessageEOFException):
                read()
    assert message.read_int() == 0x00056162
    with pytest.raises(MessageFormatException):
        message.read_bytes(-1)


@pytest.mark.parametrize("encoded", ["0001ff", "0002c3", "0004f09d849e"])
def test_a_malformed_string_of_a_bytes_message_is_refused(encoded: str) -> None:
    message = BytesMessage(bytes.fromhex(encoded) + b"xx")
    message.reset()
    with pytest.raises(MessageFormatException):
        message.read_utf()
    assert message.read_byte() == 0


def test_a_bytes_message_keeps_its_own_copy() -> None:
    data = bytearray(b"abc")
    message = BytesMessage(data)
    data[0] = 0
    assert message.body == b"abc"
    message.body = memoryview(b"xyz")
    assert message.body == b"xyz"
    with pytest.raises(MessageNotReadableException):
        _ = message.body_length
    with pytest.raises(MessageFormatException):
        BytesMessage("text")  # type: ignore[arg-type]


STREAM = [
    ("boolean", True),
    ("byte", 1),
    ("short", 2),
    ("char", "c"),
    ("int", 3),
    ("long", 4),
    ("float", 1.5),
    ("double", 2.5),
    ("string", "text"),
    ("bytes", b"bytes"),
    ("object", None),
]


def filled_stream() -> StreamMessage:
    message = StreamMessage()
    for kind, value in STREAM:
        getattr(message, f"write_{kind}")(value)
    return message


def test_a_stream_message_reads_what_was_written() -> None:
    message = filled_stream()
    assert message.body == [value for _, value in STREAM]
    assert [kind.name.lower() for _, kind in message.items][:10] == [kind for kind, _ in STREAM][:10]
    message.reset()
    assert [getattr(message, f"read_{kind}")() for kind, _ in STREAM] == [value for _, value in STREAM]
    with pytest.raises(MessageEOFException):
        message.read_object()
    message.reset()
    assert [message.read_object() for _ in STREAM] == [value for _, value in STREAM]


# Jakarta Messaging 3.1, section 3.11.3; char and bytes besides the types of properties.
READABLE = {
    "boolean": ["boolean", "string"],
    "byte": ["byte", "short", "int", "long", "string"],
    "short": ["short", "int", "long", "string"],
    "char": ["char", "string"],
    "int": ["int", "long", "string"],
    "long": ["long", "string"],
    "float": ["float", "double", "string"],
    "double": ["double", "string"],
    "string": ["boolean", "string"],  # and numbers, if it holds one
    "bytes": ["bytes"],
    "object": ["boolean", "string", "bytes"],
}


@pytest.mark.parametrize(("written", "value"), STREAM)
@pytest.mark.parametrize("wanted", [kind for kind in READABLE if kind != "object"])
def test_stream_and_map_convert_alike(written: str, value: object, wanted: str) -> None:
    stream, entries = StreamMessage(), MapMessage()
    getattr(stream, f"write_{written}")(value)
    getattr(entries, f"set_{written}")("e", value)
    stream.reset()
    if wanted in READABLE[written]:
        assert getattr(stream, f"read_{wanted}")() == getattr(entries, f"get_{wanted}")("e")
        return
    with pytest.raises(MessageFormatException):
        getattr(entries, f"get_{wanted}")("e")
    with pytest.raises(MessageFormatException):
        getattr(stream, f"read_{wanted}")()
    assert stream.read_object() == value  # the cursor stayed


def test_a_stream_message_is_a_list_when_assigned() -> None:
    message = StreamMessage([1, "a", None, b"x", 1.5, True, 2**40])
    assert [kind.name for _, kind in message.items] == ["INT", "STRING", "NULL", "BYTES", "DOUBLE", "BOOLEAN", "LONG"]
    message.body = (1, 2)
    assert message.body == [1, 2]
    for wrong in (object(), 2**64, [1]):
        with pytest.raises(MessageFormatException):
            message.write_object(wrong)  # type: ignore[arg-type]
    with pytest.raises(MessageFormatException):
        message.write_byte(200)
    assert message.body == [1, 2]


def test_a_map_message_holds_named_values() -> None:
    message = MapMessage({"a": 1, "b": "x"})
    for kind, value in STREAM:
        getattr(message, f"set_{kind}")(kind, value)
        assert getattr(message, f"get_{kind}")(kind) == value
    assert message.map_names == ["a", "b", *(kind for kind, _ in STREAM)]
    assert message.item_exists("object")
    assert not message.item_exists("c")
    assert (message.get_object("c"), message.get_string("c"), message.get_bytes("c")) == (None, None, None)
    assert message.get_boolean("c") is False
    for kind in ("byte", "short", "char", "int", "long", "float", "double"):
        with pytest.raises(MessageFormatException, match="no value"):
            getattr(message, f"get_{kind}")("c")
    assert message.entries.type_of("byte") is PropertyType.BYTE
    message.body["a"] = 2  # a copy
    assert message.get_int("a") == 1
    message.body = {"only": True}
    assert message.body == {"only": True}


@pytest.mark.parametrize("name", ["", None, 1])
def test_an_entry_needs_a_name(name: str) -> None:
    message = MapMessage({"a": 1})
    with pytest.raises(MessageFormatException):
        message.set_int(name, 1)
    with pytest.raises(MessageFormatException):
        message.body = {name: 1}
    assert message.body == {"a": 1}


def test_text_and_object_messages_hold_one_value() -> None:
    text, serialised = TextMessage(), ObjectMessage()
    assert (text.text, serialised.data) == (None, None)
    text.text, serialised.data = "x", bytearray(b"y")  # type: ignore[assignment]
    assert (text.body, serialised.body) == ("x", b"y")
    with pytest.raises(MessageFormatException):
        text.text = b"x"  # type: ignore[assignment]
    with pytest.raises(MessageFormatException):
        serialised.data = "x"  # type: ignore[assignment]
    text.clear_body()
    assert text.text is None
