"""With a directory the broker keeps durable messages over a restart."""

import tempfile

import trio

from embedbroker import EmbeddedBroker
from embedclient import ConnectionFactory, Queue


async def main(directory: str) -> None:
    orders = Queue("orders")
    async with EmbeddedBroker(data_directory=directory) as broker:
        async with (
            ConnectionFactory(broker.url).connect() as connection,
            connection.session() as session,
        ):
            await session.create_producer(orders).send("two coffees")
            print("the broker has it on disk")

        await broker.crash()
        await broker.start()

        async with (
            ConnectionFactory(broker.url).connect() as connection,
            connection.session() as session,
            session.create_consumer(orders) as consumer,
        ):
            print((await consumer.receive()).body)


with tempfile.TemporaryDirectory() as directory:
    trio.run(main, directory)
