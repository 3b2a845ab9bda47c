"""A request whose reply comes through a temporary queue."""

import trio

from embedbroker import EmbeddedBroker
from embedclient import ConnectionFactory, Queue, StreamMessage, TextMessage


async def serve(
    url: str, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    async with (
        ConnectionFactory(url).connect() as connection,
        connection.session() as session,
    ):
        # Without a destination: each send names one.
        replies = session.create_producer()
        async with session.create_consumer(Queue("adder")) as requests:
            task_status.started()
            async for request in requests:
                reply = TextMessage(
                    str(sum(request.body)), correlation_id=request.message_id
                )
                await replies.send(reply, destination=request.reply_to)


async def main() -> None:
    async with EmbeddedBroker() as broker, trio.open_nursery() as nursery:
        await nursery.start(serve, broker.vm_url)
        async with (
            ConnectionFactory(broker.vm_url).connect() as connection,
            connection.session() as session,
        ):
            inbox = await session.create_temporary_queue()
            request = StreamMessage([1, 2, 3], reply_to=inbox)
            await session.create_producer(Queue("adder")).send(request)
            async with session.create_consumer(inbox) as consumer:
                reply = await consumer.receive()
                print(reply.body, reply.correlation_id == request.message_id)
        nursery.cancel_scope.cancel()


trio.run(main)
