"""A broker whose memory is used up: producers that keep to their credit wait, others get an error."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from embedbroker import EmbeddedBroker
from embedclient import Connection, ConnectionFactory, DeliveryMode, Queue
from embedclient.errors import AddressFullException, TransactionRolledBackException

PRODUCERS = 300
EACH = 8
WITHOUT_CREDIT = "?producerWindowSize=-1"


@pytest.mark.parametrize("body", ["x" * 100, "x" * 10_000], ids=["small", "larger"])
async def test_hundreds_of_producers_wait_for_each_other_and_none_is_refused(body: str) -> None:
    queue = Queue("q")

    async def produce(connection: Connection) -> None:
        async with connection.session() as session:
            producer = session.create_producer(queue)
            for _ in range(EACH):
                await producer.send(body, delivery_mode=DeliveryMode.NON_PERSISTENT)

    with trio.fail_after(60):
        async with (
            EmbeddedBroker(global_max_size_bytes=1024 * 1024) as broker,
            ConnectionFactory(broker.vm_url).connect() as sending,
            ConnectionFactory(broker.vm_url).connect() as receiving,
            receiving.session() as session,
            trio.open_nursery() as nursery,
        ):
            for _ in range(PRODUCERS):
                nursery.start_soon(produce, sending)
            # Everything that credit allows is sent: many times the limit, of messages or of what they cost.
            await trio.testing.wait_all_tasks_blocked()
            async with session.create_consumer(queue) as consumer:
                for _ in range(PRODUCERS * EACH):
                    message = await consumer.receive()
                    assert message.body == body


async def test_a_producer_without_credit_is_told_that_the_broker_is_full() -> None:
    with trio.fail_after(30):
        async with (
            EmbeddedBroker(global_max_size_bytes=100_000) as broker,
            ConnectionFactory(broker.vm_url + WITHOUT_CREDIT).connect() as connection,
            connection.session() as session,
        ):
            producer = session.create_producer(Queue("q"))
            with pytest.raises(AddressFullException):
                for _ in range(30):
                    await producer.send("x" * 10_000)
            async with session.create_consumer(Queue("q")) as consumer:
                assert await consumer.receive() is not None
            await producer.send("x")


async def test_a_transaction_for_which_there_is_no_room_is_rolled_back() -> None:
    with trio.fail_after(30):
        async with (
            EmbeddedBroker(global_max_size_bytes=100_000) as broker,
            ConnectionFactory(broker.vm_url + WITHOUT_CREDIT).connect() as connection,
            connection.session(transacted=True) as session,
        ):
            producer = session.create_producer(Queue("q"))
            for _ in range(30):
                await producer.send("x" * 10_000)
            with pytest.raises(TransactionRolledBackException):
                await session.commit()
            await producer.send("x")
            await session.commit()
