"""2.9 and 2.11: groups of several backups on one store, and what else is particular to a shared store."""

from __future__ import annotations

import pytest

from embedbroker import HAPolicy, Role, ScaleDown, SharedStoreBackup, SharedStorePrimary
from embedbroker.pytest_plugin import BrokerClock, ManagedBroker
from tests.scenarios.clients import numbered, put, queued, session_at
from tests.scenarios.conftest import MakeBrokers, MakePair
from tests.scenarios.groups import start_all

FAILING_OVER = "ha=true&reconnectAttempts=-1&retryInterval=100"


def group(*names: str) -> dict[str, HAPolicy]:
    """The policies of a primary and its backups."""
    primary, *backups = names
    return {primary: SharedStorePrimary(), **{name: SharedStoreBackup() for name in backups}}


def url_of(*brokers: ManagedBroker) -> str:
    return f"({','.join(broker.url for broker in brokers)})?{FAILING_OVER}"


async def next_live(brokers: list[ManagedBroker], clock: BrokerClock) -> ManagedBroker:
    """The broker that took over; no other has."""
    await clock.advance(2)
    (live,) = [broker for broker in brokers if broker.is_live]
    return live


async def test_multiple_failovers(make_brokers: MakeBrokers, broker_clock: BrokerClock) -> None:
    """2.9.5

    Given a primary and five backups, when the live broker crashes, five times, then each time another one takes over,
    one alone, and the client follows.
    """
    brokers = [*make_brokers(group("p", "a", "b", "c", "d", "e")).values()]
    await start_all(brokers)
    async with session_at(url_of(*brokers)) as session:
        served = []
        for turn in range(6):
            live = await next_live(brokers, broker_clock)
            served.append(live)
            await put(session, [str(turn)])
            assert await queued(live) == numbered(0, turn + 1)
            if turn < 5:
                await live.crash()
    assert len(set(served)) == 6 and served[0].name == "p"


async def test_multiple_failovers_2_primary_servers(make_brokers: MakeBrokers, broker_clock: BrokerClock) -> None:
    """2.9.6

    Given two primaries of one cluster with two backups and a store each, when both crash, then each has a successor,
    which has the messages and the node id of its primary.
    """
    brokers = make_brokers(group("p", "a", "b"), group("x", "y", "z"))
    await start_all(brokers.values())
    groups = [[brokers[name] for name in names] for names in ("pab", "xyz")]
    for members in groups:
        async with session_at(url_of(*members)) as session:
            await put(session, [f"of {members[0].name}"])
    node_ids = [members[0].broker.node_id for members in groups]
    for members in groups:
        await members[0].crash()
    for members, node_id in zip(groups, node_ids, strict=True):
        live = await next_live(members, broker_clock)
        assert live is not members[0] and live.broker.node_id == node_id
        assert await queued(live) == [f"of {members[0].name}"]


@pytest.mark.parametrize("scale_down", [None, ScaleDown(enabled=False)], ids=["none", "switched off"])
async def test_start_shared_backup_with_scaling_down_policy_disabled(
    make_pair: MakePair, broker_clock: BrokerClock, scale_down: ScaleDown | None
) -> None:
    """2.11.1

    Given a backup whose scale-down is there and switched off, and a primary whose orderly stop is a failover, when the
    primary stops, then the backup takes over, as one without a scale-down does, within seconds.
    """
    pair = make_pair(SharedStorePrimary(failover_on_shutdown=True), SharedStoreBackup(scale_down=scale_down))
    await pair.start()
    async with session_at(pair.url) as session:
        await put(session, ["kept"])
        await pair.primary.stop()
        stopped = broker_clock.seconds
        await pair.backup.wait_for_role(Role.LIVE)
        assert broker_clock.seconds - stopped < 1
        assert await queued(pair.backup) == ["kept"]


async def test_startup_primary_and_backups_without_waiting_for_activation(
    make_pair: MakePair, broker_clock: BrokerClock
) -> None:
    """2.11.2

    Given two primaries on one store that do not wait for activation, when they start and stop in turn, then a start
    returns at once, exactly one is live, and the other one is when that stops.
    """
    policy = SharedStorePrimary(wait_for_activation=False)
    pair = make_pair(policy, policy)
    begun = broker_clock.seconds
    await start_all(pair.brokers)
    assert broker_clock.seconds - begun <= (0 if broker_clock.is_virtual else 1)
    for turn in range(4):
        stops, goes_on = pair.brokers if turn % 2 == 0 else reversed(pair.brokers)
        assert (stops.role, goes_on.role) == (Role.LIVE, Role.BACKUP)
        await stops.stop()
        await goes_on.wait_for_role(Role.LIVE)
        begun = broker_clock.seconds
        await stops.start()
        assert broker_clock.seconds - begun <= (0 if broker_clock.is_virtual else 1)
