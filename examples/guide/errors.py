"""What goes wrong, as which exception, and with which code."""

import trio

from embedbroker import AddressFullPolicy, AddressSettings, EmbeddedBroker
from embedclient import ConnectionFactory, JMSException, Queue
from embedclient.errors import ConnectionLostException, ErrorCode

SETTINGS = {
    "closed.#": AddressSettings(auto_create_queues=False, auto_create_addresses=False),
    "small.#": AddressSettings(
        max_size_bytes=100, address_full_policy=AddressFullPolicy.FAIL
    ),
}


def show(error: JMSException) -> None:
    print(
        f"{type(error).__name__} {error.error_code} "
        f"{ErrorCode(error.error_code).name}: {error}"
    )


async def main() -> None:
    async with (
        EmbeddedBroker(address_settings=SETTINGS) as broker,
        ConnectionFactory(broker.vm_url).connect() as connection,
        connection.session() as session,
    ):
        try:
            await session.create_producer(Queue("closed.orders")).send("hello")
        except JMSException as error:
            show(error)
        try:
            await session.create_consumer(Queue("orders"), "price >")
        except JMSException as error:
            show(error)
        try:
            for _ in range(2):
                await session.create_producer(Queue("small.orders")).send(
                    "a hundred bytes are soon full"
                )
        except JMSException as error:
            show(error)
        await session.create_producer(Queue("orders")).send("the session still works")

    try:
        ConnectionFactory("tcp://localhost:61616?reconectAttempts=5")
    except ValueError as error:
        # Every exception of the tree also derives from the fitting builtin.
        assert isinstance(error, JMSException)
        show(error)
    try:
        async with ConnectionFactory("vm://nobody").connect():
            pass
    except ConnectionError as error:
        assert isinstance(error, ConnectionLostException)
        show(error)


trio.run(main)
