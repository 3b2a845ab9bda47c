"""Prepared branches outlive the broker: what they sent stays out of sight, what they took stays taken."""

from __future__ import annotations

import pytest

from embedclient.model import XaCode
from embedclient.wire.core import SessionReceiveMessage, SessionXaPrepare, SessionXaResponse

from .branches import committed, in_doubt, prepared, query_count, rolled_back, sent_in, taken_in, xid
from .scripted import Peer, Stage


@pytest.fixture
def stage() -> Stage:
    return Stage(durable=True)


@pytest.fixture
def peer(stage: Stage) -> Peer:
    peer = stage.connect().open_session("s", transacted=True)
    peer.create_queue()
    return peer


def reborn(stage: Stage) -> Peer:
    """A client of the broker's next life, which begins with a crash."""
    stage.boot()
    return stage.connect().open_session("later", transacted=True)


def test_what_a_prepared_branch_sent_is_seen_after_its_commit_in_a_later_life(stage: Stage, peer: Peer) -> None:
    sent_in(peer, 1, "a", "b")
    prepared(peer, 1)
    later = reborn(stage)
    later.consume()
    stage.settle_disk()
    assert later.texts == [] and query_count(later) == 0
    assert in_doubt(later) == {xid(1)}
    assert committed(later, 1) == XaCode.XA_OK
    assert later.texts == ["a", "b"]
    assert in_doubt(later) == set()


def test_what_it_sent_stands_behind_what_came_while_it_was_in_doubt(stage: Stage, peer: Peer) -> None:
    sent_in(peer, 1, "prepared")
    prepared(peer, 1)
    later = reborn(stage)
    later.open_session("plain", channel=11)
    later.post("meanwhile", durable=True, channel=11)
    stage.settle_disk()
    committed(later, 1)
    last = reborn(stage)
    last.consume()
    assert last.texts == ["meanwhile", "prepared"]


def test_what_it_sent_is_gone_after_its_rollback(stage: Stage, peer: Peer) -> None:
    sent_in(peer, 1, "a", "b")
    prepared(peer, 1)
    used = stage.node.kernel.memory.used_bytes
    later = reborn(stage)
    assert stage.node.kernel.memory.used_bytes == used > 0
    assert rolled_back(later, 1) == XaCode.XA_OK
    assert stage.node.kernel.memory.used_bytes == 0
    later.consume()
    assert later.texts == []
    last = reborn(stage)
    assert in_doubt(last) == set() and query_count(last) == 0


def take(stage: Stage, peer: Peer) -> None:
    """Let ``peer`` prepare a branch that took two messages, while a third stays in the queue."""
    peer.open_session("plain", channel=11)
    peer.post("a", "b", durable=True, channel=11)
    stage.settle_disk()
    peer.consume()
    assert taken_in(peer, 1) == ["a", "b"]
    prepared(peer, 1)
    peer.post("c", durable=True, channel=11)
    stage.settle_disk()


def test_what_it_took_is_not_delivered_again_and_counts_as_in_delivery(stage: Stage, peer: Peer) -> None:
    """Artemis' ScheduledMessageTest.testPendingACKOnPrepared."""
    take(stage, peer)
    later = reborn(stage)
    assert query_count(later) == 3
    later.consume()
    assert later.texts == ["c"]
    assert committed(later, 1) == XaCode.XA_OK
    assert query_count(later) == 1
    last = reborn(stage)
    assert query_count(last) == 1
    last.consume()
    assert last.texts == ["c"]


def test_what_it_took_returns_to_its_place_as_redelivered(stage: Stage, peer: Peer) -> None:
    take(stage, peer)
    later = reborn(stage)
    assert rolled_back(later, 1) == XaCode.XA_OK
    later.consume()
    received = later.packets(SessionReceiveMessage)
    assert later.texts == ["a", "b", "c"]
    assert [packet.delivery_count for packet in received] == [2, 2, 1]


def test_a_branch_survives_many_lives_and_comes_back_once_each_time(stage: Stage, peer: Peer) -> None:
    take(stage, peer)
    sent_in(peer, 2, "d")
    prepared(peer, 2)
    later = peer
    for _ in range(3):
        later = reborn(stage)
        assert in_doubt(later) == {xid(1), xid(2)}
        assert query_count(later) == 3
    assert committed(later, 2) == XaCode.XA_OK
    assert rolled_back(later, 1) == XaCode.XA_OK
    assert query_count(later) == 4


def test_a_branch_that_was_not_prepared_is_gone(stage: Stage, peer: Peer) -> None:
    sent_in(peer, 1, "a")
    later = reborn(stage)
    assert in_doubt(later) == set()
    assert committed(later, 1) == XaCode.XAER_NOTA
    assert query_count(later) == 0


def test_an_empty_branch_is_kept_too(stage: Stage, peer: Peer) -> None:
    sent_in(peer, 1)
    prepared(peer, 1)
    later = reborn(stage)
    assert in_doubt(later) == {xid(1)}
    assert committed(later, 1) == XaCode.XA_OK


def test_prepare_and_the_list_of_branches_are_answered_when_they_are_on_disk(stage: Stage, peer: Peer) -> None:
    sent_in(peer, 1, "a")
    peer.send(SessionXaPrepare(xid(1)))
    assert peer.received == []
    stage.settle_disk()
    assert [packet for _channel, packet in peer.received] == [SessionXaResponse(False, 0)]


@pytest.mark.parametrize("decision", [committed, rolled_back])
def test_a_decision_holds_after_a_crash(stage: Stage, peer: Peer, decision: object) -> None:
    assert callable(decision)
    take(stage, peer)
    sent_in(peer, 2, "d")
    prepared(peer, 2)
    assert [decision(peer, 1), decision(peer, 2)] == [XaCode.XA_OK, XaCode.XA_OK]
    later = reborn(stage)
    assert in_doubt(later) == set()
    later.consume()
    assert later.texts == (["c", "d"] if decision is committed else ["a", "b", "c"])
