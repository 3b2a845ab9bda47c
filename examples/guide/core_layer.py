"""The core layer: a locator, a session factory, a session, and messages that are bytes
with properties.
"""

import trio

from embedbroker import EmbeddedBroker
from embedclient import RoutingType, ServerLocator


async def main() -> None:
    async with (
        EmbeddedBroker() as broker,
        ServerLocator(broker.url).create_session_factory() as factory,
        factory.create_session(
            auto_commit_sends=False, auto_commit_acks=False
        ) as session,
    ):
        await session.create_queue("numbers", routing_type=RoutingType.ANYCAST)
        await session.start()

        message = session.create_message(b"\x01\x02\x03")
        message.properties["kind"] = "triple"
        await session.create_producer("numbers").send(message)
        await session.commit()

        async with session.create_consumer(
            "numbers", filter="kind = 'triple'"
        ) as consumer:
            received = await consumer.receive()
            print(received.body, received.properties["kind"], received.delivery_count)
            await received.acknowledge()
            await session.rollback()
            print("again:", (await consumer.receive()).delivery_count)


trio.run(main)
