"""Requests to the broker's own address: what is answered, what is refused and in which words."""

from __future__ import annotations

import json
import sys

import pytest

from embedclient.errors import ErrorCode
from embedclient.wire.core import (
    CreateAddress,
    CreateQueueV2,
    ExceptionResponse,
    NullResponse,
    SessionBindingQuery,
    SessionBindingQueryResponseV5,
    SessionCreateConsumer,
    SessionQueueQuery,
    SessionQueueQueryResponseV3,
    SessionSend,
)

from .scripted import Peer, Stage, letter
from .services import Asker, request_of

ADDRESS = "embedbroker.services"


@pytest.fixture
def peer() -> Peer:
    return Stage().connect().open_session()


@pytest.fixture
def asker(peer: Peer) -> Asker:
    return Asker(peer)


def test_a_query_says_that_the_address_is_there_before_anybody_asked_for_anything(peer: Peer) -> None:
    peer.send(SessionBindingQuery(ADDRESS))
    (answer,) = peer.clear()
    assert isinstance(answer, SessionBindingQueryResponseV5)
    assert answer.exists and not answer.queue_names
    assert not answer.auto_create_queues and not answer.auto_create_addresses


def test_a_query_says_that_jms_clients_can_send_there_as_to_a_queue(peer: Peer) -> None:
    peer.send(SessionQueueQuery(ADDRESS))
    (answer,) = peer.clear()
    assert isinstance(answer, SessionQueueQueryResponseV3)
    assert answer.exists and answer.routing_type == 1 and not answer.auto_create_queues


def test_capabilities_name_the_broker_and_what_can_be_asked_for(asker: Asker) -> None:
    status, body = asker.ask("capabilities")
    assert status == "ok"
    assert body["broker"] == "embedbroker" and body["node_id"] == asker.peer.stage.node.node_id
    assert {"capabilities", "queue.list"} <= set(body["operations"])
    assert body["operations"] == sorted(body["operations"])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "has to be a text message"),
        ("", "the request is not JSON"),
        ("{", "the request is not JSON"),
        ("[" * 100_000, "the request is not JSON"),
        ("[]", "has to be a JSON object"),
        ("{}", "the operation null is not known"),
        ('{"operation": 1}', "the operation 1 is not known"),
        ('{"operation": "queue.lost"}', 'the operation "queue.lost" is not known'),
        ('{"operation": "queue.list"}', "queue.list: field 'pattern' is missing"),
        ('{"operation": "queue.list", "pattern": "*", "more": 1}', "queue.list: field 'more' is not known"),
        ('{"operation": "queue.list", "pattern": 1}', "queue.list: field 'pattern' has to be a text, not 1"),
        ('{"operation": "queue.list", "pattern": ""}', "field 'pattern' must not be empty"),
        ('{"operation": "queue.list", "pattern": "\\ud800"}', "without lone surrogates"),
        (json.dumps({"operation": "queue.list", "pattern": "é" * 513}), "may have 1024 bytes of UTF-8 at most"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused_with_what_is_wrong(asker: Asker, text: str | None, says: str) -> None:
    status, body = asker.ask_text(text)
    assert status == "bad-request" and says in body["text"]
    assert asker.ask("capabilities")[0] == "ok"


def test_what_is_nested_as_deep_as_it_can_just_be_read_is_refused_and_no_more(asker: Asker) -> None:
    """Python writes JSON a little less deep than it reads it, and the refusal shows what was sent."""
    said: list[str] = []
    depth = sys.getrecursionlimit()
    while len(said) < 10:
        status, body = asker.ask_text(f'{{"operation": "queue.list", "pattern": {"[" * depth}{"]" * depth}}}')
        assert status == "bad-request"
        if "is not JSON" not in body["text"]:
            said.append(body["text"])
        depth -= 1
    assert all(text.startswith("queue.list: field 'pattern' has to be a text, not ") for text in said)


def test_a_request_that_nobody_would_hear_the_reply_of_is_refused_to_its_sender(peer: Peer) -> None:
    peer.send(SessionSend(request_of('{"operation": "capabilities"}', reply_to=None), True, -9))
    (answer,) = peer.clear()
    assert isinstance(answer, ExceptionResponse) and answer.code == ErrorCode.ILLEGAL_STATE
    assert answer.message is not None and "has no JMSReplyTo" in answer.message


def test_a_reply_to_a_queue_that_is_not_there_is_gone_and_nothing_is_created(peer: Peer) -> None:
    peer.send(SessionSend(request_of('{"operation": "capabilities"}', reply_to="nowhere"), True, -9))
    assert peer.clear() == [NullResponse(-9)]
    assert "nowhere" not in peer.stage.node.kernel.address_manager.addresses
    assert peer.stage.node.kernel.memory.used_bytes == 0


def test_a_request_belongs_to_no_transaction() -> None:
    asker = Asker(Stage().connect().open_session(transacted=True))
    assert asker.ask("capabilities")[0] == "ok"


@pytest.mark.parametrize(
    "packet",
    [
        CreateAddress(ADDRESS, (0, 1), True, False),
        CreateQueueV2(ADDRESS, ADDRESS, None, True, False, True, False, 1),
        CreateQueueV2("a", ADDRESS, None, True, False, True, False, 1),
        CreateQueueV2(ADDRESS, "q", None, False, True, True, False, 0),
        SessionSend(letter("x", f"{ADDRESS}::q"), True, -1),
        SessionCreateConsumer(1, ADDRESS, None, False, True),
    ],
)
def test_nobody_gets_a_queue_there(peer: Peer, packet: object) -> None:
    peer.send(packet)  # type: ignore[arg-type]  # a packet of any kind
    (answer,) = peer.clear()
    assert isinstance(answer, ExceptionResponse)
    address_manager = peer.stage.node.kernel.address_manager
    assert ADDRESS not in address_manager.addresses and not {"q", "a", ADDRESS} & address_manager.queues.keys()


def test_queues_are_listed_by_a_pattern_with_their_first_and_last_positions(asker: Asker) -> None:
    peer = asker.peer
    for name in ("orders.new", "orders.old", "prices"):
        peer.create_queue(name)
    peer.send(*[SessionSend(letter(str(number), "orders.new"), True, -1) for number in range(3)])
    status, body = asker.ask("queue.list", pattern="orders.*")
    assert status == "ok"
    new, old = body["queues"]
    positions = [entry.position for entry in peer.stage.node.kernel.address_manager.queues["orders.new"].backlog]
    assert new == {
        "name": "orders.new",
        "address": "orders.new",
        "routing": "anycast",
        "messages": 3,
        "first": positions[0],
        "last": positions[-1],
    }
    assert (old["name"], old["messages"], old["first"], old["last"]) == ("orders.old", 0, None, None)
    assert [queue["name"] for queue in asker.ask("queue.list", pattern="*.new")[1]["queues"]] == ["orders.new"]
    assert [queue["name"] for queue in asker.ask("queue.list", pattern="prices")[1]["queues"]] == ["prices"]


def test_a_large_reply_needs_room_of_its_own(asker: Asker) -> None:
    kernel = asker.peer.stage.node.kernel
    for number in range(100):
        kernel.fencing_tokens.set(f"{number}{'m' * 1000}", None, number)
    assert len(asker.ask("marker.list", prefix="")[1]["markers"]) == 100
    kernel.memory.limit_bytes, kernel.memory.margin_bytes = kernel.memory.used_bytes + 70 * 1024, 0
    assert asker.ask("marker.list", prefix="") == (
        "full",
        {"text": "the broker is full: there is no room for the reply"},
    )
    assert asker.ask("marker.get", name="m") == ("ok", {"value": None})


def test_a_reply_without_room_in_memory_is_refused_to_the_sender() -> None:
    stage = Stage()
    asker = Asker(stage.connect().open_session())
    stage.node.kernel.memory.limit_bytes = stage.node.kernel.memory.margin_bytes = 1
    asker.peer.send(SessionSend(request_of('{"operation": "capabilities"}'), True, -9))
    (answer,) = asker.peer.clear()
    assert isinstance(answer, ExceptionResponse) and answer.code == ErrorCode.ADDRESS_FULL


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("*", ["a", "aXbXa", "ab", "aba"]),
        ("#", ["a", "aXbXa", "ab", "aba"]),
        ("a", ["a"]),
        ("a*", ["a", "aXbXa", "ab", "aba"]),
        ("*a", ["a", "aXbXa", "aba"]),
        ("a*a", ["aXbXa", "aba"]),
        ("ab*ba", []),
        ("a*b*a", ["aXbXa", "aba"]),
        ("*b*", ["aXbXa", "ab", "aba"]),
        ("*X*X*", ["aXbXa"]),
        ("*X*X*X*", []),
        ("a.b", []),
    ],
)
def test_a_pattern_fits_whole_names(asker: Asker, pattern: str, names: list[str]) -> None:
    for name in ("a", "ab", "aba", "aXbXa"):
        asker.peer.create_queue(name)
    found = {queue["name"] for queue in asker.ask("queue.list", pattern=pattern)[1]["queues"]}
    assert found - {"DLQ", "ExpiryQueue", "replies"} == set(names)


def test_no_pattern_makes_a_look_slow(asker: Asker) -> None:
    asker.peer.create_queue("a" * 5_000)
    assert asker.ask("queue.list", pattern="*a" * 500 + "*b")[1] == {"queues": []}
