"""Topics: a plain subscription, a durable one that waits for its owner, and one that
two consumers share.
"""

import trio

from embedbroker import EmbeddedBroker
from embedclient import ConnectionFactory, Topic


async def main() -> None:
    weather = Topic("weather")
    async with EmbeddedBroker() as broker:
        factory = ConnectionFactory(broker.url)
        # A durable subscription that is not shared belongs to a client id.
        async with (
            factory.connect(client_id="station-1") as connection,
            connection.session() as session,
        ):
            await session.create_durable_consumer(weather, "archive")

        async with (
            factory.connect() as connection,
            connection.session() as session,
            session.create_consumer(weather) as plain,
            session.create_shared_consumer(weather, "display") as left,
            session.create_shared_consumer(weather, "display") as right,
        ):
            producer = session.create_producer(weather)
            await producer.send("sun")
            await producer.send("rain")
            print("plain:", (await plain.receive()).body, (await plain.receive()).body)
            print(
                "left and right:",
                *sorted([(await left.receive()).body, (await right.receive()).body]),
            )

        async with (
            factory.connect(client_id="station-1") as connection,
            connection.session() as session,
        ):
            async with session.create_durable_consumer(weather, "archive") as consumer:
                print(
                    "archive, later:",
                    (await consumer.receive()).body,
                    (await consumer.receive()).body,
                )
            await session.unsubscribe("archive")


trio.run(main)
