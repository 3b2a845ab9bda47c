"""2.2: sessions and transactions while their broker is replaced. XA is in test_xa_over_failover.py.

What needs a backup that refuses sessions, or a look into a client, is in tests/embedclient/scenarios.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from embedbroker.pytest_plugin import BrokerClock, BrokerPair, FaultPlan
from embedclient import AcknowledgeMode, ConnectionFactory, Message, Queue, Session, TextMessage
from embedclient.errors import (
    DuplicateIDException,
    JMSException,
    TransactionOutcomeUnknownException,
    TransactionRolledBackException,
    UnblockedException,
)
from tests.scenarios.clients import ORDERS, commit, numbered, put, queued, session_at, take

COUNT, MANY = 40, 500
#: The next call is made while the client still looks for the backup, or when it is there.
MOMENTS = pytest.mark.parametrize("later_s", [0, 1], ids=["during", "behind"])


async def test_timeout_on_failover(broker_pair: BrokerPair, fault_plan: FaultPlan, broker_clock: BrokerClock) -> None:
    """2.2.1

    Given 500 blocking sends with a call time-out of one second, and a backup whose slow disk keeps it from being live
    at once, when the primary crashes in the middle and failed sends are repeated, then none is lost, and they are in
    order but for repetitions.
    """
    async with session_at(f"{broker_pair.url}&callTimeout=1000") as session:
        producer = session.create_producer(ORDERS)
        for number, text in enumerate(numbered(0, MANY)):
            if number == MANY // 2:
                fault_plan.at(0.05, broker_pair.live.crash)
                broker_pair.backup.disk.slow_down(0.1)
            while True:
                try:
                    await producer.send(text)
                except JMSException:
                    continue
                break
            await broker_clock.advance(0.01)
        broker_pair.backup.disk.heal()
        assert broker_pair.live is broker_pair.backup
        assert [*dict.fromkeys(await queued(broker_pair))] == numbered(0, MANY)


@pytest.mark.parametrize("window", ["", "&consumerWindowSize=0"], ids=["handler", "handler and window 0"])
async def test_timeout_on_failover_consume(broker_pair: BrokerPair, window: str) -> None:
    """2.2.2, 2.2.7

    Given a handler that acknowledges 500 messages, with and without messages in advance, when the primary crashes in
    the middle, then it gets every number, at least once.
    """
    received: list[str] = []
    all_here, half_here = trio.Event(), trio.Event()

    def handle(message: Message) -> None:
        received.append(str(message.body))
        for event, count in ((half_here, MANY // 2), (all_here, MANY)):
            if len(set(received)) >= count:
                event.set()

    async with session_at(broker_pair.url) as session:
        await put(session, numbered(0, MANY))
        async with session_at(f"{broker_pair.url}{window}") as other, other.create_consumer(ORDERS) as consumer:
            consumer.set_message_listener(handle)
            await half_here.wait()
            await broker_pair.failover()
            await all_here.wait()
    assert {*received} == {*numbered(0, MANY)}


async def test_timeout_on_failover_consume_blocked(broker_pair: BrokerPair) -> None:
    """2.2.3

    Given receives that wait for one message each, with window 0, when the primary crashes, then all numbers come.
    """
    async with session_at(f"{broker_pair.url}&consumerWindowSize=0") as session:
        await put(session, numbered(0, COUNT))
        async with session.create_consumer(ORDERS) as consumer:
            found = await take(consumer, COUNT // 2)
            await broker_pair.failover()
            while len(set(found)) < COUNT:
                found += await take(consumer, 1)
    assert [*dict.fromkeys(found)] == numbered(0, COUNT)


# -- transactions --------------------------------------------------------------------------------------------------


@MOMENTS
@pytest.mark.parametrize("share", [1, 2], ids=["transacted messages consumed, so rollback", "half"])
async def test_consume_transacted(
    broker_pair: BrokerPair, broker_clock: BrokerClock, share: int, later_s: float
) -> None:
    """2.2.5, 2.2.8, 2.2.13

    Given that all, or half, was received in a transaction, when the primary crashes, then its commit raises that it was
    rolled back, everything comes again, and can be committed.
    """
    async with session_at(broker_pair.url, transacted=True) as session:
        await commit(session, numbered(0, COUNT))
        async with session.create_consumer(ORDERS) as consumer:
            assert await take(consumer, COUNT // share) == numbered(0, COUNT // share)
            await broker_pair.failover()
            await broker_clock.advance(later_s)
            with pytest.raises(TransactionRolledBackException):
                await session.commit()
            assert await take(consumer, COUNT) == numbered(0, COUNT)
            await session.commit()
            assert await consumer.receive_nowait() is None
    await broker_pair.assert_empty("orders")


@MOMENTS
async def test_transacted_messages_sent_so_rollback(
    broker_pair: BrokerPair, broker_clock: BrokerClock, later_s: float
) -> None:
    """2.2.9, 2.2.10

    Given sends in a transaction, when the primary crashes, then its commit raises a rollback, and the queue
    is empty; after that the session commits new work.
    """
    async with session_at(broker_pair.url, transacted=True) as session:
        await put(session, numbered(0, COUNT))
        await broker_pair.failover()
        await broker_clock.advance(later_s)
        with pytest.raises(TransactionRolledBackException) as caught:
            await session.commit()
        assert type(caught.value) is TransactionRolledBackException
        assert await queued(broker_pair) == []
        await put(session, ["new work"])
        await session.commit()
        assert await queued(broker_pair) == ["new work"]


@MOMENTS
async def test_transacted_messages_not_sent_so_no_rollback(
    broker_pair: BrokerPair, broker_clock: BrokerClock, later_s: float
) -> None:
    """2.2.11

    Given that everything was committed, when the primary crashes, then the next commit succeeds.
    """
    async with session_at(broker_pair.url, transacted=True) as session:
        await commit(session, numbered(0, COUNT))
        await broker_pair.failover()
        await broker_clock.advance(later_s)
        await session.commit()
        assert await queued(broker_pair) == numbered(0, COUNT)


@MOMENTS
async def test_transacted_messages_with_consumer_started_before_failover(
    broker_pair: BrokerPair, broker_clock: BrokerClock, later_s: float
) -> None:
    """2.2.12

    Given a consumer that was sent everything and took nothing, when the primary crashes, then the commit succeeds, and
    the messages are there.
    """
    async with session_at(broker_pair.url, transacted=True) as session:
        await commit(session, numbered(0, COUNT))
        async with session.create_consumer(ORDERS) as consumer:
            await broker_pair.wait_for(queue="orders", count=COUNT, consumers=1)
            await broker_pair.failover()
            await broker_clock.advance(later_s)
            await session.commit()
            assert await take(consumer, COUNT) == numbered(0, COUNT)
            await session.commit()


@MOMENTS
async def test_transacted_messages_not_consumed_so_no_rollback(
    broker_pair: BrokerPair, broker_clock: BrokerClock, later_s: float
) -> None:
    """2.2.14

    Given that the first half was received and committed, when the primary crashes, then a commit succeeds, and only the
    second half comes.
    """
    async with session_at(broker_pair.url, transacted=True) as session:
        await commit(session, numbered(0, COUNT))
        async with session.create_consumer(ORDERS) as consumer:
            assert await take(consumer, COUNT // 2) == numbered(0, COUNT // 2)
            await session.commit()
            await broker_pair.failover()
            await broker_clock.advance(later_s)
            await session.commit()
            assert await take(consumer, COUNT // 2) == numbered(COUNT // 2, COUNT)
            await session.commit()


# -- calls that were cut off ---------------------------------------------------------------------------------------


@asynccontextmanager
async def cut_off(pair: BrokerPair, *, arrives: bool, clock: BrokerClock) -> AsyncIterator[None]:
    """What is called in here gets no answer, or does not even get to the broker, before that crashes."""
    primary = pair.live
    primary.link.partition("from_broker" if arrives else "both")

    async def fail_over() -> None:
        await clock.advance(0.5)
        primary.link.cut()  # what the partition held back is lost
        await pair.failover()
        primary.link.heal()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(fail_over)
        yield


async def put_with_ids(session: Session) -> None:
    """All texts, each with itself as duplicate id."""
    producer = session.create_producer(ORDERS)
    for text in numbered(0, COUNT):
        await producer.send(TextMessage(text, properties={"_AMQ_DUPL_ID": text}))
    await producer.close()


async def test_commit_occurred_unblocked_and_resend_no_duplicates(
    broker_pair: BrokerPair, broker_clock: BrokerClock
) -> None:
    """2.2.22

    Given a commit that got to the broker, and whose answer did not come back, when that crashes, then the client
    gets that the outcome is unknown, and the repetition with the same ids is refused.
    """
    async with session_at(broker_pair.url, transacted=True) as session:
        await put_with_ids(session)
        async with cut_off(broker_pair, arrives=True, clock=broker_clock):
            with pytest.raises(TransactionOutcomeUnknownException):
                await session.commit()
        await put_with_ids(session)
        with pytest.raises(DuplicateIDException):
            await session.commit()
        assert await queued(broker_pair) == numbered(0, COUNT)


async def test_commit_did_not_occur_unblocked_and_resend(broker_pair: BrokerPair, broker_clock: BrokerClock) -> None:
    """2.2.23

    Given a commit that never got to the broker, when that crashes, then the repetition gives each message once.
    """
    async with session_at(broker_pair.url, transacted=True) as session:
        await put_with_ids(session)
        async with cut_off(broker_pair, arrives=False, clock=broker_clock):
            with pytest.raises(TransactionRolledBackException):
                await session.commit()
        await put_with_ids(session)
        await session.commit()
        assert await queued(broker_pair) == numbered(0, COUNT)


async def test_force_blocking_return(broker_pair: BrokerPair, broker_clock: BrokerClock) -> None:
    """2.2.24

    Given a blocking send whose answer is withheld, when the broker crashes, then it ends as unblocked, with the reason.
    """
    async with session_at(broker_pair.url) as session:
        producer = session.create_producer(ORDERS)
        await producer.send("before")
        async with cut_off(broker_pair, arrives=True, clock=broker_clock):
            with pytest.raises(UnblockedException) as caught:
                await producer.send("withheld")
        assert isinstance(caught.value.linked_exception, JMSException)
        assert await queued(broker_pair) == ["before", "withheld"]


# -- what comes again ----------------------------------------------------------------------------------------------


async def test_fail_then_receive_more_messages_after_failover(broker_pair: BrokerPair) -> None:
    """2.2.26

    Given messages that were not acknowledged, when the primary crashes, then the durable ones come again.
    """
    async with (
        ConnectionFactory(broker_pair.url).connect() as connection,
        connection.session(acknowledge_mode=AcknowledgeMode.CLIENT) as session,
    ):
        for number in range(COUNT):
            await put(session, [str(number)], durable=number % 2 == 0)
        async with session.create_consumer(ORDERS) as consumer:
            assert await take(consumer, COUNT) == numbered(0, COUNT)
            await broker_pair.failover()
            assert await take(consumer, COUNT // 2) == numbered(0, COUNT)[::2]
            assert await consumer.receive_nowait() is None


async def test_fail_then_receive_more_messages_after_failover_2(broker_pair: BrokerPair) -> None:
    """2.2.27

    Given messages that were acknowledged, when the primary crashes and more are sent, then only the new ones come.
    """
    async with (
        ConnectionFactory(broker_pair.url).connect() as connection,
        connection.session(acknowledge_mode=AcknowledgeMode.CLIENT) as session,
        session.create_consumer(ORDERS) as consumer,
    ):
        await put(session, numbered(0, COUNT))
        received = [await consumer.receive() for _ in range(COUNT)]
        assert received[-1] is not None
        await received[-1].acknowledge()
        await broker_pair.failover()
        await put(session, numbered(COUNT, 2 * COUNT))
        assert await take(consumer, COUNT) == numbered(COUNT, 2 * COUNT)
        assert await consumer.receive_nowait() is None


async def test_failover_multiple_sessions_with_consumers(broker_pair: BrokerPair) -> None:
    """2.2.28

    Given five sessions with five consumers each on queues of their own, when the primary crashes, then every consumer
    gets everything.
    """
    async with ConnectionFactory(broker_pair.url).connect() as connection:
        sessions = [await connection.create_session() for _ in range(5)]
        consumers = {
            Queue(f"{number}.{place}"): await session.create_consumer(Queue(f"{number}.{place}"))
            for number, session in enumerate(sessions)
            for place in range(5)
        }
        await broker_pair.failover()
        async with connection.session() as session:
            for queue in consumers:
                await put(session, ["one", "two"], queue)
        for consumer in consumers.values():
            assert await take(consumer, 2) == ["one", "two"]
