"""Each address gets its own dead letter queue, with the first dead letter."""

import trio

from embedbroker import AddressSettings, EmbeddedBroker
from embedclient import ConnectionFactory, Queue

SETTINGS = {
    "#": AddressSettings(
        dead_letter_address="dead",
        auto_create_dead_letter_resources=True,
        max_delivery_attempts=1,
    )
}


async def main() -> None:
    async with (
        EmbeddedBroker(address_settings=SETTINGS) as broker,
        ConnectionFactory(broker.url).connect() as connection,
        connection.session(transacted=True) as session,
    ):
        for name in ("orders", "bills"):
            await session.create_producer(Queue(name)).send(f"broken {name}")
            await session.commit()
            async with session.create_consumer(Queue(name)) as consumer:
                await consumer.receive()
                await session.rollback()
        for queue in await broker.management.queues():
            print(queue.name, "on", queue.address, "has", queue.message_count)


trio.run(main)
