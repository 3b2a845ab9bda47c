"""The live broker crashes in the middle of a program; its backup goes on, and every
order arrives once.
"""

import tempfile

import trio

from embedbroker import EmbeddedBroker, SharedStoreBackup, SharedStorePrimary
from embedclient import (
    ConnectionFactory,
    FailoverEventType,
    Queue,
    Session,
    TextMessage,
)
from embedclient.errors import DuplicateIDException, TransactionRolledBackException

ORDERS = Queue("orders")
PAIR = "(vm://primary,vm://backup)?ha=true&reconnectAttempts=-1&retryInterval=20"


async def send_once(session: Session, *texts: str) -> None:
    """One transaction, repeated until it is committed."""
    producer = session.create_producer(ORDERS)
    while True:
        try:
            for text in texts:
                await producer.send(
                    TextMessage(text, properties={"_AMQ_DUPL_ID": text})
                )
            await session.commit()
        except (
            TransactionRolledBackException
        ) as error:  # or its subclass for an unknown outcome
            print(f"{type(error).__name__}: again")
            continue
        except DuplicateIDException:
            print("an earlier commit held")
        return


async def main(directory: str) -> None:
    async with (
        EmbeddedBroker(
            name="primary", data_directory=directory, ha_policy=SharedStorePrimary()
        ) as primary,
        EmbeddedBroker(
            name="backup", data_directory=directory, ha_policy=SharedStoreBackup()
        ),
        ConnectionFactory(PAIR).connect() as connection,
        connection.session(transacted=True) as session,
        connection.session() as other,
        other.create_consumer(ORDERS) as consumer,
    ):
        moved = trio.Event()

        def tell(event: FailoverEventType) -> None:
            print(event.name)
            if event is FailoverEventType.FAILOVER_COMPLETED:
                moved.set()

        connection.add_failover_listener(tell)
        await send_once(session, "one", "two")
        await session.create_producer(ORDERS).send("half a transaction")
        await primary.crash()
        await moved.wait()
        await send_once(session, "three", "four")
        received = [(await consumer.receive()).body for _ in range(4)]
        print(received, await consumer.receive_nowait())


with tempfile.TemporaryDirectory() as directory:
    trio.run(main, directory)
