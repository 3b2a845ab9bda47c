"""Two users of one queue: the shop sends orders, the warehouse reads them. A third one
guesses a password.
"""

import trio

from embedbroker import EmbeddedBroker, SecuritySetting, User
from embedclient import ConnectionFactory, Queue, TextMessage
from embedclient.errors import JMSSecurityException

USERS = [
    User("shop", "shop-password", roles=["senders"]),
    # As `embedbroker mask --hash` prints it: the configuration does not contain the
    # password.
    User(
        "warehouse",
        "ENC(scrypt:8192:8:1:000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f:3e6"
        "4b08c04479ad49a6a071dd6a03500d83a94dfe0189a9ff182408b136b35a87e9072124c889c9b68102a64abf"
        "117d741ac57d090f4fc57b41431947f28676b)",
        roles=["readers"],
    ),
]
SETTINGS = {
    "orders.#": SecuritySetting(
        send=["senders"],
        create_address=["senders"],
        create_durable_queue=["senders"],
        consume=["readers"],
    ),
}


async def main() -> None:
    orders = Queue("orders.new")
    async with EmbeddedBroker(users=USERS, security_settings=SETTINGS) as broker:
        factory = ConnectionFactory(broker.url)

        async with (
            factory.create_connection("shop", "shop-password") as connection,
            connection.session() as session,
        ):
            await session.create_producer(orders).send(TextMessage("two coffees"))
            try:
                await session.create_consumer(orders)
            except JMSSecurityException as error:
                print("shop:", error)

        url = f"{broker.url}?user=warehouse&password=warehouse-password"
        async with (
            ConnectionFactory(url).create_connection() as connection,
            connection.session() as session,
        ):
            consumer = await session.create_consumer(orders)
            print("warehouse:", (await consumer.receive()).body)

        try:
            async with factory.create_connection("warehouse", "12345"):
                pass
        except JMSSecurityException as error:
            print("guess:", error)


trio.run(main)
