"""The answers around an acknowledgement of many messages: behind all of it, and in their order."""

from __future__ import annotations

from random import Random

import pytest

from embedbroker.node import Tick
from embedclient.wire.core import (
    NullResponse,
    PacketsConfirmed,
    SessionAcknowledge,
    SessionClose,
    SessionCommit,
    SessionQueueQuery,
    SessionReceiveMessage,
    SessionSend,
    encode_packet,
)

from .scripted import CHANNEL, Peer, Stage, letter

MANY = 1000


def delivered(stage: Stage, **options: object) -> tuple[Peer, int]:
    """A peer that was given everything, and the last id."""
    peer = stage.connect().open_session(**options)  # type: ignore[arg-type]  # tests name real options
    peer.create_queue()
    other = stage.connect().open_session()
    frame = encode_packet(SessionSend(letter("m", durable=stage.disk is not None), False), CHANNEL, 136)
    other.send_bytes(frame * MANY)
    stage.settle_disk()
    peer.consume()
    stage.settle_disk()
    deliveries = peer.packets(SessionReceiveMessage)
    assert len(deliveries) == MANY
    peer.clear()
    return peer, deliveries[-1].message.message_id


def left(stage: Stage) -> int:
    return stage.node.kernel.address_manager.queues["q"].message_count


@pytest.mark.parametrize("durable", [False, True])
def test_it_is_answered_when_all_of_it_is_done(durable: bool) -> None:
    stage = Stage(durable=durable, work_per_step_max=100)
    peer, last = delivered(stage)
    peer.send(SessionAcknowledge(0, last, True))
    steps = 0
    while not peer.received:
        if stage.node.next_deadline() == stage.seconds:
            stage.step(Tick())
        else:
            stage.finish_work(stage.work[0])
        steps += 1
        assert steps < 1000
    assert peer.clear() == [NullResponse(-1)]
    assert left(stage) == 0
    assert steps >= 3
    if not durable:
        assert stage.node.gate.held_count == 0, "nothing would ever call it"


def test_it_is_not_answered_while_part_of_it_is_not_durable() -> None:
    stage = Stage(durable=True, work_per_step_max=100)
    peer, last = delivered(stage)
    peer.send(SessionAcknowledge(0, last, True))
    # The disk keeps up with the first part only.
    stage.finish_work(stage.work[0])
    stage.run()
    assert left(stage) == 0 and peer.received == []
    stage.settle_disk()
    assert peer.clear() == [NullResponse(-1)]
    stage.run()
    assert stage.node.gate.held_count == 0


def test_answers_behind_it_keep_their_order() -> None:
    stage = Stage(durable=True, work_per_step_max=100)
    peer, last = delivered(stage)
    peer.send(SessionAcknowledge(0, last, True), SessionQueueQuery("q"), SessionSend(letter("x", "other"), True, -7))
    peer.send(SessionClose())
    assert peer.received == []
    stage.settle_disk()
    names = [type(packet).__name__ for packet in peer.clear()]
    assert names == ["NullResponse", "SessionQueueQueryResponseV3", "NullResponse", "NullResponse"]


def test_confirmations_wait_for_it_too() -> None:
    stage = Stage(durable=True, work_per_step_max=100)
    peer, last = delivered(stage, window=10_000_000)
    peer.send(SessionAcknowledge(0, last, True))
    stage.node.core.sessions[f"session-{peer.number}-{CHANNEL}"].flush_confirmations()
    assert peer.received == []
    stage.settle_disk()
    assert [type(packet) for packet in peer.clear()] == [NullResponse, PacketsConfirmed]


def test_a_commit_is_answered_behind_the_acknowledgements_and_a_crash_before_undoes_both() -> None:
    stage = Stage(durable=True, work_per_step_max=100)
    peer, last = delivered(stage, transacted=True)
    peer.send(SessionAcknowledge(0, last, False), SessionCommit(-3))
    assert peer.received == []
    stage.finish_work(stage.work[0])
    assert stage.disk is not None
    stage.disk.crash(Random(1))
    stage.boot()
    assert left(stage) == MANY
    again, last = _taken(stage, transacted=True)
    again.send(SessionAcknowledge(0, last, False), SessionCommit(-3))
    stage.settle_disk()
    assert again.clear() == [NullResponse(-3)]
    stage.disk.crash(Random(1))
    stage.boot()
    assert left(stage) == 0


def test_a_crash_in_the_middle_leaves_what_was_not_acknowledged_yet_in_order() -> None:
    stage = Stage(durable=True, work_per_step_max=100)
    peer, last = delivered(stage)
    peer.send(SessionAcknowledge(0, last, True))
    stage.finish_work(stage.work[0])
    assert peer.received == []
    assert stage.disk is not None
    stage.disk.crash(Random(1))
    stage.boot()
    assert 0 < left(stage) < MANY
    again, end = _taken(stage)
    assert end == last
    again.clear()


def _taken(stage: Stage, **options: object) -> tuple[Peer, int]:
    peer = stage.connect().open_session(**options)  # type: ignore[arg-type]  # tests name real options
    peer.consume()
    stage.settle_disk()
    last = peer.packets(SessionReceiveMessage)[-1].message.message_id
    peer.clear()
    return peer, last
