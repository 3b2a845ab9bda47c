"""Positions are the same in the life that gave them and in all later ones, whatever of a transaction is recorded."""

from __future__ import annotations

import pytest

from embedclient.model import XaCode
from embedclient.wire.core import SessionCommit, SessionXaEnd, SessionXaStart

from .branches import another, answer, committed, prepared, xid
from .scripted import Peer, Stage
from .services import Asker
from .test_cursors import MINE, ask, opened, pinned, texts
from .test_markers import commit_set


@pytest.fixture
def stage() -> Stage:
    stage = Stage(durable=True)
    stage.connect().open_session("first").create_queue()
    return stage


def asker_of(stage: Stage) -> Asker:
    peer = stage.connect()
    return Asker(peer.open_session(), f"replies-{peer.number}")


def waiting(stage: Stage) -> list[tuple[int, str]]:
    backlog = stage.node.kernel.address_manager.queues["q"].backlog
    return [(each.position, bytes(each.message.body).decode()) for each in backlog]  # type: ignore[attr-defined]


def post_mixed(peer: Peer, *texts: str) -> None:
    """Those that begin with an N are not durable."""
    for text in texts:
        peer.post(text, durable=not text.startswith("N"))


def prepare_mixed(stage: Stage, number: int, *texts: str) -> None:
    worker = another(stage, f"worker-{number}")
    assert answer(worker, SessionXaStart(xid(number))) == XaCode.XA_OK
    post_mixed(worker, *texts)
    assert answer(worker, SessionXaEnd(xid(number), False)) == XaCode.XA_OK
    prepared(worker, number)


def assert_kept(stage: Stage, read: list[str], left: list[str]) -> None:
    """A reader is done with the first of what was committed, and finds the others after the next restart."""
    before = waiting(stage)
    asker = asker_of(stage)
    opened(asker, **{"from": 0})
    pin = pinned(asker, 0, rows=len(read))
    assert texts(asker, 0, pin["end"]) == read
    ask(asker, "cursor.acknowledge", **MINE, until=pin["end"])
    stage.boot()
    assert waiting(stage) == [each for each in before if each[1] in left]


def test_what_a_transaction_sent_behind_a_message_that_is_not_durable_keeps_its_position(stage: Stage) -> None:
    peer = stage.connect().open_session("t", transacted=True)
    post_mixed(peer, "N1", "D1", "N2", "D2", "D3")
    peer.send(SessionCommit())
    stage.settle_disk()
    assert_kept(stage, ["N1", "D1", "N2"], ["D2", "D3"])


def test_what_branches_of_a_set_sent_keeps_its_position(stage: Stage) -> None:
    prepare_mixed(stage, 1, "N1", "D1")
    prepare_mixed(stage, 2, "D2", "N2", "D3", "D4")
    assert commit_set(asker_of(stage), 1, 2, 1)[0] == "ok"
    assert [text for _position, text in waiting(stage)] == ["D2", "N2", "D3", "D4", "N1", "D1"]
    assert_kept(stage, ["D2", "N2", "D3"], ["D4", "D1"])


@pytest.mark.parametrize("as_set", [False, True])
def test_a_branch_that_is_committed_in_a_later_life_takes_all_the_positions_that_its_records_name(
    stage: Stage, as_set: bool
) -> None:
    prepare_mixed(stage, 1, "N1", "D1", "N2", "N3", "D2")
    stage.boot()
    stage.boot()
    if as_set:
        assert commit_set(asker_of(stage), 1, 1)[0] == "ok"
    else:
        assert committed(another(stage), 1) == XaCode.XA_OK
    stage.connect().open_session("later").post("D3", durable=True)
    stage.settle_disk()
    positions = [position for position, _text in waiting(stage)]
    assert positions == sorted(set(positions)) and len(positions) == 3
    assert_kept(stage, ["D1"], ["D2", "D3"])
