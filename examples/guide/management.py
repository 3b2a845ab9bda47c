"""Queues and settings are created, looked at and removed, by the program that owns the
broker and by a client of it.
"""

import json

import trio

from embedbroker import AddressSettings, EmbeddedBroker, SecuritySetting
from embedclient import ConnectionFactory, JMSContext, Queue, TextMessage


async def invoke(
    context: JMSContext, resource: str, operation: str, *arguments: object
) -> object:
    """Run an operation with a management message. It works with Artemis, too."""
    replies = await context.create_temporary_queue()
    async with context.create_consumer(replies) as consumer:
        request = TextMessage(json.dumps(arguments), reply_to=replies)
        request.properties["_AMQ_ResourceName"] = resource
        request.properties["_AMQ_OperationName"] = operation
        await context.create_producer().send(Queue("activemq.management"), request)
        reply = await consumer.receive()
    assert isinstance(reply, TextMessage)
    result = json.loads(reply.text) if reply.text else [None]
    if not reply.properties["_AMQ_OperationSucceeded"]:
        raise RuntimeError(result[0])
    return result[0]


async def main() -> None:
    async with (
        EmbeddedBroker() as broker,
        ConnectionFactory(broker.url).create_context() as context,
    ):
        await broker.management.create_queue("orders")
        for order in ("two coffees", "one tea"):
            await context.create_producer().send(Queue("orders"), order)

        for queue in await broker.management.queues():
            print(queue.name, queue.message_count, queue.consumer_count)

        print(await invoke(context, "queue.orders", "countMessages"))
        print(await invoke(context, "queue.orders", "removeAllMessages"))
        print(await broker.management.get("queue.orders", "MessagesAdded"))

        await broker.management.add_address_settings(
            "orders.#", AddressSettings(max_delivery_attempts=3)
        )
        settings = await broker.management.address_settings("orders.tea")
        print(settings.max_delivery_attempts, settings.dead_letter_address)
        await broker.management.remove_address_settings("orders.#")

        await broker.management.add_security_settings(
            "orders.#", SecuritySetting(send=["apps"], consume=["apps"])
        )
        permissions = await broker.management.security_settings("orders.tea")
        print(sorted(permissions.send), sorted(permissions.manage))
        await broker.management.remove_security_settings("orders.#")


trio.run(main)
