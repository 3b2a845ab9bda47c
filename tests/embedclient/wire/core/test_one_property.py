"""A property that is added to a message without the others being decoded."""

from __future__ import annotations

import pytest

from embedclient.errors import RemoteProtocolError
from embedclient.model import Properties
from embedclient.wire.core import CoreMessage, RouteAppender, RouteWriter

NAME = "_AMQ_BRIDGE_DUP"


def message(**values: str | int | bytes) -> CoreMessage:
    properties = Properties()
    for name, value in values.items():
        properties[name] = value
    return CoreMessage.build(
        address="orders", priority=7, expiration=5, timestamp=6, user_id=bytes(16), properties=properties, body=b"tea"
    )


@pytest.mark.parametrize("values", [{}, {"a": 1}, {"a": "text", "b": b"bytes", "c": 1 << 40}])
def test_a_property_is_added(values: dict[str, str | int | bytes]) -> None:
    original = message(**values)
    original.assign_id(9)
    copy = original.with_bytes_behind("elsewhere", NAME, b"id")
    slow = original.copy_for("elsewhere", changes={NAME: b"id"}, removals=(), expiration=5)
    assert copy == slow and copy.properties == slow.properties
    assert (copy.message_id, copy.address, copy.priority, copy.expiration) == (0, "elsewhere", 7, 5)
    assert (bytes(copy.body), copy.user_id) == (b"tea", bytes(16))


def test_bytes_behind_the_last_property_are_left_out() -> None:
    odd = CoreMessage.parse(message(a=1).raw + b"rest")
    assert odd.with_bytes_behind("orders", NAME, b"id") == message(a=1).with_bytes_behind("orders", NAME, b"id")


def test_malformed_properties_are_refused() -> None:
    cut = CoreMessage.parse(message(a="text").raw[:-9])
    with pytest.raises(RemoteProtocolError):
        CoreMessage.parse(cut.raw[:-6]).with_bytes_behind("orders", NAME, b"id")


# -- the route of a message in a store-and-forward queue ---------------------------------------------------------------

QUEUE, IDS = "$.artemis.internal.sf.c.n", (7).to_bytes(8, "big") + (9).to_bytes(8, "big")


@pytest.mark.parametrize("properties", [{}, {"a": 1, "b": "two", "c": b"3"}])
def test_a_route_gets_the_name_that_the_other_broker_reads(properties: dict[str, str | int | bytes]) -> None:
    original = message(**properties)
    copy = original.with_route(QUEUE, IDS).on_route("there", QUEUE, "id", b"x")
    assert copy is not None
    assert (copy.address, bytes(copy.body)) == ("there", bytes(original.body))
    assert dict(copy.properties) == {**dict(original.properties), "_AMQ_ROUTE_TO": IDS, "id": b"x"}
    read_again = CoreMessage.parse(original.with_route(QUEUE, IDS).raw)
    for address in ("there", read_again.address):
        fast, slow = (
            each.on_route(address, QUEUE, "id", b"x") for each in (original.with_route(QUEUE, IDS), read_again)
        )
        assert fast is not None and fast == slow and fast == CoreMessage.parse(fast.raw)
        # All that a copy has without reading its headers is what they contain.
        for name in ("address", "durable", "expiration", "priority", "timestamp", "type", "user_id", "encoded_size"):
            assert getattr(fast, name) == getattr(CoreMessage.parse(fast.raw), name), name
    for each in (original.with_route(QUEUE, IDS), read_again):
        sent = each.on_route(each.address, QUEUE, "id", b"x")
        assert sent is not None and RouteWriter(QUEUE, "id", 1).write(each, b"x") == bytes(sent.raw)
        assert RouteWriter(QUEUE + "x", "id", 1).write(each, b"x") is None


def test_a_route_that_is_not_the_last_property_or_of_another_queue_is_not_there() -> None:
    assert message(a=1).on_route("there", QUEUE, "", None) is None
    assert message().on_route("there", QUEUE, "", None) is None
    assert message().with_route(QUEUE, IDS).on_route("there", QUEUE + "x", "", None) is None
    assert message().with_route(QUEUE, IDS).with_property("z", 1).on_route("there", QUEUE, "", None) is None


def test_copies_from_stored_bytes_are_those_of_the_messages() -> None:
    others = [
        message(),
        message(a=1),
        message(a=2),
        message(a=1, b="two"),
        CoreMessage.parse(message(a=1).raw + b"rest"),
    ]
    others += [
        CoreMessage.build(address="orders", durable=durable, priority=3, type=4, timestamp=8, body=b"x" * 300)
        for durable in (True, False)
    ]
    others.append(CoreMessage.build(address="else", properties=message(a=1).properties, user_id=b"\1" * 16))
    unnamed = message(a=1).raw
    at = unnamed.index(b"\1" + (12).to_bytes(4, "big") + "orders".encode("utf-16-le"))
    unnamed[at : at + 17] = b"\0"
    odd = message(a=1)
    odd.raw[odd.properties_at - 1] = 77
    others += [CoreMessage.parse(unnamed), CoreMessage.parse(odd.raw)]
    appender, writer = RouteAppender(QUEUE, IDS), RouteWriter(QUEUE, "id", 1)
    # Each behind each other one: what was learned of one must not appear in another.
    for number, original in enumerate([each for first in others for second in others for each in (first, second)]):
        for stored in (original.raw, bytes(original.raw)):
            before = bytes(stored)
            copy, slow = appender.copy(stored, number), original.with_route(QUEUE, IDS)
            assert copy is not None
            slow.assign_id(number)
            assert copy == slow and bytes(stored) == before and copy.raw is not stored
            for name in CoreMessage.__slots__:
                assert getattr(copy, name) == getattr(slow, name), name
            on_way, slow_on_way = (each.on_route(each.address, QUEUE, "id", b"x") for each in (copy, slow))
            assert on_way is not None and on_way == slow_on_way
            assert writer.write(copy, b"x") == writer.write(CoreMessage.parse(slow.raw), b"x") == bytes(on_way.raw)
            assert writer.write(original, b"x") is None
    assert appender.copy(message(a=1, _AMQ_GROUP_ID="g").raw, 1) is None
    for malformed in (b"", b"\xff" * 4, message(a="text").raw[:-9]):
        with pytest.raises(RemoteProtocolError):
            appender.copy(malformed, 1)


def test_kept_properties_are_those_that_a_receiver_decodes() -> None:
    original = message(a="text", b=b"bytes", c=1 << 40, d=7)
    kept = Properties()
    for name, value in original.properties.items():
        kept[name] = value
    original.keep_properties(kept)
    assert original.properties is kept and CoreMessage.parse(original.raw).properties == kept
    assert (original.property("a"), original.property("missing")) == ("text", None)
    # A changed copy is decoded anew.
    assert original.with_bytes_behind("elsewhere", NAME, b"id").property(NAME) == b"id"


def test_a_route_is_put_in_place_of_bytes_behind_the_last_property() -> None:
    odd = CoreMessage.parse(message(a=1).raw + b"rest")
    assert odd.with_route(QUEUE, IDS) == message(a=1).with_route(QUEUE, IDS)
