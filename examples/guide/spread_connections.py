"""Connections of one factory spread over a cluster; the URL names one broker."""

from contextlib import AsyncExitStack

import trio
import trio.testing

from embedbroker import ClusterConnection, EmbeddedBroker
from embedclient import ConnectionFactory, Queue

NAMES = ("north", "east", "south", "west")


def member(name: str) -> EmbeddedBroker:
    return EmbeddedBroker(
        name=name,
        connectors={each: f"vm://{each}" for each in NAMES},
        cluster_connections=ClusterConnection(
            connector=name, static_connectors=[each for each in NAMES if each != name]
        ),
        cluster_password="secret",
    )


async def main() -> None:
    async with AsyncExitStack() as stack:
        brokers = [await stack.enter_async_context(member(name)) for name in NAMES]
        await trio.sleep(3)  # virtual: the brokers find each other

        factory = ConnectionFactory(
            "vm://north?connectionLoadBalancingPolicyClassName=RoundRobin"
        )
        await stack.enter_async_context(factory.connect())  # it learns the cluster
        for number in range(8):
            connection = await stack.enter_async_context(factory.connect())
            session = await stack.enter_async_context(connection.session())
            await session.create_producer(Queue("orders")).send(f"order {number}")

        for broker in brokers:
            print(broker.config.name, await broker.management.message_count("orders"))


trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
