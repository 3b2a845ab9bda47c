"""A message that is rolled back too often becomes a dead letter; one that is too old
goes to the expiry address.
"""

import trio

from embedbroker import AddressSettings, EmbeddedBroker
from embedclient import ConnectionFactory, Queue, Session

SETTINGS = {
    "#": AddressSettings(dead_letter_address="DLQ", expiry_address="ExpiryQueue"),
    "orders.#": AddressSettings(max_delivery_attempts=2),
}


async def show(session: Session, queue: str) -> None:
    async with session.create_consumer(Queue(queue)) as consumer:
        message = await consumer.receive()
        print(f"{queue}: {message.body!r} from", message.properties["_AMQ_ORIG_QUEUE"])


async def main() -> None:
    orders = Queue("orders.web")
    async with (
        EmbeddedBroker(
            address_settings=SETTINGS, message_expiry_scan_period_ms=50
        ) as broker,
        ConnectionFactory(broker.url).connect() as connection,
        connection.session() as session,
        connection.session(transacted=True) as worker,
    ):
        producer = session.create_producer(orders)
        await producer.send("cannot be read")
        async with worker.create_consumer(orders) as consumer:
            while (message := await consumer.receive_nowait()) is not None:
                print("attempt", message.delivery_count)
                await worker.rollback()
        await show(session, "DLQ")

        await producer.send("today only", time_to_live=0.01)
        await show(session, "ExpiryQueue")


trio.run(main)
