"""Readers with cursors in the worlds of ordinary seeds: every message in one range, each range as it was before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve

from embedbroker.kernel import CursorDefinition, Cursors, Queue
from embedbroker.kernel.queueing._backlog import Backlog, PackedReference
from embedbroker.kernel.queueing._cursor import Cursor
from tests.simulation.scenario import Moment, SeedResult, draw_plan, run_plan
from tests.simulation.scenario.draw_group import draw_group_plan
from tests.simulation.scenario.plan import GroupMode

from .fault_points import fault_point, replace
from .hunting import Bug, every, hunt

FIRST_SEED = 1
SEEDS = range(FIRST_SEED, FIRST_SEED + 8)


def run(seed: int, mode: GroupMode | None = None) -> SeedResult:
    """Of all seeds those with readers."""
    number = 16 * seed - 1
    return run_plan(draw_plan(number) if mode is None else draw_group_plan(number, mode))


@pytest.mark.search
def test_every_message_is_in_one_range_whatever_happens() -> None:
    hits = [0] * len(Moment)
    for seed in SEEDS:
        result = run(seed)
        assert result.verdict.clean
        hits = [before + more for before, more in zip(hits, result.hits, strict=True)]
    for moment in (Moment.RANGE_READ_AGAIN, Moment.LEASE_LOST, Moment.CURSOR_TAKEN_OVER, Moment.CRASH):
        assert hits[moment] >= 4, (moment.name, hits[moment])


@pytest.mark.search
@pytest.mark.parametrize("mode", [GroupMode.SHARED_STORE, GroupMode.REPLICATION])
def test_another_broker_goes_on_with_the_same_ranges(mode: GroupMode) -> None:
    failovers = read_again = 0
    for seed in SEEDS:
        result = run(seed, mode)
        assert result.verdict.clean
        failovers += result.hits[Moment.FAILOVER]
        read_again += result.hits[Moment.RANGE_READ_AGAIN]
    assert failovers >= 2
    assert read_again >= 2


# Each bug below is put into the broker, and these seeds must find it.


def pin_what_is_not_visible_yet(patch: pytest.MonkeyPatch) -> None:
    """The end is the last position that was given out at all, as if everything below it could be seen."""
    pin = fault_point("pin a range")

    def hasty(self: Cursors, queue: Queue, cursor: Cursor, *arguments: Any) -> Any:
        cursor.definition = evolve(cursor.definition, end=self._ids.next_id - 1)
        return pin(self, queue, cursor, *arguments)

    replace(patch, "pin a range", hasty)


def forget_to_write_where_the_reader_is(patch: pytest.MonkeyPatch) -> None:
    def forgetful(self: Cursors, queue: Queue, cursor: Cursor, definition: CursorDefinition) -> None:
        cursor.definition = definition
        if queue.durable and not definition.position:
            self._store.note(definition)

    replace(patch, "change a cursor", forgetful)


def leave_out_a_row(patch: pytest.MonkeyPatch) -> None:
    behind, skips = Backlog.behind, every(20)

    def careless(self: Backlog, after: int, until: int, limit: int) -> list[PackedReference]:
        rows = behind(self, after, until, limit)
        return rows[1:] if len(rows) > 1 and skips() else rows

    patch.setattr(Backlog, "behind", careless)


def acknowledge_all_that_is_pinned(patch: pytest.MonkeyPatch) -> None:
    """What leaves with an acknowledgement is everything that is pinned now, not what was asked for."""

    def generous(self: Cursors, queue: Queue, cursor: Cursor, until: int) -> None:
        advance(self, queue, cursor, cursor.definition.end if until > cursor.definition.position else until)

    advance = fault_point("advance a cursor")
    replace(patch, "advance a cursor", generous)


BUGS: list[Bug] = [
    pin_what_is_not_visible_yet,
    forget_to_write_where_the_reader_is,
    leave_out_a_row,
    acknowledge_all_that_is_pinned,
]


@pytest.mark.search
@pytest.mark.timeout(900)
@pytest.mark.parametrize("bug", BUGS)
def test_a_bug_is_found(bug: Bug, monkeypatch: pytest.MonkeyPatch, record_property: Callable[..., None]) -> None:
    hunt("READERS", bug, run, monkeypatch, record_property)
