"""A test with a cluster as a user has it: with the extra `testing` pytest finds the
fixtures.
"""

from collections.abc import Callable

from embedbroker.pytest_plugin import BrokerCluster
from embedclient import Queue


async def test_four_brokers_share_the_orders(
    broker_cluster: Callable[..., BrokerCluster],
) -> None:
    cluster = await broker_cluster(4).start()
    async with (
        cluster.sessions() as sessions,
        cluster.consumers("orders", sessions) as consumers,
    ):
        producer = sessions[0].create_producer(Queue("orders"))
        for order in range(8):
            await producer.send(str(order))
        assert [(await consumer.receive()).body for consumer in consumers] == [
            "0",
            "1",
            "2",
            "3",
        ]
