"""Waiting messages: order, returns, filtered takes, browsing while things change, deep chunks, removal."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator

import pytest

from embedbroker.kernel import Message
from embedbroker.kernel.queueing import _backlog
from embedbroker.kernel.queueing._backlog import Backlog, Bookmark, PackedReference, Reference
from embedbroker.kernel.queueing._chunk import Chunk, OpenChunk, SealedChunk
from embedbroker.protocols import restore_message
from tests.embedbroker.kernel.letters import letter, text_of

PLENTY = 1_000_000


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of four: sealing begins with the 37th message."""
    monkeypatch.setattr(_backlog, "CHUNK_ENTRIES", 4)


def filled(texts: Iterable[str], priority: int = 4) -> Backlog:
    backlog = Backlog(restore_message)
    for position, text in enumerate(texts, 1):
        backlog.append(Reference(letter(text, priority=priority), position))
    return backlog


def numbers(count: int) -> list[str]:
    return [str(number) for number in range(1, count + 1)]


def popped(backlog: Backlog) -> Iterator[str]:
    while backlog.size:
        yield text_of(backlog.pop().message)


def take(backlog: Backlog, cursor: Bookmark, *texts: str, budget: int = PLENTY) -> str | None:
    found, _left = backlog.take_matching(cursor, lambda message: text_of(message) in texts, budget)
    return None if found is None else text_of(found.message)


def browsed(backlog: Backlog, cursor: Bookmark) -> list[str]:
    seen: list[str] = []
    while True:
        found, _left = backlog.browse(cursor, PLENTY)
        if found is None:
            return seen
        seen.append(text_of(found.message))


def test_priorities_go_first_and_keep_their_order_inside() -> None:
    backlog = Backlog(restore_message)
    for position, (text, priority) in enumerate([("a", 4), ("b", 9), ("c", 0), ("d", 4), ("e", 9)], 1):
        backlog.append(Reference(letter(text, priority=priority), position))
    assert [text_of(reference.message) for reference in backlog] == ["b", "e", "a", "d", "c"]
    assert list(popped(backlog)) == ["b", "e", "a", "d", "c"]
    assert backlog.size == 0


def test_what_comes_back_stands_where_it_stood() -> None:
    backlog = filled("abcdef")
    first, second, third = backlog.pop(), backlog.pop(), backlog.pop()
    for reference in (third, first, second):
        backlog.give_back(reference)
    assert backlog.size == 6
    assert list(popped(backlog)) == list("abcdef")


def test_what_comes_back_to_an_empty_backlog_is_found() -> None:
    backlog = filled("a", priority=7)
    reference = backlog.pop()
    backlog.give_back(reference)
    assert backlog.pop() is reference


def test_a_filtered_take_leaves_the_others_in_order() -> None:
    backlog = filled("axbxcx")
    cursor = Bookmark()
    assert [take(backlog, cursor, "x") for _ in range(4)] == ["x", "x", "x", None]
    assert list(popped(backlog)) == ["a", "b", "c"]


def test_a_filtered_take_sees_what_comes_later() -> None:
    backlog = filled("ab")
    cursor = Bookmark()
    assert take(backlog, cursor, "x") is None
    backlog.append(Reference(letter("x"), 3))
    assert take(backlog, cursor, "x") == "x"


def test_a_filtered_take_prefers_what_was_returned_if_it_stood_before() -> None:
    backlog = filled("xaxx")
    cursor = Bookmark()
    first, _left = backlog.take_matching(cursor, lambda message: text_of(message) == "x", PLENTY)
    assert first is not None and first.position == 1
    backlog.give_back(first)
    second, _left = backlog.take_matching(cursor, lambda message: text_of(message) == "x", PLENTY)
    assert second is first
    third, _left = backlog.take_matching(cursor, lambda message: text_of(message) == "x", PLENTY)
    assert third is not None and third.position == 3


def test_a_filtered_take_does_not_overtake_because_its_budget_ended() -> None:
    backlog = filled(["x", *["a"] * 10, "x", "x"])
    taken = [backlog.pop() for _ in range(13)]
    for reference in taken[:12]:
        backlog.append(reference)
    backlog.give_back(taken[12])
    cursor = Bookmark()
    found: list[int] = []
    while backlog.size > 10:
        matching, left = backlog.take_matching(cursor, lambda message: text_of(message) == "x", 2)
        assert matching is not None or left == 0
        if matching is not None:
            found.append(matching.position)
    assert found == [1, 12, 13]


def test_a_filtered_take_gets_through_more_returned_messages_than_its_budget() -> None:
    backlog = filled(["a"] * 50 + ["x"])
    for reference in [backlog.pop() for _ in range(50)]:
        backlog.give_back(reference)
    cursor = Bookmark()
    tries = 0
    while take(backlog, cursor, "x", budget=5) is None:
        tries += 1
        assert tries < 20


def test_looking_costs_budget() -> None:
    backlog = filled(["a"] * 10)
    found, left = backlog.take_matching(Bookmark(), lambda _message: False, 4)
    assert (found, left) == (None, 0)
    found, left = backlog.take_matching(Bookmark(), lambda _message: False, 40)
    assert (found, left) == (None, 30)


def test_a_browser_sees_everything_once_and_takes_nothing() -> None:
    backlog = filled("abc")
    cursor = Bookmark()
    assert browsed(backlog, cursor) == ["a", "b", "c"]
    assert browsed(backlog, cursor) == []
    backlog.append(Reference(letter("d"), 4))
    assert browsed(backlog, cursor) == ["d"]
    assert backlog.size == 4


def test_a_browser_is_not_shown_a_message_twice_because_it_was_returned() -> None:
    backlog = filled("abc")
    cursor = Bookmark()
    first, _left = backlog.browse(cursor, PLENTY)
    assert first is not None
    backlog.give_back(backlog.pop())
    assert browsed(backlog, cursor) == ["b", "c"]


def test_a_browser_sees_returned_messages_at_their_place() -> None:
    backlog = filled("abcd")
    taken = [backlog.pop() for _ in range(4)]
    for index in (3, 1):
        backlog.give_back(taken[index])
    backlog.append(Reference(letter("e"), 5))
    assert browsed(backlog, Bookmark()) == ["b", "d", "e"]


def test_a_browser_survives_that_what_it_looks_at_is_taken(small_chunks: None) -> None:
    backlog = filled(numbers(20))
    cursor = Bookmark()
    assert [text_of(backlog.browse(cursor, PLENTY)[0].message) for _ in range(3)] == ["1", "2", "3"]  # type: ignore[union-attr]
    for _ in range(10):
        backlog.pop()
    assert browsed(backlog, cursor) == numbers(20)[10:]


def test_deep_chunks_are_sealed_and_come_back_whole(small_chunks: None) -> None:
    backlog = filled(numbers(200))
    assert backlog.statistics().sealed_chunks > 30
    assert [text_of(reference.message) for reference in backlog] == numbers(200)
    assert list(popped(backlog)) == numbers(200)


def test_the_collector_stops_tracking_sealed_messages(small_chunks: None, monkeypatch: pytest.MonkeyPatch) -> None:
    seal, sealed = OpenChunk.sealed, list[tuple[PackedReference, ...]]()

    def noted(chunk: OpenChunk) -> Chunk:
        found = seal(chunk)
        assert isinstance(found, SealedChunk)
        sealed.append(found.entries)
        return found

    monkeypatch.setattr(OpenChunk, "sealed", noted)
    backlog = filled(numbers(200))
    assert backlog.statistics().sealed_chunks == len(sealed)
    gc.collect()
    gc.collect()  # a tuple is looked at before what is in it
    assert sealed and not any(gc.is_tracked(each) for entries in sealed for each in (entries, *entries))


def test_sealing_keeps_delivery_counts_positions_and_ids(small_chunks: None) -> None:
    backlog = Backlog(restore_message)
    for number in range(1, 101):
        message = letter(str(number))
        message.assign_id(1000 + number)
        backlog.append(Reference(message, number, delivery_count=number % 3))
    for number in range(1, 101):
        reference = backlog.pop()
        assert (reference.position, reference.delivery_count) == (number, number % 3)
        assert reference.message.message_id == 1000 + number


def test_sealed_chunks_with_gaps_stay_open(small_chunks: None) -> None:
    backlog = filled(numbers(24))
    cursor = Bookmark()
    assert take(backlog, cursor, "18") == "18"
    for number in range(25, 90):
        backlog.append(Reference(letter(str(number)), number))
    assert list(popped(backlog)) == [text for text in numbers(89) if text != "18"]


def test_filtered_takers_alone_leave_no_chunks_behind(small_chunks: None) -> None:
    backlog = filled(["stuck"])
    cursor = Bookmark()
    for position in range(2, 400):
        backlog.append(Reference(letter("x"), position))
        assert take(backlog, cursor, "x") == "x"
    assert backlog.statistics().entries <= 12
    assert browsed(backlog, Bookmark()) == ["stuck"]
    assert list(popped(backlog)) == ["stuck"]


def test_loading_fills_a_priority_at_once(small_chunks: None) -> None:
    def entry(position: int) -> PackedReference:
        message = letter(str(position), priority=2)
        return (position, 1, 0, message.encoding, bytes(message.raw), position, False)

    backlog = Backlog(restore_message)
    backlog.load(2, [tuple(entry(position) for position in range(1, 11))])
    backlog.append(Reference(letter("urgent", priority=8), 11))
    backlog.append(Reference(letter("last", priority=2), 12))
    assert backlog.size == 12
    assert list(popped(backlog)) == ["urgent", *numbers(10), "last"]


def test_a_last_chunk_that_was_opened_takes_new_messages(small_chunks: None) -> None:
    backlog = Backlog(restore_message)
    message = letter("1", priority=2)
    backlog.load(2, [tuple((position, 0, 0, 1, bytes(message.raw), position, False) for position in (1, 2))])
    backlog.pop()
    backlog.append(Reference(letter("3", priority=2), 3))
    statistics = backlog.statistics()
    assert (statistics.open_chunks, statistics.sealed_chunks, statistics.entries) == (1, 0, 3)


def test_an_emptied_chunk_between_others_keeps_ranges_in_order(small_chunks: None) -> None:
    backlog = filled(["a"] * 4 + ["x"] * 4 + ["a"] * 8)
    cursor = Bookmark()
    while take(backlog, cursor, "x"):
        pass
    for position in range(17, 70):
        backlog.append(Reference(letter("a"), position))
    everything = [*range(1, 5), *range(9, 70)]
    assert [packed[0] for packed in backlog.behind(-1, 100, 1000)] == everything
    assert [packed[0] for packed in backlog.behind(6, 100, 1000)] == everything[4:]
    assert backlog.count(3, 100) == len(everything) - 3


def test_removal_pauses_between_chunks_and_takes_exactly_what_is_doomed(small_chunks: None) -> None:
    backlog = filled(["a", "x"] * 30)
    backlog.give_back(backlog.pop())
    removed = list(backlog.remove_if(lambda reference: text_of(reference.message) == "x"))
    assert sum(entry is not None for entry in removed) == 30
    assert removed.count(None) >= 10
    assert list(popped(backlog)) == ["a"] * 30


def test_removal_goes_on_while_messages_come_and_go(small_chunks: None) -> None:
    backlog = filled(["a", "x"] * 20)
    removal = backlog.remove_if(lambda reference: text_of(reference.message) == "x")
    removed = 0
    position = 41
    for entry in removal:
        if entry is not None:
            removed += 1
            continue
        if backlog.size:
            backlog.pop()
        backlog.append(Reference(letter("a"), position))
        position += 1
        assert position < 200
        if position > 60:
            break
    rest = sum(entry is not None for entry in removal)
    assert "x" not in list(popped(backlog))
    assert removed + rest <= 20


def test_removal_by_expiration_leaves_sealed_chunks_sealed(small_chunks: None) -> None:
    backlog = filled(numbers(100))
    sealed = backlog.statistics().sealed_chunks
    assert sealed
    assert not any(backlog.remove_if(lambda reference: False, expired_before=1000))
    assert backlog.statistics().sealed_chunks == sealed


def test_removal_finds_expired_messages_in_sealed_chunks(small_chunks: None) -> None:
    backlog = Backlog(restore_message)
    for position in range(1, 101):
        expiration = 500 if position % 10 == 0 else 0
        backlog.append(Reference(letter(str(position), expiration=expiration), position))

    def expired(reference: Reference) -> bool:
        return 0 < reference.message.expiration <= 1000

    removed = [entry for entry in backlog.remove_if(expired, expired_before=1000) if entry is not None]
    assert [entry.position for entry in removed] == list(range(10, 101, 10))
    assert backlog.size == 90


def test_a_removed_backlog_can_be_filled_again(small_chunks: None) -> None:
    backlog = filled(numbers(30))
    cursor, browser = Bookmark(), Bookmark()
    assert take(backlog, cursor, "12") == "12"
    assert len(browsed(backlog, browser)) == 29
    assert sum(entry is not None for entry in backlog.remove_if(lambda _reference: True)) == 29
    backlog.append(Reference(letter("31"), 31))
    assert browsed(backlog, browser) == ["31"]
    assert take(backlog, cursor, "31") == "31"
    assert backlog.size == 0


def test_messages_are_restored_with_the_given_function(small_chunks: None) -> None:
    calls: list[int] = []

    def restore(encoding: int, raw: bytes | bytearray) -> Message:
        calls.append(encoding)
        return restore_message(encoding, raw)

    backlog = Backlog(restore)
    for position in range(1, 61):
        backlog.append(Reference(letter(str(position)), position))
    assert calls == []
    assert list(popped(backlog)) == numbers(60)
    assert len(calls) == 28 and set(calls) == {1}
