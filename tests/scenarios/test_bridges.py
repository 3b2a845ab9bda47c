"""5.1: a bridge between two brokers. Lines that are not here are held by tests of `embedbroker/outbound`."""

from __future__ import annotations

import json
from uuid import UUID

import pytest
import trio

from embedbroker import (
    AddressConfiguration,
    AddressFullPolicy,
    AddressSettings,
    BridgeConfig,
    BridgeRoutingType,
    QueueConfiguration,
)
from embedbroker.pytest_plugin import BrokerClock, bench_of
from embedclient import Queue, ServerLocator, Topic
from embedclient.model import PropertyType
from tests.embedbroker.outbound.test_bad_luck import lines, settings_of_full
from tests.embedbroker.outbound.test_bridges import MakeBroker, bridge, make_source, manage, place, send, started
from tests.scenarios.clients import numbered, put, queued, session_at, take

pytestmark = pytest.mark.usefixtures("broker_clock")

LARGE = [f"{number}," * 60_000 for number in range(4)]


async def test_with_transformer_properties(broker_factory: MakeBroker) -> None:
    """5.1.5

    Given a bridge with properties, when a message is forwarded, then it has them.
    """
    source, target = await started(broker_factory, properties={"way": "over a bridge", "leg": "2"})
    await send(source, ["one"])
    await target.assert_message("arrivals", "one", way="over a bridge", leg="2")


async def test_with_duplicates(broker_factory: MakeBroker) -> None:
    """5.1.9

    Given a target that already has the ids of the first 100, when the bridge connects, then the later ones arrive
    only; the other queue of the source keeps all.
    """
    both = {name: QueueConfiguration() for name in ("bridged", "kept")}
    # The queue of the target is of the other routing type.
    over = bridge(queue="bridged", routing_type=BridgeRoutingType.STRIP)
    source = await make_source(broker_factory, over, addresses={"orders": AddressConfiguration(multicast=both)}).start()
    await manage(source).invoke("bridge.to-b", "stop")
    async with session_at(source.url) as session:
        await put(session, numbered(0, 150), Topic("orders"))
    ids = [row["messageID"] for row in await manage(source).browse("bridged", page_size=150)]
    target = await broker_factory("b", addresses=place("arrivals")).start()
    node = UUID(source.broker.node_id).bytes
    async with ServerLocator(target.url).create_session_factory() as factory, factory.create_session() as core:
        producer = core.create_producer("arrivals")
        for number in ids[:100]:
            message = core.create_message(b"known", durable=True)
            message.properties.set("_AMQ_BRIDGE_DUP", node + int(number).to_bytes(8, "big"), PropertyType.BYTES)
            await producer.send(message)
    await manage(target).remove_messages("arrivals")
    await manage(source).invoke("bridge.to-b", "start")
    await target.wait_for(queue="arrivals", count=50)
    await source.assert_empty("bridged")
    assert await queued(target, "arrivals") == numbered(100, 150)
    assert await queued(source, "kept") == numbered(0, 150)


@pytest.mark.parametrize("policy", [AddressFullPolicy.BLOCK, AddressFullPolicy.FAIL], ids=["", "fail"])
async def test_blocked_bridge_and_reconnect(
    broker_factory: MakeBroker, broker_clock: BrokerClock, caplog: pytest.LogCaptureFixture, policy: AddressFullPolicy
) -> None:
    """5.1.10

    Given a bridge whose target has no room, when the target restarts, then it goes on; all arrive in order.
    """
    full = settings_of_full(policy, "arrivals")
    target = await broker_factory("b", addresses=place("arrivals"), **full).start()
    source = await make_source(broker_factory, bridge(producer_window_size=2_000)).start()
    await send(source, [text.ljust(500) for text in numbered(0, 100)])
    await broker_clock.advance(2)
    assert 0 < await manage(target).message_count("arrivals") < 50
    await target.restart()
    await broker_clock.advance(2)
    assert 0 < await manage(target).message_count("arrivals") < 50
    async with session_at(target.url) as session, session.create_consumer(Queue("arrivals")) as consumer:
        taken = [int(str(body)) for body in await take(consumer, 100)]
        # With FAIL a message that finds room passes those before it that were refused.
        assert (taken if policy is AddressFullPolicy.BLOCK else sorted(taken)) == list(range(100))
        assert await consumer.receive(timeout=1) is None
    await source.assert_empty("orders")
    refused = lines(caplog, "address 'arrivals' is full at the other broker, and nothing passes the message: consume")
    assert bool(refused) is (policy is AddressFullPolicy.FAIL) and len(refused) <= 4


async def test_sawtooth_load(broker_factory: MakeBroker) -> None:
    """5.1.11

    Given a tiny producer window, when two producers send with all priorities in many rounds, and a consumer takes all
    after each, then nothing is lost, and the source is empty.
    """
    source, target = await started(broker_factory, producer_window_size=500)

    async def produce(name: str) -> None:
        async with session_at(source.url) as session:
            producer = session.create_producer(Queue("orders"))
            for number in range(20):
                producer.priority = number % 10
                await producer.send(f"{name} {number}")

    async with session_at(target.url) as session:
        for _ in range(4):
            async with trio.open_nursery() as nursery:
                for name in "ab":
                    nursery.start_soon(produce, name)
            async with session.create_consumer(Queue("arrivals")) as consumer:
                texts = set(map(str, await take(consumer, 40)))
            assert texts == {f"{name} {number}" for name in "ab" for number in range(20)}
    await source.assert_empty("orders")
    await target.assert_empty("arrivals")


async def test_default_confirmation_window_size(broker_factory: MakeBroker) -> None:
    """5.1.15

    Given all defaults, when one message is sent, then it arrives, and is confirmed although the window is not full.
    """
    target = await broker_factory("b", addresses=place("arrivals")).start()
    source = await make_source(
        broker_factory, BridgeConfig("to-b", "orders", ["b"], forwarding_address="arrivals")
    ).start()
    await send(source, ["one"])
    await target.assert_message("arrivals", "one")
    await source.assert_empty("orders")


async def test_bridge_client_id(broker_factory: MakeBroker) -> None:
    """5.1.16

    Given a client id, when the target lists its connections, then one has it.
    """
    source, target = await started(broker_factory, client_id="carrier")
    await source.wait_for(queue="orders", count=0, consumers=1)
    page = json.loads(await manage(target).invoke("broker", "listConnections", "", 1, 50))
    assert [each["clientID"] for each in page["data"]].count("carrier") == 1


async def test_client_session_factory_leak(
    request: pytest.FixtureRequest, broker_factory: MakeBroker, broker_clock: BrokerClock
) -> None:
    """5.1.17

    Given a target without the forwarding address, when the bridge tries again and again, then it has at most one
    connection at a time.
    """
    settings = {"#": AddressSettings(auto_create_addresses=False, auto_create_queues=False)}
    await broker_factory("b", address_settings=settings).start()
    source = await make_source(broker_factory, bridge(retry_interval_ms=1)).start()
    await send(source, ["one"])
    for _ in range(20):
        await broker_clock.advance(0.005)
        assert bench_of(request).between("a", "b").connection_count <= 1
    await source.wait_for(queue="orders", count=1)


async def test_management_leak(request: pytest.FixtureRequest, broker_factory: MakeBroker) -> None:
    """5.1.18

    Given a bridge of 20, when it is created and destroyed, then there are 20 controls, and then none.
    """
    await broker_factory("b", addresses=place("arrivals")).start()
    source = await broker_factory("a", addresses=place("orders"), connectors={"b": "vm://b"}).start()
    wanted = {"name": "to-b", "queue-name": "orders", "forwarding-address": "arrivals", "static-connectors": ["b"]}
    for _ in range(2):
        await manage(source).invoke("broker", "createBridge", json.dumps(wanted | {"concurrency": 20}))
        found = await manage(source).get("broker", "BridgeNames")
        assert sorted(found) == sorted(f"to-b-{number}" for number in range(20))
        await source.wait_for(queue="orders", count=0, consumers=20)
        assert bench_of(request).between("a", "b").connection_count == 20
        await manage(source).invoke("broker", "destroyBridge", "to-b")
        await source.wait_for(queue="orders", count=0, consumers=0)
        assert await manage(source).get("broker", "BridgeNames") == []
    assert bench_of(request).between("a", "b").connection_count == 0


@pytest.mark.parametrize("is_large", [False, True], ids=["small", "large"])
@pytest.mark.parametrize(("operation", "state"), [("stop", "STOPPED"), ("pause", "PAUSED")], ids=["stop", "pause"])
async def test_pending_acks_never_arrive_on_stop(
    broker_factory: MakeBroker,
    broker_clock: BrokerClock,
    caplog: pytest.LogCaptureFixture,
    operation: str,
    state: str,
    is_large: bool,
) -> None:
    """5.1.19

    Given confirmations that never come, when a bridge is stopped or paused, then it waits for them as long as it may,
    and the messages are back in the queue, none in delivery.
    """
    source, target = await started(broker_factory, pending_ack_timeout_ms=5_000)
    target.disk.slow_down(1_000.0)
    texts = LARGE if is_large else numbered(0, 10)
    await send(source, texts)
    await source.wait_for(queue="orders", count=len(texts), consumers=1)
    await manage(source).invoke("bridge.to-b", operation)
    await broker_clock.advance(4)
    await source.wait_for(queue="orders", count=len(texts), consumers=1)
    await broker_clock.advance(2)
    await source.wait_for(queue="orders", count=len(texts), consumers=0)
    assert [each.delivering_count for each in source.queues() if each.name == "orders"] == [0]
    assert await queued(source) == texts
    assert any("not confirmed after 5000 ms" in line for line in caplog.messages)
    await manage(source).invoke("bridge.to-b", "start" if state == "STOPPED" else "resume")
    target.disk.heal()


@pytest.mark.parametrize("is_large", [False, True], ids=["small", "large"])
@pytest.mark.parametrize("operation", ["stop", "pause"])
async def test_pending_acks_eventually_arrive_on_stop(
    broker_factory: MakeBroker, broker_clock: BrokerClock, operation: str, is_large: bool
) -> None:
    """5.1.20

    Given confirmations that come while a bridge stops or pauses, then it ends with nothing returned: the source is
    empty, and the target has all.
    """
    source, target = await started(broker_factory, pending_ack_timeout_ms=60_000)
    target.disk.slow_down(2.0)
    texts = LARGE if is_large else numbered(0, 10)
    async with session_at(source.url) as session:
        await put(session, texts)
    await manage(source).invoke("bridge.to-b", operation)
    await broker_clock.advance(30)
    await source.wait_for(queue="orders", count=0, consumers=0)
    target.disk.heal()
    assert await queued(target, "arrivals") == texts
