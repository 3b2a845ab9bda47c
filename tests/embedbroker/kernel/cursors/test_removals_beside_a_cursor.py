"""A reader by ranges, and removals in portions beside it, in random order: nothing pinned leaves or changes."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from embedbroker.kernel import Leaving, Outcome
from tests.embedbroker.kernel.cursors.test_cursors import cursors, opened, pinned, read, send
from tests.embedbroker.kernel.letters import text_of
from tests.embedbroker.kernel.stage import Stage

ROUNDS = 120


class Run:
    """One random order of steps. Each message is read once, or removed; one with another priority is read, too."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.stage = Stage()
        self.queue = self.stage.queue("q")
        self.stage.queue("other")
        self.sent = 0
        self.read: list[str] = []
        self.removed: list[str] = []
        self.start = self.end = 0
        self.rows: list[str] = []
        self.removals: list[Iterator[None]] = []
        opened(self.stage)

    def send(self) -> None:
        count = self.random.choice((1, 5, 90))
        send(self.stage, *[str(self.sent + number) for number in range(count)], priority=self.random.choice((4, 9)))
        self.sent += count

    def pin(self) -> None:
        pin = pinned(self.stage, self.start, self.random.choice((1, 20, 0)))
        assert pin.lost == 0
        rows = self.look(pin.end)
        assert rows[: len(self.rows)] == self.rows, "the range changed"
        assert len(rows) == pin.rows
        self.end, self.rows = pin.end, rows

    def look(self, end: int) -> list[str]:
        rows, after = [], self.start
        while after < end:
            found, after = read(self.stage, after, end)
            rows += found
        return rows

    def acknowledge(self) -> None:
        assert self.look(self.end) == self.rows
        cursors(self.stage).acknowledge("q", "c", "job", self.end)
        self.stage.run_all()
        self.read += self.rows
        self.start, self.rows = self.end, []

    def begin_removal(self) -> None:
        self.removals.append(self.random.choice((self.remove, self.move, self.change_priority))())

    def go_on(self) -> None:
        for _ in range(self.random.choice((1, 10, 200))):
            if not self.removals:
                return
            removal = self.random.choice(self.removals)
            if next(removal, self) is self:
                self.removals.remove(removal)

    def remove(self) -> Iterator[None]:
        for reference in self.stage.kernel.teardown.take_waiting(self.queue):
            if reference is not None:
                self.removed.append(text_of(reference.message))
                self.stage.kernel.removal.leave(self.queue, (reference,), Leaving.REMOVED)
            yield

    def move(self) -> Iterator[None]:
        kernel = self.stage.kernel
        for reference in kernel.teardown.take_waiting(self.queue):
            if reference is not None:
                self.removed.append(text_of(reference.message))
                kernel.mover.move(self.queue, reference, "other", Outcome.ACCEPTED, None)
                self.stage.run_all()
            yield

    def change_priority(self) -> Iterator[None]:
        kernel = self.stage.kernel
        for reference in kernel.teardown.take_waiting(self.queue):
            if reference is not None:
                kernel.mover.change_priority(self.queue, reference, self.random.choice((0, 9)))
                self.stage.run_all()
            yield


@pytest.mark.parametrize("seed", range(15))
def test_nothing_pinned_leaves_or_changes_while_messages_are_removed(seed: int) -> None:
    run = Run(seed)
    for _ in range(ROUNDS):
        run.random.choice((run.send, run.pin, run.pin, run.acknowledge, run.begin_removal, run.go_on, run.go_on))()
    while run.removals:
        run.go_on()
    run.pin()
    while run.queue.message_count:
        run.acknowledge()
        run.pin()
    assert sorted(run.read + run.removed, key=int) == [str(number) for number in range(run.sent)]
