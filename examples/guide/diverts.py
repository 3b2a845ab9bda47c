"""A divert copies orders from Europe to an audit queue; a wildcard subscription reads
all prices.
"""

import trio

from embedbroker import (
    AddressConfiguration,
    DivertConfiguration,
    DivertedMessage,
    EmbeddedBroker,
    QueueConfiguration,
)
from embedclient import ConnectionFactory, Queue, TextMessage, Topic


def mark(message: DivertedMessage) -> None:
    region = message.property("region")
    message.set_property("audited_as", f"{message.original_address}/{region!s}")


ADDRESSES = {"audit": AddressConfiguration(anycast={"audit": QueueConfiguration()})}
DIVERTS = {
    "eu": DivertConfiguration(
        "orders", "audit", filter="region = 'EU'", transformer=mark
    )
}


async def main() -> None:
    async with (
        EmbeddedBroker(addresses=ADDRESSES, diverts=DIVERTS) as broker,
        ConnectionFactory(broker.url).connect() as connection,
        connection.session() as session,
    ):
        orders = session.create_producer(Queue("orders"))
        await orders.send(TextMessage("tea", properties={"region": "EU"}))
        await orders.send(TextMessage("rice", properties={"region": "ASIA"}))
        for name in ("orders", "audit"):
            async with session.create_consumer(Queue(name)) as consumer:
                while (message := await consumer.receive_nowait()) is not None:
                    print(
                        f"{name}: {message.body}",
                        message.properties.get("audited_as", "not audited"),
                    )

        async with session.create_consumer(Topic("prices.#")) as consumer:
            for name in ("prices.tea", "prices.rice.basmati", "weather"):
                await session.create_producer(Topic(name)).send(name)
            while (message := await consumer.receive_nowait()) is not None:
                print("prices.# got", message.body)


trio.run(main)
