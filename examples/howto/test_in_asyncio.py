"""A test of pytest-asyncio, with a fixture on top of those of embedbroker."""

import pytest
import pytest_asyncio

from embedclient.asyncio import ConnectionFactory


@pytest_asyncio.fixture
async def connection(broker_pair):
    async with ConnectionFactory(broker_pair.url).connect() as connection:
        yield connection


@pytest.mark.asyncio
async def test_an_order_survives_a_failover(broker_pair, connection):
    await connection.send("orders", "two coffees")
    await broker_pair.failover()
    await broker_pair.wait_for(queue="orders", count=1)
