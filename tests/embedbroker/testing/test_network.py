"""The simulated network keeps the promises of TCP, and breaks only what a cut may break."""

from __future__ import annotations

import pytest

from embedbroker.testing._network import Network, SimulatedLink
from embedbroker.testing._world import World


class Host:
    """Collects what arrives."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.received = b""
        self.closed: list[str] = []
        self.written = 0

    def on_written(self, connection: int, count: int) -> None:
        assert connection == 1
        self.written += count

    def on_bytes(self, connection: int, data: bytes) -> None:
        assert connection == 1
        assert not self.closed
        self.received += data

    def on_closed(self, connection: int, reason: str) -> None:
        assert connection == 1
        self.closed.append(reason)


def connected(seed: int) -> tuple[World, Network, SimulatedLink, Host, Host]:
    world = World(seed)
    network = Network(world)
    network.split_chance = 0.5
    near, far = Host("near"), Host("far")
    return world, network, network.connect(near, 1, far, 1), near, far


PIECES = [bytes([number]) * (number + 1) for number in range(40)]
WHOLE = b"".join(PIECES)


@pytest.mark.parametrize("seed", range(5))
def test_bytes_arrive_in_order_in_any_pieces(seed: int) -> None:
    world, _, link, near, far = connected(seed)
    for piece in PIECES:
        link.send(near, piece)
        link.send(far, piece[:1])
    world.run(1.0)
    assert far.received == WHOLE
    assert near.received == bytes(range(40))


@pytest.mark.parametrize("seed", range(20))
def test_a_cut_delivers_a_prefix_and_then_tells_both_ends(seed: int) -> None:
    world, network, link, near, far = connected(seed)
    for piece in PIECES:
        link.send(near, piece)
        world.run(world.now + 0.00005)
    link.cut("reset")
    link.send(near, b"never")
    world.run(1.0)
    assert WHOLE.startswith(far.received)
    assert (near.closed, far.closed, network.links) == (["reset"], ["reset"], [])


def test_a_close_delivers_everything_and_tells_the_other_end_only() -> None:
    world, _, link, near, far = connected(1)
    link.send(near, WHOLE)
    link.send(far, b"late")
    link.close(near)
    link.close(far)
    world.run(1.0)
    assert (far.received, near.received) == (WHOLE, b"")
    assert (far.closed, near.closed) == (["closed by peer"], [])


def test_a_held_direction_waits_and_loses_nothing() -> None:
    world, network, link, near, far = connected(1)
    link.send(near, b"on its way ")
    network.hold("near", "far")
    link.send(near, b"held")
    link.send(far, b"not held")
    world.run(5.0)
    assert (far.received, near.received) == (b"", b"not held")
    network.heal()
    world.run(6.0)
    assert far.received == b"on its way held"


def test_a_host_that_vanishes_hears_nothing_any_more() -> None:
    world, _, link, near, far = connected(3)
    link.send(near, WHOLE)
    link.send(far, WHOLE)
    link.vanish(near, "crashed")
    world.run(1.0)
    assert (near.received, near.closed, far.closed) == (b"", [], ["crashed"])
    assert WHOLE.startswith(far.received)


@pytest.mark.parametrize("seed", range(20))
def test_a_half_open_connection_ends_for_one_host_and_is_silent_for_the_other(seed: int) -> None:
    world, network, link, near, far = connected(seed)
    for piece in PIECES:
        link.send(near, piece)
        link.send(far, piece)
        world.run(world.now + 0.00005)
    link.fall_silent(near, "reset")
    assert (link.send(far, b"never"), link.send(near, b"never")) == (5, 5)
    world.run(1.0)
    assert WHOLE.startswith(near.received)
    assert WHOLE.startswith(far.received)
    assert (near.closed, far.closed, network.links) == (["reset"], [], [])
    link.send(far, b"x" * 100_000)
    link.close(far)
    world.run(2.0)
    assert (near.closed, far.closed, far.written) == (["reset"], [], 0)


def test_a_full_connection_takes_the_rest_when_there_is_room() -> None:
    world, network, link, near, far = connected(1)
    network.hold("near", "far")
    assert link.send(near, bytes(60_000)) == 60_000
    assert link.send(near, bytes(10_000)) == 5_536
    assert link.send(near, bytes(500)) == 0
    world.run(1.0)
    assert near.written == 0
    network.heal()
    world.run(2.0)
    assert (len(far.received), near.written) == (70_500, 70_500 - 65_536)


def test_the_same_seed_gives_the_same_arrivals() -> None:
    def arrivals(seed: int) -> str:
        world, _, link, near, _ = connected(seed)
        for piece in PIECES:
            link.send(near, piece)
        while world.step():
            world.note("far", "step")
        return world.trace.digest()

    assert arrivals(1) == arrivals(1)
    assert arrivals(1) != arrivals(2)


def test_what_is_between_two_hosts_can_be_slow_for_a_while() -> None:
    world, network, link, near, far = connected(1)
    network.slow_down("near", "far", 2.0)
    link.send(near, b"slow")
    world.run(1.9)
    before = far.received
    network.slow_down("near", "far", 0.0)
    world.run(2.1)
    assert (before, far.received) == (b"", b"slow")
    link.send(far, b"fast")
    world.run(2.2)
    assert near.received == b"fast"


def test_a_slow_way_is_that_of_two_hosts_only() -> None:
    world, network, link, near, far = connected(1)
    network.slow_down("near", "somebody else", 2.0)
    link.send(near, b"fast")
    world.run(0.1)
    assert far.received == b"fast"
