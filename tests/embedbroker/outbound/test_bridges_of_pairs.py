"""Bridges of a pair and to a pair, over failovers: the ids of messages are the same in each life."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from embedbroker import (
    AddressConfiguration,
    BridgeConfig,
    HAPolicy,
    QueueConfiguration,
    ReplicationBackup,
    ReplicationPrimary,
    Role,
    SharedStoreBackup,
    SharedStorePrimary,
)
from embedbroker.pytest_plugin import BrokerClock, BrokerPair, ManagedBroker, bench_of
from embedclient.errors import JMSException
from tests.scenarios.clients import numbered, put, queued, session_at
from tests.scenarios.groups import pair_of

MakeBroker: TypeAlias = Callable[..., ManagedBroker]
MakePair: TypeAlias = Callable[..., BrokerPair]
PLACES = {"b": "vm://b", "primary": "vm://primary", "backup": "vm://backup"}
ADDRESSES = {name: AddressConfiguration(anycast={name: QueueConfiguration()}) for name in ("orders", "arrivals")}
COUNT = 200


@pytest.fixture(params=["shared-store", "replication"])
def make_pair(request: pytest.FixtureRequest) -> MakePair:
    primary: HAPolicy = SharedStorePrimary()
    backup: HAPolicy = SharedStoreBackup()
    if request.param == "replication":
        primary, backup = ReplicationPrimary(), ReplicationBackup(allow_failback=True)
    return lambda **settings: pair_of(bench_of(request), primary, backup, {"addresses": ADDRESSES, **settings})


def bridge(*connectors: str, **settings: Any) -> BridgeConfig:
    return BridgeConfig("over", "orders", connectors, forwarding_address="arrivals", retry_interval_ms=50, **settings)


async def test_failover_deploys_bridge(
    broker_factory: MakeBroker, broker_clock: BrokerClock, make_pair: MakePair
) -> None:
    """Artemis' BridgeReconnectTest.testFailoverDeploysBridge, with sends in doubt at the moment of the failover."""
    target = await broker_factory("b", addresses=ADDRESSES).start()
    pair = make_pair(bridges=[bridge("b")], connectors=PLACES)
    await pair.start()
    target.disk.slow_down(0.02)
    async with session_at(pair.url) as session:
        await put(session, numbered(0, COUNT // 2))
        await pair.failover()
        await put(session, numbered(COUNT // 2, COUNT))
    await target.wait_for(queue="arrivals", count=COUNT)
    await pair.live.assert_empty("orders")
    assert await queued(target, "arrivals") == numbered(0, COUNT)


@pytest.mark.parametrize(
    "bridge_of",
    [
        bridge("primary", "backup", reconnect_attempts_same_node=0),
        bridge("primary", ha=True),
        bridge("primary", ha=True, reconnect_attempts_same_node=-1),
    ],
    ids=["no: both are named", "ten: the backup is learned", "forever"],
)
async def test_failover_on_bridge_retry_on_same_node(
    broker_factory: MakeBroker, make_pair: MakePair, bridge_of: BridgeConfig
) -> None:
    """Artemis' BridgeFailoverTest.testFailoverOnBridgeNoRetryOnSameNode and ForeverRetryOnSameNode."""
    pair = make_pair()
    await pair.start()
    source = await broker_factory("a", addresses=ADDRESSES, connectors=PLACES, bridges=[bridge_of]).start()
    pair.primary.disk.slow_down(0.01)
    async with session_at(source.url) as session:
        await put(session, numbered(0, COUNT // 2))
        await pair.failover()
        await put(session, numbered(COUNT // 2, COUNT))
    await source.assert_empty("orders")
    assert await queued(pair, "arrivals") == numbered(0, COUNT)


async def test_a_bridge_of_management_goes_on_at_the_backup_after_a_forced_failover(
    broker_factory: MakeBroker, make_pair: MakePair
) -> None:
    target = await broker_factory("b", addresses=ADDRESSES).start()
    pair = make_pair(connectors=PLACES)
    await pair.start()
    management = pair.live.broker.management
    wanted = {"name": "over", "queue-name": "orders", "forwarding-address": "arrivals", "static-connectors": ["b"]}
    await management.invoke("broker", "createBridge", json.dumps(wanted))
    async with session_at(pair.url) as session:
        await put(session, numbered(0, COUNT // 2))
        await management.invoke("broker", "forceFailover")
        await pair.backup.wait_for_role(Role.LIVE)
        assert pair.primary.role is Role.STOPPED
        await put(session, numbered(COUNT // 2, COUNT))
    await target.wait_for(queue="arrivals", count=COUNT)
    assert await queued(target, "arrivals") == numbered(0, COUNT)
    with pytest.raises(JMSException, match="no backup takes over: the high availability policy is Primary Only"):
        await target.broker.management.invoke("broker", "forceFailover")
