"""5.2: a bridge whose target, way or own broker is lost. Lines that are not here are in `embedbroker/outbound`."""

from __future__ import annotations

from typing import Any

import pytest

from embedbroker import (
    BridgeConfig,
    BroadcastGroup,
    ClusterConnection,
    DiscoveryGroup,
    SharedStoreBackup,
    SharedStorePrimary,
)
from embedbroker.pytest_plugin import BrokerClock, BrokerPair, Link, ManagedBroker, bench_of
from tests.embedbroker.outbound.test_bridges import MakeBroker, bridge, make_source, manage, place, send, started
from tests.scenarios.clients import numbered, queued, session_at
from tests.scenarios.clients import put as put_at
from tests.scenarios.groups import pair_of
from tests.scenarios.nodes import MakeCluster

pytestmark = pytest.mark.usefixtures("broker_clock")

COUNT = 200
PLACES = {"b": "vm://b", "primary": "vm://primary", "backup": "vm://backup"}
LARGE = "large " * 40_000


def make_pair(request: pytest.FixtureRequest, **settings: Any) -> BrokerPair:
    """A pair of one store, which is not started yet."""
    given = {"addresses": place("orders", "arrivals"), **settings}
    return pair_of(bench_of(request), SharedStorePrimary(), SharedStoreBackup(), given)


def delivering(broker: ManagedBroker) -> int:
    """The messages of the source's queue that are in delivery."""
    return sum(each.delivering_count for each in broker.queues() if each.name == "orders")


def way_of(request: pytest.FixtureRequest) -> Link:
    """The link of the bridge."""
    return bench_of(request).between("a", "b")


async def bytes_held(broker: ManagedBroker, address: str) -> object:
    return await manage(broker).get(f"address.{address}", "AddressSize")


async def test_target_server_up_and_down(broker_factory: MakeBroker, broker_clock: BrokerClock) -> None:
    """5.2.2

    Given endless attempts, when the target is down first, comes, goes and comes, then every batch arrives.
    """
    source = await make_source(broker_factory).start()
    target = broker_factory("b", addresses=place("arrivals"))
    for turn in range(3):
        await send(source, numbered(turn * 20, turn * 20 + 10))
        await broker_clock.advance(3)
        await target.start()
        await send(source, numbered(turn * 20 + 10, turn * 20 + 20))
        await target.wait_for(queue="arrivals", count=turn * 20 + 20)
        await source.assert_empty("orders")
        if turn < 2:
            await target.stop()
    assert await queued(target, "arrivals") == numbered(0, 60)


async def test_start_stop_with_a_discovery_group(broker_factory: MakeBroker, broker_clock: BrokerClock) -> None:
    """5.2.5

    Given a discovery group instead of connectors, when the bridge is stopped and started, then it is as with them.
    """
    target = await broker_factory(
        "b",
        addresses=place("arrivals"),
        connectors={"b": "vm://b"},
        broadcast_groups=[BroadcastGroup("b", "231.7.7.7", broadcast_period_ms=500)],
        cluster_connections=ClusterConnection(connector="b"),
        cluster_password="secret",
    ).start()
    found = bridge(static_connectors=[], discovery_group="d")
    groups = [DiscoveryGroup("d", "231.7.7.7")]
    source = await make_source(broker_factory, found, discovery_groups=groups, cluster_password="secret").start()
    for turn in range(2):
        await send(source, numbered(turn * 20, turn * 20 + 10))
        await target.wait_for(queue="arrivals", count=turn * 20 + 10)
        await manage(source).invoke("bridge.to-b", "stop")
        await source.wait_for(queue="orders", count=0, consumers=0)
        await send(source, numbered(turn * 20 + 10, turn * 20 + 20))
        await broker_clock.advance(2)
        await source.wait_for(queue="orders", count=10)
        await manage(source).invoke("bridge.to-b", "start")
        await target.wait_for(queue="arrivals", count=turn * 20 + 20)
    assert await queued(target, "arrivals") == numbered(0, 40)


@pytest.mark.parametrize("tries", [0, 4], ids=["immediately", "after a few tries"])
async def test_failover_and_reconnect(
    request: pytest.FixtureRequest, broker_factory: MakeBroker, broker_clock: BrokerClock, tries: int
) -> None:
    """5.2.7, 5.2.8

    Given a pair with a bridge, when it fails over, to a target that answers at once or after a few tries, then
    messages flow.
    """
    target = await broker_factory("b", addresses=place("arrivals")).start()
    pair = make_pair(request, bridges=[bridge()], connectors=PLACES)
    await pair.start()
    async with session_at(pair.url) as session:
        await put_at(session, numbered(0, 10))
        if tries:
            await target.crash()
        await pair.failover()
        await put_at(session, numbered(10, 20))
        if tries:
            await broker_clock.advance(tries * 0.1)
            await target.start()
    await target.wait_for(queue="arrivals", count=20)
    await pair.live.assert_empty("orders")
    assert await queued(target, "arrivals") == numbered(0, 20)


async def test_reconnect_same_node(broker_factory: MakeBroker, broker_clock: BrokerClock) -> None:
    """5.2.9

    Given five attempts, when the target is back before the last of them, then messages flow, and none is in delivery.
    """
    source, target = await started(broker_factory, reconnect_attempts=5, reconnect_attempts_same_node=5)
    await send(source, numbered(0, 10))
    await target.wait_for(queue="arrivals", count=10)
    await target.crash()
    await send(source, numbered(10, 20))
    await broker_clock.advance(0.45)
    await target.start()
    await target.wait_for(queue="arrivals", count=20)
    await source.assert_empty("orders")
    assert delivering(source) == 0


@pytest.mark.parametrize("persists", [True, False])
async def test_reconnect_same_node_after_delivery_with_blocking(
    request: pytest.FixtureRequest, broker_factory: MakeBroker, broker_clock: BrokerClock, persists: bool
) -> None:
    """5.2.10

    Given a way that is lost after the delivery and before its confirmation, when the bridge sends again, then the
    target drops what it has. It has stored one id for each message, or none if it does not persist them.
    """
    target = await broker_factory("b", addresses=place("arrivals"), persist_id_cache=persists).start()
    source = await make_source(broker_factory).start()
    await send(source, ["0"])
    await target.wait_for(queue="arrivals", count=1)
    await source.assert_empty("orders")
    way_of(request).partition("from_broker")
    await send(source, numbered(1, 11))
    # All are there, and the source has no confirmation of any.
    await broker_clock.advance(0.5)
    assert await manage(target).message_count("arrivals") == 11
    await source.wait_for(queue="orders", count=10)
    way_of(request).cut()
    way_of(request).heal()
    await source.assert_empty("orders")
    assert await queued(target, "arrivals") == numbered(0, 11)
    await target.crash()
    await target.start()
    found = await manage(target).get("address.arrivals", "CurrentDuplicateIdCacheSize")
    assert found == (11 if persists else 0)
    assert await queued(target, "arrivals") == numbered(0, 11)


@pytest.mark.parametrize("outage_s", [0.0, 130.0], ids=["at once", "with sleep"])
async def test_shutdown_server_cleanly_and_reconnect_same_node(
    broker_factory: MakeBroker, broker_clock: BrokerClock, outage_s: float
) -> None:
    """5.2.11

    Given a target that stops in order, for longer than a silent connection lives or not, when it is back, then
    messages arrive.
    """
    source, target = await started(broker_factory)
    await send(source, numbered(0, 10))
    await target.wait_for(queue="arrivals", count=10)
    await target.stop()
    await broker_clock.advance(outage_s)
    await target.start()
    await send(source, numbered(10, 20))
    await target.wait_for(queue="arrivals", count=20)
    assert await queued(target, "arrivals") == numbered(0, 20)


async def test_failover_then_fail_again_and_reconnect(
    request: pytest.FixtureRequest, broker_factory: MakeBroker
) -> None:
    """5.2.12

    Given a way that fails twice, when the bridge is back, then both batches have arrived in order.
    """
    source, target = await started(broker_factory)
    for turn in range(2):
        await send(source, numbered(turn * 10, turn * 10 + 10))
        await target.wait_for(queue="arrivals", count=turn * 10 + 10)
        way_of(request).cut()
    await send(source, ["20"])
    await target.wait_for(queue="arrivals", count=21)
    assert await queued(target, "arrivals") == numbered(0, 21)


async def test_delivering_count_on_bridge_connection_failure(
    request: pytest.FixtureRequest, broker_factory: MakeBroker, broker_clock: BrokerClock
) -> None:
    """5.2.13

    Given sends that wait for their confirmations, when the way is lost, then no message is in delivery.
    """
    source, target = await started(broker_factory, retry_interval_ms=60_000, max_retry_interval_ms=60_000)
    target.disk.slow_down(5.0)
    await send(source, numbered(0, 50))
    await broker_clock.advance(0.1)
    assert delivering(source) > 0
    way_of(request).cut()
    await source.wait_for(queue="orders", count=50, consumers=0)
    assert delivering(source) == 0
    target.disk.heal()


async def test_failover_while_sending(
    request: pytest.FixtureRequest, broker_factory: MakeBroker, broker_clock: BrokerClock
) -> None:
    """5.2.14

    Given more than a hundred sends without confirmation, when the way is lost again and again, then every message
    arrives once, and no address holds a byte at the end.
    """
    source, target = await started(broker_factory)
    await manage(source).invoke("bridge.to-b", "pause")
    await send(source, numbered(0, COUNT))
    target.disk.slow_down(1.0)
    await manage(source).invoke("bridge.to-b", "resume")
    for _ in range(4):
        await broker_clock.advance(0.02)
        assert delivering(source) > 100
        way_of(request).cut()
        await broker_clock.advance(0.11)
    target.disk.heal()
    await source.assert_empty("orders")
    assert await queued(target, "arrivals") == numbered(0, COUNT)
    await manage(target).remove_messages("arrivals")
    assert [await bytes_held(source, "orders"), await bytes_held(target, "arrivals")] == [0, 0]


async def test_simple_connect_on_multiple_nodes(broker_factory: MakeBroker, broker_cluster: MakeCluster) -> None:
    """5.2.15

    Given a cluster of pairs, and a bridge with both brokers of one for connectors, when messages are sent, then all
    arrive at that pair, before and after its failover.
    """
    cluster = await broker_cluster(2, pairs=True, brokers=[{"addresses": place("arrivals")}, {}]).start()
    pair = cluster.pairs[0]
    connectors = {broker.name: broker.url for broker in pair.brokers}
    over = bridge(static_connectors=list(connectors), ha=True)
    source = await make_source(broker_factory, over, connectors=connectors).start()
    await send(source, numbered(0, 20))
    await pair.wait_for(queue="arrivals", count=20)
    await pair.failover()
    await send(source, numbered(20, 40))
    await pair.wait_for(queue="arrivals", count=40)
    assert await queued(pair, "arrivals") == numbered(0, 40)
    await source.assert_empty("orders")


async def test_initial_connection_node_already_down(request: pytest.FixtureRequest, broker_factory: MakeBroker) -> None:
    """5.2.18

    Given a target that has failed over, when the bridge starts for the first time, then it finds the backup.
    """
    pair = make_pair(request)
    await pair.start()
    await pair.failover()
    connectors = {broker.name: broker.url for broker in pair.brokers}
    over = bridge(static_connectors=list(connectors), ha=True)
    source = await make_source(broker_factory, over, connectors=connectors).start()
    await send(source, numbered(0, 20))
    await pair.wait_for(queue="arrivals", count=20)
    await source.assert_empty("orders")


async def test_counter_after_bridge_failover(
    request: pytest.FixtureRequest, broker_factory: MakeBroker, broker_clock: BrokerClock
) -> None:
    """5.2.19

    Given a pair with a queue of small and large messages that is forwarded by half, when it fails over and the backup
    has the bridge, then the target has exactly all of them, and the queue counts none.
    """
    target = await broker_factory("b", addresses=place("arrivals")).start()
    over = BridgeConfig("to-b", "orders", ["b"], forwarding_address="arrivals", confirmation_window_size=300_000)
    pair = make_pair(request, bridges=[over], connectors=PLACES)
    await pair.start()
    await manage(pair.live).invoke("bridge.to-b", "pause")
    texts = [f"{number} {LARGE if number % 5 == 0 else ''}" for number in range(40)]
    async with session_at(pair.url) as session:
        await put_at(session, texts)
    target.disk.slow_down(0.02)
    await manage(pair.live).invoke("bridge.to-b", "resume")
    await broker_clock.advance(0.1)
    assert 0 < await manage(target).message_count("arrivals") < 40
    await pair.failover()
    target.disk.heal()
    await target.wait_for(queue="arrivals", count=40)
    assert await queued(target, "arrivals") == texts
    await pair.live.assert_empty("orders")
