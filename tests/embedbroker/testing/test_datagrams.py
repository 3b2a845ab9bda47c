"""Datagrams of the simulated network are lost, doubled, delayed and cut off; nodes discover each other all the same."""

from __future__ import annotations

from collections import Counter

import pytest

from embedbroker.testing._datagrams import SimulatedMulticast
from embedbroker.testing._network import Network
from embedbroker.testing._world import World
from embedclient.engine.core._discovery import (
    BroadcastGroup,
    DiscoveryChange,
    DiscoveryGroup,
    EntryAdded,
    EntryExpired,
    EntryReplaced,
)
from embedclient.model import TCP_CONNECTOR_FACTORY, TransportConfiguration

GROUP = "231.7.7.7:9876"


class Host:
    """Collects what arrives, with its time."""

    def __init__(self, name: str, world: World) -> None:
        self.name = name
        self.world = world
        self.received: list[tuple[float, bytes]] = []

    def on_datagram(self, group: str, data: bytes) -> None:
        assert group == GROUP
        self.received.append((self.world.now, data))

    @property
    def data(self) -> list[bytes]:
        return [data for _, data in self.received]


def joined(seed: int, *names: str) -> tuple[World, Network, SimulatedMulticast, list[Host]]:
    world = World(seed)
    network = Network(world)
    multicast = SimulatedMulticast(network)
    hosts = [Host(name, world) for name in names]
    for host in hosts:
        multicast.join(GROUP, host)
    return world, network, multicast, hosts


def test_all_members_of_a_group_receive_a_datagram_once_after_a_delay() -> None:
    world, network, multicast, hosts = joined(1, "a", "b")
    multicast.send("a", GROUP, b"x")
    multicast.send("a", "231.7.7.8:9876", b"of another group")
    assert all(not host.received for host in hosts)
    world.run(1.0)
    for host in hosts:
        [(when, data)] = host.received
        assert data == b"x"
        assert network.latency_s <= when <= network.latency_s + network.jitter_s


def test_a_host_that_left_receives_nothing_that_is_on_its_way() -> None:
    world, _, multicast, [a, b] = joined(1, "a", "b")
    multicast.send("a", GROUP, b"x")
    multicast.leave(GROUP, b)
    multicast.send("a", GROUP, b"y")
    world.run(1.0)
    assert (sorted(a.data), b.data) == ([b"x", b"y"], [])


def test_a_host_that_joins_again_receives_nothing_that_was_sent_before() -> None:
    world, _, multicast, [a, b] = joined(1, "a", "b")
    multicast.send("a", GROUP, b"x")
    multicast.leave(GROUP, b)
    multicast.join(GROUP, b)
    multicast.send("a", GROUP, b"y")
    world.run(1.0)
    assert (sorted(a.data), b.data) == ([b"x", b"y"], [b"y"])


def test_a_held_way_loses_datagrams_in_its_direction_and_a_slow_one_delays_them() -> None:
    world, network, multicast, [a, b] = joined(1, "a", "b")
    network.hold("a", "b")
    multicast.send("a", GROUP, b"lost")
    multicast.send("b", GROUP, b"back")
    network.release("a", "b")
    network.slow_down("a", "b", 5.0)
    multicast.send("a", GROUP, b"slow")
    world.run(4.0)
    assert sorted(a.data) == [b"back", b"lost", b"slow"]
    assert b.data == [b"back"]
    world.run(6.0)
    assert b.data == [b"back", b"slow"]


def test_copies_are_lost_and_doubled_as_often_as_set_and_a_seed_fixes_which() -> None:
    def run(seed: int) -> list[bytes]:
        world, _, multicast, [a] = joined(seed, "a")
        multicast.loss_chance, multicast.duplication_chance = 0.3, 0.5
        for number in range(1_000):
            multicast.send("b", GROUP, number.to_bytes(2, "big"))
        world.run(1.0)
        return a.data

    first, second, third = run(1), run(1), run(2)
    assert first == second != third
    copies = Counter(first)
    of_each = Counter(copies[number.to_bytes(2, "big")] for number in range(1_000))
    assert of_each.keys() == {0, 1, 2}
    assert 260 < of_each[0] < 340
    assert 300 < of_each[2] < 400


def test_a_network_without_chances_draws_only_the_delay_of_each_copy() -> None:
    """A seed of a world that has no datagrams, and one of a world that has them, go on alike."""
    world, _network, multicast, _ = joined(1, "a", "b")
    same_world = World(1)
    same = Network(same_world)
    multicast.send("a", GROUP, b"x")
    for _ in range(2):
        same.delay_s()
    assert world.random.random() == same_world.random.random()


# -- discovery over it -----------------------------------------------------------------------------------------------

REFRESH_S, PERIOD_S = 10.0, 2.0


class Node:
    """A broker with both groups. Each start has another unique id."""

    def __init__(self, name: str, world: World, multicast: SimulatedMulticast) -> None:
        self.name = name
        self.seen: list[DiscoveryChange] = []
        self._world = world
        self._multicast = multicast
        self._starts = 0
        self.start()

    def start(self) -> None:
        self._starts += 1
        unique_id = f"{self.name} {self._starts}"
        connector = TransportConfiguration(self.name, TCP_CONNECTOR_FACTORY, {"host": self.name, "port": "61616"})
        self.discovery = DiscoveryGroup(refresh_timeout_ms=int(REFRESH_S * 1000))
        self.discovery.own_node_id, self.discovery.own_unique_id = self.name, unique_id
        self._broadcast = BroadcastGroup(self.name, unique_id, [connector], period_ms=int(PERIOD_S * 1000))
        self._broadcast.start(self._world.now)
        self._multicast.join(GROUP, self)
        self.is_running = True
        self._arm()

    def crash(self) -> None:
        self.is_running = False
        self._multicast.leave(GROUP, self)

    def others(self) -> set[str]:
        return {entry.node_id for entry in self.discovery.entries}

    def on_datagram(self, group: str, data: bytes) -> None:
        self.seen += self.discovery.on_datagram(data, self._world.now)

    def on_event(self, event: object) -> None:
        if not self.is_running or event is not self._broadcast:
            return
        now = self._world.now
        self.seen += self.discovery.on_time(now)
        data = self._broadcast.on_time(now)
        if data is not None:
            self._multicast.send(self.name, GROUP, data)
        self._arm()

    def _arm(self) -> None:
        dues = [self._broadcast.next_deadline(), self.discovery.next_deadline()]
        self._world.at(min(due for due in dues if due is not None), self, self._broadcast)


def cluster(seed: int, size: int) -> tuple[World, Network, SimulatedMulticast, list[Node]]:
    world = World(seed)
    network = Network(world)
    multicast = SimulatedMulticast(network)
    return world, network, multicast, [Node(f"n{number}", world, multicast) for number in range(size)]


def assert_complete(nodes: list[Node]) -> None:
    running = {node.name for node in nodes if node.is_running}
    for node in nodes:
        if node.is_running:
            assert node.others() == running - {node.name}


@pytest.mark.parametrize("seed", range(10))
def test_nodes_find_each_other_over_a_bad_network(seed: int) -> None:
    world, network, multicast, nodes = cluster(seed, 4)
    multicast.loss_chance, multicast.duplication_chance, network.jitter_s = 0.3, 0.3, 3.0
    world.run(60.0)
    # What is there once stays there unless five datagrams in a row are lost, so the bad network ends first.
    multicast.loss_chance = 0.0
    world.run(80.0)
    assert_complete(nodes)
    assert not any(isinstance(change, EntryReplaced) for node in nodes for change in node.seen)


@pytest.mark.parametrize("seed", range(5))
def test_a_node_that_crashed_leaves_all_lists_within_the_refresh_timeout_and_comes_back(seed: int) -> None:
    world, _, _, nodes = cluster(seed, 4)
    world.run(5.0)
    assert_complete(nodes)
    nodes[0].crash()
    world.run(5.0 + REFRESH_S)
    assert_complete(nodes)
    for node in nodes[1:]:
        assert [change.entry.node_id for change in node.seen if isinstance(change, EntryExpired)] == ["n0"]
    nodes[0].start()
    world.run(world.now + 1.0)
    assert nodes[1].others() == {"n0", "n2", "n3"}
    world.run(world.now + PERIOD_S)
    assert_complete(nodes)


@pytest.mark.parametrize("seed", range(5))
def test_a_node_that_restarts_before_its_entry_expires_is_replaced_once(seed: int) -> None:
    world, _, _, nodes = cluster(seed, 3)
    world.run(5.0)
    nodes[0].crash()
    world.run(6.0)
    nodes[0].start()
    world.run(30.0)
    assert_complete(nodes)
    for node in nodes[1:]:
        changes = [change for change in node.seen if not isinstance(change, EntryAdded)]
        assert [type(change) for change in changes] == [EntryReplaced]
        assert isinstance(changes[0], EntryReplaced)
        assert (changes[0].previous.unique_id, changes[0].entry.unique_id) == ("n0 1", "n0 2")


@pytest.mark.parametrize("seed", range(5))
def test_the_sides_of_a_partition_lose_each_other_and_meet_again_when_it_heals(seed: int) -> None:
    world, network, _, nodes = cluster(seed, 4)
    world.run(5.0)
    for one in ("n0", "n1"):
        for other in ("n2", "n3"):
            network.hold(one, other)
            network.hold(other, one)
    world.run(5.0 + REFRESH_S + 0.1)
    assert [node.others() for node in nodes] == [{"n1"}, {"n0"}, {"n3"}, {"n2"}]
    network.heal()
    world.run(world.now + PERIOD_S + 0.1)
    assert_complete(nodes)
