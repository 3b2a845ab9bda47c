"""Properties: names, the conversion table, and what is hidden."""

from __future__ import annotations

import math
from time import process_time

import pytest

from embedclient.errors import JMSException, MessageFormatException
from embedclient.model import JMSMessage, MapMessage, Properties, PropertyType, StreamMessage, TextMessage, number_text

VALUES: dict[str, object] = {
    "boolean": True,
    "byte": 1,
    "short": 2,
    "int": 3,
    "long": 4,
    "float": 1.5,
    "double": 2.5,
    "string": "7",
}
# Rows: the type set; columns: the types it can be read as (Jakarta Messaging 3.1, table 3-4).
READABLE = {
    "boolean": ["boolean", "string"],
    "byte": ["byte", "short", "int", "long", "string"],
    "short": ["short", "int", "long", "string"],
    "int": ["int", "long", "string"],
    "long": ["long", "string"],
    "float": ["float", "double", "string"],
    "double": ["double", "string"],
    "string": ["boolean", "byte", "short", "int", "long", "float", "double", "string"],
}


def write(message: JMSMessage, kind: str, value: object, name: str = "p") -> None:
    getattr(message, f"set_{kind}_property")(name, value)


def read(message: JMSMessage, kind: str, name: str = "p") -> object:
    return getattr(message, f"get_{kind}_property")(name)


@pytest.mark.parametrize("written", READABLE)
@pytest.mark.parametrize("wanted", READABLE)
def test_the_conversion_table(written: str, wanted: str) -> None:
    message = JMSMessage()
    write(message, written, VALUES[written])
    assert message.properties["p"] == message.get_object_property("p") == VALUES[written]
    if wanted not in READABLE[written]:
        with pytest.raises(MessageFormatException, match=written):
            read(message, wanted)
        return
    value = VALUES[written]
    text = {True: "true"}.get(value is True, str(value))
    expected = {"string": text, "boolean": value is True}.get(wanted, value if value is True else float(text))
    assert read(message, wanted) == expected


def test_a_missing_property_reads_as_null_does() -> None:
    message = JMSMessage(properties={"nothing": None})
    for name in ("missing", "nothing"):
        assert message.get_string_property(name) is None
        assert message.get_object_property(name) is None
        assert message.get_boolean_property(name) is False
        for kind in ("byte", "short", "int", "long", "float", "double"):
            with pytest.raises(MessageFormatException, match="no value"):
                read(message, kind, name)
    assert (message.property_exists("nothing"), message.property_exists("missing")) == (True, False)


@pytest.mark.parametrize(
    ("kind", "fits", "too_much"),
    [
        ("byte", ["127", "-128", "+5", "0007"], ["128", "-129", "1.0", "", " 1", "0x1"]),
        ("short", ["32767", "-32768"], ["32768", "-32769"]),
        ("int", ["2147483647", "-2147483648"], ["2147483648", "-2147483649"]),
        ("long", ["9223372036854775807", "-9223372036854775808"], ["9223372036854775808", "9" * 5000, "one"]),
        ("float", ["1.5", "-2", ".5", "5.", "1e3", " 1.5 ", "1.5f"], ["", "x", "1,5", "0x1", "1_0"]),
        ("double", ["1.5", "1e400", "NaN", "-Infinity", "2.0D"], ["inf", "infinity", "nan"]),
    ],
)
def test_a_string_is_read_as_a_number_it_holds(kind: str, fits: list[str], too_much: list[str]) -> None:
    for text in fits:
        number = read(JMSMessage(properties={"p": text}), kind)
        assert repr(number) == repr(float(text.rstrip("fD")) if kind in ("float", "double") else int(text))
    for text in too_much:
        with pytest.raises(MessageFormatException):
            read(JMSMessage(properties={"p": text}), kind)


@pytest.mark.parametrize(
    ("text", "nearest"),
    [
        ("0.1", 0.10000000149011612),
        ("-0.1f", -0.10000000149011612),
        ("16777217", 16777216.0),
        ("1e300", math.inf),
        ("-1e300", -math.inf),
        ("1e400", math.inf),
        ("3.4028235e38", 3.4028234663852886e38),
        ("1e-50", 0.0),
        ("1.4e-45", 1.401298464324817e-45),
        # Just above, and just below, the middle of two floats, and nearer to it than any double but the middle itself.
        ("1.00000005960464477539062500001", 1.0000001192092896),
        ("1.0000001788139343261718749999", 1.0000001192092896),
        ("1.000000059604644775390625", 1.0),
    ],
)
def test_a_string_is_read_as_the_nearest_float_of_single_precision(text: str, nearest: float) -> None:
    assert JMSMessage(properties={"p": text}).get_float_property("p") == nearest
    assert MapMessage({"p": text}).get_float("p") == nearest
    stream = StreamMessage([text])
    stream.reset()
    assert stream.read_float() == nearest


def test_a_long_string_that_is_no_number_is_read_once() -> None:
    message = JMSMessage(properties={"p": "9" * 60_000 + "x"})
    started = process_time()
    with pytest.raises(MessageFormatException):
        message.get_double_property("p")
    # Hundreds of times what it takes. Trying each way to share the digits takes ten times as long as this.
    assert process_time() - started < 1.0


def test_a_string_is_a_boolean_by_its_word() -> None:
    assert JMSMessage(properties={"p": "TRUE"}).get_boolean_property("p") is True
    assert JMSMessage(properties={"p": "yes"}).get_boolean_property("p") is False


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("byte", 128),
        ("byte", True),
        ("byte", "1"),
        ("short", -32769),
        ("int", 2**31),
        ("long", 2**63),
        ("long", 1.0),
        ("boolean", 1),
        ("float", "1"),
        ("float", 1e300),
        ("float", None),
        ("double", True),
        ("string", 1),
        ("string", b"x"),
        ("object", object()),
        ("object", [1]),
        ("object", 2**63),
    ],
)
def test_a_value_that_does_not_fit_is_refused(kind: str, value: object) -> None:
    message = JMSMessage()
    with pytest.raises(MessageFormatException):
        write(message, kind, value)
    assert dict(message.properties) == {}


def test_plain_values_get_a_type() -> None:
    message = JMSMessage(properties={"b": True, "i": 1, "l": 2**40, "d": 1.0, "s": "x", "n": None, "y": b"\1"})
    types = {name: kind.name for name, (_, kind) in message.stored().typed_items()}
    assert types == {"b": "BOOLEAN", "i": "INT", "l": "LONG", "d": "DOUBLE", "s": "STRING", "n": "NULL", "y": "BYTES"}
    message.set_float_property("f", 0.1)
    assert message.get_float_property("f") == message.get_double_property("f") == 0.10000000149011612
    assert message.get_string_property("f") == "0.1"


@pytest.mark.parametrize("name", ["a", "_a", "$a", "a1", "größe", "JMS_x", "JMSXGroupID", "_AMQ_DUPL_ID", "nothing"])
def test_a_name_is_an_identifier(name: str) -> None:
    message = JMSMessage()
    message.properties[name] = "x"
    assert list(message.properties) == [name]
    assert message.get_string_property(name) == "x"


BAD_NAMES = ["", "1a", "a b", "a-b", "a.b", "a'", "NULL", "true", "And", "in", "JMSType", "JMSFoo", "JMS_ACTIVEMQ_x"]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_name_that_selectors_could_not_use_is_refused(name: str) -> None:
    message = JMSMessage()
    with pytest.raises(JMSException):
        message.properties[name] = 1
    with pytest.raises(ValueError, match="cannot name a property"):
        message.set_string_property(name, "x")


def test_a_name_that_is_no_text_is_refused() -> None:
    with pytest.raises(JMSException, match="1 cannot name a property"):
        JMSMessage(properties={1: "x"})  # type: ignore[dict-item]  # wrong on purpose


def test_names_of_jms_stand_for_names_of_the_broker() -> None:
    message = JMSMessage(properties={"JMSXGroupID": "g", "JMSXGroupSeq": "3", "JMSXUserID": "me"})
    assert dict(message.stored().items()) == {
        "_AMQ_GROUP_ID": "g",
        "_AMQ_GROUP_SEQUENCE": 3,
        "_AMQ_VALIDATED_USER": "me",
    }
    assert dict(message.properties) == {"JMSXGroupID": "g", "JMSXGroupSeq": 3, "JMSXUserID": "me"}
    assert message.get_int_property("JMSXGroupSeq") == 3
    assert message.property_exists("JMSXGroupID")
    assert "_AMQ_GROUP_ID" not in message.properties
    del message.properties["JMSXGroupID"]
    assert "JMSXGroupID" not in message.properties
    for value in ("x", 2.5, None, 2**31):
        with pytest.raises(MessageFormatException):
            message.properties["JMSXGroupSeq"] = value


def test_the_delivery_count_is_the_brokers() -> None:
    message = JMSMessage()
    assert "JMSXDeliveryCount" not in message.properties
    message.properties["JMSXDeliveryCount"] = 9  # as programs do that copy all properties
    assert dict(message.properties) == {}
    message.delivery_count = 2
    assert dict(message.properties) == {"JMSXDeliveryCount": 2}
    assert message.get_long_property("JMSXDeliveryCount") == 2
    with pytest.raises(KeyError):
        del message.properties["JMSXDeliveryCount"]


def test_what_belongs_to_the_broker_or_to_headers_is_not_shown() -> None:
    message = TextMessage("x", type="t", correlation_id="c", properties={"n": 1})
    stored: Properties = message.stored_for_writing()
    for name in ("__AMQ_CID", "__AMQ_CID_2", "_AMQ_ROUTING_TYPE", "_AMQ_ROUTE_TO", "_AMQ_ROUTE_TO_x"):
        stored.set(name, "x", PropertyType.STRING)
    assert dict(message.properties) == {"n": 1}
    assert len(message.properties) == 1
    assert repr(message.properties) == "MessageProperties({'n': 1})"
    assert message.get_string_property("JMSType") == "t"
    for name in ("JMSType", "__AMQ_CID", "missing"):
        assert name not in message.properties
        with pytest.raises(KeyError):
            _ = message.properties[name]
        with pytest.raises(KeyError):
            del message.properties[name]
    message.clear_properties()
    assert list(message.stored()) == ["JMSCorrelationID", "JMSType", "_AMQ_ROUTING_TYPE"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (0.001, "0.001"),
        (0.0001, "1.0E-4"),
        (123456.789, "123456.789"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (-12345678.5, "-1.23456785E7"),
        (1e300, "1.0E300"),
        (1.5e-300, "1.5E-300"),
        (5e-324, "5.0E-324"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
    ],
)
def test_numbers_in_strings_are_spelled_as_java_clients_spell_them(value: float, text: str) -> None:
    assert number_text(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.1, "0.1"),
        (1.1, "1.1"),
        (16777216.0, "1.6777216E7"),
        (3.0, "3.0"),
        (100.0, "100.0"),
        (1e6, "1000000.0"),
        (3.4028234663852886e38, "3.4028235E38"),
    ],
)
def test_floats_of_single_precision_are_spelled_with_their_own_digits(value: float, text: str) -> None:
    message = JMSMessage()
    message.set_float_property("p", value)
    assert message.get_string_property("p") == text
