"""What goes well is in the log at INFO at most: starts, clients, a cluster that forms, backups, orderly stops."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from embedbroker.pytest_plugin import BrokerClock, BrokerCluster, BrokerPair
from embedclient import ConnectionFactory
from tests.scenarios.nodes import clients_of, received

# No whole number of seconds: a ping in the instant of a stop may notice that as a loss.
WHILE_S = 100.3


def of_note(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno > logging.INFO]


async def exchange(url: str) -> None:
    async with ConnectionFactory(url).connect() as connection, connection.session() as session:
        await session.create_producer("orders").send("tea")
        async with session.create_consumer("orders") as consumer:
            assert (await consumer.receive()).body == "tea"


async def test_a_pair_that_serves_and_has_its_backup_restart_logs_no_warning_of_that(
    broker_pair: BrokerPair, broker_clock: BrokerClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    await exchange(broker_pair.url)
    await broker_clock.advance(WHILE_S)
    await exchange(broker_pair.url)
    assert of_note(caplog) == []
    await broker_pair.backup.stop()
    await broker_clock.advance(WHILE_S)
    # The live broker warns that nothing takes over from it now, if it can notice that.
    assert all("backup" in line and "lost" in line for line in of_note(caplog))
    caplog.clear()
    await broker_pair.backup.start()
    await broker_clock.advance(WHILE_S)
    await exchange(broker_pair.url)
    assert of_note(caplog) == []


async def test_a_cluster_that_forms_shares_and_has_a_member_stop_logs_no_warning(
    broker_cluster: Callable[..., BrokerCluster], broker_clock: BrokerClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    cluster = await broker_cluster(3).start()
    await cluster.wait_formed()
    async with clients_of(cluster, [0, 1]) as clients:
        for client in clients:
            await client.queues("queue0")
        consumers = [await client.consumer("queue0") for client in clients]
        await cluster.wait_for_bindings(queue="queue0", count=2, consumers=2, nodes=[0, 1])
        await clients[0].send(0, 4)
        assert [len(await received(each)) for each in consumers] == [2, 2]
    await broker_clock.advance(WHILE_S)
    await cluster.nodes[2].stop()
    await broker_clock.advance(1)
    await cluster.nodes[2].start()
    await cluster.wait_formed()
    for node in cluster.nodes:
        await node.stop()
    assert caplog.records != [] and of_note(caplog) == []
