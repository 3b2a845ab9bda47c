"""A failover test of a user; the extra `testing` brings the fixtures."""

from embedbroker.pytest_plugin import BrokerPair
from embedclient import ConnectionFactory, Queue


async def test_orders_survive_a_failover(broker_pair: BrokerPair) -> None:
    async with (
        ConnectionFactory(broker_pair.url).connect() as connection,
        connection.session() as session,
    ):
        await session.create_producer(Queue("orders")).send("before")
        await broker_pair.failover()
        await session.create_producer(Queue("orders")).send("after")
        await broker_pair.wait_for(queue="orders", count=2)
