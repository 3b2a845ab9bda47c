"""Bridges between two brokers in virtual time: nothing is lost, nothing is doubled, and order is kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest
import trio

from embedbroker import (
    AddressConfiguration,
    BridgeConfig,
    BridgedMessage,
    BridgeRoutingType,
    ClusterConnection,
    QueueConfiguration,
    User,
)
from embedbroker.management._bridge_control import BRIDGE
from embedbroker.management._cluster_control import CLUSTER_CONNECTION
from embedbroker.pytest_plugin import BrokerClock, ManagedBroker, bench_of
from embedclient import Queue
from embedclient.errors import JMSException
from tests.scenarios.clients import ORDERS, bodies, numbered, put, queued, session_at

MakeBroker: TypeAlias = Callable[..., ManagedBroker]
ARRIVALS = Queue("arrivals")
COUNT = 1_000


def place(*names: str) -> dict[str, AddressConfiguration]:
    return {name: AddressConfiguration(anycast={name: QueueConfiguration()}) for name in names}


def bridge(**settings: Any) -> BridgeConfig:
    given: dict[str, Any] = {
        "name": "to-b",
        "queue": "orders",
        "static_connectors": ["b"],
        "forwarding_address": "arrivals",
        "retry_interval_ms": 100,
    }
    return BridgeConfig(**given | settings)


def make_source(make: MakeBroker, *bridges: BridgeConfig, **settings: Any) -> ManagedBroker:
    given = {"addresses": place("orders"), "connectors": {"b": "vm://b"}, "bridges": bridges or [bridge()]}
    return make("a", **given | settings)


async def started(make: MakeBroker, **settings: Any) -> tuple[ManagedBroker, ManagedBroker]:
    """The source ``a``, with a bridge of these settings, and the target ``b``."""
    target = await make("b", addresses=place("arrivals")).start()
    source = await make_source(make, bridge(**settings)).start()
    return source, target


async def send(broker: ManagedBroker, texts: list[str], *, durable: bool = True) -> None:
    async with session_at(broker.url) as session:
        await put(session, texts, durable=durable)


def manage(broker: ManagedBroker) -> Any:
    return broker.broker.management


@pytest.mark.parametrize("settings", [{}, {"confirmation_window_size": 2_000}, {"producer_window_size": 500}])
async def test_simple_bridge_keeps_order(broker_factory: MakeBroker, settings: dict[str, int]) -> None:
    source, target = await started(broker_factory, **settings)
    await send(source, numbered(0, 100))
    await target.wait_for(queue="arrivals", count=100)
    assert await queued(target, "arrivals") == numbered(0, 100)
    await source.assert_empty("orders")
    figures = await manage(source).get("bridge.to-b", "Metrics")
    assert figures == {"messagesPendingAcknowledgement": 0, "messagesAcknowledged": 100}
    (arrived, *_) = await target.messages("arrivals")
    assert "_AMQ_BRIDGE_DUP" not in arrived.properties


async def test_a_target_that_crashes_again_and_again(broker_factory: MakeBroker, broker_clock: BrokerClock) -> None:
    """Confirmations are late, so that each crash leaves sends in doubt, which are repeated."""
    source, target = await started(broker_factory)
    target.disk.slow_down(0.02)

    async def produce() -> None:
        async with session_at(source.url) as session:
            for number in range(COUNT):
                await put(session, [str(number)])
                await broker_clock.advance(0.002)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(produce)
        for _ in range(5):
            await broker_clock.advance(0.31)
            await target.crash()
            await broker_clock.advance(0.05)
            await target.restart()
    target.disk.heal()
    await source.assert_empty("orders")
    await target.wait_for(queue="arrivals", count=COUNT)
    assert await queued(target, "arrivals") == numbered(0, COUNT)
    source.assert_nothing_lost()
    target.assert_nothing_lost()


async def test_a_source_that_crashes_again_and_again(broker_factory: MakeBroker, broker_clock: BrokerClock) -> None:
    """What the source had not recorded as confirmed is repeated by its next life under the same ids."""
    source, target = await started(broker_factory)
    await manage(source).invoke("bridge.to-b", "pause")
    await send(source, numbered(0, COUNT))
    source.disk.slow_down(0.02)
    target.disk.slow_down(0.01)
    await manage(source).invoke("bridge.to-b", "resume")
    for _ in range(4):
        await broker_clock.advance(0.03)
        await source.crash()
        await source.restart()
    await source.assert_empty("orders")
    await target.wait_for(queue="arrivals", count=COUNT)
    assert await queued(target, "arrivals") == numbered(0, COUNT)


async def test_without_duplicate_detection_one_message_is_in_doubt(
    broker_factory: MakeBroker, broker_clock: BrokerClock, request: pytest.FixtureRequest
) -> None:
    """The target gets each when the one before is confirmed, and a lost connection doubles that one alone."""
    source, target = await started(broker_factory, use_duplicate_detection=False)
    await broker_clock.advance(0.1)
    target.disk.slow_down(1)
    await send(source, numbered(0, 10))
    for count in range(1, 4):
        await broker_clock.advance(0.5)
        assert await manage(target).get("address.arrivals", "RoutedMessageCount") == count
        await broker_clock.advance(0.5)
    await broker_clock.advance(0.5)
    bench_of(request).between("a", "b").cut()
    target.disk.heal()
    await source.assert_empty("orders")
    await target.wait_for(queue="arrivals", count=11)
    assert await queued(target, "arrivals") == [*numbered(0, 4), "3", *numbered(4, 10)]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"use_duplicate_detection": False},
        {"min_large_message_size": 1_000},
        {"producer_window_size": 50_000, "confirmation_window_size": 1_024},
    ],
    ids=["defaults", "one at a time", "small chunks", "very large beside a bridge with small windows"],
)
async def test_large_message_bridge_sends_chunks(broker_factory: MakeBroker, settings: dict[str, Any]) -> None:
    source, target = await started(broker_factory, **settings)
    texts = ["small", "x" * 300_000, "between", "y" * 4_000_000, "z" * 102_400, "last"]
    await send(source, texts)
    await target.wait_for(queue="arrivals", count=len(texts))
    assert await queued(target, "arrivals") == texts
    await source.assert_empty("orders")


async def test_large_messages_and_a_target_that_crashes(broker_factory: MakeBroker, broker_clock: BrokerClock) -> None:
    source, target = await started(broker_factory, confirmation_window_size=1_000_000)
    await manage(source).invoke("bridge.to-b", "pause")
    texts = [f"{number}," * 60_000 if number % 3 else str(number) for number in range(40)]
    await send(source, texts)
    target.disk.slow_down(0.01)
    source.disk.slow_down(0.01)
    await manage(source).invoke("bridge.to-b", "resume")
    for _ in range(4):
        await broker_clock.advance(0.08)
        await target.crash()
        await target.restart()
    await source.assert_empty("orders")
    await target.wait_for(queue="arrivals", count=len(texts))
    assert await queued(target, "arrivals") == texts


async def test_with_filter_others_stay(broker_factory: MakeBroker) -> None:
    source, target = await started(broker_factory, filter="AMQPriority > 4")
    async with session_at(source.url) as session:
        producer = session.create_producer(ORDERS)
        for number in range(10):
            producer.priority = number
            await producer.send(str(number))
    await target.wait_for(queue="arrivals", count=5)
    assert sorted(map(str, await queued(target, "arrivals"))) == numbered(5, 10)
    assert sorted(map(str, await queued(source))) == numbered(0, 5)


async def test_null_forwarding_address_keeps_the_address(broker_factory: MakeBroker) -> None:
    source, target = await started(broker_factory, forwarding_address=None)
    await send(source, ["here"])
    await target.assert_message("orders", "here")


async def test_with_injected_transformer(broker_factory: MakeBroker) -> None:
    def change(message: BridgedMessage) -> None:
        message.set_property("way", f"{message.original_address} to {message.address}")
        message.address = "others"

    source, target = await started(broker_factory, transformer=change, routing_type=BridgeRoutingType.ANYCAST)
    await send(source, ["one"])
    await target.assert_message("others", "one", way="orders to arrivals")
    assert await manage(source).get("bridge.to-b", "TransformerClassName") == change.__qualname__


async def test_with_transformer(broker_factory: MakeBroker, caplog: pytest.LogCaptureFixture) -> None:
    """It changes a property and the body; that of a large message is not there, and the message stays."""

    def shout(message: BridgedMessage) -> None:
        body = message.body
        assert body is not None
        message.body = body.upper()
        assert message.body == body.upper()
        message.set_property("size", len(body))

    source, target = await started(broker_factory, transformer=shout)
    async with session_at(source.url) as session:
        producer = session.create_producer(ORDERS)
        for content in ("one", b"two", "x" * 300_000, "häß"):
            await producer.send(content)
    await target.wait_for(queue="arrivals", count=3)
    assert await queued(target, "arrivals") == ["ONE", b"TWO", "HÄSS"]
    assert [message.properties["size"] for message in await target.messages("arrivals")] == [3, 3, 3]
    await source.wait_for(queue="orders", count=1)
    assert "leaves message" in caplog.text and "a transformer has its properties only" in caplog.text


async def test_a_message_that_cannot_be_forwarded_stays_and_the_others_pass(
    broker_factory: MakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    def fail_for_two(message: BridgedMessage) -> None:
        if message.priority == 2:
            raise LookupError("no two")

    source, target = await started(broker_factory, transformer=fail_for_two)
    async with session_at(source.url) as session:
        producer = session.create_producer(ORDERS)
        producer.priority = 2
        for text in ("two", "two again"):
            await producer.send(text)
        producer.priority = 4
        await producer.send("last")
    await target.assert_message("arrivals", "last")
    await source.wait_for(queue="orders", count=2, consumers=1)
    assert await queued(source) == ["two", "two again"]
    assert [state.delivering_count for state in source.queues() if state.name == "orders"] == [0]
    lines = [line for line in caplog.messages if "leaves message" in line]
    assert len(lines) == 2
    assert "the transformer failed: LookupError: no two" in lines[0]
    # A pause makes a new consumer: the messages are tried again, and are not logged again.
    await manage(source).invoke("bridge.to-b", "pause")
    await manage(source).invoke("bridge.to-b", "resume")
    await send(source, ["later"])
    await target.wait_for(queue="arrivals", count=2)
    assert len([line for line in caplog.messages if "leaves message" in line]) == 2


async def test_start_later_and_get_the_address_later(
    broker_factory: MakeBroker, broker_clock: BrokerClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Artemis' BridgeTest.testStartLater. The log has one line for each cause, not for each attempt."""
    source = await make_source(broker_factory, bridge(retry_interval_multiplier=2.0)).start()
    await send(source, numbered(0, 10))
    await broker_clock.advance(20)
    target = await broker_factory("b").start()
    await broker_clock.advance(20)
    assert await queued(source) == numbered(0, 10)
    await manage(target).create_queue("arrivals")
    await target.wait_for(queue="arrivals", count=10)
    lines = [line for line in caplog.messages if "is not connected" in line]
    assert len(lines) == 2
    assert "has no address 'arrivals'" in lines[1]


@pytest.mark.parametrize(("first", "second"), [("stop", "start"), ("pause", "resume")])
async def test_manual_stop_start(
    broker_factory: MakeBroker, broker_clock: BrokerClock, first: str, second: str
) -> None:
    """Artemis' BridgeStartTest.testManualStopStart."""
    source, target = await started(broker_factory)
    management = manage(source)
    assert await management.get("broker", "BridgeNames") == ["to-b"]
    for turn in range(3):
        await send(source, numbered(turn * 20, turn * 20 + 10))
        await target.wait_for(queue="arrivals", count=turn * 20 + 10)
        assert await management.get("bridge.to-b", "Connected")
        await management.invoke("bridge.to-b", first)
        await source.wait_for(queue="orders", count=0, consumers=0)
        assert not await management.get("bridge.to-b", "Started")
        assert not await management.get("bridge.to-b", "Connected")
        await send(source, numbered(turn * 20 + 10, turn * 20 + 20))
        await broker_clock.advance(1)
        await source.wait_for(queue="orders", count=10)
        await management.invoke("bridge.to-b", second)
        await target.wait_for(queue="arrivals", count=turn * 20 + 20)
    assert await queued(target, "arrivals") == numbered(0, 60)


TYPES = {"boolean": bool, "int": int, "long": int, "String": str, "double": float, "String[]": list, "Map": dict}


async def test_every_attribute_of_a_cluster_connection_can_be_read(broker_factory: MakeBroker) -> None:
    connection = ClusterConnection(name="mine", connector="a", static_connectors=["b"])
    places = {"a": "vm://a", "b": "vm://b"}
    broker = await broker_factory("a", connectors=places, cluster_connections=connection).start()
    for attribute in CLUSTER_CONNECTION.attributes.values():
        value = await manage(broker).get("clusterconnection.mine", attribute.name)
        assert value is None or type(value) is TYPES[attribute.type], attribute.name


async def test_every_attribute_can_be_read(broker_factory: MakeBroker) -> None:
    source, _target = await started(broker_factory, filter="a = 1", properties={"k": "v"})
    for attribute in BRIDGE.attributes.values():
        value = await manage(source).get("bridge.to-b", attribute.name)
        is_empty = value is None and attribute.name == "DiscoveryGroupName"
        assert type(value) is TYPES[attribute.type] or is_empty, attribute.name
    with pytest.raises(JMSException):
        await manage(source).get("bridge.to-c", "Name")


async def test_a_switch_at_the_wrong_time_is_refused(broker_factory: MakeBroker) -> None:
    source, _target = await started(broker_factory)
    management = manage(source)
    with pytest.raises(JMSException, match="not PAUSED"):
        await management.invoke("bridge.to-b", "resume")
    await management.invoke("bridge.to-b", "stop")
    await source.wait_for(queue="orders", count=0, consumers=0)
    with pytest.raises(JMSException, match="is STOPPED: start it instead"):
        await management.invoke("bridge.to-b", "pause")


async def test_target_server_not_available_no_reconnect_tries(
    broker_factory: MakeBroker, broker_clock: BrokerClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Artemis' BridgeStartTest.testTargetServerNotAvailableNoReconnectTries."""
    source = await make_source(broker_factory, bridge(initial_connect_attempts=0)).start()
    await send(source, ["one"])
    target = await broker_factory("b", addresses=place("arrivals")).start()
    await broker_clock.advance(10)
    await target.assert_empty("arrivals")
    assert any("gives up after 1 attempts" in line for line in caplog.messages)
    await manage(source).invoke("bridge.to-b", "start")
    await target.assert_message("arrivals", "one")


async def test_it_comes_back_to_the_same_node_before_it_turns_to_another(
    broker_factory: MakeBroker, broker_clock: BrokerClock
) -> None:
    settings = {"static_connectors": ["c", "b"], "retry_interval_ms": 100, "reconnect_attempts_same_node": 3}
    b = await broker_factory("b", addresses=place("arrivals")).start()
    connectors = {name: f"vm://{name}" for name in "bc"}
    source = await make_source(broker_factory, bridge(**settings), connectors=connectors).start()
    await send(source, ["one"])
    await b.assert_message("arrivals", "one")
    # Named first, and there from now on.
    c = await broker_factory("c", addresses=place("arrivals")).start()
    await b.crash()
    await send(source, ["two"])
    await broker_clock.advance(0.25)
    await b.start()
    await b.wait_for(queue="arrivals", count=2)
    await b.crash()
    await send(source, ["three"])
    await broker_clock.advance(0.25)
    await c.assert_empty("arrivals")
    await c.wait_for(queue="arrivals", count=1)


async def test_several_bridges_share_a_queue(broker_factory: MakeBroker) -> None:
    source, target = await started(broker_factory, concurrency=3)
    assert await manage(source).get("broker", "BridgeNames") == ["to-b-0", "to-b-1", "to-b-2"]
    await source.wait_for(queue="orders", count=0, consumers=3)
    await send(source, numbered(0, 100))
    await target.wait_for(queue="arrivals", count=100)
    assert sorted(int(str(body)) for body in bodies(await target.messages("arrivals"))) == list(range(100))


async def test_a_user_of_the_target_and_a_wrong_password(
    broker_factory: MakeBroker, broker_clock: BrokerClock, caplog: pytest.LogCaptureFixture
) -> None:
    users = [User("carrier", "right", roles=("carriers",))]
    target = await broker_factory("b", addresses=place("arrivals"), users=users).start()
    right = bridge(name="right", user="carrier", password="right")
    wrong = bridge(name="wrong", queue="others", user="carrier", password="wrong")
    source = await make_source(broker_factory, right, wrong, addresses=place("orders", "others")).start()
    await send(source, ["one"])
    await broker_clock.advance(5)
    assert await manage(target).message_count("arrivals") == 1
    assert not await manage(source).get("bridge.wrong", "Connected")
    assert any("bridge 'wrong' is not connected" in line and "carrier" in line for line in caplog.messages)


async def test_a_queue_that_is_deleted_and_created_again(broker_factory: MakeBroker, broker_clock: BrokerClock) -> None:
    source, target = await started(broker_factory)
    await source.wait_for(queue="orders", count=0, consumers=1)
    await manage(source).delete_queue("orders", closes_consumers=True)
    await broker_clock.advance(5)
    await manage(source).create_queue("orders")
    await send(source, ["again"])
    await target.assert_message("arrivals", "again")


async def test_an_orderly_stop_returns_what_is_not_confirmed(broker_factory: MakeBroker) -> None:
    source, target = await started(broker_factory)
    target.disk.slow_down(3.0)
    await send(source, numbered(0, 20))
    await source.restart()
    target.disk.heal()
    await target.wait_for(queue="arrivals", count=20)
    await source.assert_empty("orders")
    assert await queued(target, "arrivals") == numbered(0, 20)


async def test_notifications_of_stop_and_start(broker_factory: MakeBroker) -> None:
    source, _target = await started(broker_factory)
    await manage(source).create_queue("events", address="activemq.notifications", routing_type="MULTICAST")
    await manage(source).invoke("bridge.to-b", "stop")
    await source.wait_for(queue="orders", count=0, consumers=0)
    await manage(source).invoke("bridge.to-b", "start")
    messages = await source.messages("events")
    found = [(each.properties["_AMQ_NotifType"], each.properties.get("name")) for each in messages]
    assert [each for each in found if each[1] is not None] == [("BRIDGE_STOPPED", "to-b"), ("BRIDGE_STARTED", "to-b")]
