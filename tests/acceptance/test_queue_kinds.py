"""Message groups and priorities, line by line of the checklist."""

from __future__ import annotations

from embedbroker.config import AddressSettings
from embedclient.wire.core import (
    CoreMessage,
    SessionAcknowledge,
    SessionConsumerClose,
    SessionIndividualAcknowledge,
    SessionReceiveMessage,
)
from tests.embedbroker.kernel.letters import letter
from tests.embedbroker.kernel.stage import Stage, Taker
from tests.embedbroker.node.test_groups import consumer_of, grouped, send, stage_with


def test_multiple_grouping_consume_half() -> None:
    """12.3.18: given two groups, when a session acknowledges a half and is closed, then the other gets the rest.

    It comes in order.
    """
    stage = stage_with()
    first, second = consumer_of(stage), consumer_of(stage)
    send(stage, *[grouped(f"{'ab'[number % 2]}{number}", "ab"[number % 2]) for number in range(20)])
    assert [len(first.texts), len(second.texts)] == [10, 10]
    half = first.packets(SessionReceiveMessage)[4].message.message_id
    first.send(SessionAcknowledge(0, half, False), SessionConsumerClose(0))
    stage.settle_disk()
    rest = first.texts[5:]
    assert second.texts[10:] == rest and len(rest) == 5
    send(stage, grouped("later", rest[0][0]))
    assert second.texts[-1] == "later"


def test_group_buckets() -> None:
    """12.3.19: given 2 buckets and three groups, then two of the groups share a consumer, and a third one is idle.

    The names fill both buckets: those of this broker differ from Artemis', whose test uses groupA, groupB and groupC.
    """
    stage = stage_with(default_group_buckets=2)
    consumers = [consumer_of(stage) for _ in range(3)]
    # Names that the two buckets share as 2 and 1.
    names = ("one", "two", "four")
    for name in names:
        send(stage, *[grouped(f"{name}{number}", name) for number in range(10)])
    held = [{text[:3] for text in peer.texts} for peer in consumers]
    assert sorted(map(len, held)) == [0, 1, 2], held
    assert set().union(*held) == {"one", "two", "fou"}
    for peer in consumers:
        for name in held[consumers.index(peer)]:
            own = [text for text in peer.texts if text.startswith(name)]
            assert own == sorted(own) and len(own) == 10


def test_group_rebalance() -> None:
    """12.3.20: given two consumers of three groups, when a third one joins, then each of them has one group."""
    stage = stage_with(default_group_rebalance=True)
    consumers = [consumer_of(stage), consumer_of(stage)]

    def send_groups() -> list[set[str]]:
        before = [len(peer.texts) for peer in consumers]
        for group in "abc":
            send(stage, *[grouped(f"{group}{number}", group) for number in range(10)])
        return [{text[0] for text in peer.texts[start:]} for peer, start in zip(consumers, before, strict=True)]

    assert sorted(map(len, send_groups())) == [1, 2]
    consumers.append(consumer_of(stage))
    assert sorted(map(len, held := send_groups())) == [1, 1, 1]
    assert set().union(*held) == {"a", "b", "c"}
    assert held == send_groups(), "assignments change without a new consumer"
    texts = [text for peer in consumers for text in peer.texts]
    assert len(texts) == 90


def test_out_of_order_acknowledgement() -> None:
    """12.3.26: given prefetched messages of mixed priorities, when one is acknowledged, then the others come again.

    They were delivered in order of sends; the client acknowledges the one of the highest priority.
    """
    stage = stage_with()
    consumer = consumer_of(stage)
    for number in range(10):
        send(stage, CoreMessage.build(address="q", durable=True, priority=number, body=str(number).encode()))
    assert consumer.texts == [str(number) for number in range(10)]
    acknowledged = consumer.received[-1][1].message.message_id  # type: ignore[attr-defined]  # a delivery
    consumer.send(SessionIndividualAcknowledge(0, acknowledged, False), SessionConsumerClose(0))
    stage.settle_disk()
    consumer.clear()
    again = consumer_of(stage)
    assert again.texts == [str(number) for number in range(8, -1, -1)]
    queue = stage.node.kernel.address_manager.queues["q"]
    assert (queue.message_count, queue.acknowledged_count) == (9, 1)


def test_out_of_order_acknowledgement_of_many_consumers() -> None:
    """12.3.26: each acknowledgement removes its own message alone, whichever consumer has the others."""
    stage = Stage({"#": AddressSettings(max_delivery_attempts=-1)})
    stage.queue("q")
    session = stage.session()
    takers: list[tuple[int, Taker]] = []
    for _ in range(2):
        consumer, taker = stage.consumer(session, "q")
        takers.append((consumer.key, taker))
    stage.send(*[letter(str(number), "q", priority=number) for number in (0, 9, 3, 7, 1, 8)])
    stage.run_all()
    # One of them has 0, 3 and 1, the other one 9, 7 and 8.
    for key, taker in takers:
        highest = max(taker.messages, key=lambda message: message.priority)
        assert session.settle(key, highest.message_id) is None
    session.close(failed=False)
    assert stage.waiting("q") == ["8", "7", "1", "0"]
