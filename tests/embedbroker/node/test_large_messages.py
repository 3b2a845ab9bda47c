"""Large messages at one broker: upload, storage, delivery in chunks, references, faults, restarts."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from zlib import crc32

import pytest

from embedbroker.config import AddressSettings, DivertConfiguration
from embedbroker.kernel import Body, Divert, MemoryStore, OnRead, StoredMessage
from embedbroker.protocols.core import _large_delivery, _upload
from embedbroker.storage import (
    BodyFiles,
    DiskFault,
    FaultKind,
    Remove,
    Sync,
    SyncDirectory,
    Truncate,
    WriteAt,
)
from embedclient.errors import ErrorCode
from embedclient.model import Properties, PropertyType, XaCode
from embedclient.wire.core import (
    CoreMessage,
    CreateQueueV2,
    DisconnectConsumer,
    NullResponse,
    Ping,
    SessionAcknowledge,
    SessionClose,
    SessionCommit,
    SessionConsumerClose,
    SessionConsumerFlowCredit,
    SessionReceiveContinuation,
    SessionReceiveLarge,
    SessionReceiveMessage,
    SessionRollback,
    SessionSend,
    SessionSendContinuation,
    SessionSendLarge,
    SessionXaCommit,
    SessionXaEnd,
    SessionXaPrepare,
    SessionXaRollback,
    SessionXaStart,
)

from .branches import another, answer, xid
from .scripted import CHANNEL, Peer, Stage, letter

KIB = 1024
CHUNK = 100 * KIB


def body_of(size: int, seed: int = 1) -> bytes:
    """A body in which no part is like another."""
    return b"".join(b"%d:%d," % (seed, index) for index in range(size // 4 + 1))[:size]


def header(address: str = "q", *, durable: bool = True, anycast: bool = True, **more: object) -> CoreMessage:
    properties = Properties()
    properties.set("_AMQ_ROUTING_TYPE", int(anycast), PropertyType.BYTE)
    for name, value in more.items():
        properties[name] = value  # type: ignore[assignment]  # values of properties
    return CoreMessage.build(type=4, address=address, durable=durable, properties=properties)


def chunks(body: bytes, *, announced: int | None = None, wants_reply: bool = True) -> list[SessionSendContinuation]:
    """The continuations of a body, as a Java client sends them."""
    parts = [body[start : start + CHUNK] for start in range(0, len(body), CHUNK)] or [b""]
    size = len(body) if announced is None else announced
    return [
        SessionSendContinuation(part, False, size, wants_reply, -5)
        if index + 1 == len(parts)
        else SessionSendContinuation(part, True, -1, False, 0)
        for index, part in enumerate(parts)
    ]


def upload(peer: Peer, body: bytes, message: CoreMessage | None = None, *, channel: int = CHANNEL) -> None:
    """Send a large message; its answer comes when the disk did its work."""
    peer.send(SessionSendLarge(message or header()), *chunks(body), channel=channel)


def files(stage: Stage) -> list[str]:
    """The files of bodies, or the numbers of bodies in memory."""
    if stage.disk is not None:
        return [name for name in stage.disk.names if name.startswith("large-")]
    store = stage.node.kernel.store
    assert isinstance(store, MemoryStore)
    return [str(number) for number in store.bodies.numbers]


def run(stage: Stage) -> None:
    """Let disk and node come to rest."""
    stage.settle_disk()
    stage.run()
    stage.settle_disk()
    stage.run()


def received(peer: Peer, consumer: int = 0) -> list[tuple[SessionReceiveLarge, bytes]]:
    """The complete large deliveries of a consumer, in order."""
    found: list[tuple[SessionReceiveLarge, bytes]] = []
    start: SessionReceiveLarge | None = None
    parts: list[bytes] = []
    for _channel, packet in peer.received:
        if isinstance(packet, SessionReceiveLarge) and packet.consumer_id == consumer:
            start, parts = packet, []
        elif isinstance(packet, SessionReceiveContinuation) and packet.consumer_id == consumer:
            parts.append(packet.chunk)
            if not packet.continues:
                assert start is not None
                found.append((start, b"".join(parts)))
    return found


def a_stage(kind: str, **config: object) -> tuple[Stage, Peer]:
    stage = Stage(durable=kind == "journal", **config)  # type: ignore[arg-type]  # real fields
    peer = stage.connect().open_session()
    peer.create_queue()
    return stage, peer


both = pytest.mark.parametrize("kind", ["memory", "journal"])


@both
@pytest.mark.parametrize("size", [0, 1, CHUNK, CHUNK + 1, 3 * CHUNK, 1_000_000])
def test_body_and_header_arrive_as_sent(kind: str, size: int) -> None:
    stage, peer = a_stage(kind)
    body = body_of(size)
    upload(peer, body, header(colour="red"))
    run(stage)
    assert peer.clear() == [NullResponse(-5)]
    peer.consume()
    run(stage)
    ((start, got),) = received(peer)
    assert got == body
    assert (start.large_message_size, start.delivery_count, start.message.type) == (size, 1, 4)
    assert start.message.property("colour") == "red"
    assert start.message.property("_AMQ_LARGE_SIZE") == size
    assert start.message.message_id > 0


@both
def test_body_goes_with_the_last_acknowledgement(kind: str) -> None:
    stage, peer = a_stage(kind)
    upload(peer, body_of(300_000))
    run(stage)
    peer.consume()
    run(stage)
    assert len(files(stage)) == 1
    ((start, _body),) = received(peer)
    peer.send(SessionAcknowledge(0, start.message.message_id, True))
    run(stage)
    assert files(stage) == []
    assert stage.node.kernel.memory.used_bytes == 0
    assert not stage.node.kernel.large_bodies.uses


def test_file_outlives_an_acknowledgement_that_is_not_durable() -> None:
    stage, peer = a_stage("journal")
    upload(peer, body_of(300_000))
    run(stage)
    peer.consume()
    run(stage)
    ((start, _body),) = received(peer)
    peer.send(SessionAcknowledge(0, start.message.message_id, True))
    stage.run()
    removals = [work for work in stage.work if "Remove" in str(work.operations)]
    assert not removals and len(files(stage)) == 1
    run(stage)
    assert files(stage) == []


@both
def test_queues_of_a_topic_share_one_body(kind: str) -> None:
    stage, peer = a_stage(kind)
    for name in ("a", "b", "c"):
        peer.send(CreateQueueV2("t", name, None, True, False, True, False, 0))
        run(stage)
    peer.clear()
    body = body_of(250_000)
    upload(peer, body, header("t", anycast=False))
    run(stage)
    assert len(files(stage)) == 1
    for consumer, name in enumerate(("a", "b", "c")):
        assert len(files(stage)) == 1
        peer.consume(name, consumer)
        run(stage)
        ((start, got),) = received(peer, consumer)
        assert got == body
        peer.send(SessionAcknowledge(consumer, start.message.message_id, True))
        run(stage)
    assert files(stage) == []


@both
def test_each_frame_takes_credit_and_delivery_waits_for_it(kind: str) -> None:
    """Header and chunks take the size of their frames; while nothing is left, nothing is sent."""
    stage, peer = a_stage(kind)
    body = body_of(3 * CHUNK)
    upload(peer, body)
    run(stage)
    peer.clear()
    peer.consume(credit=1)
    run(stage)
    assert [type(packet) for packet in peer.clear()] == [SessionReceiveLarge]
    (consumer,) = next(iter(stage.node.core.sessions.values())).kernel_session.consumers.values()
    header_left = consumer.credit.left
    assert header_left < 0
    peer.send(SessionConsumerFlowCredit(0, 1 - header_left))
    run(stage)
    (chunk,) = peer.clear()
    assert isinstance(chunk, SessionReceiveContinuation) and chunk.continues
    frame_size = 4 + 9 + 4 + len(chunk.chunk) + 1 + 8
    assert consumer.credit.left == 1 - frame_size
    peer.send(SessionConsumerFlowCredit(0, 2 * frame_size))
    run(stage)
    assert [packet.continues for packet in peer.clear()] == [True, False]  # type: ignore[attr-defined]  # chunks
    assert consumer.credit.left == 1 - frame_size


@both
def test_consumer_gets_nothing_else_in_between(kind: str) -> None:
    stage, peer = a_stage(kind)
    other = stage.connect().open_session()
    upload(peer, body_of(3 * CHUNK))
    peer.post("next", durable=True)
    run(stage)
    peer.clear()
    peer.consume(credit=1)
    run(stage)
    peer.send(SessionConsumerFlowCredit(0, 2 * CHUNK))
    run(stage)
    assert peer.texts == [] and received(peer) == []
    # Another consumer is not held up.
    other.consume()
    run(stage)
    assert other.texts == ["next"]
    peer.post("last", durable=True)
    other.send(SessionConsumerClose(0))
    peer.send(SessionConsumerFlowCredit(0, -1))
    run(stage)
    kinds = [type(packet) for _channel, packet in peer.received]
    assert kinds[:4] == [SessionReceiveLarge, *[SessionReceiveContinuation] * 3]
    assert peer.texts == ["next", "last"]


@both
@pytest.mark.parametrize("how", ["close consumer", "rollback", "lose"])
def test_delivery_broken_off_begins_again(kind: str, how: str) -> None:
    stage, peer = a_stage(kind)
    body = body_of(4 * CHUNK)
    upload(peer, body)
    run(stage)
    taker = stage.connect().open_session(transacted=True)
    taker.consume(credit=150_000)
    run(stage)
    assert received(taker) == [] and len(taker.packets(SessionReceiveContinuation)) == 2
    if how == "close consumer":
        taker.send(SessionConsumerClose(0))
    elif how == "rollback":
        taker.send(SessionRollback(True), SessionConsumerClose(0))
    else:
        taker.lose()
    run(stage)
    peer.consume()
    run(stage)
    ((start, got),) = received(peer)
    assert got == body
    peer.send(SessionAcknowledge(0, start.message.message_id, True))
    run(stage)
    assert files(stage) == []


@both
def test_body_that_was_acknowledged_early_is_sent_to_its_end(kind: str) -> None:
    stage, peer = a_stage(kind)
    body = body_of(4 * CHUNK)
    upload(peer, body)
    run(stage)
    peer.clear()
    peer.consume(credit=1)
    run(stage)
    (start,) = peer.packets(SessionReceiveLarge)
    peer.send(SessionAcknowledge(0, start.message.message_id, True))
    run(stage)
    assert len(files(stage)) == 1
    peer.send(SessionConsumerFlowCredit(0, -1))
    run(stage)
    assert received(peer)[0][1] == body
    assert files(stage) == []


@both
def test_consumer_that_acknowledges_by_taking_gets_the_whole_body(kind: str) -> None:
    stage, peer = a_stage(kind)
    body = body_of(4 * CHUNK)
    upload(peer, body)
    run(stage)
    taker = stage.connect().open_session(pre_acknowledge=True)
    taker.consume()
    run(stage)
    assert received(taker)[0][1] == body
    run(stage)
    assert files(stage) == []


@both
def test_browser_gets_large_messages_and_leaves_them(kind: str) -> None:
    stage, peer = a_stage(kind)
    bodies = [body_of(2 * CHUNK, seed) for seed in range(3)]
    for body in bodies:
        upload(peer, body)
        run(stage)
    peer.clear()
    peer.consume(browse=True)
    run(stage)
    assert [got for _start, got in received(peer)] == bodies
    assert len(files(stage)) == 3


# -- the end of uploads -----------------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("how", ["lose", "close", "another"])
@pytest.mark.parametrize("settled", [False, True])
def test_upload_broken_off_leaves_nothing(kind: str, how: str, settled: bool) -> None:
    stage, peer = a_stage(kind)
    sender = stage.connect().open_session()
    sender.send(SessionSendLarge(header()), *chunks(body_of(5 * CHUNK))[:3])
    if settled:
        run(stage)
        assert len(files(stage)) == 1
    if how == "lose":
        sender.lose()
    elif how == "close":
        sender.send(SessionClose())
    else:
        upload(sender, b"second")
    run(stage)
    assert len(files(stage)) == (how == "another")
    peer.consume()
    run(stage)
    assert [got for _start, got in received(peer)] == ([b"second"] if how == "another" else [])


def test_session_lost_while_the_disk_stores_the_end() -> None:
    stage, _peer = a_stage("journal")
    sender = stage.connect().open_session()
    upload(sender, body_of(3 * CHUNK))
    sender.lose()
    run(stage)
    assert files(stage) == []
    assert not stage.node.kernel.large_bodies.uses


@both
def test_announced_size_must_be_right(kind: str) -> None:
    stage, peer = a_stage(kind)
    peer.send(SessionSendLarge(header()), *chunks(body_of(3 * CHUNK), announced=7))
    run(stage)
    refusal = peer.refusal()
    assert refusal.code == ErrorCode.LARGE_MESSAGE_ERROR_BODY and "307200 bytes, but 7" in str(refusal.message)
    assert files(stage) == []
    # That of a compressed body is of another length.
    compressed = header(_AMQ_LARGE_COMPRESSED=True)
    peer.send(SessionSendLarge(compressed), *chunks(body_of(3 * CHUNK), announced=1_000_000))
    run(stage)
    assert peer.clear() == [NullResponse(-5)]
    peer.consume()
    run(stage)
    ((start, got),) = received(peer)
    assert got == body_of(3 * CHUNK) and start.message.property("_AMQ_LARGE_SIZE") == 1_000_000


@both
def test_message_that_no_queue_takes_leaves_no_body(kind: str) -> None:
    stage, peer = a_stage(kind)
    upload(peer, body_of(3 * CHUNK), header("nowhere", anycast=False))
    run(stage)
    assert files(stage) == [] and not stage.node.kernel.large_bodies.uses


def test_request_to_the_broker_must_not_be_large() -> None:
    stage, peer = a_stage("memory")
    upload(peer, body_of(3 * CHUNK), header("activemq.management"))
    run(stage)
    assert "must not be a large message" in str(peer.refusal().message)
    assert files(stage) == []


def test_memory_has_a_limit_and_others_are_served() -> None:
    stage, peer = a_stage("memory", memory_limit_bytes=1_000_000)
    upload(peer, body_of(2_000_000))
    run(stage)
    refusal = peer.refusal()
    assert refusal.code == ErrorCode.IO_ERROR and "bytes of memory" in str(refusal.message)
    assert files(stage) == []
    upload(peer, body_of(300_000))
    run(stage)
    assert peer.clear() == [NullResponse(-5)]


def test_disk_without_room_refuses_one_message_and_nothing_else() -> None:
    stage, peer = a_stage("journal")
    assert stage.disk is not None
    upload(peer, body_of(3 * CHUNK))
    (work,) = stage.work
    stage.fail_work(work, DiskFault(FaultKind.FULL, "a large body", "no space left"))
    run(stage)
    refusal = peer.refusal()
    assert refusal.code == ErrorCode.IO_ERROR and "no space" in str(refusal.message)
    assert files(stage) == [] and stage.node.is_running
    upload(peer, body_of(3 * CHUNK))
    run(stage)
    assert peer.clear() == [NullResponse(-5)]


@both
def test_upload_that_stalls_ends_with_its_connection(kind: str) -> None:
    stage, peer = a_stage(kind)
    sender = stage.connect().open_session()
    sender.send(SessionSendLarge(header()), *chunks(body_of(5 * CHUNK))[:3])
    run(stage)
    assert len(files(stage)) == 1
    for _ in range(4):
        stage.advance(20.0)
        peer.send(Ping(60_000), channel=0)
    run(stage)
    assert "nothing was received" in sender.state() and peer.state() == "open"
    assert files(stage) == []


def test_other_clients_are_served_while_the_disk_stores_a_body() -> None:
    stage, peer = a_stage("journal")
    sender = stage.connect().open_session()
    upload(sender, body_of(3 * CHUNK))
    sender.send(SessionSendLarge(header()))
    peer.consume()
    peer.post("meanwhile")
    assert stage.work and peer.texts == ["meanwhile"]


def end_with_a_wrong_size(stage: Stage, sender: Peer) -> None:
    sender.send(SessionSendLarge(header()), *chunks(body_of(3 * CHUNK), announced=7))
    run(stage)
    refusal = sender.refusal()
    assert refusal.code == ErrorCode.LARGE_MESSAGE_ERROR_BODY
    assert sender.state() == "open"


def end_by_stalling(stage: Stage, sender: Peer) -> None:
    sender.send(SessionSendLarge(header()), *chunks(body_of(5 * CHUNK))[:3])
    run(stage)
    other = next(peer for peer in stage.peers.values() if peer is not sender)
    for _ in range(4):
        stage.advance(20.0)
        other.send(Ping(60_000), channel=0)
    run(stage)
    assert "nothing was received" in sender.state()


def end_without_room(stage: Stage, sender: Peer) -> None:
    upload(sender, body_of(3 * CHUNK))
    (work,) = stage.work
    stage.fail_work(work, DiskFault(FaultKind.FULL, "large-0000000001.body", "no space left"))
    run(stage)
    refusal = sender.refusal()
    assert refusal.code == ErrorCode.IO_ERROR and "no space" in str(refusal.message)
    assert sender.state() == "open"


def end_without_room_while_it_arrives(stage: Stage, sender: Peer) -> None:
    """The rest of the body is read and dropped; the error answers its end."""
    sent = chunks(body_of(5 * CHUNK))
    sender.send(SessionSendLarge(header()), *sent[:3])
    (work,) = stage.work
    stage.fail_work(work, DiskFault(FaultKind.FULL, "large-0000000001.body", "no space left"))
    run(stage)
    assert sender.clear() == []
    sender.send(*sent[3:])
    run(stage)
    refusal = sender.refusal()
    assert refusal.code == ErrorCode.IO_ERROR and "no space" in str(refusal.message)


@pytest.mark.parametrize(
    "end", [end_with_a_wrong_size, end_by_stalling, end_without_room, end_without_room_while_it_arrives]
)
def test_upload_that_cannot_end_is_one_line_and_harms_no_other_client(end: Callable[[Stage, Peer], None]) -> None:
    stage, peer = a_stage("journal")
    sender = stage.connect().open_session()
    peer.consume()
    stage.notices.clear()
    end(stage, sender)
    assert files(stage) == [] and not stage.node.kernel.large_bodies.uses
    assert len(stage.warnings()) == 1
    peer.post("small", durable=True)
    upload(peer, body_of(3 * CHUNK))
    run(stage)
    assert peer.texts == ["small"] and [got for _start, got in received(peer)] == [body_of(3 * CHUNK)]
    if sender.state() == "open":
        upload(sender, body_of(300_000, 2))
        run(stage)
        assert [got for _start, got in received(peer)][1:] == [body_of(300_000, 2)]
    assert stage.warnings() == []


# -- order ------------------------------------------------------------------------------------------------------------


def test_what_follows_a_large_message_comes_behind_it() -> None:
    stage, peer = a_stage("journal")
    sender = stage.connect().open_session(transacted=True)
    sender.send(SessionSendLarge(header()), *chunks(body_of(3 * CHUNK)), SessionCommit(-9))
    assert sender.clear() == []
    run(stage)
    assert sender.clear() == [NullResponse(-5), NullResponse(-9)]
    peer.consume()
    run(stage)
    assert len(received(peer)) == 1


@both
@pytest.mark.parametrize("commits", [False, True])
def test_transactions(kind: str, commits: bool) -> None:
    stage, peer = a_stage(kind)
    sender = stage.connect().open_session(transacted=True)
    body = body_of(3 * CHUNK)
    upload(sender, body)
    run(stage)
    sender.send(SessionCommit(-9) if commits else SessionRollback(False))
    run(stage)
    assert len(files(stage)) == commits
    peer.consume()
    run(stage)
    assert [got for _start, got in received(peer)] == ([body] if commits else [])


def test_sender_is_not_read_while_the_disk_is_behind() -> None:
    stage, peer = a_stage("journal")
    peer.send(SessionSendLarge(header()))
    body = body_of(64 * CHUNK)
    sent = chunks(body)
    names: list[str] = []
    for chunk in sent[:-1]:
        stage.outputs.clear()
        peer.send(chunk)
        names += [type(output).__name__ for output in stage.outputs if "Reading" in type(output).__name__]
        if names:
            break
    assert names == ["PauseReading"]
    stage.outputs.clear()
    run(stage)
    assert [type(output).__name__ for output in stage.outputs if "Reading" in type(output).__name__] == [
        "ResumeReading"
    ]


# -- restarts ---------------------------------------------------------------------------------------------------------


def restart(stage: Stage) -> Peer:
    """Cut the power; what was not synced is lost."""
    assert stage.disk is not None
    stage.disk.crash(Random(3))
    stage.boot()
    return stage.connect().open_session()


def test_confirmed_message_survives_a_power_cut() -> None:
    stage, peer = a_stage("journal")
    body = body_of(1_000_000)
    upload(peer, body)
    run(stage)
    assert peer.clear() == [NullResponse(-5)]
    for _ in range(2):
        peer = restart(stage)
        run(stage)
    assert len(files(stage)) == 1
    peer.consume()
    run(stage)
    ((start, got),) = received(peer)
    assert got == body
    peer.send(SessionAcknowledge(0, start.message.message_id, True))
    run(stage)
    assert files(stage) == []
    peer = restart(stage)
    peer.consume()
    run(stage)
    assert received(peer) == [] and files(stage) == []


def test_files_without_a_message_are_removed_at_the_start() -> None:
    stage, peer = a_stage("journal")
    peer.send(SessionSendLarge(header()), *chunks(body_of(3 * CHUNK))[:2])
    stage.settle_disk()
    upload(stage.connect().open_session(), body_of(3 * CHUNK), header(durable=False))
    stage.settle_disk()
    assert len(files(stage)) == 2
    stage.boot()
    run(stage)
    assert files(stage) == []
    assert any("2 bodies of large messages are removed" in text for _level, text in stage.notices)


def test_message_without_its_file_is_dropped_with_a_line() -> None:
    stage, peer = a_stage("journal")
    upload(peer, body_of(3 * CHUNK))
    peer.post("small", durable=True)
    run(stage)
    (name,) = files(stage)
    assert stage.disk is not None
    stage.disk.run((Remove(name), SyncDirectory()))
    stage.boot()
    assert any("the file of its large body is missing" in text for text in stage.warnings())
    peer = stage.connect().open_session()
    peer.consume()
    run(stage)
    assert peer.texts == ["small"] and received(peer) == []


# -- reading ahead ----------------------------------------------------------------------------------------------------


def reads_of_bodies(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Offset and length of each read from now on."""
    found: list[tuple[int, int]] = []
    read = BodyFiles.read

    def watched(self: BodyFiles, number: int, offset: int, length: int, done: OnRead, checksum: int = 0) -> None:
        found.append((offset, length))
        read(self, number, offset, length, done, checksum)

    monkeypatch.setattr(BodyFiles, "read", watched)
    return found


def test_few_reads_fetch_a_body_and_a_grant_finds_chunks_to_send(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_large_delivery, "READ_BYTES", 4 * CHUNK)
    stage, peer = a_stage("journal")
    body = body_of(10 * CHUNK)
    upload(peer, body)
    run(stage)
    reads = reads_of_bodies(monkeypatch)
    peer.consume(credit=1)
    run(stage)
    assert peer.packets(SessionReceiveContinuation) == [], "the headers take the credit"
    assert reads == [(0, 4 * CHUNK)]
    peer.send(SessionConsumerFlowCredit(0, 3 * CHUNK))
    assert len(peer.packets(SessionReceiveContinuation)) == 3, "they are there before the disk does anything"
    run(stage)
    assert reads[1:] == [(4 * CHUNK, 4 * CHUNK)], "and the next portion is read meanwhile"
    peer.send(SessionConsumerFlowCredit(0, -1))
    run(stage)
    assert [got for _start, got in received(peer)] == [body]
    assert reads[2:] == [(8 * CHUNK, 2 * CHUNK)]


def test_many_deliveries_read_less_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """What all of them hold in memory has a limit, as far as one chunk for each allows."""
    monkeypatch.setattr(_large_delivery, "READ_BYTES_OF_ALL", 4 * CHUNK)
    stage, peer = a_stage("journal")
    body = body_of(5 * CHUNK)
    for _ in range(6):
        upload(peer, body)
        run(stage)
    reads = reads_of_bodies(monkeypatch)
    for consumer in range(6):
        peer.consume(consumer=consumer, credit=1)
    run(stage)
    assert [length // CHUNK for _offset, length in reads] == [4, 2, 1, 1, 1, 1]
    for consumer in range(6):
        peer.send(SessionConsumerFlowCredit(consumer, -1))
    run(stage)
    for consumer in range(6):
        assert [got for _start, got in received(peer, consumer)] == [body]


# -- damage -----------------------------------------------------------------------------------------------------------


def damage(stage: Stage, offset: int, data: bytes = b"XX") -> None:
    """Change bytes of the only file of a body behind the broker's back."""
    (name,) = files(stage)
    assert stage.disk is not None
    stage.disk.run((WriteAt(name, offset, (data,)), Sync(name)))


def dead_letters(attempts: int = 5) -> dict[str, AddressSettings]:
    return {"#": AddressSettings(dead_letter_address="dead", max_delivery_attempts=attempts)}


def depth(stage: Stage, queue: str) -> int:
    return stage.node.kernel.address_manager.queues[queue].message_count


def damages(stage: Stage) -> list[str]:
    """Lines about bodies that cannot be delivered, since the last time."""
    return [text for text in stage.warnings() if "the body " in text]


@pytest.mark.parametrize("size", [1, 3 * CHUNK, 1_000_000])
@pytest.mark.parametrize(
    # A file that is too short at the start is found there.
    ("cut", "restarts"),
    [(False, False), (False, True), (True, False)],
    ids=["changed", "changed, restarted", "cut"],
)
def test_damaged_body_is_a_dead_letter_and_closes_its_consumer_alone(size: int, restarts: bool, cut: bool) -> None:
    """Its consumer is closed, with one line; other consumers of the session go on, and so does the queue."""
    stage, peer = a_stage("journal", address_settings=dead_letters())
    peer.create_queue("other")
    upload(peer, body_of(size))
    peer.post("small", durable=True)
    run(stage)
    if cut:
        (name,) = files(stage)
        assert stage.disk is not None
        stage.disk.run((Truncate(name, size - 1), Sync(name)))
    else:
        damage(stage, size // 2)
    if restarts:
        peer = restart(stage)
    peer.consume("other", 1)
    stage.notices.clear()
    peer.consume()
    run(stage)
    assert peer.packets(DisconnectConsumer) == [DisconnectConsumer(0)] and received(peer) == []
    (line,) = damages(stage)
    assert "in queue 'q'" in line and "its consumer is closed: check the disk" in line
    assert ("is cut short" if cut else "its bytes do not fit its checksum") in line
    assert (depth(stage, "q"), depth(stage, "dead"), len(files(stage))) == (1, 1, 1)
    assert peer.state() == "open"
    peer.send(SessionSend(letter("to the other", "other"), False, -1))
    peer.send(SessionConsumerClose(0))
    peer.consume(consumer=2)
    run(stage)
    assert peer.texts == ["to the other", "small"] and damages(stage) == []


def test_acknowledgements_count_until_the_client_closes_the_consumer_of_a_damaged_body() -> None:
    stage, peer = a_stage("journal", address_settings=dead_letters())
    peer.post("before", durable=True)
    upload(peer, body_of(300_000))
    peer.post("behind", durable=True)
    run(stage)
    damage(stage, 1)
    peer.consume()
    run(stage)
    assert peer.texts == ["before"] and peer.packets(DisconnectConsumer) == [DisconnectConsumer(0)]
    peer.send(
        SessionConsumerFlowCredit(0, -1),
        SessionAcknowledge(0, peer.packets(SessionReceiveMessage)[0].message.message_id, True),
    )
    run(stage)
    assert peer.texts == ["before"] and depth(stage, "q") == 1
    peer.send(SessionConsumerClose(0))
    peer.consume(consumer=1)
    run(stage)
    assert peer.texts == ["before", "behind"]


def test_damaged_body_leaves_a_session_that_rolls_back() -> None:
    stage, peer = a_stage("journal", address_settings=dead_letters())
    upload(peer, body_of(300_000))
    run(stage)
    damage(stage, 1)
    taker = stage.connect().open_session(transacted=True)
    taker.consume()
    run(stage)
    taker.send(SessionRollback(False))
    run(stage)
    assert taker.state() == "open" and (depth(stage, "q"), depth(stage, "dead")) == (0, 1)


@pytest.mark.parametrize("attempts", [3, -1])
def test_damaged_dead_letter_has_one_line_whatever_the_number_of_attempts(attempts: int) -> None:
    """It is where dead letters are, so its deliveries are counted as those of any message there."""
    stage, peer = a_stage("journal", address_settings=dead_letters(attempts))
    upload(peer, body_of(300_000))
    run(stage)
    damage(stage, 100_000)
    peer.consume()
    run(stage)
    assert len(damages(stage)) == 1
    for attempt in range(1, 4):
        peer.send(SessionConsumerClose(attempt - 1))
        peer.consume("dead", attempt)
        run(stage)
        assert peer.packets(DisconnectConsumer)[-1] == DisconnectConsumer(attempt)
        assert damages(stage) == [] and depth(stage, "dead") == 1
    counts = [packet.delivery_count for packet in peer.packets(SessionReceiveLarge)]
    assert counts == [1, 1, 2, 3] and peer.state() == "open"
    # After a restart the first attempt is noticed again.
    peer = restart(stage)
    stage.notices.clear()
    peer.consume("dead")
    run(stage)
    assert len(damages(stage)) == 1


def test_damaged_dead_letter_stays_where_the_settings_name_no_address_for_dead_letters_of_its_own() -> None:
    settings = {"q": AddressSettings(dead_letter_address="dead", max_delivery_attempts=5)}
    stage, peer = a_stage("journal", address_settings=settings)
    upload(peer, body_of(300_000))
    run(stage)
    damage(stage, 100_000)
    peer.consume()
    run(stage)
    peer.send(SessionConsumerClose(0))
    peer.consume("dead", 1)
    run(stage)
    assert peer.packets(DisconnectConsumer)[-1] == DisconnectConsumer(1)
    assert (depth(stage, "q"), depth(stage, "dead"), len(files(stage))) == (0, 1, 1)


def test_damaged_body_ends_a_browse_and_stays() -> None:
    stage, peer = a_stage("journal", address_settings=dead_letters())
    upload(peer, body_of(300_000))
    run(stage)
    damage(stage, 1)
    peer.consume(browse=True)
    run(stage)
    assert peer.packets(DisconnectConsumer) == [DisconnectConsumer(0)]
    assert (depth(stage, "q"), depth(stage, "dead")) == (1, 0)


def test_client_that_cannot_be_sent_the_end_of_a_consumer_loses_its_connection() -> None:
    stage, peer = a_stage("journal", address_settings=dead_letters())
    upload(peer, body_of(300_000))
    run(stage)
    damage(stage, 1)
    taker = stage.connect(123).open_session()
    taker.consume()
    run(stage)
    assert "its bytes do not fit its checksum" in taker.state() and depth(stage, "dead") == 1


def test_body_that_cannot_be_read_now_is_delivered_later() -> None:
    """A disk that fails proves nothing about the file: it counts as a failed delivery."""
    stage, peer = a_stage("journal", address_settings=dead_letters())
    body = body_of(300_000)
    upload(peer, body)
    run(stage)
    peer.consume()
    stage.run()
    (work,) = stage.work
    stage.fail_work(work, DiskFault(FaultKind.FAILED, files(stage)[0], "input or output error"))
    run(stage)
    assert peer.packets(DisconnectConsumer) == [DisconnectConsumer(0)]
    assert len([line for line in damages(stage) if "cannot be read at 0" in line]) == 1
    peer.consume(consumer=1)
    run(stage)
    ((start, got),) = received(peer, 1)
    assert got == body and start.delivery_count == 2


def test_body_that_became_longer_is_delivered() -> None:
    stage, peer = a_stage("journal")
    upload(peer, body_of(300_000))
    run(stage)
    damage(stage, 300_000)
    peer = restart(stage)
    peer.consume()
    run(stage)
    assert [got for _start, got in received(peer)] == [body_of(300_000)]


def test_body_that_became_too_short_is_dropped_with_a_line_and_nothing_else() -> None:
    stage, peer = a_stage("journal")
    upload(peer, body_of(300_000))
    peer.post("small", durable=True)
    run(stage)
    (name,) = files(stage)
    assert stage.disk is not None
    stage.disk.run((Truncate(name, 299_999), Sync(name)))
    peer = restart(stage)
    assert len([text for text in stage.warnings() if "its large body is missing or too short" in text]) == 1
    peer.consume()
    run(stage)
    assert peer.texts == ["small"] and received(peer) == [] and files(stage) == []


def test_copies_of_a_message_have_the_checksum_of_its_body() -> None:
    stage, peer = a_stage("journal")
    peer.create_queue("audit")
    wanted = DivertConfiguration("q", "audit", exclusive=False, properties={"k": "v"})
    assert isinstance(stage.node.kernel.diverts.create("d", wanted), Divert)
    body = body_of(300_000)
    upload(peer, body)
    run(stage)
    queues = stage.node.kernel.address_manager.queues
    for name in ("q", "audit"):
        (reference,) = list(queues[name].backlog)
        assert isinstance(reference.message, StoredMessage)
        assert reference.message.body.checksum == crc32(body)


def test_body_of_an_earlier_version_has_no_checksum_and_is_delivered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_upload, "Body", lambda kind, number, size, _checksum: Body(kind, number, size))
    stage, peer = a_stage("journal")
    upload(peer, body_of(300_000))
    run(stage)
    monkeypatch.undo()
    peer = restart(stage)
    peer.consume()
    run(stage)
    assert [got for _start, got in received(peer)] == [body_of(300_000)]


class Work:
    """The disk work of a stage, up to a limit: then the power is cut."""

    def __init__(self, stage: Stage, left: int) -> None:
        self.stage = stage
        self.left = left

    def goes_on(self) -> bool:
        """Do all that waits. Return False at the limit."""
        while self.stage.work:
            if not self.left:
                return False
            self.left -= 1
            self.stage.finish_work(self.stage.work[0])
            self.stage.run()
        return True


#: More pieces of work than an upload, a delivery and an acknowledgement take.
WORKS_MAX = 16


@pytest.mark.parametrize("stops_at", range(1, WORKS_MAX + 1))
def test_power_cut_at_every_moment_of_a_file(stops_at: int) -> None:
    """Files are then those of messages, a confirmed body is whole, and an acknowledged message is gone."""
    body = body_of(3 * CHUNK)
    stage, peer = a_stage("journal")
    work = Work(stage, stops_at)
    lives = True
    for packet in (SessionSendLarge(header()), *chunks(body)):
        peer.send(packet)
        lives = work.goes_on() and lives
    confirmed, is_settling, acknowledged = NullResponse(-5) in peer.clear(), False, False
    if lives:
        peer.consume()
        lives = work.goes_on()
    if lives:
        is_settling = True
        ((start, _body),) = received(peer)
        peer.send(SessionAcknowledge(0, start.message.message_id, True))
        lives = work.goes_on()
        acknowledged = NullResponse(-1) in [packet for _channel, packet in peer.received]
    assert acknowledged or stops_at < WORKS_MAX, "the limit leaves no time for all of it"
    peer = restart(stage)
    run(stage)
    peer.consume()
    run(stage)
    found = received(peer)
    assert len(files(stage)) == len(found)
    assert all(content == body for _start, content in found)
    if confirmed and not is_settling:
        assert len(found) == 1
    if acknowledged:
        assert found == []


# -- moves ------------------------------------------------------------------------------------------------------------


@both
def test_dead_letter_keeps_the_body(kind: str) -> None:
    """Artemis' DeadLetterAddressTest.testLargeMessageFileLeak."""
    stage, peer = a_stage(
        kind, address_settings={"#": AddressSettings(dead_letter_address="dead", max_delivery_attempts=1)}
    )
    body = body_of(3 * CHUNK)
    upload(peer, body)
    run(stage)
    taker = stage.connect().open_session(transacted=True)
    taker.consume()
    run(stage)
    (start, _body) = received(taker)[0]
    taker.send(SessionAcknowledge(0, start.message.message_id, False), SessionRollback(True))
    run(stage)
    assert len(files(stage)) == 1
    peer.clear()
    peer.consume("dead", 1)
    run(stage)
    ((start, got),) = received(peer, 1)
    assert got == body and start.message.address == "dead"
    assert start.message.property("_AMQ_ORIG_ADDRESS") == "q"
    peer.send(SessionAcknowledge(1, start.message.message_id, True))
    run(stage)
    assert files(stage) == []


@both
def test_each_chunk_is_answered_where_that_is_requested(kind: str) -> None:
    """Clients with a confirmation window wait for these answers (vector reattach-large)."""
    stage, peer = a_stage(kind)
    peer.send(SessionSendLarge(header()), SessionSendContinuation(b"one", True, -1, True, 1))
    assert peer.clear() == [NullResponse(1)]
    peer.send(SessionSendContinuation(b"two", False, 6, True, 2))
    run(stage)
    assert peer.clear() == [NullResponse(2)]


@both
def test_answers_are_exceptions_for_chunks_without_a_message(kind: str) -> None:
    _stage, peer = a_stage(kind)
    peer.send(chunks(b"lost")[0])
    assert peer.refusal().code == ErrorCode.ILLEGAL_STATE


@both
def test_scheduled_large_message_waits_for_its_time(kind: str) -> None:
    stage, peer = a_stage(kind)
    peer.consume()
    message = header(_AMQ_SCHED_DELIVERY=stage.now.wall_ms + 5_000)
    body = body_of(3 * CHUNK)
    upload(peer, body, message)
    run(stage)
    assert received(peer) == []
    if kind == "journal":
        peer = restart(stage)
        peer.consume()
        run(stage)
        assert received(peer) == [] and len(files(stage)) == 1
    stage.advance(5.1)
    run(stage)
    assert [got for _start, got in received(peer)] == [body]


@pytest.mark.parametrize("commits", [False, True])
def test_prepared_branch_keeps_its_large_messages_over_a_restart(commits: bool) -> None:
    """12.6: InterruptedLargeMessageTest.testSendPreparedXA."""
    stage, peer = a_stage("journal")
    manager = another(stage)
    body = body_of(3 * CHUNK)
    assert answer(manager, SessionXaStart(xid())) == XaCode.XA_OK
    upload(manager, body)
    run(stage)
    assert answer(manager, SessionXaEnd(xid(), False)) == XaCode.XA_OK
    assert answer(manager, SessionXaPrepare(xid())) == XaCode.XA_OK
    for _ in range(2):
        peer = restart(stage)
        run(stage)
        assert len(files(stage)) == 1
    manager = another(stage)
    ending = SessionXaCommit(xid(), False) if commits else SessionXaRollback(xid())
    assert answer(manager, ending) == XaCode.XA_OK
    run(stage)
    assert len(files(stage)) == commits
    peer.consume()
    run(stage)
    assert [got for _start, got in received(peer)] == ([body] if commits else [])


def test_large_message_expires_then_dies_and_survives_restarts() -> None:
    """12.6: ExpiryLargeMessageTest.testExpiryMessagesThenDLQ: the body is intact at every hop, in one file."""
    settings = AddressSettings(expiry_address="expired", dead_letter_address="dead", max_delivery_attempts=1)
    stage, peer = a_stage("journal", address_settings={"#": settings}, message_expiry_scan_period_ms=500)
    body = body_of(3 * CHUNK)
    message = header()
    upload(peer, body, message.copy_for("q", changes={}, removals=(), expiration=stage.now.wall_ms + 100))
    run(stage)
    (name,) = files(stage)
    stage.advance(2.0)
    run(stage)
    peer = restart(stage)
    run(stage)
    assert files(stage) == [name]
    taker = stage.connect().open_session(transacted=True)
    taker.consume("expired")
    run(stage)
    ((start, got),) = received(taker)
    assert got == body
    taker.send(SessionAcknowledge(0, start.message.message_id, False), SessionRollback(True))
    run(stage)
    peer = restart(stage)
    run(stage)
    assert files(stage) == [name]
    peer.consume("dead")
    run(stage)
    ((start, got),) = received(peer)
    assert got == body and start.message.address == "dead"
    peer.send(SessionAcknowledge(0, start.message.message_id, True))
    run(stage)
    assert files(stage) == []


@both
@pytest.mark.parametrize("exclusive", [False, True])
def test_diverted_large_message_shares_its_body(kind: str, exclusive: bool) -> None:
    stage, peer = a_stage(kind)
    peer.create_queue("audit")
    wanted = DivertConfiguration("q", "audit", exclusive=exclusive, properties={"k": "v"})
    assert isinstance(stage.node.kernel.diverts.create("d", wanted), Divert)
    body = body_of(300_000)
    upload(peer, body, header(colour="red"))
    run(stage)
    assert len(files(stage)) == 1
    peer.clear()
    peer.consume("audit", 1)
    run(stage)
    ((start, got),) = received(peer, 1)
    assert got == body and start.message.address == "audit"
    assert [start.message.property(name) for name in ("k", "colour", "_AMQ_ORIG_QUEUE")] == ["v", "red", "d"]
    peer.send(SessionAcknowledge(1, start.message.message_id, True))
    run(stage)
    assert len(files(stage)) == (0 if exclusive else 1)
    peer.consume("q", 2)
    run(stage)
    for original, whole in received(peer, 2):
        assert whole == body and original.message.property("k") is None and original.message.address == "q"
        peer.send(SessionAcknowledge(2, original.message.message_id, True))
    run(stage)
    assert files(stage) == [] and stage.node.kernel.memory.used_bytes == 0


def test_large_messages_of_a_group_stay_together() -> None:
    stage, peer = a_stage("journal", address_settings={"#": AddressSettings(default_group_first_key="begins")})
    consumers = [stage.connect().open_session(name) for name in ("one", "two")]
    for consumer in consumers:
        consumer.consume()
    for number in range(3):
        upload(peer, body_of(CHUNK, number), header(_AMQ_GROUP_ID="a"))
        run(stage)
    (found,) = [found for consumer in consumers if (found := received(consumer))]
    assert [got for _start, got in found] == [body_of(CHUNK, number) for number in range(3)]
    assert [start.message.property("begins") for start, _got in found] == [True, None, None]
