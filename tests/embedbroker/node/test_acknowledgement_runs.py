"""Frames of acknowledgements in one read are what they are in reads of their own: answers, log, what is left."""

from __future__ import annotations

from random import Random

import pytest

from embedbroker.node import BytesReceived
from embedclient.wire.core import (
    Packet,
    SessionAcknowledge,
    SessionConsumerFlowCredit,
    SessionIndividualAcknowledge,
    SessionReceiveMessage,
    encode_packet,
)

from .scripted import CHANNEL, Peer, Stage

MANY = 150


def given(**options: object) -> tuple[Stage, Peer, list[int]]:
    """A peer with two consumers on one session, and another session with one more, and what they were given."""
    stage = Stage(durable=True)
    peer = stage.connect().open_session(**options)  # type: ignore[arg-type]  # tests name real options
    peer.create_queue()
    peer.open_session(channel=CHANNEL + 1)
    for consumer, channel in ((0, CHANNEL), (1, CHANNEL), (0, CHANNEL + 1)):
        peer.consume(consumer=consumer, channel=channel)
    other = stage.connect().open_session()
    other.post(*map(str, range(MANY)), durable=True)
    stage.settle_disk()
    ids = [packet.message.message_id for packet in peer.packets(SessionReceiveMessage)]
    assert len(ids) == MANY
    peer.clear()
    return stage, peer, ids


def frames_of(random: Random, ids: list[int]) -> list[bytes]:
    """What a client may send of its three consumers, which were given messages in turn."""
    holders = [(0, CHANNEL, ids[0::3]), (1, CHANNEL, ids[1::3]), (0, CHANNEL + 1, ids[2::3])]
    frames = list[bytes]()
    while any(held for _, _, held in holders):
        consumer, channel, held = random.choice(holders)
        for _ in range(random.choice((1, 2, 10))):
            if not held:
                break
            kind = random.random()
            if kind < 0.05:
                packet: Packet = SessionIndividualAcknowledge(consumer, held.pop(0), kind < 0.02)
            elif kind < 0.1:
                packet = SessionAcknowledge(consumer, random.choice((held[0], 10**9)), kind < 0.07)
            elif kind < 0.12:
                packet = SessionConsumerFlowCredit(consumer, 10)
            else:
                packet = SessionAcknowledge(consumer, held.pop(0), False)
            frames.append(encode_packet(packet, channel, 136))
    return frames


def outcome(stage: Stage, peer: Peer) -> object:
    """What each channel was answered, what the log has, and what is left before and after a restart."""
    stage.settle_disk()
    queue = stage.node.kernel.address_manager.queues["q"]
    answers: dict[int, list[Packet]] = {}
    for channel, packet in peer.received:
        answers.setdefault(channel, []).append(packet)
    seen = answers, stage.warnings(), peer.state(), queue.message_count, queue.acknowledged_count
    stage.boot()
    reader = stage.connect().open_session()
    reader.consume()
    stage.settle_disk()
    return seen, reader.texts


@pytest.mark.parametrize("options", [{}, {"transacted": True}, {"window": 200}], ids=["plain", "transacted", "window"])
@pytest.mark.parametrize("seed", range(6))
def test_one_read_is_as_many_as_there_are_frames(seed: int, options: dict[str, object]) -> None:
    random = Random(seed)
    (together, peer, ids), (apart, other, other_ids) = given(**options), given(**options)
    assert ids == other_ids
    frames = frames_of(random, ids)
    stream = b"".join(frames)
    for frame in frames:
        apart.step(BytesReceived(other.number, frame))
    at = 0
    while at < len(stream):
        size = random.choice((30, 31, 300, 3000))
        together.step(BytesReceived(peer.number, stream[at : at + size]))
        at += size
    assert outcome(together, peer) == outcome(apart, other)
