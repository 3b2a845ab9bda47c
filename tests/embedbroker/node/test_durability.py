"""No reply and no delivery before the disk has what they promise; nothing else waits; a disk that fails ends it all."""

from __future__ import annotations

import pytest

from embedbroker.node import Command, CommandKind, NodeState
from embedbroker.storage import FaultKind, Lane
from embedclient.errors import ErrorCode
from embedclient.wire.core import (
    CreateSession,
    CreateSessionResponse,
    ExceptionResponse,
    NullResponse,
    PacketsConfirmed,
    Ping,
    ReattachSession,
    ReattachSessionResponse,
    SessionAcknowledge,
    SessionClose,
    SessionCommit,
    SessionConsumerClose,
    SessionQueueQuery,
    SessionQueueQueryResponseV3,
    SessionReceiveMessage,
    SessionSend,
)

from .scripted import Peer, Stage, letter


@pytest.fixture
def stage() -> Stage:
    return Stage(durable=True)


@pytest.fixture
def peer(stage: Stage) -> Peer:
    peer = stage.connect().open_session("s")
    peer.create_queue()
    return peer


def test_a_durable_send_is_confirmed_when_it_is_on_disk(stage: Stage, peer: Peer) -> None:
    peer.post("1", durable=True, blocking=True)
    assert peer.received == []
    stage.settle_disk()
    assert peer.clear() == [NullResponse(-1)]


def test_a_send_that_is_not_durable_is_confirmed_at_once(peer: Peer) -> None:
    peer.post("1", blocking=True)
    assert peer.clear() == [NullResponse(-1)]


def test_later_replies_of_the_channel_keep_their_order_and_other_channels_pass(stage: Stage, peer: Peer) -> None:
    peer.open_session("other", channel=11)
    peer.post("1", durable=True, blocking=True)
    peer.post("2", blocking=True)
    peer.send(SessionQueueQuery("q"))
    assert peer.received == []
    peer.send(SessionQueueQuery("q"), channel=11)
    peer.send(Ping(60_000), channel=0)
    assert peer.names() == ["SessionQueueQueryResponseV3", "Ping"]
    stage.settle_disk()
    assert peer.names() == ["NullResponse", "NullResponse", "SessionQueueQueryResponseV3"]


def test_a_delivery_waits_for_the_disk_and_not_for_the_reply(stage: Stage, peer: Peer) -> None:
    consumer = stage.connect().open_session()
    consumer.consume()
    browser = stage.connect().open_session()
    browser.consume(browse=True)
    peer.post("1", durable=True)
    stage.run()
    assert (consumer.received, browser.received) == ([], [])
    stage.settle_disk()
    assert consumer.texts == ["1"]


def test_acknowledgements_and_commits_are_confirmed_when_they_are_on_disk(stage: Stage) -> None:
    peer = stage.connect().open_session().open_session(channel=11, client=True)
    peer.create_queue()
    for channel, answer in ((10, NullResponse(-1)), (11, NullResponse(-5))):
        peer.consume(channel=channel)
        peer.post("m", durable=True)
        stage.settle_disk()
        message_id = peer.packets(SessionReceiveMessage)[0].message.message_id
        peer.clear()
        peer.send(SessionAcknowledge(0, message_id, True), channel=channel)
        if channel == 11:
            assert peer.clear() == [NullResponse(-1)]
            peer.send(SessionCommit(-5), channel=channel)
        assert peer.received == []
        stage.settle_disk()
        assert peer.clear() == [answer]
        peer.send(SessionConsumerClose(0), channel=channel)
        peer.clear()


def test_a_commit_is_visible_together_after_the_disk(stage: Stage, peer: Peer) -> None:
    consumer = stage.connect().open_session()
    consumer.consume()
    sender = stage.connect().open_session(transacted=True)
    sender.post("1", "2", "3", durable=True)
    stage.settle_disk()
    assert consumer.received == []
    sender.send(SessionCommit(-2))
    stage.run()
    assert (consumer.received, sender.received) == ([], [])
    stage.settle_disk()
    assert consumer.texts == ["1", "2", "3"] and sender.clear() == [NullResponse(-2)]


def test_confirmations_of_the_window_wait_for_the_disk(stage: Stage) -> None:
    peer = stage.connect().open_session(window=0)
    peer.create_queue()
    peer.clear()
    peer.post("1", durable=True)
    peer.post("2")
    assert peer.received == []
    stage.settle_disk()
    assert peer.clear() == [PacketsConfirmed(2), PacketsConfirmed(3)]


def test_the_answer_to_a_reattachment_waits_for_the_disk(stage: Stage) -> None:
    peer = stage.connect().open_session("s", window=1_000_000)
    peer.create_queue()
    peer.post("1", durable=True, blocking=True)
    peer.lose()
    again = stage.connect()
    again.send(ReattachSession("s", 0), channel=1)
    assert again.received == []
    stage.settle_disk()
    assert again.clear() == [NullResponse(-1), ReattachSessionResponse(2, True)]


def test_the_answer_to_a_reattachment_goes_to_the_connection_that_asked(stage: Stage) -> None:
    """1. A client reattaches session s; the answer waits. 2. It comes back once more, the broker may not have noticed
    why. 3. It requests session t: a second answer for s would be taken for that of t, whose send would be repeated."""
    peer = stage.connect().open_session("s", window=1_000_000).open_session("t", channel=11, window=1_000_000)
    peer.create_queue()
    peer.post("1", durable=True, blocking=True)
    peer.lose()
    lost, half_open, again = stage.connect(), stage.connect(), stage.connect()
    lost.send(ReattachSession("s", 0), channel=1)
    lost.lose()
    half_open.send(ReattachSession("s", 0), channel=1)
    again.send(ReattachSession("s", 0), channel=1)
    stage.settle_disk()
    assert lost.received == []
    assert half_open.clear() == [ReattachSessionResponse(2, True)]
    assert again.clear() == [NullResponse(-1), ReattachSessionResponse(2, True)]
    again.send(ReattachSession("t", -1), channel=1)
    assert again.clear() == [ReattachSessionResponse(0, True)]


def test_several_senders_share_one_sync(stage: Stage, peer: Peer) -> None:
    senders = [stage.connect().open_session() for _ in range(5)]
    peer.post("0", durable=True, blocking=True)
    (first,) = [work for work in stage.work if work.lane is Lane.JOURNAL]
    for sender in senders:
        sender.post("m", durable=True, blocking=True)
    assert len([work for work in stage.work if work.lane is Lane.JOURNAL]) == 1
    stage.finish_work(first)
    (second,) = [work for work in stage.work if work.lane is Lane.JOURNAL]
    assert all(sender.received == [] for sender in senders)
    stage.finish_work(second)
    assert [sender.clear() for sender in senders] == [[NullResponse(-1)]] * 5


def test_what_was_confirmed_survives_a_crash_and_what_was_acknowledged_stays_away(stage: Stage, peer: Peer) -> None:
    peer.consume()
    peer.post("1", "2", "3", durable=True)
    peer.post("soft")
    stage.settle_disk()
    peer.send(SessionAcknowledge(0, peer.packets(SessionReceiveMessage)[0].message.message_id, True))
    stage.settle_disk()
    stage.boot()
    again = stage.connect().open_session()
    again.consume()
    stage.run()
    assert again.texts == ["2", "3"]


def test_messages_come_back_in_slices() -> None:
    stage = Stage(durable=True, work_per_step_max=10)
    peer = stage.connect().open_session()
    peer.create_queue()
    peer.post(*[str(number) for number in range(200)], durable=True)
    stage.settle_disk()
    stage.boot(start=False)
    stage.step(Command(CommandKind.START))
    while stage.work:
        stage.finish_work(stage.work[0])
    early = stage.connect()
    early.send(Ping(5), channel=0)
    assert early.clear() == [Ping(5)]
    assert stage.node.state is NodeState.RECOVERING
    ticks = stage.run()
    assert stage.ready and ticks >= 10
    again = stage.connect().open_session()
    again.consume()
    stage.run()
    assert again.texts == [str(number) for number in range(200)]


def test_sessions_are_refused_while_the_journal_is_read(stage: Stage, peer: Peer) -> None:
    stage.boot(start=False)
    stage.step(Command(CommandKind.START))
    early = stage.connect()
    create = CreateSession("s", 10, 136, None, None, 1, False, True, True, -1, False, None)
    early.send(create, channel=1)
    (refused,) = early.clear()
    assert isinstance(refused, ExceptionResponse) and refused.code == ErrorCode.SESSION_CREATION_REJECTED
    early.send(ReattachSession("s", -1), channel=1)
    assert early.clear() == [ReattachSessionResponse(-1, False)]
    stage.settle_disk()
    early.send(create, channel=1)
    assert early.clear() == [CreateSessionResponse(136)]


@pytest.mark.parametrize("kind", [FaultKind.FULL, FaultKind.FAILED])
def test_a_disk_that_fails_ends_the_broker_without_a_false_confirmation(
    stage: Stage, peer: Peer, kind: FaultKind
) -> None:
    idle = stage.connect().open_session()
    newcomer = stage.accept()
    peer.post("kept", durable=True, blocking=True)
    stage.settle_disk()
    assert peer.clear() == [NullResponse(-1)]
    peer.post("lost", durable=True, blocking=True)
    assert stage.disk is not None
    stage.disk.fail_at(stage.disk.operations, kind)
    stage.finish_work(stage.work[0])
    assert peer.received == [] and idle.received == []
    assert {peer.state(), idle.state(), newcomer.state()} & {"open"} == set()
    assert stage.stopped is not None and stage.stopped.failure is not None
    assert stage.notices == []  # the host logs the failure
    assert stage.node.next_deadline() is None
    # Whatever still arrives changes nothing.
    outputs = len(stage.outputs)
    newcomer.send_bytes(b"ARTEMIS" + bytes(20))
    peer.send(SessionSend(letter("later"), True, -9))
    assert stage.accept().state() != "open"
    assert all(type(output).__name__ == "CloseConnection" for output in stage.outputs[outputs:])
    stage.boot()
    again = stage.connect().open_session()
    again.consume()
    stage.run()
    assert again.texts[:1] == ["kept"]


def test_queries_wait_for_nothing_and_do_not_count_what_is_not_safe(stage: Stage, peer: Peer) -> None:
    other = stage.connect().open_session()
    peer.post("1", durable=True)
    other.send(SessionQueueQuery("q"))
    (answer,) = other.packets(SessionQueueQueryResponseV3)
    assert answer.message_count == 0


def test_a_session_is_closed_when_what_nobody_waited_for_is_on_disk(stage: Stage, peer: Peer) -> None:
    peer.post("a", durable=True)
    peer.send(SessionClose())
    assert peer.packets(NullResponse) == []
    stage.settle_disk()
    assert len(peer.packets(NullResponse)) == 1
