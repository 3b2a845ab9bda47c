"""The backlog beside a plain list that is sorted for every question."""

from __future__ import annotations

from copy import deepcopy

import pytest
from attrs import define, field
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from embedbroker.kernel.queueing import _backlog
from embedbroker.kernel.queueing import _redelivered as _returned
from embedbroker.kernel.queueing._backlog import Backlog, Bookmark, Reference
from embedbroker.protocols import restore_message
from tests.embedbroker.kernel.letters import letter, text_of

COLOURS = ("red", "green", "blue")
colours = st.sampled_from(COLOURS)
budgets = st.sampled_from([1, 3, 10_000])


@define(eq=False)
class Model:
    """(minus priority, position, colour) of everything that waits."""

    waiting: list[tuple[int, int, str]] = field(factory=list)

    def first(self, colour: str | None = None) -> tuple[int, int, str] | None:
        return min((entry for entry in self.waiting if colour in (None, entry[2])), default=None)


def entry_of(reference: Reference) -> tuple[int, int, str]:
    return (-reference.message.priority, reference.position, text_of(reference.message))


class BacklogBesideModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(_backlog, "CHUNK_ENTRIES", 3)
        self.patch.setattr(_returned, "CHUNK_ENTRIES", 2)
        self.backlog = Backlog(restore_message)
        self.model = Model()
        self.position = 0
        self.taken: list[Reference] = []
        self.cursors = {colour: Bookmark() for colour in COLOURS}
        self.browser = Bookmark()
        self.browsed: set[int] = set()

    def teardown(self) -> None:
        self.patch.undo()

    @rule(priority=st.sampled_from([0, 4, 9]), colour=colours, count=st.integers(1, 40))
    def append(self, priority: int, colour: str, count: int) -> None:
        for _ in range(count):
            self.position += 1
            self.backlog.append(Reference(letter(colour, priority=priority), self.position))
            self.model.waiting.append((-priority, self.position, colour))

    @precondition(lambda self: self.model.waiting)
    @rule(count=st.integers(1, 20))
    def pop(self, count: int) -> None:
        for _ in range(min(count, self.backlog.size)):
            reference = self.backlog.pop()
            assert entry_of(reference) == self.model.first()
            self.take(reference)

    @rule(colour=colours, budget=budgets)
    def take_matching(self, colour: str, budget: int) -> None:
        reference, left = None, 0
        while reference is None and left <= 0:
            reference, left = self.backlog.take_matching(
                self.cursors[colour], lambda message: text_of(message) == colour, budget
            )
        expected = self.model.first(colour)
        assert (None if reference is None else entry_of(reference)) == expected
        if reference is not None:
            self.take(reference)

    @rule(reader=colours, colour=colours)
    def look_again(self, reader: str, colour: str) -> None:
        """A reader that wants something else from now on goes back to the first of that."""
        cursor = deepcopy(self.cursors[reader])
        passed: list[Reference] = []
        for priority in (0, 4, 9):
            places = [position for level, position, text in self.model.waiting if (level, text) == (-priority, colour)]
            if places:
                self.backlog.rewind(cursor, priority, min(places))
        reference, _left = self.backlog.take_matching(
            cursor, lambda message: text_of(message) == colour, 10_000, passed.append
        )
        assert (None if reference is None else entry_of(reference)) == self.model.first(colour)
        assert all(text_of(each.message) != colour for each in passed)
        if reference is not None:
            self.take(reference)

    def take(self, reference: Reference) -> None:
        self.model.waiting.remove(entry_of(reference))
        self.taken.append(reference)

    @precondition(lambda self: self.taken)
    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        for _ in range(data.draw(st.integers(1, len(self.taken)))):
            reference = self.taken.pop(data.draw(st.integers(0, len(self.taken) - 1)))
            self.backlog.give_back(reference)
            self.model.waiting.append(entry_of(reference))

    @rule(colour=colours)
    def remove(self, colour: str) -> None:
        removed = [
            entry_of(entry)
            for entry in self.backlog.remove_if(lambda reference: text_of(reference.message) == colour)
            if entry is not None
        ]
        assert sorted(removed) == sorted(entry for entry in self.model.waiting if entry[2] == colour)
        self.model.waiting = [entry for entry in self.model.waiting if entry[2] != colour]

    @rule(data=st.data(), limit=st.sampled_from([1, 4, 1000]))
    def look_at_a_range(self, data: st.DataObject, limit: int) -> None:
        """Portion by portion: what is in it, by position, and as many as counting finds."""
        after = data.draw(st.integers(-1, self.position))
        until = data.draw(st.integers(after, self.position + 1))
        seen: list[int] = []
        reached = after
        while portion := self.backlog.behind(reached, until, limit):
            seen += [entry[0] for entry in portion]
            reached = seen[-1]
        assert seen == sorted(position for _, position, _ in self.model.waiting if after < position <= until)
        assert self.backlog.count(after, until) == len(seen)
        positions = [position for _, position, _ in self.model.waiting]
        assert self.backlog.last_position >= max(positions, default=0)

    @rule(data=st.data())
    def take_through(self, data: st.DataObject) -> None:
        """Nothing up to a position is left, and everything behind it."""
        until = data.draw(st.integers(0, self.position))
        taken: list[int] = []
        while portion := self.backlog.take_through(until):
            taken += [entry[0] for entry in portion]
        assert sorted(taken) == sorted(position for _, position, _ in self.model.waiting if position <= until)
        self.model.waiting = [entry for entry in self.model.waiting if entry[1] > until]

    @rule(data=st.data(), colour=colours)
    def remove_what_is_not_exempt(self, data: st.DataObject, colour: str) -> None:
        exempt = data.draw(st.integers(-1, self.position))
        doomed = self.backlog.remove_if(
            lambda reference: text_of(reference.message) == colour, exempt_through=lambda: exempt
        )
        removed = [entry_of(entry) for entry in doomed if entry is not None]
        expected = [entry for entry in self.model.waiting if entry[2] == colour and entry[1] > exempt]
        assert sorted(removed) == sorted(expected)
        self.model.waiting = [entry for entry in self.model.waiting if entry not in expected]

    @rule()
    def append_late(self) -> None:
        """An observer got a message and sent another one before it was put here."""
        self.position += 2
        for position in (self.position, self.position - 1):
            self.backlog.append(Reference(letter("red"), position))
            self.model.waiting.append((-4, position, "red"))

    @rule(budget=budgets, steps=st.integers(1, 30))
    def browse(self, budget: int, steps: int) -> None:
        """A browser never sees anything twice, nor anything that does not wait."""
        for _ in range(steps):
            reference, _left = self.backlog.browse(self.browser, budget)
            if reference is not None:
                assert entry_of(reference) in self.model.waiting
                assert reference.position not in self.browsed
                self.browsed.add(reference.position)

    @rule()
    def browse_anew(self) -> None:
        cursor = Bookmark()
        seen = []
        while True:
            reference, _left = self.backlog.browse(cursor, 10_000)
            if reference is None:
                break
            seen.append(entry_of(reference))
        assert seen == sorted(self.model.waiting)

    @invariant()
    def sizes_agree(self) -> None:
        assert self.backlog.size == len(self.model.waiting)
        self.backlog.check()

    @rule()
    def iterate(self) -> None:
        assert [entry_of(reference) for reference in self.backlog] == sorted(self.model.waiting)


TestBacklogBesideModel = BacklogBesideModel.TestCase
TestBacklogBesideModel.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
