"""Time-outs of calls and pauses of sequences, without a clock."""

from __future__ import annotations

from embedclient.agent._deadlines import Deadlines
from embedclient.agent._timers import Timers
from embedclient.model import Instant


def at(seconds: float) -> Instant:
    return Instant(seconds, 0)


def test_time_runs_from_the_stamp_and_the_oldest_expires_first() -> None:
    deadlines = Deadlines(1000)
    expired: list[str] = []
    deadlines.start("one", lambda: expired.append("one"))
    assert deadlines.next() is None
    deadlines.stamp(at(10))
    deadlines.start("two", lambda: expired.append("two"))
    deadlines.stamp(at(10.5))
    assert deadlines.next() == 11
    deadlines.expire(at(10.9))
    assert expired == []
    deadlines.expire(at(11.5))
    assert expired == ["one", "two"]
    assert deadlines.next() is None


def test_what_was_stopped_never_expires() -> None:
    deadlines = Deadlines(1000)
    expired: list[str] = []
    for name in ("stamped", "unstamped"):
        deadlines.start(name, lambda: expired.append("late"))
        if name == "stamped":
            deadlines.stamp(at(0))
    deadlines.stop("stamped")
    deadlines.stop("unstamped")
    deadlines.stamp(at(0))
    deadlines.expire(at(100))
    assert expired == []


def test_a_negative_time_out_waits_for_ever() -> None:
    deadlines = Deadlines(-1)
    deadlines.start("one", lambda: None)
    deadlines.stamp(at(0))
    assert deadlines.next() is None


def test_pauses_end_in_order_and_can_be_given_up() -> None:
    timers = Timers()
    late = timers.after(2)
    early = timers.after(1)
    assert timers.next() == 1
    timers.now = 1.0
    timers.expire()
    assert (early.done, late.done) == (True, False)
    late.succeed(None)
    assert timers.next() is None
