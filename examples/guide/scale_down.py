"""A branch closes in the evening: its broker hands everything to the head office, and
its client goes on there.
"""

import trio

from embedbroker import EmbeddedBroker
from embedclient import ConnectionFactory, Queue

ORDERS = Queue("orders")


async def main() -> None:
    async with (
        EmbeddedBroker(name="office") as office,
        EmbeddedBroker(name="branch") as branch,
    ):
        factory = ConnectionFactory(
            f"{branch.url}?reconnectAttempts=-1&retryInterval=50"
        )
        async with factory.connect() as connection, connection.session() as session:
            producer = session.create_producer(ORDERS)
            for order in ("tea", "rice"):
                await producer.send(order)

            print("moved:", await branch.scale_down("vm://office"))
            print("the branch runs:", branch.is_running)

            # The same session: it is at the office now.
            await producer.send("salt")
            async with session.create_consumer(ORDERS) as consumer:
                for _ in range(3):
                    print(
                        "the office has", await consumer.receive_body(str, timeout=10)
                    )
            print(
                "left at the office:", await office.management.message_count("orders")
            )


trio.run(main)
