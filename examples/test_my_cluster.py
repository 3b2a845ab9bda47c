"""A test with a cluster as a user has it: with the extra `testing` pytest finds the fixtures."""

from embedclient import Queue

ORDERS = Queue("orders")


async def test_four_brokers_share_the_orders(broker_cluster):
    cluster = await broker_cluster(4).start()
    async with cluster.sessions() as sessions:
        consumers = [await session.create_consumer(ORDERS) for session in sessions]
        await cluster.wait_for_bindings(queue="orders", consumers=4)
        await sessions[0].create_producer(ORDERS).send_many([str(order) for order in range(8)])
        assert [(await consumer.receive()).body for consumer in consumers] == ["0", "1", "2", "3"]
