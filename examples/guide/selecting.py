"""A selector on a consumer, a browser that takes nothing, and one consumer window for a
slow consumer.
"""

import trio

from embedbroker import EmbeddedBroker
from embedclient import ConnectionFactory, Queue, TextMessage


async def main() -> None:
    parcels = Queue("parcels")
    async with (
        EmbeddedBroker() as broker,
        ConnectionFactory(f"{broker.url}?consumerWindowSize=0").connect() as connection,
        connection.session() as session,
    ):
        producer = session.create_producer(parcels)
        for number, (country, weight) in enumerate([("FR", 2), ("DE", 7), ("FR", 9)]):
            message = TextMessage(
                f"parcel {number}", properties={"country": country, "weight": weight}
            )
            await producer.send(message, priority=7 if weight > 8 else 4)

        async with session.create_browser(parcels) as browser:
            print("waiting:", *[message.body async for message in browser], sep=" | ")

        heavy_to_france = (
            "country = 'FR' AND (weight > 5 OR JMSPriority BETWEEN 8 AND 9)"
        )
        async with session.create_consumer(parcels, heavy_to_france) as consumer:
            print("selected:", (await consumer.receive()).body)
            print("then:", await consumer.receive(timeout=0.05))


trio.run(main)
