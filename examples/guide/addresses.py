"""One address, two queues with a filter between them; a fully qualified name reads one
queue of an address.
"""

import trio

from embedbroker import EmbeddedBroker
from embedclient import (
    ConnectionFactory,
    Queue,
    QueueAttributes,
    RoutingType,
    ServerLocator,
    TextMessage,
    Topic,
)


async def define(url: str) -> None:
    """The core layer makes addresses and queues by name. The JMS layer makes them when
    they are first used.
    """
    async with (
        ServerLocator(url).create_session_factory() as factory,
        factory.create_session() as session,
    ):
        await session.create_address("prices", [RoutingType.MULTICAST])
        await session.create_queue("prices", "all-prices", RoutingType.MULTICAST)
        await session.create_queue(
            "prices", "tea-prices", RoutingType.MULTICAST, filter="kind = 'tea'"
        )
        await session.create_queue("audit", attributes=QueueAttributes(max_consumers=1))

        prices = await session.query_address("prices")
        print("queues of prices:", *sorted(prices.queue_names))
        audit = await session.query_queue("audit")
        print(
            "audit: address",
            audit.address,
            "consumers at most",
            audit.attributes.max_consumers,
        )


async def main() -> None:
    async with EmbeddedBroker() as broker:
        await define(broker.url)
        async with (
            ConnectionFactory(broker.url).connect() as connection,
            connection.session() as session,
        ):
            producer = session.create_producer(Topic("prices"))
            await producer.send(TextMessage("3.20", properties={"kind": "tea"}))
            await producer.send(TextMessage("4.10", properties={"kind": "coffee"}))

            for queue in ("all-prices", "tea-prices"):
                async with session.create_consumer(
                    Queue(f"prices::{queue}")
                ) as consumer:
                    while (message := await consumer.receive_nowait()) is not None:
                        print(f"{queue}: {message.body}")


trio.run(main)
