"""asyncio: the same classes from `embedclient.asyncio`, with a broker in a separate
thread.
"""

import asyncio

from embedbroker import EmbeddedBroker
from embedclient import Queue
from embedclient.asyncio import ConnectionFactory

QUESTIONS, ANSWERS = Queue("questions"), Queue("answers")


async def answer(url: str, count: int) -> None:
    async with (
        ConnectionFactory(url).connect() as connection,
        connection.session() as session,
    ):
        producer = session.create_producer(ANSWERS)
        async with session.create_consumer(QUESTIONS) as consumer:
            for _ in range(count):
                question = await consumer.receive()
                await producer.send(question.body.upper())


async def ask(url: str, *questions: str) -> None:
    async with (
        ConnectionFactory(url).connect() as connection,
        connection.session() as session,
    ):
        producer = session.create_producer(QUESTIONS)
        for question in questions:
            await producer.send(question)
        async with session.create_consumer(ANSWERS) as consumer:
            for _ in questions:
                print((await consumer.receive()).body)


async def main(url: str) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(answer(url, 2))
        group.create_task(ask(url, "tea?", "coffee?"))


with EmbeddedBroker.in_thread() as broker:
    asyncio.run(main(broker.url))
