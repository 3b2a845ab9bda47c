"""How long a primary waits for a backup whose work grows with the journal."""

from __future__ import annotations

from random import Random

import pytest

from embedbroker.replication import ReplicatorState
from embedbroker.replication._send_window import SendWindow
from embedbroker.storage import Lane
from embedclient.wire.core import CopiedFile, CopyBegin
from tests.embedbroker.replication.pair import CALL_TIMEOUT_S, Pair, WireEnd
from tests.embedbroker.replication.test_pair import append, pass_time, work
from tests.embedbroker.storage.journal_model import NOW

MIB = 1024 * 1024
# Of a survey: so many call time-outs.
CALLS = 20


def test_a_backup_may_take_the_longer_to_make_room_the_larger_the_copy_is() -> None:
    flow = SendWindow(WireEnd("backup"), 0.0)
    assert flow.extra_s == 0.0
    flow.send_begin(CopyBegin(True, tuple([CopiedFile(f"{n}", 0, 10 * MIB) for n in range(1_000)])), 1.0)
    assert 100.0 < flow.extra_s < 1_000.0
    flow.on_answer(Lane.COPY, 1, 200.0)
    assert flow.extra_s == 0.0 and flow.quiet_since == 200.0


@pytest.mark.parametrize(("longer_s", "is_lost"), [(0.0, False), (1.0, True)])
def test_a_backup_that_makes_room_is_given_up_later_than_after_a_call_time_out(longer_s: float, is_lost: bool) -> None:
    pair = Pair.new(Random(1))
    work(pair, 200)
    pair.settle()
    pair.join()
    replicator = pair.primary.replicator
    pair.run_until(lambda: replicator.statistics().copy_begun)
    append(pair)
    pass_time(pair, CALL_TIMEOUT_S + longer_s)
    assert bool(pair.primary.lost) is is_lost
    if not is_lost:
        pair.run_until(lambda: replicator.state is ReplicatorState.SYNCHRONISED)


def test_a_backup_that_was_given_up_while_it_looked_through_its_files_has_twice_the_time_when_it_comes_back() -> None:
    pair = Pair.new(Random(1))
    work(pair, 50)
    pair.settle()
    replicator = pair.primary.replicator
    begun, limit = 0.0, CALLS * CALL_TIMEOUT_S
    for _ in range(3):
        pair.join()
        assert replicator.next_deadline() == NOW.monotonic + begun + limit
        begun += limit
        pass_time(pair, begun)
        assert "it did not say what it has" in pair.primary.lost[-1][0]
        pair.settle()
        limit *= 2
    pair.synchronise()
    pair.cut()
    pair.settle()
    pair.join()
    assert replicator.next_deadline() == NOW.monotonic + begun + CALLS * CALL_TIMEOUT_S
