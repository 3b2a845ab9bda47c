"""A file of any size as one message: sent while read, saved while it arrives."""

from pathlib import Path
from tempfile import TemporaryDirectory

import trio

from embedbroker import EmbeddedBroker
from embedclient import BytesMessage, ConnectionFactory, Queue

FILMS = Queue("films")
# Bodies above 1 MiB stay outside the memory of this program.
SETTINGS = "maxLargeMessageBodySize=1048576"


async def main(folder: Path) -> None:
    (folder / "film.mp4").write_bytes(bytes(5_000_000))
    async with (
        EmbeddedBroker() as broker,
        ConnectionFactory(f"{broker.url}?{SETTINGS}").connect() as connection,
        connection.session() as session,
        session.create_consumer(FILMS) as consumer,
    ):
        producer = session.create_producer(FILMS)
        with (folder / "film.mp4").open("rb") as file:
            await producer.send(BytesMessage(file, properties={"title": "Rain"}))
            file.seek(0)
            await producer.send(file)
        await producer.send("x" * 300_000)

        message = await consumer.receive()
        await message.save_to(folder / "copy.mp4")
        print(
            "saved", message.properties["title"], (folder / "copy.mp4").stat().st_size
        )

        message = await consumer.receive()
        size = 0
        async for piece in message.chunks():
            size += len(piece)
        print("read", size)

        message = await consumer.receive()
        print("received", type(message).__name__, len(message.body))


with TemporaryDirectory() as directory:
    trio.run(main, Path(directory))
