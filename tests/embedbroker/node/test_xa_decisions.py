"""XA branches that are decided here, without their transaction manager, and what they hold of queues."""

from __future__ import annotations

import pytest

from embedbroker.node import Tick
from embedclient.model import XaCode
from embedclient.wire.core import (
    DeleteQueue,
    SessionXaEnd,
    SessionXaForget,
    SessionXaStart,
)

from .branches import (
    another,
    answer,
    committed,
    in_doubt,
    prepared,
    query_count,
    rolled_back,
    sent_in,
    timed,
    xid,
)
from .scripted import Peer, Stage


@pytest.fixture
def stage() -> Stage:
    return Stage(durable=True)


@pytest.fixture
def peer(stage: Stage) -> Peer:
    peer = stage.connect().open_session("s", transacted=True, xa=True)
    peer.create_queue()
    return peer


@pytest.mark.parametrize("commit", [True, False])
def test_a_decision_here_is_told_until_it_is_forgotten(stage: Stage, peer: Peer, commit: bool) -> None:
    told = XaCode.XA_HEURCOM if commit else XaCode.XA_HEURRB
    sent_in(peer, 1, "a")
    table = stage.node.kernel.branches
    assert not table.decide(xid(1), commit=commit)
    prepared(peer, 1)
    assert table.decide(xid(1), commit=commit)
    assert not table.decide(xid(1), commit=commit)
    stage.step(Tick())
    stage.settle_disk()
    client = peer
    for life in range(2):
        if life:
            stage.boot()
            client = another(stage)
        assert in_doubt(client) == {xid(1)}
        assert committed(client, 1) == rolled_back(client, 1) == told
        assert answer(client, SessionXaStart(xid(1))) == XaCode.XAER_DUPID
        answer(client, SessionXaEnd(xid(1)))
        assert query_count(client) == commit
    assert answer(client, SessionXaForget(xid(1))) == XaCode.XA_OK
    assert answer(client, SessionXaForget(xid(1))) == XaCode.XAER_NOTA
    stage.boot()
    last = another(stage)
    assert in_doubt(last) == set() and committed(last, 1) == XaCode.XAER_NOTA
    assert query_count(last) == commit


def test_a_decision_of_which_only_the_first_record_survived_was_not_made(stage: Stage, peer: Peer) -> None:
    sent_in(peer, 1, "a")
    prepared(peer, 1)
    (branch,) = stage.node.kernel.branches.prepared()
    store = stage.node.kernel.store
    rest = store.commit
    store.commit = lambda transaction_id, positions: None  # type: ignore[method-assign]  # as lost in a crash
    assert stage.node.kernel.branches.decide(branch.xid, commit=True)
    store.commit = rest  # type: ignore[method-assign]
    stage.step(Tick())
    stage.settle_disk()
    stage.boot()
    later = another(stage)
    assert in_doubt(later) == {xid(1)}
    assert stage.node.kernel.branches.outcomes() == []
    assert committed(later, 1) == XaCode.XA_OK
    stage.boot()
    assert in_doubt(another(stage)) == set()


def test_messages_of_a_branch_go_to_no_queue_that_was_deleted(stage: Stage, peer: Peer) -> None:
    sent_in(peer, 1, "a")
    prepared(peer, 1)
    peer.send(DeleteQueue("q"))
    stage.settle_disk()
    stage.boot()
    later = another(stage)
    assert committed(later, 1) == XaCode.XA_OK
    assert stage.node.kernel.memory.used_bytes == 0


def test_a_queue_without_messages_stays_for_what_a_prepared_branch_will_send() -> None:
    stage = Stage(durable=True)
    peer = another(stage)
    assert answer(peer, SessionXaStart(xid(1))) == XaCode.XA_OK
    peer.post("a", durable=True)
    assert answer(peer, SessionXaEnd(xid(1))) == XaCode.XA_OK
    queue = stage.node.kernel.catalog.queues["q"]
    assert queue.definition.auto_delete
    queue.used = True
    prepared(peer, 1)
    timed(stage, 100)
    assert "q" in stage.node.kernel.catalog.queues
    stage.boot()
    later = another(stage)
    timed(stage, 100)
    assert committed(later, 1) == XaCode.XA_OK
    assert query_count(later) == 1
