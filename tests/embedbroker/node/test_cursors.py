"""Cursors as clients ask for them: rows as bytes, refusals, durability, crashes in the middle of an acknowledgement."""

from __future__ import annotations

from struct import Struct
from typing import Any

import pytest

from embedbroker.node import Tick
from embedclient.errors import ErrorCode
from embedclient.wire.core import (
    CoreMessage,
    DeleteQueue,
    ExceptionResponse,
    SessionConsumerFlowCredit,
    SessionCreateConsumer,
)

from .scripted import Stage, text_of
from .services import Asker

HEAD, ROW = Struct("<Iq"), Struct("<IqqqIB3x")
MINE = {"queue": "q", "cursor": "c", "owner": "job"}
ONE = {"queue": "q", "cursor": "c"}


@pytest.fixture
def stage() -> Stage:
    return Stage(durable=True)


def asker_on(stage: Stage, name: str = "s", *, creates: bool = True) -> Asker:
    peer = stage.connect().open_session(name)
    if creates:
        peer.create_queue()
    return Asker(peer, f"replies-{name}")


def ask(asker: Asker, operation: str, **fields: object) -> Any:
    """Ask for something that is granted."""
    correlation_id = asker.put(operation, **fields)
    asker.peer.stage.settle_disk()
    status, body = asker.answer(correlation_id)
    assert status == "ok", body
    return body


def refused(asker: Asker, operation: str, **fields: object) -> tuple[str, Any]:
    correlation_id = asker.put(operation, **fields)
    asker.peer.stage.settle_disk()
    status, body = asker.answer(correlation_id)
    assert status != "ok", body
    return status, body


def post(asker: Asker, *texts: str, durable: bool = True) -> None:
    asker.peer.post(*texts, durable=durable)
    asker.peer.stage.settle_disk()


def rows_of(body: bytes) -> tuple[list[tuple[int, int, int, str]], int]:
    """(position, message id, delivery count, text) of each row, and up to where they are complete."""
    count, reached = HEAD.unpack_from(body)
    rows, at = [], HEAD.size
    for _ in range(count):
        size, position, message_id, wall_ms, delivery_count, encoding = ROW.unpack_from(body, at)
        assert (wall_ms, encoding) == (0, 1)
        message = CoreMessage.parse(bytearray(body[at + ROW.size : at + 4 + size]))
        assert message.message_id == message_id
        rows.append((position, message_id, delivery_count, text_of(message)))
        at += 4 + size
    assert at == len(body)
    return rows, reached


def opened(asker: Asker, **more: object) -> dict[str, int]:
    body: dict[str, int] = ask(asker, "cursor.open", **MINE, lease_ms=10_000, **more)
    return body


def pinned(asker: Asker, start: int, rows: int = 0) -> dict[str, int]:
    body: dict[str, int] = ask(asker, "cursor.pin", **MINE, start=start, max_rows=rows, max_bytes=0)
    return body


def texts(asker: Asker, after: int, until: int, **more: object) -> list[str]:
    rows, reached = rows_of(ask(asker, "cursor.read", **ONE, after=after, until=until, **more))
    assert reached == until
    return [row[3] for row in rows]


def test_rows_are_read_twice_and_acknowledged(stage: Stage) -> None:
    asker = asker_on(stage)
    post(asker, "a", "b", "c")
    assert opened(asker) == {"position": 0, "end": 0, "lease_ms": 10_000, "before": None}
    pin = pinned(asker, 0, rows=2)
    assert (pin["rows"], pin["lost"]) == (2, 0) and pin["bytes"] > 0
    body = ask(asker, "cursor.read", **ONE, after=0, until=pin["end"])
    assert ask(asker, "cursor.read", **ONE, after=0, until=pin["end"]) == body
    rows, reached = rows_of(body)
    assert ([row[3] for row in rows], reached) == (["a", "b"], pin["end"])
    assert all(position == message_id and not count for position, message_id, count, _text in rows)
    assert ask(asker, "cursor.split", **ONE, after=0, until=pin["end"], parts=2) == {
        "bounds": [0, rows[0][0], pin["end"]],
        "rows": [1, 1],
    }
    assert ask(asker, "cursor.acknowledge", **MINE, until=pin["end"]) == {"position": pin["end"]}
    following = pinned(asker, pin["end"])
    assert texts(asker, pin["end"], following["end"]) == ["c"]
    for operation in ("cursor.renew", "cursor.release", "cursor.release", "cursor.remove"):
        assert ask(asker, operation, **MINE) == {"position": pin["end"]}
    assert refused(asker, "cursor.renew", **MINE)[0] == "no-such-cursor"


def test_a_large_range_comes_in_several_replies(stage: Stage) -> None:
    asker = asker_on(stage)
    post(asker, *[str(number) for number in range(30)])
    opened(asker)
    end, reached, seen = pinned(asker, 0)["end"], 0, list[str]()
    while reached < end:
        rows, reached = rows_of(ask(asker, "cursor.read", **ONE, after=reached, until=end, max_bytes=1000))
        seen += [row[3] for row in rows]
        assert 0 < len(rows) < 30
    assert seen == [str(number) for number in range(30)]


@pytest.mark.parametrize(
    ("operation", "fields", "status", "says"),
    [
        ("cursor.open", {**MINE, "queue": "none", "lease_ms": 1}, "no-such-queue", "queue 'none' does not exist"),
        ("cursor.open", {**MINE, "lease_ms": 0}, "bad-request", "field 'lease_ms' has to be from 1 to 86400000"),
        ("cursor.open", {**MINE, "lease_ms": 1, "from": "middle"}, "bad-request", "field 'from'"),
        ("cursor.open", {**MINE, "lease_ms": 1, "from": True}, "bad-request", "field 'from'"),
        ("cursor.open", {**MINE, "lease_ms": 1, "take_over": 1}, "bad-request", "field 'take_over'"),
        ("cursor.open", {**MINE, "lease_ms": 1, "owner": "another"}, "held", "is 'job''s"),
        ("cursor.open", {**MINE, "lease_ms": 1, "cursor": "second"}, "held", "has another cursor, 'c'"),
        ("cursor.pin", {**MINE, "start": 1, "max_rows": 0, "max_bytes": 0}, "bad-request", "start: 1 is not between"),
        ("cursor.pin", {**MINE, "start": 0, "max_rows": -1, "max_bytes": 0}, "bad-request", "field 'max_rows'"),
        ("cursor.pin", {**MINE, "owner": "x", "start": 0, "max_rows": 0, "max_bytes": 0}, "lost-lease", "is 'job''s"),
        ("cursor.acknowledge", {**MINE, "until": 1}, "bad-request", "until: 1 is not between"),
        ("cursor.read", {**ONE, "after": 0, "until": 1}, "not-pinned", "(0, 1] is not inside"),
        ("cursor.read", {**ONE, "after": 0, "until": 0, "max_bytes": 1 << 30}, "bad-request", "field 'max_bytes'"),
        ("cursor.read", {**ONE, "cursor": "d", "after": 0, "until": 0}, "no-such-cursor", "has no cursor 'd'"),
        ("cursor.split", {**ONE, "after": 0, "until": 0, "parts": 0}, "bad-request", "field 'parts'"),
        ("cursor.split", {**ONE, "after": 0, "until": 9, "parts": 1}, "not-pinned", "(0, 9] is not inside"),
        ("cursor.renew", {**MINE, "owner": "x"}, "lost-lease", "is 'job''s"),
        ("cursor.remove", {**MINE, "owner": "x"}, "lost-lease", "is 'job''s"),
        ("cursor.release", {**ONE}, "bad-request", "field 'owner' is missing"),
    ],
)
def test_what_is_refused_says_why(
    stage: Stage, operation: str, fields: dict[str, object], status: str, says: str
) -> None:
    asker = asker_on(stage)
    opened(asker)
    answer, body = refused(asker, operation, **fields)
    assert (answer, says in body["text"]) == (status, True), body
    assert ask(asker, "cursor.renew", **MINE) == {"position": 0}
    if status in ("held", "lost-lease"):
        assert (body["owner"], body["lease_ms"]) == ("job", 10_000)


def test_consumers_and_removal_are_refused_and_browsers_are_not(stage: Stage) -> None:
    asker = asker_on(stage)
    post(asker, "a")
    opened(asker)
    peer = stage.connect().open_session("other")
    peer.send(SessionCreateConsumer(1, "q", None, False, True), DeleteQueue("q"))
    for packet in peer.clear():
        assert isinstance(packet, ExceptionResponse)
        assert packet.code == ErrorCode.ILLEGAL_STATE and "is read by cursor 'c' of 'job'" in str(packet.message)
    peer.consume("q", 2, browse=True)
    assert peer.texts == ["a"]
    stage.advance(10)
    peer.clear()
    peer.send(SessionCreateConsumer(1, "q", None, False, True), SessionConsumerFlowCredit(1, -1))
    stage.settle_disk()
    assert peer.texts == ["a"]
    assert refused(asker, "cursor.renew", **MINE)[0] == "lost-lease"
    assert refused(asker, "cursor.open", **MINE, lease_ms=1)[0] == "in-use"


def test_an_answer_is_seen_when_what_it_says_is_durable(stage: Stage) -> None:
    asker = asker_on(stage)
    other = asker_on(stage, "other", creates=False)
    post(asker, "a")
    correlation_id = asker.put("cursor.open", **MINE, lease_ms=10_000)
    asker.hear()
    assert asker.answers == {}
    stage.settle_disk()
    assert asker.answer(correlation_id)[0] == "ok"
    end = pinned(asker, 0)["end"]
    correlation_id = asker.put("cursor.acknowledge", **MINE, until=end)
    asker.hear()
    assert asker.answers == {}
    # What is read is durable already, and others do not wait.
    assert other.ask("cursor.read", **ONE, after=end, until=end)[0] == "ok"
    stage.settle_disk()
    assert asker.answer(correlation_id) == ("ok", {"position": end})


def test_a_cursor_survives_and_its_lease_begins_anew(stage: Stage) -> None:
    asker = asker_on(stage)
    post(asker, "a", "b", "c")
    post(asker, "gone", durable=False)
    opened(asker)
    first, end = pinned(asker, 0, rows=1)["end"], pinned(asker, 0)["end"]
    ask(asker, "cursor.acknowledge", **MINE, until=first)
    stage.advance(9)
    stage.boot()
    asker = asker_on(stage, "again", creates=False)
    stage.advance(9)
    assert texts(asker, first, end) == ["b", "c"]
    assert refused(asker, "cursor.open", **{**MINE, "owner": "x"}, lease_ms=1)[0] == "held"
    assert opened(asker) == {"position": first, "end": end, "lease_ms": 10_000, "before": "job"}
    again = pinned(asker, first)
    assert (again["end"], again["rows"], again["lost"]) == (end, 2, 1)
    ask(asker, "cursor.remove", **MINE)
    stage.boot()
    asker = asker_on(stage, "third", creates=False)
    assert refused(asker, "cursor.renew", **MINE)[0] == "no-such-cursor"
    assert [queue["messages"] for queue in ask(asker, "queue.list", pattern="q")["queues"]] == [2]


def test_an_auto_created_queue_that_is_empty_stays_over_a_restart_while_somebody_reads_it(stage: Stage) -> None:
    asker = asker_on(stage)
    queue = stage.node.kernel.address_manager.queues["q"]
    assert not queue.definition.auto_delete
    asker.peer.send(SessionCreateConsumer(5, "auto", None, False, False))
    stage.settle_disk()
    ask(asker, "cursor.open", queue="q", cursor="c", owner="job", lease_ms=1000)
    stage.boot()
    assert stage.node.kernel.address_manager.queues["q"].cursor is not None


@pytest.mark.parametrize("synced", range(4))
def test_a_crash_while_many_are_acknowledged_undoes_all_or_nothing(synced: int) -> None:
    """The record of the cursor stands first. Whatever of the others is lost leaves after the restart."""
    stage = Stage(durable=True, work_per_step_max=30)
    asker = asker_on(stage)
    count = 3_000
    post(asker, *[str(number) for number in range(count)])
    opened(asker)
    end = pinned(asker, 0)["end"]
    asker.put("cursor.acknowledge", **MINE, until=end)
    journal = stage.node.journal
    assert journal is not None
    point = journal.point()
    for _ in range(synced):
        while not stage.work:
            stage.step(Tick())
        stage.finish_work(stage.work[0])
    is_safe = journal.reached >= point
    assert is_safe == (synced > 0)
    assert stage.node.kernel.address_manager.queues["q"].message_count, "the crash comes in the middle"
    stage.boot()
    asker = asker_on(stage, "again", creates=False)
    standing = opened(asker)
    messages = stage.node.kernel.address_manager.queues["q"].message_count
    if is_safe:
        assert (standing["position"], messages) == (end, 0)
    else:
        assert (standing["position"], messages) == (0, count)
    assert pinned(asker, standing["position"])["lost"] == 0
    stage.boot()
    assert stage.node.kernel.address_manager.queues["q"].message_count == messages
