"""Duplicate ids over the wire and over crashes: an id is on disk with its message or not at all, whatever was cut."""

from __future__ import annotations

from random import Random

import pytest

from embedclient.errors import ErrorCode
from embedclient.model import Properties, PropertyType, XaCode
from embedclient.wire.core import (
    CoreMessage,
    ExceptionResponse,
    NullResponse,
    Packet,
    SessionAcknowledge,
    SessionCommit,
    SessionReceiveMessage,
    SessionRollback,
    SessionSend,
    SessionXaEnd,
    SessionXaPrepare,
    SessionXaRollback,
    SessionXaStart,
)

from .branches import answer, committed, prepared, xid
from .scripted import Peer, Stage


def identified(text: str, duplicate_id: str | bytes, *, durable: bool = True, size: int = 0) -> CoreMessage:
    properties = Properties()
    properties.set("_AMQ_ROUTING_TYPE", 1, PropertyType.BYTE)
    properties.set(
        "_AMQ_DUPL_ID", duplicate_id, PropertyType.STRING if isinstance(duplicate_id, str) else PropertyType.BYTES
    )
    properties["text"] = text
    return CoreMessage.build(address="q", durable=durable, properties=properties, body=bytes(size) or text.encode())


def send(*messages: CoreMessage) -> list[Packet]:
    return [SessionSend(message, True, -1 - index) for index, message in enumerate(messages)]


def queued(stage: Stage) -> list[object]:
    """What a new consumer gets, by their property ``text``; it keeps nothing."""
    peer = stage.connect().open_session("looking", channel=30)
    peer.consume(channel=30, browse=True)
    stage.settle_disk()
    return [packet.message.property("text") for packet in peer.packets(SessionReceiveMessage)]


@pytest.fixture
def stage() -> Stage:
    return Stage(durable=True)


@pytest.fixture
def peer(stage: Stage) -> Peer:
    peer = stage.connect().open_session("s")
    peer.create_queue()
    return peer


@pytest.mark.parametrize("size", [0, 300])
def test_a_message_of_a_bridge_is_known_by_the_id_of_its_bridge(stage: Stage, peer: Peer, size: int) -> None:
    """The id of the client is not checked then, as in Artemis; the id of the bridge is not kept in the message."""

    def bridged(text: str, bridge_id: bytes, client_id: str) -> CoreMessage:
        message = identified(text, client_id, size=size)
        changes = {"_AMQ_BRIDGE_DUP": bridge_id}
        return message.copy_for("q", changes=changes, removals=(), expiration=0)

    first, second = b"n" * 16 + b"1" * 8, b"n" * 16 + b"2" * 8
    peer.send(*send(bridged("1", first, "x"), bridged("2", second, "x"), bridged("3", first, "y")))
    stage.settle_disk()
    assert peer.clear() == [NullResponse(-1), NullResponse(-2), NullResponse(-3)]
    peer.send(*send(identified("4", "x"), identified("5", first), identified("6", "x")))
    stage.settle_disk()
    peer.clear()
    assert queued(stage) == ["1", "2", "4", "5"]
    looking = stage.connect().open_session("at all", channel=30)
    looking.consume(channel=30, browse=True)
    stage.settle_disk()
    kept = [packet.message.properties for packet in looking.packets(SessionReceiveMessage)]
    assert not any("_AMQ_BRIDGE_DUP" in properties for properties in kept)
    assert len(kept) == 4 and all("_AMQ_DUPL_ID" in properties for properties in kept)


def test_text_and_its_bytes_are_the_same_id(stage: Stage, peer: Peer) -> None:
    peer.send(*send(identified("1", "ab"), identified("2", b"a\0b\0"), identified("3", b"ab")))
    stage.settle_disk()
    assert peer.clear() == [NullResponse(-1), NullResponse(-2), NullResponse(-3)]
    assert queued(stage) == ["1", "3"]


@pytest.mark.parametrize("durable", [True, False])
def test_a_duplicate_is_answered_when_the_message_it_repeats_is_on_disk(
    stage: Stage, peer: Peer, durable: bool
) -> None:
    other = stage.connect().open_session("other")
    peer.send(*send(identified("1", "id")))
    other.send(*send(identified("2", "id", durable=durable)))
    assert peer.received == other.received == []
    stage.settle_disk()
    assert peer.clear() == other.clear() == [NullResponse(-1)]


def test_a_duplicate_makes_a_transaction_fail_with_its_code(stage: Stage, peer: Peer) -> None:
    peer.send(*send(identified("1", "id")))
    peer.open_session("t", channel=11, transacted=True)
    peer.send(SessionSend(identified("2", "new"), False), SessionSend(identified("3", "id"), False), channel=11)
    stage.settle_disk()
    peer.clear()
    peer.send(SessionCommit(-9), channel=11)
    stage.settle_disk()
    (answer,) = peer.clear()
    assert isinstance(answer, ExceptionResponse) and answer.code == ErrorCode.DUPLICATE_ID_REJECTED
    peer.send(SessionSend(identified("4", "new"), False), SessionCommit(-9), channel=11)
    stage.settle_disk()
    assert [type(each) for each in peer.clear()] == [NullResponse]
    assert queued(stage) == ["1", "4"]


def test_a_commit_is_rejected_as_a_duplicate_when_the_one_it_repeats_is_on_disk(stage: Stage, peer: Peer) -> None:
    """1. A commit is on its way to the disk. 2. Its client comes back and repeats it, with the same ids. 3. After the
    answer that this is a duplicate it would never send again, and a crash now would lose the message."""
    first = stage.connect().open_session("first", transacted=True)
    again = stage.connect().open_session("again", transacted=True)
    first.send(SessionSend(identified("1", "id"), False, -1), SessionCommit(-7))
    again.send(SessionSend(identified("1", "id"), False, -1), SessionCommit(-8))
    assert first.received == again.received == []
    stage.settle_disk()
    assert first.clear() == [NullResponse(-7)]
    assert again.refusal().code == ErrorCode.DUPLICATE_ID_REJECTED
    assert queued(stage) == ["1"]


def test_ids_survive_a_restart_in_their_order_and_the_oldest_leave_first() -> None:
    stage = Stage(durable=True, id_cache_size=3, work_per_step_max=2)
    peer = stage.connect().open_session("s")
    peer.create_queue()
    peer.open_session("t", channel=11, transacted=True)
    peer.send(SessionSend(identified("late", "late"), False), channel=11)
    peer.send(*send(*[identified(f"{number}", f"{number}") for number in range(4)]))
    peer.send(SessionCommit(-9), channel=11)
    stage.settle_disk()
    # The id in the transaction is the oldest record and the newest id: 2, 3, late.
    for _ in range(2):
        stage.boot()
        peer = stage.connect().open_session("s")
        peer.send(*send(*[identified("again", value) for value in ("2", "3", "late")]))
        stage.settle_disk()
        assert queued(stage) == ["0", "1", "2", "3", "late"]
    peer.send(*send(identified("new", "new"), identified("2 again", "2"), identified("late again", "late")))
    stage.settle_disk()
    assert queued(stage) == ["0", "1", "2", "3", "late", "new", "2 again"]


def test_the_id_of_what_was_consumed_stays(stage: Stage, peer: Peer) -> None:
    peer.consume()
    peer.send(*send(identified("1", "id")))
    stage.settle_disk()
    (delivery,) = peer.packets(SessionReceiveMessage)
    peer.send(SessionAcknowledge(0, delivery.message.message_id, False))
    stage.settle_disk()
    stage.boot()
    again = stage.connect().open_session("s")
    again.send(*send(identified("2", "id")))
    stage.settle_disk()
    assert queued(stage) == []


def test_an_open_transaction_leaves_no_ids_after_a_crash(stage: Stage, peer: Peer) -> None:
    peer.open_session("t", channel=11, transacted=True)
    peer.send(SessionSend(identified("1", "id"), False), channel=11)
    peer.send(SessionSend(identified("rolled back", "other"), False), SessionRollback(False), channel=11)
    stage.settle_disk()
    stage.boot()
    again = stage.connect().open_session("s")
    again.send(*send(identified("2", "id"), identified("3", "other")))
    stage.settle_disk()
    assert queued(stage) == ["2", "3"]


def test_without_persistence_a_restart_forgets() -> None:
    stage = Stage(durable=True, persist_id_cache=False)
    peer = stage.connect().open_session("s")
    peer.create_queue()
    peer.send(*send(identified("1", "id"), identified("dropped", "id")))
    stage.settle_disk()
    stage.boot()
    stage.connect().open_session("s").send(*send(identified("2", "id")))
    stage.settle_disk()
    assert queued(stage) == ["1", "2"]


def test_a_prepared_branch_keeps_its_ids_over_crashes_until_it_is_decided(stage: Stage, peer: Peer) -> None:
    for number in (1, 2):
        session = stage.connect().open_session(f"xa-{number}", transacted=True)
        assert answer(session, SessionXaStart(xid(number))) == XaCode.XA_OK
        session.send(SessionSend(identified(f"{number}", f"{number}"), False))
        assert answer(session, SessionXaEnd(xid(number))) == XaCode.XA_OK
        prepared(session, number)
    again = peer
    for _ in range(2):
        stage.boot()
        again = stage.connect().open_session("s")
        again.send(*send(identified("again", "1"), identified("again", "2")))
        stage.settle_disk()
        answers = again.clear()
        assert [each.code for each in answers if isinstance(each, ExceptionResponse)] == [113, 113]
    deciding = stage.connect().open_session("deciding", transacted=True)
    assert committed(deciding, 1) == XaCode.XA_OK
    assert answer(deciding, SessionXaRollback(xid(2))) == XaCode.XA_OK
    again.send(*send(identified("again", "1"), identified("free", "2")))
    stage.settle_disk()
    assert queued(stage) == ["1", "free"]
    # What one branch committed, another cannot.
    answer(deciding, SessionXaStart(xid(3)))
    deciding.send(SessionSend(identified("3", "1"), False))
    answer(deciding, SessionXaEnd(xid(3)))
    assert answer(deciding, SessionXaPrepare(xid(3))) not in (XaCode.XA_OK, XaCode.XA_RDONLY)
    assert queued(stage) == ["1", "free"]


@pytest.mark.parametrize("seed", range(60))
def test_a_crash_at_any_point_leaves_message_and_id_or_neither(seed: int) -> None:
    """The crash comes with any part of the disk work done; everything is sent again afterwards."""
    random = Random(seed)
    stage = Stage(durable=True)
    assert stage.disk is not None
    peer = stage.connect().open_session("s")
    peer.create_queue()
    peer.open_session("t", channel=11, transacted=True)
    for number in range(12):
        letter = identified(f"{number}", f"{number}", size=random.choice((1, 20_000, 30_000)))
        if random.random() < 0.6:
            peer.send(*send(letter))
        else:
            peer.send(SessionSend(letter, False), channel=11)
            if random.random() < 0.5:
                peer.send(SessionCommit(-9), channel=11)
        while stage.work and random.random() < 0.3:
            stage.finish_work(stage.work[0])
    stage.disk.crash(random)
    stage.boot()
    found = queued(stage)
    again = stage.connect().open_session("s")
    again.send(*send(*[identified(f"{number}", f"{number}", size=1) for number in range(12)]))
    stage.settle_disk()
    everything = queued(stage)
    assert everything[: len(found)] == found
    assert sorted(everything, key=str) == sorted(map(str, range(12)))
