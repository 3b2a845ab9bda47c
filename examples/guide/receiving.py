"""Four ways to receive: with a time-out, what is there now, as an iteration, and
through a listener.
"""

import trio

from embedbroker import EmbeddedBroker
from embedclient import ConnectionFactory, Message, Queue


async def main() -> None:
    news = Queue("news")
    async with (
        EmbeddedBroker() as broker,
        ConnectionFactory(broker.url).connect() as connection,
        connection.session() as session,
    ):
        producer = session.create_producer(news)
        for text in ("one", "two", "three", "four"):
            await producer.send(text)

        async with session.create_consumer(news) as consumer:
            print("receive:", (await consumer.receive()).body)
            second = await consumer.receive_nowait()
            print("receive_nowait:", second.body if second else "nothing")
            async for message in consumer:
                print("iteration:", message.body)
                break

            heard = trio.Event()

            async def listen(message: Message) -> None:
                print("listener:", message.body)
                heard.set()

            consumer.set_message_listener(listen)
            await heard.wait()
            consumer.set_message_listener(None)
            print("then:", await consumer.receive(timeout=0.05))


trio.run(main)
