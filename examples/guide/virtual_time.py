"""An hour passes at once: broker and client follow the clock of the trio run."""

import trio
import trio.testing

from embedbroker import EmbeddedBroker
from embedclient import ConnectionFactory, Queue


async def main() -> None:
    async with (
        EmbeddedBroker() as broker,
        ConnectionFactory(broker.vm_url).connect() as connection,
        connection.session() as session,
    ):
        await session.create_producer(Queue("offers")).send(
            "today only", time_to_live=3600
        )
        await trio.sleep(3601)
        async with session.create_consumer(Queue("ExpiryQueue")) as consumer:
            print("expired:", (await consumer.receive()).body)
        print("hours of the clock:", trio.current_time() // 3600)


trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
