"""Large XA branches: bounded steps, and all or nothing whenever the broker dies."""

from __future__ import annotations

from random import Random

import pytest

from embedbroker.node import Command, CommandKind, DecideBranch, Tick
from embedclient.model import XaCode
from embedclient.wire.core import (
    NullResponse,
    Packet,
    SessionAcknowledge,
    SessionReceiveMessage,
    SessionSend,
    SessionXaCommit,
    SessionXaEnd,
    SessionXaForget,
    SessionXaInDoubtXids,
    SessionXaInDoubtXidsResponse,
    SessionXaPrepare,
    SessionXaResponse,
    SessionXaRollback,
    SessionXaStart,
    encode_packet,
)

from .branches import answer, in_doubt, query_count, xid
from .scripted import CHANNEL, Peer, Stage, letter

MANY = 400
WORK = 50
XA_OK = SessionXaResponse(False, 0)


def filled() -> Stage:
    """A broker with many messages in ``q``."""
    stage = Stage(durable=True, work_per_step_max=WORK)
    peer = stage.connect().open_session()
    peer.create_queue()
    peer.create_queue("out")
    peer.post(*(f"{number}" for number in range(MANY)), durable=True)
    stage.settle_disk()
    peer.lose()
    return stage


def worker(stage: Stage) -> Peer:
    peer = stage.connect().open_session(transacted=True)
    stage.settle_disk()
    return peer


def begin(stage: Stage) -> tuple[Peer, bytes]:
    """A session that was given everything, and the frames that take it and send as many messages, in a branch."""
    peer = worker(stage)
    peer.consume()
    stage.settle_disk()
    deliveries = peer.packets(SessionReceiveMessage)
    assert len(deliveries) == MANY
    peer.clear()
    packets = [
        SessionXaStart(xid()),
        *[SessionSend(letter(f"new {number}", "out", durable=True), False) for number in range(MANY)],
        SessionAcknowledge(0, deliveries[-1].message.message_id, False),
        SessionXaEnd(xid()),
    ]
    return peer, b"".join(encode_packet(packet, CHANNEL, 136) for packet in packets)


def counts(stage: Stage) -> tuple[int, int]:
    peer = worker(stage)
    found = query_count(peer, "q"), query_count(peer, "out")
    peer.lose()
    return found


def work_for_a_while(stage: Stage, random: Random) -> None:
    """Part of what there is to do, on disk and in memory."""
    for _ in range(random.randrange(30)):
        if stage.work and random.random() < 0.5:
            stage.finish_work(stage.work[0])
        elif (deadline := stage.node.next_deadline()) is not None and deadline <= stage.seconds:
            stage.step(Tick())


def test_answers_come_behind_the_acknowledgements_of_the_branch() -> None:
    stage = filled()
    peer, frames = begin(stage)
    requests = [SessionXaPrepare(xid()), SessionXaCommit(xid(), False)]
    peer.send_bytes(frames + b"".join(encode_packet(request, CHANNEL, 136) for request in requests))
    # Start and end promise nothing that has to be on disk.
    assert peer.clear() == [XA_OK] * 2
    stage.settle_disk()
    assert peer.clear() == [XA_OK] * 2
    assert counts(stage) == (0, MANY)
    stage.boot()
    assert counts(stage) == (0, MANY)


def test_another_session_may_decide_while_acknowledgements_are_on_their_way() -> None:
    stage = filled()
    other = worker(stage)
    peer, frames = begin(stage)
    peer.send_bytes(frames)
    other.send(SessionXaPrepare(xid()))
    other.send(SessionXaRollback(xid()))
    stage.settle_disk()
    assert other.clear() == [XA_OK] * 2
    assert len(peer.packets(SessionReceiveMessage)) == MANY
    assert counts(stage) == (MANY, 0)


@pytest.mark.parametrize("seed", range(60))
def test_a_crash_at_any_point_leaves_all_of_it_or_nothing(seed: int) -> None:
    random = Random(seed)
    stage = filled()
    assert stage.disk is not None
    peer, frames = begin(stage)
    peer.send_bytes(frames)
    peer.send(SessionXaPrepare(xid()))
    work_for_a_while(stage, random)
    confirmed = peer.clear().count(XA_OK) == 3
    stage.disk.crash(random)
    stage.boot()
    stage.settle_disk()
    peer = worker(stage)
    if in_doubt(peer) == set():
        assert not confirmed
        assert counts(stage) == (MANY, 0)
        return
    decision, decided = random.choice(
        [(SessionXaCommit(xid(), False), (0, MANY)), (SessionXaRollback(xid()), (MANY, 0))]
    )
    assert counts(stage) == (MANY, 0)
    peer.send(decision)
    work_for_a_while(stage, random)
    confirmed = peer.clear() == [XA_OK]
    stage.disk.crash(random)
    stage.boot()
    peer = worker(stage)
    if in_doubt(peer):
        assert not confirmed
        assert counts(stage) == (MANY, 0)
        assert answer(peer, decision) == XaCode.XA_OK
    assert counts(stage) == decided
    # And what comes back of it can be consumed.
    peer.consume("q" if decided[0] else "out")
    stage.settle_disk()
    texts = [str(number) for number in range(MANY)]
    assert peer.texts == (texts if decided[0] else [f"new {text}" for text in texts])


def test_a_prepared_branch_comes_back_in_slices() -> None:
    stage = filled()
    peer, frames = begin(stage)
    peer.send_bytes(frames)
    stage.settle_disk()
    assert answer(peer, SessionXaPrepare(xid())) == XaCode.XA_OK
    stage.boot(start=False)
    stage.step(Command(CommandKind.START))
    while stage.work:
        stage.finish_work(stage.work[0])
    table = stage.node.kernel.branches
    steps = 0
    while not stage.ready:
        assert table.in_doubt() == []
        if stage.work:
            stage.finish_work(stage.work[0])
        else:
            stage.step(Tick())
        steps += 1
    # Locks, messages that are taken, messages that were sent.
    assert steps >= 3 * MANY / WORK
    assert table.in_doubt() == [xid()]


def test_a_large_commit_lets_others_go_on() -> None:
    stage = filled()
    peer, frames = begin(stage)
    peer.send_bytes(frames)
    stage.settle_disk()
    answer(peer, SessionXaPrepare(xid()))
    other = worker(stage)
    peer.send(SessionXaCommit(xid(), False))
    while stage.work:
        stage.finish_work(stage.work[0])
    steps = 0
    while (deadline := stage.node.next_deadline()) is not None and deadline <= stage.seconds:
        assert query_count(other, "out") <= (steps + 1) * 2 * WORK
        steps += 1
    stage.settle_disk()
    assert steps >= MANY / WORK / 2
    assert counts(stage) == (0, MANY)
    assert NullResponse(-1) not in peer.clear()


def until_told(stage: Stage, peer: Peer) -> list[Packet]:
    """Return the answer to a client, once it is sent; then the broker loses what the disk had not synced."""
    assert stage.disk is not None
    while not (told := peer.clear()):
        if stage.work:
            stage.finish_work(stage.work[0])
        else:
            stage.step(Tick())
    stage.disk.crash(Random(1))
    stage.boot()
    return told


def prepared_by_another() -> tuple[Stage, Peer]:
    """A branch whose prepare waits behind its acknowledgements, and a session that had nothing to do with it."""
    stage = filled()
    other = worker(stage)
    peer, frames = begin(stage)
    peer.send_bytes(frames)
    peer.send(SessionXaPrepare(xid()))
    return stage, other


@pytest.mark.parametrize(
    "question", [SessionXaCommit(xid(), False), SessionXaRollback(xid())], ids=lambda each: each.TYPE
)
@pytest.mark.parametrize(("commit", "told"), [(True, XaCode.XA_HEURCOM), (False, XaCode.XA_HEURRB)])
def test_a_decision_here_is_told_when_it_is_on_the_disk(commit: bool, told: XaCode, question: Packet) -> None:
    stage, other = prepared_by_another()
    stage.step(DecideBranch(1, xid(), commit))
    other.send(question)
    (answered,) = until_told(stage, other)
    assert isinstance(answered, SessionXaResponse) and answered.code == told
    assert answer(worker(stage), question) == told
    assert counts(stage) == ((0, MANY) if commit else (MANY, 0))


def test_that_a_branch_is_prepared_is_told_to_others_when_it_is_on_the_disk() -> None:
    stage, other = prepared_by_another()
    other.send(SessionXaPrepare(xid()))
    assert until_told(stage, other) == [XA_OK]
    assert in_doubt(worker(stage)) == {xid()}


@pytest.mark.parametrize("decided", [False, True], ids=["prepared", "decided here"])
def test_branches_in_doubt_are_listed_when_they_are_on_the_disk(decided: bool) -> None:
    stage, other = prepared_by_another()
    if decided:
        stage.step(DecideBranch(1, xid(), True))
    other.send(SessionXaInDoubtXids())
    assert until_told(stage, other) == [SessionXaInDoubtXidsResponse((xid(),))]
    assert in_doubt(worker(stage)) == {xid()}


def test_a_decision_that_is_forgotten_before_it_is_on_the_disk_stays_forgotten() -> None:
    stage, other = prepared_by_another()
    stage.step(DecideBranch(1, xid(), True))
    other.send(SessionXaForget(xid()))
    assert until_told(stage, other) == [XA_OK]
    assert in_doubt(worker(stage)) == set()
    assert counts(stage) == (0, MANY)
