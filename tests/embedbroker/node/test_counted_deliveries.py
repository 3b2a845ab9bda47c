"""Delivery counts that are on disk before the message goes out (``persist_delivery_count_before_delivery``)."""

from __future__ import annotations

from random import Random

import pytest

from embedbroker.node import Command, CommandKind
from embedclient.model import XaCode
from embedclient.wire.core import (
    NullResponse,
    ReattachSession,
    ReattachSessionResponse,
    SessionConsumerClose,
    SessionForceConsumerDelivery,
    SessionReceiveMessage,
    SessionStop,
)

from .branches import another, prepared, rolled_back, taken_in
from .scripted import Peer, Stage

WINDOW = 1_000_000


def counted(**config: object) -> Stage:
    return Stage(durable=True, persist_delivery_count_before_delivery=True, **config)  # type: ignore[arg-type]


def filled(stage: Stage, *texts: str) -> None:
    peer = stage.connect().open_session("filler")
    peer.create_queue()
    peer.post(*texts, durable=True)
    stage.settle_disk()
    peer.lose()


def deliveries(peer: Peer) -> list[tuple[str, int]]:
    """Bodies with their delivery counts."""
    return [(bytes(each.message.body).decode(), each.delivery_count) for each in peer.packets(SessionReceiveMessage)]


def reborn(stage: Stage) -> list[tuple[str, int]]:
    """What a consumer gets in the broker's next life, which begins with a crash."""
    stage.boot()
    again = stage.connect().open_session("later")
    again.consume()
    stage.settle_disk()
    return deliveries(again)


@pytest.mark.parametrize(("asked", "delivery_count"), [(True, 2), (False, 1)])
def test_what_a_consumer_had_comes_again_as_redelivered_after_a_crash(asked: bool, delivery_count: int) -> None:
    stage = Stage(durable=True, persist_delivery_count_before_delivery=asked)
    filled(stage, "a", "b")
    peer = stage.connect().open_session()
    peer.consume()
    stage.settle_disk()
    assert deliveries(peer) == [("a", 1), ("b", 1)]
    assert reborn(stage) == [("a", delivery_count), ("b", delivery_count)]


def test_a_message_goes_out_when_it_is_on_disk_that_it_does() -> None:
    stage = counted()
    filled(stage)
    peer = stage.connect().open_session()
    peer.consume()
    peer.post("a", durable=True)
    stage.finish_work(stage.work[0])  # the message
    stage.run()
    assert stage.node.kernel.address_manager.queues["q"].delivering_count == 1
    assert peer.texts == []
    stage.settle_disk()
    assert deliveries(peer) == [("a", 1)]


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("pre_acknowledge", [False, True])
def test_whatever_was_seen_before_a_crash_at_any_point_is_redelivered(seed: int, pre_acknowledge: bool) -> None:
    random = Random(seed)
    stage = counted(work_per_step_max=3)
    filled(stage, *"abcdefgh")
    assert stage.disk is not None
    peer = stage.connect().open_session(pre_acknowledge=pre_acknowledge)
    peer.consume()
    peer.post(*"ijklmnop", durable=True)
    for _ in range(random.randrange(20)):
        if stage.work and random.random() < 0.5:
            stage.finish_work(stage.work[0])
        else:
            stage.advance(0.0)
    seen = set(peer.texts)
    stage.disk.crash(random)
    again = dict(reborn(stage))
    # What is acknowledged by being delivered may be gone, but it does not come back as new either.
    assert pre_acknowledge or seen <= set(again)
    assert all(again[text] == 2 for text in seen if text in again)
    assert all(again[text] in (1, 2) for text in again)


def test_one_sync_does_for_all_that_gather() -> None:
    stage = counted()
    filled(stage, *map(str, range(200)))
    peer = stage.connect().open_session()
    peer.consume()
    stage.run()
    written = 0
    while len(peer.texts) < 200:
        written += 1
        stage.finish_work(stage.work[0])
    # What was handed over before the disk began, and the rest.
    assert written == 2


def test_an_answer_to_a_stop_comes_behind_what_was_handed_over() -> None:
    """Else a client that stops to roll back would keep a message that has gone back to its queue."""
    stage = counted()
    filled(stage, "a")
    peer = stage.connect().open_session()
    peer.consume()
    peer.send(SessionStop())
    assert peer.received == []
    stage.settle_disk()
    assert peer.names() == ["SessionReceiveMessage", "NullResponse"]


def test_a_marker_comes_behind_what_was_handed_over() -> None:
    stage = counted()
    filled(stage, "a")
    peer = stage.connect().open_session()
    peer.consume()
    peer.send(SessionForceConsumerDelivery(0, 1))
    stage.settle_disk()
    assert [each.message.durable for each in peer.packets(SessionReceiveMessage)] == [True, False]


def test_what_is_not_durable_stays_behind_what_is() -> None:
    stage = counted()
    filled(stage, "a")
    peer = stage.connect().open_session()
    other = stage.connect().open_session()
    peer.consume()
    other.post("b")
    stage.run()
    assert peer.texts == []
    stage.settle_disk()
    assert peer.texts == ["a", "b"]
    other.post("c")
    stage.run()
    assert peer.texts == ["a", "b", "c"]


def test_a_closed_consumer_gives_back_uncounted_also_for_the_next_life() -> None:
    stage = counted()
    filled(stage, "a", "b")
    peer = stage.connect().open_session()
    peer.consume()
    stage.settle_disk()
    peer.send(SessionConsumerClose(0))
    stage.settle_disk()
    assert peer.received[-1][1] == NullResponse(-1)
    assert reborn(stage) == [("a", 1), ("b", 1)]


@pytest.mark.parametrize("settled", [False, True])
def test_a_session_that_is_reattached_gets_what_was_held_back_once(settled: bool) -> None:
    stage = counted()
    filled(stage, "a", "b")
    peer = stage.connect().open_session("s", window=WINDOW)
    peer.consume()
    if settled:
        peer.lose()
        stage.settle_disk()
    else:
        peer.lose()
    again = stage.connect()
    again.send(ReattachSession("s", -1), channel=1)
    stage.settle_disk()
    assert again.packets(ReattachSessionResponse)[0].reattached
    assert deliveries(again) == [("a", 1), ("b", 1)]
    assert stage.node.connections.served[again.number].link.room == stage.config.output_high_water_bytes


def test_no_more_is_handed_over_than_a_peer_may_be_behind() -> None:
    """A disk that hangs must not gather a whole queue for one consumer."""
    stage = counted(output_high_water_bytes=10_000)
    filled(stage, *["x" * 1000] * 50)
    peer = stage.connect().open_session()
    peer.consume()
    stage.run()
    assert 9 <= stage.node.kernel.address_manager.queues["q"].delivering_count <= 11
    stage.settle_disk()
    assert len(peer.texts) == 50
    assert stage.node.connections.served[peer.number].link.room == 10_000


def test_more_deliveries_than_answers_may_be_held_back() -> None:
    stage = counted(held_replies_max=5)
    filled(stage, *map(str, range(50)))
    peer = stage.connect().open_session()
    peer.consume()
    peer.post("last", durable=True, blocking=True)
    stage.settle_disk()
    assert len(peer.texts) == 51 and peer.state() == "open"


def test_what_a_prepared_branch_took_was_delivered_once() -> None:
    stage = counted()
    filled(stage, "a")
    peer = another(stage)
    peer.consume()
    stage.settle_disk()
    assert taken_in(peer, 1) == ["a"]
    prepared(peer, 1)
    stage.boot()
    later = another(stage, "later")
    assert rolled_back(later, 1) == XaCode.XA_OK
    later.consume()
    stage.settle_disk()
    assert deliveries(later) == [("a", 2)]


def test_an_orderly_stop_lets_go_what_was_held_back() -> None:
    stage = counted()
    filled(stage, "a")
    peer = stage.connect().open_session()
    peer.consume()
    stage.step(Command(CommandKind.STOP))
    stage.settle_disk()
    assert peer.names() == ["SessionReceiveMessage", "DisconnectV3"]
    assert reborn(stage) == [("a", 2)]
