"""Messages that a bridge of a cluster forwards: they go to the queues that its broker has chosen."""

from __future__ import annotations

from typing import Any

import pytest

from embedbroker import DivertConfiguration
from embedbroker.kernel import Refused, Session
from embedclient.model import Properties, PropertyType, TypedValue
from embedclient.wire.core import (
    CoreMessage,
    CreateQueueV2,
    NullResponse,
    PacketsConfirmed,
    SessionReceiveMessage,
    SessionSend,
    property_key,
)

from .scripted import CHANNEL, Peer, Stage


@pytest.fixture
def stage() -> Stage:
    return Stage(durable=True)


@pytest.fixture
def peer(stage: Stage) -> Peer:
    peer = stage.connect().open_session("s")
    for name in ("s1", "s2", "s3"):
        peer.send(CreateQueueV2("topic", name, None, True, False, True, False, 0), channel=CHANNEL)
        stage.settle_disk()
    peer.clear()
    return peer


def id_of(stage: Stage, name: str) -> int:
    return stage.node.kernel.address_manager.queues[name].id


def forwarded(text: str, *, route_to: bytes | None, bridge_id: bytes | None = None) -> CoreMessage:
    properties = Properties()
    properties.set("_AMQ_ROUTING_TYPE", 0, PropertyType.BYTE)
    if route_to is not None:
        properties.set("_AMQ_ROUTE_TO", route_to, PropertyType.BYTES)
    if bridge_id is not None:
        properties.set("_AMQ_BRIDGE_DUP", bridge_id, PropertyType.BYTES)
    properties["text"] = text
    return CoreMessage.build(address="topic", durable=True, properties=properties, body=text.encode())


def send(stage: Stage, peer: Peer, *messages: CoreMessage) -> None:
    peer.send(*[SessionSend(message, True, -1 - index) for index, message in enumerate(messages)])
    stage.settle_disk()
    assert peer.clear() == [NullResponse(-1 - index) for index in range(len(messages))]


def queued(stage: Stage) -> dict[str, list[object]]:
    found: dict[str, list[object]] = {}
    for channel, name in enumerate(("s1", "s2", "s3"), 30):
        peer = stage.connect().open_session(f"looking at {name}", channel=channel)
        peer.consume(name, channel=channel, browse=True)
        stage.settle_disk()
        messages = [packet.message for packet in peer.packets(SessionReceiveMessage)]
        found[name] = [message.property("text") for message in messages]
        assert not {"_AMQ_ROUTE_TO", "_AMQ_BRIDGE_DUP"} & set(messages[0].properties if messages else ())
    return found


def place(*ids: int) -> bytes:
    return b"".join(each.to_bytes(8, "big") for each in ids)


def test_only_the_queues_that_were_chosen_get_the_message(stage: Stage, peer: Peer) -> None:
    one, two = id_of(stage, "s1"), id_of(stage, "s2")
    send(stage, peer, forwarded("a", route_to=place(two)), forwarded("b", route_to=place(one, two)))
    send(stage, peer, forwarded("c", route_to=place(one)), forwarded("d", route_to=None))
    assert queued(stage) == {"s1": ["b", "c", "d"], "s2": ["a", "b", "d"], "s3": ["d"]}


def test_a_message_whose_queues_are_all_gone_goes_to_no_subscription_that_was_not_chosen(
    stage: Stage, peer: Peer
) -> None:
    """That one may share its messages with a queue of another broker, which has it already."""
    send(stage, peer, forwarded("a", route_to=place(id_of(stage, "s3"), 1 << 60)))
    send(stage, peer, forwarded("b", route_to=place(1 << 60)), forwarded("c", route_to=b"short"))
    assert queued(stage) == {"s1": ["c"], "s2": ["c"], "s3": ["a", "c"]}


def test_a_divert_takes_no_message_whose_queues_were_chosen() -> None:
    stage = Stage(diverts={"d": DivertConfiguration("q", "copies")})
    peer = stage.connect().open_session("s")
    for name in ("q", "copies"):
        peer.create_queue(name)
    for route_to in (place(id_of(stage, "q")), place(1 << 60)):
        peer.send(SessionSend(to_the_queue(forwarded("a", route_to=route_to)), False, -1))
    queues = stage.node.kernel.address_manager.queues
    assert (queues["q"].message_count, queues["copies"].message_count) == (2, 1)


def to_the_queue(message: CoreMessage) -> CoreMessage:
    changes = {"_AMQ_ROUTING_TYPE": TypedValue(1, PropertyType.BYTE)}
    return message.copy_for("q", changes=changes, removals=(), expiration=0)


def test_a_repeated_message_is_kept_once_by_the_id_of_its_bridge(stage: Stage, peer: Peer) -> None:
    route_to = place(id_of(stage, "s2"))
    for text, bridge_id in (("a", b"1"), ("b", b"1"), ("c", b"2")):
        send(stage, peer, forwarded(text, route_to=route_to, bridge_id=bridge_id))
    assert queued(stage) == {"s1": [], "s2": ["a", "c"], "s3": []}


def test_a_message_that_comes_back_is_no_duplicate_of_its_first_arrival(stage: Stage, peer: Peer) -> None:
    """It was sent to this broker, went to another one, and moves on over this broker: its client's id is known here."""
    send(stage, peer, with_client_id(forwarded("a", route_to=place(id_of(stage, "s1")))))
    send(stage, peer, with_client_id(forwarded("b", route_to=None)), with_client_id(forwarded("c", route_to=None)))
    send(stage, peer, with_client_id(forwarded("d", route_to=place(id_of(stage, "s2")))))
    assert queued(stage) == {"s1": ["a", "b"], "s2": ["b", "d"], "s3": ["b"]}


def with_client_id(message: CoreMessage) -> CoreMessage:
    changes = {"_AMQ_DUPL_ID": TypedValue("of the client", PropertyType.STRING)}
    return message.copy_for("topic", changes=changes, removals=(), expiration=0)


@pytest.mark.parametrize("others", [{}, {"a": 1, "b": "text"}])
@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize("chosen", [False, True])
def test_the_properties_of_a_bridge_are_cut_out_of_a_message_and_nothing_else(
    stage: Stage, peer: Peer, others: dict[str, int | str], twice: bool, chosen: bool
) -> None:
    """In front of the other properties or behind them; as the only ones; and one that is there twice."""
    key, ids = property_key("_AMQ_BRIDGE_DUP") + b"\x04", (b"1", b"2", b"1")
    route_to = place(id_of(stage, "s1"))
    target = property_key("_AMQ_ROUTE_TO") + b"\x04" + len(route_to).to_bytes(4, "big") + route_to
    entries = [property_key(name) + _value(value) for name, value in others.items()]
    for index, bridge_id in enumerate(ids):
        entry = key + len(bridge_id).to_bytes(4, "big") + bridge_id
        found = [entry] * (2 if twice else 1) + entries if index else [*entries, entry]
        found += [target] if chosen else []
        message = CoreMessage.build(address="topic", body=b"body", user_id=bytes(16))
        raw = message.raw[:-1] + b"\1" + len(found).to_bytes(4, "big") + b"".join(found)
        send(stage, peer, CoreMessage.parse(raw))
    looking = stage.connect().open_session("looking", channel=30)
    looking.consume("s1", channel=30, browse=True)
    stage.settle_disk()
    messages = [packet.message for packet in looking.packets(SessionReceiveMessage)]
    assert [dict(message.properties) for message in messages] == [others, others]
    assert stage.node.kernel.address_manager.queues["s2"].message_count == (0 if chosen else 2)
    assert [(bytes(message.body), message.encoded_size) for message in messages] == [
        (b"body", len(message.raw)) for message in messages
    ]


def _value(value: int | str) -> bytes:
    if isinstance(value, int):
        return b"\x07" + value.to_bytes(8, "big")
    return b"\x0a" + property_key(value)


def test_an_endless_list_of_queues_is_not_read(stage: Stage, peer: Peer) -> None:
    send(stage, peer, forwarded("a", route_to=place(id_of(stage, "s1")) * 100_000))
    send(stage, peer, forwarded("b", route_to=place(id_of(stage, "s1")) * 100_001))
    assert queued(stage) == {"s1": ["a", "b"], "s2": ["b"], "s3": ["b"]}


def test_queues_of_other_addresses_cannot_be_chosen(stage: Stage, peer: Peer) -> None:
    peer.create_queue("q")
    send(stage, peer, forwarded("a", route_to=place(id_of(stage, "q"))))
    assert stage.node.kernel.address_manager.queues["q"].message_count == 0
    assert queued(stage) == {"s1": [], "s2": [], "s3": []}


def test_a_client_gives_a_message_no_route_of_a_store_and_forward_queue(stage: Stage, peer: Peer) -> None:
    """Otherwise a bridge would take it for a message that this broker routed."""
    message = forwarded("a", route_to=None)
    for name in ("_AMQ_ROUTE_TO$.artemis.internal.sf.c.n", "_AMQ_ACK_ROUTE_TOx"):
        message = message.with_property(name, bytes(8))
    send(stage, peer, message)
    assert queued(stage) == {"s1": ["a"], "s2": ["a"], "s3": ["a"]}
    reference = next(iter(stage.node.kernel.address_manager.queues["s1"].backlog))
    core = reference.message.to_core()
    assert isinstance(core, CoreMessage)
    assert sorted(core.properties) == ["_AMQ_ROUTING_TYPE", "text"]


@pytest.mark.parametrize("window", [-1, 3_000])
def test_messages_that_come_in_one_read_do_what_they_do_one_by_one(
    window: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With repeated ids, another queue, and messages that are not durable among them; also after a restart."""
    calls: list[CoreMessage] = []
    one_by_one = Session.send

    def send_alone(session: Session, message: CoreMessage, *args: Any, **keywords: Any) -> Refused | None:
        calls.append(message)
        return one_by_one(session, message, *args, **keywords)

    monkeypatch.setattr(Session, "send", send_alone)
    found: list[tuple[object, ...]] = []
    for together in (False, True):
        stage = Stage(durable=True)
        peer = stage.connect().open_session("s", window=window)
        for name in ("s1", "s2", "s3"):
            peer.send(CreateQueueV2("topic", name, None, True, False, True, False, 0), channel=CHANNEL)
            stage.settle_disk()
        peer.clear()
        calls.clear()
        packets = [SessionSend(message, True, number + 1) for number, message in enumerate(_mixed(stage))]
        for portion in [packets[:1], packets[1:]] if together else [[each] for each in packets]:
            peer.send(*portion)
            stage.settle_disk()
        answers = peer.clear()
        confirmed = [each.command_id for each in answers if isinstance(each, PacketsConfirmed)]
        assert [each for each in answers if isinstance(each, NullResponse)] == [
            NullResponse(number + 1) for number in range(len(packets))
        ]
        sends, kernel = len(calls), stage.node.kernel
        address = kernel.address_manager.addresses["topic"]
        assert address.duplicate_ids is not None
        figures = address.routed_count, list(address.duplicate_ids.numbers), kernel.memory.used_bytes
        before = queued(stage)
        stage.boot()
        stage.settle_disk()
        found.append((bool(confirmed), figures, before, queued(stage)))
        assert sends == len(packets) if not together else sends < len(packets) // 2
    assert found[0] == found[1]


def _mixed(stage: Stage) -> list[CoreMessage]:
    messages: list[CoreMessage] = []
    for number in range(160):
        route_to = place(id_of(stage, "s2" if 70 <= number < 100 else "s1"))
        bridge_id = (999 if number in (0, 150, 155) else number).to_bytes(2, "big")
        message = forwarded(f"{number:03}", route_to=route_to, bridge_id=bridge_id)
        if number in (110, 111, 112):
            message = CoreMessage.build(
                address="topic", durable=False, properties=message.properties, body=bytes(message.body)
            )
        messages.append(message)
    return messages
