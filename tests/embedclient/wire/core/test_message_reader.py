"""A reader gives what `CoreMessage.parse` gives, whatever came before."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedclient.errors import RemoteProtocolError
from embedclient.model import Properties
from embedclient.wire.core import CoreMessage, MessageReader

ID = bytes(range(16))
HEADERS = (
    "message_id",
    "address",
    "type",
    "durable",
    "expiration",
    "timestamp",
    "priority",
    "user_id",
    "properties_at",
)
PROPERTIES = Properties([("n", 1), ("text", "x" * 40)])


def headers(message: CoreMessage) -> list[object]:
    return [getattr(message, name) for name in HEADERS] + [bytes(message.body), message.properties]


messages = st.builds(
    lambda **fields: CoreMessage.build(**fields).raw,
    type=st.integers(0, 8),
    address=st.sampled_from(["", "a", "b", "long.name", "äöü", "𝄞"]),
    durable=st.booleans(),
    priority=st.integers(0, 9),
    timestamp=st.integers(0, 2**62),
    expiration=st.integers(0, 2**62),
    user_id=st.sampled_from([None, ID, bytes(16)]),
    properties=st.sampled_from([None, PROPERTIES]),
    body=st.binary(max_size=40),
)


@given(st.lists(messages, max_size=6))
def test_a_reader_gives_what_parsing_gives(raws: list[bytearray]) -> None:
    reader = MessageReader()
    for raw in raws:
        read = reader.read(raw)
        assert headers(read) == headers(CoreMessage.parse(raw))
        assert read.raw is raw


@given(st.lists(messages, max_size=2), messages, st.data())
def test_a_reader_refuses_what_parsing_refuses(before: list[bytearray], raw: bytearray, data: st.DataObject) -> None:
    reader = MessageReader()
    for earlier in before:
        reader.read(earlier)
    reader.read(raw)
    damaged = raw[: data.draw(st.integers(0, len(raw)))]
    if damaged:
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        expected = CoreMessage.parse(damaged)
    except RemoteProtocolError as error:
        with pytest.raises(RemoteProtocolError) as caught:
            reader.read(damaged)
        assert str(caught.value) == str(error)
    else:
        read = reader.read(damaged)
        assert [getattr(read, name) for name in HEADERS] == [getattr(expected, name) for name in HEADERS]


def test_messages_of_one_address_share_its_text() -> None:
    reader = MessageReader()
    one, two = (reader.read(CoreMessage.build(address="orders", user_id=ID).raw) for _ in range(2))
    assert one.address is two.address
