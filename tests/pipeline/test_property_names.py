"""Names that mean something, as values and as parts of other names: the meaning of a message stays the same."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from embedbroker.pipeline._body_columns import INFLATED_BYTES_MAX
from embedbroker.pipeline._frames import Block, pack_block
from embedbroker.pipeline._rows import ParseError, RowConverter
from embedbroker.protocols.core._message_traits import traits_of
from embedclient.agent._conversion import from_core
from embedclient.model import BytesMessage, Properties, PropertyType, PropertyValue
from embedclient.wire.core import CoreMessage, MessageType, encode_text, property_key
from tests.pipeline.test_rows import block_of, rows_of, schema

COMPRESSED = "_AMQ_LARGE_COMPRESSED"
NAMES = (
    *(COMPRESSED, "_AMQ_LARGE_SIZE", "_AMQ_DUPL_ID", "_AMQ_GROUP_ID", "_AMQ_GROUP_SEQUENCE", "_AMQ_ROUTING_TYPE"),
    *("_AMQ_SCHED_DELIVERY", "_AMQ_ORIG_ADDRESS", "_AMQ_ORIG_QUEUE", "JMSType", "JMSCorrelationID"),
)
# What follows a name on the wire where a boolean true, a byte or a text is its value.
TRUE, BYTE, TEXT = b"\x02\x01", b"\x03\x01", b"\x0a\x00\x00\x00\x02x\x00"


def message_with(*entries: tuple[str, PropertyValue, PropertyType], body: bytes = b"fine") -> CoreMessage:
    properties = Properties()
    for name, value, kind in entries:
        properties.set(name, value, kind)
    return CoreMessage.build(type=MessageType.BYTES, address="orders", properties=properties, body=body)


@pytest.mark.parametrize("way", ["fail", "null", "dead-letter"])
@pytest.mark.parametrize(
    "entry",
    [
        ("why", COMPRESSED, PropertyType.STRING),
        ("why", property_key(COMPRESSED) + TRUE, PropertyType.BYTES),
        (COMPRESSED + "!", True, PropertyType.BOOLEAN),
        ("!" + COMPRESSED, True, PropertyType.BOOLEAN),
        (COMPRESSED.lower(), True, PropertyType.BOOLEAN),
        (COMPRESSED, False, PropertyType.BOOLEAN),
        (COMPRESSED, None, PropertyType.NULL),
        (COMPRESSED, "true", PropertyType.STRING),
        (COMPRESSED, 1, PropertyType.INT),
        (COMPRESSED, 1, PropertyType.BYTE),
    ],
    ids=str,
)
def test_only_a_true_boolean_of_that_name_is_a_compressed_body(
    entry: tuple[str, PropertyValue, PropertyType], way: str
) -> None:
    text = CoreMessage.build(
        type=MessageType.TEXT, address="orders", properties=message_with(entry).properties, body=encode_text("fine")
    )
    marked = message_with((COMPRESSED, True, PropertyType.BOOLEAN), entry, body=zlib.compress(b"large"))
    converted = RowConverter(schema("body", "bodyText"), on_parse_error=way).convert(
        block_of(text, message_with(entry)) if entry[0] == COMPRESSED else block_of(text, message_with(entry), marked),
        "orders",
    )
    assert converted.poison == []
    expected = [{"body": b"fine", "bodyText": "fine"}, {"body": b"fine", "bodyText": None}]
    assert rows_of(converted) == expected + [{"body": b"large", "bodyText": None}] * (entry[0] != COMPRESSED)


def test_a_body_that_looks_like_the_property_is_a_body() -> None:
    body = property_key(COMPRESSED) + TRUE
    assert rows_of(RowConverter(schema("body")).convert(block_of(message_with(body=body)), "orders")) == [
        {"body": body}
    ]


values: st.SearchStrategy[tuple[PropertyValue, PropertyType]] = st.one_of(
    st.tuples(st.sampled_from(NAMES), st.just(PropertyType.STRING)),
    st.tuples(
        st.builds(
            lambda name, end, around: around + property_key(name) + end,
            st.sampled_from(NAMES),
            st.sampled_from((b"", TRUE, BYTE, TEXT)),
            st.binary(max_size=2),
        ),
        st.just(PropertyType.BYTES),
    ),
    st.tuples(st.booleans(), st.just(PropertyType.BOOLEAN)),
    st.tuples(st.integers(-128, 127), st.just(PropertyType.BYTE)),
    st.tuples(st.integers(0, 1 << 40), st.just(PropertyType.LONG)),
    st.tuples(st.none(), st.just(PropertyType.NULL)),
)
names = st.one_of(
    st.sampled_from(NAMES).map(lambda name: name + "2"),
    st.sampled_from(NAMES).map(lambda name: "x" + name),
    st.sampled_from(NAMES).map(str.lower),
    st.text(min_size=1, max_size=4),
)
strangers = st.dictionaries(names.filter(lambda name: name not in NAMES), values, max_size=4)
# Whatever the names that mean something have as values; none of them is a true boolean under that of compression.
meant = st.dictionaries(st.sampled_from(NAMES[1:]), values, max_size=3)


def meaning(message: CoreMessage) -> dict[str, object]:
    """What brokers, clients and Spark take a message for, without the properties of others."""
    arrival, block = traits_of(message), message.raw[message.properties_at :]
    jms = from_core(message, 1)
    assert isinstance(jms, BytesMessage)
    columns = ("body", "routingType", "correlationId", "type", "groupId", "groupSequence", "duplicateId")
    (row,) = rows_of(RowConverter(schema(*columns)).convert(block_of(message), "orders"))
    return {
        "routing": (arrival.routing_type, message.property_byte(property_key("_AMQ_ROUTING_TYPE"))),
        "scheduled": (arrival.scheduled_ms, jms.delivery_time),
        "duplicate": (
            message.duplicate_id,
            None if arrival.duplicate_id_at is None else bytes(block[arrival.duplicate_id_at]),
        ),
        "body": jms.body,
        "properties": [CoreMessage.parse(bytearray(message.raw)).property(name) for name in NAMES],
        "row": row,
    }


@settings(max_examples=300, deadline=None)
@given(own=meant, others=strangers, is_compressed=st.booleans())
def test_properties_of_others_change_no_meaning(
    own: dict[str, tuple[PropertyValue, PropertyType]],
    others: dict[str, tuple[PropertyValue, PropertyType]],
    is_compressed: bool,
) -> None:
    body = zlib.compress(b"large") if is_compressed else b"fine"
    flag = [(COMPRESSED, True, PropertyType.BOOLEAN)] if is_compressed else []
    entries = [*((name, *value) for name, value in own.items()), *flag]
    around = [(name, *value) for name, value in others.items()]
    half = len(around) // 2
    alone = meaning(message_with(*entries, body=body))
    assert alone["body"] == (b"large" if is_compressed else b"fine")
    assert meaning(message_with(*around[:half], *entries, *around[half:], body=body)) == alone


def malformed() -> CoreMessage:
    """The name of its property has half a character."""
    message = message_with(("abc", 1, PropertyType.INT))
    raw = bytearray(message.raw)
    raw[message.properties_at + 5 + 3] -= 1
    return CoreMessage.parse(raw)


@pytest.mark.parametrize("count", [1, 40])
def test_malformed_properties_are_an_error_of_their_message_alone(count: int) -> None:
    messages = [message_with(("n", 1, PropertyType.INT)) for _ in range(count)]
    block = block_of(*messages, malformed(), *map(malformed_value, range(count)), message_with())
    columns = schema("properties", "position")
    with pytest.raises(ParseError, match=rf"position {count + 1}\): malformed properties.*{count + 1} such messages"):
        RowConverter(columns).convert(block, "orders")
    left = RowConverter(columns, on_parse_error="dead-letter").convert(block, "orders")
    assert [row["position"] for row in rows_of(left)] == [*range(1, count + 1), 2 * count + 2]
    assert [poison.place.position for poison in left.poison] == [*range(count + 1, 2 * count + 2)]
    nulls = rows_of(RowConverter(columns, on_parse_error="null").convert(block, "orders"))
    assert [row["properties"] for row in nulls] == [{"n": "1"}] * count + [{}] * (count + 2)


def malformed_value(number: int) -> CoreMessage:
    """Its text has half a character; all of them are of one size."""
    message = message_with(("text", f"{number:04}", PropertyType.STRING))
    raw = bytearray(message.raw)
    raw[-9] -= 1
    return CoreMessage.parse(raw[:-1])


@pytest.mark.parametrize("size", [-1, -5, -(2**31), 2**31 - 1])
def test_a_name_of_an_impossible_size_ends_the_look_at_once(size: int) -> None:
    message = message_with(("abc", 1, PropertyType.INT))
    raw = bytearray(message.raw)
    at = message.properties_at
    raw[at + 1 : at + 5] = (2**31 - 1).to_bytes(4, "big")
    raw[at + 5 : at + 9] = size.to_bytes(4, "big", signed=True)
    block: Block = pack_block([(1, 1, CoreMessage.parse(raw))])
    with pytest.raises(ParseError, match="malformed properties"):
        RowConverter(schema("properties")).convert(block, "orders")


def test_what_a_body_may_grow_to_is_the_same_in_clients_and_in_spark() -> None:
    from embedclient.agent import _conversion

    assert INFLATED_BYTES_MAX == _conversion.INFLATED_BYTES_MAX
