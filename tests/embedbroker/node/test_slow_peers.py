"""Peers that do not read: held back at a high-water mark, dropped at a limit, and no other peer waits for them."""

from __future__ import annotations

from embedclient.wire.core import (
    Ping,
    SessionForceConsumerDelivery,
    SessionReceiveMessage,
)

from .scripted import Peer, Stage

HIGH_WATER = 10_000
LIMIT = 50_000
KILOBYTE = "x" * 1000


def stage_with_slow_consumer() -> tuple[Stage, Peer, Peer]:
    """A sender, and a consumer of ``q`` that has stopped reading."""
    stage = Stage(output_high_water_bytes=HIGH_WATER, output_bytes_max=LIMIT)
    sender = stage.connect().open_session()
    sender.create_queue()
    slow = stage.connect().open_session()
    slow.consume()
    slow.reads = False
    slow.unread_bytes = 0
    return stage, sender, slow


def test_deliveries_stop_at_the_high_water_mark_and_go_on_when_half_is_read() -> None:
    stage, sender, slow = stage_with_slow_consumer()
    sender.post(*[KILOBYTE] * 40)
    stage.run()
    first = len(slow.texts)
    assert HIGH_WATER / 1100 <= first <= HIGH_WATER / 1000 + 1
    slow.read()
    stage.run()
    assert len(slow.texts) == 40


def test_a_marker_comes_behind_the_messages_that_were_held_back() -> None:
    stage, sender, slow = stage_with_slow_consumer()
    sender.post(*[KILOBYTE] * 20)
    slow.send(SessionForceConsumerDelivery(0, 1))
    stage.run()
    assert all(packet.delivery_count for packet in slow.packets(SessionReceiveMessage))
    slow.read()
    stage.run()
    deliveries = slow.packets(SessionReceiveMessage)
    assert [packet.delivery_count for packet in deliveries] == [1] * 20 + [0]


def test_new_consumers_of_a_slow_connection_are_held_back_too() -> None:
    stage, sender, slow = stage_with_slow_consumer()
    sender.create_queue("other")
    sender.post(*[KILOBYTE] * 20)
    stage.run()
    before = len(slow.packets(SessionReceiveMessage))
    slow.consume("q", 1)
    stage.run()
    assert len(slow.packets(SessionReceiveMessage)) == before


def test_others_get_the_messages_a_slow_peer_does_not_take() -> None:
    stage, sender, slow = stage_with_slow_consumer()
    fast = stage.connect().open_session()
    fast.consume()
    sender.post(*[KILOBYTE] * 60)
    stage.run()
    assert len(slow.texts) + len(fast.texts) == 60
    assert len(fast.texts) > 45


def test_a_peer_that_takes_nothing_at_all_is_dropped_and_its_messages_go_to_others() -> None:
    stage, sender, slow = stage_with_slow_consumer()
    sender.post(*[KILOBYTE] * 5)
    stage.run()
    fast = stage.connect().open_session()
    fast.consume()
    assert slow.state() == "open"
    for _ in range(60):
        slow.send(*[Ping(60_000)] * 50, channel=0)
        if slow.closed:
            break
    assert slow.state() == "the peer does not read"
    assert slow.unread_bytes < LIMIT + 2000
    assert sum("it does not read" in line for line in stage.warnings()) == 1
    stage.run()
    assert fast.texts == [KILOBYTE] * 5
    sender.post("after", blocking=True)
    assert sender.state() == "open"


def test_a_peer_that_reads_now_and_then_is_kept() -> None:
    stage, sender, slow = stage_with_slow_consumer()
    for _ in range(20):
        sender.post(*[KILOBYTE] * 20)
        stage.run()
        slow.read()
        stage.run()
        slow.reads = False
    slow.read()
    stage.run()
    assert len(slow.texts) == 400 and slow.state() == "open"
