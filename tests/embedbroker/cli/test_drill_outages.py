"""What counts as the end of an outage, and how far its figures are spread."""

from __future__ import annotations

from functools import partial

import attrs
import pytest
import trio.testing

from embedbroker.cli.drill._figures import Spread, spread_of
from embedbroker.cli.drill._outage import NewTime, Outage
from embedbroker.cli.drill._plan import DrillPlan, Hit
from embedbroker.cli.drill._run import QUEUE, Run
from embedbroker.cli.drill._stage import Stage
from embedbroker.ledger import Finding

HIT = Hit(1, 1, 0, 0, 1, 0)
PLAN = DrillPlan(seconds=3, producers=1, consumers=1, size_bytes=200, rounds=1, seed=7)


def nothing() -> None:
    """It happens elsewhere."""


def outage(began: NewTime, producers: int = 1) -> Outage:
    return Outage("kill", began, 10.0, HIT, producers)


def test_after_a_kill_only_what_was_begun_after_it_counts() -> None:
    killed = outage(NewTime.AT_ONCE)
    killed.succeeded("p0", began=9.9, now=10.1)  # its answer was on the way
    assert killed.record().producers_s == ()
    killed.succeeded("p0", began=10.2, now=10.5)
    assert killed.record().producers_s == (0.5,)


def test_an_orderly_end_begins_with_the_first_loss_and_ends_for_each_producer_after_its_own() -> None:
    stopped = outage(NewTime.WITH_THE_LOSS, producers=2)
    stopped.succeeded("p0", began=10.1, now=10.2)
    stopped.delivered(10.2)
    assert stopped.record().first_delivery_s is None
    stopped.lost("p0", 11.0)
    stopped.succeeded("p1", began=11.1, now=11.2)
    stopped.lost("p1", 11.3)
    stopped.succeeded("p1", began=11.4, now=11.5)
    stopped.succeeded("p0", began=11.4, now=12.0)
    stopped.delivered(12.5)
    record = stopped.record()
    assert (record.at, record.producers_s, record.first_delivery_s) == (11.0, (0.5, 1.0), 1.5)
    assert stopped.over.is_set()


def test_what_a_pause_interrupted_counts_when_it_is_over() -> None:
    frozen = outage(NewTime.WHEN_HEALED)
    frozen.succeeded("p0", began=9.0, now=10.1)
    frozen.delivered(10.1)
    assert not frozen.over.is_set()
    frozen.healed(12.0)
    frozen.succeeded("p0", began=9.9, now=12.1)
    frozen.delivered(12.2)
    assert frozen.over.is_set()
    record = frozen.record()
    assert record.first_confirmed_s == pytest.approx(2.1)
    assert record.first_delivery_s == pytest.approx(2.2)


async def test_the_first_lost_connection_ends_the_life_that_was_to_end(autojump_clock: trio.testing.MockClock) -> None:
    """Of what the old broker delivered before, nothing may look like a second delivery by the new one."""
    stage = Stage(Run(PLAN))
    stale: list[str] = []
    stage.on_stale_buffers.append(partial(stale.append, "stale"))
    stage.ledger.sent("m", QUEUE, 0.0)
    stage.connection_lost("c0")
    assert stale == []
    stage.strike("failback", NewTime.WITH_THE_LOSS, nothing, ends_life=True)
    stage.ledger.delivered(QUEUE, "m", 1.0)
    assert stale == []
    stage.connection_lost("c0")
    stage.connection_lost("p0")
    assert stale == ["stale"]
    assert stage.ledger.delivered(QUEUE, "m", 2.0) is Finding.AFTER_RESTART


@pytest.mark.parametrize(
    ("times", "spread"),
    [
        ([], None),
        ([2.0], Spread(1, 2.0, 2.0, 2.0, 2.0)),
        ([3.0, 1.0, 2.0], Spread(3, 1.0, 2.0, 3.0, 3.0)),
        ([float(number) for number in range(200)], Spread(200, 0.0, 99.5, 197.0, 199.0)),
    ],
)
def test_the_spread_of_times(times: list[float], spread: Spread | None) -> None:
    assert spread_of(times) == spread
    if spread is not None:
        assert spread.as_json() == attrs.asdict(spread)
