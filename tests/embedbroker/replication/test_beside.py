"""Words of a voter beside the journal's work, in the same lane of the disk: they wait for the disk and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from embedbroker.replication import ReplicatorState
from embedbroker.storage import DiskWork, JournalState, Lane, Sync, WriteAt
from tests.embedbroker.replication.pair import Pair
from tests.embedbroker.storage.journal_workload import Workload

NAME = "votes.state.new"


def word(pair: Pair, number: int = 1) -> DiskWork:
    """A word is to be written; the same work each time."""
    found = DiskWork(Lane.BACKGROUND, -(1 << 41) - number, (WriteAt(NAME, 0, (b"%d" % number,)), Sync(NAME)))
    pair.primary.replicator.do_beside(found)
    return found


def work_until(pair: Pair, condition: Callable[[], bool], held: Lane | None = None) -> None:
    """Traffic, until something is so."""
    workload = Workload.on(pair.random, pair.primary.recorded.state_at(pair.primary.journal.point()))
    for _ in range(5_000):
        name, arguments = workload.call()
        pair.primary.recorded.call(name, *arguments)
        for _ in range(4):
            pair.step(held)
            if condition():
                return
    raise AssertionError("that never happened")


def completed(pair: Pair) -> list[int]:
    """The numbers of all work that counted as done, from now on."""
    found: list[int] = []
    take = pair.primary.replicator.take_completed

    def noting() -> list[tuple[int, tuple[object, ...]]]:
        taken = list(take())
        found.extend(batch for batch, _ in taken)
        # Words are of no interest to the journal.
        return [(batch, results) for batch, results in taken if batch > -(1 << 41)]

    pair.primary.replicator.take_completed = noting  # type: ignore[method-assign]
    return found


def is_on(pair: Pair, *, backup: bool) -> bytes | None:
    disk = pair.backup.disk if backup else pair.primary.disk
    return disk.contents().get(NAME)


def in_the_background(pair: Pair) -> bool:
    """Whether the journal waits for the backup with such work, which is done here."""
    return Lane.BACKGROUND in pair.primary.replicator.statistics().waiting_for_backup


def test_a_word_of_a_held_broker_does_not_wait_for_work_of_its_journal_that_was_on_its_way() -> None:
    """That counts as done when the right to be live is renewed, for which another broker may need this grant."""
    pair = Pair.new(Random(1))
    pair.synchronise()
    pair.primary.renews = False
    work_until(pair, lambda: in_the_background(pair))
    done = completed(pair)
    pair.cut()
    assert pair.primary.replicator.state is ReplicatorState.HELD
    given = word(pair)
    while pair.primary.step():
        pass
    assert done == [given.batch] and is_on(pair, backup=False) == b"1"
    pair.primary.replicator.go_on_alone()
    pair.settle()
    assert len(done) > 1 and pair.primary.journal.point() <= pair.primary.journal.reached


def test_words_and_work_of_one_lane_are_done_in_their_order_by_both() -> None:
    """A word is issued while the journal waits for the backup, and the other way round."""
    pair = Pair.new(Random(4))
    pair.synchronise()
    done = completed(pair)
    words = []
    for number in range(1, 20):
        work_until(pair, lambda: in_the_background(pair))
        words.append(word(pair, number).batch)
        work_until(pair, lambda: words[-1] in done)
    pair.settle()
    assert [batch for batch in done if batch in words] == words
    assert is_on(pair, backup=True) == is_on(pair, backup=False) == b"19"
    pair.check(pair.backup.disk)


def withheld(pair: Pair) -> None:
    """A copy makes no progress, and work of the journal waits for that."""
    work_until(pair, lambda: pair.primary.journal.point() > 2_000)
    pair.settle()
    pair.join()
    replicator = pair.primary.replicator
    pair.run_until(lambda: replicator.statistics().copy_begun)
    work_until(pair, lambda: Lane.BACKGROUND in replicator.statistics().withheld, held=Lane.COPY)


def test_a_word_does_not_wait_for_a_file_to_be_copied_that_work_of_the_journal_is_to_rename() -> None:
    pair = Pair.new(Random(3))
    withheld(pair)
    given = word(pair)
    done = completed(pair)
    for _ in range(400):
        pair.step(Lane.COPY)
    assert given.batch in done and is_on(pair, backup=False) == b"1"
    pair.run_until(lambda: pair.primary.replicator.state is ReplicatorState.SYNCHRONISED)
    pair.settle()
    assert is_on(pair, backup=True) == b"1"
    assert pair.primary.journal.state is JournalState.READY
    pair.check(pair.backup.disk)
