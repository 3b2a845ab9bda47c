"""A program that moves to the backup itself: it opens a new connection when its
exception listener reports a loss.
"""

import tempfile

import trio

from embedbroker import EmbeddedBroker, SharedStoreBackup, SharedStorePrimary
from embedclient import ConnectionFactory, JMSException, Queue
from embedclient.errors import ConnectionFailedException

JOBS = Queue("jobs")
# No reconnectAttempts: a lost connection is over. Attempts of a *first* connection go
# on until a broker is there.
PAIR = "(vm://primary,vm://backup)?ha=true&initialConnectAttempts=-1&retryInterval=20"


async def work(
    factory: ConnectionFactory, results: trio.MemorySendChannel[str]
) -> None:
    """Receives jobs for ever, each time on a new connection."""
    while True:
        lost = trio.Event()

        def on_exception(error: JMSException, lost: trio.Event = lost) -> None:
            if isinstance(error, ConnectionFailedException):
                print(f"{error.jms_error_code}: connecting again")
                lost.set()

        try:
            async with (
                factory.connect() as connection,
                connection.session() as session,
                session.create_consumer(JOBS) as consumer,
            ):
                connection.exception_listener = on_exception
                async for message in consumer:
                    await results.send(message.body)
        except JMSException:
            await lost.wait()


async def main(directory: str) -> None:
    results, done = trio.open_memory_channel[str](0)
    factory = ConnectionFactory(PAIR)
    async with (
        EmbeddedBroker(
            name="primary", data_directory=directory, ha_policy=SharedStorePrimary()
        ) as primary,
        EmbeddedBroker(
            name="backup", data_directory=directory, ha_policy=SharedStoreBackup()
        ),
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(work, factory, results)
        for job, crash in (("first job", True), ("second job", False)):
            async with factory.connect() as connection, connection.session() as session:
                await session.create_producer(JOBS).send(job)
            print("done:", await done.receive())
            if crash:
                await primary.crash()
        nursery.cancel_scope.cancel()


with tempfile.TemporaryDirectory() as directory:
    trio.run(main, directory)
