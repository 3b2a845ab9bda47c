"""Acknowledgement modes, and which messages come again without an acknowledgement."""

import trio

from embedbroker import EmbeddedBroker
from embedclient import AcknowledgeMode, Connection, ConnectionFactory, Queue

TASKS = Queue("tasks")


async def receive_two_and_acknowledge_the_second(
    connection: Connection, mode: AcknowledgeMode
) -> None:
    async with connection.session() as session:
        producer = session.create_producer(TASKS)
        await producer.send("first")
        await producer.send("second")

    async with (
        connection.session(acknowledge_mode=mode) as session,
        session.create_consumer(TASKS) as consumer,
    ):
        await consumer.receive()
        second = await consumer.receive()
        await second.acknowledge()

    async with (
        connection.session() as session,
        session.create_consumer(TASKS) as consumer,
    ):
        left: list[str] = []
        while (message := await consumer.receive_nowait()) is not None:
            left.append(f"{message.body} (delivery {message.delivery_count})")
        print(f"{mode.name}: left in the queue: {', '.join(left) or 'nothing'}")


async def main() -> None:
    async with (
        EmbeddedBroker() as broker,
        ConnectionFactory(broker.url).connect() as connection,
    ):
        for mode in (
            AcknowledgeMode.AUTO,
            AcknowledgeMode.CLIENT,
            AcknowledgeMode.INDIVIDUAL,
        ):
            await receive_two_and_acknowledge_the_second(connection, mode)


trio.run(main)
