"""A client that lost its connection and comes back: what is replayed, what is refused, what is counted.

The confirmation numbering of both ends must agree at every moment (core-protocol 7.1 to 7.3); the three faults that
Artemis has there (pitfalls 12.21, 12.22 and 12.24) are tested by name.
"""

from __future__ import annotations

import pytest

from embedclient.wire.core import (
    CreateQueueV2,
    DeleteQueue,
    ExceptionResponse,
    NullResponse,
    PacketsConfirmed,
    Ping,
    ReattachSession,
    ReattachSessionResponse,
    SessionAcknowledge,
    SessionAddMetadata,
    SessionClose,
    SessionCommit,
    SessionConsumerClose,
    SessionCreateConsumer,
    SessionReceiveMessage,
    SessionSend,
)

from .scripted import Peer, Stage, letter

WINDOW = 1_000_000


@pytest.fixture
def stage() -> Stage:
    return Stage()


def come_back(stage: Stage, name: str, last_confirmed: int) -> tuple[Peer, ReattachSessionResponse]:
    """A new connection that requests its session; what came before the answer stays in ``received``."""
    peer = stage.connect()
    peer.send(ReattachSession(name, last_confirmed), channel=1)
    (answer,) = peer.packets(ReattachSessionResponse)
    peer.received = [entry for entry in peer.received if entry[1] is not answer]
    return peer, answer


def test_a_session_with_a_window_outlives_its_connection(stage: Stage) -> None:
    peer = stage.connect().open_session("s", window=WINDOW)  # counted: SESS_START
    peer.create_queue()
    peer.post("1", "2", blocking=True)
    peer.lose()
    again, answer = come_back(stage, "s", 2)
    assert answer == ReattachSessionResponse(3, True)
    assert again.received == []
    again.post("3", blocking=True)
    assert again.clear() == [NullResponse(-1)]
    assert stage.node.kernel.address_manager.queues["q"].message_count == 3


def test_replies_that_were_lost_come_again_before_the_answer(stage: Stage) -> None:
    peer = stage.connect().open_session("s", window=WINDOW)
    peer.create_queue()  # reply 0
    peer.post("1", "2", blocking=True)  # replies 1 and 2
    peer.lose()
    again, answer = come_back(stage, "s", 0)
    assert answer.reattached
    assert again.clear() == [NullResponse(-1), NullResponse(-2)]


def test_deliveries_that_were_lost_come_again_once(stage: Stage) -> None:
    peer = stage.connect().open_session("s", window=WINDOW)
    peer.create_queue()
    peer.consume(credit=1_000_000)
    peer.post("1", "2", "3")
    stage.run()
    assert peer.texts == ["1", "2", "3"]
    peer.lose()
    again, _answer = come_back(stage, "s", 1)
    assert again.texts == ["2", "3"]
    assert {packet.delivery_count for packet in again.packets(SessionReceiveMessage)} == {1}
    last = again.packets(SessionReceiveMessage)[-1].message.message_id
    again.clear()
    again.send(SessionAcknowledge(0, last, True))
    assert again.clear() == [NullResponse(-1)]


def test_nothing_is_delivered_while_the_client_is_away(stage: Stage) -> None:
    other = stage.connect().open_session("other")
    peer = stage.connect().open_session("s", window=WINDOW)
    peer.create_queue()
    peer.consume()
    peer.lose()
    other.post("1")
    stage.run()
    assert stage.node.kernel.address_manager.queues["q"].delivering_count == 0
    again, _answer = come_back(stage, "s", 0)
    stage.run()
    assert again.texts == ["1"]


def test_without_window_the_session_ends_with_its_connection(stage: Stage) -> None:
    peer = stage.connect().open_session("s")
    peer.lose()
    assert stage.node.core.sessions == {}
    _again, answer = come_back(stage, "s", -1)
    assert answer == ReattachSessionResponse(-1, False)


def test_a_session_without_window_that_is_still_there_is_ended_first(stage: Stage) -> None:
    peer = stage.connect().open_session("s")
    peer.create_queue()
    peer.post("m")
    peer.consume()
    stage.run()
    again, answer = come_back(stage, "s", -1)
    assert not answer.reattached
    again.open_session("t")
    again.consume()
    stage.run()
    (delivery,) = again.packets(SessionReceiveMessage)
    assert delivery.delivery_count == 2


def test_a_half_open_connection_loses_its_session_to_the_new_one(stage: Stage) -> None:
    peer = stage.connect().open_session("s", window=WINDOW)
    peer.create_queue()
    again, answer = come_back(stage, "s", 0)
    assert answer.reattached
    peer.send(SessionSend(letter("ghost"), False))
    again.post("m", blocking=True)
    assert stage.node.kernel.address_manager.queues["q"].message_count == 1
    peer.lose()
    again.post("n", blocking=True)
    assert again.packets(NullResponse) == [NullResponse(-1)] * 2


def test_a_request_that_was_slower_than_the_next_one_does_not_take_the_session_away(stage: Stage) -> None:
    stage.connect().open_session("s", window=WINDOW).lose()
    slow = stage.connect()
    again, answer = come_back(stage, "s", 0)
    assert answer.reattached
    slow.send(ReattachSession("s", 0), channel=1)
    assert not slow.last(ReattachSessionResponse).reattached
    slow.lose()
    again.create_queue()
    again.post("m", blocking=True)
    assert stage.node.kernel.address_manager.queues["q"].message_count == 1


def test_a_client_of_another_version_does_not_get_the_session(stage: Stage) -> None:
    stage.connect().open_session("s", window=WINDOW).lose()
    old = stage.connect(128)
    old.send(ReattachSession("s", -1), channel=1)
    assert old.packets(ReattachSessionResponse) == [ReattachSessionResponse(-1, False)]
    _again, answer = come_back(stage, "s", -1)
    assert answer.reattached


def test_the_time_to_live_ends_the_wait(stage: Stage) -> None:
    peer = stage.connect().open_session("s", window=WINDOW)
    peer.create_queue("t", temporary=True)
    peer.lose()
    stage.advance(59)
    assert "s" in stage.node.core.sessions
    stage.advance(4)
    assert stage.node.core.sessions == {} and "t" not in stage.node.kernel.address_manager.queues
    assert stage.warnings() == ["peer-1: no reattachment within the time to live"]
    _again, answer = come_back(stage, "s", -1)
    assert not answer.reattached


def test_a_time_to_live_of_minus_one_does_not_keep_lost_sessions_for_ever(stage: Stage) -> None:
    peer = stage.connect().open_session("s", window=WINDOW)
    peer.send(Ping(-1), channel=0)
    peer.lose()
    assert stage.node.core.sessions == {}


def test_temporary_queues_move_to_the_new_connection(stage: Stage) -> None:
    peer = stage.connect().open_session("s", window=WINDOW)
    peer.create_queue("t", temporary=True)
    peer.lose()
    again, _answer = come_back(stage, "s", 0)
    stage.advance(50)
    assert "t" in stage.node.kernel.address_manager.queues
    again.send(SessionClose())
    again.lose()
    assert "t" not in stage.node.kernel.address_manager.queues


def test_a_temporary_queue_of_the_new_connection_keeps_its_owner_beside_a_gone_one_of_its_name(stage: Stage) -> None:
    queues = stage.node.kernel.address_manager.queues
    peer = stage.connect().open_session("s", window=WINDOW)
    peer.create_queue("t", temporary=True)
    peer.lose()
    again = stage.connect().open_session("n", channel=11, window=WINDOW)
    again.send(DeleteQueue("t"), channel=11)
    assert "t" not in queues
    again.create_queue("t", temporary=True, channel=11)
    again.send(ReattachSession("s", 0), channel=1)
    assert again.last(ReattachSessionResponse).reattached
    again.send(SessionClose(), channel=10)
    again.send(SessionClose(), channel=11)
    again.lose()
    assert "t" not in queues


def test_reattaching_on_the_same_connection_keeps_temporary_queues(stage: Stage) -> None:
    peer = stage.connect().open_session("s", window=WINDOW)
    peer.create_queue("t", temporary=True)
    peer.send(ReattachSession("s", 0), channel=1)
    assert peer.last(ReattachSessionResponse).reattached
    peer.send(SessionClose())
    peer.lose()
    assert "t" not in stage.node.kernel.address_manager.queues


def test_a_session_can_come_back_many_times(stage: Stage) -> None:
    peer = stage.connect().open_session("s", window=WINDOW)
    peer.create_queue()
    for number in range(5):
        peer.post(str(number), blocking=True)
        peer.lose()
        peer, answer = come_back(stage, "s", number + 1)
        assert answer == ReattachSessionResponse(number + 2, True)
        assert peer.received == []
    assert stage.node.kernel.address_manager.queues["q"].message_count == 5


def test_the_window_is_confirmed_when_it_is_reached(stage: Stage) -> None:
    peer = stage.connect().open_session("s", window=500)
    peer.create_queue()
    peer.clear()
    peer.post("x" * 250)
    assert peer.confirmed() == []
    peer.post("x" * 250)
    assert peer.confirmed() == [3]
    peer.post("x" * 600)
    assert peer.confirmed() == [3, 4]


def test_a_window_of_zero_confirms_every_packet(stage: Stage) -> None:
    peer = stage.connect().open_session("s", window=0)
    assert peer.confirmed() == [0]
    peer.post("a", "b")
    assert peer.confirmed() == [0, 1, 2]


def test_the_periodic_check_confirms_what_is_owed(stage: Stage) -> None:
    peer = stage.connect().open_session("s", window=WINDOW)
    peer.post("a")
    assert peer.confirmed() == []
    stage.advance(2)
    assert peer.confirmed() == [1]
    stage.advance(2)
    assert peer.confirmed() == [1]


def test_closing_confirms_what_is_owed(stage: Stage) -> None:
    peer = stage.connect().open_session("s", window=WINDOW)
    peer.send(SessionClose())
    assert PacketsConfirmed(0) in peer.clear()


def test_what_the_client_confirmed_is_not_kept(stage: Stage) -> None:
    peer = stage.connect().open_session("s", window=WINDOW)
    peer.create_queue()
    peer.post("1", "2", blocking=True)
    session = stage.node.core.sessions["s"]
    assert session.channel.sent_bytes_cached > 0
    peer.send(PacketsConfirmed(2))
    assert session.channel.sent_bytes_cached == 0


def test_metadata_is_counted_as_the_client_counts_it(stage: Stage) -> None:
    peer = stage.connect().open_session("s", window=0)
    peer.clear()
    peer.send(SessionAddMetadata("key", "value"))
    assert peer.confirmed() == []


def test_a_client_that_confirms_nothing_cannot_come_back() -> None:
    stage = Stage(resend_bytes_max=10_000)
    peer = stage.connect().open_session("s", window=100_000_000)
    peer.create_queue()
    peer.consume()
    peer.post(*["x" * 900] * 20)
    stage.run()
    assert len(peer.texts) == 20 and peer.state() == "open"
    (warning,) = [line for line in stage.warnings() if "resend_bytes_max" in line]
    assert "session s cannot be reattached" in warning
    assert stage.node.core.resend.used_bytes == 0
    # It goes on as if nothing had been.
    peer.post("y", blocking=True)
    stage.run()
    assert peer.texts[-1] == "y"
    _again, answer = come_back(stage, "s", 3)
    assert answer == ReattachSessionResponse(-1, False)
    assert "s" not in stage.node.core.sessions
    assert stage.node.kernel.address_manager.queues["q"].delivering_count == 0
    assert stage.node.kernel.address_manager.queues["q"].message_count == 21


def test_the_session_that_keeps_the_most_gives_up_first() -> None:
    stage = Stage(resend_bytes_max=20_000)
    modest = stage.connect().open_session("modest", window=100_000_000)
    modest.create_queue()
    modest.consume()
    modest.post("x" * 1000)
    stage.run()
    modest.send(SessionClose(), channel=99)
    greedy = stage.connect().open_session("greedy", window=100_000_000)
    greedy.create_queue("g")
    greedy.consume("g")
    greedy.send(*(SessionSend(letter("x" * 1000, "g"), False, 0) for _ in range(20)))
    stage.run()
    resend = stage.node.core.resend
    assert not stage.node.core.sessions["greedy"].can_come_back
    assert stage.node.core.sessions["modest"].can_come_back
    assert resend.used_bytes == stage.node.core.sessions["modest"].kept_bytes > 1000
    modest.lose()
    again, answer = come_back(stage, "modest", -1)
    assert answer.reattached and len(again.texts) == 1
    again.send(SessionClose())
    greedy.send(SessionClose())
    assert resend.used_bytes == 0


def test_a_session_keeps_no_more_than_can_be_sent_again_at_once() -> None:
    stage = Stage(output_bytes_max=10_000, output_high_water_bytes=5_000)
    peer = stage.connect().open_session("s", window=100_000_000)
    peer.create_queue()
    peer.consume()
    for _ in range(12):
        peer.post("x" * 900)
        stage.run()
    assert not stage.node.core.sessions["s"].can_come_back
    assert any("output_bytes_max" in line for line in stage.warnings())


def test_what_is_kept_shares_its_bytes_with_the_queue(stage: Stage) -> None:
    peer = stage.connect().open_session("s", window=WINDOW)
    peer.create_queue()
    peer.consume()
    peer.post("x" * 100)
    stage.run()
    session = stage.node.core.sessions["s"]
    (reference,) = session.kernel_session.unsettled
    assert any(piece is reference.message.stored_bytes() for piece in session.channel.replay_after(-1))


def test_a_lost_connection_that_gave_up_is_not_waited_for() -> None:
    """1. Session s loses its connection and is waited for.
    2. Another session makes the broker pass its limit; s keeps the most and gives up.
    3. No client can come back for s: what it held returns at the next check, not at the end of its time to live.
    """
    stage = Stage(resend_bytes_max=20_000)
    lost = stage.connect().open_session("s", window=100_000_000)
    lost.create_queue()
    lost.consume()
    lost.post(*["x" * 1000] * 10)
    stage.run()
    lost.lose()
    other = stage.connect().open_session("other", window=100_000_000)
    other.create_queue("g")
    other.consume("g")
    other.send(*(SessionSend(letter("x" * 1000, "g"), False, 0) for _ in range(8)))
    stage.run()
    queue = stage.node.kernel.address_manager.queues["q"]
    assert queue.delivering_count == 10
    stage.advance(2)
    assert queue.delivering_count == 0
    assert list(stage.node.core.sessions) == ["other"]


def test_a_session_whose_name_another_one_takes_keeps_nothing() -> None:
    """No client can come back for it, and its bytes would make others give up."""
    stage = Stage(resend_bytes_max=20_000)
    modest = stage.connect().open_session("modest", window=100_000_000)
    modest.create_queue()
    modest.consume()
    modest.post("x" * 1000)
    stage.run()
    for number in range(5):
        peer = stage.connect().open_session("same", window=100_000_000)
        peer.create_queue(f"g{number}")
        peer.consume(f"g{number}")
        peer.send(*(SessionSend(letter("x" * 1000, f"g{number}"), False, 0) for _ in range(8)))
        stage.run()
    sessions = stage.node.core.sessions
    assert sessions["modest"].can_come_back and sessions["same"].can_come_back
    assert stage.node.core.resend.used_bytes == sessions["modest"].kept_bytes + sessions["same"].kept_bytes


def test_12_21_a_request_answered_with_an_exception_is_counted(stage: Stage) -> None:
    """1. The client sends packets 0 to 4; packet 2 is refused.
    2. It is cut off behind packet 4, and all five were processed.
    3. The broker must name 4; naming 3 makes the client send the message of packet 4 again.
    """
    peer = stage.connect().open_session("s", window=WINDOW)  # 0
    peer.create_queue()  # 1
    peer.send(SessionCreateConsumer(0, "q", "broken =", False, True))  # 2
    assert isinstance(peer.clear()[-1], ExceptionResponse)
    peer.send(DeleteQueue("nowhere"))  # 3
    peer.post("m", blocking=True)  # 4
    peer.lose()
    _again, answer = come_back(stage, "s", 3)
    assert answer == ReattachSessionResponse(4, True)


def test_12_22_a_session_built_after_a_refused_reattachment_is_not_reattached(stage: Stage) -> None:
    """1. The broker forgot session s; the client is refused and builds session t on the same connection.
    2. The packets that rebuild it are counted here, but are not in the client's cache.
    3. The connection is cut with a send lost. Numbers differ, so the broker must refuse: the client builds the session
       again and reports the calls in flight. Agreeing would make it drop the lost send as processed.
    """
    peer, answer = come_back(stage, "s", -1)
    assert not answer.reattached
    peer.open_session("t", window=WINDOW)
    peer.send(CreateQueueV2("q", "q", None, True, False, False, True, 1))
    peer.consume()
    peer.lose()
    again, refused = come_back(stage, "t", 0)
    assert refused == ReattachSessionResponse(-1, False)
    assert "t" not in stage.node.core.sessions
    again.open_session("u", window=WINDOW)
    again.lose()
    _third, refused = come_back(stage, "u", 0)
    assert not refused.reattached


def test_12_22_a_session_of_a_connection_without_refusal_is_reattached(stage: Stage) -> None:
    peer, _answer = come_back(stage, "forgotten", -1)
    peer.lose()
    fresh = stage.connect().open_session("t", window=WINDOW)
    fresh.lose()
    _again, answer = come_back(stage, "t", -1)
    assert answer.reattached


@pytest.mark.parametrize("refused", [["s"], ["s", "r"]])
def test_12_22_a_session_behind_those_that_are_made_again_is_reattached(stage: Stage, refused: list[str]) -> None:
    """A client makes what was refused again before it does anything else; what it opens then is new on both ends."""
    peer = stage.connect()
    for name in refused:
        peer.send(ReattachSession(name, -1), channel=1)
    for channel, _name in enumerate(refused, 10):
        peer.open_session(f"again {channel}", channel=channel, window=WINDOW)
    peer.open_session("new", channel=20, window=WINDOW)
    peer.lose()
    for channel, _name in enumerate(refused, 10):
        assert not come_back(stage, f"again {channel}", -1)[1].reattached
    assert come_back(stage, "new", -1)[1].reattached


def test_12_24_a_commit_that_nobody_waits_for_is_not_answered(stage: Stage) -> None:
    peer = stage.connect().open_session("s", client=True)
    peer.create_queue()
    peer.post("m")
    peer.consume()
    stage.run()
    (delivery,) = peer.packets(SessionReceiveMessage)
    peer.clear()
    peer.send(SessionAcknowledge(0, delivery.message.message_id, False), SessionCommit(None), SessionConsumerClose(0))
    assert peer.clear() == [NullResponse(-1)]  # the one that the close waits for
    assert stage.node.kernel.address_manager.queues["q"].message_count == 0
    peer.send(SessionCommit(-9))
    assert peer.clear() == [NullResponse(-9)]


@pytest.mark.parametrize("version", [122, 128, 130, 131])
def test_12_24_clients_that_cannot_say_so_are_answered(version: int) -> None:
    stage = Stage()
    peer = stage.connect(version).open_session("s")
    peer.send(SessionCommit(None))
    assert peer.clear() == [NullResponse(-1)]


def test_12_24_a_commit_that_nobody_waits_for_fails_in_the_log(stage: Stage) -> None:
    peer = stage.connect().open_session("s", client=True)
    peer.create_queue()
    peer.consume()
    peer.send(SessionAcknowledge(0, 4711, False), SessionCommit(None))
    assert peer.clear() == []
    assert any("without a waiting caller" in line for line in stage.warnings())
