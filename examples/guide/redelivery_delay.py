"""A message that is rolled back waits before it is delivered again, each time twice as
long.
"""

import trio
import trio.testing

from embedbroker import AddressSettings, EmbeddedBroker
from embedclient import ConnectionFactory, Queue

SETTINGS = {
    "#": AddressSettings(
        redelivery_delay_ms=1000,
        redelivery_delay_multiplier=2.0,
        max_delivery_attempts=6,
    )
}


async def main() -> None:
    orders = Queue("orders")
    async with (
        EmbeddedBroker(address_settings=SETTINGS) as broker,
        ConnectionFactory(broker.vm_url).connect() as connection,
        connection.session(transacted=True) as session,
        session.create_consumer(orders) as consumer,
    ):
        await session.create_producer(orders).send("cannot be read")
        await session.commit()
        before = trio.current_time()
        while (message := await consumer.receive(timeout=60)) is not None:
            now = trio.current_time()
            print(
                f"attempt {message.delivery_count}, "
                f"{now - before:.0f} s after the one before"
            )
            before = now
            await session.rollback()


trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
