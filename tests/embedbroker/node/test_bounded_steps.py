"""A hundred thousand messages in one request do not stop pings, nor other clients."""

from __future__ import annotations

import pytest

from embedclient.wire.core import (
    CreateQueueV2,
    DeleteQueue,
    NullResponse,
    Ping,
    SessionAcknowledge,
    SessionCommit,
    SessionConsumerClose,
    SessionReceiveMessage,
    SessionRollback,
    SessionSend,
    SessionStart,
    SessionStop,
    encode_packet,
)

from .scripted import CHANNEL, Peer, Stage, letter

MANY = 5000
WORK = 200


@pytest.fixture
def stage() -> Stage:
    return Stage(work_per_step_max=WORK)


@pytest.fixture
def other(stage: Stage) -> Peer:
    """Another client, with a separate queue."""
    peer = stage.connect().open_session(pre_acknowledge=True)
    peer.create_queue("other")
    peer.consume("other")
    return peer


def fill(peer: Peer, count: int = MANY, channel: int = CHANNEL) -> None:
    frame = encode_packet(SessionSend(letter("m"), False), channel, 136)
    for _ in range(count // 500):
        peer.send_bytes(frame * 500)


def pings_while_it_works(stage: Stage, other: Peer) -> int:
    """Steps with a ping and a message of the other client in each, until nothing is left to do."""
    steps = 0
    while (deadline := stage.node.next_deadline()) is not None and deadline <= stage.seconds:
        other.clear()
        frames = encode_packet(SessionSend(letter("x", "other"), True, -2), CHANNEL, 136)
        other.send_bytes(encode_packet(Ping(60_000), 0, 136) + frames)
        assert {"Ping", "NullResponse", "SessionReceiveMessage"} <= set(other.names())
        steps += 1
        assert steps < 10 * MANY
    return steps


def test_a_large_commit(stage: Stage, other: Peer) -> None:
    peer = stage.connect().open_session(transacted=True)
    peer.create_queue()
    fill(peer)
    peer.send(SessionCommit(-2))
    assert peer.clear() == [NullResponse(-2)]
    assert pings_while_it_works(stage, other) >= MANY / WORK / 3
    assert stage.node.kernel.address_manager.queues["q"].message_count == MANY


@pytest.mark.parametrize("end", ["commit", "rollback", "close", "lose"])
def test_many_acknowledged_messages(stage: Stage, other: Peer, end: str) -> None:
    sender = stage.connect().open_session()
    sender.create_queue()
    fill(sender)
    peer = stage.connect().open_session(client=True)
    peer.consume()
    stage.run()
    deliveries = peer.packets(SessionReceiveMessage)
    assert len(deliveries) == MANY
    peer.send(SessionStop(), SessionAcknowledge(0, deliveries[-1].message.message_id, False))
    peer.clear()
    if end == "commit":
        peer.send(SessionCommit(-2))
    elif end == "rollback":
        peer.send(SessionRollback(True))
    elif end == "close":
        peer.send(SessionConsumerClose(0), SessionRollback(False))
    else:
        peer.lose()
    assert pings_while_it_works(stage, other) >= MANY / WORK / 3
    left = stage.node.kernel.address_manager.queues["q"].message_count
    assert left == (0 if end == "commit" else MANY)


def test_deleting_a_long_queue(stage: Stage, other: Peer) -> None:
    peer = stage.connect().open_session()
    peer.create_queue()
    fill(peer)
    peer.send(DeleteQueue("q"), CreateQueueV2("q", "q", None, True, False, True, False, 1))
    assert peer.clear() == [NullResponse(-1), NullResponse(-1)]
    assert pings_while_it_works(stage, other) >= MANY / WORK / 3
    assert stage.node.kernel.memory.used_bytes == 0


def test_starting_a_consumer_on_a_long_queue(stage: Stage, other: Peer) -> None:
    peer = stage.connect().open_session()
    peer.create_queue()
    fill(peer)
    peer.send(SessionStop())
    peer.reads = False
    peer.consume()
    peer.send(SessionStart())
    assert pings_while_it_works(stage, other) >= MANY / WORK / 3
    assert len(peer.texts) == MANY


def test_an_expiry_scan(stage: Stage, other: Peer) -> None:
    peer = stage.connect().open_session()
    peer.create_queue()
    message = letter("m").copy_for("q", changes={}, removals=(), expiration=stage.now.wall_ms + 1)
    frame = encode_packet(SessionSend(message, False), CHANNEL, 136)
    for _ in range(2000 // 500):
        peer.send_bytes(frame * 500)
    stage.seconds += 31
    peer.send(Ping(60_000), channel=0)
    assert pings_while_it_works(stage, other) >= 3
    queues = stage.node.kernel.address_manager.queues
    assert (queues["q"].message_count, queues["ExpiryQueue"].message_count) == (0, 2000)
