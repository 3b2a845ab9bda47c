"""A message goes from one broker to another, exactly once: a branch on each, both
prepared before one is committed.
"""

from uuid import uuid4

import trio

from embedbroker import EmbeddedBroker
from embedclient import Queue, XAConnectionFactory, XAException, XaFlag, XAResource, Xid

ORDERS, SHIPMENTS = Queue("orders"), Queue("shipments")


def new_branches() -> tuple[Xid, Xid]:
    transaction = uuid4().bytes
    return Xid(1, b"shop", transaction), Xid(1, b"store", transaction)


async def commit_both(branches: dict[Xid, XAResource]) -> None:
    """What a transaction manager does; a real one writes its decision to disk between
    the two phases.
    """
    for xid, resource in branches.items():
        await resource.end(xid, XaFlag.TMSUCCESS)
    try:
        for xid, resource in branches.items():
            await resource.prepare(xid)
    except XAException as error:
        print("rolled back:", error)
        for xid, resource in branches.items():
            await resource.rollback(xid)
        return
    for xid, resource in branches.items():
        await resource.commit(xid)


async def main() -> None:
    async with (
        EmbeddedBroker() as shop,
        EmbeddedBroker() as store,
        XAConnectionFactory(shop.url).create_xa_context() as shop_context,
        XAConnectionFactory(store.url).create_xa_context() as store_context,
    ):
        await shop_context.create_producer().send(ORDERS, "two coffees")

        taken, put = new_branches()
        await shop_context.xa_resource.start(taken)
        await store_context.xa_resource.start(put)
        async with shop_context.create_consumer(ORDERS) as orders:
            order = await orders.receive()
            await store_context.create_producer().send(SHIPMENTS, f"ship {order.body}")
            await commit_both(
                {taken: shop_context.xa_resource, put: store_context.xa_resource}
            )

        for context, queue in ((shop_context, ORDERS), (store_context, SHIPMENTS)):
            async with context.create_browser(queue) as browser:
                print(f"{queue}: {[message.body async for message in browser]}")
        print("in doubt:", await shop_context.xa_resource.recover())


trio.run(main)
