"""What the parameters of bridges and cluster connections change: one behaviour for each that no other test has."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest

from embedbroker import AddressFullPolicy, AddressSettings, ClusterConnection, MessageLoadBalancing
from embedbroker.cluster import Change, MemberUp
from embedbroker.outbound._bridge_link import BridgeLink
from embedbroker.pytest_plugin import BrokerClock, BrokerCluster
from embedclient import BytesMessage, Queue
from embedclient.errors import JMSException
from embedclient.model import Instant
from tests.scenarios.clients import numbered, put, queued, session_at

from .test_bridges import MakeBroker, bridge, make_source, manage, place, send, started
from .test_member_bridges import MakeCluster, node_of


async def forwarding(make: MakeCluster, settings: dict[str, Any], **parameters: Any) -> BrokerCluster:
    """A cluster whose second node alone has the queue, and gets what is sent on the first."""
    brokers = [{}, {"addresses": place("orders"), **settings}]
    parameters = {"message_load_balancing": MessageLoadBalancing.STRICT, **parameters}
    cluster = await make(2, brokers=brokers, **parameters).start()
    await cluster.wait_for_bindings(queue="orders", count=1)
    return cluster


# -- of a cluster connection ---------------------------------------------------------------------------------------


async def test_announcements_are_repeated_as_often_as_configured(
    broker_factory: MakeBroker, broker_clock: BrokerClock
) -> None:
    own = ClusterConnection(connector="a", notification_interval_ms=300, notification_attempts=4)
    broker = broker_factory("a", connectors={"a": "vm://a"}, cluster_connections=own, cluster_password="x")
    await broker.start()
    cluster = node_of(broker).cluster
    assert cluster is not None
    times: list[float] = []

    def note(change: Change) -> None:
        assert isinstance(change, MemberUp)
        times.append(round(broker_clock.seconds - begun, 3))

    begun = broker_clock.seconds
    cluster.topology.listen(note)
    await broker_clock.advance(10)
    assert times == [0.0, 0.3, 0.6, 0.9, 1.2]


@pytest.mark.parametrize(("longest", "is_large"), [(1_000, True), (102_400, False)])
async def test_longer_messages_than_the_limit_are_large_at_the_other_member(
    broker_cluster: MakeCluster, longest: int, is_large: bool
) -> None:
    cluster = await forwarding(broker_cluster, {}, min_large_message_size=longest)
    far = cluster.nodes[1]
    async with cluster.sessions() as (first, _second):
        await first.create_producer(Queue("orders")).send(BytesMessage(b"x" * 5_000))
        await far.wait_for(queue="orders", count=1)
    (listed,) = json.loads(await far.broker.management.invoke("queue.orders", "listMessagesAsJSON", ""))
    assert listed.get("largeMessage", False) is is_large


@pytest.mark.parametrize("owner", ["bridge", "cluster connection"])
async def test_what_is_not_confirmed_stays_within_the_confirmation_window(
    broker_factory: MakeBroker, broker_cluster: MakeCluster, broker_clock: BrokerClock, owner: str
) -> None:
    """The disk of the target is slow, so that nothing is confirmed. The last message may exceed the window."""
    body, window = 1_000, 5_000
    if owner == "bridge":
        near, far = await started(broker_factory, confirmation_window_size=window)
        resource, queue = "bridge.to-b", "arrivals"
    else:
        cluster = await forwarding(broker_cluster, {}, confirmation_window_size=window)
        near, far = cluster.nodes
        resource, queue = "clusterconnection.cluster", "orders"
    await broker_clock.advance(0.1)
    assert [each.channel.window for each in node_of(far).core.sessions.values()] == [window]
    far.disk.slow_down(5)
    async with session_at(near.url) as client:
        producer = client.create_producer(Queue("orders"))
        for _ in range(40):
            await producer.send(BytesMessage(b"x" * body))
    await broker_clock.advance(1)
    figures = await manage(near).get(resource, "Metrics")
    assert figures["messagesAcknowledged"] == 0
    assert window / body / 2 < figures["messagesPendingAcknowledgement"] <= window / body
    far.disk.heal()
    await far.wait_for(queue=queue, count=40 if owner == "bridge" else 20)


@pytest.mark.parametrize(("window", "passes"), [(-1, True), (2_000, False)])
async def test_without_flow_control_a_bridge_sends_beyond_the_limit_of_an_address(
    broker_cluster: MakeCluster, broker_clock: BrokerClock, window: int, passes: bool
) -> None:
    limited = AddressSettings(max_size_bytes=10_000, address_full_policy=AddressFullPolicy.BLOCK)
    full = {"address_settings": {"orders": limited}}
    cluster = await forwarding(broker_cluster, full, producer_window_size=window)
    async with cluster.sessions() as (first, _second):
        await put(first, ["x" * 500] * 60)
    await broker_clock.advance(5)
    arrived = len(await queued(cluster.nodes[1]))
    # The first node has made a queue for its client, which gets every second message.
    assert arrived == 30 if passes else 0 < arrived < 30


async def test_a_silent_member_is_given_up_after_its_time_to_live(
    broker_cluster: MakeCluster, broker_clock: BrokerClock, caplog: pytest.LogCaptureFixture
) -> None:
    """The default is a minute. A bridge checks once in that time whether anything came since the check before."""
    cluster = await broker_cluster(2, check_period_ms=1_000, connection_ttl_ms=4_000).start()
    begun = broker_clock.seconds
    cluster.link(0, 1).partition()
    while "is not connected" not in caplog.text:
        await broker_clock.advance(0.5)
    assert 3 <= broker_clock.seconds - begun <= 9
    cluster.heal()
    await cluster.wait_formed()


# -- of a bridge ---------------------------------------------------------------------------------------------------


async def test_it_gives_up_after_its_reconnect_attempts(
    broker_factory: MakeBroker, broker_clock: BrokerClock, caplog: pytest.LogCaptureFixture
) -> None:
    source, target = await started(broker_factory, reconnect_attempts=2)
    await send(source, ["1"])
    await target.assert_message("arrivals", "1")
    await target.crash()
    await broker_clock.advance(5)
    assert "gives up after 3 attempts" in caplog.text
    await target.start()
    await send(source, ["2"])
    await broker_clock.advance(10)
    assert await queued(target, "arrivals") == ["1"]
    await manage(source).invoke("bridge.to-b", "start")
    await target.wait_for(queue="arrivals", count=2)


@pytest.mark.parametrize(("attempts", "turns"), [(0, True), (-1, False)])
async def test_attempts_at_the_same_node(
    broker_factory: MakeBroker, broker_clock: BrokerClock, attempts: int, turns: bool
) -> None:
    """With none it turns to another broker at once, with -1 never."""
    b, c = [await broker_factory(name, addresses=place("arrivals")).start() for name in "bc"]
    settings = bridge(static_connectors=["b", "c"], reconnect_attempts_same_node=attempts)
    source = await make_source(broker_factory, settings, connectors={name: f"vm://{name}" for name in "bc"}).start()
    await send(source, ["1"])
    await b.assert_message("arrivals", "1")
    await b.crash()
    await send(source, ["2"])
    await broker_clock.advance(30)
    assert await queued(c, "arrivals") == (["2"] if turns else [])
    if not turns:
        await b.start()
        await b.wait_for(queue="arrivals", count=2)


@pytest.mark.parametrize("owner", ["bridge", "cluster connection"])
async def test_pauses_grow_up_to_the_longest_and_begin_anew(
    broker_factory: MakeBroker,
    broker_cluster: MakeCluster,
    broker_clock: BrokerClock,
    monkeypatch: pytest.MonkeyPatch,
    owner: str,
) -> None:
    pauses = {"retry_interval_ms": 100, "retry_interval_multiplier": 2.0, "max_retry_interval_ms": 500}
    if owner == "bridge":
        _source, target = await started(broker_factory, **pauses)
    else:
        target = (await broker_cluster(2, **pauses).start()).nodes[1]
    await broker_clock.advance(1)
    times: list[float] = []

    class Noted(BridgeLink):
        def begin(self, now: Instant) -> None:
            times.append(now.monotonic)
            super().begin(now)

    monkeypatch.setattr("embedbroker.outbound._bridge.BridgeLink", Noted)
    for _ in range(2):
        times.clear()
        await target.crash()
        await broker_clock.advance(2)
        assert [round(later - before, 3) for before, later in pairwise(times)] == [0.2, 0.4, 0.5, 0.5]
        await target.start()
        await broker_clock.advance(1)


async def test_properties_and_client_id_reach_the_target(broker_factory: MakeBroker) -> None:
    source, target = await started(broker_factory, client_id="me", properties={"k": "v"})
    await send(source, ["1"])
    await target.assert_message("arrivals", "1", k="v")
    found = json.loads(await manage(target).invoke("broker", "listConnections", "", 1, 10))
    assert [each["clientID"] for each in found["data"]] == ["me"]


async def test_while_it_waits_for_confirmations_it_refuses_other_switches(
    broker_factory: MakeBroker, broker_clock: BrokerClock
) -> None:
    source, target = await started(broker_factory, pending_ack_timeout_ms=5_000)
    management = manage(source)

    async def refusals(*operations: str) -> dict[str, str]:
        found = {}
        for operation in operations:
            with pytest.raises(JMSException) as caught:
                await management.invoke("bridge.to-b", operation)
            found[operation] = str(caught.value)
        return found

    target.disk.slow_down(8.0)
    await send(source, numbered(0, 10))
    await management.invoke("bridge.to-b", "pause")
    refused = await refusals("stop", "start", "resume")
    assert all("PAUSING" in text for text in refused.values()), refused
    await management.invoke("bridge.to-b", "pause")
    await broker_clock.advance(6)
    await management.invoke("bridge.to-b", "resume")
    await broker_clock.advance(1)
    await management.invoke("bridge.to-b", "stop")
    refused = await refusals("pause", "start", "resume")
    assert all("STOPPING" in text for text in refused.values()), refused
    await management.invoke("bridge.to-b", "stop")
    await broker_clock.advance(6)
    target.disk.heal()
    await management.invoke("bridge.to-b", "start")
    await target.wait_for(queue="arrivals", count=10)
    assert await queued(target, "arrivals") == numbered(0, 10)
