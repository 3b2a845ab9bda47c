"""Two consumers of one queue: each account's messages go to one of them, in order."""

import trio

from embedbroker import EmbeddedBroker
from embedclient import ConnectionFactory, Queue, TextMessage


async def main() -> None:
    payments = Queue("payments")
    async with (
        EmbeddedBroker() as broker,
        ConnectionFactory(broker.vm_url).connect() as connection,
        connection.session() as session,
        session.create_consumer(payments) as first,
        session.create_consumer(payments) as second,
    ):
        producer = session.create_producer(payments)
        for step in ("open", "pay", "close"):
            for account in ("anna", "ben"):
                await producer.send(
                    TextMessage(
                        f"{account}: {step}", properties={"JMSXGroupID": account}
                    )
                )
        for name, consumer in (("first", first), ("second", second)):
            for _ in range(3):
                message = await consumer.receive()
                print(f"{name} consumer, {message.body}")


trio.run(main)
