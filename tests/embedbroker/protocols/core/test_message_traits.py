"""What is known of one message holds for the next one of its kind, and for no other."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from embedbroker.protocols.core._message_traits import MessageTraits, traits_of
from embedclient.errors import RemoteProtocolError
from embedclient.model import Properties, PropertyType, PropertyValue
from embedclient.wire.core import CoreMessage


def message(*entries: tuple[str, PropertyValue, PropertyType]) -> CoreMessage:
    properties = Properties()
    for name, value, kind in entries:
        properties.set(name, value, kind)
    return CoreMessage.build(address="a", properties=properties, body=b"body")


def block(of: CoreMessage) -> bytearray:
    return of.raw[of.properties_at :]


def covers(known: MessageTraits, other: CoreMessage) -> bool:
    return known.covers(other.raw, other.properties_at)


ROUTED = ("_AMQ_ROUTING_TYPE", 1, PropertyType.BYTE)
CLIENT = ("__AMQ_CID", "0a1b", PropertyType.STRING)


def counted(number: int) -> CoreMessage:
    return message(
        CLIENT, ROUTED, ("count", number, PropertyType.INT), ("who", f"thread-{number}", PropertyType.STRING)
    )


def test_other_values_of_the_same_size_are_the_same_kind() -> None:
    known = traits_of(counted(1))
    assert known.routing_type == 1
    assert covers(known, counted(1)) and covers(known, counted(7))


@pytest.mark.parametrize(
    "other",
    [
        message(CLIENT, ROUTED, ("count", 1, PropertyType.INT), ("who", "thread-10", PropertyType.STRING)),
        message(CLIENT, ROUTED, ("Count", 1, PropertyType.INT), ("who", "thread-1", PropertyType.STRING)),
        message(CLIENT, ROUTED, ("count", 1.0, PropertyType.FLOAT), ("who", "thread-1", PropertyType.STRING)),
        message(
            CLIENT,
            ("_AMQ_ROUTING_TYPE", 0, PropertyType.BYTE),
            ("count", 1, PropertyType.INT),
            ("who", "thread-1", PropertyType.STRING),
        ),
        message(CLIENT, ROUTED, ("count", 1, PropertyType.INT)),
        message(),
    ],
    ids=["another size", "another name", "another type", "another routing type", "one missing", "none"],
)
def test_everything_else_is_another_kind(other: CoreMessage) -> None:
    assert not covers(traits_of(counted(1)), other)


def test_whatever_came_before_the_same_messages_are_the_same_kind() -> None:
    """What is compared depends on the messages before, and the answer must not."""
    random = Random(1)

    def any_message() -> CoreMessage:
        routing_type = ("_AMQ_ROUTING_TYPE", int(random.random() < 0.9), PropertyType.BYTE)
        count = ("count", random.choice((1, 1, 2)), PropertyType.INT)
        text = ("text", random.choice(("one", "one", "two", "three")), PropertyType.STRING)
        return message(*random.choice(((CLIENT, routing_type, count, text), (routing_type, CLIENT, count, text))))

    answers = set()
    for _ in range(100):
        first = any_message()
        known = traits_of(first)
        for _ in range(10):
            other = any_message()
            answers.add(covers(known, other))
            assert covers(known, other) == covers(traits_of(first), other)
    assert answers == {True, False}


@pytest.mark.parametrize("number", [2, 3])
def test_of_one_value_that_differs_the_others_are_compared_as_they_are(number: int) -> None:
    """Behind the first message in which a value differs, the others may differ, too, and decide what they decided."""
    first = message(CLIENT, ROUTED, ("count", 1, PropertyType.INT))
    known = traits_of(first)
    assert covers(known, message(CLIENT, ROUTED, ("count", 2, PropertyType.INT)))
    assert covers(
        known, message(("__AMQ_CID", "ffff", PropertyType.STRING), ROUTED, ("count", number, PropertyType.INT))
    )
    assert not covers(
        known, message(CLIENT, ("_AMQ_ROUTING_TYPE", 0, PropertyType.BYTE), ("count", number, PropertyType.INT))
    )


def test_messages_without_properties_are_a_kind_too() -> None:
    known = traits_of(message())
    assert (known.routing_type, known.scheduled_ms, known.duplicate_id_at) == (None, 0, None)
    assert covers(known, message())


def test_a_new_session_knows_nothing() -> None:
    assert not covers(MessageTraits(), message())


@pytest.mark.parametrize(
    ("entry", "routing_type"),
    [
        (("_AMQ_ROUTING_TYPE", 0, PropertyType.BYTE), 0),
        (("_AMQ_ROUTING_TYPE", -1, PropertyType.BYTE), -1),
        (("_AMQ_ROUTING_TYPE", 1, PropertyType.INT), None),
        (("_AMQ_ROUTING_TYPE", "1", PropertyType.STRING), None),
        (("text", "_AMQ_ROUTING_TYPE\x03\x01", PropertyType.STRING), None),
    ],
)
def test_the_routing_type_is_a_byte(entry: tuple[str, PropertyValue, PropertyType], routing_type: int | None) -> None:
    assert traits_of(message(entry)).routing_type == routing_type


def test_the_time_of_a_scheduled_message_is_looked_at_each_time() -> None:
    scheduled = traits_of(message(("_AMQ_SCHED_DELIVERY", 5000, PropertyType.LONG)))
    assert scheduled.scheduled_ms == 5000
    assert not covers(scheduled, message(("_AMQ_SCHED_DELIVERY", 5001, PropertyType.LONG)))


@pytest.mark.parametrize(
    ("value", "other", "kind"),
    [("one", "two", PropertyType.STRING), (b"one", b"two", PropertyType.BYTES), ("", "", PropertyType.STRING)],
)
def test_a_duplicate_id_stands_where_it_stood_in_the_message_before(
    value: PropertyValue, other: PropertyValue, kind: PropertyType
) -> None:
    known = traits_of(message(CLIENT, ("_AMQ_DUPL_ID", value, kind), ("count", 1, PropertyType.INT)))
    following = message(CLIENT, ("_AMQ_DUPL_ID", other, kind), ("count", 2, PropertyType.INT))
    assert covers(known, following) and known.duplicate_id_at is not None
    assert bytes(block(following)[known.duplicate_id_at]) == following.duplicate_id


@pytest.mark.parametrize(
    "entry",
    [
        ("_AMQ_DUPL_ID", None, PropertyType.NULL),
        ("_AMQ_DUPL_ID", 5, PropertyType.INT),
        ("text", "_AMQ_DUPL_ID", PropertyType.STRING),
    ],
)
def test_what_is_no_duplicate_id(entry: tuple[str, PropertyValue, PropertyType]) -> None:
    assert traits_of(message(entry)).duplicate_id_at is None
    assert message(entry).duplicate_id is None


def test_large_properties_are_studied_each_time() -> None:
    large = message(("text", "x" * 3000, PropertyType.STRING))
    assert not covers(traits_of(large), large)


values: st.SearchStrategy[tuple[PropertyValue, PropertyType]] = st.one_of(
    st.tuples(st.integers(-128, 127), st.just(PropertyType.BYTE)),
    st.tuples(st.integers(-(2**31), 2**31 - 1), st.just(PropertyType.INT)),
    st.tuples(st.booleans(), st.just(PropertyType.BOOLEAN)),
    st.tuples(st.text(max_size=5), st.just(PropertyType.STRING)),
    st.tuples(st.binary(max_size=5), st.just(PropertyType.BYTES)),
    st.tuples(st.none(), st.just(PropertyType.NULL)),
)


def decodes(raw: bytearray) -> bool:
    try:
        assert CoreMessage.parse(bytearray(raw)).properties is not None
    except RemoteProtocolError:
        return False
    return True


@settings(max_examples=60, deadline=None)
@given(entries=st.lists(st.tuples(st.text(max_size=4), values), max_size=5), seed=st.integers(0, 2**32))
def test_what_does_not_decode_is_refused_and_what_does_is_not(
    entries: list[tuple[str, tuple[PropertyValue, PropertyType]]], seed: int
) -> None:
    whole = message(*((name, value, kind) for name, (value, kind) in entries))
    known = traits_of(whole)
    random = Random(seed)
    start = whole.properties_at
    for _ in range(30):
        raw = bytearray(whole.raw)
        raw[random.randrange(start, len(raw))] ^= 1 << random.randrange(8)
        if random.random() < 0.3:
            del raw[random.randrange(start + 1, len(raw) + 1) :]
        mutated = CoreMessage.parse(raw)
        try:
            traits_of(mutated)
            accepted = True
        except RemoteProtocolError:
            accepted = False
        assert accepted == decodes(raw)
        if covers(known, mutated):
            # Only values differ: it decodes, and to the same meaning.
            assert accepted and traits_of(mutated).routing_type == known.routing_type
