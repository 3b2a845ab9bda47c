"""Messages that came back in large numbers: what one more or one less costs does not depend on how many there are."""

from __future__ import annotations

import pytest

from embedbroker.kernel import Message
from embedbroker.kernel.queueing import _redelivered as _returned
from embedbroker.kernel.queueing._backlog import Backlog, Bookmark, Reference
from embedbroker.protocols import restore_message
from tests.embedbroker.kernel.cost import cost_of
from tests.embedbroker.kernel.letters import letter, text_of

PLENTY = 1_000_000


def returned(texts: list[str]) -> Backlog:
    """A backlog in which everything has come back."""
    backlog = Backlog(restore_message)
    kinds = {text: letter(text) for text in texts}
    for position, text in enumerate(texts, 1):
        backlog.give_back(Reference(kinds[text], position))
    return backlog


def test_redelivery_costs_the_same_after_a_small_and_a_large_rollback() -> None:
    def lines_per_message(count: int) -> float:
        backlog = returned(["a"] * count)

        def take_all() -> None:
            for expected in range(1, count + 1):
                assert backlog.pop().position == expected

        return cost_of(take_all).lines / count

    assert lines_per_message(30_000) < 1.1 * lines_per_message(3_000)


def test_messages_that_come_back_between_others_are_put_there_without_moving_all() -> None:
    """Two consumers had every second message each, and both are lost."""

    def lines_per_message(count: int) -> float:
        entries = _returned.Redelivered()
        message = letter("a")
        for position in range(0, 2 * count, 2):
            entries.add(Reference(message, position))

        def give_back_others() -> None:
            for position in range(1, 2 * count, 2):
                entries.add(Reference(message, position))

        lines = cost_of(give_back_others).lines
        # One more or one less moves what stands in its chunk, and nothing else.
        assert max(map(len, entries.chunks)) < 2 * _returned.CHUNK_ENTRIES
        assert [entries.pop_first().position for _ in range(2 * count)] == list(range(2 * count))
        return lines / count

    assert lines_per_message(20_000) < 1.1 * lines_per_message(2_000)


class Watched:
    """A filter that counts what it is asked."""

    def __init__(self, wanted: str) -> None:
        self.wanted = wanted
        self.asked = 0

    def __call__(self, message: Message) -> bool:
        self.asked += 1
        return text_of(message) == self.wanted


def take_all(backlog: Backlog, watched: Watched, budget: int) -> list[int]:
    """Take until nothing matches; returns the positions."""
    cursor = Bookmark()
    taken: list[int] = []
    while True:
        before = watched.asked
        reference, left = backlog.take_matching(cursor, watched, budget)
        assert watched.asked - before <= budget + 1
        if reference is not None:
            taken.append(reference.position)
        elif left > 0:
            return taken


@pytest.mark.parametrize("budget", [1, 7, PLENTY])
def test_a_filter_is_asked_once_about_each_message_that_came_back(budget: int) -> None:
    texts = ["a"] * 1500 + ["x", "a"] * 250
    watched = Watched("x")
    backlog = returned(texts)
    assert take_all(backlog, watched, budget) == list(range(1501, 2000, 2))
    assert watched.asked <= len(texts) + 250
    assert backlog.size == 1750


def test_a_filter_that_is_through_looks_only_at_what_changed() -> None:
    texts = ["a"] * 3000
    backlog, watched, cursor = returned(texts), Watched("x"), Bookmark()
    assert backlog.take_matching(cursor, watched, PLENTY)[0] is None
    backlog.give_back(Reference(letter("x"), 0))
    watched.asked = 0
    found, _left = backlog.take_matching(cursor, watched, PLENTY)
    assert found is not None and found.position == 0
    assert watched.asked == 1
    # What stood beside it is looked at again, nothing else.
    assert backlog.take_matching(cursor, watched, PLENTY)[0] is None
    assert watched.asked <= 1 + 2 * _returned.CHUNK_ENTRIES


def test_a_filter_gets_on_while_messages_keep_coming_back_before_it() -> None:
    backlog, watched, cursor = returned(["a"] * 1000 + ["x"]), Watched("x"), Bookmark()
    for round_number in range(1100):
        found, _left = backlog.take_matching(cursor, watched, 1)
        if found is not None:
            assert found.position == 1001
            return
        backlog.give_back(Reference(letter("a"), -round_number))
    raise AssertionError("it never got there")


def test_many_that_came_back_are_removed_one_chunk_after_the_other() -> None:
    backlog = returned(["a", "x"] * 2000)
    asked = 0

    def doomed(reference: Reference) -> bool:
        nonlocal asked
        asked += 1
        return text_of(reference.message) == "x"

    removal = backlog.remove_if(doomed)
    removed = 0
    for entry in removal:
        if entry is not None:
            removed += 1
        else:
            assert asked <= 2 * _returned.CHUNK_ENTRIES, "more than a chunk in one go"
            asked = 0
    assert removed == 2000 == backlog.size


def test_what_is_taken_while_a_removal_waits_is_not_removed_again() -> None:
    backlog = returned(["a"] * 1000)
    removal = backlog.remove_if(lambda _reference: True)
    removed = []
    popped = []
    for entry in removal:
        if entry is not None:
            removed.append(entry.position)
        if backlog.size and entry is not None:
            popped.append(backlog.pop().position)
    assert sorted(removed + popped) == list(range(1, 1001))
    assert backlog.size == 0


def test_a_browser_walks_through_many_that_came_back() -> None:
    backlog, cursor = returned(["a"] * 2000), Bookmark()
    seen = []
    while (found := backlog.browse(cursor, PLENTY)[0]) is not None:
        seen.append(found.position)
    assert seen == list(range(1, 2001))
