"""A bridge moves orders from a shop to the head office, which is down for a while."""

import trio

from embedbroker import (
    AddressConfiguration,
    BridgeConfig,
    EmbeddedBroker,
    QueueConfiguration,
)
from embedclient import ConnectionFactory, Queue

ORDERS = {"orders": AddressConfiguration(anycast={"orders": QueueConfiguration()})}
ALL_ORDERS = {
    "all-orders": AddressConfiguration(anycast={"all-orders": QueueConfiguration()})
}
BRIDGE = BridgeConfig(
    "to-office",
    queue="orders",
    static_connectors=["office"],
    forwarding_address="all-orders",
    retry_interval_ms=50,
)


async def main() -> None:
    async with EmbeddedBroker(
        name="shop",
        addresses=ORDERS,
        connectors={"office": "vm://office"},
        bridges=[BRIDGE],
    ) as shop:
        async with (
            ConnectionFactory(shop.url).connect() as connection,
            connection.session() as session,
        ):
            for order in ("tea", "rice"):
                await session.create_producer(Queue("orders")).send(order)
        print("waiting in the shop:", await shop.management.message_count("orders"))

        async with (
            EmbeddedBroker(name="office", addresses=ALL_ORDERS) as office,
            ConnectionFactory(office.url).connect() as connection,
            connection.session() as session,
            session.create_consumer(Queue("all-orders")) as consumer,
        ):
            for _ in range(2):
                print("the office got", await consumer.receive_body(str, timeout=10))
            print(
                "connected:", await shop.management.get("bridge.to-office", "Connected")
            )


trio.run(main)
