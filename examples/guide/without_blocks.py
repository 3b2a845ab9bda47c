"""Without blocks: a notebook, or an application that functions start and stop."""

import asyncio

from embedbroker import EmbeddedBroker, ThreadedBroker
from embedclient import Connection
from embedclient.asyncio import ConnectionFactory


class Application:
    broker: ThreadedBroker
    connection: Connection

    async def start(self) -> None:
        self.broker = EmbeddedBroker.in_thread().start()
        self.connection = await ConnectionFactory(self.broker.url).connect()

    async def stop(self) -> None:
        await self.connection.close()
        self.broker.close()


async def main() -> None:
    application = Application()
    await application.start()
    session = await application.connection.session()
    await session.create_producer("orders").send("one coffee")
    consumer = await session.create_consumer("orders")
    print((await consumer.receive()).body)
    await application.stop()


asyncio.run(main())
