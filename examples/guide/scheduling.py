"""A message that the broker delivers a minute after its send: messages that are sent
later arrive before it.
"""

import trio
import trio.testing

from embedbroker import EmbeddedBroker
from embedclient import ConnectionFactory, Queue


async def main() -> None:
    gate = Queue("gate")
    async with (
        EmbeddedBroker() as broker,
        ConnectionFactory(broker.vm_url).connect() as connection,
        connection.session() as session,
        session.create_consumer(gate) as consumer,
    ):
        producer = session.create_producer(gate)
        await producer.send("close", delivery_delay=60)
        await producer.send("open")
        for _ in range(2):
            message = await consumer.receive()
            print(
                f"{message.body}: "
                f"{trio.current_time() // 60:.0f} minutes after the start"
            )


trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
