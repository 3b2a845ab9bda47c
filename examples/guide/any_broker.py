"""A program for any broker: give the URL of an Artemis, or none for a broker in this
process.
"""

import sys

import trio

from embedbroker import EmbeddedBroker
from embedclient import ConnectionFactory, Queue, Topic


async def exercise(url: str) -> None:
    async with ConnectionFactory(url).connect() as connection:
        async with (
            connection.session(transacted=True) as session,
            session.transaction(),
        ):
            await session.create_producer(Queue("guide.orders")).send("two coffees")

        async with connection.session() as session:
            async with session.create_consumer(Queue("guide.orders")) as consumer:
                print("queue:", (await consumer.receive()).body)

            async with session.create_consumer(Topic("guide.prices")) as subscription:
                await session.create_producer(Topic("guide.prices")).send(
                    {"coffee": 4.1}
                )
                print("topic:", (await subscription.receive()).body)


async def main() -> None:
    if len(sys.argv) > 1:
        await exercise(sys.argv[1])
    else:
        async with EmbeddedBroker() as broker:
            await exercise(broker.url)


trio.run(main)
