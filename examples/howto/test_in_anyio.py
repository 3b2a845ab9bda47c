"""A test of anyio's plugin, in asyncio."""

import pytest

from embedbroker.pytest_plugin import BrokerPair
from embedclient.asyncio import ConnectionFactory


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.anyio
async def test_an_order_survives_a_failover(broker_pair: BrokerPair) -> None:
    async with ConnectionFactory(broker_pair.url).connect() as connection:
        await connection.send("orders", "two coffees")
        await broker_pair.failover()
        await broker_pair.wait_for(queue="orders", count=1)
