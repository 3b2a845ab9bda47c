"""Virtual time, the order of events and the trace."""

from __future__ import annotations

import pytest

from embedbroker.testing._trace import Trace
from embedbroker.testing._world import World


class Recorder:
    def __init__(self, world: World) -> None:
        self.world = world
        self.seen: list[tuple[float, object]] = []

    def on_event(self, event: object) -> None:
        self.seen.append((self.world.now, event))


def test_events_come_by_time_and_then_in_the_order_they_were_scheduled() -> None:
    world = World(1)
    recorder = Recorder(world)
    for when, event in [(2.0, "c"), (1.0, "a"), (1.0, "b"), (9.0, "later")]:
        world.at(when, recorder, event)
    assert not world.run(5.0)
    assert recorder.seen == [(1.0, "a"), (1.0, "b"), (2.0, "c")]
    assert world.now == 5.0
    world.at(1.0, recorder, "the past is now")
    world.step()
    assert recorder.seen[-1] == (5.0, "the past is now")


def test_a_run_stops_where_it_is_told_to() -> None:
    world = World(1)
    recorder = Recorder(world)
    for when in range(5):
        world.at(float(when), recorder, when)

    class Referee:
        def on_event(self, event: object) -> None:
            world.halt()

    world.at(2.0, Referee(), None)
    assert world.run(100.0)
    assert world.now == 2.0
    assert len(recorder.seen) == 3
    assert not world.run(100.0)
    assert len(recorder.seen) == 5


def test_wall_time_derives_from_virtual_time() -> None:
    world = World(1)
    start = world.instant.wall_ms
    world.run(1.5)
    assert world.instant.monotonic == 1.5
    assert world.instant.wall_ms == start + 1500 == world.wall_ms_at(1.5)


def test_time_that_does_not_pass_is_an_error() -> None:
    world = World(1)

    class Spinner:
        def on_event(self, event: object) -> None:
            world.after(0.0, self, event)

    world.at(0.0, Spinner(), None)
    with pytest.raises(AssertionError, match="something spins"):
        world.run(1.0, events_max=100)


def test_a_long_run_with_many_events_does_not_spin() -> None:
    world = World(1)

    class Pulse:
        def on_event(self, event: object) -> None:
            world.after(1.0, self, event)

    world.at(0.0, Pulse(), None)
    assert not world.run(1000.0, events_max=100)
    assert world.events > 900


def test_streams_of_entropy_are_independent_and_fixed_by_the_seed() -> None:
    first, again = World(7), World(7)
    a, b = first.entropy(), first.entropy()
    assert a.random_bytes(8) != b.random_bytes(8)
    c = again.entropy()
    assert c.random_bytes(8) == World(7).entropy().random_bytes(8)
    assert 0 <= c.random() < 1


def test_a_trace_has_one_digest_however_it_is_read() -> None:
    one, other = Trace(tail_lines=3), Trace(tail_lines=3)
    for number in range(1000):
        one.add(number / 7, "node", "does", number)
        other.add(number / 7, "node", "does", number)
        if number % 10 == 0:
            other.digest()
    assert one.digest() == other.digest()
    assert one.tail() == other.tail()
    assert one.tail()[-1] == "142.714286 node does 999"
    one.add_bytes(1.0, "node", "sends", b"abc")
    assert one.tail()[-1] == "1.000000 node sends 3 352441c2"
    assert one.digest() != other.digest()
