"""Node, over the wire: every limit of the configuration holds, names itself, and ends what it has to end."""

from __future__ import annotations

import pytest

from embedbroker.node import BytesReceived
from embedclient.errors import ErrorCode
from embedclient.model import Properties, PropertyType
from embedclient.wire.core import (
    CoreMessage,
    CreateAddress,
    CreateQueueV2,
    CreateSession,
    CreateSessionResponse,
    DeleteQueue,
    ExceptionResponse,
    NullResponse,
    SessionAddMetadataV2,
    SessionClose,
    SessionCommit,
    SessionConsumerClose,
    SessionCreateConsumer,
    SessionProducerCredits,
    SessionRequestProducerCredits,
    SessionSend,
    SessionUniqueAddMetadata,
    encode_packet,
)

from .scripted import CHANNEL, Peer, Stage, letter

DONE = NullResponse(-1)
FRAME = encode_packet(SessionSend(letter("x" * 50_000), False, 0), CHANNEL, 136)


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
    assert peer.refusal().code == ErrorCode.ADDRESS_FULL
    peer.consume()
    stage.run()
    assert len(peer.texts) == stage.node.kernel.address_manager.queues["q"].message_count


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
    answer = peer.refusal()
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


def test_replies_to_management_requests_do_not_fill_a_broker_beyond_its_limit() -> None:
    stage = full_stage()
    peer = stage.connect().open_session()
    peer.create_queue()
    properties = Properties()
    properties.set("JMSReplyTo", "q", PropertyType.STRING)
    request = CoreMessage.build(address="activemq.management", durable=False, properties=properties)
    peer.send(*[SessionSend(request, False, 0)] * 200)
    assert 20_000 <= stage.node.kernel.memory.used_bytes < 21_000
    assert peer.state() == "open"


# -- frames that are not whole ----------------------------------------------------------------------------------------


def test_peers_that_never_finish_their_frames_are_bounded_together() -> None:
    stage = Stage(partial_frames_bytes_max=100_000)
    peers = [stage.connect().open_session() for _ in range(20)]
    for count, peer in enumerate(peers, 1):
        peer.send_bytes(FRAME[: 1000 * count])
    open_peers = [peer for peer in peers if peer.closed is None]
    assert stage.node.connections.partial_frames.total_bytes <= 100_000
    assert len(open_peers) == 13
    # The greatest went at each time, here the one that came last.
    assert open_peers == peers[:13]
    lines = stage.warnings()
    assert len(lines) == 7 and all("partial_frames_bytes_max" in line for line in lines)


def test_bytes_that_drip_are_counted_until_the_frame_is_whole() -> None:
    stage = Stage(partial_frames_bytes_max=100_000)
    peer = stage.connect().open_session()
    peer.create_queue()
    frames = stage.node.connections.partial_frames
    for at in range(0, len(FRAME), 1000):
        assert frames.total_bytes == at
        stage.step(BytesReceived(peer.number, FRAME[at : at + 1000]))
    assert frames.total_bytes == 0
    assert stage.node.kernel.address_manager.queues["q"].message_count == 1


@pytest.mark.parametrize("window", [-1, 100_000])
def test_a_lost_connection_holds_nothing_of_its_last_frame(window: int) -> None:
    stage = Stage(partial_frames_bytes_max=100_000)
    peer = stage.connect().open_session("s", window=window)
    peer.send_bytes(FRAME[:10_000])
    peer.lose()
    assert stage.node.connections.partial_frames.total_bytes == 0
    assert ("s" in stage.node.core.sessions) is (window > 0)
    for lost in stage.node.connections.lost:
        assert lost.state.pending_size == 0


def test_a_peer_that_breaks_the_protocol_behind_half_a_frame_leaves_nothing_in_the_sum() -> None:
    stage = Stage()
    peer = stage.connect().open_session()
    peer.send_bytes(FRAME[:10_000])
    peer.send_bytes(FRAME[10_000:] + b"\xff" * 9)
    assert peer.closed is not None
    assert stage.node.connections.partial_frames.total_bytes == 0


# -- output without a reader -------------------------------------------------------------------------------------------


def test_output_that_many_peers_leave_is_bounded_together() -> None:
    stage = Stage(output_total_bytes_max=500_000)
    sender = stage.connect().open_session()
    lazy = [stage.connect().open_session(pre_acknowledge=True) for _ in range(10)]
    for number, peer in enumerate(lazy):
        peer.create_queue(f"q{number}")
        peer.consume(f"q{number}")
        peer.reads = False
    for number in range(10):
        sender.send(SessionSend(letter("x" * (70_000 + number), f"q{number}"), False, 0))
        stage.run()
    output = stage.node.connections.output
    assert 400_000 < output.total_bytes <= 500_000
    # Each that came last held the most.
    assert [peer.closed is None for peer in lazy] == [True] * 7 + [False] * 3
    assert [line for line in stage.warnings() if "output_total_bytes_max" not in line] == []
    lazy[0].read()
    assert 6 * 70_000 < output.total_bytes < 6 * 70_500
    for peer in lazy[1:7]:
        peer.lose()
    assert output.total_bytes == 0
    assert sender.state() == "open"


def test_what_a_peer_has_read_is_not_counted() -> None:
    stage = Stage(output_total_bytes_max=200_000)
    peer = stage.connect().open_session(pre_acknowledge=True)
    peer.create_queue()
    peer.consume()
    for _ in range(20):
        peer.post("x" * 100_000)
        stage.run()
    assert len(peer.texts) == 20 and peer.state() == "open"
    assert stage.node.connections.output.total_bytes == 0


# -- numbers ----------------------------------------------------------------------------------------------------------


def session_request(name: str, channel: int) -> CreateSession:
    return CreateSession(name, channel, 136, None, None, 102_400, False, True, True, -1, False, None)


def test_sessions_of_a_connection_are_limited() -> None:
    stage = Stage(sessions_per_connection_max=2)
    peer = stage.connect()
    for channel in (10, 11):
        peer.send(session_request(f"s{channel}", channel), channel=1)
    peer.clear()
    peer.send(session_request("one-more", 12), channel=1)
    answer = peer.refusal()
    # 112 would make a Java client try again for ever.
    assert answer.code == ErrorCode.ILLEGAL_STATE and "sessions_per_connection_max" in str(answer.message)
    assert list(stage.node.core.sessions) == ["s10", "s11"]
    # A channel that is used again gives up its session for the new one.
    peer.send(session_request("instead", 11), channel=1)
    assert list(stage.node.core.sessions) == ["s10", "instead"]
    peer.send(SessionClose(), channel=11)
    peer.clear()
    peer.send(session_request("s12", 12), channel=1)
    assert isinstance(peer.clear()[0], CreateSessionResponse)
    stage.connect().open_session("elsewhere")


def test_consumers_of_a_session_are_limited() -> None:
    stage = Stage(consumers_per_session_max=2)
    peer = stage.connect().open_session()
    peer.create_queue()
    peer.consume(consumer=0)
    peer.consume(consumer=1, browse=True)
    peer.send(SessionCreateConsumer(2, "q", None, False, True))
    answer = peer.refusal()
    assert answer.code == ErrorCode.MAX_CONSUMER_LIMIT_EXCEEDED and "consumers_per_session_max" in str(answer.message)
    # An id that is used again replaces its consumer.
    peer.consume(consumer=1)
    peer.send(SessionConsumerClose(0))
    peer.consume(consumer=2)
    assert peer.clear() == [DONE]
    assert stage.node.kernel.address_manager.queues["q"].consumer_count == 2


def test_metadata_of_a_session_is_limited_in_bytes() -> None:
    stage = Stage(session_metadata_bytes_max=100)
    peer = stage.connect().open_session()
    peer.send(SessionAddMetadataV2("key", "x" * 47, True))
    assert peer.clear() == [DONE]
    peer.send(SessionAddMetadataV2("k", "", True))
    assert "session_metadata_bytes_max" in str(peer.refusal().message)
    peer.send(SessionUniqueAddMetadata("k", "", True))
    assert peer.refusal().code == ErrorCode.ILLEGAL_STATE
    # What is replaced does not count.
    peer.send(SessionAddMetadataV2("key", "y" * 46, True), SessionAddMetadataV2("k", "", True))
    assert peer.clear() == [DONE, DONE]


def test_replies_that_wait_for_a_disk_that_hangs_are_limited() -> None:
    stage = Stage(durable=True, held_replies_max=5)
    peer = stage.connect().open_session()
    peer.create_queue()
    peer.post(*"12345", durable=True, blocking=True)
    assert peer.state() == "open" and peer.clear() == []
    stage.warnings()
    peer.post("6", durable=True, blocking=True)
    assert "held_replies_max" in peer.state()
    (line,) = stage.warnings()
    assert "held_replies_max" in line
    stage.settle_disk()
    # They were sent and are there; no client has the answer, as after any lost connection.
    assert stage.node.kernel.address_manager.queues["q"].message_count == 6
    assert stage.node.core.sessions == {}


def test_queues_are_limited() -> None:
    stage = Stage(queues_max=4)
    address_manager = stage.node.kernel.address_manager
    peer = stage.connect().open_session()
    assert set(address_manager.queues) == {"DLQ", "ExpiryQueue"}
    peer.create_queue("a")
    peer.create_queue("b")
    before = set(address_manager.addresses)
    for _ in range(2):
        peer.send(CreateQueueV2("c", "c", None, True, False, True, False, 1))
        answer = peer.refusal()
        assert answer.code == ErrorCode.ILLEGAL_STATE and "queues_max" in str(answer.message)
        peer.send(SessionSend(letter("x", "d"), True, -2))
        assert "queues_max" in str(peer.refusal().message)
    assert set(address_manager.addresses) == before
    # What is there goes on, and a place that gets free is used.
    peer.send(SessionSend(letter("x", "a"), True, -3))
    assert peer.clear() == [NullResponse(-3)]
    peer.send(DeleteQueue("b"))
    peer.clear()
    peer.create_queue("c")


def test_addresses_are_limited() -> None:
    stage = Stage(addresses_max=4)
    peer = stage.connect().open_session()
    peer.send(CreateAddress("a", (0,), True, False), SessionSend(letter("x", "b", anycast=False), True, -2))
    assert peer.clear() == [DONE, NullResponse(-2)]
    for packet in (
        CreateAddress("c", (0,), True, False),
        SessionSend(letter("x", "d", anycast=False), True, -3),
        SessionSend(letter("x", "e"), True, -4),
        CreateQueueV2("f", "f", None, True, False, True, False, 1),
    ):
        peer.send(packet)
        answer = peer.refusal()
        assert answer.code == ErrorCode.ILLEGAL_STATE and "addresses_max" in str(answer.message)
    assert set(stage.node.kernel.address_manager.addresses) == {"DLQ", "ExpiryQueue", "a", "b"}


def test_what_the_settings_name_exists_however_many_there_are() -> None:
    stage = Stage(addresses_max=1, queues_max=1)
    assert set(stage.node.kernel.address_manager.queues) == {"DLQ", "ExpiryQueue"}


def test_an_address_that_a_send_made_and_that_never_had_a_queue_goes_when_it_is_not_used() -> None:
    stage = Stage(addresses_max=3)
    addresses = stage.node.kernel.address_manager.addresses
    peer = stage.connect().open_session()
    news = SessionSend(letter("x", "news", anycast=False), False, 0)
    peer.send(news)
    for _ in range(4):
        stage.advance(25)
        peer.send(news)
    assert "news" in addresses
    stage.advance(60)
    assert "news" not in addresses
    again = stage.connect().open_session()
    again.send(SessionSend(letter("x", "other", anycast=False), True, -2))
    assert again.clear() == [NullResponse(-2)]
