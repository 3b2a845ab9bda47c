"""Moved from aio-pika: a worker whose block settles each message, and a publisher."""

import asyncio

from embedbroker import AddressSettings, EmbeddedBroker
from embedclient.asyncio import ConnectionFactory, Message


def handle(message: Message) -> None:
    if message.body == "broken":
        raise ValueError("this order cannot be done")
    print("done:", message.body)


async def main(url: str) -> None:
    async with ConnectionFactory(f"{url}?reconnectAttempts=-1").connect() as connection:
        for order in ("two coffees", "broken", "one tea"):
            await connection.send("orders", order)
        async with connection.consume("orders") as messages:
            async with asyncio.timeout(10):
                async for message in messages:
                    async with message.processing():
                        handle(message)
                    if message.body == "one tea":
                        break
        async with connection.consume("orders.dead") as messages:
            print("dead letter:", (await messages.receive()).body)


once = AddressSettings(max_delivery_attempts=1, dead_letter_address="orders.dead")
with EmbeddedBroker.in_thread(address_settings={"orders": once}) as broker:
    asyncio.run(main(broker.url))
