"""Great transactions are there as a whole after a crash, or not at all.

``python -m benchmarks.great_transactions`` tries every moment of some with 100,000 messages. Here each kind of moment
is tried once: in the first batch, in the middle, in the last batch before the decision, in the middle of the decision's
own record, between its write and its sync, and behind that.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from embedbroker.storage import Journal
from embedbroker.storage.recovery._recovered import JournaledMessage

from .crash_points import ALL, IN_DOUBT, NOTHING, TRANSACTIONS, Moment, Torn, Trials, run

# Many batches of everything that is done in batches.
COUNT = 30_000
#: Small segments, for small transactions.
SMALL_BYTES = 64 * 1024


def written(kind: str, count: int) -> dict[str, list[tuple[int, list[int]]]]:
    """By phase, the moments before records are written, and where those may be cut."""
    writes: dict[str, list[tuple[int, list[int]]]] = {}

    def look(moment: Moment) -> None:
        if moment.cuts:
            writes.setdefault(moment.phase, []).append((moment.number, moment.cuts))

    run(kind, count, look)
    return writes


def tried(kind: str, count: int) -> Trials:
    """Crashes of each kind."""
    (_first_phase, work), *decisions = written(kind, count).items()
    ways: dict[int, list[tuple[str, int]]] = {}
    for number, cuts in (work[0], work[len(work) // 2], work[-1]):
        ways[number] = [("cut", cuts[0])]
    # Once, some of what a batch consists of: its sync comes behind its write.
    ways[work[-1][0] + 1] = [("some", 0)]
    for _phase, ((number, cuts),) in decisions:
        ways[number] = [("synced", 0), *(("cut", cut) for cut in (cuts[len(cuts) // 2], cuts[-1] - 1))]
        ways[number + 1] = [("synced", 0), ("written", 0)]
        ways[number + 2] = [("synced", 0)]
    trials = Trials(kind, count)
    run(kind, count, lambda moment: trials.try_all(moment, ways.get(moment.number, ())))
    return trials


@pytest.mark.search
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["sends", "acknowledgements"])
def test_a_great_transaction_is_there_as_a_whole_or_not_at_all(kind: str) -> None:
    outcomes = tried(kind, COUNT).outcomes
    assert outcomes == {
        (kind, "cut", NOTHING): 3,
        (kind, "some", NOTHING): 1,
        ("commit", "synced", NOTHING): 2,
        ("commit", "cut", NOTHING): 2,
        ("commit", "written", ALL): 1,
        ("commit", "synced", ALL): 1,
    }


@pytest.mark.search
@pytest.mark.timeout(600)
def test_a_great_branch_is_in_doubt_and_committed_as_a_whole() -> None:
    outcomes = tried("XA branch of sends", COUNT).outcomes
    assert outcomes == {
        ("sends", "cut", NOTHING): 3,
        ("sends", "some", NOTHING): 1,
        ("prepare", "synced", NOTHING): 2,
        ("prepare", "cut", NOTHING): 2,
        ("prepare", "written", IN_DOUBT): 1,
        ("prepare", "synced", IN_DOUBT): 1,
        ("commit", "synced", IN_DOUBT): 2,
        ("commit", "cut", IN_DOUBT): 2,
        ("commit", "written", ALL): 1,
        ("commit", "synced", ALL): 1,
    }


@pytest.mark.search
@pytest.mark.parametrize("kind", TRANSACTIONS)
def test_every_moment_of_a_small_one_is_tried(kind: str) -> None:
    trials = Trials(kind, 1_000, SMALL_BYTES)
    run(kind, 1_000, trials.try_all, SMALL_BYTES)
    assert {outcome for _phase, _way, outcome in trials.outcomes} >= {NOTHING, ALL}
    assert {way for _phase, way, _outcome in trials.outcomes} == {"synced", "written", "some", "cut"}


def test_a_part_of_a_transaction_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    add_message = Journal.add_message

    def leave_the_transaction(
        journal: Journal, message: JournaledMessage, _transaction_id: int, references: Sequence[tuple[int, int]]
    ) -> None:
        add_message(journal, message, 0, [(queue_id, message.message_id) for queue_id, _position in references])

    monkeypatch.setattr(Journal, "add_message", leave_the_transaction)
    trials = Trials("sends", 1_000, SMALL_BYTES)
    with pytest.raises(Torn, match="messages of 1000"):
        run("sends", 1_000, trials.try_all, SMALL_BYTES)


def test_a_confirmation_before_the_sync_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Journal, "point", lambda _journal: 0)
    trials = Trials("sends", 10, SMALL_BYTES)
    with pytest.raises(Torn, match="nothing after synced"):
        run("sends", 10, trials.try_all, SMALL_BYTES)
