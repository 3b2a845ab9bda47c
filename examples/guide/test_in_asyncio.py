"""A test in asyncio, with a fixture on top of a pair of brokers."""

import pytest

from embedclient import Queue
from embedclient.asyncio import ConnectionFactory

ORDERS = Queue("orders")
pytestmark = pytest.mark.asyncio


@pytest.fixture
async def session(broker_pair):
    async with (
        ConnectionFactory(broker_pair.url).connect() as connection,
        connection.session() as session,
    ):
        yield session


async def test_orders_outlive_a_broker(broker_pair, session):
    await session.create_producer(ORDERS).send("before")
    await broker_pair.failover()
    await session.create_producer(ORDERS).send("after")
    await broker_pair.wait_for(queue="orders", count=2)
