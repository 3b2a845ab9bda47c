"""Names with the prefixes of clients before 2.0, in and out."""

from __future__ import annotations

import pytest

from embedbroker.protocols.core._old_names import (
    old_message,
    old_name,
    plain_message,
    plain_name,
    plain_packet,
    prefix_of,
    stated_routing_type,
)
from embedclient.model import Properties, RoutingType
from embedclient.wire.core import CoreMessage, DeleteQueue, SessionQueueQuery, SessionStart


@pytest.mark.parametrize(
    ("old", "plain", "routing_type"),
    [
        ("jms.queue.orders", "orders", RoutingType.ANYCAST),
        ("jms.topic.prices", "prices", RoutingType.MULTICAST),
        ("jms.queue.a::b", "a::b", RoutingType.ANYCAST),
        ("jms.tempqueue.1", "jms.tempqueue.1", RoutingType.ANYCAST),
        ("jms.temptopic.1", "jms.temptopic.1", RoutingType.MULTICAST),
        ("orders", "orders", None),
        ("jms.queue", "jms.queue", None),
        ("", "", None),
    ],
)
def test_a_prefix_goes_and_says_the_routing_type(old: str, plain: str, routing_type: RoutingType | None) -> None:
    assert (plain_name(old), stated_routing_type(old)) == (plain, routing_type)
    assert prefix_of(old) + plain == old
    if routing_type is not None:
        assert old_name(plain, routing_type) == old


def test_requests_carry_plain_names_and_others_stay_as_they_are() -> None:
    assert plain_packet(DeleteQueue("jms.queue.q")) == DeleteQueue("q")
    assert plain_packet(SessionQueueQuery("client.subscription")) == SessionQueueQuery("client.subscription")
    start = SessionStart()
    assert plain_packet(start) is start


def test_a_message_changes_its_address_and_nothing_else() -> None:
    properties = Properties()
    properties["n"] = 7
    sent = CoreMessage.build(address="jms.queue.q", durable=True, priority=3, body=b"abc", properties=properties)
    stored = plain_message(sent)
    stored.assign_id(42)
    assert (stored.address, sent.address) == ("q", "jms.queue.q")
    read = old_message(stored, RoutingType.ANYCAST)
    assert (read.address, read.message_id, read.durable, read.priority) == ("jms.queue.q", 42, True, 3)
    assert (bytes(read.body), read.property("n")) == (b"abc", 7)
    assert (stored.address, stored.message_id) == ("q", 42)


def test_a_message_with_a_plain_address_is_not_copied() -> None:
    sent = CoreMessage.build(address="q", durable=False, body=b"")
    assert plain_message(sent) is sent
