"""The load of the cluster cases: our client produces at one node and consumes at another, in this process.

The same client drives nodes of both kinds. Its processor time counts for neither.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial

import trio

from benchmarks.java_load import artemis
from embedbroker.cli._management_client import Manager
from embedclient import (
    ConnectionFactory,
    DeliveryMode,
    MessageConsumer,
    MessageProducer,
    Queue,
    Session,
    TextMessage,
    Topic,
)

BODY = b"x" * 1024
# Messages that were sent and not received. With few of them, a node spends its time on waking up.
WINDOW = 500
_WAIT_S = 60.0


def _factory(url: str) -> ConnectionFactory:
    return ConnectionFactory(url, user="admin", password="admin")


def transfer(source: str, target: str, queue: str, count: int) -> float:
    """Send non-durable messages of 1 KiB to one node, and receive them at another. Return messages per second.

    It begins when a message has come through, so when the source has bindings of the target.
    """
    return trio.run(_transfer, source, target, queue, count)


async def _transfer(source: str, target: str, queue: str, count: int) -> float:
    async with (
        _factory(source).connect() as near,
        _factory(target).connect() as far,
        near.session() as sending,
        far.session() as receiving,
        receiving.create_consumer(Queue(queue)) as consumer,
        trio.open_nursery() as nursery,
    ):
        send = partial(sending.create_producer(Queue(queue)).send, BODY, delivery_mode=DeliveryMode.NON_PERSISTENT)
        await _until_connected(source, queue, consumer)
        window = trio.Semaphore(WINDOW)

        async def produce() -> None:
            for _ in range(count):
                await window.acquire()
                await send()

        began = time.perf_counter()
        nursery.start_soon(produce)
        for _ in range(count):
            await _next(consumer)
            window.release()
        return count / (time.perf_counter() - began)


async def _until_connected(source: str, queue: str, consumer: MessageConsumer) -> None:
    """Return when a message came from the source to the consumer at the target.

    What the source keeps before that is received there, for it would never come.
    """
    with trio.fail_after(_WAIT_S):
        async with _factory(source).connect() as connection, connection.session() as session:
            producer = session.create_producer(Queue(queue))
            while True:
                await producer.send(BODY, delivery_mode=DeliveryMode.NON_PERSISTENT)
                if await consumer.receive(timeout=0.2) is not None:
                    return
                async with session.create_consumer(Queue(queue)) as here:
                    while await here.receive(timeout=0.05) is not None:
                        pass


async def _next(consumer: MessageConsumer) -> None:
    # Without a time limit: a deadline for each message would cost as much as the message.
    assert await consumer.receive() is not None, "the consumer was closed"


# -- durable -----------------------------------------------------------------------------------------------------------


def blocking_sends(source: str, target: str, queue: str, threads: int, per_thread: int) -> tuple[float, float]:
    """Send durable messages by `artemis producer` to one node, and receive them at another.

    Return messages sent per second, and messages received per second from the first receipt to the last.
    """
    return trio.run(_blocking_sends, source, target, queue, threads, per_thread)


async def _blocking_sends(source: str, target: str, queue: str, threads: int, per_thread: int) -> tuple[float, float]:
    words = ("producer", "--url", source, "--user", "admin", "--password", "admin", "--destination", f"queue://{queue}")
    load = ("--silent", "--message-size", len(BODY), "--message-count", per_thread, "--threads", threads)
    total, sent = threads * per_thread, 0.0

    async def produce() -> None:
        nonlocal sent
        lines = await trio.to_thread.run_sync(lambda: artemis(*words, *load))
        elapsed = [int(match[1]) for line in lines if (match := re.search(r"milli second : (\d+)", line))]
        assert len(elapsed) == threads, lines
        sent = total / max(elapsed) * 1000

    async with (
        _factory(target).connect() as far,
        far.session() as receiving,
        receiving.create_consumer(Queue(queue)) as consumer,
        trio.open_nursery() as nursery,
    ):
        await _until_connected(source, queue, consumer)
        nursery.start_soon(produce)
        await _next(consumer)
        began = time.perf_counter()
        for _ in range(total - 1):
            await _next(consumer)
        received = (total - 1) / (time.perf_counter() - began)
    return sent, received


# -- redistribution ----------------------------------------------------------------------------------------------------


def redistribution(source: str, target: str, queue: str, count: int) -> float:
    """Fill a queue of one node, and let its last consumer leave. Return seconds until all messages are at another."""
    return trio.run(_redistribution, source, target, queue, count)


async def _redistribution(source: str, target: str, queue: str, count: int) -> float:
    # Consumers that hold no messages: all of them stay in the queue, and are counted there.
    async with (
        _factory(f"{source}?consumerWindowSize=0").connect() as near,
        _factory(f"{target}?consumerWindowSize=0").connect() as far,
        near.session(transacted=True) as filling,
        near.session() as holding,
        far.session() as receiving,
        far.session() as asking,
    ):
        keeper = await holding.create_consumer(Queue(queue))
        await _fill(filling, queue, count)
        replies = await asking.create_temporary_queue()
        manager = Manager(
            asking.create_producer(Queue("activemq.management")), replies, await asking.create_consumer(replies)
        )
        await receiving.create_consumer(Queue(queue))
        # The source receives that there is a consumer; it has one, too.
        await trio.sleep(2)
        assert await manager.read(f"queue.{queue}", "messageCount") == 0
        began = time.perf_counter()
        await keeper.close()
        with trio.fail_after(10 * _WAIT_S):
            # Polled: no notification comes for a number of messages.
            while await manager.read(f"queue.{queue}", "messageCount") < count:  # noqa: ASYNC110
                await trio.sleep(0.05)
        return time.perf_counter() - began


async def _fill(session: Session, queue: str, count: int) -> None:
    producer = session.create_producer(Queue(queue))
    for number in range(count):
        await producer.send(BODY)
        if number % 1_000 == 999:
            await session.commit()
    await session.commit()


# -- start -------------------------------------------------------------------------------------------------------------


def first_messages(urls: Sequence[str]) -> None:
    """Return when a message has come from each node to each other one."""
    trio.run(_first_messages, urls)


async def _first_messages(urls: Sequence[str]) -> None:
    topic = Topic("links")
    async with AsyncExitStack() as stack:
        sessions = []
        for url in urls:
            connection = await stack.enter_async_context(_factory(url).connect())
            receiving = await stack.enter_async_context(connection.session())
            sessions.append((receiving, await stack.enter_async_context(connection.session())))
        consumers = [await receiving.create_consumer(topic) for receiving, _ in sessions]
        producers = [sending.create_producer(topic) for _, sending in sessions]
        async with trio.open_nursery() as senders:
            for number, producer in enumerate(producers):
                senders.start_soon(_publish, producer, str(number))
            with trio.fail_after(_WAIT_S):
                async with trio.open_nursery() as receivers:
                    for consumer in consumers:
                        receivers.start_soon(_hear, consumer, len(urls))
            senders.cancel_scope.cancel()


async def _publish(producer: MessageProducer, name: str) -> None:
    while True:
        await producer.send(TextMessage(name), delivery_mode=DeliveryMode.NON_PERSISTENT)
        await trio.sleep(0.01)


async def _hear(consumer: MessageConsumer, count: int) -> None:
    heard = set[object]()
    while len(heard) < count:
        message = await consumer.receive()
        assert message is not None
        heard.add(message.body)
