"""One transaction takes a message from one queue and puts another into the next; a
failure undoes both.
"""

import trio

from embedbroker import EmbeddedBroker
from embedclient import ConnectionFactory, Queue, Session

ORDERS, INVOICES = Queue("orders"), Queue("invoices")


async def handle_one_order(session: Session) -> None:
    async with session.create_consumer(ORDERS) as orders, session.transaction():
        order = await orders.receive()
        print(
            f"{order.body}: delivery {order.delivery_count}, "
            f"redelivered {order.redelivered}"
        )
        await session.create_producer(INVOICES).send(f"invoice for {order.body}")
        if order.delivery_count == 1:
            raise ConnectionError("the printer is off")


async def main() -> None:
    async with (
        EmbeddedBroker() as broker,
        ConnectionFactory(broker.url).connect() as connection,
    ):
        async with connection.session() as session:
            await session.create_producer(ORDERS).send("two coffees")

        async with connection.session(transacted=True) as session:
            try:
                await handle_one_order(session)
            except ConnectionError as error:
                print("rolled back:", error)
            await handle_one_order(session)

        async with connection.session() as session:
            for queue in (ORDERS, INVOICES):
                async with session.create_browser(queue) as browser:
                    print(f"{queue}: {[message.body async for message in browser]}")


trio.run(main)
