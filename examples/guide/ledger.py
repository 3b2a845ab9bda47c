"""The delivery ledger with real messages: a crash in the middle, and a verdict at the
end.
"""

import tempfile

import trio

from embedbroker import EmbeddedBroker
from embedbroker.ledger import Ledger
from embedclient import ConnectionFactory, JMSException, Queue, Session, TextMessage

TASKS = Queue("tasks")


async def send(session: Session, ledger: Ledger, key: str) -> None:
    ledger.sent(key, destination="tasks", producer="p", at=trio.current_time())
    try:
        await session.create_producer(TASKS).send(TextMessage(key))
    except JMSException:
        ledger.in_doubt(key)
    else:
        ledger.confirmed(key, at=trio.current_time())


async def drain(session: Session, ledger: Ledger) -> None:
    async with session.create_consumer(TASKS) as consumer:
        while (message := await consumer.receive_nowait()) is not None:
            ledger.delivered(
                "tasks",
                message.body,
                consumer="c",
                redelivered=message.redelivered,
                at=trio.current_time(),
            )
            ledger.acknowledging("tasks", message.body)
            ledger.acknowledged("tasks", message.body, at=trio.current_time())


async def main(directory: str) -> None:
    ledger = Ledger()
    ledger.subscribe("tasks", "tasks")
    async with EmbeddedBroker(data_directory=directory) as broker:
        settings = "reconnectAttempts=-1&retryInterval=20&blockOnAcknowledge=true"
        url = f"{broker.vm_url}?{settings}"
        async with (
            ConnectionFactory(url).connect() as connection,
            connection.session() as session,
        ):
            for number in range(10):
                await send(session, ledger, f"task {number}")
            ledger.killed(at=trio.current_time())
            await broker.crash()
            await broker.start()
            ledger.restarted(at=trio.current_time())
            await drain(session, ledger)

    verdict = ledger.verdict(drained=True)
    print(
        f"{verdict.confirmed} confirmed, {verdict.acknowledged} acknowledged, "
        f"{verdict.lost.count} lost"
    )
    print(f"clean: {verdict.clean}")


with tempfile.TemporaryDirectory() as directory:
    trio.run(main, directory)
