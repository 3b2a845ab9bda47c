"""A batch is published exactly once, however often its publisher has to try: branches,
and a marker that counts.
"""

import json
from uuid import uuid4

import trio

from embedbroker import EmbeddedBroker
from embedclient import Queue, TextMessage, XAConnectionFactory, XAJMSContext, Xid

ORDERS, SERVICES = Queue("orders"), Queue("embedbroker.services")


async def ask(
    context: XAJMSContext, operation: str, **fields: object
) -> dict[str, object]:
    replies = await context.create_temporary_queue()
    async with context.create_consumer(replies) as consumer:
        request = TextMessage(
            json.dumps({"operation": operation, **fields}),
            reply_to=replies,
            correlation_id="1",
        )
        await context.create_producer().send(SERVICES, request)
        reply = await consumer.receive()
    assert isinstance(reply, TextMessage) and reply.text is not None
    return {"status": reply.properties["embedbroker_status"], **json.loads(reply.text)}


async def prepare(context: XAJMSContext, *orders: str) -> dict[str, object]:
    """What each of several writers does. Returns its branch as requests name it."""
    xid = Xid(1, uuid4().bytes, b"batch 1")
    await context.xa_resource.start(xid)
    for order in orders:
        await context.create_producer().send(ORDERS, order)
    await context.xa_resource.end(xid)
    await context.xa_resource.prepare(xid)
    return {
        "format": xid.format_id,
        "global": xid.global_transaction_id.hex(),
        "branch": xid.branch_qualifier.hex(),
    }


async def main() -> None:
    async with (
        EmbeddedBroker() as broker,
        XAConnectionFactory(broker.url).create_xa_context() as context,
    ):
        for _attempt in range(2):
            branches = [
                await prepare(context, "two coffees"),
                await prepare(context, "one tea", "no milk"),
            ]
            print(
                await ask(
                    context,
                    "commit-set",
                    marker="orders",
                    expected=None,
                    value=1,
                    branches=branches,
                )
            )

        async with context.create_browser(ORDERS) as browser:
            print([message.body async for message in browser])
        print(await ask(context, "marker.list", prefix=""))
        print(await ask(context, "marker.set", name="orders", expected=5, value=6))


trio.run(main)
