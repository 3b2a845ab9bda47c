"""Scale-down: a broker moves everything to another one before it stops. Nothing is lost, and nothing is doubled."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeAlias

import pytest
import trio

from embedbroker import (
    AddressConfiguration,
    AddressFullPolicy,
    AddressSettings,
    BroadcastGroup,
    ClusterConnection,
    DiscoveryGroup,
    MessageLoadBalancing,
    PrimaryOnly,
    QueueConfiguration,
    ReplicationBackup,
    ReplicationPrimary,
    Role,
    ScaleDown,
    SharedStoreBackup,
    SharedStorePrimary,
    User,
)
from embedbroker.kernel import QueueRequest, Refused, RemoteBinding
from embedbroker.kernel.transactions._duplicate_ids import Identified
from embedbroker.node import Input, Output
from embedbroker.outbound._address_move import AddressMove
from embedbroker.pytest_plugin import BrokerClock, ManagedBroker, bench_of
from embedbroker.runtime._embedded import life_of
from embedclient import Queue, TextMessage, Topic
from embedclient.errors import IllegalStateException, JMSException
from embedclient.model import Instant, XaCode, Xid
from tests.embedbroker.kernel.letters import letter
from tests.scenarios.clients import ORDERS, numbered, put, queued, session_at, take, xa_session_at
from tests.scenarios.conftest import MakeBrokers, make_brokers
from tests.scenarios.groups import start_all

from .test_member_bridges import PRICES, MakeCluster, bridges_of, equal, node_of, subscriber_at, until, waiting

MakeBroker: TypeAlias = Callable[..., ManagedBroker]
COUNT = 1_000


def place(*names: str) -> dict[str, AddressConfiguration]:
    return {name: AddressConfiguration(anycast={name: QueueConfiguration()}) for name in names}


__all__ = ["make_brokers"]  # a fixture of the scenarios


def losses(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The lines about a connection of a scale-down that was lost."""
    return [record.getMessage() for record in caplog.records if "scale-down to vm://b: " in record.getMessage()]


async def started(make: MakeBroker, **settings: Any) -> tuple[ManagedBroker, ManagedBroker]:
    """The broker ``a``, and ``b``, which has none of its queues."""
    target = await make("b").start()
    source = await make("a", addresses=place("orders"), **settings).start()
    return source, target


async def test_messages_with_one_duplicate_id_all_move(broker_factory: MakeBroker) -> None:
    # Two addresses that one wildcard queue takes, and two messages that an operator moved into one queue.
    wild = AddressConfiguration(multicast={"all": QueueConfiguration()})
    addresses = {"in.#": wild, **place("orders", "other")}
    target = await broker_factory("b").start()
    source = await broker_factory("a", addresses=addresses).start()
    async with session_at(source.url) as session:
        for name in ("topic://in.a", "topic://in.b", "orders", "other"):
            await session.create_producer(name).send(TextMessage(name, properties={"_AMQ_DUPL_ID": "1"}))
    await source.broker.management.move_messages("other", "orders")
    assert await source.broker.scale_down("vm://b") == 4
    assert await queued(target, "orders") == ["orders", "other"]
    assert sorted(map(str, await queued(target, "all"))) == ["topic://in.a", "topic://in.b"]


async def test_a_broker_does_not_scale_down_to_itself(broker_factory: MakeBroker) -> None:
    source = await broker_factory("a", addresses=place("orders")).start()
    async with session_at(source.url) as session:
        await put(session, numbered(0, 3))
        with pytest.raises(JMSException, match="this is the broker itself"):
            await source.broker.scale_down("vm://a")
        assert await queued(source, "orders") == numbered(0, 3)


async def test_everything_in_a_queue_moves_in_order(broker_factory: MakeBroker) -> None:
    source, target = await started(broker_factory)
    async with session_at(source.url) as session:
        await put(session, numbered(0, COUNT))
    assert await source.broker.scale_down("vm://b") == COUNT
    assert not source.broker.is_running
    assert await queued(target, "orders") == numbered(0, COUNT)
    (first, *_) = await target.messages("orders")
    assert not {"_AMQ_BRIDGE_DUP", "_AMQ_ROUTE_TO"} & set(first.properties)


async def test_subscriptions_move_with_their_filters_and_share_their_messages(broker_factory: MakeBroker) -> None:
    """A message of several subscriptions is sent once. One without messages moves, too: it must miss nothing."""
    source, target = await started(broker_factory)
    news = Topic("news")
    names = ("all", "odd", "none")
    async with session_at(source.url) as session:
        for name, selector in zip(names, (None, "odd = 1", "odd = 2"), strict=True):
            await (await session.create_shared_durable_consumer(news, name, selector=selector)).close()
        producer = session.create_producer(news)
        for number in range(100):
            await producer.send(TextMessage(str(number), properties={"odd": number % 2}), priority=number % 10)
    assert await source.broker.scale_down("vm://b") == 100
    in_order = sorted(range(100), key=lambda number: (-(number % 10), number))
    assert await queued(target, "all") == [str(number) for number in in_order]
    assert await queued(target, "odd") == [str(number) for number in in_order if number % 2]
    address = target.broker.management
    assert await address.get("queue.none", "Filter") == "odd = 2"
    assert life_of(target.broker).host.node.kernel.statistics().shared_messages == 50


async def test_messages_of_every_kind_move(broker_factory: MakeBroker, broker_clock: BrokerClock) -> None:
    """Non-durable, scheduled and large ones, and what a consumer holds; each body arrives unchanged."""
    source, target = await started(broker_factory)
    large = "0123456789" * 100_000
    async with session_at(source.url, transacted=True) as holding, session_at(source.url) as session:
        await put(session, ["held"])
        consumer = await holding.create_consumer(ORDERS)
        assert await take(consumer, 1) == ["held"]
        await put(session, ["fleeting"], durable=False)
        await session.create_producer(ORDERS).send("late", delivery_delay=60)
        await put(session, [large, "last"])
        assert await source.broker.scale_down("vm://b") == 5
    assert await queued(target, "orders") == ["held", "fleeting", large, "last"]
    await broker_clock.advance(61)
    assert (await queued(target, "orders"))[-3:] == ["late", large, "last"]
    assert await target.broker.management.get("queue.orders", "DurableMessageCount") == 4


@pytest.mark.parametrize("broken", ["link", "target"])
async def test_a_target_that_is_lost_in_the_middle(
    broker_factory: MakeBroker,
    broker_clock: BrokerClock,
    request: pytest.FixtureRequest,
    caplog: pytest.LogCaptureFixture,
    broken: str,
) -> None:
    """What was in doubt is sent again under the same ids: each message arrives once, in order.

    Those of clients would not do: a broker does not check them in what another one sends for its queues.
    """
    source, target = await started(broker_factory)
    async with session_at(source.url) as session:
        producer = session.create_producer(ORDERS)
        for text in numbered(0, COUNT):
            await producer.send(TextMessage(text, properties={"_AMQ_DUPL_ID": text}))
    target.disk.slow_down(0.1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(source.broker.scale_down, "vm://b")
        for _ in range(3):
            await broker_clock.advance(0.3)
            if broken == "link":
                bench_of(request).between("a", "b").cut()
            else:
                await target.crash()
                await target.restart()
            # The next attempt is half a second after the loss.
            await broker_clock.advance(0.5)
        target.disk.heal()
    assert losses(caplog)
    assert await queued(target, "orders") == numbered(0, COUNT)


async def test_a_source_that_crashes_in_the_middle_loses_nothing(
    broker_factory: MakeBroker, broker_clock: BrokerClock
) -> None:
    """The next life has what was not recorded as moved. It scales down again, and the target drops repetitions."""
    source, target = await started(broker_factory)
    async with session_at(source.url) as session:
        await put(session, numbered(0, COUNT))
    target.disk.slow_down(0.01)
    source.disk.slow_down(0.01)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_scale_down_until_the_crash, source)
        await broker_clock.advance(0.08)
        await source.crash()
    await source.restart()
    left = len(await queued(source))
    arrived = len(await queued(target))
    assert 0 < left < COUNT < left + arrived
    target.disk.heal()
    source.disk.heal()
    await source.broker.scale_down("vm://b")
    assert await queued(target, "orders") == numbered(0, COUNT)


async def _scale_down_until_the_crash(broker: ManagedBroker) -> None:
    with suppress(IllegalStateException):
        await broker.broker.scale_down("vm://b")


async def test_without_a_target_the_broker_serves_on(broker_factory: MakeBroker) -> None:
    source = await broker_factory("a", addresses=place("orders")).start()
    async with session_at(source.url) as session:
        await put(session, ["kept"])
        with pytest.raises(IllegalStateException, match="serves on"):
            await source.broker.scale_down("vm://b")
        await put(session, ["more"])
    assert await queued(source) == ["kept", "more"]


async def test_an_address_that_the_target_does_not_take_stays(broker_factory: MakeBroker) -> None:
    """The target is full for one address; the others move, and the broker keeps the rest on its disk."""
    full = AddressSettings(max_size_bytes=5_000, address_full_policy=AddressFullPolicy.FAIL)
    await broker_factory("b", address_settings={"orders": full}).start()
    source = await broker_factory("a", addresses=place("orders", "other")).start()
    async with session_at(source.url) as session:
        await put(session, numbered(0, COUNT))
        await put(session, ["moves"], Queue("other"))
    with pytest.raises(IllegalStateException, match=r"messages stay here: .*is full"):
        await source.broker.scale_down("vm://b")
    await source.restart()
    left = await queued(source)
    assert left == numbered(COUNT - len(left), COUNT)
    assert 0 < len(left) < COUNT
    await source.assert_empty("other")


async def test_the_policy_moves_everything_at_an_orderly_stop(
    broker_factory: MakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Messages leave the source in transactions of the configured size."""
    sizes: list[int] = []

    class Noted(AddressMove):
        def _commit(self, groups: list[Any]) -> None:
            sizes.append(len(groups))
            super()._commit(groups)

    monkeypatch.setattr("embedbroker.outbound._scale_down.AddressMove", Noted)
    policy = PrimaryOnly(ScaleDown(connectors=["b"], commit_interval=7))
    source, target = await started(broker_factory, connectors={"b": "vm://b"}, ha_policy=policy)
    async with session_at(source.url) as session:
        await put(session, numbered(0, 100))
    await source.stop()
    assert await queued(target, "orders") == numbered(0, 100)
    assert sizes == [7] * 14 + [2]
    await source.start()
    await source.assert_empty("orders")


async def test_the_policy_finds_its_target_by_a_discovery_group(broker_factory: MakeBroker) -> None:
    announced = BroadcastGroup("announce", "231.7.7.7", connectors=["b"])
    target = await broker_factory("b", connectors={"b": "vm://b"}, broadcast_groups=[announced]).start()
    policy = PrimaryOnly(scale_down=ScaleDown(discovery_group="find"))
    source = await broker_factory(
        "a", ha_policy=policy, addresses=place("orders"), discovery_groups=[DiscoveryGroup("find", "231.7.7.7")]
    ).start()
    async with session_at(source.url) as session:
        await put(session, ["one"])
    await source.stop()
    assert await queued(target, "orders") == ["one"]


async def test_the_policy_without_a_target_stops_and_keeps_everything(broker_factory: MakeBroker) -> None:
    policy = PrimaryOnly(ScaleDown(connectors=["b"]))
    source = await broker_factory("a", addresses=place("orders"), connectors={"b": "vm://b"}, ha_policy=policy).start()
    async with session_at(source.url) as session:
        await put(session, ["kept"])
    await source.stop()
    await source.start()
    assert await queued(source) == ["kept"]


async def test_sessions_of_clients_go_on_at_the_target(broker_factory: MakeBroker) -> None:
    """A consumer and a producer keep working: the target has their queue before they are disconnected."""
    source, target = await started(broker_factory)
    url = f"{source.url}?reconnectAttempts=-1&retryInterval=100"
    async with session_at(url) as session:
        consumer = await session.create_consumer(ORDERS)
        await put(session, ["before"])
        assert await take(consumer, 1) == ["before"]
        await source.broker.scale_down("vm://b")
        await put(session, ["after"])
        assert await take(consumer, 1) == ["after"]
    await target.assert_empty("orders")


async def test_prepared_branches_move_with_what_they_did(broker_factory: MakeBroker) -> None:
    """A branch that sent and acknowledged is in doubt at the target, survives its crash, and has its effect there."""
    source, target = await started(broker_factory)
    branches = [Xid(1, b"branch", bytes([number])) for number in range(3)]
    async with session_at(source.url) as session:
        await put(session, ["a0", "a1", "a2", "rest"])
    for number, xid in enumerate(branches):
        async with xa_session_at(source.url) as session:
            resource = session.xa_resource
            await resource.start(xid)
            async with session.create_consumer(ORDERS) as consumer:
                assert await take(consumer, 1) == [f"a{number}"]
                await put(session, [f"s{number}"])
                await resource.end(xid)
                assert await resource.prepare(xid) == XaCode.XA_OK
    assert await source.broker.scale_down("vm://b") == 1
    assert target.broker.prepared_branches == branches
    assert await queued(target) == ["rest"]
    await target.crash()
    await target.restart()
    assert target.broker.prepared_branches == branches
    async with xa_session_at(target.url) as session:
        await session.xa_resource.commit(branches[0], False)
        await session.xa_resource.rollback(branches[1])
    assert sorted(map(str, await queued(target))) == ["a1", "rest", "s0"]
    await source.restart()
    assert source.broker.prepared_branches == []
    await source.assert_empty("orders")


async def test_a_branch_whose_move_was_cut_is_moved_once(
    broker_factory: MakeBroker,
    broker_clock: BrokerClock,
    request: pytest.FixtureRequest,
    caplog: pytest.LogCaptureFixture,
) -> None:
    source, target = await started(broker_factory)
    xid = Xid(1, b"branch", b"1")
    async with session_at(source.url) as session:
        await put(session, ["taken"])
    async with xa_session_at(source.url) as session:
        resource = session.xa_resource
        await resource.start(xid)
        async with session.create_consumer(ORDERS) as consumer:
            assert await take(consumer, 1) == ["taken"]
            await put(session, numbered(0, 20))
            await resource.end(xid)
            await resource.prepare(xid)
    target.disk.slow_down(0.01)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(source.broker.scale_down, "vm://b")
        for _ in range(3):
            await broker_clock.advance(0.035)
            bench_of(request).between("a", "b").cut()
    assert losses(caplog)
    assert target.broker.prepared_branches == [xid]
    assert await queued(target) == []
    assert await target.broker.commit_branch(xid)
    assert await queued(target) == numbered(0, 20)


async def test_duplicate_ids_move(broker_factory: MakeBroker) -> None:
    source, target = await started(broker_factory)
    message = TextMessage("once", properties={"_AMQ_DUPL_ID": "7"})
    async with session_at(source.url) as session, session.create_consumer(ORDERS) as consumer:
        await session.create_producer(ORDERS).send(message)
        assert await take(consumer, 1) == ["once"]
    await source.broker.scale_down("vm://b")
    async with session_at(target.url) as session:
        await session.create_producer(ORDERS).send(message)
        await put(session, ["other"])
    assert await queued(target) == ["other"]


async def test_duplicate_ids_of_addresses_that_other_members_have_move(broker_factory: MakeBroker) -> None:
    source, target = await started(broker_factory)
    kernel, kernel_there = (life_of(each.broker).host.node.kernel for each in (source, target))
    name = "$.artemis.internal.sf.cluster.cccccccc-0000-0000-0000-000000000000"
    queue = kernel.address_manager.create_queue(QueueRequest(name, name, routing_type=0, internal=True))
    assert not isinstance(queue, Refused)
    for number, (address, own) in enumerate((("work", "tasks"), ("news", "reader"), ("plain", "plain"))):
        routing_name = own if address == "news" else address
        binding = RemoteBinding(
            address, own + name[-36:], routing_name, number, 1, queue, MessageLoadBalancing.ON_DEMAND
        )
        kernel.address_manager.add_remote_binding(binding)
        for value in (b"8", b"BRIDGE.7 \xff"):
            keeper = kernel.address_manager.addresses[name]
            identified = kernel.duplicates.admit(letter("m", address), keeper, value, None, address)
            assert isinstance(identified, Identified)
            kernel.duplicates.accept(identified, None)
    await source.broker.scale_down("vm://b")
    found = kernel_there.address_manager.addresses
    assert not [each for each in found if "internal" in each]
    for address in ("work", "news", "plain"):
        ids = found[address].duplicate_ids
        assert ids is not None and set(ids.numbers) == {b"8", b"BRIDGE.7 \xff"}
    # The last may have either, and gets the default.
    assert [found[each].definition.anycast for each in ("work", "news", "plain")] == [True, False, False]


async def test_management_starts_a_scale_down(broker_factory: MakeBroker) -> None:
    source, target = await started(broker_factory, connectors={"b": "vm://b"})
    async with session_at(source.url) as session:
        await put(session, ["moved"])
    management = source.broker.management
    with pytest.raises(JMSException, match="there is no connector 'c'; connectors of this broker: b"):
        await management.invoke("broker", "scaleDown", "c")
    await management.invoke("broker", "scaleDown", "b")
    await source.wait_for_role(Role.STOPPED)
    assert await queued(target) == ["moved"]


async def test_a_connector_that_management_added_leads_to_the_target(broker_factory: MakeBroker) -> None:
    source, target = await started(broker_factory)
    async with session_at(source.url) as session:
        await put(session, ["moved"])
    management = source.broker.management
    await management.invoke("broker", "addConnector", "b", "vm://b")
    await management.invoke("broker", "scaleDown", "b")
    await source.wait_for_role(Role.STOPPED)
    assert await queued(target) == ["moved"]


async def test_a_backup_without_a_target_serves(make_brokers: MakeBrokers) -> None:
    """Messages that no other broker can get are of more use here than nowhere."""
    backup = SharedStoreBackup(scale_down=ScaleDown())
    brokers = make_brokers({"one": SharedStorePrimary(), "backup": backup})
    await start_all(brokers.values())
    async with session_at(brokers["one"].url) as session:
        await put(session, ["kept"])
    await brokers["one"].crash()
    await brokers["backup"].wait_for_role(Role.LIVE, timeout=30)
    assert await queued(brokers["backup"]) == ["kept"]


@pytest.mark.parametrize(
    ("primary", "backup"),
    [
        (SharedStorePrimary(failover_on_shutdown=True), SharedStoreBackup(scale_down=ScaleDown())),
        (ReplicationPrimary(), ReplicationBackup(scale_down=ScaleDown())),
    ],
    ids=["shared-store", "replication"],
)
async def test_members_forget_a_pair_that_stops_when_its_backup_scales_down(
    make_brokers: MakeBrokers,
    broker_clock: BrokerClock,
    primary: SharedStorePrimary | ReplicationPrimary,
    backup: SharedStoreBackup | ReplicationBackup,
) -> None:
    """Messages for its topics would wait for ever: that backup never serves."""
    brokers = make_brokers({"one": primary, "backup": backup}, {"a": PrimaryOnly()}, {"b": PrimaryOnly()})
    await start_all(brokers.values())
    one, others = brokers["one"], (brokers["a"], brokers["b"])
    if isinstance(primary, ReplicationPrimary):
        await brokers["backup"].wait_in_sync()
    async with subscriber_at(one):
        pass
    await equal(broker_clock, one, *others)
    left = node_of(one).node_id
    await one.stop()
    await until(broker_clock, lambda: all(left not in bridges_of(each) for each in others))
    for each in others:
        async with session_at(each.url) as session:
            await put(session, ["after"], PRICES)
    await until(broker_clock, lambda: not any(map(waiting, others)))


async def test_only_members_of_the_group_get_the_messages_and_act_for_the_node(
    make_brokers: MakeBrokers, broker_clock: BrokerClock
) -> None:
    """The target answers for the node id of the broker that has left, and no other member does."""
    east, west = PrimaryOnly(ScaleDown(group_name="east")), PrimaryOnly(ScaleDown(group_name="west"))
    brokers = make_brokers({"a": east}, {"b": west}, {"c": east}, {"d": west})
    await start_all(brokers.values())
    await broker_clock.advance(1)
    node_id = brokers["a"].broker.node_id
    async with session_at(brokers["a"].url) as session:
        await put(session, ["moved"])
    await brokers["a"].stop()
    assert await queued(brokers["c"]) == ["moved"]
    acting = {name: _acts_for(broker, node_id) for name, broker in brokers.items() if name != "a"}
    assert acting == {"b": False, "c": True, "d": False}


def _acts_for(broker: ManagedBroker, node_id: str) -> bool:
    cluster = life_of(broker.broker).host.node.cluster
    assert cluster is not None
    return cluster.acts_for(node_id)


@pytest.mark.parametrize(("name", "expected"), [(None, "b"), ("one", "b"), ("two", "c")])
async def test_of_two_cluster_connections_the_named_one_has_the_target(
    broker_factory: MakeBroker, broker_clock: BrokerClock, name: str | None, expected: str
) -> None:
    """Both have the same members, because each of them announces itself at the acceptor. Node ids are random, so
    there are three brokers to which only the other connection leads."""
    others = {
        "b": "one",
        "c": "two",
        "d": "two" if expected == "b" else "one",
        "e": "two" if expected == "b" else "one",
    }
    shared: dict[str, Any] = {"connectors": {each: f"vm://{each}" for each in ("a", *others)}, "cluster_password": "x"}
    brokers = {}
    for each, connection in others.items():
        own = ClusterConnection(name=connection, connector=each, static_connectors=["a"], addresses=[connection])
        brokers[each] = await broker_factory(each, cluster_connections=[own], **shared).start()
    connections = [
        ClusterConnection(
            name=each,
            connector="a",
            static_connectors=[other for other, connection in others.items() if connection == each],
            addresses=[each],
        )
        for each in ("one", "two")
    ]
    policy = PrimaryOnly(ScaleDown(cluster_name=name))
    source = await broker_factory("a", cluster_connections=connections, ha_policy=policy, **shared).start()
    await broker_clock.advance(5)
    async with session_at(source.url) as session:
        await put(session, ["moved"])
    await source.stop()
    assert [each for each, broker in brokers.items() if "orders" in {queue.name for queue in broker.queues()}] == [
        expected
    ]


async def test_many_messages_move_in_short_steps(broker_factory: MakeBroker) -> None:
    """No step takes long, however much is there: the longest portion is a fraction of all of them."""
    source, target = await started(broker_factory)
    node = life_of(source.broker).host.node
    async with session_at(source.url, transacted=True) as session:
        await put(session, numbered(0, 5_000), durable=False)
        await session.commit()
    sizes: list[int] = []
    queue = node.kernel.address_manager.queues["orders"]

    def step(input: Input, now: Instant, original: Callable[..., list[Output]] = node.step) -> list[Output]:
        before = queue.message_count
        outputs = original(input, now)
        sizes.append(before - queue.message_count)
        return outputs

    node.step = step  # type: ignore[method-assign]
    assert await source.broker.scale_down("vm://b") == 5_000
    assert 0 < max(sizes) <= 1_000
    assert await target.broker.management.message_count("orders") == 5_000


@pytest.mark.parametrize("of_target", [20, 0])
async def test_messages_for_other_members_move_and_go_on_to_them(
    make_brokers: MakeBrokers, broker_clock: BrokerClock, of_target: int
) -> None:
    """Those for the target arrive in its queues; it sends those for a third broker on when that one is there again.

    The target gets the address of those for a third broker, if it has none.
    """
    brokers = make_brokers({"a": PrimaryOnly()}, {"b": PrimaryOnly()}, {"c": PrimaryOnly()})
    await start_all(brokers.values())
    a, b, c = brokers["a"], brokers["b"], brokers["c"]
    news = Topic("news")
    await broker_clock.advance(2)
    for broker, name in ((b, "of-b"), (c, "of-c"))[of_target == 0 :]:
        async with session_at(broker.url) as session:
            await (await session.create_shared_durable_consumer(news, name)).close()
    await broker_clock.advance(2)
    await c.crash()
    b.link.partition()
    async with session_at(a.url) as session:
        for number in range(20):
            await session.create_producer(news).send(str(number))
    b.link.heal()
    await broker_clock.advance(3)
    await a.broker.scale_down(b.url)
    if of_target:
        assert await queued(b, "of-b") == numbered(0, of_target)
    await c.restart()
    await c.wait_for(queue="of-c", count=20)
    assert await queued(c, "of-c") == numbered(0, 20)


async def test_what_a_transaction_sent_to_a_member_that_leaves_goes_to_its_new_place(
    make_brokers: MakeBrokers, broker_clock: BrokerClock
) -> None:
    """Its commit comes when the other messages of the member's queue are gone for long."""
    brokers = make_brokers({"a": PrimaryOnly()}, {"b": PrimaryOnly()}, {"c": PrimaryOnly()})
    await start_all(brokers.values())
    a, b, c = brokers["a"], brokers["b"], brokers["c"]
    news = Topic("news")
    async with session_at(b.url) as session:
        await (await session.create_shared_durable_consumer(news, "of-b")).close()
    await broker_clock.advance(2)
    async with session_at(a.url, transacted=True) as session:
        producer = session.create_producer(news)
        for text in numbered(0, 3):
            await producer.send(text)
        (queue,) = [each.name for each in a.queues() if each.name.endswith(b.broker.node_id or "")]
        await b.broker.scale_down(c.url)
        await broker_clock.advance(20)
        assert queue in [each.name for each in a.queues()]
        await session.commit()
        await broker_clock.advance(2)
    assert await queued(c, "of-b") == numbered(0, 3)
    assert queue not in [each.name for each in a.queues()]


async def test_what_a_member_that_leaves_was_to_send_on_waits_for_it(
    broker_cluster: MakeCluster, broker_clock: BrokerClock
) -> None:
    """Of a message for queues of the member and for one behind it, each queue gets its part, and no other one does."""
    cluster = broker_cluster(3, topology="chain")
    await cluster.start()
    first, leaving, behind = cluster.nodes
    news = Topic("news")
    for number, node in enumerate(cluster.nodes):
        async with session_at(node.url) as session:
            await (await session.create_shared_durable_consumer(news, f"of-{number}")).close()
    await cluster.wait_formed()
    async with session_at(first.url, transacted=True) as session:
        producer = session.create_producer(news)
        for text in numbered(0, 3):
            await producer.send(text)
        await leaving.broker.scale_down(first.url)
        await session.commit()
    await broker_clock.advance(20)
    assert await queued(behind, "of-2") == []
    await leaving.restart()
    await behind.wait_for(queue="of-2", count=3)
    found = [await queued(each, name) for each, name in ((first, "of-0"), (first, "of-1"), (behind, "of-2"))]
    assert found == [numbered(0, 3)] * 3


@pytest.mark.parametrize("target", [0, 3])
async def test_the_rest_of_a_message_follows_when_there_is_a_way_to_its_queue(
    broker_cluster: MakeCluster, broker_clock: BrokerClock, target: int
) -> None:
    """The part that went first does not count as the same message: here, and at the member with the queues."""
    cluster = broker_cluster(4, max_hops=2, retry_interval_ms=100)
    first, leaving, behind, _ = cluster.nodes
    cluster.partition([0, 3], [2])
    await start_all(cluster.nodes)
    await broker_clock.advance(8)
    for node, name in ((leaving, "near"), (behind, "far")):
        async with session_at(node.url) as session:
            await (await session.create_shared_durable_consumer(Topic("news"), name)).close()
    await broker_clock.advance(3)
    waiting = bridges_of(first)[node_of(leaving).node_id].queue
    waiting.set_paused(itself=True)
    async with session_at(first.url) as session:
        await put(session, numbered(0, 3), Topic("news"))
    await leaving.broker.scale_down(cluster.nodes[target].url)
    await broker_clock.advance(2)
    assert await queued(cluster.nodes[target], "near") == numbered(0, 3)
    assert waiting.message_count == 3
    cluster.heal()
    if target:
        # So that what is left goes to the same member as what went before.
        cluster.partition([0], [2])
    await broker_clock.advance(6)
    assert await queued(behind, "far") == numbered(0, 3)
    assert await queued(cluster.nodes[target], "near") == numbered(0, 3)
    assert waiting.deleted


async def test_a_message_of_a_client_behind_one_that_is_divided_is_a_dead_letter(
    broker_cluster: MakeCluster, broker_clock: BrokerClock
) -> None:
    """It has no route: only the client put it into the queue of a member."""
    cluster = broker_cluster(3, topology="chain")
    await cluster.start()
    first, leaving, behind = cluster.nodes
    for node, name in ((leaving, "near"), (behind, "far")):
        async with session_at(node.url) as session:
            await (await session.create_shared_durable_consumer(Topic("news"), name)).close()
    await cluster.wait_formed()
    await broker_clock.advance(3)
    waiting = bridges_of(first)[node_of(leaving).node_id].queue
    waiting.set_paused(itself=True)
    async with session_at(first.url) as session:
        await put(session, ["divided"], Topic("news"))
        await put(session, ["stray"], Topic(waiting.name))
    assert waiting.message_count == 2
    await leaving.broker.scale_down(first.url)
    await broker_clock.advance(3)
    assert await queued(first, "near") == ["divided"]
    assert await queued(first, "DLQ") == ["stray"]
    assert waiting.message_count == 1


async def test_messages_for_another_member_follow_several_scale_downs(
    broker_cluster: MakeCluster, broker_clock: BrokerClock
) -> None:
    """Their ids are in force since they came to the broker before; this does not mean that the member had them."""
    cluster = broker_cluster(4, retry_interval_ms=100)
    await cluster.start()
    first, second, source, leaving = cluster.nodes
    for node, name in ((first, "one"), (second, "two"), (leaving, "near")):
        async with session_at(node.url) as session:
            await (await session.create_shared_durable_consumer(Topic("news"), name)).close()
    await broker_clock.advance(3)
    waiting = [bridges_of(node)[node_of(leaving).node_id].queue for node in (first, second, source)]
    for queue in waiting:
        queue.set_paused(itself=True)
    async with session_at(source.url) as session:
        await put(session, numbered(0, 3), Topic("news"))
    for node, target, counts in ((source, second, [0, 3, 0]), (second, first, [3, 0, 0]), (leaving, first, [3, 0, 0])):
        await node.broker.scale_down(target.url)
        await broker_clock.advance(0.5)
        assert [queue.message_count for queue in waiting] == counts
    await broker_clock.advance(3)
    for name in ("one", "two", "near"):
        assert await queued(first, name) == numbered(0, 3)


@pytest.mark.parametrize("password", ["secret", "wrong"])
async def test_a_target_with_users_admits_the_cluster_user_alone(broker_factory: MakeBroker, password: str) -> None:
    secured = {"cluster_connections": ClusterConnection(), "cluster_user": "cluster", "cluster_password": "secret"}
    target = await broker_factory("b", users=[User("u", "p", ("r",))], **secured).start()
    source = await broker_factory(
        "a", addresses=place("orders"), cluster_user="cluster", cluster_password=password
    ).start()
    async with session_at(source.url) as session:
        await put(session, ["moved"])
    if password == "wrong":
        with pytest.raises(IllegalStateException, match="cannot scale down"):
            await source.broker.scale_down("vm://b")
        assert await queued(source) == ["moved"]
    else:
        assert await source.scale_down(target) == 1
        assert await target.broker.management.message_count("orders") == 1


async def test_sessions_go_on_at_a_member_that_lets_them_in_when_it_has_everything(
    make_brokers: MakeBrokers, broker_clock: BrokerClock
) -> None:
    """A member that may scale down itself answers for the node that has left only from the end of the move on."""
    brokers = make_brokers({"a": PrimaryOnly(ScaleDown())}, {"b": PrimaryOnly(ScaleDown())})
    await start_all(brokers.values())
    await broker_clock.advance(2)
    async with session_at(f"{brokers['a'].url}?ha=true&reconnectAttempts=-1&retryInterval=100") as session:
        consumer = await session.create_consumer(Queue("other"))
        await put(session, numbered(0, 100))
        await brokers["a"].stop()
        await put(session, ["after"], Queue("other"))
        assert await take(consumer, 1) == ["after"]
    assert await queued(brokers["b"]) == numbered(0, 100)
