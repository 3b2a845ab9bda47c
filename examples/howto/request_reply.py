"""A service that replies, a client that waits, and one that stops waiting."""

import trio

from embedbroker import EmbeddedBroker
from embedclient import Connection, ConnectionFactory, TextMessage


async def serve(connection: Connection) -> None:
    async with connection.session() as session:
        replies = session.create_producer()
        async with session.create_consumer("upper") as requests:
            async for request in requests:
                if request.body != "slow":
                    text, to = request.body.upper(), request.reply_to
                    reply = TextMessage(text, correlation_id=request.message_id)
                    await replies.send(reply, destination=to)


async def main() -> None:
    async with (
        EmbeddedBroker() as broker,
        ConnectionFactory(broker.vm_url).connect() as connection,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(serve, connection)
        print((await connection.request("upper", "tea", timeout=5)).body)
        with trio.move_on_after(0.1):
            await connection.request("upper", "slow")
            print("never printed")
        nursery.cancel_scope.cancel()


trio.run(main)
