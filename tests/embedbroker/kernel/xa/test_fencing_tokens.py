"""Markers: compared and set, recorded in the order of decisions."""

from __future__ import annotations

from embedbroker.kernel import FencingToken, FencingTokenMoved, FencingTokenRemoved, Refused
from embedbroker.kernel.xa import _fencing_token as _marker
from tests.embedbroker.kernel.letters import letter
from tests.embedbroker.kernel.stage import Stage


def facts(stage: Stage) -> list[object]:
    return [record[1] for record in stage.store.of_kind("fact")]


def test_a_marker_is_set_by_those_who_know_what_it_is() -> None:
    stage = Stage()
    fencing_tokens = stage.kernel.fencing_tokens
    assert fencing_tokens.get("m") is None
    assert fencing_tokens.set("m", None, 5) is None
    assert fencing_tokens.set("m", 5, 3) is None
    assert fencing_tokens.get("m") == 3
    stage.run()
    first = stage.kernel.ids.next_id - 1
    assert facts(stage) == [FencingToken(first, "m", 5), FencingToken(first, "m", 3)]


def test_a_marker_that_is_something_else_stays_and_says_what_it_is() -> None:
    stage = Stage()
    fencing_tokens = stage.kernel.fencing_tokens
    assert fencing_tokens.set("m", 0, 5) == FencingTokenMoved(None)
    assert fencing_tokens.get("m") is None
    fencing_tokens.set("m", None, 5)
    stage.run()
    assert fencing_tokens.set("m", None, 6) == fencing_tokens.set("m", 4, 6) == FencingTokenMoved(5)
    stage.run()
    assert fencing_tokens.get("m") == 5 and len(facts(stage)) == 1


def test_a_marker_that_was_removed_comes_back_as_another_one() -> None:
    stage = Stage()
    fencing_tokens = stage.kernel.fencing_tokens
    fencing_tokens.set("m", None, 5)
    assert (fencing_tokens.remove("m"), fencing_tokens.remove("m"), fencing_tokens.get("m")) == (5, None, None)
    fencing_tokens.set("m", None, 1)
    stage.run()
    before, end, after = facts(stage)
    assert isinstance(before, FencingToken) and isinstance(after, FencingToken)
    assert end == FencingTokenRemoved(before.id) and after.id != before.id


def test_markers_are_listed_by_the_beginning_of_their_names() -> None:
    fencing_tokens = Stage().kernel.fencing_tokens
    for name in ("b.2", "a", "b.1"):
        fencing_tokens.set(name, None, len(name))
    assert list(fencing_tokens.list("").items()) == [("a", 1), ("b.1", 3), ("b.2", 3)]
    assert fencing_tokens.list("b.") == {"b.1": 3, "b.2": 3}


def test_there_is_a_limit_to_their_number() -> None:
    stage = Stage()
    fencing_tokens = stage.kernel.fencing_tokens
    for number in range(_marker.FENCING_TOKENS_MAX):
        assert fencing_tokens.set(str(number), None, 0) is None
    assert isinstance(fencing_tokens.set("one more", None, 0), Refused)
    assert fencing_tokens.get("one more") is None
    assert fencing_tokens.set("7", 0, 1) is None
    fencing_tokens.remove("0")
    assert fencing_tokens.set("one more", None, 0) is None


def test_records_stand_behind_what_large_requests_left_to_be_recorded() -> None:
    stage = Stage()
    stage.queue("q")
    session = stage.session()
    stage.send(*(letter(str(number), "q", durable=True) for number in range(300)))
    consumer, taker = stage.consumer(session, "q")
    stage.run_all()
    session.settle(consumer.key, taker.messages[-1].message_id, through=True)

    def decide() -> None:
        assert stage.kernel.fencing_tokens.set("m", None, 1) is None

    stage.kernel.deferred.in_turn(decide)
    assert stage.kernel.fencing_tokens.get("m") is None
    stage.run_all(budget=50)
    kinds = [record[0] for record in stage.store.of_kind("acknowledge", "fact")]
    assert kinds == ["acknowledge"] * 300 + ["fact"]
