"""A work queue: four workers, and failed jobs that become dead letters."""

import trio

from embedbroker import AddressSettings, EmbeddedBroker
from embedclient import Connection, ConnectionFactory

done: list[str] = []


def handle(job: str) -> None:
    if job == "broken":
        raise ValueError("this job cannot be done")
    done.append(job)


async def worker(connection: Connection) -> None:
    async with connection.consume("jobs") as messages:
        async for message in messages:
            async with message.processing():
                handle(message.body)


async def main() -> None:
    tries = AddressSettings(max_delivery_attempts=3, dead_letter_address="DLQ")
    async with (
        EmbeddedBroker(address_settings={"jobs": tries}) as broker,
        ConnectionFactory(broker.vm_url).connect() as connection,
        trio.open_nursery() as workers,
    ):
        for _ in range(4):
            workers.start_soon(worker, connection)
        for job in ("wash", "broken", "dry"):
            await connection.send("jobs", job)
        async with connection.consume("DLQ") as dead_letters:
            letter = await dead_letters.receive()
            print("dead letter:", letter.body)
        print("done:", *sorted(done))
        workers.cancel_scope.cancel()


trio.run(main)
