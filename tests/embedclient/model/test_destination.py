"""Destinations: text forms, fully qualified names, attributes, subscription queues."""

from __future__ import annotations

from typing import Any

import pytest

from embedclient.model import (
    Destination,
    Queue,
    RoutingType,
    TemporaryQueue,
    TemporaryTopic,
    Topic,
    fully_qualified_name,
    parse_destination,
    split_fully_qualified_name,
    subscription_queue_name,
)


@pytest.mark.parametrize(
    ("text", "destination"),
    [
        ("queue://a", Queue("a")),
        ("topic://a.b", Topic("a.b")),
        ("temp-queue://x", TemporaryQueue("x")),
        ("temp-topic://x", TemporaryTopic("x")),
        ("queue://a::b?max-consumers=1", Queue("a::b?max-consumers=1")),
        ("queue://", Queue("")),
    ],
)
def test_text_forms_come_back(text: str, destination: Destination) -> None:
    assert parse_destination(text) == destination
    assert str(destination) == text


def test_text_without_a_known_prefix_is_a_name() -> None:
    assert parse_destination("a") == Queue("a")
    assert parse_destination("a", Topic) == Topic("a")
    assert parse_destination("tcp://a") == Queue("tcp://a")


def test_fully_qualified_names_have_an_address_and_a_queue() -> None:
    queue = Queue("a::q?ring-size=5&exclusive=true")
    assert (queue.address, queue.queue_name) == ("a", "q")
    assert queue.attributes == {"ring-size": "5", "exclusive": "true"}
    assert (Queue("q").address, Queue("q").queue_name) == ("q", "q")
    assert Topic("t?durable=true").address == "t"
    assert Topic("t?durable=true").attributes == {"durable": "true"}
    assert split_fully_qualified_name("q") == (None, "q")
    assert split_fully_qualified_name("a::b::c") == ("a", "b::c")
    assert fully_qualified_name("a", "q") == "a::q"


def test_kinds_know_their_routing() -> None:
    assert [kind("x").routing_type for kind in (Queue, TemporaryQueue)] == [RoutingType.ANYCAST] * 2
    assert [kind("x").routing_type for kind in (Topic, TemporaryTopic)] == [RoutingType.MULTICAST] * 2
    assert TemporaryQueue("x").is_temporary and TemporaryTopic("x").is_temporary
    assert (TemporaryQueue("x").address, TemporaryQueue("x").queue_name, TemporaryTopic("y").address) == ("x", "x", "y")


@pytest.mark.parametrize(
    ("client_id", "name", "durable", "expected"),
    [
        ("cid", "sub", True, "cid.sub"),
        (None, "sub", True, "sub"),
        ("cid", "sub", False, "nonDurable.cid.sub"),
        (None, "sub", False, "nonDurable.sub"),
        ("a.b", "c\\d", True, "a\\.b.c\\\\d"),
    ],
)
def test_subscription_queues(client_id: str | None, name: str, durable: bool, expected: str) -> None:
    assert subscription_queue_name(client_id, name, durable=durable) == expected


@pytest.mark.parametrize("kind", [Queue, Topic])
def test_messages_name_the_queue_that_the_name_gives(kind: type[Queue] | type[Topic]) -> None:
    assert kind("a::q?max-consumers=1").message_address == "a::q"
    assert kind("a?max-consumers=1").message_address == kind("a").message_address == "a"
    assert TemporaryQueue("t").message_address == TemporaryTopic("t").message_address == "t"


@pytest.mark.parametrize("kind", [Queue, Topic])
@pytest.mark.parametrize("name", [None, 5, b"orders"])
def test_a_name_that_is_no_text_is_refused(kind: Any, name: object) -> None:
    with pytest.raises(TypeError, match=f"^name must be a str, not {name!r}$"):
        kind(name)
