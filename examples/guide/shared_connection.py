"""One connection that many tasks use at once: a service, and forty requests to it."""

import trio

from embedbroker import EmbeddedBroker
from embedclient import Connection, ConnectionFactory, TextMessage


async def serve(connection: Connection) -> None:
    async with (
        connection.session() as session,
        session.create_consumer("upper") as requests,
    ):
        async for request in requests:
            reply = TextMessage(request.body.upper(), correlation_id=request.message_id)
            if request.reply_to is not None:
                await connection.send(request.reply_to, reply)


async def ask(connection: Connection, word: str, replies: list[str]) -> None:
    reply = await connection.request("upper", word, timeout=5)
    replies.append(reply.body)


async def main() -> None:
    replies: list[str] = []
    async with (
        EmbeddedBroker() as broker,
        ConnectionFactory(broker.vm_url).connect() as connection,
        trio.open_nursery() as service,
    ):
        service.start_soon(serve, connection)
        async with trio.open_nursery() as clients:
            for number in range(40):
                clients.start_soon(ask, connection, f"word {number}", replies)
        service.cancel_scope.cancel()
    print(f"{len(replies)} replies, the last in order: {sorted(replies)[-1]}")


trio.run(main)
