"""A broker in this process, a connection to it over TCP, one message."""

import trio

from embedbroker import EmbeddedBroker
from embedclient import ConnectionFactory, Queue


async def main() -> None:
    orders = Queue("orders")
    async with EmbeddedBroker() as broker:
        factory = ConnectionFactory(broker.url)
        async with factory.connect() as connection, connection.session() as session:
            await session.create_producer(orders).send("two coffees")

            async with session.create_consumer(orders) as consumer:
                message = await consumer.receive()
                print(message.body, message.message_id is not None, message.redelivered)


trio.run(main)
