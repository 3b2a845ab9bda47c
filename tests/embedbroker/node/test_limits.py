"""Node, over the wire: every limit of the configuration holds, says which one it is, and ends what it has to end."""

from __future__ import annotations

import pytest

from embedbroker.node import BytesReceived
from embedclient.errors import ErrorCode
from embedclient.wire.core import (
    ExceptionResponse,
    NullResponse,
    SessionCommit,
    SessionProducerCredits,
    SessionRequestProducerCredits,
    SessionSend,
    encode_packet,
)

from .scripted import CHANNEL, Peer, Stage, letter

DONE = NullResponse(-1)
FRAME = encode_packet(SessionSend(letter("x" * 50_000), False, 0), CHANNEL, 136)


def refusal(peer: Peer) -> ExceptionResponse:
    """The only answer, an EXCEPTION; the connection lives on."""
    (packet,) = peer.clear()
    assert isinstance(packet, ExceptionResponse), packet
    assert packet.message is not None and peer.closed is None
    return packet


# -- memory for messages ----------------------------------------------------------------------------------------------


def full_stage() -> Stage:
    """No more than 30,000 bytes of messages."""
    stage = Stage(global_max_size_margin_bytes=10_000)
    stage.node.kernel.memory.limit_bytes = 20_000
    return stage


def fill(peer: Peer) -> None:
    """Send with answers until the broker refuses."""
    while not peer.packets(ExceptionResponse):
        peer.post("x" * 1000, blocking=True)
    assert peer.clear()[-1].code == ErrorCode.ADDRESS_FULL  # type: ignore[attr-defined]  # the last is an EXCEPTION


def test_a_client_that_never_asks_for_credit_is_refused_when_the_margin_is_used_up() -> None:
    stage = full_stage()
    peer = stage.connect().open_session()
    peer.create_queue()
    fill(peer)
    memory = stage.node.kernel.memory
    assert 20_000 < memory.used_bytes <= 30_000
    peer.post("x" * 1000, blocking=True)
    assert refusal(peer).code == ErrorCode.ADDRESS_FULL
    peer.consume()
    stage.run()
    assert len(peer.texts) == stage.node.kernel.catalog.queues["q"].message_count


def test_a_send_that_nobody_waits_for_is_not_dropped_silently_but_ends_the_connection() -> None:
    stage = full_stage()
    peer = stage.connect().open_session()
    peer.create_queue()
    fill(peer)
    stage.warnings()
    peer.post("x" * 1000)
    assert "full" in peer.state()
    (line,) = stage.warnings()
    assert "'q'" in line and "full" in line
    assert stage.node.kernel.memory.reserved_bytes == 0


def test_a_transaction_that_finds_no_room_is_told_at_its_commit() -> None:
    stage = full_stage()
    filler = stage.connect().open_session()
    filler.create_queue()
    fill(filler)
    stage.warnings()
    peer = stage.connect().open_session(transacted=True)
    peer.post(*["x" * 1000] * 50)
    peer.send(SessionCommit(-7))
    answer = refusal(peer)
    assert answer.code == ErrorCode.TRANSACTION_ROLLED_BACK and "full" in str(answer.message)
    assert stage.warnings() == []


def test_a_producer_that_keeps_to_its_credit_is_not_refused_when_others_fill_the_broker() -> None:
    stage = full_stage()
    polite = stage.connect().open_session()
    polite.create_queue()
    polite.send(SessionRequestProducerCredits(2_000, "q"))
    assert polite.clear() == [SessionProducerCredits(2_000, "q")]
    fill(stage.connect().open_session())
    polite.post("x" * 700)
    polite.post("x" * 700, blocking=True)
    assert polite.clear() == [DONE]
    assert stage.node.kernel.memory.used_bytes <= 30_000


# -- frames that are not whole ----------------------------------------------------------------------------------------


def test_peers_that_never_finish_their_frames_are_bounded_together() -> None:
    stage = Stage(partial_frames_bytes_max=100_000)
    peers = [stage.connect().open_session() for _ in range(20)]
    for count, peer in enumerate(peers, 1):
        peer.send_bytes(FRAME[: 1000 * count])
    open_peers = [peer for peer in peers if peer.closed is None]
    assert stage.node._partial_frames.total_bytes <= 100_000
    assert len(open_peers) == 13
    # The greatest went at each time, here the one that came last.
    assert open_peers == peers[:13]
    lines = stage.warnings()
    assert len(lines) == 7 and all("partial_frames_bytes_max" in line for line in lines)


def test_bytes_that_drip_are_counted_until_the_frame_is_whole() -> None:
    stage = Stage(partial_frames_bytes_max=100_000)
    peer = stage.connect().open_session()
    peer.create_queue()
    frames = stage.node._partial_frames
    for at in range(0, len(FRAME), 1000):
        assert frames.total_bytes == at
        stage.step(BytesReceived(peer.number, FRAME[at : at + 1000]))
    assert frames.total_bytes == 0
    assert stage.node.kernel.catalog.queues["q"].message_count == 1


@pytest.mark.parametrize("window", [-1, 100_000])
def test_a_lost_connection_holds_nothing_of_its_last_frame(window: int) -> None:
    stage = Stage(partial_frames_bytes_max=100_000)
    peer = stage.connect().open_session("s", window=window)
    peer.send_bytes(FRAME[:10_000])
    peer.lose()
    assert stage.node._partial_frames.total_bytes == 0
    assert ("s" in stage.node.core.sessions) is (window > 0)
    for lost in stage.node._lost:
        assert lost.partial_frame_size == 0


def test_a_peer_that_breaks_the_protocol_behind_half_a_frame_leaves_nothing_in_the_sum() -> None:
    stage = Stage()
    peer = stage.connect().open_session()
    peer.send_bytes(FRAME[:10_000])
    peer.send_bytes(FRAME[10_000:] + b"\xff" * 9)
    assert peer.closed is not None
    assert stage.node._partial_frames.total_bytes == 0


# -- numbers ----------------------------------------------------------------------------------------------------------
