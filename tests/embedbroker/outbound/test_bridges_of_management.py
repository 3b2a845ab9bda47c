"""Bridges and connectors that management creates and removes: their forms, refusals, and restarts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from attrs import fields

from embedbroker import BridgeConfig, BridgeRoutingType
from embedbroker.pytest_plugin import BrokerClock, ManagedBroker
from embedbroker.runtime._embedded import life_of
from embedclient.errors import JMSException
from tests.scenarios.clients import numbered, queued

from .test_bridges import MakeBroker, bridge, manage, place, send

CLASS = "org.apache.activemq.artemis.core.server.transformer.AddHeadersTransformer"
JSON = {"name": "to-b", "queue-name": "orders", "forwarding-address": "arrivals", "static-connectors": ["b"]}


async def two(make: MakeBroker, **settings: Any) -> tuple[ManagedBroker, ManagedBroker]:
    """A source without bridges, and the target ``b``."""
    target = await make("b", addresses=place("arrivals")).start()
    given = {"addresses": place("orders"), "connectors": {"b": "vm://b"}}
    return await make("a", **given | settings).start(), target


async def create(source: ManagedBroker, **fields: object) -> None:
    await manage(source).invoke("broker", "createBridge", json.dumps(JSON | fields))


async def names(source: ManagedBroker) -> list[str]:
    return sorted(await manage(source).get("broker", "BridgeNames"))


async def test_a_created_bridge_forwards_and_survives_crashes_until_it_is_destroyed(
    broker_factory: MakeBroker, broker_clock: BrokerClock
) -> None:
    """Artemis' ActiveMQServerControlTest.testCreateAndDestroyBridgeFromJson and its persistence."""
    source, target = await two(broker_factory)
    await send(source, numbered(0, 10))
    await create(
        source,
        **{"retry-interval": "100", "ha": "false", "retry-interval-multiplier": 1, "call-timeout": 30_000},
        **{"transformer-configuration": {"class-name": CLASS, "properties": {"k": "v"}}, "password": "s3cret"},
        user="someone",
    )
    await target.wait_for(queue="arrivals", count=10)
    for turn in range(1, 4):
        await (source.crash() if turn == 1 else source.stop())
        await source.restart()
        assert await names(source) == ["to-b"]
        assert await manage(source).get("bridge.to-b", "RetryInterval") == 100
        await send(source, numbered(turn * 10, turn * 10 + 10))
        await target.wait_for(queue="arrivals", count=turn * 10 + 10)
    assert {each.properties["k"] for each in await target.messages("arrivals")} == {"v"}
    assert await queued(target, "arrivals") == numbered(0, 40)
    await manage(source).invoke("broker", "destroyBridge", "to-b")
    assert await names(source) == []
    await send(source, ["left"])
    await source.crash()
    await source.restart()
    await broker_clock.advance(5)
    assert await names(source) == []
    assert await queued(source, "orders") == ["left"]
    assert await manage(target).message_count("arrivals") == 40


POSITIONS = ["to-b", "orders", "arrivals", "", CLASS]
RETRIES = [100, 1.5, -1, 7, True, 4_000]
LAST = [30_000, " b ", False, False, "", None]


@pytest.mark.parametrize(
    ("arguments", "properties"),
    [
        ([*POSITIONS, *RETRIES, *LAST], {}),
        ([*POSITIONS, *RETRIES, 500, *LAST], {}),
        ([*POSITIONS, {"k": "v"}, *RETRIES, 500, *LAST], {"k": "v"}),
        ([*POSITIONS, '{"k":"v"}', *RETRIES, 500, *LAST], {"k": "v"}),
    ],
    ids=["17", "18", "map", "text"],
)
async def test_the_forms_with_positions(
    broker_factory: MakeBroker, arguments: list[object], properties: dict[str, str]
) -> None:
    source, target = await two(broker_factory)
    await manage(source).invoke("broker", "createBridge", *arguments)
    await send(source, numbered(0, 5))
    await target.wait_for(queue="arrivals", count=5)
    control = manage(source)
    assert await control.get("bridge.to-b", "RetryInterval") == 100
    assert await control.get("bridge.to-b", "RetryIntervalMultiplier") == 1.5
    assert await control.get("bridge.to-b", "ReconnectAttempts") == 7
    assert await control.get("bridge.to-b", "TransformerProperties") == properties


async def test_what_cannot_become_a_bridge_is_refused_and_nothing_is_created(broker_factory: MakeBroker) -> None:
    source, _target = await two(broker_factory)
    await create(source, concurrency=2)
    refused: list[tuple[dict[str, object], str]] = [
        ({}, "bridge 'to-b' exists already"),
        ({"name": "to-b-1"}, "bridge 'to-b-1' exists already"),
        ({"name": None}, "has no name"),
        ({"name": "x", "queue-name": "nope"}, "queue 'nope' does not exist"),
        ({"name": "x", "static-connectors": []}, "has no static-connectors and no discovery-group-name"),
        ({"name": "x", "static-connectors": ["c"]}, "there is no connector 'c'"),
        ({"name": "x", "static-connectors": "b"}, "must be a JSON array"),
        ({"name": "x", "filter-string": "a ="}, "bridge 'x': filter:"),
        ({"name": "x", "retry-interval": "soon"}, "must be a whole number"),
        ({"name": "x", "retry-interval": 0}, "retry_interval_ms"),
        ({"name": "x", "retry-interval-multiplier": "1e999"}, "retry_interval_multiplier"),
        ({"name": "x", "ha": 1}, "must be true or false"),
        ({"name": "x", "routing-type": "BOTH"}, "must be one of PASS, STRIP"),
        ({"name": "x", "discovery-group-name": "all"}, "there is no discovery group 'all'"),
        ({"name": "x", "transformer-configuration": {"class-name": "my.Class"}}, "is a class of Java"),
        ({"name": "x", "retry-intervall": 1}, "unknown field 'retry-intervall'.*retry-interval"),
    ]
    for wrong, text in refused:
        with pytest.raises(JMSException, match=text):
            await create(source, **wrong)
    for text in ("", "[]", "nope", "[" * 5_000):
        with pytest.raises(JMSException, match="the bridge configuration"):
            await manage(source).invoke("broker", "createBridge", text)
    with pytest.raises(JMSException, match="bridge 'to-d': there is no discovery group 'b'"):
        await manage(source).invoke(
            "broker", "createBridge", "to-d", *POSITIONS[1:], *RETRIES, 1, "b", True, False, None, None
        )
    with pytest.raises(JMSException, match="bridge 'to-c' does not exist"):
        await manage(source).invoke("broker", "destroyBridge", "to-c")
    assert await names(source) == ["to-b-0", "to-b-1"]
    await source.restart()
    assert await names(source) == ["to-b-0", "to-b-1"]
    await manage(source).invoke("broker", "destroyBridge", "to-b")
    assert await names(source) == []


async def test_a_bridge_that_does_not_run_is_destroyed(broker_factory: MakeBroker) -> None:
    source, _target = await two(broker_factory, connectors={})
    await manage(source).invoke("broker", "addConnector", "b", "vm://b")
    await create(source)
    await manage(source).invoke("broker", "removeConnector", "b")
    await source.stop()
    await source.restart()
    await manage(source).invoke("broker", "destroyBridge", "to-b")
    assert await names(source) == []


async def test_a_destroyed_bridge_returns_what_is_not_confirmed(
    broker_factory: MakeBroker, broker_clock: BrokerClock
) -> None:
    source, target = await two(broker_factory)
    target.disk.slow_down(3.0)
    await create(source)
    await send(source, numbered(0, 20))
    await source.wait_for(queue="orders", consumers=1)
    await broker_clock.advance(0.1)
    await manage(source).invoke("broker", "destroyBridge", "to-b")
    target.disk.heal()
    await source.wait_for(queue="orders", count=20, consumers=0)
    await create(source)
    await target.wait_for(queue="arrivals", count=20)
    await source.assert_empty("orders")
    assert await queued(target, "arrivals") == numbered(0, 20)


async def test_bridges_that_share_a_queue_are_destroyed_by_their_common_name(broker_factory: MakeBroker) -> None:
    source, _target = await two(broker_factory, bridges=[bridge(concurrency=3)])
    assert await names(source) == ["to-b-0", "to-b-1", "to-b-2"]
    with pytest.raises(JMSException, match="bridge 'to-b-1' does not exist; it is one of bridge 'to-b'"):
        await manage(source).invoke("broker", "destroyBridge", "to-b-1")
    await manage(source).invoke("broker", "destroyBridge", "to-b")
    assert await names(source) == []


async def test_a_bridge_of_the_configuration_is_back_after_a_restart(broker_factory: MakeBroker) -> None:
    source, _target = await two(broker_factory, bridges=[bridge()])
    await manage(source).invoke("broker", "destroyBridge", "to-b")
    assert await names(source) == []
    # One of the same name is recorded; that of the configuration wins.
    await create(source, **{"retry-interval": 333})
    assert await manage(source).get("bridge.to-b", "RetryInterval") == 333
    await source.restart()
    assert await names(source) == ["to-b"]
    assert await manage(source).get("bridge.to-b", "RetryInterval") == 100


async def test_connectors_are_added_replaced_and_removed(
    broker_factory: MakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    source, target = await two(broker_factory, connectors={})
    control = manage(source)
    with pytest.raises(JMSException, match="there is no connector 'b'"):
        await create(source)
    with pytest.raises(JMSException, match="must be a URL such as"):
        await control.invoke("broker", "addConnector", "b", "smtp://b")
    await control.invoke("broker", "addConnector", "b", "vm://nobody")
    await control.invoke("broker", "addConnector", "b", "vm://b")
    await source.restart()
    found = json.loads(await control.get("broker", "ConnectorsAsJSON"))
    assert [(each["name"], each["params"]) for each in found] == [("b", {"serverId": "b"})]
    await create(source)
    await control.invoke("broker", "removeConnector", "b")
    with pytest.raises(JMSException, match="connector 'b' does not exist"):
        await control.invoke("broker", "removeConnector", "b")
    await send(source, ["one"])
    await target.assert_message("arrivals", "one")
    await source.restart()
    assert await names(source) == []
    assert any("there is no connector 'b'; the bridge does not run" in line for line in caplog.messages)


async def test_notifications_of_a_created_and_a_destroyed_bridge(broker_factory: MakeBroker) -> None:
    source, _target = await two(broker_factory)
    await manage(source).create_queue("events", address="activemq.notifications", routing_type="MULTICAST")
    await create(source)
    await manage(source).invoke("broker", "destroyBridge", "to-b")
    messages = await source.messages("events")
    found = [(each.properties["_AMQ_NotifType"], each.properties.get("name")) for each in messages]
    assert [each for each in found if each[1] is not None] == [("BRIDGE_STARTED", "to-b"), ("BRIDGE_STOPPED", "to-b")]


async def test_every_field_of_a_bridge_reaches_it(broker_factory: MakeBroker) -> None:
    """Over the JSON of Artemis, and over the journal."""
    wanted = BridgeConfig(
        name="to-b", queue="orders", static_connectors=["c", "b"], forwarding_address="arrivals", filter="a = 1",
        properties={"k": "v"}, routing_type=BridgeRoutingType.STRIP, user="u", password="p", client_id="id", ha=True,
        use_duplicate_detection=False, confirmation_window_size=1, producer_window_size=2,
        min_large_message_size=3, check_period_ms=4, connection_ttl_ms=500, retry_interval_ms=6,
        retry_interval_multiplier=1.7, max_retry_interval_ms=800, initial_connect_attempts=9, reconnect_attempts=10,
        reconnect_attempts_same_node=12, pending_ack_timeout_ms=11,
    )  # fmt: skip
    others = {each.name for each in fields(BridgeConfig) if getattr(wanted, each.name) == each.default}
    assert others == {"transformer", "concurrency", "discovery_group"}
    source, _target = await two(broker_factory)
    control = source.broker.management
    await control.add_connector("c", "tcp://127.0.0.1:1")
    await control.create_bridge(wanted)
    for _ in range(2):
        node = life_of(source.broker).host.node
        assert [bridge.config for bridge in node.kernel.bridges.running.values()] == [wanted]
        assert await control.bridge_names() == ["to-b"]
        await source.restart()
        control = source.broker.management
    await control.delete_bridge("to-b")
    await control.remove_connector("c")
    await control.create_bridge(bridge(concurrency=2))
    assert await names(source) == ["to-b-0", "to-b-1"]
    with pytest.raises(ValueError, match="a transformer cannot be recorded"):
        await control.create_bridge(bridge(name="x", transformer=print))
