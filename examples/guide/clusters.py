"""Three brokers share the orders that arrive at one of them; when a consumer leaves,
its rest moves to the others.
"""

import trio
import trio.testing

from embedbroker import AddressSettings, ClusterConnection, EmbeddedBroker
from embedclient import ConnectionFactory, Queue

NAMES = ("a", "b", "c")
ORDERS = Queue("orders")


def member(name: str) -> EmbeddedBroker:
    return EmbeddedBroker(
        name=name,
        connectors={each: f"vm://{each}" for each in NAMES},
        cluster_connections=ClusterConnection(
            connector=name, static_connectors=[each for each in NAMES if each != name]
        ),
        cluster_password="secret",
        # Messages that have no consumer on their broker move on at once.
        address_settings={"#": AddressSettings(redistribution_delay_ms=0)},
    )


async def main() -> None:
    async with (
        member("a"),
        member("b"),
        member("c"),
        ConnectionFactory("vm://a").connect() as at_a,
        ConnectionFactory("vm://b").connect() as at_b,
        ConnectionFactory("vm://c").connect() as at_c,
        at_a.session() as session_a,
        at_b.session() as session_b,
        at_c.session() as session_c,
    ):
        consumers = [
            await session.create_consumer(ORDERS)
            for session in (session_a, session_b, session_c)
        ]
        await trio.sleep(1)  # virtual: the brokers learn of each other's consumers
        producer = session_a.create_producer(ORDERS)
        for number in range(6):
            await producer.send(f"order {number}")
        for name, consumer in zip(NAMES, consumers, strict=True):
            print(name, [(await consumer.receive()).body for _ in range(2)])

        for consumer in consumers[:2]:
            await consumer.close()
        await trio.sleep(1)
        await producer.send("order 6")
        print("c", (await consumers[2].receive()).body)


trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
