"""Factories and destinations by the names that a jndi.properties file gives them."""

import tempfile
from pathlib import Path

import trio

from embedbroker import EmbeddedBroker
from embedclient import InitialContext

PROPERTIES = r"""
java.naming.factory.initial = \
    org.apache.activemq.artemis.jndi.ActiveMQInitialContextFactory
connectionFactory.warehouse = vm://broker?reconnectAttempts=-1
queue.orders = warehouse.orders
"""


async def main(file: Path) -> None:
    names = InitialContext(file)
    orders = names.destination("orders")
    async with (
        EmbeddedBroker(name="broker"),
        names.connection_factory("warehouse").connect() as connection,
        connection.session() as session,
        session.create_consumer(orders) as consumer,
    ):
        await session.create_producer(orders).send("two chairs")
        print(orders.name, (await consumer.receive()).body)


with tempfile.TemporaryDirectory() as directory:
    file = Path(directory) / "jndi.properties"
    file.write_text(PROPERTIES)
    trio.run(main, file)
