"""A test in asyncio, with a fixture on top of a pair of brokers."""

from collections.abc import AsyncIterator

import pytest

from embedbroker.pytest_plugin import BrokerPair
from embedclient import Queue, Session
from embedclient.asyncio import ConnectionFactory

ORDERS = Queue("orders")
pytestmark = pytest.mark.asyncio


@pytest.fixture
async def session(broker_pair: BrokerPair) -> AsyncIterator[Session]:
    async with (
        ConnectionFactory(broker_pair.url).connect() as connection,
        connection.session() as session,
    ):
        yield session


async def test_orders_outlive_a_broker(
    broker_pair: BrokerPair, session: Session
) -> None:
    await session.create_producer(ORDERS).send("before")
    await broker_pair.failover()
    await session.create_producer(ORDERS).send("after")
    await broker_pair.wait_for(queue="orders", count=2)
