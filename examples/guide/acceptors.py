"""Clients connect at one port, programs with an older way to name queues at another."""

import trio

from embedbroker import AcceptorConfig, EmbeddedBroker
from embedclient import ConnectionFactory, Queue


async def send(url: str, queue: str) -> None:
    async with (
        ConnectionFactory(url).connect() as connection,
        connection.session() as session,
    ):
        await session.create_producer(Queue(queue)).send("hello")


async def main() -> None:
    acceptors = [
        AcceptorConfig("clients"),
        AcceptorConfig("older", anycast_prefixes=["jms.queue."]),
    ]
    async with EmbeddedBroker(acceptors=acceptors) as broker:
        await send(broker.urls["clients"], "orders")
        await send(broker.urls["older"], "jms.queue.orders")
        for queue in await broker.management.queues():
            print(queue.name, queue.message_count)


trio.run(main)
