"""Certificates for development, a broker that requires one of each client, and a client
that has one.
"""

import subprocess
import sys
import tempfile

import trio

from embedbroker import EmbeddedBroker
from embedclient import ConnectionFactory, Queue, TLSSettings
from embedclient.errors import JMSException

ORDERS = Queue("orders")


async def main(directory: str) -> None:
    authority = f"{directory}/ca.pem"
    serving = TLSSettings(
        key_store_path=f"{directory}/server.pem",
        trust_store_path=authority,
        need_client_auth=True,
    )
    async with EmbeddedBroker(tls=serving) as broker:
        print(broker.url)
        shop = TLSSettings(
            key_store_path=f"{directory}/shop.pem", trust_store_path=authority
        )
        factory = ConnectionFactory(broker.url, tls=shop)
        async with factory.connect() as connection, connection.session() as session:
            await session.create_producer(ORDERS).send("two coffees")

        # The same as a URL.
        url = (
            f"{broker.url}&trustStorePath={authority}&keyStorePath={directory}/shop.pem"
        )
        async with (
            ConnectionFactory(url).connect() as connection,
            connection.session() as session,
            session.create_consumer(ORDERS) as consumer,
        ):
            message = await consumer.receive()
            print(message.body)

        try:
            async with ConnectionFactory(
                f"{broker.url}&trustStorePath={authority}"
            ).connect():
                pass
        except JMSException as error:
            print(error)


with tempfile.TemporaryDirectory() as directory:
    command = [
        sys.executable,
        "-m",
        "embedbroker",
        "cert",
        directory,
        "--client",
        "shop",
    ]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    trio.run(main, directory)
