"""XA branches and duplicate ids, line by line of the checklist."""

from __future__ import annotations

import pytest

from embedclient.model import XaCode
from embedclient.wire.core import (
    SessionSend,
    SessionXaEnd,
    SessionXaPrepare,
    SessionXaRollback,
    SessionXaStart,
)
from tests.embedbroker.kernel.stage import ANYCAST
from tests.embedbroker.kernel.stage import Stage as KernelStage
from tests.embedbroker.kernel.transactions.test_duplicate_ids import send
from tests.embedbroker.node.branches import (
    another,
    answer,
    committed,
    fill,
    in_doubt,
    prepared,
    query_count,
    sent_in,
    taken_in,
    xid,
)
from tests.embedbroker.node.managing import manager_of
from tests.embedbroker.node.scripted import Stage
from tests.embedbroker.node.test_duplicate_ids import identified, queued


@pytest.fixture
def stage() -> Stage:
    stage = Stage(durable=True)
    stage.connect().open_session("first").create_queue()
    stage.settle_disk()
    return stage


def test_send_prepare_doesnt_rollback_on_close(stage: Stage) -> None:
    """12.5.1: given a prepared branch, when its session is closed, then another session commits it."""
    sender = another(stage, "sender")
    sent_in(sender, 1, "a", "b")
    prepared(sender, 1)
    sender.lose()
    stage.settle_disk()
    other = another(stage, "other")
    assert query_count(other) == 0
    assert committed(other, 1) == XaCode.XA_OK
    reader = stage.connect().open_session("reader")
    reader.consume()
    stage.settle_disk()
    assert reader.texts == ["a", "b"]


def test_restart_with_tx_prepare_deleted_queue(stage: Stage) -> None:
    """12.5.2: given a prepared acknowledgement, when its queue is deleted, then the broker starts again."""
    fill(stage, "m1")
    peer = another(stage, "taker")
    peer.consume()
    stage.settle_disk()
    assert taken_in(peer, 1) == ["m1"]
    prepared(peer, 1)
    peer.lose()
    manager_of(stage).call("broker", "destroyQueue", "q")
    for _ in range(2):
        stage.boot()
    later = another(stage, "later")
    assert in_doubt(later) == {xid(1)}
    assert committed(later, 1) == XaCode.XA_OK
    stage.boot()
    assert stage.node.kernel.memory.used_bytes == 0
    assert "q" not in stage.node.kernel.address_manager.queues


def test_change_xid(stage: Stage) -> None:
    """12.5.8: given work in a branch, when another one is started without an end, then the first is rolled back."""
    peer = another(stage)
    sent_in(peer, 1, "lost", end=False)
    sent_in(peer, 2, "kept")
    assert committed(peer, 2, one_phase=True) == XaCode.XA_OK
    assert answer(peer, SessionXaPrepare(xid(1))) == XaCode.XAER_NOTA
    reader = stage.connect().open_session("reader")
    reader.consume()
    stage.settle_disk()
    assert reader.texts == ["kept"]


def test_shrink_cache() -> None:
    """12.5.12: given ids, when the broker restarts with a smaller cache, then the newest are refused."""
    stage = Stage(durable=True, id_cache_size=5)
    peer = stage.connect().open_session("first")
    peer.create_queue()
    peer.send(*[SessionSend(identified(str(number), str(number)), False) for number in range(5)])
    stage.settle_disk()
    smaller = Stage(durable=True, id_cache_size=2, start=False)
    smaller.disk = stage.disk
    smaller.boot()
    peer = smaller.connect().open_session("second")
    for number in (4, 3):
        peer.send(SessionSend(identified("again", str(number)), False))
    smaller.settle_disk()
    assert queued(smaller) == ["0", "1", "2", "3", "4"]
    peer.send(SessionSend(identified("0 again", "0"), False))
    smaller.settle_disk()
    assert queued(smaller) == ["0", "1", "2", "3", "4", "0 again"]


def test_duplicate_id_cache_memory_retention_for_temporary_queues() -> None:
    """12.5.13: given temporary queues with ids, when they are removed, then their ids are gone."""
    stage = KernelStage()
    for number in range(20):
        queue = stage.queue(f"reply-{number}", temporary=True)
        send(stage, "m", b"id", address=queue.name, routing_type=ANYCAST)
        assert stage.kernel.duplicates.used_bytes > 0
        stage.kernel.teardown.delete_queue(queue)
        assert stage.kernel.duplicates.used_bytes == 0
    stage.assert_empty()


def test_xa_duplicate_detection_prepare_and_rollback(stage: Stage) -> None:
    """12.5.14: given an id in a prepared branch, when that is rolled back, then the id is accepted."""
    peer = another(stage)

    def send_in(number: int) -> None:
        assert answer(peer, SessionXaStart(xid(number))) == XaCode.XA_OK
        peer.send(SessionSend(identified(f"in {number}", "id"), False))
        assert answer(peer, SessionXaEnd(xid(number))) == XaCode.XA_OK

    send_in(1)
    prepared(peer, 1)
    assert answer(peer, SessionXaRollback(xid(1))) == XaCode.XA_OK
    assert queued(stage) == []
    send_in(2)
    prepared(peer, 2)
    assert committed(peer, 2) == XaCode.XA_OK
    assert queued(stage) == ["in 2"]
