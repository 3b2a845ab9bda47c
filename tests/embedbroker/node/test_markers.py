"""Markers and commit sets as clients ask for them: answers that hold, whenever the broker dies."""

from __future__ import annotations

import json
from typing import Any

import pytest

from embedbroker.kernel import FencingTokenMoved
from embedclient.model import XaCode
from embedclient.wire.core import SessionAcknowledge, SessionReceiveMessage, SessionXaEnd

from .branches import another, answer, committed, in_doubt, prepared, query_count, sent_in, taken_in, xid
from .crash_points import Moment, WatchedStage
from .large_work import WorkStage, lines_of
from .scripted import Peer, Stage
from .services import Asker

SEGMENT_BYTES = 64 * 1024


def named(number: int) -> dict[str, object]:
    """A branch as requests name it."""
    branch = xid(number)
    return {
        "format": branch.format_id,
        "global": branch.global_transaction_id.hex(),
        "branch": branch.branch_qualifier.hex(),
    }


def asker_of(stage: Stage, name: str = "asker") -> Asker:
    return Asker(stage.connect().open_session(name), f"replies of {name}")


def settled(asker: Asker, operation: str, **fields: object) -> tuple[str, Any]:
    """Ask, and let the disk finish."""
    number = asker.put(operation, **fields)
    asker.peer.stage.settle_disk()
    return asker.answer(number)


def put_set(asker: Asker, value: int, *numbers: int, expected: int | None = None) -> str:
    branches = [named(number) for number in numbers]
    return asker.put("commit-set", marker="m", expected=expected, value=value, branches=branches)


def commit_set(asker: Asker, value: int, *numbers: int, expected: int | None = None) -> tuple[str, Any]:
    number = put_set(asker, value, *numbers, expected=expected)
    asker.peer.stage.settle_disk()
    return asker.answer(number)


@pytest.fixture
def stage() -> Stage:
    stage = Stage(durable=True)
    stage.connect().open_session("first").create_queue()
    return stage


def prepare(peer: Peer, number: int, *texts: str) -> None:
    sent_in(peer, number, *texts)
    prepared(peer, number)


def test_a_marker_is_answered_when_it_is_durable_and_outlives_the_broker(stage: Stage) -> None:
    asker = asker_of(stage)
    number = asker.put("marker.set", name="m", expected=None, value=5)
    asker.hear()
    assert not asker.answers
    stage.settle_disk()
    assert asker.answer(number) == ("ok", {"value": 5})
    stage.boot()
    asker = asker_of(stage)
    assert asker.ask("marker.get", name="m") == ("ok", {"value": 5})
    assert settled(asker, "marker.remove", name="m") == ("ok", {"value": 5})
    stage.boot()
    assert asker_of(stage).ask("marker.get", name="m") == ("ok", {"value": None})


def test_nobody_is_told_of_a_marker_that_is_not_durable_yet(stage: Stage) -> None:
    one, other = asker_of(stage), asker_of(stage, "other")
    one.put("marker.set", name="m", expected=None, value=5)
    asked = [
        other.put("marker.get", name="m"),
        other.put("marker.list", prefix=""),
        other.put("marker.set", name="m", expected=None, value=6),
    ]
    other.hear()
    assert not other.answers
    stage.settle_disk()
    get, listed, refused = (other.answer(number) for number in asked)
    assert get == ("ok", {"value": 5}) and listed == ("ok", {"markers": {"m": 5}})
    assert refused == ("moved", {"text": "marker.set: marker 'm' is 5", "value": 5})


def test_a_marker_is_set_to_any_number_of_64_bits(stage: Stage) -> None:
    asker = asker_of(stage)
    low, high = -(1 << 63), (1 << 63) - 1
    assert settled(asker, "marker.set", name="m", expected=None, value=low) == ("ok", {"value": low})
    assert settled(asker, "marker.set", name="m", expected=low, value=high) == ("ok", {"value": high})
    stage.boot()
    assert asker_of(stage).ask("marker.get", name="m") == ("ok", {"value": high})


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"value": 1 << 63}, f"field 'value' has to be from {-(1 << 63)} to {(1 << 63) - 1}"),
        ({"value": 1.0}, "field 'value' has to be an integer, not 1.0"),
        ({"value": True}, "field 'value' has to be an integer, not true"),
        ({"value": None}, "field 'value' has to be an integer, not null"),
        ({"expected": "0"}, "field 'expected' has to be an integer, not \"0\""),
        ({"name": ""}, "field 'name' must not be empty"),
        ({"name": "é" * 513}, "field 'name' may have 1024 bytes of UTF-8 at most"),
    ],
)
def test_a_marker_request_that_makes_no_sense_names_the_field(
    stage: Stage, fields: dict[str, object], says: str
) -> None:
    asker = asker_of(stage)
    status, body = settled(asker, "marker.set", **{"name": "m", "expected": None, "value": 1} | fields)
    assert status == "bad-request" and says in body["text"]
    assert asker.ask("marker.list", prefix="") == ("ok", {"markers": {}})


@pytest.mark.parametrize(
    ("branches", "says"),
    [
        ({}, "field 'branches' has to be a list"),
        ([named(0)] * 10_001, "10001 branches in a set, which may have 10000"),
        ([1], "field 'branches[0]' has to be an object of format, global and branch, not 1"),
        ([named(0), {"format": 1, "global": ""}], "field 'branches[1]' has to be an object"),
        ([{**named(0), "format": 1 << 31}], "field 'branches[0].format' has to be from"),
        ([{**named(0), "global": "0"}], "field 'branches[0].global' has to be hexadecimal"),
        ([{**named(0), "branch": 7}], "field 'branches[0].branch' has to be hexadecimal"),
        ([{**named(0), "branch": "00" * 65}], "of 64 bytes at most"),
        ([named(0), named(1), named(0)], "field 'branches[2]' stands there twice"),
    ],
)
def test_a_set_that_makes_no_sense_names_the_field(stage: Stage, branches: object, says: str) -> None:
    asker = asker_of(stage)
    text = json.dumps({"operation": "commit-set", "marker": "m", "expected": None, "value": 1, "branches": branches})
    number = asker.put_text(text)
    stage.settle_disk()
    status, body = asker.answer(number)
    assert status == "bad-request" and says in body["text"]


def test_a_set_commits_branches_of_several_clients(stage: Stage) -> None:
    for number, text in ((1, "a"), (2, "b")):
        prepare(another(stage, f"t{number}"), number, text)
    asker = asker_of(stage)
    put = put_set(asker, 7, 2, 1)
    asker.hear()
    assert not asker.answers
    stage.settle_disk()
    assert asker.answer(put) == ("ok", {"result": "committed", "value": 7})
    reader = another(stage, "reader")
    reader.consume()
    stage.settle_disk()
    assert reader.texts == ["b", "a"] and in_doubt(reader) == set()
    assert asker.ask("marker.get", name="m") == ("ok", {"value": 7})


def test_a_set_that_comes_again_in_a_later_life_is_a_replay(stage: Stage) -> None:
    worker = another(stage)
    prepare(worker, 1, "a")
    assert commit_set(asker_of(stage), 7, 1)[0] == "ok"
    prepare(worker, 2, "a again")
    stage.boot()
    asker = asker_of(stage)
    assert commit_set(asker, 7, 1, 2) == ("ok", {"result": "replayed", "value": 7})
    reader = another(stage, "reader")
    assert in_doubt(reader) == set() and query_count(reader) == 1
    stage.boot()
    reader = another(stage, "reader")
    assert in_doubt(reader) == set() and query_count(reader) == 1


def test_a_set_is_refused_with_the_marker_or_the_branch_that_is_wrong(stage: Stage) -> None:
    worker, asker = another(stage), asker_of(stage)
    prepare(worker, 1, "a")
    status, body = commit_set(asker, 7, 1, 2)
    assert status == "no-such-branch" and body["branch"] == named(2) and "is not known" in body["text"]
    sent_in(worker, 2, "b")
    status, body = commit_set(asker, 7, 1, 2)
    assert status == "not-prepared" and body["branch"] == named(2) and "is idle, not prepared" in body["text"]
    assert commit_set(asker, 7, 1, expected=6) == (
        "moved",
        {"text": "commit-set: marker 'm' is not there", "value": None},
    )
    assert in_doubt(worker) == {xid(1)} and query_count(worker) == 0
    assert committed(worker, 1) == XaCode.XA_OK


def test_a_marker_is_set_behind_a_commit_set_that_came_before_and_is_that_in_a_later_life(stage: Stage) -> None:
    prepare(another(stage), 1, "a")
    asker = asker_of(stage)
    assert settled(asker, "marker.set", name="m", expected=None, value=3)[0] == "ok"
    done: list[object] = []
    stage.node.kernel.commit_sets.commit("m", 4, 5, [xid(1)], done.append)
    number = asker.put("marker.set", name="m", expected=3, value=4)
    stage.settle_disk()
    assert done == [FencingTokenMoved(3)]
    assert asker.answer(number) == ("ok", {"value": 4})
    stage.boot()
    assert asker_of(stage).ask("marker.get", name="m") == ("ok", {"value": 4})


def test_a_branch_that_was_prepared_in_an_earlier_life_is_committed_with_what_it_took(stage: Stage) -> None:
    worker = another(stage)
    worker.open_session("plain", channel=11)
    worker.post("old", durable=True, channel=11)
    worker.consume()
    stage.settle_disk()
    assert taken_in(worker, 1) == ["old"]
    prepared(worker, 1)
    prepare(worker, 2, "new")
    stage.boot()
    assert commit_set(asker_of(stage), 1, 1, 2)[0] == "ok"
    stage.boot()
    reader = another(stage, "reader")
    reader.consume()
    stage.settle_disk()
    assert reader.texts == ["new"] and query_count(reader) == 1


def test_a_set_is_there_with_its_marker_or_not_at_all_wherever_the_disk_stops() -> None:
    stage = WatchedStage(SEGMENT_BYTES)
    stage.connect().open_session("first").create_queue()
    for number in range(3):
        prepare(another(stage, f"t{number}"), number, f"{number}.a", f"{number}.b")
    asker = asker_of(stage)
    assert settled(asker, "marker.set", name="m", expected=None, value=3)[0] == "ok"
    moments: list[Moment] = []
    told: list[bool] = []

    def look(operation: object) -> None:
        asker.hear()
        assert stage.disk is not None
        told.append(bool(asker.answers))
        moments.append(Moment(len(moments), "set", (), operation, stage.disk.copy()))  # type: ignore[arg-type]

    stage.look = look
    put = put_set(asker, 4, 0, 1, 2, expected=3)
    stage.settle_disk()
    look(None)
    assert asker.answers[put] == ("ok", {"result": "committed", "value": 4})
    found = {
        (is_told, state_of(moment, *way)) for moment, is_told in zip(moments, told, strict=True) for way in moment.ways
    }
    before, after = (3, 3, 0), (4, 0, 6)
    assert found == {(False, before), (False, after), (True, after)}


def state_of(moment: Moment, way: str, cut: int) -> tuple[object, int, int]:
    """What a broker has that starts then: the marker, branches in doubt, and messages that can be seen."""
    stage = WatchedStage(SEGMENT_BYTES, moment.held(way, cut))
    reader = another(stage, "reader")
    return asker_of(stage).ask("marker.get", name="m")[1]["value"], len(in_doubt(reader)), query_count(reader)


def test_a_large_set_is_looked_up_and_carried_out_in_turns_and_decided_in_one() -> None:
    """In lines of Python. That one step costs a millisecond for eight hundred branches."""
    few, many = (largest_step_of(count, again=False) for count in (400, 1200))
    assert many - few <= 30 * (1200 - 400)


def test_a_large_set_that_comes_again_takes_its_turns() -> None:
    few, many = (largest_step_of(count, again=True) for count in (400, 1200))
    assert many <= 1.5 * few


def largest_step_of(count: int, *, again: bool) -> float:
    stage = WorkStage(work_per_step_max=50)
    stage.connect().open_session("first").create_queue()
    asker = asker_of(stage)
    if again:
        assert settled(asker, "marker.set", name="m", expected=None, value=1)[0] == "ok"
    worker = another(stage)
    for number in range(count):
        prepare(worker, number, str(number))
        worker.clear()
    put = put_set(asker, 1, *range(count))
    stage.measure = lines_of
    stage.costs.clear()
    stage.settle_disk()
    assert asker.answer(put)[1]["result"] == ("replayed" if again else "committed")
    return max(stage.costs)


def test_a_large_branch_in_a_set_takes_its_turns_and_the_answer_comes_at_once() -> None:
    stage = WorkStage(work_per_step_max=50)
    peer = another(stage)
    peer.create_queue()
    plain = stage.connect().open_session("plain")
    plain.post(*map(str, range(600)), durable=True)
    stage.settle_disk()
    peer.consume()
    stage.settle_disk()
    last = peer.packets(SessionReceiveMessage)[-1].message.message_id
    peer.clear()
    sent_in(peer, 1, *(f"new {number}" for number in range(600)), end=False)
    peer.send(SessionAcknowledge(0, last, False))
    assert answer(peer, SessionXaEnd(xid(1))) == XaCode.XA_OK
    prepared(peer, 1)
    asker = asker_of(stage)
    assert commit_set(asker, 1, 1) == ("ok", {"result": "committed", "value": 1})
    assert query_count(peer) == 600
