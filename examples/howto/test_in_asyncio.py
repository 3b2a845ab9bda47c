"""A test of pytest-asyncio, with a fixture on top of those of embedbroker."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from embedbroker.pytest_plugin import BrokerPair
from embedclient import Connection
from embedclient.asyncio import ConnectionFactory


@pytest_asyncio.fixture
async def connection(broker_pair: BrokerPair) -> AsyncIterator[Connection]:
    async with ConnectionFactory(broker_pair.url).connect() as connection:
        yield connection


@pytest.mark.asyncio
async def test_an_order_survives_a_failover(
    broker_pair: BrokerPair, connection: Connection
) -> None:
    await connection.send("orders", "two coffees")
    await broker_pair.failover()
    await broker_pair.wait_for(queue="orders", count=1)
