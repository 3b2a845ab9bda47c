"""Brokers that find each other by datagrams, in a simulated world: no static connector is configured anywhere."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack

import pytest

from embedbroker.config import (
    BroadcastGroup,
    ClusterConnection,
    DiscoveryGroup,
    SharedStoreBackup,
    SharedStorePrimary,
)
from embedbroker.node import GroupFailed
from embedbroker.pytest_plugin import BrokerClock, ManagedBroker
from embedbroker.testing._node_host import NodeHost
from embedclient.engine.core import BroadcastGroup as BroadcastDatagrams
from tests.embedbroker.cluster.town import Town, connector
from tests.scenarios.clients import ORDERS, put, session_at, take

ADDRESS = "231.7.7.7"
GROUP = f"{ADDRESS}:9876"
REFRESH_S, PERIOD_S = 10.0, 2.0


class Field(Town):
    """Brokers that all use one multicast group."""

    def found(self, name: str, **changes: object) -> NodeHost:
        """A broker that announces itself and listens; returns when it serves."""
        return self.start(name, "", **self.settings(**changes))

    @staticmethod
    def settings(**changes: object) -> dict[str, object]:
        return {
            "broadcast_groups": [BroadcastGroup("b", ADDRESS, connectors=())],
            "discovery_groups": [DiscoveryGroup("d", ADDRESS)],
            "discovery_group": "d",
            **changes,
        }

    def lines(self, name: str, text: str) -> list[str]:
        return [line for line in self.hosts[name].notices if text in line]

    def places(self, name: str) -> set[str]:
        """Where a broker finds others at this moment."""
        node = self.hosts[name].node
        assert node is not None and node.discovery is not None
        return {place.host for place in node.discovery.places("d")}


def test_brokers_find_each_other_and_a_silent_one_leaves_the_list() -> None:
    field = Field()
    for name in "abc":
        field.found(name)
    field.run(PERIOD_S + 0.5)
    assert all(set(field.known(name)) == {"a", "b", "c"} for name in "abc")
    assert field.places("a") == {"b", "c"}
    # No broker dials itself, although it receives its own datagrams.
    assert not any(one == other for one, other in field.network.dialled)
    field.hosts["c"].crash()
    field.run(REFRESH_S + 0.1)
    assert [field.places(name) for name in "ab"] == [{"b"}, {"a"}]
    assert len(field.lines("a", "found node")) == 2
    assert len(field.lines("a", "is silent")) == 1
    assert not field.multicast.is_member(GROUP, field.hosts["c"])


def test_a_broker_that_returns_with_another_node_id_replaces_its_entry() -> None:
    """A broker without a directory has another id after each start, and its place stays one place."""
    field = Field()
    field.found("a")
    field.found("b")
    field.run(1.0)
    first = field.node_id("b")
    field.hosts["b"].crash()
    field.start("b")
    field.run(1.0)
    assert field.node_id("b") != first
    node = field.hosts["a"].node
    assert node is not None and node.discovery is not None
    assert [place.host for place in node.discovery.places("d")] == ["b"]
    assert field.node_id("b") in field.membership("a").topology.members
    # The silence of the first id does not take the place away from the second one.
    field.run(REFRESH_S)
    assert field.places("a") == {"b"}


def test_two_clusters_on_one_group_stay_apart() -> None:
    field = Field()
    for name, password in (("a", "one"), ("b", "one"), ("x", "two"), ("y", "two")):
        field.found(name, cluster_password=password)
    field.run(100.0)
    assert [set(field.known(name)) for name in "abxy"] == [{"a", "b"}, {"a", "b"}, {"x", "y"}, {"x", "y"}]
    # One line for each foreign broker, however often it is tried again.
    assert all(len(field.lines(name, "refuses the cluster user and password")) == 2 for name in "abxy")


async def test_messages_of_two_clusters_on_one_group_are_not_mixed(
    broker_factory: Callable[..., ManagedBroker], broker_clock: BrokerClock
) -> None:
    """Each cluster has a consumer on its second broker, which gets what is sent on the first, and nothing else."""

    async def start(name: str, password: str) -> ManagedBroker:
        settings = {key: value for key, value in Field.settings().items() if key != "discovery_group"}
        settings["broadcast_groups"] = [BroadcastGroup("b", ADDRESS, connectors=[name])]
        own = ClusterConnection(connector=name, discovery_group="d")
        return await broker_factory(
            name, connectors={name: f"vm://{name}"}, cluster_connections=own, cluster_password=password, **settings
        ).start()

    async with AsyncExitStack() as stack:
        sessions = {}
        for name in "axby":
            broker = await start(name, "one" if name in "ab" else "two")
            sessions[name] = await stack.enter_async_context(session_at(broker.url))
        consumers = {name: await sessions[name].create_consumer(ORDERS) for name in "by"}
        await broker_clock.advance(2 * PERIOD_S + 1)
        for name in "ax":
            await put(sessions[name], [f"{name}{number}" for number in range(10)])
        for name, sender in (("b", "a"), ("y", "x")):
            assert await take(consumers[name], 10) == [f"{sender}{number}" for number in range(10)]
            assert await consumers[name].receive(timeout=1) is None


def test_a_group_without_another_broker_is_one_line_that_names_group_and_interface() -> None:
    field = Field()
    field.found("a", discovery_groups=[DiscoveryGroup("d", ADDRESS, local_bind_address="127.0.0.1")])
    field.run(30.0)
    [line] = field.lines("a", "has announced itself")
    assert line.startswith(
        "discovery group 'd': no other broker has announced itself at multicast group 231.7.7.7:9876 on the interface "
        "of 127.0.0.1 within 10 s; "
    )
    # It goes on listening.
    field.found("b")
    field.run(1.0)
    assert set(field.known("a")) == {"a", "b"}


def test_a_network_that_loses_and_doubles_datagrams_delays_the_cluster_only() -> None:
    field = Field(seed=3)
    field.multicast.loss_chance, field.multicast.duplication_chance = 0.6, 0.3
    for name in "abcd":
        field.found(name)
    field.run(40.0)
    assert all(set(field.known(name)) == set("abcd") for name in "abcd")


def test_the_sides_of_a_partition_meet_again_by_their_datagrams() -> None:
    field = Field()
    field.found("a")
    field.found("b")
    field.run(1.0)
    for one, other in ("ab", "ba"):
        field.network.hold(one, other)
    field.run(120.0)
    assert field.places("a") == set() and set(field.known("a")) == {"a"}
    field.network.heal()
    field.run(5.0)
    assert all(set(field.known(name)) == {"a", "b"} for name in "ab")


def test_a_backup_finds_its_live_broker_and_announces_itself_after_the_failover_only() -> None:
    field = Field()
    field.found("p", ha_policy=SharedStorePrimary(failover_on_shutdown=True))
    backup = field.build("q", "", **field.settings(ha_policy=SharedStoreBackup()))
    backup.start()
    field.run(5.0)
    # The live broker has the node id of the backup, and its datagrams count nevertheless.
    assert field.places("q") == {"p"}
    assert field.known("p") == {"p": "q"}
    assert field.places("p") == set()
    field.hosts["p"].stop(fails_over=True)
    field.run(5.0)
    field.found("c")
    field.run(3.0)
    assert field.places("c") == {"q"}
    assert "q" in field.known("c")


def test_a_group_that_cannot_be_joined_is_tried_again_and_each_reason_is_one_line() -> None:
    field = Field()
    host = field.found("a")
    for _ in range(3):
        host.step(GroupFailed("discovery group 'd'", "cannot join it: no such device"))
        field.run(5.1)
    assert len(field.lines("a", "no such device")) == 1
    host.step(GroupFailed("broadcast group 'b'", "cannot send to it: in use"))
    field.found("b")
    field.run(3.0)
    assert set(field.known("a")) == {"a", "b"}


def test_a_datagram_that_no_broker_sends_is_ignored_with_one_line() -> None:
    field = Field()
    field.found("a")
    for _ in range(3):
        field.multicast.send("z", GROUP, b"\x00\x00\x00\x02hello")
    field.run(1.0)
    assert len(field.lines("a", "is ignored: a datagram of 9 bytes is not from a broadcast group")) == 1


def test_another_broker_with_the_node_id_of_this_one_is_one_warning() -> None:
    field = Field()
    field.found("a")
    copy = BroadcastDatagrams(field.node_id("a"), "of the copy", [connector("z")])
    copy.start(0.0)
    data = copy.on_time(0.0)
    assert data is not None
    for _ in range(3):
        field.multicast.send("z", GROUP, data)
    field.run(1.0)
    [line] = field.lines("a", "two brokers announce themselves with node id")
    assert "the data directory of one is a copy of the other's" in line
    assert field.places("a") == set()


def test_the_lines_about_forged_datagrams_are_bounded() -> None:
    field = Field()
    field.found("a")
    before = len(field.hosts["a"].notices)
    for number in range(500):
        forged = BroadcastDatagrams(f"node-{number}", "forged", [connector("z")])
        forged.start(0.0)
        data = forged.on_time(0.0)
        assert data is not None
        field.multicast.send("z", GROUP, data)
    field.run(1.0)
    assert 50 <= len(field.hosts["a"].notices) - before < 60
    [line] = field.lines("a", "50 lines within 60 s")
    assert "more brokers announce themselves at" in line and "231.7.7.7:9876" in line


def test_a_stop_leaves_the_group() -> None:
    field = Field()
    host = field.found("a")
    field.run(1.0)
    assert field.multicast.is_member(GROUP, host)
    host.stop()
    field.run(1.0)
    assert host.node is None
    assert not field.multicast.is_member(GROUP, host)


@pytest.mark.parametrize("listens", [True, False])
def test_one_side_that_announces_itself_is_enough(listens: bool) -> None:
    """The other one has no broadcast group, and is found by its connection."""
    field = Field()
    field.found("a", broadcast_groups=[])
    field.found("b", **({} if listens else {"discovery_group": None, "discovery_groups": []}))
    field.run(3.0)
    assert set(field.known("a")) == set(field.known("b")) == {"a", "b"}
