"""A trio program with an asyncio library in it: trio-asyncio runs both in one thread,
so even vm:// works.
"""

import asyncio

import trio
import trio_asyncio

from embedbroker import EmbeddedBroker
from embedclient import ConnectionFactory, Queue

PAGES = Queue("pages")


async def fetch(url: str) -> str:
    """Stands for any library written for asyncio."""
    await asyncio.sleep(0)
    return f"content of {url}"


async def main() -> None:
    async with (
        trio_asyncio.open_loop(),
        EmbeddedBroker() as broker,
        ConnectionFactory(broker.vm_url).connect() as connection,
        connection.session() as session,
    ):
        page = await trio_asyncio.aio_as_trio(fetch)("https://example.org/")
        await session.create_producer(PAGES).send(page)
        async with session.create_consumer(PAGES) as consumer:
            print((await consumer.receive()).body)


trio.run(main)
