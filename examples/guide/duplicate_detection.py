"""A producer that does not know whether its message arrived sends it again, and there
is one.
"""

import trio

from embedbroker import EmbeddedBroker
from embedclient import ConnectionFactory, Queue, TextMessage
from embedclient.errors import DuplicateIDException

PAYMENTS = Queue("payments")


def payment(number: int) -> TextMessage:
    return TextMessage(
        f"payment {number}", properties={"_AMQ_DUPL_ID": f"payment-{number}"}
    )


async def main() -> None:
    async with (
        EmbeddedBroker() as broker,
        ConnectionFactory(broker.url).connect() as connection,
    ):
        async with connection.session() as session:
            producer = session.create_producer(PAYMENTS)
            await producer.send(payment(1))
            await producer.send(payment(1))

        async with connection.session(transacted=True) as session:
            producer = session.create_producer(PAYMENTS)
            await producer.send(payment(2))
            await producer.send(payment(1))
            try:
                await session.commit()
            except DuplicateIDException as error:
                print(error)

        async with (
            connection.session() as session,
            session.create_browser(PAYMENTS) as browser,
        ):
            print([message.body async for message in browser])


trio.run(main)
