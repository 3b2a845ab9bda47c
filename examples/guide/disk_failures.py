"""A disk that loses what was not synced, and a disk that is full: what was confirmed is
there afterwards.
"""

import random

import trio

from embedbroker import EmbeddedBroker
from embedbroker.testing import SimulatedDisk
from embedclient import ConnectionFactory, JMSException, Queue

LEDGER = Queue("ledger")


async def send_until_it_fails(url: str, count: int) -> int:
    """Send one after the other; returns how many the broker confirmed."""
    confirmed = 0
    async with (
        ConnectionFactory(url).connect() as connection,
        connection.session() as session,
    ):
        producer = session.create_producer(LEDGER)
        try:
            for number in range(count):
                await producer.send(f"entry {number}" + "." * 40_000)
                confirmed += 1
        except JMSException as error:
            print(f"send number {confirmed} failed: {type(error).__name__}")
    return confirmed


async def count_messages(url: str) -> int:
    async with (
        ConnectionFactory(url).create_context() as context,
        context.create_browser(LEDGER) as browser,
    ):
        return len([message async for message in browser])


async def main() -> None:
    disk = SimulatedDisk()
    async with EmbeddedBroker(disk=disk, segment_size_bytes=1_048_576) as broker:
        confirmed = await send_until_it_fails(broker.vm_url, 5)
        await broker.crash()
        disk.crash(random.Random(7))
        await broker.start()
        print(
            f"after a power cut: {await count_messages(broker.vm_url)} "
            f"of {confirmed} confirmed messages are there"
        )

        disk.capacity_bytes = 4_000_000
        confirmed += await send_until_it_fails(broker.vm_url, 100)
        print("the broker:", await broker.wait_failed())
        disk.capacity_bytes = None
        await broker.stop()
        await broker.start()
        found = await count_messages(broker.vm_url)
        print(
            "with space again:",
            "nothing confirmed is missing"
            if found >= confirmed
            else "messages are missing",
        )


trio.run(main)
