"""The broker crashes and comes back on its port; the connection, its session and its
consumer live on.
"""

import tempfile

import trio

from embedbroker import EmbeddedBroker
from embedclient import ConnectionFactory, JMSException, Queue

TASKS = Queue("tasks")


async def main(directory: str) -> None:
    async with EmbeddedBroker(data_directory=directory) as broker:
        settings = (
            "reconnectAttempts=-1&retryInterval=20&confirmationWindowSize=1048576"
        )
        url = f"{broker.vm_url}?{settings}"
        async with (
            ConnectionFactory(url).connect() as connection,
            connection.session() as session,
            connection.session(transacted=True) as transacted,
            session.create_consumer(TASKS) as consumer,
        ):

            def tell(error: JMSException, sessions_live_on: bool) -> None:
                print(f"{type(error).__name__}; sessions live on: {sessions_live_on}")

            connection.add_failure_listener(tell)
            await transacted.create_producer(TASKS).send("half a transaction")

            await broker.crash()
            await broker.start()

            # Waits for the connection.
            await session.create_producer(TASKS).send("whole")
            print("received:", (await consumer.receive()).body)
            try:
                await transacted.commit()
            except JMSException as error:
                print(f"commit: {type(error).__name__}")


with tempfile.TemporaryDirectory() as directory:
    trio.run(main, directory)
