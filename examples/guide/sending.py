"""What can be sent, what a send may say, and sends that do not wait."""

import trio

from embedbroker import EmbeddedBroker
from embedclient import ConnectionFactory, DeliveryMode, Queue, TextMessage


async def main() -> None:
    stock = Queue("stock")
    async with (
        EmbeddedBroker() as broker,
        ConnectionFactory(
            f"{broker.url}?confirmationWindowSize=1048576"
        ).connect() as connection,
        connection.session() as session,
    ):
        producer = session.create_producer(stock)
        await producer.send("text")
        await producer.send(b"bytes")
        await producer.send({"item": "tea", "count": 3})
        await producer.send(["tea", 3, 2.5])
        await producer.send(
            TextMessage(
                "with properties", properties={"kind": "tea"}, correlation_id="c-1"
            )
        )
        await producer.send("urgent", priority=9)
        await producer.send(
            "gone in a minute",
            time_to_live=60,
            delivery_mode=DeliveryMode.NON_PERSISTENT,
        )

        # Many sends, one wait: each receipt ends with the broker's answer, because
        # there is a confirmation window.
        receipts = [producer.send_nowait(f"number {number}") for number in range(3)]
        for receipt in receipts:
            await receipt

        async with session.create_consumer(stock) as consumer:
            while (message := await consumer.receive_nowait()) is not None:
                print(message.priority, type(message).__name__, message.body)


trio.run(main)
